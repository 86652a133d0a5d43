"""Findings say which broker's leaders or bytes out stay outside their band, why, and the width that would do."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given

from optimizer.domain import Cause, Cluster, FindingCode
from optimizer.solve.findings.leader_findings import leader_findings
from optimizer.solve.leaders.leader_bounds import leader_bounds
from optimizer.solve.leaders.leaders import ChosenLeaders, assign_leaders, leader_choices
from tests.in_full import in_full
from tests.solve.clusters import make_brokers, make_cluster, make_partitions, middling_clusters
from tests.solve.test_leaders import RELAXED

MEGABYTE = 10**6
NARROW = {"leaders_band": 0.02, "out_band": 0.02}
WIDE = {"leaders_band": 90.0, "out_band": 90.0}


def findings_of(cluster: Cluster, leaders: ChosenLeaders) -> list[SimpleNamespace]:
    """Findings of chosen leaders."""
    return in_full(leader_findings(cluster.brokers, cluster.partitions, leaders))


def with_widths(cluster: Cluster, leaders: ChosenLeaders, widths: dict[str, float]) -> list[SimpleNamespace]:
    """Findings of the same leaders with wider bands."""
    lists = cluster.partitions.replicas
    return findings_of(
        cluster, replace(leaders, choices=leader_choices(cluster.brokers, cluster.partitions, lists, **widths))
    )


@RELAXED
@given(middling_clusters())
def test_the_width_that_would_do_does(cluster: Cluster) -> None:
    """With the widths that the remedies name these leaders are in their bands; for bytes out, a thousandth less leaves
    a broker outside."""
    some = cluster.partitions
    bytes_in, bytes_out = some.in_bytes_per_s * MEGABYTE, some.out_bytes_per_s * MEGABYTE
    heavy = replace(some, in_bytes_per_s=bytes_in, out_bytes_per_s=bytes_out)
    cluster = replace(cluster, partitions=heavy)
    leaders = assign_leaders(cluster.brokers, heavy, heavy.replicas, **NARROW)
    named = dict(NARROW)
    for finding in findings_of(cluster, leaders):
        for knob, width in re.findall(r"(\w+_band) = ([\d.]+) is enough", finding.remedy):
            named[knob] = max(named[knob], float(width))
    widened = with_widths(cluster, leaders, named)
    assert [finding for finding in widened if "is enough" in finding.remedy] == []
    if named["out_band"] > NARROW["out_band"]:
        assert with_widths(cluster, leaders, {**WIDE, "out_band": named["out_band"] - 0.0011})


def hot() -> Cluster:
    """One partition with more bytes out than a broker's band."""
    lists = [[p % 3, (p + 1) % 3] for p in range(12)]
    return make_cluster(make_brokers([0, 1, 2]), make_partitions(lists, [1] * 12, [900] + [10] * 11))


def alone() -> Cluster:
    """Half of the partitions have one replica, all on broker 0."""
    return make_cluster(make_brokers([0, 1, 2]), make_partitions([[0]] * 10 + [[1, 2]] * 10, [1] * 20, [10] * 20))


def out_of_reach() -> Cluster:
    """Broker 2 holds one partition."""
    return make_cluster(make_brokers([0, 1, 2]), make_partitions([[0, 1]] * 20 + [[0, 2]], [1] * 21, [10] * 21))


@pytest.mark.parametrize(
    ("cluster", "subject", "cause", "detail"),
    [
        (
            hot(),
            "broker 0 out",
            Cause.LARGE_PARTITION,
            r"bytes out: 2\.79 kB/s, .* above the band, which ends at .*; t-0 alone \(2\.70 kB/s\) is above the band",
        ),
        (
            alone(),
            "broker 0 leaders",
            Cause.MAY_NOT_LEAVE,
            r"leaders: 10, 3 above .* 7; only this broker may lead partitions with 10 in total .*",
        ),
        (
            out_of_reach(),
            "broker 2 out",
            Cause.MAY_NOT_COME,
            r"bytes out: 30 B/s, .* below .*; the partitions that it may lead add up to only 30 B/s",
        ),
    ],
)
def test_causes(cluster: Cluster, subject: str, cause: Cause, detail: str) -> None:
    """Each finding names the first cause that explains it alone, as code and in words."""
    lists = cluster.partitions.replicas
    leaders = assign_leaders(cluster.brokers, cluster.partitions, lists, leaders_band=0.1, out_band=0.1)
    (found,) = [finding for finding in findings_of(cluster, leaders) if finding.subject == subject]
    assert (found.code, found.cause, f"broker {found.broker_id} {found.resource}") == (
        FindingCode.LEADER_BAND,
        cause,
        subject,
    )
    assert re.fullmatch(detail, found.detail)


def test_a_finding_says_whether_it_was_so_before() -> None:
    """The broker that the plan brings outside its band was inside before, the others were not."""
    lists = np.array([[0, 1]] * 4 + [[1, 0]] * 4)
    cluster = make_cluster(make_brokers([0, 1]), make_partitions(lists.tolist(), [1] * 8, [10] * 8))
    leaders = assign_leaders(cluster.brokers, cluster.partitions, lists, leaders_band=0.1, out_band=0.1)
    assert findings_of(cluster, leaders) == []
    worse = replace(leaders, chosen=np.array([0] * 4 + [1] * 4))
    assert {finding.when for finding in findings_of(cluster, worse)} == {"after"}


@pytest.mark.parametrize(("off", "named"), [(0, {}), (1, {0: 1, 1: -1})])
def test_figure_and_findings_have_one_edge(off: int, named: dict[int, int]) -> None:
    """One byte per second outside a band of a billion counts in the figure and has a finding, or else neither."""
    partitions = make_partitions([[0], [1]], [1, 1])
    partitions = replace(partitions, out_bytes_per_s=np.array([10**9 + off, 10**9 - off]))
    cluster = make_cluster(make_brokers([0, 1]), partitions)
    leaders = assign_leaders(cluster.brokers, partitions, partitions.replicas, leaders_band=0.0, out_band=0.0)
    (figure,) = [bound.planned for bound in leader_bounds(leaders) if bound.measure == "out_outside_bytes_per_s"]
    gaps = {
        finding.broker_id: (finding.amount or 0) - (finding.limit or 0) for finding in findings_of(cluster, leaders)
    }
    assert gaps == named
    assert figure == sum(map(abs, named.values()))
