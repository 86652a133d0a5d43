"""Other lists for partitions whose planned change was removed."""

from dataclasses import replace

import numpy as np
import pytest

from optimizer.domain import FORCED_ONLY
from optimizer.solve.limit.second_choice import second_choices
from tests.solve.clusters import make_brokers, make_partitions

NO_LIMIT = np.array([2**53, 2**53])


@pytest.mark.parametrize(
    ("frees_disk", "lists", "unrepaired"),
    [(True, [[2, 1], [0, 3]], [False, False]), (False, [[2, 1], [2, 3]], [False, True])],
)
def test_space_that_a_second_choice_frees_serves_the_next(
    frees_disk: bool, lists: list[list[int]], unrepaired: list[bool]
) -> None:
    """Both partitions are in one rack. Only broker 2 has space; broker 0 has some once the first partition left it."""
    partitions = make_partitions([[0, 1], [2, 3]], [5, 5])
    chosen, held_back = second_choices(
        make_brokers([0, 0, 1, 1]),
        partitions,
        np.zeros(2, dtype=bool),
        planned=partitions.replicas,
        unchanged=partitions.rows(np.zeros(0, dtype=np.int64)),
        room_bytes=np.array([0.0, 0.0, 5.0, 0.0]),
        allowed=NO_LIMIT,
        frees_disk=frees_disk,
    )
    assert chosen.tolist() == lists
    assert held_back.tolist() == unrepaired


def test_an_excluded_partition_leaves_a_broker_to_empty_and_keeps_its_other_replicas() -> None:
    """Both partitions break the rack rule as before; only the replica on broker 0, which is emptied, moves."""
    partitions = make_partitions([[0, 1, 2], [1, 2, 3]], [5, 5])
    brokers = make_brokers([0, 0, 1, 1, 2])
    chosen, held_back = second_choices(
        replace(brokers, must_empty=np.arange(5) == 0, accepts_replicas=np.arange(5) != 0),
        replace(partitions, mobility=np.full(2, FORCED_ONLY)),
        np.zeros(2, dtype=bool),
        planned=partitions.replicas,
        unchanged=partitions.rows(np.zeros(0, dtype=np.int64)),
        room_bytes=np.array([0.0, 0.0, 0.0, 5.0, 0.0]),
        allowed=NO_LIMIT,
        frees_disk=True,
    )
    assert chosen.tolist() == [[3, 1, 2], [1, 2, 3]]
    assert held_back.tolist() == [False, False]
