"""What a plan changes, from lists before and after."""

import numpy as np
import pytest

from optimizer.kafka.size_limits import list_characters
from optimizer.schedule.wave_changes import WaveChanges, wave_changes_between

IDS = np.array([7, 40, 300])


def changed(before: list[int], after: list[int], partition: int = 12) -> WaveChanges:
    """The change of one partition."""
    one, none = np.array([5], dtype=np.int64), np.zeros(1, dtype=np.int64)
    return wave_changes_between(
        np.array([before]),
        np.array([after]),
        IDS,
        topic=np.array(["t"], dtype=object),
        partition=np.array([partition]),
        size_bytes=one,
        copy_bytes=one[:, None],
        in_bytes_per_s=none,
        leader=none,
        in_sync_followers=none,
        urgency=none,
    )


@pytest.mark.parametrize(
    ("before", "after", "added", "removed"),
    [
        ([0, 1], [0, 2], {2}, {1}),
        ([0, 1, -1], [1, 0, 2], {2}, set()),
        ([0, 1], [1, 0], set(), set()),
        ([0, 1, 2], [2], set(), {0, 1}),
    ],
)
def test_what_comes_and_what_goes(before: list[int], after: list[int], added: set[int], removed: set[int]) -> None:
    """Brokers of one list that are not in the other, whatever their places and the lists' lengths."""
    found = changed(before, after)
    assert {*found.added[0].tolist()} - {-1} == added
    assert {*found.removed[0].tolist()} - {-1} == removed
    assert found.copies.tolist() == [len(added)]


@pytest.mark.parametrize(
    ("before", "after", "leaders", "followers"),
    [
        ([0, 1], [0, 2], (2, 4), (1, 3)),  # 7 and 300; 300
        ([0, 2], [0, 1], (2, 4), (1, 3)),  # the way back counts where it is longer
        ([0, 1], [1, 0], (2, 3), (0, 0)),
    ],
)
def test_the_longer_of_there_and_back_counts(
    before: list[int], after: list[int], leaders: tuple[int, int], followers: tuple[int, int]
) -> None:
    """Characters in the leader's list, of all brokers, and in the follower's, of those that copy."""
    expected = [list_characters(12, *leaders), list_characters(12, *followers)]
    assert changed(before, after).list_characters.tolist() == [expected]
