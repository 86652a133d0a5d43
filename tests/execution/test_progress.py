"""Bytes left, rate and progress of running copies."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from execution.observed import Stored
from execution.progress import STEP_BYTES, CopySize, Gauge, brokers_of, running_copies, waiting_bytes
from tests.execution.lab import MB, bare_wave, cluster_at

A, B, C = ("t", 0), ("t", 1), ("u", 0)
BEFORE = {A: (1, 2), B: (2, 1), C: (4, 1)}
AFTER = {A: (1, 3), B: (2, 5, 6), C: (1, 4)}
WAVE = bare_wave(BEFORE, AFTER)
# A moves, B waits, C waits and only changes its order.
NOW = cluster_at({**BEFORE, A: (1, 3, 2)}, {A: AFTER[A]})


@pytest.mark.parametrize(
    ("sizes", "copies"),
    [
        ({(*A, 1): 50, (*A, 3): 20}, {(*A, 3): CopySize(50, 20)}),
        ({(*A, 1): 50, ("x", 0, 3): 7}, {(*A, 3): CopySize(50, 0)}),  # the replica is not there yet
        ({(*A, 1): 50}, {}),  # the target does not answer
        ({(*A, 3): 20}, {}),  # the leader's broker does not answer
        ({(*A, 1): 0, (*A, 3): 0}, {(*A, 3): CopySize(0, 0)}),
    ],
)
def test_sizes_of_running_copies(
    sizes: Mapping[tuple[str, int, int], int], copies: Mapping[tuple[str, int, int], CopySize]
) -> None:
    """Only partitions in flight whose leader and target answer."""
    assert running_copies(WAVE, NOW, Stored(sizes, {})) == copies


@pytest.mark.parametrize(("replica", "left"), [(0, 7), (5, 2), (7, 0), (9, 0)])
def test_a_copy_that_skips_what_is_tiered_is_as_large_as_planned(replica: int, left: int) -> None:
    """Not as its leader, or it would end at a few percent. The other copies have their leader's size."""
    wave = replace(WAVE, copy_bytes={(*A, 3): 7, (*B, 5): 2})
    copies = running_copies(wave, NOW, Stored({(*A, 1): 50, (*A, 3): replica}, {}))
    assert copies[*A, 3].left_bytes == left
    assert waiting_bytes(wave, NOW, Stored({(*B, 2): 9}, {})) == {5: 2, 6: 9}
    assert waiting_bytes(wave, NOW, Stored({(*B, 2): 1}, {})) == {5: 1, 6: 1}  # retention: the leader has less now


def test_an_empty_target_answers_with_its_free_bytes() -> None:
    """Its copy has begun, although no broker has a replica yet."""
    assert running_copies(WAVE, NOW, Stored({(*A, 1): 50}, {3: 9})) == {(*A, 3): CopySize(50, 0)}


def test_a_partition_without_a_leader_has_no_size() -> None:
    """Neither if it moves nor if it waits."""
    leaderless = replace(NOW, leaders={A: None, B: None, C: 4})
    stored = Stored({(*A, 1): 50, (*B, 2): 9}, {})
    assert running_copies(WAVE, leaderless, stored) == {}
    assert sum(waiting_bytes(WAVE, leaderless, stored).values()) == 0


@pytest.mark.parametrize(("leader", "replica", "left"), [(50, 20, 30), (50, 50, 0), (50, 80, 0)])
def test_bytes_left(leader: int, replica: int, left: int) -> None:
    """A replica that is larger than the leader's, for example before retention, is done."""
    assert CopySize(leader, replica).left_bytes == left


def test_new_brokers_are_in_order() -> None:
    """So messages and requests are the same each time."""
    assert bare_wave({A: (1, 2)}, {A: (1, 8, 3)}).added(A) == [3, 8]


def test_waiting_partitions_copy_one_size_for_each_new_replica() -> None:
    """A new order copies nothing."""
    assert waiting_bytes(WAVE, NOW, Stored({(*A, 1): 50, (*B, 2): 9, (*C, 4): 7}, {})) == {5: 9, 6: 9}


def test_only_living_brokers_of_unfinished_partitions_are_asked() -> None:
    """Leaders and targets."""
    assert brokers_of(WAVE, NOW) == {1, 2, 3, 4, 5, 6}
    assert brokers_of(WAVE, replace(NOW, alive=frozenset({1, 2, 3}))) == {1, 2, 3}
    assert brokers_of(WAVE, cluster_at(AFTER)) == set()


Looks = Sequence[tuple[float, Mapping[tuple[str, int], tuple[int, int]]]]


