"""Other lists for partitions whose planned change was removed."""

import numpy as np
import pytest

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
