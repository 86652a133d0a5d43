"""Placement by AdminUtils: Kafka up to 4.0."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import KafkaError
from optimizer.kafka.admin_utils import assign_replicas, broker_ring, rack_alternated
from optimizer.kafka.broker import Broker
from optimizer.kafka.java import JavaRandom
from tests.kafka_rules.clusters import racked_clusters

FIVE = [Broker(i) for i in range(5)]


def test_worked_example_of_three_replicas() -> None:
    """Brokers 0-4, ten partitions, three replicas, start 0: followers shift by one the second time round."""
    assert list(assign_replicas(broker_ring(FIVE), 10, 3, start_index=0).values()) == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 0],
        [4, 0, 1],
        [0, 2, 3],
        [1, 3, 4],
        [2, 4, 0],
        [3, 0, 1],
        [4, 1, 2],
    ]


@pytest.mark.parametrize(("partition", "replicas"), [(5, [0, 2, 3, 4]), (9, [4, 1, 2, 3])])
def test_worked_example_of_four_replicas(partition: int, replicas: list[int]) -> None:
    """The same with four replicas."""
    assert assign_replicas(broker_ring(FIVE), 10, 4, start_index=0)[partition] == replicas


@pytest.mark.parametrize(
    ("count", "factor", "message"),
    [
        (0, 0, "Number of partitions must be larger than 0."),
        (1, 0, "Replication factor must be larger than 0."),
        (1, 3, "Replication factor: 3 larger than available brokers: 2."),
        (1, 2, "Not all brokers have rack information for replica rack aware assignment."),
    ],
)
def test_refusals_in_order(count: int, factor: int, message: str) -> None:
    """Errors have Kafka's order and messages."""
    with pytest.raises(KafkaError) as caught:
        assign_replicas(broker_ring([Broker(0, "a"), Broker(1)]), count, factor, start_index=0)
    assert caught.value.message == message


def test_start_must_be_known() -> None:
    """A call without a start and without random numbers is an error."""
    with pytest.raises(ValueError, match="start_index"):
        assign_replicas(broker_ring(FIVE), 1, 1)


def test_racks_alternate() -> None:
    """Racks take turns by name; a rack without further brokers is skipped."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1", 6: "rack3"}
    assert rack_alternated(racks) == [0, 3, 1, 5, 4, 2, 6]


@given(racked_clusters(), st.integers(1, 60), st.integers(1, 5), st.integers(0, 2**63 - 1))
def test_invariants(brokers: list[Broker], count: int, factor: int, seed: int) -> None:
    """Each list has the requested number of distinct brokers on as many racks as possible."""
    factor = min(factor, len(brokers))
    placed = assign_replicas(broker_ring(brokers), count, factor, random=JavaRandom(seed))
    racks = {b.broker_id: b.rack for b in brokers}
    assert sorted(placed) == list(range(count))
    for replicas in placed.values():
        assert len(set(replicas)) == len(replicas) == factor
        if None not in racks.values():
            assert len({racks[b] for b in replicas}) == min(factor, len(set(racks.values())))


@given(racked_clusters(), st.integers(1, 60), st.integers(0, 100))
def test_leaders_are_even(brokers: list[Broker], count: int, start: int) -> None:
    """The numbers of partitions that brokers lead differ by at most one."""
    placed = assign_replicas(broker_ring(brokers), count, 1, start_index=start)
    led = [[r[0] for r in placed.values()].count(b.broker_id) for b in brokers]
    assert max(led) - min(led) <= 1