def gauge_of(looks: Looks) -> Gauge:
    """A gauge after looks: seconds, and the sizes of leader and replica by partition."""
    gauge = Gauge()
    for seconds, sizes in looks:
        gauge = gauge.seen(seconds, {(*partition, 3): CopySize(*size) for partition, size in sizes.items()})
    return gauge


@pytest.mark.parametrize(
    ("looks", "rate"),
    [
        ([(0, {A: (100, 5)})], 0.0),
        ([(0, {A: (100, 5)}), (2, {A: (100, 25)})], 10.0),
        # The mean of the last ten seconds: what was before does not count.
        ([(0, {A: (900, 0)}), (2, {A: (900, 500)}), (4, {A: (900, 600)}), (12, {A: (900, 700)})], 20.0),
        # Copies that began or ended are left out, and a replica that shrinks counts as nothing.
        ([(0, {A: (100, 5)}), (2, {A: (100, 25), B: (100, 70)})], 10.0),
        ([(0, {A: (100, 5), B: (100, 90)}), (2, {A: (100, 25)})], 10.0),
        ([(0, {A: (100, 50), B: (100, 0)}), (2, {A: (100, 10), B: (100, 20)})], 10.0),
    ],
)
def test_the_rate_of_all_copies(looks: Looks, rate: float) -> None:
    """What the replicas gain in a second."""
    assert gauge_of(looks).rate_bytes_per_s == rate


def test_the_last_gain_of_a_copy() -> None:
    """Since the look before the last; 0 if there is none."""
    looks: Looks = [(0, {A: (100, 5)}), (2, {A: (100, 25)}), (4, {A: (100, 26), B: (100, 70)})]
    assert [gauge_of(looks[:count]).last_gain_bytes((*A, 3)) for count in (0, 1, 2, 3)] == [0, 0, 20, 1]
    assert gauge_of(looks).last_gain_bytes((*B, 3)) == 0


BIG = 100 * STEP_BYTES


@pytest.mark.parametrize(
    ("looks", "idle"),
    [
        ([], 0.0),
        ([(5, {A: (BIG, 0)})], 0.0),
        ([(0, {A: (BIG, 0)}), (2, {A: (BIG, STEP_BYTES)})], 0.0),
        ([(0, {A: (BIG, 0)}), (2, {A: (BIG, STEP_BYTES - 1)})], 2.0),
        # Small steps count together.
        ([(0, {A: (BIG, 0)}), (2, {A: (BIG, STEP_BYTES - 1)}), (4, {A: (BIG, STEP_BYTES)})], 0.0),
        # A copy has begun, or ended, or another one runs.
        ([(0, {A: (BIG, 0)}), (2, {A: (BIG, 0), B: (BIG, 0)})], 0.0),
        ([(0, {A: (BIG, 0), B: (BIG, 0)}), (2, {A: (BIG, 0)}), (5, {A: (BIG, 0)})], 3.0),
        ([(0, {A: (BIG, 0)}), (2, {B: (BIG, 0)})], 0.0),
        # The leader grows as fast as the replica, or faster and then more slowly.
        ([(0, {A: (BIG, 0)}), (9, {A: (2 * BIG, BIG)})], 9.0),
        ([(0, {A: (BIG, 0)}), (2, {A: (3 * BIG, BIG)}), (4, {A: (3 * BIG, 2 * BIG)})], 4.0),
        # The leader shrinks: less is left, although nothing was copied.
        ([(0, {A: (BIG, 0)}), (2, {A: (BIG // 2, 0)})], 0.0),
    ],
)
def test_the_time_without_progress(looks: Looks, idle: float) -> None:
    """Progress is a copy that begins or ends, or 1 MiB less that is left."""
    assert gauge_of(looks).idle_seconds == idle


def test_a_stall_is_explained() -> None:
    """For each copy what is left; for each broker the rate that ends its copies in an hour."""
    begin = {A: (100 * MB, 50 * MB), B: (200 * MB, 0)}
    end = {A: (160 * MB, 80 * MB), B: (200 * MB, 0)}
    assert list(gauge_of([(0, begin), (600, end)]).stalled()) == [
        "t-0 to broker 3: 80.0 MB left; in 10 min the copy gained 30.0 MB, its leader grew by 60.0 MB",
        "t-1 to broker 3: 200 MB left; in 10 min the copy gained 0 B, its leader grew by 0 B",
        # 60 MB in 600 s, and 280 MB in 3600 s
        "broker 3: 178 kB/s for these copies would end them in 1 h 00 min",
    ]


def test_a_leader_that_shrinks_needs_no_rate() -> None:
    """Retention has deleted data."""
    *_, line = gauge_of([(0, {A: (100 * MB, 0)}), (600, {A: (99_500_000, 0)})]).stalled()
    assert line.startswith("broker 3: 27.6 kB/s for these copies")
