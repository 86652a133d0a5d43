"""Cancels a running wave: partitions in flight get their old replicas back."""

from collections.abc import Callable

from execution.kafka_tools import KafkaTools
from execution.observed import Observed, TopicPartition
from execution.preflight import partition_names
from execution.wave import MoveState, Wave


def cancel_wave(
    wave: Wave, tools: KafkaTools, *, observe: Callable[[], Observed], say: Callable[[str], None]
) -> list[TopicPartition]:
    """Cancel the reassignments of a wave and restore the order of its old replica lists.

    Kafka gives a cancelled partition its old replicas in another order. Restoring the order copies nothing. Finished
    moves stay: undoing them needs a copy of its own, under a throttle. If a cancel was interrupted, the next one
    restores the remaining lists.

    Returns
    -------
    list of (topic, partition)
        The partitions whose reassignment was cancelled.
    """
    moving = wave.by_state(observe())[MoveState.IN_FLIGHT]
    if moving:
        tools.reassign({partition: wave.after[partition] for partition in moving}, "--cancel", "--preserve-throttles")
        say(f"cancelled: {partition_names(moving)}")
    now = observe()
    reordered = {partition: wave.before[partition] for partition in wave.after if _is_reordered(partition, wave, now)}
    if reordered:
        tools.reassign(reordered, "--execute", "--additional")
        say(f"replica order restored: {partition_names(reordered)}")
    unexpected = [partition for partition in wave.by_state(now)[MoveState.OTHER] if partition not in reordered]
    if unexpected:
        say(f"neither the old nor the planned replicas, check by hand: {partition_names(unexpected)}")
    return moving


def _is_reordered(partition: TopicPartition, wave: Wave, now: Observed) -> bool:
    """Whether a partition has its old replicas in another order, and Kafka accepts the old order."""
    before, replicas = wave.before[partition], now.replicas.get(partition, ())
    is_other = wave.state_of(partition, now) is MoveState.OTHER and partition not in now.in_flight
    return is_other and partition not in wave.stuck and sorted(before) == sorted(replicas)
