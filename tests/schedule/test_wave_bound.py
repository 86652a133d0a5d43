"""The bound on the total time of waves: valid for every division, and exact where one end decides."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.schedule.estimate import traffic
from optimizer.schedule.wave_bound import ends_of, least_total_bytes
from optimizer.schedule.wave_changes import WaveChanges
from tests.schedule.test_waves import Row, changes_from_rows

BROKERS = 4


def total_bytes(changes: WaveChanges, wave_of: np.ndarray) -> int:
    """The sum of the waves' lengths."""
    parts = [changes.select(wave_of == wave) for wave in np.unique(wave_of)]
    return sum(int(traffic(part, BROKERS).busiest.max(initial=0)) for part in parts)


def divisions(n_changes: int, n_waves: int) -> Iterator[list[int]]:
    """Each way to divide changes into so many waves with a change each, apart from the order of the waves."""
    if n_changes == 0:
        yield from [[]] if n_waves == 0 else []
        return
    for first in divisions(n_changes - 1, n_waves):
        yield from ([*first, wave] for wave in range(n_waves))
    if n_waves:
        yield from ([*first, n_waves - 1] for first in divisions(n_changes - 1, n_waves - 1))


def least_of_all(changes: WaveChanges, n_waves: int) -> int:
    """The least sum over all divisions into so many waves."""
    return min(total_bytes(changes, np.array(wave_of)) for wave_of in divisions(len(changes), n_waves))


@st.composite
def few_changes(draw: st.DrawFn) -> tuple[WaveChanges, int]:
    """Up to six changes on four brokers, some without a leader or without a copy, and a number of waves."""
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, 6))):
        hosts = list(draw(st.permutations(range(BROKERS))))
        copies = draw(st.sampled_from([1, 1, 1, 0, 2, 3]))
        source = draw(st.sampled_from([hosts[3], hosts[3], hosts[3], -1]))
        rows.append(("balance", draw(st.integers(0, 9)), source, hosts[:copies], []))
    return changes_from_rows(rows, BROKERS), draw(st.integers(1, len(rows)))


@settings(max_examples=150, deadline=None)
@given(few_changes())
def test_no_division_is_shorter_than_the_bound(case: tuple[WaveChanges, int]) -> None:
    """All divisions of tiny plans into waves with a change each are at least as long in total."""
    changes, n_waves = case
    assert least_total_bytes(changes, BROKERS, n_waves) <= least_of_all(changes, n_waves)


def copy_of(size: int, source: int, *targets: int) -> Row:
    """A change that copies."""
    return ("balance", size, source, list(targets), [])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([copy_of(5, 0, 1), copy_of(7, 0, 2)], [12, 12], id="one leader sends all"),
        pytest.param([copy_of(5, 0, 2), copy_of(7, 1, 2)], [12, 12], id="one broker receives all"),
        pytest.param([copy_of(5, 0, 1), copy_of(7, 2, 3)], [7, 12], id="a second wave has the other change"),
        pytest.param(
            [copy_of(9, 0, 1), copy_of(3, 2, 3), copy_of(2, 2, 3), copy_of(4, 3, 2)],
            [9, 11, 14, 18],
            id="smallest first",
        ),
        pytest.param([copy_of(5, 0, 1, 2, 3), copy_of(1, 0, 1)], [16, 16], id="a leader sends every copy"),
        pytest.param([copy_of(5, -1, 1, 2), copy_of(1, -1, 3)], [5, 6], id="a target receives one copy"),
        pytest.param([copy_of(5, 0, 1), copy_of(9, 0), copy_of(3, 2, 3)], [5, 5, 8], id="a removal takes no time"),
    ],
)
def test_the_bound_of_small_plans(rows: list[Row], expected: list[int]) -> None:
    """For each number of waves: the end's bytes, and the smallest other changes for waves without a part of it."""
    changes = changes_from_rows(rows, BROKERS)
    bounds = [least_total_bytes(changes, BROKERS, n + 1) for n in range(len(rows))]
    assert bounds == expected == [least_of_all(changes, n + 1) for n in range(len(rows))]


def test_another_end_than_the_busiest_may_prove_more() -> None:
    """The leader of 6 + 6 proves 12 + 5 for three waves; the end of the change of 11 proves 11 + 5 + 6."""
    rows = [copy_of(6, 0, 1), copy_of(6, 0, 2), copy_of(11, 3, 0), copy_of(5, 2, 3)]
    changes = changes_from_rows(rows, BROKERS)
    assert least_total_bytes(changes, BROKERS, 3) == least_of_all(changes, 3) == 22


def test_nothing_to_do_has_the_bound_zero() -> None:
    """Without changes there are no bytes."""
    assert least_total_bytes(changes_from_rows([], BROKERS), BROKERS, 0) == 0


def test_ends_are_targets_and_the_leader() -> None:
    """Targets receive one copy each, the leader sends them all; what has no end is in the last column."""
    ends = ends_of(changes_from_rows([copy_of(5, 2, 0, 1), copy_of(3, -1, 0), copy_of(4, 1)], 3), 3)
    assert ends.column.tolist() == [[0, 1, 5], [0, 6, 6], [6, 6, 6]]
    assert ends.size_bytes.tolist() == [[5, 5, 10], [3, 0, 0], [0, 0, 0]]
    assert ends.length_bytes.tolist() == [10, 3, 0]
    assert ends.loads(np.array([True, True, False])).tolist() == [8, 5, 0, 0, 0, 10, 0]
