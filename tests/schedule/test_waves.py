"""Waves: urgency, balance, disk, limits."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import REASONS
from optimizer.kafka.size_limits import CONFIG_VALUE_CHARACTERS, PARTITIONS_PER_REQUEST, TOPICS_PER_REQUEST
from optimizer.planning.arrays import replica_matrix
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker, urgency_of
from optimizer.schedule.waves import UNPLACED, assign_waves
from optimizer.settings import Schedule

GB = 10**9
Row = tuple[str, int, int, list[int], list[int]]  # reason, size_bytes, leader, added, removed


def changes_from_rows(rows: list[Row], n_brokers: int = 6) -> WaveChanges:
    """Changes from readable rows; brokers are 0..n-1."""
    ids, size = np.arange(n_brokers), np.array([r[1] for r in rows], dtype=np.int64)
    added = replica_matrix(pd.Series([r[3] for r in rows]), ids)
    return WaveChanges(
        size_bytes=size,
        copy_bytes=np.where(added >= 0, size[:, None], 0),
        in_bytes_per_s=np.zeros(len(rows), dtype=np.int64),
        source=np.array([r[2] for r in rows], dtype=np.int64),
        in_sync_followers=np.zeros(len(rows), dtype=np.int64),
        added=added,
        removed=replica_matrix(pd.Series([r[4] for r in rows]), ids),
        urgency=np.array([REASONS.index(r[0]) for r in rows], dtype=np.int64),
        topic=np.zeros(len(rows), dtype=np.int64),
        list_characters=np.zeros((len(rows), 2), dtype=np.int64),
    )


def waves_of(
    rows: list[Row], *, used: list[int] | None = None, limit: list[int] | None = None, knobs: Schedule | None = None
) -> list[int]:
    """Waves of the rows; disks are unlimited unless given."""
    n = 6
    return assign_waves(
        changes_from_rows(rows, n),
        disk_used=np.array(used or [0] * n, dtype=np.int64),
        disk_limit=np.array(limit or [NO_LIMIT] * n, dtype=np.int64),
        schedule=knobs or Schedule(),
    ).tolist()


def test_copies_and_bytes_of_changes() -> None:
    """Broker 0 counts like any other, padding does not; a leader sends the bytes of each copy."""
    changes = changes_from_rows([("balance", 5, 1, [0, 2], [3]), ("leader", 7, 2, [], []), ("drain", 3, 2, [0], [])], 4)
    assert changes.copies.tolist() == [2, 0, 1]
    assert changes.endpoint_bytes.tolist() == [10, 0, 3]
    assert bytes_per_broker(changes.added, changes.size_bytes, 4).tolist() == [8, 0, 5, 0]
    assert changes.select(np.array([False, False, True])).added.tolist() == [[0, -1]]


def test_no_change_needs_no_wave() -> None:
    """An empty plan has no waves."""
    assert waves_of([]) == []


def test_urgent_comes_first() -> None:
    """With two waves, drains precede balance moves of the same size on the same broker."""
    rows: list[Row] = [("balance", GB, 0, [1], [2]), ("drain", GB, 0, [3], [4])]
    assert waves_of(rows, knobs=Schedule(waves=2)) == [2, 1]


def test_urgent_changes_fill_a_wave_before_the_next() -> None:
    """Drains that fill two waves go two and two in their order, not by turns."""
    rows: list[Row] = [("drain", 18 * GB, 0, [b], []) for b in (1, 2, 3, 4)]
    assert waves_of(rows, knobs=Schedule(window_hours=1, throttle_mb_per_s=10)) == [1, 1, 2, 2]


def test_balance_moves_need_not_come_first() -> None:
    """A balance move goes where its brokers have least to do, into a later wave too, while drains fill the first."""
    rows: list[Row] = [("drain", 36 * GB, 0, [1], []), ("drain", 36 * GB, 0, [1], [])]
    rows += [("balance", 20 * GB, 2, [3], []), ("balance", 10 * GB, 2, [4], [])]
    assert waves_of(rows, knobs=Schedule(window_hours=1, throttle_mb_per_s=10)) == [1, 2, 1, 2]


def test_copies_are_counted_at_the_leader() -> None:
    """Two copies that one leader sends go to different waves although sources and targets of the replicas differ."""
    rows: list[Row] = [("balance", GB, 0, [1], [2]), ("balance", GB, 0, [3], [4]), ("balance", GB, 5, [2], [1])]
    waves = waves_of(rows, knobs=Schedule(waves=2))
    assert waves[0] != waves[1]


def test_window_sets_the_number_of_waves() -> None:
    """Four copies from one leader, 3600 s each at the rate, need four waves of one hour and one of four."""
    rows: list[Row] = [("balance", 36 * GB, 0, [b], []) for b in (1, 2, 3, 4)]
    assert sorted(waves_of(rows, knobs=Schedule(window_hours=1, throttle_mb_per_s=10))) == [1, 2, 3, 4]
    assert waves_of(rows, knobs=Schedule(window_hours=4, throttle_mb_per_s=10)) == [1, 1, 1, 1]


def test_no_wave_is_longer_than_the_window_where_more_waves_help() -> None:
    """Three copies of 20 GB need three waves of 36 GB, though their sum would fill less than two."""
    rows: list[Row] = [("balance", 20 * GB, 0, [b], []) for b in (1, 2, 3)]
    assert sorted(waves_of(rows, knobs=Schedule(window_hours=1, throttle_mb_per_s=10))) == [1, 2, 3]


def test_a_leader_sends_every_copy_of_a_partition() -> None:
    """Two copies of 20 GB fill the leader's hour; its next copy goes into the next wave."""
    rows: list[Row] = [("balance", 20 * GB, 0, [1, 2], []), ("balance", 10 * GB, 0, [3], [])]
    assert waves_of(rows, knobs=Schedule(window_hours=1, throttle_mb_per_s=10)) == [1, 2]


