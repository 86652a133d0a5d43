"""Throttle rates and the time that copies take, against what was measured on a real cluster."""

import math

import numpy as np
import pytest

from optimizer.domain import Ints
from optimizer.schedule.estimate import traffic
from optimizer.schedule.sharing import CopyRates, copies_of, copy_rates, end_seconds, least_seconds
from optimizer.schedule.throttle_rate import Rates, common_rate, is_below_floor, rates_per_broker
from optimizer.schedule.wave_changes import WaveChanges
from tests.schedule.test_waves import Row, changes_from_rows

MB = 10**6
SIZE = 105_010_000


def seconds(changes: WaveChanges, *, leader_rate: Ints, follower_rate: Ints) -> float:
    """The least time of a wave at these throttles."""
    return least_seconds(
        copies_of(changes), copy_rates(traffic(changes, 6), leader_rate=leader_rate, follower_rate=follower_rate)
    )


def law_seconds(rows: list[Row], rate: int) -> float:
    """Time at one rate for all brokers."""
    rates = np.full(6, rate, dtype=np.int64)
    return seconds(changes_from_rows(rows), leader_rate=rates, follower_rate=rates)


@pytest.mark.parametrize(
    ("case", "rows", "measured"),
    [
        ("one leader, one follower", [("balance", SIZE, 0, [1], [])], 27.7),
        ("one leader, two followers", [("balance", SIZE, 0, [1, 2], [])], 49.7),
        ("two partitions of one leader", [("balance", SIZE, 0, [1], []), ("balance", SIZE, 0, [2], [])], 50.0),
        ("two leaders, one follower", [("balance", SIZE, 0, [2], []), ("balance", SIZE, 1, [2], [])], 55.4),
        ("two pairs", [("balance", SIZE, 0, [1], []), ("balance", SIZE, 2, [3], [])], 28.9),
        ("a swap", [("balance", SIZE, 0, [1], []), ("balance", SIZE, 1, [0], [])], 27.8),
    ],
)
def test_the_estimate_agrees_with_a_real_cluster(case: str, rows: list[Row], measured: float) -> None:
    """At 4 MB/s the law is within a tenth of the seconds that Kafka took."""
    assert law_seconds(rows, 4 * MB) == pytest.approx(measured, rel=0.1), case


def test_live_traffic_eats_the_throttle() -> None:
    """With 2 MB/s produced and one in-sync follower, 3 and 4 MB/s never finish and 6 MB/s take 35 s."""
    changes = changes_from_rows([("balance", 70_700_000, 0, [1], [])])
    changes.in_bytes_per_s[:] = 2 * MB
    changes.in_sync_followers[:] = 1

    def at(rate: int) -> float:
        return seconds(changes, leader_rate=np.full(6, rate), follower_rate=np.full(6, 10 * rate))

    assert at(3 * MB) == math.inf
    assert at(4 * MB) == math.inf
    assert at(6 * MB) == pytest.approx(35.35, abs=0.1)


def test_each_broker_is_busy_in_both_directions() -> None:
    """Brokers send and receive at the same time; one that does neither needs no rate; without a rate it never ends."""
    copies = copies_of(changes_from_rows([("balance", 60, 0, [1, 2], []), ("balance", 30, 1, [0], [])]))
    rates = CopyRates(out=np.array([10.0, 10.0, 0.0, 0.0]), into=np.array([2.0, 3.0, 20.0, 0.0]))
    sent, received = end_seconds(copies, rates)
    assert (sent.tolist(), received.tolist()) == ([12, 3, 0, 0], [15, 20, 3, 0])
    rates.into[1] = 0
    assert end_seconds(copies, rates)[1].tolist() == [15, math.inf, 3, 0]


