"""Starts and cancels the moves of a wave inside brokers, over the Admin API: Kafka's tool is not needed."""

from collections.abc import Callable, Collection

from execution.admin import NO_ANSWER, Admin
from execution.directories import in_words, refusals
from execution.inside import RUNNING, Place
from execution.observed import Observed, Replica, TopicPartition
from execution.preflight import broker_names, missing_lines, partition_names
from execution.wave import Wave
from optimizer.errors import BallastError, bullets
from optimizer.units import human_bytes
from stored.verdicts import Refused

_ROUNDS = 5  # of a cancel: each round cancels what the one before has started too late


def waiting_replicas(wave: Wave, partitions: Collection[TopicPartition], now: Observed) -> dict[Replica, str]:
    """The replicas of partitions that are in their old directories, with the planned ones."""
    waiting = (replica for replica in wave.replicas_at(now, Place.OLD) if replica[:2] in partitions)
    return {replica: wave.inside[replica][1] for replica in waiting}


def move_inside(
    wave: Wave, partitions: Collection[TopicPartition], now: Observed, admin: Admin, *, is_watched: bool
) -> None:
    """Start the moves of some partitions. Starting a move again changes nothing.

    Parameters
    ----------
    is_watched : bool
        Whether somebody looks again soon; then the moves of a broker that does not answer wait.

    Raises
    ------
    Refused
        When brokers refuse directories, with a line for each directory; the other moves are started.
    """
    planned = waiting_replicas(wave, partitions, now)
    refused = admin.announce(planned)
    lines = refusals(
        planned,
        {replica: reason for replica, reason in refused.items() if not (is_watched and reason == NO_ANSWER)},
        can_choose=False,
    )
    if lines:
        raise Refused(*lines)


def stop_inside(
    wave: Wave, admin: Admin, *, observe: Callable[[], Observed], say: Callable[[str], None]
) -> list[TopicPartition]:
    """Cancel the running moves: Kafka drops a copy if the broker is asked for the directory where the replica is.

    A copy may end just before the request. Then the request starts a copy back, which the next round cancels.

    Returns
    -------
    list of (topic, partition)
        The partitions with cancelled moves.

    Raises
    ------
    BallastError
        When brokers refuse, with each replica and the reason; or when copies still run after the cancel.
    """
    requested: set[Replica] = set()
    now = observe()
    for _ in range(_ROUNDS):
        running = _running(wave, now)
        if not running:
            break
        if refused := admin.announce(running):
            lines = [f"{replica_name(replica)}: {in_words(reason)}" for replica, reason in sorted(refused.items())]
            raise BallastError(f"not cancelled, run the step again:{bullets(lines)}")
        requested.update(running)
        now = observe()
    if running := _running(wave, now):
        names = partition_names({replica[:2] for replica in running})
        raise BallastError(f"copies still run after the cancel, run the step again: {names}")
    done = wave.replicas_at(now, Place.PLANNED)
    cancelled = sorted({replica[:2] for replica in requested.difference(done)})
    if cancelled:
        say(f"cancelled: {partition_names(cancelled)}")
    if unknown := wave.replicas_at(now, Place.UNKNOWN):
        brokers = broker_names({broker for _, _, broker in unknown})
        names = partition_names({replica[:2] for replica in unknown})
        say(f"{brokers}: unknown whether these replicas move, and not cancelled: {names}")
    for line in missing_lines(wave, now):
        say(f"skipped: {line}")
    return cancelled


def _running(wave: Wave, now: Observed) -> dict[Replica, str]:
    """The replicas that move between the two directories of the wave, and where they are."""
    assert now.stored is not None, "the directories of a wave inside brokers are read at each look"
    return {replica: now.stored.log_dirs[replica] for replica in wave.replicas_at(now, *RUNNING)}


def describe_moves(wave: Wave, partition: TopicPartition, now: Observed) -> list[str]:
    """What would be moved of a partition: a line for each replica, with its bytes if they are known."""
    result = []
    for replica in waiting_replicas(wave, [partition], now):
        before, after = wave.inside[replica]
        size_bytes = now.stored.size_bytes.get(replica) if now.stored else None
        size = "" if size_bytes is None else f", {human_bytes(size_bytes)}"
        result.append(f"would move {replica_name(replica)} from {before} to {after}{size}")
    return result


def replica_name(replica: Replica) -> str:
    """``orders-3 on broker 5``."""
    return f"{partition_names([replica[:2]])} on broker {replica[2]}"
