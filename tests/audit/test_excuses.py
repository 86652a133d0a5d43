"""What a plan leaves: excused by what the audit recomputes itself, or unexplained."""

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


EXCUSES: list[tuple[str, dict[str, Any]]] = [
    ("it may not move", {"row": replace(STRANDED, mobility="fixed")}),
    ("only its order may change", {"row": replace(STRANDED, mobility="order_only")}),
    ("no other broker takes replicas", {"hosts": _changed(accepts_replicas=False)}),
    ("no other broker lives", {"hosts": _changed(state="dead")}),
    ("its pin has no other broker", {"row": replace(STRANDED, pinned_brokers=frozenset({2, 3, 7}))}),
    ("every disk of its rack is full", {"others": _filling(FULL)}),
    ("one disk that it may have been for is full", {"others": _filling({1: 801})}),
    ("no move is left", {"limits": _limited(max_moves=0)}),
    ("its replicas are more than the moves left", {"limits": _limited(max_moves=2)}),
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
    """A replica on a broker to empty may stay for any of these reasons, though no finding is looked at."""
    assert _rules(**case) == set()


@pytest.mark.parametrize("case", [case for _, case in UNEXPLAINED], ids=[name for name, _ in UNEXPLAINED])
def test_a_replica_without_an_excuse_is_refused(case: dict[str, Any]) -> None:
    """A replica on a broker to empty is refused where a change more would do."""
    assert _rules(**case) == {"drain"}


def test_changes_that_would_do_are_counted_together() -> None:
    """Of ten stranded partitions two are unexplained where the limit has room for two more, and none is called so
    twice."""
    rows = [partition(n, 7) for n in range(10)]
    figures = audit(HOSTS, rows, {0: [1]}, limits=_limited(max_moves=3)).figures
    assert (figures["had_to_change"], figures["unexplained"]) == (10, 2)


def test_room_on_disks_is_counted_together() -> None:
    """Of five stranded partitions one has room on each of the disks that take one more."""
    hosts = [broker(1, None), broker(2, None), draining(7, None)]
    rows = [partition(n, 7) for n in range(5)] + _filling({1: 800, 2: 800})
    assert audit(hosts, rows, {}).figures["unexplained"] == 1


@pytest.mark.parametrize(("stranded", "broken"), [(1, set()), (2, {"drain"})])
def test_a_small_share_may_be_unexplained(stranded: int, broken: set[str]) -> None:
    """Up to the share that the policy allows of what had to change, the plan stands and the figure is counted."""
    rows = [partition(n, 7, 2, 3, size_bytes=1) for n in range(100)]
    report = audit(HOSTS, rows, {n: [1, 2, 3] for n in range(stranded, 100)})
    assert rules_broken(report) == broken
    assert (report.figures["had_to_change"], report.figures["unexplained"]) == (100, stranded)


def test_what_had_to_change_is_no_share_of_what_is_in_order() -> None:
    """One stranded of one is refused, however many partitions are in order beside it."""
    rows = [STRANDED, *(partition(n, 1, 2, 3, size_bytes=0) for n in range(1, 500))]
    with pytest.raises(AuditFailed, match=r"1 of 1 partitions .* max_unexplained = 0\.01") as refused:
        audit(HOSTS, rows, {}).raise_if_failed()
    assert "t-0: replicas stay on brokers [7], which must be emptied; [2, 3, 4] would do" in str(refused.value)


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
    """A partition that broke the rack rule and still does is refused where one replica elsewhere mends it."""
    assert rules_broken(audit(HOSTS[:6], [partition(0, 1, 4, 3, **changes)], {}, limits=limits)) == broken


def test_racks_that_no_list_mends_are_excused() -> None:
    """Two replicas of three stay in a rack where the racks have no other brokers."""
    hosts = [broker(1, "a"), broker(2, "b"), broker(4, "a"), broker(3, "c", accepts_replicas=False)]
    assert rules_broken(audit(hosts, [partition(0, 1, 4, 2)], {})) == set()


def test_what_a_document_breaks_is_told_once() -> None:
    """A list of the wrong length in the plan is one violation, as what it says and not as what is left."""
    report = audit(HOSTS, [partition(0, 1, 2, replication_factor=3)], {0: [2, 1]})
    assert [(v.rule, v.detail) for v in report.violations] == [
        ("replication_factor", "2 replicas planned; 2 replicas now, 3 asked for")
    ]


@pytest.mark.parametrize(("rows", "rules"), [((1, 2), {"replication_factor"}), ((7, 2), {"drain"})])
def test_longer_lists(rows: tuple[int, ...], rules: set[str]) -> None:
    """A list that is too short is refused where brokers are there, and is excused where its pin leaves too few."""
    short = partition(0, *rows, replication_factor=3)
    assert rules_broken(audit(HOSTS, [short], {})) == rules
    pinned = replace(short, pinned_brokers=frozenset({1, 2, 7}))
    assert rules_broken(audit(HOSTS, [pinned], {})) == set()
