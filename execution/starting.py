"""Starts the copies of a wave: with Kafka's tool and the approved document, or over the Admin API."""

from collections import Counter
from collections.abc import Collection

from execution.admin import Admin
from execution.kafka_tools import KafkaTools
from execution.observed import Observed, TopicPartition
from execution.preflight import with_reasons
from execution.wave import REASSIGNMENT, MoveState, Wave
from optimizer.errors import BallastError, bullets

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
