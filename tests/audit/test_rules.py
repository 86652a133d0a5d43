"""Each rule of the audit: kept and broken."""

from dataclasses import replace
from typing import Any

import pytest

from optimizer.audit import AuditClaims, AuditLimits, AuditLogDir, audit_plan, brokers_from_rows, partitions_from_rows
from optimizer.errors import AuditFailed
from tests.audit.plans import LIMITS, audit, broker, document, draining, partition, rules_broken

# Six brokers in three racks: 1, 4 in a; 2, 5 in b; 3, 6 in c. Broker 7 (rack a) is to be emptied, 8 (rack b) is dead.
RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
LIVING = [broker(b, rack) for b, rack in RACKS.items()]
LEAVING = draining(7, "a")
DEAD = draining(8, "b", state="dead")
DEMOTED = broker(9, "c", accepts_leadership=False)
CLOSED = broker(10, "c", accepts_replicas=False)
FENCED = broker(11, "c", state="fenced")
ALL = [*LIVING, LEAVING, DEAD, DEMOTED, CLOSED, FENCED]

P = partition(0, 1, 2, 3)
TARGETS: list[tuple[str, Any, list[int], str | None]] = [
    ("a move inside a rack", P, [4, 2, 3], None),
    ("a new order", P, [2, 1, 3], None),
    ("a broker twice", P, [1, 1, 3], "distinct racks"),
    ("a broker that is not there", P, [1, 2, 99], "known_broker"),
    ("a dead broker", P, [1, 8, 3], "living_broker drain"),
    ("a fenced broker", P, [1, 2, 11], "living_broker"),
    ("a broker to empty", P, [2, 7, 3], "accepts_replicas drain"),
    ("a broker that takes none", P, [1, 2, 10], "accepts_replicas"),
    ("a broker that takes none but holds one", partition(0, 1, 2, 10), [4, 2, 10], None),
    ("out of sync, and moved", partition(0, 1, 2, 3, isr=frozenset({1, 2})), [1, 2, 6], None),
    ("out of sync, and kept", partition(0, 1, 2, 3, isr=frozenset({1, 2})), [4, 2, 3], "ends"),
    ("out of sync, in another order", partition(0, 1, 2, 3, isr=frozenset({1, 2})), [2, 1, 3], None),
    ("out of sync, and led by it", partition(0, 1, 2, 3, isr=frozenset({1, 2})), [3, 1, 2], "leader_in_sync"),
    ("out of sync, and led by it as before", partition(0, 1, 2, 3, isr=frozenset({2, 3})), [1, 3, 2], None),
    (
        "eligible, and led by it",
        partition(0, 1, 2, 3, isr=frozenset({1, 2}), elr=frozenset({3})),
        [3, 1, 2],
        None,
    ),
    (
        "out of sync, and kept in a shorter list",
        partition(0, 1, 2, 3, isr=frozenset({1, 2}), replication_factor=2),
        [1, 3],
        "in_sync ends",
    ),
    (
        "out of sync, and removed from a shorter list",
        partition(0, 1, 2, 3, isr=frozenset({1, 2}), replication_factor=2),
        [1, 2],
        None,
    ),
    (
        "two out of sync, one removed",
        partition(0, 1, 2, 3, isr=frozenset({1}), replication_factor=2),
        [1, 2],
        "ends",
    ),
    ("a replica less", P, [1, 2], "replication_factor"),
    ("a replica more", P, [1, 2, 3, 4], "replication_factor"),
    ("a replica less, requested", partition(0, 1, 2, 3, replication_factor=2), [1, 2], None),
    ("a replica more, requested", partition(0, 1, 2, replication_factor=3), [1, 2, 3], None),
    ("a replica more, requested, not planned", partition(0, 1, 2, replication_factor=3), [2, 1], "replication_factor"),
    ("a replica more, in a rack that has one", partition(0, 1, 2, replication_factor=3), [1, 2, 4], "racks"),
    ("two more, where two are", partition(0, 1, 2, replication_factor=4), [1, 2, 4, 5], "racks"),
    ("a replica less, racks as before", partition(0, 1, 4, 2, replication_factor=2), [1, 4], "racks"),
    ("a replica less, of the three racks", partition(0, 1, 4, 2, 3, replication_factor=3), [1, 4, 2], "racks"),
    ("the drained replica of three goes", partition(0, 7, 2, 3, replication_factor=2), [2, 3], None),
    ("two replicas in one rack", P, [1, 4, 3], "racks"),
    ("two in one rack, as before", partition(0, 1, 4, 3), [4, 1, 3], "racks"),
    ("three in one rack, two before", partition(0, 1, 4, 3, 6), [1, 4, 2, 5], "racks"),
    ("an even spread of four lost", partition(0, 1, 2, 3, 4), [1, 2, 5, 4], "racks"),
    ("a fixed partition", partition(0, 1, 2, 3, mobility="fixed"), [4, 2, 3], "fixed"),
    ("no change", P, [1, 2, 3], "needless"),
    ("an excluded partition moved", partition(0, 1, 2, 3, mobility="forced_only"), [4, 2, 3], "excluded"),
    ("an excluded partition reordered", partition(0, 1, 2, 3, mobility="forced_only"), [2, 1, 3], "excluded"),
    ("an excluded partition drained", partition(0, 7, 2, 3, mobility="forced_only"), [4, 2, 3], None),
    ("an excluded partition drained too far", partition(0, 7, 2, 3, mobility="forced_only"), [4, 5, 3], "excluded"),
    ("an order changed", partition(0, 1, 2, 3, mobility="order_only"), [2, 1, 3], None),
    ("brokers changed where only order may", partition(0, 1, 2, 3, mobility="order_only"), [4, 2, 3], "order_only"),
    ("racks repaired", partition(0, 1, 4, 3, mobility="racks_only"), [1, 2, 3], None),
    ("racks repaired off a dead broker", partition(0, 1, 4, 8, mobility="racks_only"), [1, 3, 2], None),
    ("racks repaired by too many copies", partition(0, 1, 4, 3, mobility="racks_only"), [1, 2, 6], "racks_only"),
    ("racks that are not repaired", partition(0, 1, 4, 3, mobility="racks_only"), [4, 1, 3], "racks_only racks"),
    (
        "racks not repaired, in another order",
        partition(0, 1, 4, 3, mobility="racks_only"),
        [1, 3, 4],
        "racks_only racks",
    ),
    ("a dead broker left, racks in order", partition(0, 1, 8, 3, mobility="racks_only"), [1, 5, 3], None),
    ("racks that were in order", partition(0, 1, 2, 3, mobility="racks_only"), [4, 2, 3], "racks_only"),
    ("racks repaired, and another leader", partition(0, 1, 4, 3, mobility="racks_only"), [2, 1, 3], "racks_only"),
    ("an excluded partition's leader changed", partition(0, 2, 7, 3, mobility="forced_only"), [3, 2, 1], "excluded"),
    ("an excluded partition's leader kept", partition(0, 1, 2, 3, mobility="forced_only"), [1, 3, 2], "excluded"),
    ("an excluded one drained and reordered", partition(0, 2, 7, 3, mobility="forced_only"), [2, 3, 1], None),
    ("an excluded one reordered, to be drained", partition(0, 7, 2, 3, mobility="forced_only"), [2, 7, 3], "drain"),
    ("an excluded one's demoted leader changed", partition(0, 9, 7, 2, mobility="forced_only"), [2, 9, 1], None),
    ("a demoted broker made leader", partition(0, 1, 2, 9), [9, 1, 2], "leadership"),
    ("a demoted broker that leads already", partition(0, 9, 1, 2), [9, 4, 2], None),
    ("a drained broker left", partition(0, 7, 2, 3), [7, 2, 6], "drain"),
    ("a dead broker left", partition(0, 1, 8, 3), [1, 5, 3], None),
]


