"""How evenly members of a group share what they read: against all assignments, and against Kafka's assignors."""

import time
from collections.abc import Sequence
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.kafka.assignors import Member
from optimizer.planning.consumer_rows import evenness, largest_first, least_of_busiest

SIZES = st.lists(st.integers(0, 20), min_size=1, max_size=7).map(lambda sizes: sorted(sizes, reverse=True))


def busiest(sizes: list[int], places: Sequence[int]) -> int:
    """The sum of the busiest member, if each size is at this place."""
    return int(np.bincount(places, sizes).max())


def best_places(sizes: list[int], members: int) -> Sequence[int]:
    """The places with the least sum of the busiest member, by trying every assignment."""
    return min(product(range(members), repeat=len(sizes)), key=lambda places: busiest(sizes, places))


def optimum(sizes: list[int], members: int) -> int:
    """The least sum of the busiest member."""
    return busiest(sizes, best_places(sizes, members))


@given(SIZES, st.integers(1, 3))
def test_the_optimum_is_between_bound_and_largest_first(sizes: list[int], members: int) -> None:
    """No assignment of whole partitions is below the bound; largest first is one, at most 4/3 of the best."""
    best, given_sizes = optimum(sizes, members), np.array(sizes)
    assert least_of_busiest(given_sizes, members) <= best <= largest_first(given_sizes, members) <= best * 4 / 3


@pytest.mark.parametrize(
    ("sizes", "members", "least"),
    [
        ([4, 4, 4], 2, 8),  # two of the three largest share a member; the mean is 6
        ([9, 1, 1], 2, 9),  # the largest alone
        ([3, 3, 2, 2, 2], 2, 6),  # the mean
        ([5, 5, 5, 5, 5], 2, 15),  # three of five share a member
        ([7], 3, 7),
        ([0], 3, 0),
    ],
)
def test_the_bound_counts_whole_partitions(sizes: list[int], members: int, least: int) -> None:
    """It is the mean, the largest, or the smallest of those that some member must have together."""
    assert least_of_busiest(np.array(sizes), members) == least


def test_ratios_of_a_group() -> None:
    """The busiest member over the mean: now, possible, at least, and by both assignors."""
    rates = {("a", 0): 60, ("a", 1): 20, ("b", 0): 60, ("b", 1): 20}
    members = [Member("m1", ("a", "b")), Member("m2", ("a", "b"))]
    found = evenness(members, {"m1": 160, "m2": 0}, rates, {"a": 2, "b": 2})
    assert found is not None
    assert vars(found) == {
        "busiest_over_mean": 2.0, "possible_over_mean": 1.0, "least_over_mean": 1.0, "range_over_mean": 1.5,
        "round_robin_over_mean": 1.5,
    }  # fmt: skip


def test_another_assignment_may_be_better_than_the_largest_first() -> None:
    """What is possible is the best of all assignments that are known."""
    rates = {("a", number): rate for number, rate in enumerate((2, 3, 2, 3, 2))}
    members = [Member("m1", ("a",)), Member("m2", ("a",))]
    found = evenness(members, {"m1": 12, "m2": 0}, rates, {"a": 5})
    assert found is not None
    assert (found.busiest_over_mean, found.possible_over_mean) == (2.0, 1.0)
    assert (found.least_over_mean, found.round_robin_over_mean) == (1.0, 1.0)


@given(SIZES, SIZES, st.integers(1, 3), st.none() | st.randoms(use_true_random=False))
def test_what_is_possible_is_no_worse_than_any_assignment_that_is_known(
    first: list[int], second: list[int], count: int, random: Random | None
) -> None:
    """Of today's, both assignors' and the largest first it is the best, also if today's is the best of all; none is
    below the bound or the optimum."""
    topics = {"a": first[:4], "b": second[:3]}
    rates = {(topic, number): rate for topic, each in topics.items() for number, rate in enumerate(each)}
    members = [Member(f"m{number}", tuple(topics)) for number in range(count)]
    places = [random.randrange(count) for _ in rates] if random else best_places([*rates.values()], count)
    held = {member.member_id: 0 for member in members}
    for place, rate in zip(places, rates.values(), strict=True):
        held[f"m{place}"] += rate
    found = evenness(members, held, rates, {topic: len(each) for topic, each in topics.items()})
    if found is None:
        assert not any(rates.values())
        return
    sizes, mean = sorted(rates.values(), reverse=True), sum(rates.values()) / count
    known = (found.busiest_over_mean, found.range_over_mean, found.round_robin_over_mean)
    assert found.busiest_over_mean == max(held.values()) / mean
    assert found.possible_over_mean == min(*known, largest_first(np.array(sizes), count) / mean)
    assert found.least_over_mean <= optimum(sizes, count) / mean <= found.possible_over_mean


@pytest.mark.all_only
def test_many_topics_take_seconds() -> None:
    """The cost is linear in members of topics, not in topics of members of topics."""
    names = tuple(f"t{number:05d}" for number in range(10_000))
    members = [Member(f"m{number}", names) for number in range(20)]
    began = time.process_time()
    found = evenness(
        members, dict.fromkeys((m.member_id for m in members), 1), {(t, 0): 1 for t in names}, dict.fromkeys(names, 1)
    )
    assert found is not None
    assert found.round_robin_over_mean == 1.0
    assert time.process_time() - began < 5


@pytest.mark.parametrize(("members", "rates"), [([], {("a", 0): 1}), ([Member("m", ("a",))], {("a", 0): 0})])
def test_without_a_mean(members: list[Member], rates: dict[tuple[str, int], int]) -> None:
    """Without members or bytes there are no ratios."""
    assert evenness(members, {"m": 0}, rates, {"a": 1}) is None
