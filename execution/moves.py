"""Starts and cancels the copies of a wave, between and inside brokers, and elects leaders."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from execution.admin import NO_ANSWER, Admin
from execution.directories import in_words, refusals
from execution.kafka_tools import KafkaTools
from execution.observed import RUNNING, Observed, Place, Replica, TopicPartition
from execution.preflight import broker_names, missing_lines, partition_names, refuse, with_reasons
from execution.wave import REASSIGNMENT, MoveState, Wave
from optimizer.errors import BallastError, bullets
from optimizer.units import human_bytes

# Brokers know of an election after less than half a second (measured, Kafka 4.3.1).
_LOOK_AGAIN_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Elected:
    """What an election has reached.

    Parameters
    ----------
    count : int
        Partitions that their preferred replica leads now, and did not before.
    reasons : mapping of (topic, partition) to str
        Why another replica leads, for each partition that its preferred replica does not lead.
    """

    count: int
    reasons: Mapping[TopicPartition, str]


def not_led(planned: Mapping[TopicPartition, tuple[int, ...]], now: Observed) -> list[TopicPartition]:
    """Partitions with their planned replicas that their first replica does not lead."""
    return sorted(
        partition
        for partition, brokers in planned.items()
        if now.replicas.get(partition) == brokers and now.leaders[partition] != brokers[0]
    )


def elect(admin: Admin, planned: Mapping[TopicPartition, tuple[int, ...]], observe: Callable[[], Observed]) -> Elected:
    """Elect the first replica of each planned list as leader."""
    wanted = not_led(planned, observe())
    refused = admin.elect(wanted) if wanted else {}
    rest = wanted
    for pause in (*_LOOK_AGAIN_SECONDS, None):
        now = observe()
        rest = [partition for partition in not_led(planned, now) if partition in wanted]
        if set(rest) <= set(refused) or pause is None:
            break
        time.sleep(pause)
    return Elected(len(wanted) - len(rest), {p: refused.get(p, "another replica leads") for p in rest})


def cancel_wave(
    wave: Wave, admin: Admin, *, observe: Callable[[], Observed], say: Callable[[str], None]
) -> list[TopicPartition]:
    """Cancel the reassignments of a wave and restore the order of its old replica lists.

    Kafka gives a cancelled partition its old replicas in another order. Restoring the order copies nothing. The old
    list is never sent over a running move: that gets stuck. Finished moves stay: undoing them needs a copy of its own,
    under a throttle. If a cancel was interrupted, the next one restores the remaining lists.

    A replica that moves inside its broker stays in its old directory. One whose broker is not alive goes on when the
    broker comes back, under the rate that it kept.

    Returns
    -------
    list of (topic, partition)
        The partitions whose reassignment was cancelled.

    Raises
    ------
    BallastError
        When Kafka refuses; the message has each partition with the reason.
    """
    if wave.inside:
        return stop_inside(wave, admin, observe=observe, say=say)
    moving = wave.by_state(observe())[MoveState.IN_FLIGHT]
    if moving:
        _check(admin.reassign(dict.fromkeys(moving)), "cancelled")
        say(f"cancelled: {partition_names(moving)}")
    now = observe()
    reordered = {partition: wave.before[partition] for partition in wave.after if is_reordered(partition, wave, now)}
    if reordered:
        _check(admin.reassign(reordered), "put back in order")
        say(f"replica order restored: {partition_names(reordered)}")
    stuck = [
        p for p in wave.by_state(now)[MoveState.NOT_STARTED] if p in wave.stuck and now.replicas[p] != wave.before[p]
    ]
    unexpected = sorted((*wave.by_state(now)[MoveState.OTHER], *stuck))
    if unexpected:
        say(f"neither the old nor the planned replicas, check by hand: {partition_names(unexpected)}")
    return moving


def is_reordered(partition: TopicPartition, wave: Wave, now: Observed) -> bool:
    """Whether a partition has its old replicas in another order, and Kafka accepts the old order."""
    before, replicas = wave.before[partition], now.replicas.get(partition, ())
    waits = wave.state_of(partition, now) is MoveState.NOT_STARTED
    return waits and partition not in wave.stuck and before != replicas


def _check(refused: dict[TopicPartition, str], what: str) -> None:
    if refused:
        raise BallastError(f"not {what}, run the step again:{bullets(with_reasons(refused))}")


STARTED = "Successfully started"


def next_moves(wave: Wave, now: Observed, max_moves_per_broker: int) -> list[TopicPartition]:
    """The waiting partitions that may start now, in the order of the document.

    Parameters
    ----------
    max_moves_per_broker : int
        How many moves a broker sends or receives at once; 0: no limit.
    """
    by_state = wave.by_state(now)
    waiting = set(by_state[MoveState.NOT_STARTED])
    in_order = [partition for partition in wave.after if partition in waiting]
    if not max_moves_per_broker:
        return in_order
    busy = Counter(broker for p in by_state[MoveState.IN_FLIGHT] for broker in _ends(wave, p, now))
    chosen: list[TopicPartition] = []
    for partition in in_order:
        ends = _ends(wave, partition, now)
        if all(busy[broker] < max_moves_per_broker for broker in ends):
            chosen.append(partition)
            busy.update(ends)
    return chosen


def _ends(wave: Wave, partition: TopicPartition, now: Observed) -> set[int]:
    """The brokers that send and receive; none if only the order changes."""
    if wave.inside:
        return set(wave.targets(partition))
    targets, leader = wave.added(partition), now.leaders[partition]
    return {*targets, *([leader] if targets and leader is not None else [])}


def start(wave: Wave, partitions: Collection[TopicPartition], tools: KafkaTools | None, admin: Admin) -> None:
    """Start some partitions of a wave. Those in flight are not among them: Kafka would redirect them silently.

    Parameters
    ----------
    tools : KafkaTools or None
        Kafka's tool; without it the Admin API starts the copies.

    Raises
    ------
    BallastError
        When Kafka refuses any of them; the others are started.
    """
    lists = {partition: wave.after[partition] for partition in partitions}
    if tools is None:
        if refused := admin.reassign(lists):
            raise BallastError(f"not started, try again:{bullets(with_reasons(refused))}")
        return
    if len(lists) < len(wave.after) or wave.is_rollback:
        output = tools.reassign(lists, "--execute", "--additional")
    else:
        output = tools.reassign_document(wave.documents[REASSIGNMENT], "--execute")
    if STARTED not in output:
        raise BallastError(f"kafka-reassign-partitions.sh --execute did not print {STARTED!r}: {output.strip()}")


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
    refuse(lines)


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
