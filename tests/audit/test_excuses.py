"""What a plan leaves: excused by what the audit recomputes itself, or unexplained."""

import time
from dataclasses import replace
from typing import Any

import pytest

from optimizer.audit import AuditBroker, AuditClaims, AuditLimits, AuditPartition
from optimizer.errors import AuditFailed
from tests.audit.plans import LIMITS, audit, broker, draining, partition, rules_broken

# Brokers 1 to 6 in the racks a, b, c, a, b, c; 7 in rack a is to be emptied.
HOSTS = [*(broker(b, "abc"[(b - 1) % 3]) for b in range(1, 7)), draining(7, "a")]
STRANDED = partition(0, 7, 2, 3)
FULL = {1: 900, 4: 900}  # bytes on brokers of rack a, whose disks take 900


def _changed(**changes: Any) -> list[AuditBroker]:
    """The hosts, those that hold nothing with other fields."""
    return [replace(b, **changes) if b.broker_id in (1, 4, 5, 6) else b for b in HOSTS]


def _limited(**changes: Any) -> AuditLimits:
    return replace(LIMITS, **changes)


def _filling(bytes_on: dict[int, int]) -> list[AuditPartition]:
    return [partition(90 + b, b, size_bytes=n, mobility="fixed") for b, n in bytes_on.items()]


# Only brokers of rack a take replicas, and one replica in it is too many of three: brokers of b and c may keep theirs.
ONE_OPEN_RACK = [
    *(broker(b, "a", accepts_replicas=b < 4) for b in (1, 2, 4)),
    *(broker(b, rack, accepts_replicas=False) for b, rack in ((5, "b"), (6, "c"))),
    draining(7, "b"),
]
EXCUSES: list[tuple[str, dict[str, Any]]] = [
    ("it may not move", {"row": replace(STRANDED, mobility="fixed")}),
    ("only its order may change", {"row": replace(STRANDED, mobility="order_only")}),
    ("no other broker takes replicas", {"hosts": _changed(accepts_replicas=False)}),
    ("no other broker lives", {"hosts": _changed(state="dead")}),
    ("its pin has no other broker", {"row": replace(STRANDED, pinned_brokers=frozenset({2, 3, 7}))}),
    ("it would break the racks more than they are", {"hosts": ONE_OPEN_RACK, "row": partition(0, 7, 1, 4)}),
    ("every disk of its rack is full", {"others": _filling(FULL)}),
    ("one disk that it may have been for is full", {"others": _filling({1: 801})}),
    ("no move is left", {"limits": _limited(max_moves=0)}),
    ("its replicas are more than the moves left", {"limits": _limited(max_moves=2)}),
    (
        "its old replicas are more than the moves left",
        {"row": replace(STRANDED, replication_factor=2), "limits": _limited(max_moves=2)},
    ),
    ("its replicas are more than the bytes left", {"limits": _limited(max_moved_bytes=299)}),
    ("its rack has its topic's most", {"others": [partition(n, 4 if n == 2 else 1, 5, 6) for n in (1, 2)], "most": 1}),
    (
        "what a plan of given waves takes off the disk makes no room",
        {
            "others": [partition(1, 1, size_bytes=850), partition(2, 4, size_bytes=850)],
            "targets": {1: [5], 2: [6]},
            "limits": _limited(fixed_waves=True),
        },
    ),
]
UNEXPLAINED: list[tuple[str, dict[str, Any]]] = [
    ("nothing hinders it", {}),
    ("it is excluded, and leaves brokers to empty", {"row": replace(STRANDED, mobility="forced_only")}),
    ("its pin has another broker", {"row": replace(STRANDED, pinned_brokers=frozenset({1, 2, 3, 7}))}),
    ("the disks of its rack have just room", {"others": _filling({1: 800, 4: 800})}),
    ("a disk of another rack is full", {"others": _filling({5: 900})}),
    ("nobody knows the disks", {"hosts": _changed(disk_capacity_bytes=None), "others": _filling(FULL)}),
    ("the moves left are just enough", {"limits": _limited(max_moves=3)}),
    (
        "the moves left are just enough for its old replicas",
        {"row": replace(STRANDED, replication_factor=2), "limits": _limited(max_moves=3)},
    ),
    ("the bytes left are just enough", {"limits": _limited(max_moved_bytes=300)}),
    ("its topic's most leaves room", {"others": [partition(1, 1, 5, 6)], "most": 1}),
    (
        "what the plan takes off the disk makes room",
        {"others": [partition(1, 1, size_bytes=850), partition(2, 4, size_bytes=850)], "targets": {1: [5], 2: [6]}},
    ),
]