@pytest.mark.parametrize(("before", "after", "rule"), [row[1:] for row in TARGETS], ids=[row[0] for row in TARGETS])
def test_rule_on_one_partition(before: Any, after: list[int], rule: str | None) -> None:
    """A change of one partition breaks just the rules that it should, or none."""
    broken = rules_broken(audit(ALL, [before], {before.partition: after}))
    assert broken == set((rule or "").split())


def test_unknown_partition() -> None:
    """A plan that names a partition which the cluster lacks is refused, and so is its rollback."""
    assert rules_broken(audit(LIVING, [P], {1: [4, 2, 3]})) == {"known_partition", "rollback"}


def test_nothing_to_do() -> None:
    """No documents are a valid plan of a cluster that needs none, with all figures 0."""
    report = audit(LIVING, [P], {})
    assert report.violations == ()
    assert set(report.figures.values()) == {0}


def test_nothing_to_do_with_a_broker_to_empty() -> None:
    """No documents are no plan where a broker must be emptied, and just the brokers to empty are named."""
    (violation,) = audit(ALL, [partition(0, 7, 2, 3)], {}).violations
    assert (violation.rule, violation.detail) == (
        "drain",
        "replicas stay on brokers [7], which must be emptied; [2, 3, 4] would fix it",
    )


