"""What is wrong with a cluster."""

from dataclasses import replace
from typing import Any

import pytest

from execution.health import (
    FULL,
    GONE,
    OFFLINE,
    UNDER_MIN,
    UNDER_REPLICATED,
    Baseline,
    baseline_of,
    by_worst_kind,
    full_directories,
    signs,
)
from execution.observed import Stored
from tests.execution.lab import cluster_at

NOW = cluster_at({("t", 0): (1, 2), ("t", 1): (2, 3)})
LAGS = {**NOW.in_sync, ("t", 0): frozenset({1})}


@pytest.mark.parametrize(
    ("changes", "min_isr", "kinds"),
    [
        ({}, {}, []),
        ({"in_sync": LAGS}, {}, [UNDER_REPLICATED]),
        ({"in_sync": LAGS}, {"t": 2}, [UNDER_MIN, UNDER_REPLICATED]),
        ({"in_sync": LAGS}, {"u": 2}, [UNDER_REPLICATED]),
        ({"leaders": {**NOW.leaders, ("t", 0): None}}, {}, [OFFLINE, UNDER_MIN, UNDER_REPLICATED]),
        ({"in_sync": LAGS, "adding": {("t", 0): frozenset({2})}}, {}, []),
        ({"in_sync": LAGS, "adding": {("t", 0): frozenset({3})}}, {}, [UNDER_REPLICATED]),
    ],
)
def test_a_partition_has_all_kinds_up_to_its_worst(
    changes: dict[str, Any], min_isr: dict[str, int], kinds: list[str]
) -> None:
    """So a partition that gets better is no new sign; a replica that is being added may lack."""
    assert list(signs(replace(NOW, **changes), min_isr)) == [(kind, "t", 0) for kind in kinds]


def test_missing_brokers_are_signs() -> None:
    """Those that should be alive."""
    now = replace(NOW, alive=frozenset({1, 2, 3}))
    assert list(signs(now, {}, brokers=[2, 5, 4])) == [(GONE, "", 4), (GONE, "", 5)]


def test_a_partition_is_named_once() -> None:
    """With its worst kind, the worst first."""
    some = [(UNDER_REPLICATED, "t", 1), (UNDER_REPLICATED, "t", 0), (OFFLINE, "t", 0), (GONE, "", 3)]
    assert list(by_worst_kind(some).items()) == [(OFFLINE, [("t", 0)]), (UNDER_REPLICATED, [("t", 1)])]


def test_a_directory_is_full_below_the_headroom() -> None:
    """Of its own disk; exactly the headroom is enough."""
    stored = Stored({}, {}, {(2, "/b"): (100, 9), (1, "/a"): (100, 10), (1, "/c"): (1000, 99)})
    assert list(full_directories(stored, 0.1)) == [(FULL, "/c", 1), (FULL, "/b", 2)]
    assert list(full_directories(stored, 0.0)) == []


def test_a_baseline_has_brokers_and_signs() -> None:
    """It survives as JSON data."""
    full = [(FULL, "/c", 1)]
    baseline = baseline_of(replace(NOW, in_sync=LAGS, min_isr={"t": 2}), full)
    assert baseline == Baseline(NOW.alive, frozenset({(UNDER_MIN, "t", 0), (UNDER_REPLICATED, "t", 0), *full}))
    assert Baseline.of_data(baseline.to_data()) == baseline
