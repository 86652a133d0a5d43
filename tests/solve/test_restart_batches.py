"""Restart batches against brute force, and against the definition."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pytest

from optimizer.domain import Bools, Ints
from optimizer.solve.restart_batches import Batches, Cap, fewest_batches, restart_rows


def breaks(batch: Sequence[int], in_sync: Ints, slack: Ints) -> bool:
    """Whether a partition with slack loses more replicas than it may, counted replica by replica."""
    return any(
        allowed > 0 and sum(broker in batch for broker in replicas if broker >= 0) > allowed
        for replicas, allowed in zip(in_sync.tolist(), slack.tolist(), strict=True)
    )


def splits(brokers: Sequence[int]) -> Iterator[list[list[int]]]:
    """All ways to deal brokers into batches."""
    if not brokers:
        yield []
        return
    head, *rest = brokers
    for split in splits(rest):
        yield [[head], *split]
        for at, batch in enumerate(split):
            yield [*split[:at], [head, *batch], *split[at + 1 :]]


def is_too_heavy(batch: Sequence[int], caps: Sequence[Cap]) -> bool:
    """Whether a batch weighs more than a cap; a broker never weighs more than the cap."""
    return any(sum(min(int(weights[broker]), cap) for broker in batch) > cap for weights, cap in caps)


def brute_force(in_sync: Ints, slack: Ints, may_restart: Bools, caps: Sequence[Cap]) -> int:
    """The fewest batches, from all splits."""
    usable = {
        batch: not (breaks(batch, in_sync, slack) or is_too_heavy(batch, caps))
        for size in range(1, len(may_restart) + 1)
        for batch in combinations(range(len(may_restart)), size)
    }
    allowed = (
        len(split)
        for split in splits(np.flatnonzero(may_restart).tolist())
        if all(usable[tuple(sorted(batch))] for batch in split)
    )
    return min(allowed)


def caps_of(most: int, may_restart: Bools) -> list[Cap]:
    """At most so many brokers in a batch; 0: any number."""
    return [(np.ones(len(may_restart), dtype=np.int64), most)] if most else []


def random_case(seed: int) -> tuple[Ints, Ints, Bools, list[Cap]]:
    """Up to 7 brokers; factors of 1 to 5, some of the replicas out of sync; slack of -1 to 3; up to two caps."""
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(2, 8)), int(rng.integers(1, 14))
    width = min(size, 5)
    in_sync = np.array([rng.permutation(size)[:width] for _ in range(count)])
    in_sync[rng.random(in_sync.shape) < 0.3] = -1
    slack = rng.choice([-1, 0, 1, 2, 3], size=count, p=[0.05, 0.1, [0.1, 0.5][seed % 2], 0.25, [0.5, 0.1][seed % 2]])
    may_restart = rng.random(size) < 0.9
    caps = caps_of(int(rng.choice([0, 0, 2, 3])), may_restart)
    caps += [(rng.integers(0, 5, size), int(rng.integers(3, 9)))] if seed % 3 == 0 else []
    return in_sync, slack, may_restart, caps


def check(found: Batches, in_sync: Ints, slack: Ints, may_restart: Bools, caps: Sequence[Cap] = ()) -> None:
    """Each broker is in one batch, no batch is too heavy, and no partition with slack falls short."""
    assert sorted(broker for batch in found.batches for broker in batch) == np.flatnonzero(may_restart).tolist()
    assert not any(breaks(batch, in_sync, slack) for batch in found.batches)
    assert not any(is_too_heavy(batch, caps) for batch in found.batches)
    assert [*found.batches] == sorted(found.batches, key=lambda batch: (-len(batch), batch))
    assert all(breaks(pair, in_sync, slack) for pair in combinations(found.clique, 2))


@pytest.mark.parametrize("seed", range(120))
def test_as_few_as_brute_force(seed: int) -> None:
    """Also with larger slack, brokers that stay up, and caps."""
    in_sync, slack, may_restart, caps = case = random_case(seed)
    found = fewest_batches(in_sync, slack, may_restart, caps=caps)
    check(found, *case)
    assert (len(found.batches), found.is_proven) == (brute_force(*case), True)
    assert found == fewest_batches(in_sync, slack, may_restart, caps=caps)


def test_the_search_closes_a_gap() -> None:
    """Seven brokers in a ring, neighbours apart: no three are pairwise apart, and two batches are too few."""
    ring = np.array([[broker, (broker + 1) % 7] for broker in range(7)])
    found = fewest_batches(ring, np.ones(7, dtype=np.int64), np.ones(7, dtype=bool))
    assert (len(found.batches), found.bound, len(found.clique)) == (3, 3, 2)


def test_a_given_batch_each_is_used_if_nothing_is_better() -> None:
    """Three racks of two brokers, and partitions with a replica in each."""
    racks = np.array([0, 1, 2, 0, 1, 2])
    in_sync = np.array([[0, 1, 2], [0, 4, 5]])
    slack, everything = np.array([1, 1]), np.ones(6, dtype=bool)
    found = fewest_batches(in_sync, slack, everything, groups=racks)
    assert found.batches == ((0, 3), (1, 4), (2, 5))
    broken = fewest_batches(np.array([[0, 3]]), np.array([1]), everything, groups=racks)
    assert (len(broken.batches), broken.bound) == (2, 2)
    assert len(fewest_batches(in_sync, slack, everything, caps=caps_of(1, everything), groups=racks).batches) == 6


def test_given_groups_are_kept_if_nothing_is_better() -> None:
    """Although brokers 3, 4 and 5 have no partitions, and could all be in the first batch."""
    in_sync, groups = np.array([[0, 1, 2]]), np.array([0, 1, 2, 0, 1, 2])
    found = fewest_batches(in_sync, np.array([1]), np.ones(6, dtype=bool), groups=groups)
    assert found.batches == ((0, 3), (1, 4), (2, 5))


def test_the_search_finds_what_the_greedy_method_misses() -> None:
    """200 partitions of two replicas on 30 brokers: five batches instead of six."""
    rng = np.random.default_rng(0)
    dense = np.array([rng.permutation(30)[:2] for _ in range(200)])
    slack, everything = np.ones(len(dense), dtype=np.int64), np.ones(30, dtype=bool)
    greedy = fewest_batches(dense, slack, everything, deterministic_time=0)
    found = fewest_batches(dense, slack, everything)
    assert (found.is_proven, len(found.batches), len(greedy.batches)) == (True, 5, 6)
    check(found, dense, slack, everything)


def test_rows_are_distinct() -> None:
    """Slack 1 becomes pairs; of two limits for the same brokers the lower one counts."""
    in_sync = np.array([[0, 1, -1, -1], [1, 0, -1, -1], [2, 3, 4, 5], [5, 4, 3, 2], [2, 3, -1, -1]])
    apart, rows = restart_rows(in_sync, np.array([1, 1, 3, 2, 2]), np.ones(6, dtype=bool))
    assert (np.argwhere(apart).tolist(), rows) == ([[0, 1], [1, 0]], [(frozenset({2, 3, 4, 5}), 2)])


def test_brokers_apart_whatever_their_partitions() -> None:
    """Three voters of the controllers, one of which stays up."""
    nothing, up = np.zeros((0, 1), dtype=np.int64), np.array([True, True, True, False])
    found = fewest_batches(nothing, np.zeros(0, dtype=np.int64), up, apart=np.array([1, 2, 3]))
    assert found.batches == ((0, 1), (2,))


def test_without_time_for_a_search_nothing_is_claimed() -> None:
    """The bound is below the batches."""
    ring = np.array([[broker, (broker + 1) % 7] for broker in range(7)])
    found = fewest_batches(ring, np.ones(7, dtype=np.int64), np.ones(7, dtype=bool), deterministic_time=0)
    assert (len(found.batches), found.bound, found.is_proven) == (3, 2, False)


@pytest.mark.parametrize("brokers", [0, 1, 3])
def test_without_partitions_all_restart_together(brokers: int) -> None:
    """And without brokers there is no batch."""
    found = fewest_batches(np.zeros((0, 1), dtype=np.int64), np.zeros(0, dtype=np.int64), np.ones(brokers, dtype=bool))
    assert (len(found.batches), found.is_proven) == (min(brokers, 1), True)