def test_fixed_partition_on_a_broker_to_empty_is_counted() -> None:
    """A fixed partition stays on a broker to empty, and the figures say so."""
    report = audit(ALL, [partition(0, 7, 2, 3, mobility="fixed")], {})
    assert report.violations == ()
    assert report.figures["fixed_partitions_left_on_brokers_to_empty"] == 1


def test_excused_partition_on_a_broker_to_empty_is_counted() -> None:
    """A partition that the limit leaves may stay on a broker to empty, and the figures say so."""
    report = audit(ALL, [partition(0, 7, 2, 3)], {}, limits=replace(LIMITS, max_moves=0))
    assert report.violations == ()
    assert report.figures["partitions_left_on_brokers_to_empty"] == 1


@pytest.mark.parametrize(
    ("changes", "max_moves", "broken"),
    [
        ({}, None, {"replication_factor"}),
        ({}, 0, set()),
        ({"mobility": "fixed"}, None, set()),
        ({"replication_factor": 3}, None, set()),
    ],
)
def test_lists_that_stay_have_the_length_asked_for(
    changes: dict[str, Any], max_moves: int | None, broken: set[str]
) -> None:
    """A free partition that the plan leaves out has as many replicas as are requested, or the limit is spent."""
    row = partition(0, 1, 2, 3, **{"replication_factor": 2, **changes})
    assert rules_broken(audit(ALL, [row], {}, limits=replace(LIMITS, max_moves=max_moves))) == broken


@pytest.mark.parametrize(("size_bytes", "broken"), [(900, set()), (901, {"capacity_during", "capacity_after"})])
def test_added_replicas_need_room(size_bytes: int, broken: set[str]) -> None:
    """A list that grows is counted on the disks that it grows onto, while it is copied and after."""
    row = partition(0, 1, 2, size_bytes=size_bytes, replication_factor=3)
    assert rules_broken(audit(LIVING, [row], {0: [1, 2, 3]})) == broken


PINS: tuple[tuple[str, dict[str, Any], dict[int, list[int]], set[str]], ...] = (
    ("met", {}, {7: [1, 2]}, set()),
    ("target outside", {}, {7: [1, 3]}, {"pin"}),
    ("left outside", {}, {}, {"pin"}),
    ("half left outside", {"pinned_brokers": frozenset({1, 2, 4})}, {7: [1, 5]}, {"pin"}),
    ("fixed stays", {"mobility": "fixed"}, {}, set()),
    ("excluded stays", {"mobility": "forced_only"}, {}, set()),
    ("too few brokers", {"pinned_brokers": frozenset({1, 9})}, {}, set()),
)


@pytest.mark.parametrize(("changes", "targets", "broken"), [row[1:] for row in PINS], ids=[row[0] for row in PINS])
def test_pins(changes: dict[str, Any], targets: dict[int, list[int]], broken: set[str]) -> None:
    """Replicas sit inside their pin, except for fixed and excluded partitions and pins of too few brokers."""
    hosts = [broker(b, f"r{b}") for b in range(1, 7)]
    row = partition(7, 3, 5, **{"pinned_brokers": frozenset({1, 2}), **changes})
    report = audit(hosts, [row], targets)
    assert rules_broken(report) == broken
    assert report.figures["partitions_left_outside_their_pin"] == (0 if targets == {7: [1, 2]} else 1)


def test_an_excused_replica_outside_its_pin_is_counted() -> None:
    """What a limit leaves outside its pin is counted; a copy may still go nowhere but inside."""
    hosts = [broker(b, f"r{b}") for b in range(1, 7)]
    row = partition(7, 3, 5, pinned_brokers=frozenset({1, 2}))
    limits = AuditLimits(disk_headroom=0.1, max_moves=1)
    assert rules_broken(audit(hosts, [row], {7: [1, 5]}, limits=limits)) == set()
    assert rules_broken(audit(hosts, [row], {7: [3, 4]}, limits=limits)) == {"pin"}


@pytest.mark.parametrize(("after", "is_kept"), [((1, 2, 3), True), ((1, 2, 4), False)])
def test_rack_rule_within_a_pin(after: tuple[int, ...], is_kept: bool) -> None:
    """Pinned to one rack, all replicas may share it; pinned to two, the spread over these two counts."""
    racks = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "c", 7: "c"}
    hosts = [broker(b, rack) for b, rack in racks.items()]
    pinned = partition(0, 4, 6, 5, pinned_brokers=frozenset({1, 2, 3} if is_kept else {1, 2, 4}))
    assert rules_broken(audit(hosts, [pinned], {0: after})) == set()
    two = partition(0, 4, 6, 1, pinned_brokers=frozenset({1, 2, 3, 4, 5}))
    assert ("racks" in rules_broken(audit(hosts, [two], {0: after}))) is is_kept


