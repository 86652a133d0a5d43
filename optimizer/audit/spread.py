"""The topic limit: brokers that hold or lead more of a topic than the instance allows. Racks are in ``instance``."""

from collections import Counter
from collections.abc import Iterator, Mapping

from optimizer.audit.claims import Key
from optimizer.audit.instance import Instance

Targets = Mapping[Key, tuple[int, ...]]
TopicLimits = Mapping[str, int]


def crowded(instance: Instance, targets: Targets) -> int:
    """The number of pairs of broker and topic above the topic limit under a plan."""
    most = most_replicas(instance)
    return sum(n > most[topic] for (topic, _), n in counts(instance, targets, most, first=None).items())


def most_replicas(instance: Instance) -> TopicLimits:
    """The maximum of replicas per broker, by topic; only topics with a limit."""
    limits = ((p.topic, p.topic_most_replicas) for p in instance.partitions.values())
    return {topic: most for topic, most in limits if most is not None}


def most_leaders(instance: Instance) -> TopicLimits:
    """The maximum of led partitions per broker, by topic; only topics with a limit."""
    limits = ((p.topic, p.topic_most_leaders) for p in instance.partitions.values())
    return {topic: most for topic, most in limits if most is not None}


def grown(
    instance: Instance, targets: Targets, most: TopicLimits, *, first: int | None
) -> Iterator[tuple[str, int, int, int]]:
    """Topic, broker, and count now and before, of each pair above the limit that has more than before."""
    before = counts(instance, {}, most, first=first)
    for (topic, broker), now in sorted(counts(instance, targets, most, first=first).items()):
        if now > max(most[topic], before[topic, broker]):
            yield topic, broker, now, before[topic, broker]


def counts(instance: Instance, targets: Targets, most: TopicLimits, *, first: int | None) -> Counter[tuple[str, int]]:
    """Replicas by topic and broker, only for topics in ``most``; with ``first`` 1 only preferred leaders."""
    limited = ((key, p) for key, p in instance.partitions.items() if p.topic in most)
    return Counter((p.topic, broker) for key, p in limited for broker in targets.get(key, p.replicas)[:first])
