"""Findings of brokers that are down, of racks, and of unknown rates."""

from dataclasses import replace

import numpy as np
import pytest

from optimizer.domain import FindingCode
from optimizer.solve.findings.cluster_findings import (
    broker_findings,
    emptied_racks,
    nested_rack_findings,
    no_rack_findings,
    rate_findings,
)
from tests.in_full import in_full
from tests.solve.clusters import make_brokers, make_partitions

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
    assert all(
        f.remedy.endswith(f"broker_id,rack, then a line for each broker: {', then '.join(lines)}") for f in found
    )
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
