"""Checks before a wave: compares the live cluster with the state that the plan expects."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from execution.admin import Rights
from execution.health import by_worst_kind, signs
from execution.observed import RUNNING, Observed, Place, Stored, TopicPartition, place_of, size_of
from execution.throttles import describe, is_foreign
from execution.wave import MoveState, Wave
from optimizer.kafka.cordon import ALL_DIRS, CORDON
from optimizer.kafka.throttle import LOG_DIR_RATE
from optimizer.units import agree, clause, first_of, human_bytes
from stored.verdicts import Refused

_LISTED = 5  # names in a message; the rest is counted


class Passing(str):
    """A problem that may pass by itself: nobody has to decide anything, the command can be run again later."""

    __slots__ = ()


class Later(Refused):
    """The command does nothing now, only because of problems that may pass by themselves."""

    exit_code = 4


def refuse(problems: Sequence[str]) -> None:
    """Raise ``Refused`` with all problems, if there are any; ``Later`` if each of them may pass by itself."""
    if problems:
        raise (Later if all(isinstance(each, Passing) for each in problems) else Refused)(*problems)


def problems(
    wave: Wave,
    now: Observed,
    *,
    earlier: Sequence[Wave],
    strict: bool,
    configs: str = "kafka-configs.sh",
    own: Collection[int] = (),
    uncordon: Mapping[int, str] = MappingProxyType({}),
) -> list[str]:
    """Every problem that stops a wave, one line each; empty if the wave may start or continue.

    Parameters
    ----------
    earlier : sequence of Wave
        The waves before this one. They must be done, because the wave needs the disk room that they free.
    strict : bool
        Whether a partition that the plan cannot move any more stops the wave too.
    configs : str
        Kafka's tool for configs with the connection, for the commands in messages.
    own : collection of int
        Brokers whose cordon ends before the wave copies.
    uncordon : mapping of broker to str
        The commands that end cordons of plans.
    """
    return [
        *_earlier(earlier, now),
        *(f"{line}; plan again" for line in (skips(wave, now) if strict else ())),
        *map(Passing, _brokers(wave, now)),
        *_reassignments(wave, now),
        *_throttles(wave, now, configs),
        *_cordoned(wave, now, configs, own, uncordon),
    ]


def at_risk(now: Observed, planned: Mapping[TopicPartition, Collection[int]]) -> list[str]:
    """Partitions of the whole cluster that another failure, or the wave itself, may stop; one line of each kind.

    Parameters
    ----------
    planned : mapping of (topic, partition) to collection of int
        Lists that the plan changes: it removes some replicas that are out of sync, or whose broker is dead.
    """
    kinds = by_worst_kind(list(signs(now, now.min_isr, planned=planned)))
    return [
        f"{clause(len(some), 'partition', 'is', 'are')} {kind}: {partition_names(some)}" for kind, some in kinds.items()
    ]


# What a wave needs the rights for, by Kafka's names of them. Without the first one a broker does not tell the others.
_CLUSTER_RIGHTS = {
    "DESCRIBE": "reassignments, log directories, and which other rights there are",
    "DESCRIBE_CONFIGS": "rates of brokers are read",
    "ALTER": "copies and leaders",
    "ALTER_CONFIGS": "rates of brokers",
}
_TOPIC_RIGHTS = ("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")


def missing_rights(wave: Wave, rights: Rights) -> list[str]:
    """The rights that the wave needs and the user lacks, one line each."""
    lines = [
        f"the user needs {right} on the cluster ({what})"
        for right, what in _CLUSTER_RIGHTS.items()
        if right in _lacking(rights.cluster, _CLUSTER_RIGHTS) and (wave.throttles or right != "ALTER_CONFIGS")
    ]
    lists = {name for kind, name, _ in wave.throttles if kind == "topics"}
    for right in _TOPIC_RIGHTS:
        needed = lists if right == "ALTER_CONFIGS" else {topic for topic, _ in wave.after}
        known = sorted(needed & rights.topics.keys())
        if topics := [topic for topic in known if right in _lacking(rights.topics[topic], _TOPIC_RIGHTS)]:
            lines.append(f"the user needs {right} on {agree(len(topics), 'topic', 'topics')} {first_of(topics)}")
    return lines


def _lacking(has: Collection[str], needed: Iterable[str]) -> list[str]:
    """What is missing; only DESCRIBE if that is missing, because then nobody knows the rest."""
    return [right for right in needed if right not in has] if "DESCRIBE" in has else ["DESCRIBE"]


def without_spare(wave: Wave, now: Observed) -> list[str]:
    """A warning for partitions of the wave that take no writes once a broker fails, one line."""
    tight = [p for p in wave.after if p in now.replicas and now.min_isr.get(p[0], 1) >= len(wave.before[p]) > 1]
    if not tight:
        return []
    have = agree(len(tight), "has", "have")
    names = partition_names(tight)
    return [f"warning: {names} {have} no more replicas than min.insync.replicas: if a broker fails, writes stop"]


def without_room(wave: Wave, now: Observed, stored: Stored, disk_headroom: float = 0.0) -> list[str]:
    """Brokers and directories without room for what the wave brings, one line each.

    A broker that does not tell its room is left out. Partitions that are skipped leave bytes behind, so the plan's own
    proof does not hold any more.

    Parameters
    ----------
    disk_headroom : float
        Share of each disk that has to stay free. Rollbacks may use it: a wave moves replicas out of directories over
        their limit, so its way back goes over the limit again.
    """
    coming: Counter[tuple[int, str]] = Counter()
    for partition in wave.by_state(now)[MoveState.NOT_STARTED]:
        size_bytes = size_of(partition, now, stored) or 0
        for broker in wave.added(partition):
            for path in {"", wave.log_dirs.get((*partition, broker), "")}:
                coming[broker, path] += size_bytes
    for replica in wave.replicas_at(now, Place.OLD):
        coming[replica[2], wave.inside[replica][1]] += stored.size_bytes.get(replica, 0)
    for replica in wave.replicas_at(now, *RUNNING):
        path, copied_bytes = stored.moving[replica]
        coming[replica[2], path] += max(0, stored.size_bytes.get(replica, 0) - copied_bytes)
    kept = 0.0 if wave.is_rollback else disk_headroom
    total_bytes: Counter[int] = Counter()
    for (broker, _), (total, _) in stored.directories.items():
        total_bytes[broker] += total
    free = {(b, ""): max(0, usable - round(kept * total_bytes[b])) for b, usable in stored.usable_bytes.items()}
    free |= {place: max(0, usable - round(kept * total)) for place, (total, usable) in stored.directories.items()}
    return [
        f"{f'directory {path} of ' if path else ''}broker {broker} has room for {human_bytes(free[broker, path])}, but "
        f"the wave brings {human_bytes(size_bytes)}: free disk space there, or plan again"
        for (broker, path), size_bytes in sorted(coming.items())
        if size_bytes > free.get((broker, path), size_bytes)
    ]


def skips(wave: Wave, now: Observed) -> list[str]:
    """Which partitions the plan cannot move any more, and why: deleted, recreated, or moved by somebody else."""
    return [*_topics(wave, now), *_replicas(wave, now)]


def warnings(wave: Wave) -> list[str]:
    """What could not be checked, one line each."""
    unknown = sorted({topic for topic, _ in wave.after if wave.topic_ids.get(topic) is None})
    if not unknown:
        return []
    names = first_of(unknown, _LISTED)
    return [f"cannot check whether topics were deleted and created again, the plan has no ids for: {names}"]


def unfinished(waves: Iterable[Wave], now: Observed) -> list[TopicPartition]:
    """Partitions that wait or move; those that the plan cannot move any more are left out."""
    states = (MoveState.NOT_STARTED, MoveState.IN_FLIGHT)
    return [
        partition
        for wave in waves
        for state, some in wave.by_state(now).items()
        if state in states
        for partition in some
    ]


def unfinished_lines(by_state: Mapping[MoveState, Sequence[TopicPartition]], remedy: str, *, strict: bool) -> list[str]:
    """Why a wave is not done although nothing moves.

    Parameters
    ----------
    remedy : str
        What to do if partitions wait.
    strict : bool
        Whether partitions that somebody else has moved count.
    """
    lines = []
    if by_state[MoveState.OTHER] and strict:
        lines.append(f"somebody else moved {partition_names(by_state[MoveState.OTHER])}: plan again")
    if by_state[MoveState.NOT_STARTED]:
        lines.append(f"neither in flight nor done: {partition_names(by_state[MoveState.NOT_STARTED])}: {remedy}")
    return lines


def partition_names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as Kafka names them, ``orders-3, orders-4``; of many only the first few."""
    return first_of((f"{topic}-{number}" for topic, number in sorted(partitions)), _LISTED)


