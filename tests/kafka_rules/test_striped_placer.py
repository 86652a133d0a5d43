"""Placement by StripedReplicaPlacer: KRaft, and --generate from 4.1."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import KafkaError
from optimizer.kafka.broker import Broker
from optimizer.kafka.java import JavaRandom
from optimizer.kafka.striped_placer import StripedReplicaPlacer, rack_layout
from tests.kafka_rules.clusters import racked_clusters


def _place(brokers: list[Broker], count: int, factor: int, seed: int = 0) -> list[list[int]]:
    return StripedReplicaPlacer(JavaRandom(seed)).place(rack_layout(brokers), count, factor)


@given(racked_clusters(), st.integers(0, 60), st.integers(1, 5), st.integers(0, 2**63 - 1))
def test_invariants(brokers: list[Broker], count: int, factor: int, seed: int) -> None:
    """Each list has the requested number of distinct brokers on as many racks as possible."""
    factor = min(factor, len(brokers))
    placed = _place(brokers, count, factor, seed)
    racks = {b.broker_id: b.rack for b in brokers}
    assert len(placed) == count
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert len({racks[b] for b in replicas}) == min(factor, len(set(racks.values())))


@given(racked_clusters(), st.integers(0, 2**63 - 1))
def test_the_order_of_brokers_does_not_matter(brokers: list[Broker], seed: int) -> None:
    """Brokers in any order give one placement, as long as no two racks collide."""
    distinct = [b._replace(rack="c" if b.rack == "BBBB" else b.rack) for b in brokers]
    assert _place(distinct, 20, 1, seed) == _place(sorted(distinct), 20, 1, seed)


def test_racks_weigh_equally() -> None:
    """A rack with one broker gets a replica of every partition once there are as many replicas as racks."""
    brokers = [Broker(0, "a"), *(Broker(i, "b") for i in range(1, 8))]
    assert all(0 in replicas for replicas in _place(brokers, 50, 2))


def test_fenced_brokers_come_last() -> None:
    """Fenced brokers are used only if the rack has too few live brokers, and never lead."""
    brokers = [Broker(0), Broker(1), Broker(2, None, True)]
    assert Counter(b for replicas in _place(brokers, 20, 2) for b in replicas) == {0: 20, 1: 20}
    assert all(replicas[2] == 2 for replicas in _place(brokers, 20, 3))


def test_random_numbers_run_on() -> None:
    """A second topic continues the random numbers of the first; the same seed repeats both."""
    layout = rack_layout([Broker(i) for i in range(20)])
    first, second = (StripedReplicaPlacer(JavaRandom(7)) for _ in range(2))
    topics = [first.place(layout, 30, 3) for _ in range(2)]
    assert topics[0] != topics[1]
    assert [second.place(layout, 30, 3) for _ in range(2)] == topics


@pytest.mark.parametrize(
    ("brokers", "factor", "start"),
    [
        ([], 1, "All brokers are currently fenced"),
        ([Broker(0, None, True)], 1, "All brokers are currently fenced"),
        ([Broker(0)], 0, "Invalid replication factor 0: the replication factor must be positive."),
        ([Broker(0), Broker(1, "a")], 3, "The target replication factor of 3 cannot be reached because only 2 broker"),
    ],
)
def test_refusals(brokers: list[Broker], factor: int, start: str) -> None:
    """Errors have Kafka's class and message."""
    with pytest.raises(KafkaError) as caught:
        _place(brokers, 1, factor)
    assert caught.value.exception == "InvalidReplicationFactorException"
    assert str(caught.value).startswith(start)
