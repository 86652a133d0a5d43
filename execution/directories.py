"""Directories of the replicas that arrive: announced before their copies start, compared with the plan afterwards.

Names in the reassignment do not steer a copy: Kafka copies to its own choice, and then a second time inside the broker.
A broker that knows the directory before the copy starts creates the replica there. It forgets this when it restarts.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from execution.admin import NO_ANSWER, Admin
from execution.observed import Observed, Replica, Stored, TopicPartition
from execution.planned import Plan
from execution.preflight import Passing, partition_names, refuse
from execution.wave import MoveState, Wave
from optimizer.units import clause, first_of, human_bytes, plural

_LISTED = 5  # replicas in a message; the rest is counted
_PLAN_AGAIN, _ANY_DIR = "plan again", "or give --any-dir: then Kafka chooses the directory"
_FORGOTTEN = "a broker that restarts before a copy starts forgets its planned directory"
# What a broker's error means here, and what else helps than another plan. A move inside a broker needs all of its
# directories.
_REASONS = {
    "LogDirNotFoundError": ("it has no such directory", ()),
    "KafkaStorageError": ("it, or another directory of the broker, is offline", ("repair that",)),
    "InvalidReplicationAssignmentError": ("the directory is cordoned", ("remove it from cordoned.log.dirs",)),
    NO_ANSWER: (NO_ANSWER, ()),
}


@dataclass(frozen=True)
class Misplaced:
    """A replica in another directory of its broker than planned."""

    replica: Replica
    size_bytes: int
    actual: str
    planned: str


def due(wave: Wave, partitions: Collection[TopicPartition]) -> dict[Replica, str]:
    """The directories to announce before partitions start.

    None of ``partitions`` may have started: a replica that is there already would be moved.
    """
    replicas = [(*partition, broker) for partition in partitions for broker in wave.added(partition)]
    return {replica: wave.log_dirs[replica] for replica in replicas if replica in wave.log_dirs}


def announce(
    wave: Wave,
    partitions: Sequence[TopicPartition],
    admin: Admin,
    say: Callable[[str], None],
    *,
    any_dir: bool,
    is_watched: bool,
) -> list[TopicPartition]:
    """Announce the directories of partitions that start next; returns those that may start.

    Parameters
    ----------
    any_dir : bool
        Whether Kafka may choose the directory of a replica whose planned directory is refused.
    is_watched : bool
        Whether somebody looks again soon; then partitions wait whose broker does not answer.

    Raises
    ------
    Refused
        When brokers refuse directories, with a line for each directory.
    """
    log_dirs = due(wave, partitions)
    refused = admin.announce(log_dirs)
    silent = {replica for replica, reason in refused.items() if is_watched and reason == NO_ANSWER}
    lines = refusals(log_dirs, {replica: reason for replica, reason in refused.items() if replica not in silent})
    if not any_dir:
        refuse(lines)
    for line in lines:
        say(f"Kafka chooses the directory: {line}")
    if log_dirs and not is_watched:
        say(f"announced: the directories of {plural(len(log_dirs) - len(refused), 'replica')}")
    return [p for p in partitions if silent.isdisjoint((*p, broker) for broker in wave.added(p))]


def refusals(log_dirs: Mapping[Replica, str], refused: Mapping[Replica, str], *, can_choose: bool = True) -> list[str]:
    """A line for each directory that a broker refuses, with the reason and what to do.

    Parameters
    ----------
    log_dirs : mapping of (topic, partition, broker) to path
        The directories that were requested.
    refused : mapping of (topic, partition, broker) to str
        The reasons of the refusals.
    can_choose : bool
        Whether Kafka may choose the directory instead.
    """
    groups: dict[tuple[int, str, str], list[TopicPartition]] = {}
    for replica, reason in refused.items():
        groups.setdefault((replica[2], log_dirs[replica], reason), []).append(replica[:2])
    lines = []
    for (broker, path, reason), partitions in sorted(groups.items()):
        names = partition_names(partitions)
        remedy = _remedy(reason, can_choose=can_choose)
        line = f"broker {broker} refuses directory {path} for {names}: {in_words(reason)}; {remedy}"
        lines.append(Passing(line) if reason == NO_ANSWER else line)
    return lines


def _remedy(reason: str, *, can_choose: bool) -> str:
    if reason == NO_ANSWER:
        return "run the command again when it answers"
    _, fixes = _REASONS.get(reason, ("", ()))
    return ", ".join((*fixes, _PLAN_AGAIN, _ANY_DIR)) if can_choose else " or ".join((*fixes, _PLAN_AGAIN))


def in_words(reason: str) -> str:
    """What a refusal means, with the name of Kafka's error."""
    words, _ = _REASONS.get(reason, (reason, ""))
    return words if words == reason else f"{words} ({reason})"


def announcements(wave: Wave, partitions: Collection[TopicPartition]) -> list[str]:
    """What would be announced before partitions start: a line for each directory."""
    counts = Counter((broker, path) for (_, _, broker), path in due(wave, partitions).items())
    return [
        f"would announce directory {path} to broker {broker} for {plural(number, 'replica')}"
        for (broker, path), number in sorted(counts.items())
    ]


def misplaced(wave: Wave, now: Observed, stored: Callable[[Collection[int]], Stored]) -> list[Misplaced]:
    """Replicas of finished copies that are in another directory than planned, and do not move there already.

    Parameters
    ----------
    stored : callable
        Returns what the directories of some brokers have. Brokers that do not answer are left out.
    """
    planned = due(wave, wave.by_state(now)[MoveState.DONE])
    if not planned:
        return []
    found = stored({broker for _, _, broker in planned} & now.alive)
    targets = {replica: path for replica, (path, _) in found.moving.items()}
    return [
        Misplaced(replica, found.size_bytes[replica], found.log_dirs[replica], path)
        for replica, path in planned.items()
        if path not in (found.log_dirs.get(replica, path), targets.get(replica))
    ]


def describe_misplaced(replicas: Sequence[Misplaced]) -> list[str]:
    """A line for each broker that has replicas in other directories than planned."""
    by_broker: dict[int, list[Misplaced]] = {}
    for one in replicas:
        by_broker.setdefault(one.replica[2], []).append(one)
    return [
        f"broker {broker}: {clause(len(some), 'replica', 'is', 'are')} in another directory than planned, "
        f"{human_bytes(sum(one.size_bytes for one in some))}: {_places(some)}"
        for broker, some in sorted(by_broker.items())
    ]


def report_misplaced(plan: Plan, wave: Wave, replicas: Sequence[Misplaced]) -> list[str]:
    """The lines of ``describe_misplaced``, and the command that moves the replicas."""
    if not replicas:
        return []
    what = f"rollback --wave {wave.number}" if wave.is_rollback else f"run --waves {wave.number}"
    command = f"./ballast {what} --run-id {plan.run_id} --cluster {plan.cluster_id} --fix-dirs"
    return [*describe_misplaced(replicas), f"{_FORGOTTEN}; to move them: {command}"]


def _places(replicas: Sequence[Misplaced]) -> str:
    names = (f"{partition_names([one.replica[:2]])} in {one.actual}, not {one.planned}" for one in replicas)
    return first_of(names, _LISTED, separator="; ")