def _rules(
    *,
    row: AuditPartition = STRANDED,
    others: list[AuditPartition] | None = None,
    hosts: list[AuditBroker] = HOSTS,
    targets: dict[int, list[int]] | None = None,
    limits: AuditLimits = LIMITS,
    most: int | None = None,
) -> set[str]:
    rows = [replace(p, topic_most_replicas=most) for p in [row, *(others or [])]]
    return rules_broken(audit(hosts, rows, targets or {}, limits=limits))


@pytest.mark.parametrize("case", [case for _, case in EXCUSES], ids=[name for name, _ in EXCUSES])
def test_each_excuse_is_enough(case: dict[str, Any]) -> None:
    """A replica on a broker to empty may stay for any of these reasons, whatever the findings say."""
    assert _rules(**case) == set()


@pytest.mark.parametrize("case", [case for _, case in UNEXPLAINED], ids=[name for name, _ in UNEXPLAINED])
def test_a_replica_without_an_excuse_is_refused(case: dict[str, Any]) -> None:
    """A replica on a broker to empty is refused if one more change would fix it."""
    assert _rules(**case) == {"drain"}


def test_changes_that_would_do_are_counted_together() -> None:
    """Of ten stranded partitions two are unexplained where the limit has room for two more, and none is called so
    twice."""
    rows = [partition(n, 7) for n in range(10)]
    figures = audit(HOSTS, rows, {0: [1]}, limits=_limited(max_moves=3)).figures
    assert (figures["repaired"], figures["unexplained"]) == (1, 2)


def test_room_on_disks_is_counted_together() -> None:
    """Of five stranded partitions one has room on each of the disks that take one more."""
    hosts = [broker(1, None), broker(2, None), draining(7, None)]
    rows = [partition(n, 7) for n in range(5)] + _filling({1: 800, 2: 800})
    assert audit(hosts, rows, {}).figures["unexplained"] == 2


@pytest.mark.parametrize("racks", ["a", "ab"])
@pytest.mark.parametrize("full_bytes", [800, 801, 900])
def test_one_full_disk_does_not_excuse_a_whole_broker(racks: str, full_bytes: int) -> None:
    """Of 500 partitions on a broker to empty at most one is excused by a disk that is nearly full, of 49: it has room
    for none, or for one, and was meant for no more."""
    hosts = [broker(b, racks[b % len(racks)], disk_capacity_bytes=10**6) for b in range(1, 49)]
    hosts += [broker(50, "a"), draining(52, "a", disk_capacity_bytes=10**6)]
    rows = [*(partition(n, 52) for n in range(500)), partition(999, 50, size_bytes=full_bytes, mobility="fixed")]
    assert audit(hosts, rows, {}).figures["unexplained"] >= 499


@pytest.mark.parametrize(
    ("held_bytes", "brought_bytes", "excused"),
    [(900, 0, 5), (895, 0, 5), (800, 100, 10), (800, 91, 10), (700, 200, 20), (600, 300, 20)],
)
def test_a_disk_excuses_what_may_have_been_meant_for_it(held_bytes: int, brought_bytes: int, excused: int) -> None:
    """A disk excuses what it has room for without what the plan brings, or a twentieth of its 900 bytes, and the last
    partition whole; the others could go to the other disk."""
    hosts = [broker(1, None), broker(2, None, disk_capacity_bytes=10**6), draining(7, None)]
    brought = partition(99, 2, size_bytes=brought_bytes)
    rows = [*(partition(n, 7, size_bytes=10) for n in range(20)), *_filling({1: held_bytes}), brought]
    figures = audit(hosts, rows, {99: [1]} if brought_bytes else {}).figures
    assert figures["unexplained"] == 20 - excused