def with_reasons(partitions: Mapping[TopicPartition, str]) -> list[str]:
    """A line for each partition with its reason."""
    return [f"{partition_names([partition])}: {reason}" for partition, reason in sorted(partitions.items())]


def broker_names(ids: Collection[int]) -> str:
    """``broker 3`` or ``brokers 3, 4``; of many only the first few."""
    return f"{agree(len(ids), 'broker', 'brokers')} {first_of(sorted(ids), _LISTED)}"


def describe_silent(silent: Collection[int]) -> str:
    do, their = agree(len(silent), "does", "do"), agree(len(silent), "its", "their")
    return f"{broker_names(silent)} {do} not answer, so {their} throttles are unknown"


def _earlier(earlier: Sequence[Wave], now: Observed) -> Iterator[str]:
    if partitions := unfinished(earlier, now):
        lack = clause(len(partitions), "partition", "lacks its planned replicas", "lack their planned replicas")
        yield f"earlier waves are not done: {lack}: {partition_names(partitions)}; execute those waves first"


def _topics(wave: Wave, now: Observed) -> Iterator[str]:
    topics = sorted({topic for topic, _ in wave.after})
    deleted = [topic for topic in topics if topic not in now.topic_ids]
    if deleted:
        yield f"{clause(len(deleted), 'topic', 'does', 'do')} not exist any more: {first_of(deleted, _LISTED)}"
    recreated = [topic for topic in topics if wave.is_recreated(topic, now)]
    if recreated:
        were = clause(len(recreated), "topic", "was", "were")
        yield f"{were} deleted and created again since the snapshot: {first_of(recreated, _LISTED)}"