@pytest.mark.parametrize(("mobility", "broken"), [("free", set()), ("forced_only", {"excluded", "racks"})])
def test_a_replica_that_must_leave_is_no_room_in_its_rack(mobility: str, broken: set[str]) -> None:
    """A free partition leaves its broker outside the pin, though only its pin's full rack accepts it; others stay."""
    hosts = [broker(1, "a"), broker(2, "b"), broker(3, "a", accepts_replicas=False), broker(4, "b", state="fenced")]
    row = partition(0, 3, 2, pinned_brokers=frozenset({1, 3, 4}), mobility=mobility)
    assert rules_broken(audit(hosts, [row], {0: [3, 1]})) == broken


SPREAD: tuple[tuple[str, int | None, dict[int, list[int]], set[str]], ...] = (
    ("as before", 1, {}, set()),
    ("a crowd elsewhere", 1, {0: [4, 2, 3]}, {"topic_spread"}),
    ("dissolved", 2, {0: [4, 2, 3]}, set()),
    ("over the most", 1, {2: [1, 5, 6]}, {"topic_spread"}),
    ("over the most, where none was", 1, {0: [4, 2, 3], 1: [4, 5, 3]}, {"topic_spread"}),
    ("up to the most", 3, {2: [1, 5, 6]}, set()),
    ("one comes, one goes", 1, {0: [4, 2, 3], 2: [1, 5, 6]}, set()),
    ("no limit", None, {2: [1, 5, 6]}, set()),
)


@pytest.mark.parametrize(("most", "targets", "broken"), [row[1:] for row in SPREAD], ids=[row[0] for row in SPREAD])
def test_spread_of_topics(most: int | None, targets: dict[int, list[int]], broken: set[str]) -> None:
    """No broker ends with more of a topic than its most, or than it had where that is more; others are counted."""
    rows = [
        partition(number, *replicas, topic_most_replicas=most)
        for number, replicas in enumerate([(1, 2, 3), (1, 5, 3), (4, 5, 6)])
    ]
    report = audit(LIVING, rows, targets)
    assert rules_broken(report) == broken
    if not targets:
        assert report.figures["crowded_topics_before"] == report.figures["crowded_topics_after"] == 3
    if broken:
        allowed = replace(LIMITS, max_unexplained=1)
        assert rules_broken(audit(LIVING, rows, targets, limits=allowed)) == set()


@pytest.mark.parametrize(
    ("most", "targets", "broken"),
    [
        (1, {}, set()),
        (1, {0: [2, 1, 3]}, set()),
        (1, {2: [1, 5, 6]}, {"topic_leader_spread"}),
        (1, {0: [4, 2, 3]}, {"topic_leader_spread"}),
        (2, {0: [4, 2, 3]}, set()),
        (None, {2: [1, 5, 6]}, set()),
    ],
)
def test_spread_of_leaders(most: int | None, targets: dict[int, list[int]], broken: set[str]) -> None:
    """No broker ends leading more of a topic than its most, or than it led where that is more."""
    rows = [
        partition(number, *replicas, topic_most_leaders=most)
        for number, replicas in enumerate([(1, 2, 3), (1, 5, 3), (4, 5, 6)])
    ]
    assert rules_broken(audit(LIVING, rows, targets)) == broken
    allowed = replace(LIMITS, max_unexplained=1)
    assert rules_broken(audit(LIVING, rows, targets, limits=allowed)) == set()


def test_too_few_brokers_to_drain() -> None:
    """A replica may stay on a dead broker when fewer brokers live than replicas are requested."""
    brokers = [broker(1, None), broker(2, None), draining(3, None, state="dead")]
    assert audit(brokers, [partition(0, 1, 2, 3)], {}).violations == ()


@pytest.mark.parametrize(
    ("racks", "spread", "after", "is_kept"),
    [
        ({1: "a", 2: "b", 3: "c"}, True, (1, 2, 3), True),
        ({1: "a", 2: "a", 3: "b"}, True, (1, 2, 3), True),
        ({1: "a", 2: "b", 3: None}, True, (1, 2, 3), True),
        ({1: "a", 2: "a", 3: "b", 4: "c"}, True, (1, 2, 3), False),
        ({1: "a", 2: "a", 3: "b", 4: "c"}, False, (1, 2, 3), True),
        ({1: "a", 2: "a", 3: "a", 4: "b", 5: "b"}, True, (1, 2, 3), False),
        ({1: "a", 2: "b", 3: "b", 4: "b", 6: "b"}, True, (2, 3, 4, 6), False),
        ({1: "a", 2: "b", 3: "b", 4: "b", 6: "b"}, True, (1, 2, 3, 4), True),
    ],
)
def test_rack_rule(racks: dict[int, str | None], spread: bool, after: tuple[int, ...], is_kept: bool) -> None:
    """A rack holds at most ceil(RF / R), at least floor(RF / R) when RF > R, as far as its brokers go."""
    brokers = [broker(b, rack) for b, rack in racks.items()]
    limits = AuditLimits(disk_headroom=0.1, rack_spread=spread)
    figures = audit(brokers, [partition(0, *after)], {}, limits=limits).figures
    assert figures["rack_violations_before"] == (0 if is_kept else 1)


