"""The rules about the spread of topics: no broker is given more of one, or leads more, than the instance allows."""

from collections import Counter
from collections.abc import Iterator, Mapping

from optimizer.audit.instance import Instance
from optimizer.audit.model import Key, Violation

Targets = Mapping[Key, tuple[int, ...]]


def check_spread(instance: Instance, targets: Targets) -> Iterator[Violation]:
    """No broker holds or leads more of a topic than its most, or than before where that is more, but where people are
    told."""
    before = _counts(instance, {})
    for (topic, broker), (held, most) in sorted(crowded(instance, targets).items()):
        allowed = max(most, before[topic, broker])
        if held > allowed and (topic, broker) not in instance.limits.excused_from_spread:
            detail = f"{held} replicas on broker {broker}, {before[topic, broker]} before, {most} are its most"
            yield Violation("topic_spread", topic, detail)
    led, leads = _led(instance, {}), _led(instance, targets)
    for (topic, broker), (held, most) in sorted(leads.items()):
        was = led.get((topic, broker), (0, most))[0]
        if held > max(most, was) and (topic, broker) not in instance.limits.excused_from_leader_spread:
            detail = f"broker {broker} leads {held} partitions, {was} before, {most} are its most"
            yield Violation("topic_leader_spread", topic, detail)


def _led(instance: Instance, targets: Targets) -> dict[tuple[str, int], tuple[int, int]]:
    """Partitions of each topic that has a most by preferred leader: how many, and the most."""
    asked = [(key, p) for key, p in instance.partitions.items() if p.topic_most_leaders is not None]
    most = {p.topic: p.topic_most_leaders or 0 for _, p in asked}
    counts = Counter((p.topic, targets.get(key, p.replicas)[0]) for key, p in asked)
    return {pair: (n, most[pair[0]]) for pair, n in counts.items()}


def crowded(instance: Instance, targets: Targets) -> dict[tuple[str, int], tuple[int, int]]:
    """Topics and brokers with more than the most under a plan: how many there are, and the most."""
    most = {p.topic: p.topic_most_replicas for p in instance.partitions.values() if p.topic_most_replicas is not None}
    counts = _counts(instance, targets).items() if most else ()
    return {pair: (n, most[pair[0]]) for pair, n in counts if n > most[pair[0]]}


def _counts(instance: Instance, targets: Targets) -> Counter[tuple[str, int]]:
    """Replicas of each topic that has a most on each broker."""
    asked = ((key, p) for key, p in instance.partitions.items() if p.topic_most_replicas is not None)
    return Counter((p.topic, broker) for key, p in asked for broker in targets.get(key, p.replicas))