def test_nothing_to_copy_takes_no_time() -> None:
    """A reorder takes no time and needs no throttle."""
    changes = changes_from_rows([("leader", SIZE, 0, [], [])])
    of = traffic(changes, 6)
    rates = rates_per_broker(of, copy_bytes_per_s=MB)
    assert seconds(changes, leader_rate=rates.leader, follower_rate=rates.follower) == 0
    assert common_rate(of, copy_bytes_per_s=MB) == 0


def test_the_careful_rate_adds_live_traffic() -> None:
    """Copies get the requested rate: live replication is added on each side, but only for brokers with copies."""
    changes = changes_from_rows([("balance", SIZE, 0, [1, 2], [3])])
    changes.in_bytes_per_s[:] = 100
    changes.in_sync_followers[:] = 2
    of = traffic(changes, 6)
    rates = rates_per_broker(of, copy_bytes_per_s=MB)
    assert rates.leader.tolist() == [MB + 400, 0, 0, 0, 0, 0]
    assert rates.follower.tolist() == [0, MB + 100, MB + 100, 0, 0, 0]
    assert common_rate(of, copy_bytes_per_s=MB) == MB + 400
    assert seconds(changes, leader_rate=rates.leader, follower_rate=rates.follower) == pytest.approx(2 * SIZE / MB)


@pytest.mark.parametrize(("rate", "below"), [(10_000, True), (104_857, False), (MB, False)])
def test_a_rate_under_the_fetch_size_is_reported(rate: int, below: bool) -> None:
    """One partition trickles at about 104 KB/s whatever lower rate is set."""
    of = traffic(changes_from_rows([("balance", SIZE, 0, [1], [])]), 6)
    assert is_below_floor(of, rates_per_broker(of, copy_bytes_per_s=rate)) is below


@pytest.mark.parametrize(("partitions", "floor"), [(2, 209_715), (10, 1_048_576), (12, 1_048_576)])
def test_the_floor_of_a_pair_grows_with_its_partitions_up_to_one_response(partitions: int, floor: int) -> None:
    """Each partition of a pair of brokers adds a fetch of 1 MiB in ten seconds; a response holds 10 MiB."""
    of = traffic(changes_from_rows([("balance", SIZE, 0, [1], [])] * partitions), 6)
    assert of.floor_out.tolist() == [floor, 0, 0, 0, 0, 0]
    assert of.floor_in.tolist() == [0, floor, 0, 0, 0, 0]
    assert is_below_floor(of, rates_per_broker(of, copy_bytes_per_s=floor - 1))
    assert not is_below_floor(of, rates_per_broker(of, copy_bytes_per_s=floor))


def test_floors_count_pairs_of_a_leader_and_a_broker_that_copies() -> None:
    """Partitions with fewer copies than others, and those without a leader, add no pair of their own."""
    rows: list[Row] = [("balance", SIZE, 2, [0, 1], []), ("balance", SIZE, 1, [3], []), ("dead", SIZE, -1, [4], [])]
    of = traffic(changes_from_rows(rows), 6)
    assert of.floor_out.tolist() == [0, 104_857, 2 * 104_857, 0, 0, 0]
    assert of.floor_in.tolist() == [104_857, 104_857, 0, 104_857, 0, 0]


@pytest.mark.parametrize(
    ("leader", "follower", "below"), [(MB, 1, True), (1, MB, True), (MB, 0, False), (0, MB, False)]
)
def test_either_direction_may_be_under_its_floor(leader: int, follower: int, below: bool) -> None:
    """A rate of 1 byte per second is one; a broker without a rate takes no part."""
    of = traffic(changes_from_rows([("balance", SIZE, 0, [1], [])]), 6)
    rates = Rates(leader=np.array([leader, 0, 0, 0, 0, 0]), follower=np.array([0, follower, 0, 0, 0, 0]))
    assert is_below_floor(of, rates) is below


def test_the_floor_sets_the_time_below_it() -> None:
    """At 10 KB/s a copy takes as long as at the floor."""
    assert law_seconds([("balance", SIZE, 0, [1], [])], 10_000) == pytest.approx(SIZE / 104_857, rel=0.001)
