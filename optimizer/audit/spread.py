"""The spread of topics (that of racks: ``instance``): who holds or leads more of one than the instance allows."""

from collections import Counter
from collections.abc import Iterator, Mapping

from optimizer.audit.claims import Key
from optimizer.audit.instance import Instance

Targets = Mapping[Key, tuple[int, ...]]
Mosts = Mapping[str, int]


def crowded(instance: Instance, targets: Targets) -> int:
    """How many times a broker holds more replicas of a topic than the most under a plan."""
    most = most_replicas(instance)
    return sum(n > most[topic] for (topic, _), n in counts(instance, targets, most, first=None).items())


def most_replicas(instance: Instance) -> Mosts:
    """Most replicas on one broker of each topic that has such a most."""
    asked = ((p.topic, p.topic_most_replicas) for p in instance.partitions.values())
    return {topic: most for topic, most in asked if most is not None}


def most_leaders(instance: Instance) -> Mosts:
    """Most partitions that one broker leads of each topic that has such a most."""
    asked = ((p.topic, p.topic_most_leaders) for p in instance.partitions.values())
    return {topic: most for topic, most in asked if most is not None}


def grown(
    instance: Instance, targets: Targets, most: Mosts, *, first: int | None
) -> Iterator[tuple[str, int, int, int]]:
    """Topics and brokers with more than the most and than before: how many now, and before."""
    before = counts(instance, {}, most, first=first)
    for (topic, broker), now in sorted(counts(instance, targets, most, first=first).items()):
        if now > max(most[topic], before[topic, broker]):
            yield topic, broker, now, before[topic, broker]


def counts(instance: Instance, targets: Targets, most: Mosts, *, first: int | None) -> Counter[tuple[str, int]]:
    """Replicas of each topic that has a most on each broker; ``first`` 1 counts preferred leaders alone."""
    asked = ((key, p) for key, p in instance.partitions.items() if p.topic in most)
    return Counter((p.topic, broker) for key, p in asked for broker in targets.get(key, p.replicas)[:first])
