"""Replicas are dealt to the directories of their brokers by bytes, at every moment of the plan."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.domain import Ints, LogDir
from optimizer.schedule.directories import (
    NO_DIRECTORY,
    Directories,
    Visits,
    deal,
    directories_of,
    fullest,
    kafka_choice,
)
from optimizer.schedule.directory_plan import NO_ROUND, DirectoryPlan, Rounds, directory_plan
from optimizer.schedule.wave_changes import WaveChanges, wave_changes_between

SIZES = st.integers(1, 200)


def log_dirs(*used: int, capacity: int | None = 100) -> tuple[LogDir, ...]:
    """Directories /0, /1, ... with these bytes, as many logs as tens of bytes, all open."""
    return tuple(LogDir(f"/{d}", capacity, n, n // 10, is_open=True) for d, n in enumerate(used))


def visits(arrive: list[tuple[int, int]], leave: Sequence[tuple[int, int, int]] = (), n_waves: int = 3) -> Visits:
    """Replicas that arrive as (bytes, wave), and that leave as (bytes, wave, directory)."""
    size, wave = np.array(arrive, dtype=np.int64).reshape(-1, 2).T
    left_bytes, left_wave, left_from = np.array(leave, dtype=np.int64).reshape(-1, 3).T
    return Visits(size, wave, left_bytes, left_wave, left_from, n_waves)


@st.composite
def dealings(draw: st.DrawFn) -> tuple[Directories, Visits]:
    """A broker with two to four directories, some closed, and what arrives and leaves in up to four waves."""
    n_waves, n_dirs = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    dirs = [
        LogDir(f"/{d}", draw(st.integers(300, 900)), draw(st.integers(0, 300)), draw(st.integers(0, 9)), is_open=d == 0)
        for d in range(n_dirs)
    ]
    dirs = [replace(log_dir, is_open=log_dir.is_open or draw(st.booleans())) for log_dir in dirs]
    if draw(st.booleans()):
        dirs[-1] = replace(dirs[-1], capacity_bytes=None)
    waves = st.integers(1, n_waves)
    arrive = draw(st.lists(st.tuples(SIZES, waves), max_size=6))
    leave = draw(st.lists(st.tuples(st.integers(1, 30), waves, st.integers(-1, n_dirs - 1)), max_size=6))
    return directories_of(dirs, 0.1), visits(arrive, leave, n_waves)


@given(dealings())
def test_no_directory_gets_fuller_than_by_kafkas_rule(dealing: tuple[Directories, Visits]) -> None:
    """And none of a closed directory's bytes grow; the fullest is at least as full as the best of all dealings."""
    directories, arriving = dealing
    choice = deal(directories, arriving)
    assert directories.is_open[choice].all()
    ours, kafkas = (fullest(directories, arriving.loads(directories, c)) for c in (choice, kafka_choice(*dealing)))
    assert ours <= kafkas
    every = product(np.flatnonzero(directories.is_open).tolist(), repeat=len(choice))
    best = min(fullest(directories, arriving.loads(directories, np.array(c, dtype=np.int64))) for c in every)
    assert ours >= best
    assert ours <= best * 1.34 + 1e-9  # of 30,000 random dealings to two or three directories the worst had 1.18


@given(dealings())
def test_loads_are_those_of_a_walk_through_the_waves(dealing: tuple[Directories, Visits]) -> None:
    """What arrives counts in its wave, what leaves until its wave has ended."""
    directories, arriving = dealing
    choice, now = deal(directories, arriving), directories.used_bytes.copy()
    for wave in range(1, arriving.n_waves + 1):
        for size, at in zip(arriving.size_bytes[arriving.wave == wave], choice[arriving.wave == wave], strict=True):
            now[at] += size
        assert now.tolist() == arriving.loads(directories, choice)[:, wave - 1].tolist()
        for size, of, at in zip(arriving.left_bytes, arriving.left_wave, arriving.left_from, strict=True):
            now[at] -= size if of == wave and at != NO_DIRECTORY else 0
    assert now.tolist() == arriving.loads(directories, choice)[:, -1].tolist()


