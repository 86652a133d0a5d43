"""Checks before a wave: compares the live cluster with the state that the plan expects."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from execution.observed import Observed, TopicPartition
from execution.wave import MoveState, Wave
from optimizer.units import agree, clause

_LISTED = 5  # names in a message; the rest is counted
_MAX_VALUE_CHARS = 40  # of a config in a message: a list of throttled replicas has thousands of characters


def problems(
    wave: Wave, now: Observed, *, topic_ids: Mapping[str, str | None], earlier: Mapping[TopicPartition, tuple[int, ...]]
) -> list[str]:
    """Every problem that stops a wave, one line each; empty if the wave may start or continue.

    Parameters
    ----------
    topic_ids : mapping of topic to id
        Topic ids in the plan; None if the plan's inputs have no ids.
    earlier : mapping of (topic, partition) to brokers
        Planned replicas of the waves before this one. They must be done, because the wave needs the disk room that
        they free.
    """
    return [
        *_earlier(earlier, now),
        *_topics(wave, now, topic_ids),
        *_brokers(wave, now),
        *_replicas(wave, now),
        *_reassignments(wave, now),
        *_throttles(wave, now),
    ]


def warnings(wave: Wave, topic_ids: Mapping[str, str | None]) -> list[str]:
    """What could not be checked, one line each."""
    unknown = sorted({topic for topic, _ in wave.after if topic_ids.get(topic) is None})
    if not unknown:
        return []
    return [f"cannot check whether topics were deleted and created again, the plan has no ids for: {_some(unknown)}"]


def unfinished(planned: Mapping[TopicPartition, tuple[int, ...]], now: Observed) -> list[TopicPartition]:
    """Partitions without their planned replica list; those of deleted topics are left out."""
    return [partition for partition, after in planned.items() if now.replicas.get(partition, after) != after]


def partition_names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as Kafka names them, ``orders-3, orders-4``; of many only the first few."""
    return _some([f"{topic}-{number}" for topic, number in sorted(partitions)])


def broker_names(ids: Collection[int]) -> str:
    """``broker 3`` or ``brokers 3, 4``; of many only the first few."""
    return f"{agree(len(ids), 'broker', 'brokers')} {_some(map(str, sorted(ids)))}"


def describe_silent(silent: Collection[int]) -> str:
    do, their = agree(len(silent), "does", "do"), agree(len(silent), "its", "their")
    return f"{broker_names(silent)} {do} not answer, so {their} throttles are unknown"


def _earlier(earlier: Mapping[TopicPartition, tuple[int, ...]], now: Observed) -> Iterator[str]:
    if partitions := unfinished(earlier, now):
        lack = clause(len(partitions), "partition", "lacks its planned replicas", "lack their planned replicas")
        yield f"earlier waves are not done: {lack}: {partition_names(partitions)}; execute those waves first"


def _topics(wave: Wave, now: Observed, topic_ids: Mapping[str, str | None]) -> Iterator[str]:
    topics = sorted({topic for topic, _ in wave.after})
    deleted = [topic for topic in topics if topic not in now.topic_ids]
    if deleted:
        yield f"{clause(len(deleted), 'topic', 'does', 'do')} not exist any more: {_some(deleted)}; plan again"
    ids = ((topic, topic_ids.get(topic), now.topic_ids.get(topic)) for topic in topics)
    recreated = [topic for topic, before, after in ids if before and after and before != after]
    if recreated:
        were = clause(len(recreated), "topic", "was", "were")
        yield f"{were} deleted and created again since the snapshot: {_some(recreated)}; plan again"


def _brokers(wave: Wave, now: Observed) -> Iterator[str]:
    waiting = [partition for partition in wave.after if wave.state_of(partition, now) is not MoveState.IN_FLIGHT]
    dead = {broker for partition in waiting for broker in wave.after[partition]} - now.alive
    if dead:
        are, them = agree(len(dead), "is", "are"), agree(len(dead), "it", "them")
        yield f"{broker_names(dead)} {are} in planned replica lists but not alive: start {them}, or plan again"
    if waiting and (silent := wave.silent_brokers(now)):
        them = agree(len(silent), "it", "them")
        yield f"{describe_silent(silent)}: start {them}, or allow DESCRIBE_CONFIGS on the cluster"
    offline = [
        partition for partition in wave.after if partition in now.replicas and not now.in_sync[partition] & now.alive
    ]
    if offline:
        yield f"no alive broker has an in-sync replica of {partition_names(offline)}: start the brokers that have one"


def _replicas(wave: Wave, now: Observed) -> Iterator[str]:
    unexpected = wave.by_state(now)[MoveState.OTHER]
    if unexpected:
        first = unexpected[0]
        example = f"{partition_names([first])} has {list(now.replicas[first])}, not {list(wave.before[first])}"
        remedy = "execute all earlier waves first; if they are done, plan again"
        do = clause(len(unexpected), "partition", "does", "do")
        yield f"{do} not have the replicas that the plan expects: {partition_names(unexpected)}; {example}; {remedy}"


def _reassignments(wave: Wave, now: Observed) -> Iterator[str]:
    foreign = [partition for partition in now.in_flight if partition not in wave.after]
    if foreign:
        are = clause(len(foreign), "other partition", "is", "are")
        remedy = agree(len(foreign), "wait until it is done, or cancel it", "wait until they are done, or cancel them")
        yield f"{are} being reassigned: {partition_names(foreign)}; {remedy}"


def _throttles(wave: Wave, now: Observed) -> Iterator[str]:
    """Throttles that are neither the wave's own nor those that the plan found and will restore."""
    foreign = [
        f"{kind} {name} {config}={_short(value)}"
        for (kind, name, config), value in sorted(now.throttles.items())
        if value not in (wave.throttles.get((kind, name, config)), wave.previous_throttles.get((kind, name, config)))
    ]
    if foreign:
        were = clause(len(foreign), "throttle", "was", "were")
        them = agree(len(foreign), "it", "them")
        yield f"{were} set by somebody else since the snapshot: {_some(foreign)}; remove {them} first"


def _some(values: Iterable[str]) -> str:
    """The first few values, and the number of the rest."""
    texts: Sequence[str] = list(values)
    rest = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + rest


def _short(value: str) -> str:
    return value if len(value) <= _MAX_VALUE_CHARS else f"{value[: _MAX_VALUE_CHARS - 3]}..."
