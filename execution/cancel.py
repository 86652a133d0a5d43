"""Cancels a running wave: partitions in flight get their old replicas back."""

from collections.abc import Callable

from execution.admin import Admin
from execution.inside_moves import stop_inside
from execution.observed import Observed, TopicPartition
from execution.preflight import partition_names, with_reasons
from execution.wave import MoveState, Wave
from optimizer.errors import BallastError, bullets


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
