"""The controller's state of a partition that is reassigned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.kafka.partition_state import Completed, InFlight, cancel, complete, start

LISTS = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True)


def test_in_flight() -> None:
    """The target comes first, then the replicas to remove; adding and removing are ascending."""
    assert start([0, 1, 2], [5, 1, 0]) == InFlight((5, 1, 0, 2), (5,), (2,))


def test_a_cancel_does_not_restore_the_order() -> None:
    """After a cancel the preferred leader may differ."""
    assert cancel(start([0, 1, 2], [5, 1, 0])) == (1, 0, 2)


@pytest.mark.parametrize(
    ("current", "target", "isr", "done"),
    [
        ([0, 1], [0, 2], [0, 1], None),
        ([0, 1], [0, 2], [1, 2], Completed((0, 2), (2,))),
        ([0, 1, 2], [0, 3], [2, 3], None),
        ([0, 1, 2], [0, 3], [0, 2, 3], Completed((0, 3), (0, 3))),
        ([0, 1, 2], [0], [1, 2], None),
        ([0, 1, 2], [0], [0, 1, 2], Completed((0,), (0,))),
        ([0, 1], [1, 0], [0, 1], None),
    ],
)
def test_completion(current: list[int], target: list[int], isr: list[int], done: Completed | None) -> None:
    """A move completes when the added replicas are in sync, a shrink when all that stay are.

    A reorder is never in flight.
    """
    assert complete(start(current, target), isr) == done


@given(LISTS, LISTS)
def test_nothing_is_lost(current: list[int], target: list[int]) -> None:
    """A cancel restores the old brokers; with all in sync a move ends at its target, in its order."""
    state = start(current, target)
    assert sorted(cancel(state)) == sorted(current)
    done = complete(state, state.replicas)
    assert (done is None) == (set(current) == set(target))
    assert done is None or done.replicas == tuple(target)