def test_a_target_receives_one_of_a_partitions_copies() -> None:
    """The second copy is another broker's: 35 GB fit into the hour of the first."""
    rows: list[Row] = [("dead", 30 * GB, -1, [2], []), ("dead", 5 * GB, -1, [2, 3], [])]
    assert waves_of(rows, knobs=Schedule(window_hours=1, throttle_mb_per_s=10)) == [1, 1]
    rows = [("dead", 26 * GB, -1, [2], []), ("dead", 5 * GB, -1, [2, 3], []), ("dead", 5 * GB, -1, [2], [])]
    assert waves_of(rows, knobs=Schedule(window_hours=1, throttle_mb_per_s=10)) == [1, 1, 1]


def test_moves_per_wave_are_limited() -> None:
    """No wave copies more replicas than allowed."""
    rows: list[Row] = [("balance", 1, 0, [1, 2], [])] * 5
    waves = np.array(waves_of(rows, knobs=Schedule(max_moves_per_wave=4)))
    assert np.bincount(waves).max() <= 2
    assert waves.max() == 3


def test_a_partition_over_the_limit_goes_alone() -> None:
    """A partition with more copies than a wave allows is still executed, alone."""
    rows: list[Row] = [("replication", 1, 0, [1, 2, 3], []), ("balance", 1, 0, [1], [])]
    assert sorted(waves_of(rows, knobs=Schedule(max_moves_per_wave=2))) == [1, 2]


def test_reorders_go_last() -> None:
    """A change without copies is executed in the last wave."""
    rows: list[Row] = [("leader", GB, 0, [], []), ("balance", GB, 0, [1], [2]), ("balance", GB, 0, [3], [4])]
    assert waves_of(rows, knobs=Schedule(waves=2))[0] == 2
    assert waves_of(rows[:1]) == [1]


def test_a_request_is_never_larger_than_the_controller_takes() -> None:
    """Reorders beyond what one request may hold open further waves."""
    rows: list[Row] = [("balance", 1, 0, [1], [2])] + [("leader", 1, 0, [], [])] * (2 * PARTITIONS_PER_REQUEST)
    sizes = np.bincount(waves_of(rows))
    assert sizes.tolist() == [0, PARTITIONS_PER_REQUEST, PARTITIONS_PER_REQUEST, 1]


@pytest.mark.parametrize("reason", ["balance", "leader"])
@pytest.mark.parametrize("waves", [0, 1])
@pytest.mark.parametrize(("partitions", "expected"), [(9_999, 1), (10_000, 1), (10_001, 2)])
def test_no_wave_names_more_partitions_than_a_request(partitions: int, expected: int, waves: int, reason: str) -> None:
    """At 10,000 partitions one wave is enough, one more needs another, also where the number of waves is fixed."""
    added = [1] if reason == "balance" else []
    rows: list[Row] = [(reason, 10, 0, added, [])] * partitions
    got = np.bincount(waves_of(rows, knobs=Schedule(waves=waves, max_moves_per_wave=10**6)))[1:]
    assert got.max() <= PARTITIONS_PER_REQUEST
    assert got.sum() == partitions
    assert len(got) == expected


def listed_waves(characters: list[tuple[int, int]], topics: list[int], *, reason: str, waves: int = 0) -> list[int]:
    """Waves of changes with these characters in their topics' two lists."""
    added = [1] if reason == "balance" else []
    changes = changes_from_rows([(reason, 10, 0, added, [])] * len(topics))
    changes.topic[:] = topics
    changes.list_characters[:] = characters
    free = np.full(6, NO_LIMIT, dtype=np.int64)
    knobs = Schedule(waves=waves, max_moves_per_wave=10**6)
    return assign_waves(changes, disk_used=free * 0, disk_limit=free, schedule=knobs).tolist()