def _brokers(wave: Wave, now: Observed) -> Iterator[str]:
    by_state = wave.by_state(now)
    waiting = by_state[MoveState.NOT_STARTED]
    dead = {broker for partition in waiting for broker in wave.needed(partition)} - now.alive
    if dead:
        are, them = agree(len(dead), "is", "are"), agree(len(dead), "it", "them")
        yield f"{broker_names(dead)} {are} in planned replica lists but not alive: start {them}, or plan again"
    if waiting and (silent := wave.silent_brokers(now)):
        them = agree(len(silent), "it", "them")
        yield f"{describe_silent(silent)}: start {them}, or allow DESCRIBE_CONFIGS on the cluster"
    if unknown := unknown_brokers(wave, now):
        them = agree(len(unknown), "it", "them")
        yield f"{describe_unknown(unknown)}: start {them}, or allow DESCRIBE on the cluster"
    planned = [*waiting, *by_state[MoveState.IN_FLIGHT]]
    offline = [partition for partition in planned if not now.in_sync[partition] & now.alive]
    if offline:
        yield f"no alive broker has an in-sync replica of {partition_names(offline)}: start the brokers that have one"


def _replicas(wave: Wave, now: Observed) -> Iterator[str]:
    yield from missing_lines(wave, now)
    missing = {replica[:2] for replica in wave.missing(now)}
    unexpected = [partition for partition in wave.by_state(now)[MoveState.OTHER] if partition not in missing]
    if unexpected and (elsewhere := _elsewhere(wave, now, unexpected)):
        were = clause(len(unexpected), "partition", "was", "were")
        yield f"{were} moved by somebody else: {partition_names(unexpected)}; {elsewhere}"
    elif unexpected:
        first = unexpected[0]
        target = now.in_flight.get(first)
        actual = f"moves to {list(target)}" if target else f"has {list(now.replicas[first])}"
        were = clause(len(unexpected), "partition", "was", "were")
        example = f"{partition_names([first])} {actual}, the plan expects {list(wave.before[first])}"
        yield f"{were} moved by somebody else: {partition_names(unexpected)}; {example}"