@pytest.mark.parametrize(
    ("racks", "closed", "replicas"),
    [
        ({1: "a", 2: "b", 3: "b", 4: "b"}, {5: "a", 6: "a"}, (1, 2, 3, 4)),
        ({1: "a", 2: "b"}, {3: "b", 4: "b"}, (1, 2, 3, 4)),
    ],
)
def test_brokers_that_take_nothing_count_where_the_others_are_too_few(
    racks: dict[int, str], closed: dict[int, str], replicas: tuple[int, ...]
) -> None:
    """Three replicas in one rack are right where the brokers that accept any, or all that are left, allow no others."""
    hosts = [broker(b, rack) for b, rack in racks.items()]
    hosts += [broker(b, rack, accepts_replicas=False) for b, rack in closed.items()]
    assert audit(hosts, [partition(0, *replicas)], {}).figures["rack_violations_before"] == 0


@pytest.mark.parametrize(("is_open", "broken"), [(False, set()), (True, {"racks"})])
def test_a_longer_list_may_break_the_rack_rule_where_none_keeps_it(is_open: bool, broken: set[str]) -> None:
    """Of four replicas three are right in the rack of one that stays, unless a second broker of the other is open."""
    hosts = [broker(1, "b", accepts_replicas=False), broker(2, "a", state="fenced", accepts_replicas=False)]
    hosts += [
        *(broker(b, rack) for b, rack in {3: "b", 4: "a", 5: "b"}.items()),
        broker(6, "a", accepts_replicas=is_open),
    ]
    grown = partition(0, 1, replication_factor=4)
    assert rules_broken(audit(hosts, [grown], {0: [1, 3, 4, 5]})) == broken


def test_brokers_without_a_rack_are_no_rack() -> None:
    """Four replicas in one of two racks are too many of six, whatever brokers without a rack keep."""
    hosts = [broker(1, "a"), broker(2, "b"), *(draining(b, "a") for b in (7, 8, 9))]
    hosts += [broker(b, None, accepts_replicas=False) for b in (3, 4, 5, 6)]
    assert audit(hosts, [partition(0, 1, 7, 8, 9, 2, 3)], {}).figures["rack_violations_before"] == 1


@pytest.mark.parametrize(
    ("used_bytes", "size_bytes", "broken"),
    [
        (0, 900, set()),
        (0, 901, {"capacity_during", "capacity_after"}),
        (500, 400, set()),
        (500, 401, {"capacity_during", "capacity_after"}),
        (950, 0, set()),
        (950, 1, {"capacity_during", "capacity_after"}),
    ],
)
def test_disk_limit(used_bytes: int, size_bytes: int, broken: set[str]) -> None:
    """A broker takes what fits under its disk less headroom, and nothing when it is over it already."""
    resident = partition(1, 4, 2, 3, size_bytes=used_bytes)
    report = audit(LIVING, [partition(0, 1, 2, 3, size_bytes=size_bytes), resident], {0: [4, 2, 3]})
    assert rules_broken(report) == broken


def test_both_copies_count_while_moving() -> None:
    """Two partitions that change places need room for both copies in one wave, and none in a broker of unknown disk."""
    full = [partition(0, 1, 2, 3, size_bytes=500), partition(1, 4, 2, 3, size_bytes=500)]
    swap = {0: [4, 2, 3], 1: [1, 2, 3]}
    roomy = [replace(b, disk_capacity_bytes=None) for b in LIVING]
    big = [replace(b, disk_capacity_bytes=2000) if b.broker_id in (2, 3) else b for b in LIVING]
    assert rules_broken(audit(big, full, swap)) == {"capacity_during"}
    assert audit(roomy, full, swap).violations == ()


