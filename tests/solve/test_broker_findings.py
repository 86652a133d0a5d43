"""Findings of brokers that are down, of racks, and of unknown rates."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.domain import FIXED, FREE, Cause, FindingCode
from optimizer.solve.findings.cluster_findings import (
    broker_findings,
    disk_findings,
    emptied_racks,
    nested_rack_findings,
    network_findings,
    no_rack_findings,
    rack_findings,
    rate_findings,
    stranded_findings,
)
from optimizer.solve.rules.pins import rack_breaks
from tests.in_full import in_full
from tests.solve.clusters import STATES, make_brokers, make_partitions, with_states

UNREGISTER = "drain it (--drain 3), execute that plan, and then unregister it: kafka-cluster.sh unregister --id 3"


@pytest.mark.parametrize(
    ("code", "after", "when", "detail", "remedy"),
    [
        (
            FindingCode.DEAD_BROKER,
            [[0, 1], [1, 2]],
            "before",
            "the plan moves its replicas to others",
            "if it is to come back, start it",
        ),
        (
            FindingCode.DEAD_BROKER,
            [[0, 3], [3, 2]],
            "both",
            "2 replicas stay on it",
            "if it is to come back, start it and plan again",
        ),
        (FindingCode.FENCED_BROKER, [[0, 3], [1, 2]], "both", "1 replica stays on it", UNREGISTER),
        (FindingCode.FENCED_BROKER, [[0, 1], [1, 2]], "before", "the plan moves its replicas to others", UNREGISTER),
    ],
)
def test_a_broker_that_does_not_live_is_fixed_if_it_is_emptied(
    code: FindingCode, after: list[list[int]], when: str, detail: str, remedy: str
) -> None:
    """The finding is fixed if no replica stays on the broker; a fenced one can be drained, then unregistered."""
    state = code.removesuffix("_broker")
    brokers = replace(make_brokers([0, 1, 2, 0]), state=("alive", "alive", "alive", state))
    (found,) = in_full(broker_findings(brokers, np.array(after)))
    assert (found.code, found.subject, found.when) == (code, "broker 3", when)
    assert detail in found.detail
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("drained", "after", "details"),
    [
        (
            (2, 3),
            [[0, 1], [1, 0]],
            ["the plan empties the whole rack (brokers 2, 3): replicas are spread over 2 racks"],
        ),
        ((2, 3), [[0, 1], [1, 3]], ["replicas are spread over 2 racks only; 1 replica stays there for now"]),
        ((2, 3), [[0, 2], [1, 3]], []),
        ((2,), [[0, 1], [1, 0]], []),
        (
            (0, 1),
            [[2, 3], [3, 2]],
            [f"the plan empties the whole rack (broker {b}): replicas are spread over 1 rack only" for b in (0, 1)],
        ),
    ],
    ids=["both of the rack", "a replica stays", "all stay", "one of two", "two racks"],
)
def test_a_rack_that_the_plan_empties_is_a_finding(
    drained: tuple[int, ...], after: list[list[int]], details: list[str]
) -> None:
    """A finding, also if a replica may not move; but not if none moves or a broker of the rack may hold one."""
    brokers = make_brokers([0, 1, 2, 2], draining=drained)
    findings = in_full(emptied_racks(brokers, np.array([[0, 2], [1, 3]]), np.array(after)))
    assert [(finding.code, finding.when) for finding in findings] == [(FindingCode.RACK_EMPTIED, "after")] * len(
        details
    )
    assert all(detail in finding.detail for finding, detail in zip(findings, details, strict=True))


def test_brokers_without_a_rack_are_no_rack_that_is_emptied() -> None:
    """Dead brokers may have no rack, and neither has a cluster in which racks do not matter."""
    brokers, before, after = make_brokers([0, 1, 2], draining=(2,)), np.array([[0, 2]]), np.array([[0, 1]])
    assert len([*emptied_racks(brokers, before, after)]) == 1
    assert [*emptied_racks(replace(brokers, rack_names=("r0", "r1", "")), before, after)] == []
    assert [*emptied_racks(replace(brokers, racks_matter=False), before, after)] == []


def test_racks_that_are_unknown_stay_so() -> None:
    """No plan fixes them, so the findings are the same before and after."""
    brokers = make_brokers([0, 1, 2])
    findings = no_rack_findings(replace(brokers, racks_matter=False))
    assert [(f.code, f.when) for f in findings] == [(FindingCode.NO_RACKS, "both")]
    assert not list(no_rack_findings(brokers))


@pytest.mark.parametrize(
    ("racks", "lines"),
    [
        (("/fd0/ud0", "/fd0/ud1", "/fd1/ud0", "/fd1/ud1"), ["0,fd0", "1,fd0"]),
        (("az1/r1", "az2/r1", "az2/r2"), ["1,az2", "2,az2"]),
        (("az1/r1/u1", "az2/r1/u1", "az2/r1/u2"), ["1,az2", "2,az2"]),
        (("az1/r1", "az1/r2", "az1/r3"), None),
        (("az1/r1", "az2/r1", "az3/r1"), None),
        (("az1", "az2", "az3"), None),
        (("euw1-az1", "euw1-az2", "use1-az1"), None),
        (("az1/r1", "az2/r1", "az2"), None),
    ],
)
def test_racks_of_one_broker_with_nested_names_are_a_finding(racks: tuple[str, ...], lines: list[str] | None) -> None:
    """If the first part of the names groups some brokers and splits others; the remedy has lines to type."""
    brokers = replace(make_brokers([*range(len(racks))]), rack_names=racks)
    found = in_full(nested_rack_findings(brokers))
    assert [(f.code, f.when) for f in found] == ([(FindingCode.NESTED_RACKS, "both")] if lines else [])
    remedies = [f.remedy.partition("a line for each broker: ")[2] for f in found]
    assert remedies == ([", then ".join(lines)] if lines else [])
    of_two = replace(make_brokers([*range(len(racks)), 0]), rack_names=racks)
    assert [*nested_rack_findings(of_two)] == [], "a rack has two brokers"
    assert [*nested_rack_findings(replace(brokers, racks_matter=False))] == []


@pytest.mark.parametrize(
    ("bytes_in", "bytes_out", "count"), [([0, 0], [0, 0], 1), ([0, 1], [0, 0], 0), ([0, 0], [1, 0], 0)]
)
def test_rates_that_are_unknown_are_reported(bytes_in: list[int], bytes_out: list[int], count: int) -> None:
    """That is where no partition has one, in or out; a cluster without partitions misses none."""
    partitions = make_partitions([[0], [1]], [1, 1])
    partitions = replace(partitions, in_bytes_per_s=np.array(bytes_in), out_bytes_per_s=np.array(bytes_out))
    findings = [(f.code, f.when) for f in rate_findings(partitions)]
    assert findings == [(FindingCode.NO_RATES, "both")] * count
    assert not list(rate_findings(partitions.rows(np.zeros(0, dtype=np.int64))))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_findings_count_what_a_plan_leaves_on_each_broker(data: st.DataObject) -> None:
    """In any state of the brokers, the first one included: every dead or fenced broker with its replicas, every replica
    on a broker to empty, every rack that loses its replicas, and every partition that breaks the rack rule."""
    n, count = data.draw(st.integers(4, 6)), data.draw(st.integers(1, 4))
    states = data.draw(st.lists(st.sampled_from(STATES), min_size=n, max_size=n))
    racks = [b % 3 for b in range(n)]
    brokers = with_states(make_brokers(racks), ["dead", *states[1:]] if data.draw(st.booleans()) else states)
    lists = st.tuples(st.permutations(range(n)), st.integers(1, 3)).map(lambda drawn: list(drawn[0][: drawn[1]]))
    several = st.lists(lists, min_size=count, max_size=count)
    before, after = (make_partitions(data.draw(several), [1] * count) for _ in range(2))
    mobility = np.array(data.draw(st.lists(st.sampled_from([FREE, FIXED]), min_size=count, max_size=count)))
    before = replace(before, mobility=mobility)
    held = [[b for b in row if b >= 0] for row in after.replicas.tolist()]
    everywhere = [b for row in held for b in row]
    down = {"dead": FindingCode.DEAD_BROKER, "fenced": FindingCode.FENCED_BROKER}
    assert [(f.code, f.broker_id, f.amount, f.when) for f in broker_findings(brokers, after.replicas)] == [
        (down[state], b, everywhere.count(b), "both" if b in everywhere else "before")
        for b, state in enumerate(brokers.state)
        if state in down
    ]
    keeps = brokers.accepts_replicas | ~brokers.must_empty
    room = [sum(brokers.accepts_replicas[b] or (b in row and keeps[b]) for b in range(n)) for row in before.replicas]
    too_few = [Cause.TOO_FEW_BROKERS if room[p] < len(row) else None for p, row in enumerate(held)]
    assert [(f.partition, f.broker_id, f.cause) for f in stranded_findings(brokers, before, after.replicas)] == [
        (p, b, Cause.NOT_FREE if mobility[p] == FIXED else too_few[p])
        for p, row in enumerate(held)
        for b in row
        if brokers.must_empty[b]
    ]
    width = max(before.replicas.shape[1], after.replicas.shape[1])
    same = replace(
        before, replicas=np.pad(before.replicas, ((0, 0), (0, width - before.replicas.shape[1])), constant_values=-1)
    )
    breaks = [rack_breaks(brokers, same, lists) for lists in (same.replicas, after.replicas)]
    found = [(f.partition, f.when, f.amount) for f in rack_findings(brokers, same, after.replicas)]
    fixed = int(((breaks[0] > 0) & (breaks[1] == 0)).sum())
    assert found == [
        *([(None, "before", fixed)] if fixed else []),
        *((p, "both" if breaks[0][p] else "after", breaks[1][p]) for p in range(count) if breaks[1][p]),
    ]
    in_rack = [[racks[b] for row in lists.replicas for b in row.tolist() if b >= 0] for lists in (before, after)]
    gone = [
        rack
        for rack in range(3)
        if (held_now := in_rack[1].count(rack)) < in_rack[0].count(rack)
        and not any(brokers.accepts_replicas[b] for b in range(n) if racks[b] == rack)
        and (not held_now or all(brokers.must_empty[b] for b in range(n) if racks[b] == rack))
    ]
    emptied = emptied_racks(brokers, before.replicas, after.replicas)
    assert [(f.facts["rack"], f.facts["held"]) for f in emptied] == [
        (f"r{rack}", in_rack[1].count(rack)) for rack in gone
    ]


@pytest.mark.parametrize("capacities", [*product([-1, 0, 100], repeat=2)])
@pytest.mark.parametrize(("closed", "of_closed"), [*product([0, 1, 2], [-1, 50])])
def test_capacities_that_are_unknown_count_where_replicas_may_go(
    capacities: tuple[int, int], closed: int, of_closed: int
) -> None:
    """Of the brokers that accept replicas some have a capacity: disks are all needed, the network is all or none."""
    sizes = np.insert(np.array(capacities), closed, of_closed)
    brokers = make_brokers([0, 1, 2], excluded=(closed,))
    known = sum(capacity > 0 for capacity in capacities)
    disks = [(f.amount, f.limit) for f in disk_findings(replace(brokers, disk_capacity_bytes=sizes))]
    assert disks == ([(known, 2)] if known < 2 else [])
    network = replace(brokers, in_capacity_bytes_per_s=sizes, out_capacity_bytes_per_s=sizes[::-1])
    known_out = int((sizes[::-1][brokers.accepts_replicas] > 0).sum())
    assert [(f.resource, f.amount) for f in network_findings(network)] == [
        (way, amount) for way, amount in (("in", known), ("out", known_out)) if amount == 1
    ]
