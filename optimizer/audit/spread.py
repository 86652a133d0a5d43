"""The rules about the spread of topics: no broker is given more of one, or leads more, than the instance allows."""

from collections import Counter
from collections.abc import Iterator, Mapping

from optimizer.audit.instance import Instance
from optimizer.audit.model import Key, Violation

Targets = Mapping[Key, tuple[int, ...]]
Mosts = Mapping[str, int]


def check_spread(instance: Instance, targets: Targets) -> Iterator[Violation]:
    """No broker holds or leads more of a topic than its most, or than before where that is more, but where people are
    told."""
    limits, most, most_led = instance.limits, _most_replicas(instance), _most_leaders(instance)
    for topic, broker, now, was in _grown(instance, targets, most, first=None):
        if (topic, broker) not in limits.excused_from_spread:
            detail = f"{now} replicas on broker {broker}, {was} before, {most[topic]} are its most"
            yield Violation("topic_spread", topic, detail)
    for topic, broker, now, was in _grown(instance, targets, most_led, first=1):
        if (topic, broker) not in limits.excused_from_leader_spread:
            detail = f"broker {broker} leads {now} partitions, {was} before, {most_led[topic]} are its most"
            yield Violation("topic_leader_spread", topic, detail)


def crowded(instance: Instance, targets: Targets) -> int:
    """How many times a broker holds more replicas of a topic than the most under a plan."""
    most = _most_replicas(instance)
    return sum(n > most[topic] for (topic, _), n in _counts(instance, targets, most, first=None).items())


def _most_replicas(instance: Instance) -> Mosts:
    asked = ((p.topic, p.topic_most_replicas) for p in instance.partitions.values())
    return {topic: most for topic, most in asked if most is not None}


def _most_leaders(instance: Instance) -> Mosts:
    asked = ((p.topic, p.topic_most_leaders) for p in instance.partitions.values())
    return {topic: most for topic, most in asked if most is not None}


def _grown(
    instance: Instance, targets: Targets, most: Mosts, *, first: int | None
) -> Iterator[tuple[str, int, int, int]]:
    """Topics and brokers with more than the most and than before: how many now, and before."""
    before = _counts(instance, {}, most, first=first)
    for (topic, broker), now in sorted(_counts(instance, targets, most, first=first).items()):
        if now > max(most[topic], before[topic, broker]):
            yield topic, broker, now, before[topic, broker]


def _counts(instance: Instance, targets: Targets, most: Mosts, *, first: int | None) -> Counter[tuple[str, int]]:
    """Replicas of each topic that has a most on each broker; ``first`` 1 counts preferred leaders alone."""
    asked = ((key, p) for key, p in instance.partitions.items() if p.topic in most)
    return Counter((p.topic, broker) for key, p in asked for broker in targets.get(key, p.replicas)[:first])