@pytest.mark.parametrize(
    ("dirs", "arriving", "expected", "by_kafka"),
    [
        # The operator's case: one big log in /0, ten tiny ones in /1.
        ((LogDir("/0", 100, 60, 1, True), LogDir("/1", 100, 1, 10, True)), visits([(30, 1)]), [1], [0]),
        # What leaves /0 in wave 1 makes space in wave 2, not before.
        (log_dirs(80, 40), visits([(30, 2)], [(60, 1, 0)]), [0], [1]),
        (log_dirs(80, 60), visits([(30, 1)], [(60, 1, 0)]), [1], [1]),
        # Largest first would leave 60 beside 50: one swap makes 55 and 55.
        (log_dirs(0, 0), visits([(30, 1), (25, 1), (25, 1), (15, 1), (15, 1)]), None, None),
        # Equal shares without capacities.
        (log_dirs(50, 10, capacity=None), visits([(20, 1)]), [1], [1]),
    ],
    ids=["by bytes, not by logs", "space of an earlier wave", "not of its own wave", "swap", "no capacities"],
)
def test_where_replicas_go(
    dirs: tuple[LogDir, ...], arriving: Visits, expected: list[int] | None, by_kafka: list[int] | None
) -> None:
    """Each where the fullest moment of a directory stays least."""
    directories = directories_of(dirs, 0.1)
    choice = deal(directories, arriving)
    if expected is None:
        assert arriving.loads(directories, choice)[:, -1].tolist() == [55, 55]
    else:
        assert (choice.tolist(), kafka_choice(directories, arriving).tolist()) == (expected, by_kafka)


def plan_of(moves: list[tuple[int, int, int, str]], dirs: list[tuple[LogDir, ...]]) -> DirectoryPlan:
    """Changes as (bytes, old broker, new broker, old directory)."""
    size, old, new = (np.array([move[k] for move in moves], dtype=np.int64) for k in range(3))
    zeros = np.zeros(len(moves), dtype=np.int64)
    changes: WaveChanges = wave_changes_between(
        old[:, None],
        new[:, None],
        np.arange(len(dirs)),
        topic=np.array(["t"] * len(moves), dtype=object),
        partition=np.arange(len(moves)),
        size_bytes=size,
        copy_bytes=size[:, None],
        in_bytes_per_s=zeros,
        leader=old,
        in_sync_followers=zeros,
        urgency=zeros,
    )
    return directory_plan(changes, dirs, [[move[3]] for move in moves], 0.1)


def round_of(plan: DirectoryPlan) -> list[int]:
    """The round of each change."""
    return plan.rounds().round_of.tolist()


def test_what_fits_only_when_others_have_left_comes_in_a_later_round() -> None:
    """Both directories of broker 1 are nearly full: 30 bytes fit when 60 have left for broker 2."""
    one, two = log_dirs(80, 80), log_dirs(0, 0)
    plan = plan_of([(30, 0, 1, "/0"), (60, 1, 2, "/1")], [two, one, two])
    assert round_of(plan) == [1, 0]
    assert plan.rounds().chosen[0].tolist() == [1]
    # Without a known directory nothing is known to get free.
    unknown = plan_of([(30, 0, 1, "/0"), (60, 1, 2, "any")], [two, one, two])
    assert (round_of(unknown), unknown.rounds().full_broker.tolist()) == ([NO_ROUND, 0], [1, -1])


def test_what_fits_a_broker_but_no_directory_has_no_round() -> None:
    """40 bytes for two directories with 30 each; they fit if one is larger, or if nobody knows how large it is."""
    empty = log_dirs(0, 0)
    assert round_of(plan_of([(40, 0, 1, "/0")], [empty, log_dirs(60, 60)])) == [NO_ROUND]
    larger = (LogDir("/0", 100, 60, 1, is_open=True), LogDir("/1", 120, 60, 1, is_open=True))
    assert round_of(plan_of([(40, 0, 1, "/0")], [empty, larger])) == [0]
    assert round_of(plan_of([(40, 0, 1, "/0")], [empty, log_dirs(60, 60, capacity=None)])) == [0]
    closed = (larger[0], replace(larger[1], is_open=False))
    assert round_of(plan_of([(40, 0, 1, "/0")], [empty, closed])) == [NO_ROUND]


@st.composite
def plans(draw: st.DrawFn) -> DirectoryPlan:
    """Up to eight moves among three brokers whose directories are tight."""
    dirs = [log_dirs(*draw(st.lists(st.integers(20, 85), min_size=2, max_size=3))) for _ in range(3)]
    moves = []
    for _ in range(draw(st.integers(1, 8))):
        old, new = draw(st.sampled_from([(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)]))
        moves.append((draw(st.integers(1, 10)), old, new, f"/{draw(st.integers(0, 1))}"))
    return plan_of(moves, dirs)


@given(plans(), st.randoms(use_true_random=False))
def test_any_waves_inside_the_rounds_keep_every_limit(plan: DirectoryPlan, random: object) -> None:
    """Whatever the waves, as long as those of a round come after those of the round before."""
    rounds: Rounds = plan.rounds()
    placed = rounds.round_of != NO_ROUND
    shuffle = random.randint  # type: ignore[attr-defined]
    inside: Ints = np.array([shuffle(1, 3) for _ in range(len(placed))], dtype=np.int64)
    wave_of = np.where(placed, 3 * rounds.round_of + inside, 0)
    certain = np.where(rounds.chosen == NO_DIRECTORY, plan.deal(wave_of), rounds.chosen)
    assert plan.over_limit(wave_of, certain) == []
    assert all((rounds.full_broker >= 0) == (rounds.round_of != 0))