def missing_lines(wave: Wave, now: Observed) -> list[str]:
    """A line for each replica that its broker does not report any more."""
    return [
        f"{partition_names([replica[:2]])} on broker {replica[2]} is {Place.MISSING}" for replica in wave.missing(now)
    ]


def _elsewhere(wave: Wave, now: Observed, unexpected: Iterable[TopicPartition]) -> str:
    """The first replica in an unexpected directory, in words; empty if only replica lists are unexpected."""
    for replica, (before, after) in sorted(wave.inside.items()):
        place = place_of(replica, (before, after), now.stored)
        if replica[:2] in unexpected and place in (Place.OTHER, Place.RETURNING) and now.stored:
            path, (target, _) = now.stored.log_dirs[replica], now.stored.moving.get(replica, ("", 0))
            actual = f"moves from {path} to {target}" if target else f"is in {path}"
            name = f"{partition_names([replica[:2]])} on broker {replica[2]}"
            return f"{name} {actual}, the plan expects {before} or {after}"
    return ""


def unknown_brokers(wave: Wave, now: Observed) -> set[int]:
    """Brokers that do not report all replicas that the wave moves inside them."""
    return {broker for _, _, broker in wave.replicas_at(now, Place.UNKNOWN)}


def describe_unknown(brokers: Collection[int]) -> str:
    """In words what ``unknown_brokers`` returns."""
    return f"{broker_names(brokers)} {agree(len(brokers), 'does', 'do')} not report all replicas of the wave"


def _reassignments(wave: Wave, now: Observed) -> Iterator[str]:
    foreign = [partition for partition in now.in_flight if partition not in wave.after]
    if foreign:
        are = clause(len(foreign), "other partition", "is", "are")
        remedy = agree(len(foreign), "wait until it is done, or cancel it", "wait until they are done, or cancel them")
        yield f"{are} being reassigned: {partition_names(foreign)}; {remedy}"


def _cordoned(
    wave: Wave, now: Observed, configs: str, own: Collection[int], uncordon: Mapping[int, str]
) -> Iterator[str]:
    """Brokers that somebody has closed for new replicas; Kafka would accept the copies."""
    targets = {b for partition in wave.by_state(now)[MoveState.NOT_STARTED] for b in wave.added(partition)}
    closed = sorted(b for b in targets - {*own} if now.cordoned.get(b) == ALL_DIRS)
    if closed:
        are = agree(len(closed), "is", "are")
        delete = f"{configs} --alter --entity-type brokers --entity-name {closed[0]} --delete-config {CORDON}"
        command = uncordon.get(closed[0], delete)
        yield (
            f"{broker_names(closed)} {are} cordoned, so nothing is copied there; plan again, or open the first with "
            f"{command}"
        )


def _throttles(wave: Wave, now: Observed, configs: str) -> Iterator[str]:
    """Throttles that are neither the wave's own nor those that the plan found and will restore."""
    foreign = {
        key: describe(key, value)
        for key, value in sorted(now.throttles.items())
        # The rate of moves inside brokers slows no copy between brokers.
        if (key in wave.throttles or key[2] != LOG_DIR_RATE)
        and value not in wave.own_rates.get(key, ())
        and is_foreign(key, value, wanted=wave.throttles.get(key), before=wave.previous_throttles.get(key))
    }
    if foreign:
        were = clause(len(foreign), "throttle", "was", "were")
        kind, name, config = next(iter(foreign))
        first = agree(len(foreign), "remove it first", "remove them first, the first one")
        names = first_of(list(foreign.values()), _LISTED)
        yield (
            f"{were} set by somebody else since the snapshot: {names}; {first} with "
            f"{configs} --alter --entity-type {kind} --entity-name {name} --delete-config {config}"
        )