@pytest.mark.parametrize(("comes", "broken"), [(500, set()), (501, {"capacity_during", "capacity_after"})])
def test_a_disk_over_its_limit_may_fill_up_to_what_it_held(comes: int, broken: set[str]) -> None:
    """Where a broker held more than its limit, what one wave takes away a later one may bring back, no byte more."""
    rows = [
        partition(0, 4, 2, 3, size_bytes=450),
        partition(1, 4, 2, 3, size_bytes=500),
        partition(2, 1, 2, 3, size_bytes=comes),
    ]
    brokers = [replace(b, disk_capacity_bytes=1000 if b.broker_id == 4 else None) for b in LIVING]
    report = audit(brokers, rows, {1: [1, 2, 3], 2: [4, 2, 3]}, waves=[[1], [2]])
    assert rules_broken(report) == broken
    assert all(v.subject == "broker 4" and "950 allowed" in v.detail for v in report.violations)


@pytest.mark.parametrize("unknown", [None, 0, -1])
def test_an_unknown_disk_hides_no_full_one(unknown: int | None) -> None:
    """Brokers after one with an unknown disk are still judged; disks of no size are unknown."""
    brokers = [replace(b, disk_capacity_bytes=unknown if b.broker_id == 1 else 1000) for b in LIVING]
    rows = [partition(0, 4, 2, 3, size_bytes=600), partition(1, 4, 5, 3, size_bytes=400)]
    report = audit(brokers, rows, {0: [1, 5, 3]})
    assert {(v.rule, v.subject) for v in report.violations} == {
        ("capacity_during", "broker 5"),
        ("capacity_after", "broker 5"),
    }


def test_what_one_wave_brings_is_there_in_the_next() -> None:
    """Two copies of 500 bytes fill a disk of 900 with the second, in whichever wave they come."""
    rows = [partition(n, 1, 2, 3, size_bytes=500) for n in range(2)]
    brokers = [replace(b, disk_capacity_bytes=1000 if b.broker_id == 4 else None) for b in LIVING]
    report = audit(brokers, rows, {0: [4, 2, 3], 1: [4, 2, 3]}, waves=[[0], [1]])
    assert [v.detail for v in report.violations] == ["1,000 bytes in wave 2, 900 allowed"] * 2


def test_an_excluded_partition_is_told_once() -> None:
    """Another order of an excluded partition that nothing forces is one violation, its leader is no second one."""
    report = audit(LIVING, [partition(0, 1, 2, 3, mobility="forced_only")], {0: [2, 1, 3]})
    assert [v.detail for v in report.violations] == ["it is excluded and nothing forces a change"]


def test_headroom_is_rounded_against_the_plan() -> None:
    """Nine tenths of a disk of 1,005 bytes are 904 bytes."""
    brokers = [replace(b, disk_capacity_bytes=1005) for b in LIVING]
    for size_bytes, broken in ((904, set()), (905, {"capacity_during", "capacity_after"})):
        report = audit(brokers, [partition(0, 1, 2, 3, size_bytes=size_bytes)], {0: [4, 2, 3]})
        assert rules_broken(report) == broken


def test_a_partition_that_is_not_there_hides_no_full_disk() -> None:
    """Disks are computed from the partitions that the cluster has, whatever else a wave names."""
    rows = [partition(0, 1, 2, 3, size_bytes=901)]
    report = audit(LIVING, rows, {5: [1, 2, 3], 0: [4, 2, 3]})
    assert rules_broken(report) == {"known_partition", "rollback", "capacity_during", "capacity_after"}


@pytest.mark.parametrize(
    ("waves", "broken"),
    [([[0], [1]], set()), ([[0, 1]], {"capacity_during"}), ([[1], [0]], {"capacity_during", "capacity_after"})],
)
def test_capacity_follows_the_waves(waves: list[list[int]], broken: set[str]) -> None:
    """Room that one wave makes may be used by the next, not in the same wave and not before."""
    brokers = [replace(b, disk_capacity_bytes=1000 if b.broker_id == 1 else None) for b in LIVING]
    rows = [partition(0, 1, 2, 3, size_bytes=800), partition(1, 4, 2, 3, size_bytes=800)]
    assert rules_broken(audit(brokers, rows, {0: [4, 2, 3], 1: [1, 2, 3]}, waves=waves)) == broken


@pytest.mark.parametrize(
    ("most", "waves", "broken"),
    [(None, [[0, 1]], set()), (2, [[0, 1]], set()), (1, [[0, 1]], {"wave_size"}), (1, [[0], [1]], set())],
)
def test_copies_of_a_wave(most: int | None, waves: list[list[int]], broken: set[str]) -> None:
    """A wave of several partitions starts no more copies than allowed."""
    rows = [P, partition(1, 1, 2, 3)]
    limits = replace(LIMITS, max_moves_per_wave=most)
    report = audit(LIVING, rows, {0: [4, 2, 3], 1: [1, 5, 3]}, waves=waves, limits=limits)
    assert rules_broken(report) == broken


