"""Plans small unusual clusters. Compares each plan with all placements, and its documents with a separate checker."""

import itertools
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.fuzz.checker import complaints
from benchmarks.fuzz.planning import PlannedCluster, plan_cluster
from benchmarks.fuzz.unusual_clusters import CLUSTER, UnusualCluster, unusual_cluster
from optimizer.audit import AuditClaims, AuditFile, audit_files, audit_plan, brokers_from_rows, partitions_from_rows
from optimizer.domain import FREE, Bands, Cluster, Floats, Ints
from optimizer.planning.unexplained import audit_limits
from optimizer.solve.bounds.bound import widen
from optimizer.solve.rules.bands import broker_loads, replica_weights
from optimizer.solve.rules.pins import group_by_pins, rack_breaks

MAX_PLACEMENTS = 30_000  # of one cluster; a cluster with more is not searched
TOLERANCE = 1e-9  # mean broker loads; less than this outside the bands counts as inside, as SETTLED of the product
Choice = tuple[int, ...]


def choices_of(cluster: Cluster, row: int, planned: Choice, *, needs_all: bool) -> list[Choice]:
    """The sets of brokers that one partition may have: those that keep every rule, and the planned set.

    A partition that is not free has only its planned set. With ``needs_all`` Kafka waits for all replicas of a new set.
    """
    brokers, partitions = cluster.brokers, cluster.partitions
    held = {int(b) for b in partitions.replicas[row] if b >= 0}
    if partitions.mobility[row] != FREE:
        return [planned]
    stays = [b for b in range(len(brokers)) if b in held and not brokers.must_empty[b]]
    usable = sorted({*np.flatnonzero(brokers.accepts_replicas).tolist(), *stays})
    factor = int(partitions.replication_factor[row])
    partition = partitions.rows(np.array([row]))
    groups = group_by_pins(brokers, partition.topic)
    choices = {planned}
    in_sync = {int(b) for b in partitions.isr[row] if b >= 0}
    needed = min(len(held & in_sync), factor)
    for choice in itertools.combinations(usable, factor):
        placed = np.array([choice])
        stuck = set(choice) & (held - in_sync)
        if len(choice) - len(stuck) < needed or (stuck and needs_all and set(choice) != held):
            continue
        if not rack_breaks(brokers, partition, placed).any() and not groups.outside_pin(placed).any():
            choices.add(choice)
    return sorted(choices)


def _loads_of(cluster: Cluster, row: int, choice: Choice, topics: Sequence[str]) -> Floats:
    """Loads on each broker, and replicas of each topic, (B, D + T)."""
    partitions = cluster.partitions
    loads = np.zeros((len(cluster.brokers), 3 + len(topics)))
    weight = [1.0, float(partitions.size_bytes[row]), float(partitions.in_bytes_per_s[row])]
    loads[list(choice), :3] = weight
    loads[list(choice), 3 + topics.index(str(partitions.topic[row]))] = 1.0
    return loads


def _copy_bytes(cluster: Cluster, row: int, broker: int) -> int:
    """Bytes of a copy of a partition to a broker."""
    partitions = cluster.partitions
    copied = partitions.tiered_copy_bytes if cluster.brokers.skips_tiered[broker] else partitions.copy_bytes
    return int(copied[row])


def placements(cluster: Cluster, replicas: Ints, *, needs_all: bool = False) -> tuple[Floats, Ints] | None:
    """Loads and replicas of each topic, (N, B, D + T), and bytes copied, (N,), of all placements; None if too many."""
    partitions = cluster.partitions
    topics = sorted({str(topic) for topic in partitions.topic})
    planned = [tuple(sorted(int(b) for b in row if b >= 0)) for row in replicas]
    choices = [choices_of(cluster, row, planned[row], needs_all=needs_all) for row in range(len(partitions))]
    if np.prod([len(of_row) for of_row in choices], dtype=float) > MAX_PLACEMENTS:
        return None
    loads, copied = np.zeros((1, len(cluster.brokers), 3 + len(topics))), np.zeros(1, dtype=np.int64)
    for row, of_row in enumerate(choices):
        held = {int(b) for b in partitions.replicas[row] if b >= 0}
        each = np.stack([_loads_of(cluster, row, choice, topics) for choice in of_row])
        cost = np.array([sum(_copy_bytes(cluster, row, broker) for broker in {*choice} - held) for choice in of_row])
        loads = (loads[:, None] + each[None]).reshape(-1, *each.shape[1:])
        copied = (copied[:, None] + cost[None]).ravel()
    return loads, copied


def topic_limits(cluster: Cluster) -> Floats:
    """The most replicas of each topic that a broker may hold, (T,)."""
    partitions = cluster.partitions
    limits = {str(t): float(m) for t, m in zip(partitions.topic, partitions.topic_most_replicas, strict=True)}
    return np.array([limits[topic] for topic in sorted(limits)])


def least_bytes(loads: Floats, copied: Ints, bands: Bands, scale: Floats, limits: Floats) -> int | None:
    """Least bytes copied by a placement inside the bands and topic limits; None if there is no such placement.

    Parameters
    ----------
    limits : (T,) or (B, T) float64
        The most replicas of each topic on a broker.
    """
    outside = np.maximum(loads[:, :, :3] - bands.upper, 0) + np.maximum(bands.lower - loads[:, :, :3], 0)
    inside = (outside / scale).sum(axis=(1, 2)) <= TOLERANCE
    inside &= (loads[:, :, 3:] <= limits).all(axis=(1, 2))
    return int(copied[inside].min()) if inside.any() else None


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
    moved = sum(
        _copy_bytes(cluster, row, broker)
        for row, (before, after) in enumerate(zip(cluster.partitions.replicas.tolist(), reached.tolist(), strict=True))
        for broker in {*after} - {*before, -1}
    )
    too_large = f"the bound {planned.bound_bytes} is larger than the plan's {moved} bytes"
    wrong = (too_large,) if planned.bound_bytes > moved else ()
    every = placements(cluster, reached, needs_all=needs_all)
    if every is None:
        return wrong, (), False
    loads = broker_loads(len(cluster.brokers), reached, replica_weights(cluster.partitions))
    limits = topic_limits(cluster)
    limits_of_plan = np.maximum(limits, _counts(planned))
    as_good = least_bytes(*every, widen(planned.bands, loads), planned.scale, limits_of_plan)
    if as_good is None or as_good > moved:
        wrong = (*wrong, f"the plan copies {moved} bytes; the least of all placements as balanced is {as_good}")
    elif planned.bound_bytes > as_good:
        wrong = (*wrong, f"the bound {planned.bound_bytes} is larger than the least bytes {as_good}, plan {moved}")
    is_limited = any(row["code"] in ("limited", "left_for_disk") for row in planned.findings)
    least = least_bytes(*every, planned.bands, planned.scale, limits)
    outside = np.maximum(loads - planned.bands.upper, 0) + np.maximum(planned.bands.lower - loads, 0)
    distance = float((outside / planned.scale).sum())
    if least is None or is_limited or distance <= TOLERANCE:
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