HALF = CONFIG_VALUE_CHARACTERS // 2  # two lists of so many characters and the comma between them fill a value


@pytest.mark.parametrize("reason", ["balance", "leader"])
@pytest.mark.parametrize("waves", [0, 1])
@pytest.mark.parametrize(
    ("first", "second", "topics", "expected"),
    [
        ((HALF + 1, 9), (HALF + 1, 9), (0, 0), 1),
        ((HALF + 1, 9), (HALF + 2, 9), (0, 0), 2),
        ((9, HALF + 1), (9, HALF + 2), (0, 0), 2),
        ((HALF + 1, 9), (9, HALF + 2), (0, 0), 1),
        ((HALF + 1, 9), (HALF + 2, 9), (0, 1), 1),
    ],
    ids=["exactly full", "one more, leader", "one more, follower", "two lists", "two topics"],
)
def test_no_list_is_longer_than_a_config_value(
    first: tuple[int, int], second: tuple[int, int], topics: tuple[int, int], expected: int, waves: int, reason: str
) -> None:
    """A list of 32,767 characters stays in one wave, one more character needs a second; each list counts by itself."""
    found = listed_waves([first, second], list(topics), reason=reason, waves=waves)
    assert set(found) == {*range(1, expected + 1)}


@pytest.mark.parametrize("reason", ["balance", "leader"])
@pytest.mark.parametrize(("topics", "expected"), [(4_999, 1), (5_000, 1), (5_001, 2)])
@pytest.mark.parametrize("twice", [0, 1])
def test_no_wave_names_more_topics_than_a_request(twice: int, topics: int, expected: int, reason: str) -> None:
    """Two lists a topic are 10,000 records at 5,000 topics; one more needs another wave, a partition more none."""
    waves = listed_waves([(4, 4)] * (topics + twice), [*range(topics), *[0] * twice], reason=reason, waves=1)
    assert set(waves) == {*range(1, expected + 1)}
    assert max(len(set(np.flatnonzero(np.array(waves) == w) % topics)) for w in set(waves)) <= TOPICS_PER_REQUEST


@pytest.mark.parametrize("reason", ["drain", "balance"])
def test_a_fixed_number_of_waves_is_used(reason: str) -> None:
    """Copies spread over the fixed number of waves, for any reason."""
    rows: list[Row] = [(reason, 10, 0, [1], [2])] + [(reason, 1, 3, [4], [5])] * 11
    assert np.bincount(waves_of(rows, knobs=Schedule(waves=4))).tolist() == [0, 3, 3, 3, 3]


ONE_LONG: list[Row] = [("balance", 100, 0, [1], []), *[("balance", 10, 3, [4], [])] * 4]
TWO_AT_ONCE: list[Row] = [("balance", 100, 0, [1, 2], []), *[("balance", 1, 3, [4, 5], [])] * 3]


@pytest.mark.parametrize(
    ("rows", "waves", "copies"),
    [
        pytest.param(ONE_LONG, 2, [3, 2], id="five copies in two waves"),
        pytest.param(
            [*TWO_AT_ONCE, ("balance", 1, 3, [4], [])], 3, [4, 3, 2], id="partitions of two copies, and of one"
        ),
    ],
)
def test_copies_are_spread_where_their_number_is_no_multiple(rows: list[Row], waves: int, copies: list[int]) -> None:
    """A wave that is long anyway takes no more than its share, and as much more as the largest partition needs."""
    found = np.bincount(waves_of(rows, knobs=Schedule(waves=waves)), weights=changes_from_rows(rows).copies)
    assert found.tolist() == [0, *copies]


def test_waves_of_different_lengths_are_shorter_together() -> None:
    """Large copies of separate brokers share a wave: two waves then take as long as the busiest broker needs."""
    rows: list[Row] = [("balance", 100, 0, [1], []), ("balance", 100, 2, [3], [])]
    rows += [("balance", 10, 0, [1], []), ("balance", 10, 2, [3], [])]
    waves = waves_of(rows, knobs=Schedule(waves=2))
    assert waves[0] == waves[1]
    assert waves[2] == waves[3]


def test_a_full_target_waits_until_it_is_freed() -> None:
    """A copy to a broker without room follows in the wave after the one that frees it."""
    used, limit = [0, 10, 0, 0, 0, 0], [100, 12, 100, 100, 100, 100]
    rows: list[Row] = [("balance", 10, 0, [1], [2]), ("balance", 10, 0, [3], [1])]
    assert waves_of(rows, used=used, limit=limit) == [2, 1]


