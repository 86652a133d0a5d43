"""Moves inside one broker: within the limits, at least the bound, and as few bytes as the best of all choices."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.domain import Ints
from optimizer.solve.dirs.dir_bands import NO_MOVE, DirBands, dir_bands, moved_loads
from optimizer.solve.dirs.inside import few_bytes, moves_inside

Case = tuple[DirBands, Ints, Ints, Ints]


@st.composite
def brokers(draw: st.DrawFn) -> Case:
    """Bands and bytes of two or three directories, and the size and directory of up to six replicas."""
    n_dirs, n = draw(st.integers(2, 3)), draw(st.integers(1, 6))
    size = np.array(draw(st.lists(st.integers(1, 30), min_size=n, max_size=n)), dtype=np.int64)
    directory = np.array(draw(st.lists(st.integers(0, n_dirs - 1), min_size=n, max_size=n)), dtype=np.int64)
    other = np.array(draw(st.lists(st.sampled_from((0, 0, 10)), min_size=n_dirs, max_size=n_dirs)), dtype=np.int64)
    whole = np.array(draw(st.lists(st.sampled_from((50.0, 100.0)), min_size=n_dirs, max_size=n_dirs)))
    load = other + np.bincount(directory, weights=size, minlength=n_dirs).astype(np.int64)
    band = draw(st.sampled_from((0.0, 0.1, 0.3, 2.0)))
    limit = (whole * draw(st.sampled_from((0.5, 0.9, 10.0)))).astype(np.int64)
    return dir_bands(load, whole_bytes=whole, limit_bytes=limit, band=band), load, size, directory


def cost(case: Case, target: Ints) -> tuple[int, int]:
    """Bytes outside the bands, then bytes that move."""
    bands, load, size, directory = case
    after = moved_loads(load, size_bytes=size, directory=directory, target=target)
    return int(bands.outside_bytes(after).sum()), int(size[target != NO_MOVE].sum())


def arriving(case: Case, target: Ints) -> Ints:
    """Bytes that arrive in each directory."""
    _, load, size, _ = case
    moves = target != NO_MOVE
    return np.bincount(target[moves], weights=size[moves], minlength=len(load)).astype(np.int64)


def all_choices(case: Case) -> Iterator[Ints]:
    """Every choice in which all copies fit beside what is there."""
    bands, load, size, directory = case
    for targets in product(range(len(load)), repeat=len(size)):
        target = np.where(np.array(targets) == directory, NO_MOVE, targets)
        comes = arriving(case, target)
        if ((load + comes <= bands.limit_bytes) | (comes == 0)).all():
            yield target


@settings(deadline=None)
@given(brokers())
def test_no_choice_is_better(case: Case) -> None:
    """Of few replicas. First come bytes outside the bands, then bytes that move; directories keep their limits."""
    bands, load, size, directory = case
    target = moves_inside(bands, load, size_bytes=size, directory=directory)
    comes = arriving(case, target)
    assert ((load + comes <= bands.limit_bytes) | (comes == 0)).all()
    outside, moved = cost(case, target)
    best = min(cost(case, other) for other in all_choices(case))
    assert outside == best[0]
    if outside == 0:
        assert best[1] >= bands.bound_bytes(load)
        assert moved <= max(best[1], 1.01 * bands.bound_bytes(load))


@given(brokers())
def test_a_directory_only_gives_or_only_gets(case: Case) -> None:
    """So both copies fit at any time, in any order."""
    bands, load, size, directory = case
    target = few_bytes(bands, load, size_bytes=size, directory=directory)
    moves = target != NO_MOVE
    assert not set(directory[moves]) & set(target[moves])
    assert cost(case, target)[0] <= cost(case, np.full_like(target, NO_MOVE))[0]


@pytest.mark.parametrize("n_dirs", [2, 3])
def test_a_directory_that_cannot_be_inside_comes_as_close_as_it_can(n_dirs: int) -> None:
    """Of 2,000 GB in a directory only 500 may leave: all of them do, until the band of the others is full."""
    load = np.array([2000, *[500] * (n_dirs - 1)])
    whole = np.full(n_dirs, 2000.0)
    bands = dir_bands(load, whole_bytes=whole, limit_bytes=np.full(n_dirs, 1800), band=0.1)
    replicas = {"size_bytes": np.ones(500, dtype=np.int64), "directory": np.zeros(500, dtype=np.int64)}
    after = moved_loads(load, **replicas, target=moves_inside(bands, load, **replicas))
    assert after[0] == max(2000 - 500, bands.upper_bytes[0])
    assert (after[1:] <= bands.upper_bytes[1:]).all()


@pytest.mark.parametrize("n_dirs", [2, 5, 12])
def test_many_replicas_are_near_the_bound(n_dirs: int) -> None:
    """Sizes of a thousand replicas, of which a third more are in the first directory."""
    rng = np.random.default_rng(n_dirs)
    size = (rng.pareto(1.2, 1000) * 1e9).astype(np.int64).clip(1, 10**10)
    directory = np.where(rng.random(1000) < 0.3, 0, rng.integers(0, n_dirs, 1000))
    load = np.bincount(directory, weights=size, minlength=n_dirs).astype(np.int64)
    whole = np.full(n_dirs, 1e13)
    bands = dir_bands(load, whole_bytes=whole, limit_bytes=whole.astype(np.int64), band=0.1)
    outside, moved = cost(
        (bands, load, size, directory), moves_inside(bands, load, size_bytes=size, directory=directory)
    )
    assert outside == 0
    assert bands.bound_bytes(load) <= moved <= 1.02 * bands.bound_bytes(load)


def test_a_broker_inside_its_bands_keeps_everything() -> None:
    """Also if a replica could move."""
    load = np.array([50, 52])
    bands = dir_bands(load, whole_bytes=np.array([100.0, 100.0]), limit_bytes=np.array([90, 90]), band=0.1)
    target = moves_inside(bands, load, size_bytes=np.array([1]), directory=np.array([1]))
    assert target.tolist() == [NO_MOVE]
