"""Small clusters of every oddity: each plan against all placements, and its documents against an own checker."""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.fuzz import brute
from benchmarks.fuzz.checker import complaints
from benchmarks.fuzz.odd_clusters import CLUSTER, OddCluster, odd_cluster
from benchmarks.fuzz.planning import PlannedOdd, plan_odd
from optimizer.audit import AuditClaims, audit_plan, brokers_from_rows, partitions_from_rows
from optimizer.planning.unexplained import audit_limits
from optimizer.settings import ClusterInput
from optimizer.solve.bounds.bound import copies_of, widen
from optimizer.solve.rules.bands import broker_loads, replica_weights

FINE, UNORDERED, OUTSIDE, WRONG, RAISED = "fine", "no order", "outside", "wrong", "raised"
BAD = (UNORDERED, WRONG, RAISED)


@dataclass(frozen=True)
class ClusterCase:
    """One cluster: its seed, what is wrong, and what was compared.

    Parameters
    ----------
    verdict : str
        fine; no order (the plan stage would refuse the plan); outside (bands that some placement meets are not met);
        wrong; raised.
    searched : bool
        All placements were looked at.
    seconds : float
        Processor time.
    """

    seed: int
    verdict: str
    details: tuple[str, ...]
    searched: bool
    seconds: float


def check(odd: OddCluster, seed: int) -> ClusterCase:
    """Plan one cluster and look at it from all sides."""
    started = time.process_time()
    try:
        verdict, details, searched = _verdict(odd)
    except Exception:
        verdict, details, searched = RAISED, tuple(traceback.format_exc().splitlines()[-4:]), False
    return ClusterCase(seed, verdict, details, searched, time.process_time() - started)


def _verdict(odd: OddCluster) -> tuple[str, tuple[str, ...], bool]:
    planned = plan_odd(odd)
    waiting = [f"{row['topic']}-{row['partition']}" for row in planned.plan if _is_none(row["wave"])]
    texts = {path.removeprefix(f"{CLUSTER}/"): made.content for path, made in planned.documents.items()}
    wrong = [*complaints(odd, planned.findings, texts), *_audited(odd, planned, texts)] if not waiting else []
    below, missed, searched = _against_all(planned)
    if wrong or below:
        return WRONG, (*wrong, *below), searched
    if waiting:
        return UNORDERED, tuple(waiting), searched
    return (OUTSIDE if missed else FINE), missed, searched


def _audited(odd: OddCluster, planned: PlannedOdd, texts: Mapping[str, str]) -> Iterator[str]:
    """What the project's own audit would refuse."""
    waves = [text for path, text in sorted(texts.items()) if path.endswith("/reassignment.json")]
    settings = replace(odd.settings, clusters=(ClusterInput(id=CLUSTER, input="unused"),))
    report = audit_plan(
        brokers=brokers_from_rows(odd.brokers),
        partitions=partitions_from_rows(odd.partitions),
        waves=waves,
        whole=texts.get("reassignment.json"),
        rollback=texts.get("rollback.json"),
        limits=audit_limits(settings, CLUSTER),
        claims=AuditClaims(bound_bytes=planned.bound_bytes),
    )
    return (f"audit: {violation}" for violation in report.violations)


def _is_none(wave: object) -> bool:
    return not isinstance(wave, int | np.integer)


def _against_all(planned: PlannedOdd) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """What is wrong with bound and bytes, which bands could have been met, and whether all placements were seen."""
    cluster, reached = planned.cluster, planned.replicas
    copies = copies_of(cluster.partitions.replicas, reached)
    moved = int((copies * cluster.partitions.size_bytes).sum())
    wrong = (f"bound {planned.bound_bytes} over the plan's {moved}",) if planned.bound_bytes > moved else ()
    every = brute.placements(cluster, reached)
    if every is None:
        return wrong, (), False
    loads = broker_loads(len(cluster.brokers), reached, replica_weights(cluster.partitions))
    most = brute.most_of_topics(cluster)
    crowd = np.maximum(most, _counts(planned))
    as_good = brute.least_bytes(*every, widen(planned.bands, loads), planned.scale, crowd)
    if as_good is None or as_good > moved:
        wrong = (*wrong, f"the plan's {moved} are not among all placements, the least of which copies {as_good}")
    elif planned.bound_bytes > as_good:
        wrong = (*wrong, f"bound {planned.bound_bytes} over {as_good}, plan {moved}")
    is_cut = any(row["code"] in ("limited", "left_for_disk") for row in planned.findings)
    least = brute.least_bytes(*every, planned.bands, planned.scale, most)
    outside = np.maximum(loads - planned.bands.upper, 0) + np.maximum(planned.bands.lower - loads, 0)
    distance = float((outside / planned.scale).sum())
    if least is None or is_cut or distance <= brute.TOLERANCE:
        return wrong, (), True
    return wrong, (f"{distance:.4f} mean loads outside bands that {least} bytes meet, plan {moved}",), True


def _counts(planned: PlannedOdd) -> np.ndarray:
    """Replicas of each topic on each broker after the plan, (B, T)."""
    partitions = planned.cluster.partitions
    topics = sorted({str(topic) for topic in partitions.topic})
    counts = np.zeros((len(planned.cluster.brokers), len(topics)))
    for row, topic in zip(planned.replicas, partitions.topic, strict=True):
        counts[row[row >= 0], topics.index(str(topic))] += 1
    return counts


def cases(count: int, seed: int, make: Callable[[int], OddCluster] = odd_cluster) -> Iterator[ClusterCase]:
    """So many clusters, one after the other."""
    first = seed * 1_000_000
    return (check(make(number), number) for number in range(first, first + count))