def test_the_first_broker_is_freed_as_others_are() -> None:
    """What leaves broker 0 makes room there, too."""
    used, limit = [10, 0, 0, 0, 0, 0], [12, 100, 100, 100, 100, 100]
    rows: list[Row] = [("balance", 10, 1, [0], [2]), ("balance", 10, 1, [3], [0])]
    assert waves_of(rows, used=used, limit=limit) == [2, 1]


def test_room_that_a_later_wave_needs_is_not_given_away() -> None:
    """A copy that fits a disk now, but not together with a later wave's copies, gets no wave."""
    used, limit = [0, 10, 0, 0, 0, 0], [100, 12, 100, 100, 100, 100]
    rows: list[Row] = [("drain", 10, 0, [3], [1]), ("balance", 11, 2, [1], []), ("balance", 2, 5, [1], [])]
    assert waves_of(rows, used=used, limit=limit, knobs=Schedule(waves=2)) == [1, 2, UNPLACED]


def test_two_full_brokers_cannot_swap() -> None:
    """What no order can place is marked, not forced."""
    used, limit = [0, 10, 10, 0, 0, 0], [100, 12, 12, 100, 100, 100]
    rows: list[Row] = [("balance", 10, 0, [1], [2]), ("balance", 10, 0, [2], [1])]
    assert waves_of(rows, used=used, limit=limit) == [UNPLACED, UNPLACED]


def test_a_leaderless_partition_loads_its_target_only() -> None:
    """Without a leader nothing counts as sent."""
    rows: list[Row] = [("dead", GB, -1, [1], [0]), ("dead", GB, -1, [2], [0])]
    assert waves_of(rows, knobs=Schedule(window_hours=1, throttle_mb_per_s=1)) == [1, 1]


@pytest.mark.parametrize(
    ("reasons", "first"),
    [
        (["balance"], "balance"),
        (["balance", "rack"], "rack"),
        (["drain", "pin", "rack"], "rack"),
        (["replication", "pin"], "pin"),
        (["leader"], "leader"),
    ],
)
def test_the_most_urgent_reason_counts(reasons: list[str], first: str) -> None:
    """Of several reasons the most urgent decides."""
    assert REASONS[urgency_of(reasons)] == first


@st.composite
def plans(draw: st.DrawFn) -> tuple[WaveChanges, np.ndarray, np.ndarray, Schedule]:
    """A plan that may swap between nearly full brokers."""
    n = draw(st.integers(3, 6))
    rows: list[Row] = []
    for _ in range(draw(st.integers(0, 12))):
        hosts = draw(st.permutations(range(n)))
        k = draw(st.integers(0, min(2, n - 1)))
        added, removed = list(hosts[:k]), list(hosts[k : k + k])
        reason = draw(st.sampled_from(REASONS[:-1])) if added else "leader"
        rows.append((reason, draw(st.integers(0, 50)), draw(st.integers(-1, n - 1)), added, removed))
    used = np.zeros(n, dtype=np.int64) + bytes_per_broker(
        changes_from_rows(rows, n).removed, changes_from_rows(rows, n).size_bytes, n
    )
    limit = used + np.array([draw(st.integers(-20, 200)) for _ in range(n)], dtype=np.int64)
    knobs = Schedule(waves=draw(st.integers(0, 4)), max_moves_per_wave=draw(st.integers(1, 6)))
    return changes_from_rows(rows, n), used, limit, knobs


@settings(max_examples=150, deadline=None)
@given(plans())
def test_every_wave_respects_disks_and_limits(plan: tuple[WaveChanges, np.ndarray, np.ndarray, Schedule]) -> None:
    """In every wave disks hold both copies, numbers have no gaps, and limits hold."""
    changes, used, limit, knobs = plan
    wave_of = assign_waves(changes, disk_used=used, disk_limit=limit, schedule=knobs)
    allowed, now = np.maximum(limit, used), used.copy()
    last = int(wave_of.max(initial=0))
    assert set(range(1, last + 1)) <= set(wave_of.tolist()) or last <= 1
    for wave in range(1, last + 1):
        part = changes.select(wave_of == wave)
        peak = now + bytes_per_broker(part.added, part.size_bytes, len(used))
        touched = np.unique(part.added[part.added >= 0])
        assert (peak[touched] <= allowed[touched]).all()
        now = peak - bytes_per_broker(part.removed, part.size_bytes, len(used))
        if not knobs.waves:
            assert part.copies.sum() <= knobs.max_moves_per_wave or (part.copies > 0).sum() == 1
    if knobs.waves:
        assert last <= knobs.waves