def test_one_partition_may_copy_more_than_a_wave_may_start() -> None:
    """Also next to partitions that only change their order."""
    limits = replace(LIMITS, max_moves_per_wave=1)
    rows = [P, partition(1, 1, 2, 3)]
    report = audit(LIVING, rows, {0: [4, 5, 3], 1: [2, 1, 3]}, waves=[[0, 1]], limits=limits)
    assert rules_broken(report) == set()


@pytest.mark.parametrize(
    ("max_moved_bytes", "max_moves", "broken"),
    [(None, None, set()), (300, 3, set()), (299, None, {"limit"}), (None, 2, {"limit"}), (300, 2, {"limit"})],
)
def test_limit_of_the_whole_plan(max_moved_bytes: int | None, max_moves: int | None, broken: set[str]) -> None:
    """All waves together copy no more bytes and no more replicas than the policy allows; an order costs nothing."""
    limits = replace(LIMITS, max_moved_bytes=max_moved_bytes, max_moves=max_moves)
    rows = [P, partition(1, 1, 2, 3), partition(2, 1, 2, 3)]
    report = audit(LIVING, rows, {0: [4, 5, 3], 1: [1, 5, 3], 2: [2, 1, 3]}, limits=limits, waves=[[0], [1, 2]])
    assert rules_broken(report) == broken


@pytest.mark.parametrize(
    ("figure", "value", "rule"),
    [
        ("moved_bytes", 300, None),
        ("moved_bytes", 299, "claims"),
        ("replicas_moved", 3, None),
        ("replicas_moved", 4, "claims"),
        ("leader_changes", 1, None),
        ("leader_changes", 0, "claims"),
        ("partitions_changed", 2, None),
        ("partitions_changed", 1, "claims"),
        ("bound_bytes", 300, None),
        ("bound_bytes", 301, "bound"),
    ],
)
def test_claims(figure: str, value: int, rule: str | None) -> None:
    """A figure that differs from the documents is refused, and so is a bound above the bytes."""
    claims = AuditClaims(**{figure: value})
    report = audit(LIVING, [P, partition(1, 1, 2, 3)], {0: [4, 5, 3], 1: [1, 5, 3]}, claims=claims)
    assert rules_broken(report) == (set() if rule is None else {rule})


def test_what_was_broken_before_is_counted() -> None:
    """Rack violations and full disks of the start are figures, not violations, while they are no worse."""
    rows = [partition(0, 1, 4, 3, size_bytes=950), partition(1, 1, 2, 3, size_bytes=0)]
    report = audit(LIVING, rows, {1: [4, 2, 3]})
    assert report.violations == ()
    assert report.figures["rack_violations_before"] == report.figures["rack_violations_after"] == 1
    assert report.figures["brokers_over_disk_limit_before"] == 3


def test_waves_and_whole_plan_differ() -> None:
    """A wave that differs from the whole plan, a missing and a repeated one are all named."""
    before = {("t", 0): [1, 2, 3], ("t", 1): [1, 2, 3], ("t", 2): [1, 2, 3]}
    after = {("t", 0): [4, 2, 3], ("t", 1): [1, 5, 3], ("t", 2): [1, 2, 6]}
    report = audit_plan(
        brokers=LIVING,
        partitions=[partition(n, 1, 2, 3) for n in range(3)],
        waves=[document({("t", 0): [4, 2, 3]}), document({("t", 0): [4, 2, 3], ("t", 1): [4, 2, 3]})],
        whole=document(after),
        rollback=document({k: v for k, v in before.items() if k != ("t", 2)}),
        limits=LIMITS,
        claims=None,
    )
    assert [(v.rule, v.subject) for v in report.violations] == [
        ("waves", "t-0"),
        ("waves", "t-1"),
        ("waves", "t-2"),
        ("rollback", "t-2"),
    ]


def test_a_rollback_in_parts_is_one_rollback() -> None:
    """Parts of a rollback are read as one: together they name every partition, none is in two of them."""
    after = {("t", 0): [4, 2, 3], ("t", 1): [1, 5, 3]}
    parts = [document({("t", n): [1, 2, 3]}) for n in range(2)]

    def broken(rollback: list[str]) -> list[tuple[str, str]]:
        whole, rows = document(after), [partition(n, 1, 2, 3) for n in range(2)]
        report = audit_plan(
            brokers=LIVING, partitions=rows, waves=[whole], whole=whole, rollback=rollback, limits=LIMITS, claims=None
        )
        return [(violation.rule, violation.subject) for violation in report.violations]

    assert broken(parts) == []
    assert broken(parts[:1]) == [("rollback", "t-1")]
    assert broken([*parts, parts[0]]) == [("document", "t-0")]
    assert ("document", "the rollback") in broken([parts[0], "{"])


