"""The time of a wave by fair sharing and by simulation, against what real clusters of Kafka 4.3.1 took."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.schedule.sharing import Copies, CopyRates, fair_seconds, least_seconds
from optimizer.schedule.simulate import SEEDS, SIMULATED_SECONDS, simulated_seconds, wave_time
from tests.examples import examples

MB = 10**6
Rows = list[tuple[int, int, float]]

A, B, X, Y, Z = range(5)
DENSE: Rows = [(leader, follower, size) for leader in (A, B) for follower, size in ((X, 32.2), (Y, 16.1), (Z, 16.1))]


def copies(rows: Rows) -> Copies:
    """Copies from rows of source, target and MB."""
    source, target, size = zip(*rows, strict=True)
    return Copies(np.array(source), np.array(target), np.array(size) * MB)


def rates(mb_per_s: float, brokers: int = 6) -> CopyRates:
    """The same rate for every end."""
    return CopyRates(np.full(brokers, float(mb_per_s * MB)), np.full(brokers, float(mb_per_s * MB)))


# Name, copies, rate in MB/s, batch in bytes, least time, fair time, measured seconds.
MEASURED: list[tuple[str, Rows, float, int, float, float, list[float]]] = [
    ("dense", DENSE, 2, 16_000, 32.2, 40.3, [39.3, 38.7, 33.9, 42.7]),
    ("dense, sizes and rate x4", [(s, t, 4 * x) for s, t, x in DENSE], 8, 16_000, 32.2, 40.3, [39.5, 40.4]),
    ("dense, batches of 450 kB", DENSE, 2, 450_000, 32.2, 40.3, [49.0, 40.9, 42.8, 39.4]),
    ("five leaders to one", [(b, 5, 8.04) for b in range(5)], 2, 16_000, 20.1, 20.1, [20.6, 21.5]),
    ("one leader to five", [(5, b, 8.04) for b in range(5)], 2, 16_000, 20.1, 20.1, [20.5, 20.5]),
    ("a pair, 16 kB", [(0, 1, 24)], 2, 16_000, 12.0, 12.0, [13.5]),
    ("a pair, 450 kB", [(0, 1, 24)], 2, 450_000, 12.0, 12.0, [15.3]),
    ("a pair, 600 kB", [(0, 1, 24)], 2, 600_000, 12.0, 12.0, [22.5]),
    ("a pair, 990 kB", [(0, 1, 24)], 2, 990_000, 12.0, 12.0, [14.4]),
    ("a ring", [(b, (b + k) % 6, 27.375) for b in range(6) for k in (1, 2)], 1.5, 16_000, 36.5, 36.5, [38.6, 40.7]),
]


@pytest.mark.parametrize(
    ("rows", "rate", "batch", "least", "fair", "measured"), [x[1:] for x in MEASURED], ids=[x[0] for x in MEASURED]
)
def test_the_times_of_real_clusters(
    rows: Rows, rate: float, batch: int, least: float, fair: float, measured: list[float]
) -> None:
    """Least and fair times are exact; simulation and expected time are near the mean of what was measured."""
    wave, at = copies(rows), rates(rate)
    assert least_seconds(wave, at) == pytest.approx(least, rel=0.01)
    assert fair_seconds(wave, at) == pytest.approx(fair, rel=0.01)
    mean = float(np.mean(measured))
    simulated = [simulated_seconds(wave, at, batch_bytes=batch, seed=seed) for seed in range(5)]
    assert np.mean(simulated) == pytest.approx(mean, rel=0.06)
    time = wave_time(wave, at, batch_bytes=batch)
    assert time.expected_seconds == pytest.approx(mean, rel=0.12)
    assert time.least_seconds <= min(measured) <= max(measured) <= time.most_seconds


def test_a_copy_that_ends_early_leaves_its_share() -> None:
    """Two copies of one leader share its rate; the longer one has all of it once the shorter one has ended."""
    assert fair_seconds(copies([(0, 1, 10), (0, 2, 30)]), rates(2)) == pytest.approx(20, rel=0.01)
    assert fair_seconds(copies([(0, 1, 10), (0, 1, 10), (0, 2, 20)]), rates(2)) == pytest.approx(20, rel=0.01)
    # By partition: two partitions to broker 1 have two thirds of the rate, until they have ended.
    assert fair_seconds(copies([(0, 1, 5), (0, 1, 5), (0, 2, 20), (3, 2, 20)]), rates(2)) == pytest.approx(20, rel=0.01)


def test_a_throttle_without_room_never_ends() -> None:
    """Live traffic that takes the whole rate of one end leaves nothing to its copies."""
    at = rates(2)
    at.into[1] = 0
    wave = copies([(0, 1, 10), (2, 3, 10)])
    assert least_seconds(wave, at) == fair_seconds(wave, at) == math.inf
    assert wave_time(wave, at, batch_bytes=16_000).most_seconds == math.inf
    assert fair_seconds(copies([(2, 3, 10)]), at) == pytest.approx(5)


def test_no_copy_takes_no_time() -> None:
    """Empty partitions and waves without copies end at once."""
    none = Copies(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    for wave in (none, copies([(0, 1, 0)])):
        time = wave_time(wave, rates(1), batch_bytes=16_000)
        assert (time.expected_seconds, time.least_seconds, time.most_seconds) == (0, 0, 0)


waves = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(1, 50)).filter(lambda row: row[0] != row[1]),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(60), deadline=None)
@given(waves, st.sampled_from([1.0, 3.0, 20.0]))
def test_every_time_is_at_least_the_least(rows: Rows, rate: float) -> None:
    """Sharing never beats the busiest end, the interval holds the expected time, and equal waves get equal times."""
    wave, at = copies(rows), rates(rate)
    assert fair_seconds(wave, at) >= least_seconds(wave, at) * (1 - 1e-9)
    time = wave_time(wave, at, batch_bytes=16_000)
    assert time.least_seconds <= 0.9 * time.expected_seconds < 1.1 * time.expected_seconds <= time.most_seconds
    assert time == wave_time(wave, at, batch_bytes=16_000)


def test_the_size_of_a_wave_does_not_change_its_ratio() -> None:
    """A wave scaled to a minute stands for one of twenty minutes; six copies, where chance matters most."""
    ratios = []
    for factor in (1, 20):
        wave = copies([(s, t, factor * size * SIMULATED_SECONDS / 32.2) for s, t, size in DENSE])
        times = [simulated_seconds(wave, rates(2), batch_bytes=16_000, seed=seed) for seed in range(SEEDS)]
        ratios.append(np.mean(times) / least_seconds(wave, rates(2)))
    assert ratios[0] == pytest.approx(ratios[1], rel=0.07)


@pytest.mark.parametrize("factor", [0.8, 1.3, 2.0])
def test_few_unequal_copies_end_inside_their_interval(factor: float) -> None:
    """Six copies of half a minute to a minute, where chance decides most: other seeds than those of the interval."""
    wave = copies([(s, t, factor * size) for s, t, size in DENSE])
    time = wave_time(wave, rates(2), batch_bytes=16_000)
    times = [simulated_seconds(wave, rates(2), batch_bytes=16_000, seed=seed) for seed in range(100, 160)]
    assert sum(time.least_seconds <= seconds <= time.most_seconds for seconds in times) >= 58


@pytest.mark.parametrize(("rate", "is_cut"), [(20, True), (2, False)])
def test_a_large_wave_is_simulated_as_its_busiest_broker_and_its_partners(rate: float, is_cut: bool) -> None:
    """Of 100 busy brokers, only copies among these four are simulated if all were over 30,000 fetches in a minute."""
    partners: Rows = [(0, 1, 20.0), (0, 2, 15.0), (99, 0, 20.0), (1, 2, 4.0)]
    rows: Rows = [*partners, *((b, b + 1, 20.0) for b in range(2, 99))]
    all_, few = (copies([(s, t, 4 * rate * size) for s, t, size in x]) for x in (rows, partners))
    at = rates(rate, brokers=100)
    times = [wave_time(wave, at, batch_bytes=16_000) for wave in (all_, few)]
    assert times[0].expected_seconds == pytest.approx(times[1].expected_seconds)
    assert (times[0] == times[1]) is is_cut
