"""The controller's state of a partition that is reassigned."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import ConfigError
from optimizer.kafka.partition_state import (
    Completed,
    CompletionRule,
    InFlight,
    cancel,
    complete,
    reassignments_end,
    start,
)
from optimizer.kafka.versions import completion_rule

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


ADDED, TARGET, TARGET_IF_FEWER = CompletionRule


@pytest.mark.parametrize(
    ("current", "target", "isr", "ends"),
    [
        ([1, 2, 3], [4, 2, 3], [1, 3, 4], {ADDED, TARGET_IF_FEWER}),
        ([1, 2, 3], [4, 2, 3], [1, 2, 3, 4], set(CompletionRule)),
        ([1, 2, 3], [4, 2, 3], [1, 2, 3], set()),
        ([2, 3, 4], [2, 4], [2, 3], {ADDED}),
        ([2, 3, 4], [2, 4], [3], set()),
        ([1, 2, 3, 4], [5, 1], [1, 5], set(CompletionRule)),
        ([1, 2, 3, 4], [5, 1], [2, 5], {ADDED}),
        ([1, 2], [1, 2, 3], [1, 3], {ADDED, TARGET_IF_FEWER}),
    ],
)
def test_rules(current: list[int], target: list[int], isr: list[int], ends: set[CompletionRule]) -> None:
    """A replica that stays and is out of sync delays the end by some rules."""
    assert {rule for rule in CompletionRule if complete(start(current, target), isr, rule)} == ends


@pytest.mark.parametrize(
    ("versions", "rule", "kraft_rule"),
    [
        (["", "4.2", "4.2.1", "4.1.2", "4.0", "4", "3.9.2", "3.8", "3.8.0"], TARGET, TARGET),
        (["3.7.2", "3.7", "3.6.0", "3.3", "2.8", "0.11"], TARGET, ADDED),
        (["4.3", "4.3.0", "4.3.1", "4.4", "5"], TARGET_IF_FEWER, TARGET_IF_FEWER),
    ],
)
def test_rule_of_a_release(versions: list[str], rule: CompletionRule, kraft_rule: CompletionRule) -> None:
    """Without a version, or if only KRaft mode would end earlier, the rule that ends least often applies."""
    assert {completion_rule(version) for version in versions} == {rule}
    assert {completion_rule(version, is_kraft=True) for version in versions} == {kraft_rule}


def test_rule_of_a_text() -> None:
    """A text that is not a version is refused."""
    with pytest.raises(ConfigError, match="is not a version"):
        completion_rule("latest")


def padded(lists: list[list[int]], width: int = 6) -> list[list[int]]:
    """Lists filled up with -1."""
    return [[*x, *[-1] * (width - len(x))] for x in lists]


FEW = st.lists(st.integers(0, 4), min_size=1, max_size=5, unique=True)


@given(st.lists(st.tuples(FEW, FEW, st.sets(st.integers(0, 4))), min_size=1), st.sampled_from(CompletionRule))
def test_many_reassignments(rows: list[tuple[list[int], list[int], set[int]]], rule: CompletionRule) -> None:
    """Arrays of partitions give what Kafka's rule gives for each; lists of the same brokers end at once."""
    current, target = (np.array(padded(lists)) for lists in ([old for old, *_ in rows], [new for _, new, _ in rows]))
    in_sync = np.array([[broker in isr | {-1} for broker in old] for old, (*_, isr) in zip(current, rows, strict=True)])
    wanted = [
        set(old) == set(new) or complete(start(old, new), sorted({*isr} & {*old} | {*new} - {*old}), rule) is not None
        for old, new, isr in rows
    ]
    assert reassignments_end(current, target, in_sync, rule).tolist() == wanted


@given(LISTS, LISTS, st.sets(st.integers(0, 9)))
def test_the_strictest_rule(current: list[int], target: list[int], isr: set[int]) -> None:
    """What ends by the rule of an unknown version ends by every rule, in the same state."""
    ends = [complete(start(current, target), sorted(isr), rule) for rule in (TARGET, TARGET_IF_FEWER, ADDED)]
    assert all(later == earlier for earlier, later in pairwise(ends) if earlier)