LEFT_OUT: list[tuple[str, tuple[int, ...], bool, str]] = [
    ("dead and left out", (1, 8, 3), False, ""),
    ("fenced and left out", (1, 2, 11), False, ""),
    ("unknown and left out", (1, 2, 99), False, ""),
    ("dead and named", (1, 8, 3), True, "restores (1, 8, 3): Kafka refuses it while [8] are down"),
    ("living and left out", (1, 2, 6), False, "the rollback does not name it"),
    ("to empty and left out", (7, 2, 3), False, "the rollback does not name it"),
    ("living and named", (1, 2, 6), True, ""),
]


@pytest.mark.parametrize(
    ("before", "is_named", "detail"), [row[1:] for row in LEFT_OUT], ids=[row[0] for row in LEFT_OUT]
)
def test_a_rollback_leaves_out_what_kafka_refuses(before: tuple[int, ...], is_named: bool, detail: str) -> None:
    """Only partitions that were on a broker that is down are in no rollback."""
    whole = document({("t", 0): [4, 5, 3], ("t", 1): [4, 2, 3]})
    report = audit_plan(
        brokers=ALL,
        partitions=[partition(0, *before), partition(1, 1, 2, 3)],
        waves=[whole],
        whole=whole,
        rollback=document({**({("t", 0): before} if is_named else {}), ("t", 1): (1, 2, 3)}),
        limits=LIMITS,
        claims=None,
    )
    details = [(v.subject, v.detail) for v in report.violations if v.rule == "rollback"]
    assert details == ([("t-0", detail)] if detail else [])


def test_an_instance_that_repeats_itself() -> None:
    """A broker or partition that the instance lists twice is refused: the verdict would mean nothing."""
    assert rules_broken(audit([*LIVING, LIVING[0]], [P, P], {})) == {"instance"}


def test_refusal_names_rules_and_first_violations() -> None:
    """The error counts the violations by rule, shows ten and has exit code 3."""
    rows = [partition(n, 7, 2, 3) for n in range(12)]
    with pytest.raises(AuditFailed, match=r"12 violations \(drain 12\)(?s:.*)t-9: (?s:.*)and 2 more") as caught:
        audit(ALL, rows, {}).raise_if_failed()
    assert caught.value.exit_code == 3
    audit(LIVING, [P], {}).raise_if_failed()


def test_rows_of_the_tables() -> None:
    """Rows of the tables become brokers and partitions; SQL nulls in each Python form are None."""
    host = {
        "broker_id": 1,
        "rack": float("nan"),
        "state": "alive",
        "accepts_replicas": True,
        "accepts_leadership": True,
        "must_empty": False,
        "disk_capacity_bytes": float("nan"),
        "skips_tiered": float("nan"),
    }
    for null in (None, float("nan")):
        (broker,) = brokers_from_rows([host | {"log_dirs": null}])
        assert (broker.rack, broker.disk_capacity_bytes, broker.log_dirs) == (None, None, ())
    struct = {"path": "/a", "capacity_bytes": None, "used_bytes": 5, "logs": 1, "is_open": True}
    (broker,) = brokers_from_rows([host | {"log_dirs": [struct]}])
    assert broker.log_dirs == (AuditLogDir(path="/a", capacity_bytes=None, used_bytes=5, is_open=True),)
    row = {
        "topic": "t",
        "partition": 0,
        "replicas": [1, 2],
        "size_bytes": 5,
        "replication_factor": 2,
        "mobility": "free",
        "pinned_brokers": [2, 1],
        "topic_most_replicas": 7,
        "topic_most_leaders": 4,
        "leader": 2,
        "log_dirs": ["/a", "any"],
        "fixed_cause": "only",
        "isr": [1],
        "elr": [2],
        "copy_bytes": 4,
        "tiered_copy_bytes": 1,
    }
    nullable = ("leader", "fixed_cause", "isr", "elr", "copy_bytes", "tiered_copy_bytes")
    for null in (None, float("nan")):
        limits = ("pinned_brokers", "topic_most_replicas", "topic_most_leaders")
        nothing = dict.fromkeys((*limits, *nullable, "log_dirs"), null)
        assert partitions_from_rows([row | nothing]) == (partition(0, 1, 2, size_bytes=5),)
    (partition_row,) = partitions_from_rows([row])
    assert (partition_row.pinned_brokers, partition_row.topic_most_replicas) == (frozenset({1, 2}), 7)
    assert partition_row.topic_most_leaders == 4
    assert [getattr(partition_row, name) for name in nullable] == [2, "only", frozenset({1}), frozenset({2}), 4, 1]
    assert partition_row.log_dirs == ("/a", "any")
