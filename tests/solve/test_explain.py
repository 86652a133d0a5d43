"""Findings say why a broker stays outside a band, what would do, and which pins can't be met."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimizer.domain import FIXED, FORCED_ONLY, FREE, ORDER_ONLY, RACKS_ONLY, Cause, Cluster, FindingCode, Ints
from optimizer.settings import Policy
from optimizer.solve.findings.band_findings import band_findings
from optimizer.solve.findings.cluster_findings import (
    disk_findings,
    network_findings,
    rack_findings,
    stranded_findings,
)
from optimizer.solve.findings.finding import Finding
from optimizer.solve.findings.pin_findings import pin_findings
from optimizer.solve.rules.bands import bands, broker_loads, replica_weights
from optimizer.wording.remedies import RUN_AGAIN, remedy_if_fixed
from tests.examples import examples
from tests.in_full import in_full
from tests.solve.clusters import make_brokers, make_cluster, make_partitions, middling_clusters, pinned, with_pins

NARROW = Policy(disk_band=0.02, replicas_band=0.02, in_band=0.02)
WIDE = Policy(disk_band=90.0, replicas_band=90.0, in_band=90.0)


def findings_of(cluster: Cluster, placed: Ints, policy: Policy, *, only: str = "") -> list[SimpleNamespace]:
    """Band findings of a placement."""
    brokers, partitions = cluster.brokers, cluster.partitions
    weights = replica_weights(partitions)
    before, after = (broker_loads(len(brokers), where, weights) for where in (partitions.replicas, placed))
    ends = bands(cluster, policy)
    return in_full(
        band_findings(brokers, ends, before, after, partitions=partitions, placed=placed, policy=policy, only=only)
    )


def of_leaderless(finding: Finding) -> Finding:
    """The finding, if its partition is not free because it has no leader."""
    return replace(finding, facts={**finding.facts, "fixed_cause": Cause.LEADERLESS})


def with_bands(policy: Policy, widths: dict[str, float]) -> Policy:
    """The policy with other widths."""
    return Policy(
        **{name: widths.get(name, getattr(policy, name)) for name in ("disk_band", "replicas_band", "in_band")}
    )


def widest(findings: list[SimpleNamespace]) -> dict[str, float]:
    """The largest width that the remedies name, by knob."""
    result: dict[str, float] = {}
    for finding in findings:
        knob = f"{finding.subject.split()[-1]}_band"
        named = re.findall(r"([\d.]+) is enough", finding.remedy)
        result[knob] = max([result.get(knob, 0.0), *map(float, named)])
    return result


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(middling_clusters(), with_pins(middling_clusters())))
def test_the_width_that_would_do_does(cluster: Cluster) -> None:
    """With the widths that the remedies name, the same placement has no broker outside; a thousandth less has one."""
    placed = cluster.partitions.replicas
    findings = findings_of(cluster, placed, NARROW)
    named = widest(findings)
    assert findings_of(cluster, placed, with_bands(NARROW, named)) == []
    for knob, width in named.items():
        less = findings_of(cluster, placed, with_bands(WIDE, {knob: max(width - 0.0011, 0)}))
        assert less or width <= 0.0011


def crowded() -> Cluster:
    """One large partition and many small ones on four brokers of two racks."""
    replicas = [[0], *([b] for b in (1, 2, 3) for _ in range(10))]
    return make_cluster(make_brokers([0, 0, 1, 1]), make_partitions(replicas, [900, *[10] * 30]))


def with_mobility(value: int) -> Cluster:
    """Thirty partitions on one of three brokers, all of one mobility."""
    partitions = replace(make_partitions([[0]] * 30, [10] * 30), mobility=np.full(30, value))
    return make_cluster(make_brokers([0, 0, 0]), partitions)


def pinned_to_one() -> Cluster:
    """Thirty partitions pinned to the broker that they are on, of three."""
    return pinned(with_mobility(0), {"t": [0]}, ["t"] * 30)


def small_disk() -> Cluster:
    """Broker 0 of three has room for less than its share."""
    cluster = make_cluster(make_brokers([0, 0, 0]), make_partitions([[b] for b in (0, 1, 2) * 10], [10] * 30))
    return replace(cluster, brokers=replace(cluster.brokers, disk_capacity_bytes=np.array([100, -1, 200])))


def lopsided_racks() -> Cluster:
    """Everything in one rack of two."""
    return make_cluster(make_brokers([0, 0, 1, 1]), make_partitions([[p % 2] for p in range(20)], [10] * 20))


def coarse() -> Cluster:
    """Three partitions of 40 on two brokers: with either of them a broker is outside."""
    return make_cluster(make_brokers([0, 0]), make_partitions([[0], [0], [1]], [40, 40, 40]))


@pytest.mark.parametrize(
    ("cluster", "broker", "cause", "words"),
    [
        (crowded(), 0, Cause.LARGE_PARTITION, "t-0 alone (900 B) is above the band"),
        (
            with_mobility(FIXED),
            0,
            Cause.MAY_NOT_LEAVE,
            "the replicas that may not leave it already exceed the band: fixed partitions 300 B",
        ),
        (
            with_mobility(FORCED_ONLY),
            0,
            Cause.MAY_NOT_LEAVE,
            "the replicas that may not leave it already exceed the band: excluded topics 300 B",
        ),
        (
            with_mobility(FIXED),
            1,
            Cause.MAY_NOT_COME,
            "it can hold at most 0 B: pins, fixed partitions or excluded topics rule out more",
        ),
        (pinned_to_one(), 0, Cause.MAY_NOT_LEAVE, "pinned topics that have no other broker 300 B"),
        (small_disk(), 0, Cause.BAND_ENDS_AT_DISK, "the band ends at the disk limit (disk_headroom = 0.1)"),
        (
            lopsided_racks(),
            0,
            Cause.WHOLE_RACK,
            "rack r0 holds 200 B in total, but the upper ends of its brokers' bands add up to 105 B",
        ),
        (
            lopsided_racks(),
            3,
            Cause.WHOLE_RACK,
            "rack r1 holds 0 B in total, but the lower ends of its brokers' bands add up to 95 B",
        ),
        (
            coarse(),
            0,
            Cause.STEPS_TOO_LARGE,
            "moving its smallest movable replica (t-0, 40 B) would bring it below the band",
        ),
        (
            coarse(),
            1,
            Cause.STEPS_TOO_LARGE,
            "the smallest replica that may come (t-0, 40 B) would bring it above the band",
        ),
    ],
)
def test_causes(cluster: Cluster, broker: int, cause: Cause, words: str) -> None:
    """Each finding names the first cause that explains it alone, as code and in words, and by how much."""
    found = findings_of(cluster, cluster.partitions.replicas, Policy(replicas_band=90.0))
    (disk,) = [f for f in found if f.subject == f"broker {broker} disk"]
    assert words in disk.detail
    assert (disk.code, disk.cause, disk.broker_id, disk.resource) == (FindingCode.BAND, cause, broker, "disk")
    assert disk.amount is not None
    assert disk.limit is not None
    assert ("above the band, which ends" in disk.detail) == (disk.amount > disk.limit)


def test_what_only_leaves_is_no_excluded_topic() -> None:
    """Partitions that may not move for balance are what ``only`` leaves, where a cluster asks for it."""
    cluster = with_mobility(FORCED_ONLY)
    policy = Policy(replicas_band=90.0)
    details = [found.detail for found in findings_of(cluster, cluster.partitions.replicas, policy, only="racks")]
    assert any("already exceed the band: partitions that policy.only excludes 300 B" in detail for detail in details)
    assert not any("excluded topics" in detail for detail in details)


def test_no_width_fixes_a_full_disk() -> None:
    """Where the disk ends the band, the remedy is room, not a width."""
    cluster = small_disk()
    (disk,) = [f for f in findings_of(cluster, cluster.partitions.replicas, Policy()) if "disk" in f.subject]
    assert disk.remedy == "no width is enough: add disk, lower disk_headroom, or free 10 B"


def test_pins_that_cannot_be_met_are_reported_by_topic() -> None:
    """A pin of too few brokers says how many are missing; one that matches nothing, what stays outside and why, too."""
    partitions = make_partitions([[0, 1, 2], [1, 2, 3], [3, 0, 1], [1, 0, 2]], [1, 1, 1, 1])
    partitions = replace(partitions, mobility=np.array([FREE, FREE, FREE, FIXED]))
    cluster = make_cluster(make_brokers([0, 0, 1, 1], draining=(0,), excluded=(1,)), partitions)
    cluster = pinned(cluster, {"a": [0, 1, 2], "b": [1, 2, 3], "gone": [1]}, ["a", "a", "b", "b"])
    pins = pin_findings(cluster.brokers, cluster.partitions, partitions.replicas)
    found = {(f.code, f.subject): f for f in in_full(map(of_leaderless, pins))}
    causes = {of: (one.cause, one.topic, one.partition, one.broker_id) for of, one in found.items()}
    assert causes == {
        (FindingCode.PIN_UNUSED, "gone"): (None, None, None, None),
        (FindingCode.PIN, "a"): (Cause.TOO_FEW_BROKERS, "a", None, None),
        (FindingCode.NOT_PINNED, "b-2 on 0"): (Cause.NO_MORE_ROUNDS, "b", 2, 0),
        (FindingCode.NOT_PINNED, "b-3 on 0"): (Cause.NOT_FREE, "b", 3, 0),
    }
    short = found[FindingCode.PIN, "a"]
    assert (short.amount, short.limit) == (2, 3)
    assert short.detail == (
        "the pin a allows brokers [0, 1, 2]: 2 of them can hold a replica, 3 are needed. 2 partitions cannot move"
    )
    assert short.remedy == "let the pin allow 1 more broker that can accept replicas; or request 2 replicas"


@pytest.mark.parametrize(
    ("capacities", "text"),
    [
        ([100, 100, 200], ""),
        ([-1, -1, -1], "disk capacity of 3 of 3 brokers is unknown: they have no disk limit"),
        ([100, -1, 200], "disk capacity of 1 of 3 brokers is unknown: it has no disk limit, and all brokers count"),
    ],
)
def test_unknown_disks_are_reported(capacities: list[int], text: str) -> None:
    """A plan that no disk limits says so, with how many brokers; known disks need no word."""
    brokers = replace(small_disk().brokers, disk_capacity_bytes=np.array(capacities))
    found = in_full(disk_findings(brokers))
    assert [f.code for f in found] == ([FindingCode.NO_DISK_CAPACITY] if text else [])
    assert all(text in f.detail for f in found)


@pytest.mark.parametrize(("capacities", "count"), [([9, 9, 9], 0), ([-1, -1, -1], 0), ([9, -1, 9], 1)])
def test_network_capacities_of_some_brokers_are_reported_as_unused(capacities: list[int], count: int) -> None:
    """Where all are known they count, where none is nothing is missed; of some they say nothing about the rest."""
    brokers = replace(small_disk().brokers, out_capacity_bytes_per_s=np.array(capacities))
    found = in_full(network_findings(brokers))
    assert [(f.code, f.subject) for f in found] == [(FindingCode.NO_NETWORK_CAPACITY, "cluster out")] * count
    assert all("known for only 2 of 3 brokers" in f.detail for f in found)


def test_only_brokers_that_accept_replicas_need_a_disk() -> None:
    """The disk of a broker that gets nothing is not missed."""
    accepts = np.array([True, False, True])
    assert not list(disk_findings(replace(small_disk().brokers, accepts_replicas=accepts)))


@pytest.mark.parametrize(
    ("before", "after", "when", "detail"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], "both", "rack r2 holds 0 (at least 1)"),
        ([0, 1, 4, 2], [0, 1, 2, 3], "after", "rack r2 holds 0 (at least 1)"),
        ([0, 1, 6, 2], [0, 1, 6, 2], "both", "rack r0 holds 3 replicas (at most 2), rack r2 holds 0 (at least 1)"),
    ],
)
def test_racks_with_too_many_or_too_few_are_named(before: list[int], after: list[int], when: str, detail: str) -> None:
    """Each of three racks holds one or two of four replicas; racks that do not are named, with what they may hold."""
    cluster = make_cluster(make_brokers([0, 0, 1, 1, 2, 2, 0]), make_partitions([before], [1]))
    (found,) = in_full(rack_findings(cluster.brokers, cluster.partitions, np.array([after])))
    assert (found.code, found.subject, found.when, found.detail) == (FindingCode.RACK_SPREAD, "t-0", when, detail)


FIX = remedy_if_fixed(Cause.LEADERLESS)
MORE_RACKS = f"add brokers to other racks; otherwise {RUN_AGAIN}"
MORE_BROKERS = f"add a broker that may hold it; otherwise {RUN_AGAIN}"


@pytest.mark.parametrize(
    ("mobility", "racks", "stranded"),
    [
        (FREE, MORE_RACKS, MORE_BROKERS),
        (RACKS_ONLY, MORE_RACKS, MORE_BROKERS),
        (FORCED_ONLY, FIX, MORE_BROKERS),
        (ORDER_ONLY, FIX, FIX),
        (FIXED, FIX, FIX),
    ],
)
def test_what_helps_depends_on_whether_the_partition_may_move(mobility: int, racks: str, stranded: str) -> None:
    """One more broker does not help a partition that may not move; a partition that may move needs no permission."""
    partitions = replace(make_partitions([[0, 1]], [1]), mobility=np.array([mobility]))
    brokers, after = make_brokers([0, 0, 1], draining=(1,)), partitions.replicas
    stated = (
        *rack_findings(make_brokers([0, 0, 1]), partitions, after),
        *stranded_findings(brokers, partitions, after),
    )
    crowds, stays = in_full(map(of_leaderless, stated))
    assert (crowds.remedy, stays.remedy) == (racks, stranded)
    causes = [Cause.NOT_FREE if remedy == FIX else None for remedy in (racks, stranded)]
    assert [crowds.cause, stays.cause] == causes


@pytest.mark.parametrize(("excluded", "pin", "cause"), [((), (), None), ((3,), (), "few"), ((), (0, 1, 2), "few")])
def test_more_replicas_than_brokers_that_stay_are_a_cause(
    excluded: tuple[int, ...], pin: tuple[int, ...], cause: str | None
) -> None:
    """No broker of the cluster, or of the pin, is left that could take the replica of a drained one."""
    brokers = make_brokers([0, 0, 1, 1], draining=(0,), excluded=excluded)
    cluster = make_cluster(brokers, make_partitions([[0, 1, 2]], [1]))
    if pin:
        cluster = pinned(cluster, {"t": list(pin)}, ["t"])
    (found,) = in_full(stranded_findings(cluster.brokers, cluster.partitions, cluster.partitions.replicas))
    assert found.cause == (Cause.TOO_FEW_BROKERS if cause else None)
    assert ("3 replicas, brokers that can hold them: 2" in found.detail) == bool(cause)
