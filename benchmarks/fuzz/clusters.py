"""Plans small unusual clusters. Compares each plan with all placements, and its documents with a separate checker."""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.fuzz import brute
from benchmarks.fuzz.checker import complaints
from benchmarks.fuzz.planning import PlannedCluster, plan_cluster
from benchmarks.fuzz.unusual_clusters import CLUSTER, UnusualCluster, unusual_cluster
from optimizer.audit import AuditClaims, AuditFile, audit_files, audit_plan, brokers_from_rows, partitions_from_rows
from optimizer.planning.unexplained import audit_limits
from optimizer.solve.bounds.bound import copies_of, widen
from optimizer.solve.rules.bands import broker_loads, replica_weights

FINE, UNORDERED, OUTSIDE, WRONG, RAISED = "fine", "no order", "outside", "wrong", "raised"
BAD = (UNORDERED, WRONG, RAISED)


@dataclass(frozen=True)
class ClusterCase:
    """One cluster: its seed, the verdict, and the problems.

    Parameters
    ----------
    verdict : str
        fine; no order (the plan stage would refuse the plan); outside (bands that some placement meets are not met);
        wrong; raised.
    searched : bool
        Whether all placements were compared.
    seconds : float
        Processor time.
    """

    seed: int
    verdict: str
    details: tuple[str, ...]
    searched: bool
    seconds: float


def check(unusual: UnusualCluster, seed: int) -> ClusterCase:
    """Plan one cluster and check its plan, bound and documents."""
    started = time.process_time()
    try:
        verdict, details, searched = _verdict(unusual)
    except Exception:
        verdict, details, searched = RAISED, tuple(traceback.format_exc().splitlines()[-4:]), False
    return ClusterCase(seed, verdict, details, searched, time.process_time() - started)


def _verdict(unusual: UnusualCluster) -> tuple[str, tuple[str, ...], bool]:
    planned = plan_cluster(unusual)
    without_wave = [f"{row['topic']}-{row['partition']}" for row in planned.plan if _is_none(row["wave"])]
    texts = {path.removeprefix(f"{CLUSTER}/"): made.content for path, made in planned.documents.items()}
    wrong: list[str] = []
    if not without_wave:
        wrong = [*complaints(unusual, planned.findings, texts), *_audited(unusual, planned, texts)]
    wrong_bounds, missed, searched = _compare_with_all(planned, needs_all=unusual.kafka_version != "4.3")
    if wrong or wrong_bounds:
        return WRONG, (*wrong, *wrong_bounds), searched
    if without_wave:
        return UNORDERED, tuple(without_wave), searched
    return (OUTSIDE if missed else FINE), missed, searched


def _audited(unusual: UnusualCluster, planned: PlannedCluster, texts: Mapping[str, str]) -> Iterator[str]:
    """The violations that the product's audit finds."""
    waves = [text for path, text in sorted(texts.items()) if path.endswith("/reassignment.json")]
    report = audit_plan(
        brokers=brokers_from_rows(unusual.brokers),
        partitions=partitions_from_rows(unusual.partitions),
        waves=waves,
        whole=texts.get("reassignment.json"),
        rollback=texts.get("rollback.json"),
        limits=audit_limits(unusual.run_settings, CLUSTER),
        claims=AuditClaims(bound_bytes=planned.bound_bytes),
    )
    files = [AuditFile(made.path, made.kind, made.wave, made.content) for made in planned.documents.values()]
    of_files = audit_files(
        brokers=brokers_from_rows(unusual.brokers),
        partitions=partitions_from_rows(unusual.partitions),
        limits=audit_limits(unusual.run_settings, CLUSTER),
        files=files,
    )
    # Here plans have no throttles.
    of_directories = (v for v in of_files if "log_dir" in v.rule or "dir_move" in v.rule)
    return (f"audit: {violation}" for violation in (*report.violations, *of_directories))


def _is_none(wave: object) -> bool:
    return not isinstance(wave, int | np.integer)


def _compare_with_all(planned: PlannedCluster, *, needs_all: bool) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Wrong bounds; bands that the plan misses but another placement meets; whether all placements were compared."""
    cluster, reached = planned.cluster, planned.replicas
    copies = copies_of(cluster.partitions.replicas, reached)
    moved = int((copies * cluster.partitions.size_bytes).sum())
    too_large = f"the bound {planned.bound_bytes} is larger than the plan's {moved} bytes"
    wrong = (too_large,) if planned.bound_bytes > moved else ()
    every = brute.placements(cluster, reached, needs_all=needs_all)
    if every is None:
        return wrong, (), False
    loads = broker_loads(len(cluster.brokers), reached, replica_weights(cluster.partitions))
    limits = brute.topic_limits(cluster)
    limits_of_plan = np.maximum(limits, _counts(planned))
    as_good = brute.least_bytes(*every, widen(planned.bands, loads), planned.scale, limits_of_plan)
    if as_good is None or as_good > moved:
        wrong = (*wrong, f"the plan copies {moved} bytes; the least of all placements as balanced is {as_good}")
    elif planned.bound_bytes > as_good:
        wrong = (*wrong, f"the bound {planned.bound_bytes} is larger than the least bytes {as_good}, plan {moved}")
    is_limited = any(row["code"] in ("limited", "left_for_disk") for row in planned.findings)
    least = brute.least_bytes(*every, planned.bands, planned.scale, limits)
    outside = np.maximum(loads - planned.bands.upper, 0) + np.maximum(planned.bands.lower - loads, 0)
    distance = float((outside / planned.scale).sum())
    if least is None or is_limited or distance <= brute.TOLERANCE:
        return wrong, (), True
    missed = f"{distance:.4f} mean loads outside the bands; a placement of {least} bytes meets them, plan {moved}"
    return wrong, (missed,), True


def _counts(planned: PlannedCluster) -> np.ndarray:
    """Replicas of each topic on each broker after the plan, (B, T)."""
    partitions = planned.cluster.partitions
    topics = sorted({str(topic) for topic in partitions.topic})
    counts = np.zeros((len(planned.cluster.brokers), len(topics)))
    for row, topic in zip(planned.replicas, partitions.topic, strict=True):
        counts[row[row >= 0], topics.index(str(topic))] += 1
    return counts


def cases(count: int, seed: int, make: Callable[[int], UnusualCluster] = unusual_cluster) -> Iterator[ClusterCase]:
    """``count`` cases, one after the other; seeds start at ``seed`` million."""
    first = seed * 1_000_000
    return (check(make(number), number) for number in range(first, first + count))