def test_what_the_plan_brings_leaves_its_disk_again() -> None:
    """Where the waves are given, a copy that the plan would not make takes no room: the next partition has it."""
    hosts = [*HOSTS, broker(8, "a")]
    uneven = partition(0, 1, 4, 3)
    stranded = partition(1, 7, 2, 3, size_bytes=120, pinned_brokers=frozenset({2, 3, 7, 8}))
    report = audit(hosts, [uneven, stranded, *_filling({8: 750})], {0: [8, 1, 3]}, limits=_limited(fixed_waves=True))
    assert [(v.rule, v.subject) for v in report.violations] == [("racks", "t-0"), ("drain", "t-1")]


def test_many_racks_are_looked_at_in_seconds() -> None:
    """Twenty partitions with two replicas each to place, on 300 brokers in 100 racks, take under 3 CPU seconds."""
    hosts = [broker(b, f"r{b % 100}", disk_capacity_bytes=None) for b in range(298)]
    hosts += [draining(b, f"r{b % 100}") for b in (298, 299)]
    rows = [partition(n, 298, 299, n) for n in range(20)]
    began = time.process_time()
    assert audit(hosts, rows, {}).figures["unexplained"] == 20
    assert time.process_time() - began < 3


def test_a_topic_that_crowds_by_one_is_one_partition() -> None:
    """Of two partitions that came where one may be, one is unexplained: without it the other is in order."""
    rows = [partition(n, n + 1, topic_most_replicas=1) for n in range(2)]
    assert audit(HOSTS, rows, {0: [3], 1: [3]}).figures["unexplained"] == 1


def test_leaders_that_stay_are_no_crowd() -> None:
    """A leader that was there is not asked to go elsewhere, where the one that came can't."""
    hosts = [*HOSTS, broker(8, "a", accepts_leadership=False)]
    rows = [partition(0, 1, 2, topic_most_leaders=1), partition(1, 8, 1, topic_most_leaders=1)]
    hosts = [replace(b, rack=None) for b in hosts]
    assert rules_broken(audit(hosts, rows, {0: [1, 3], 1: [1, 8]})) == set()


def test_racks_come_before_the_spread_of_topics() -> None:
    """A replica that repairs the racks may crowd, where elsewhere it would break them as before."""
    hosts = [broker(1, "a"), broker(2, "b"), broker(3, "c"), broker(4, "a"), broker(5, "a")]
    rows = [partition(0, 1, 4, 3, topic_most_replicas=1), partition(1, 2, topic_most_replicas=1)]
    assert rules_broken(audit(hosts, rows, {0: [1, 2, 3]})) == set()


ONE_PERCENT = _limited(max_unexplained=0.01)


@pytest.mark.parametrize(("stranded", "broken"), [(1, set()), (2, {"drain"})])
def test_a_small_share_may_be_unexplained(stranded: int, broken: set[str]) -> None:
    """A plan passes with at most the allowed share of unexplained partitions, and the figure counts them."""
    rows = [partition(n, 7, 2, 3, size_bytes=1) for n in range(100)]
    report = audit(HOSTS, rows, {n: [1, 2, 3] for n in range(stranded, 100)}, limits=ONE_PERCENT)
    assert rules_broken(report) == broken
    assert (report.figures["repaired"], report.figures["unexplained"]) == (100 - stranded, stranded)


MANY = [partition(100 + n, 7, 2, 3) for n in range(500)]
PINNED = [replace(row, pinned_brokers=frozenset({2, 3, 7})) for row in MANY]
SMALL = [replace(row, size_bytes=1) for row in MANY]


@pytest.mark.parametrize(
    ("rows", "limits", "count"),
    [
        pytest.param(MANY, _limited(max_moves=4), 2, id="the limit"),
        pytest.param([*MANY[:5], *PINNED[5:]], LIMITS, 5, id="a pin"),
        pytest.param([*SMALL[:5], *MANY[5:], *_filling({1: 850, 4: 850})], LIMITS, 5, id="a disk"),
    ],
)
def test_an_empty_plan_does_not_hide_behind_what_is_excused(
    rows: list[AuditPartition], limits: AuditLimits, count: int
) -> None:
    """A few that unexplained partitions fail the plan, however many others are excused."""
    report = audit(HOSTS, rows, {}, limits=limits)
    assert rules_broken(report) == {"drain"}
    assert (report.figures["repaired"], report.figures["unexplained"]) == (0, count)


def test_what_is_repaired_and_crowds_counts_once() -> None:
    """A partition that moves from the broker to empty to a crowded broker is unexplained, not repaired."""
    rows = [partition(0, 7, topic_most_replicas=1), partition(1, 1, topic_most_replicas=1)]
    report = audit(HOSTS, rows, {0: [1]})
    assert (report.figures["repaired"], report.figures["unexplained"]) == (0, 1)
    assert rules_broken(report) == {"topic_spread"}


def test_what_could_be_repaired_is_no_share_of_what_is_in_order() -> None:
    """One stranded of one is refused, however many partitions are in order."""
    rows = [STRANDED, *(partition(n, 1, 2, 3, size_bytes=0) for n in range(1, 500))]
    with pytest.raises(
        AuditFailed, match=r"1 of 1 partition that could be fixed stays .* max_unexplained = 0\.01"
    ) as refused:
        audit(HOSTS, rows, {}, limits=ONE_PERCENT).raise_if_failed()
    assert "t-0: replicas stay on brokers [7], which must be emptied; [2, 3, 4] would fix it" in str(refused.value)


def test_the_figure_on_the_pages_is_audited() -> None:
    """A plan that shows fewer unexplained partitions than there are is refused."""
    rows, limits = [STRANDED], _limited(max_unexplained=1)
    for claimed, broken in ((1, set()), (0, {"claims"})):
        claims = AuditClaims(unexplained=claimed)
        assert rules_broken(audit(HOSTS, rows, {}, limits=limits, claims=claims)) == broken


@pytest.mark.parametrize(
    ("changes", "limits", "broken"),
    [
        ({}, LIMITS, {"racks"}),
        ({"mobility": "racks_only"}, LIMITS, {"racks"}),
        ({"mobility": "forced_only"}, LIMITS, set()),
        ({"pinned_brokers": frozenset({1, 3, 4})}, LIMITS, set()),
        ({}, _limited(max_moves=2), set()),
        ({}, _limited(rack_spread=False), set()),
    ],
)
def test_racks_that_could_be_mended(changes: dict[str, Any], limits: AuditLimits, broken: set[str]) -> None:
    """A partition that broke the rack rule and still does is refused where one replica elsewhere repairs it."""
    assert rules_broken(audit(HOSTS[:6], [partition(0, 1, 4, 3, **changes)], {}, limits=limits)) == broken


def test_racks_that_no_list_mends_are_excused() -> None:
    """Two replicas of three stay in a rack where the racks have no other brokers."""
    hosts = [broker(1, "a"), broker(2, "b"), broker(4, "a"), broker(3, "c", accepts_replicas=False)]
    assert rules_broken(audit(hosts, [partition(0, 1, 4, 2)], {})) == set()


def test_what_a_document_breaks_is_told_once() -> None:
    """A list of the wrong length in the plan is one violation, as what it says and not as what is left."""
    report = audit(HOSTS, [partition(0, 1, 2, replication_factor=3)], {0: [2, 1]})
    assert [(v.rule, v.detail) for v in report.violations] == [
        ("replication_factor", "2 replicas planned; 2 replicas now, 3 requested")
    ]


@pytest.mark.parametrize(("rows", "rules"), [((1, 2), {"replication_factor"}), ((7, 2), {"drain"})])
def test_longer_lists(rows: tuple[int, ...], rules: set[str]) -> None:
    """A list that is too short is refused where brokers are there, and is excused where its pin leaves too few."""
    short = partition(0, *rows, replication_factor=3)
    assert rules_broken(audit(HOSTS, [short], {})) == rules
    pinned = replace(short, pinned_brokers=frozenset({1, 2, 7}))
    assert rules_broken(audit(HOSTS, [pinned], {})) == set()
