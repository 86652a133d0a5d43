"""A cluster planned in memory from its rows to its documents, step by step as the stages do it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from benchmarks.fuzz.odd_clusters import CLUSTER, OddCluster, Row
from benchmarks.in_memory import best_bound, solve_rounds
from optimizer.domain import Bands, Cluster, Floats, Ints
from optimizer.emit.files import kafka_documents
from optimizer.emit.model import ClusterPlan, Document
from optimizer.emit.rows import BrokerRow, PlanRow, WaveRow
from optimizer.emit.rows import Row as DocumentRow
from optimizer.frames.cluster import replica_lists, to_cluster
from optimizer.frames.finish import ClusterFacts, finish_cluster
from optimizer.frames.order import left_by_order
from optimizer.frames.scheduling import copy_bytes_per_s, schedule_cluster
from optimizer.settings import MoveLimit, Settings
from optimizer.solve.bands import DISK, broker_loads, disk_limit, replica_weights
from optimizer.solve.bound import copies_of
from optimizer.solve.exact import whole_limits
from optimizer.solve.limit import changes_of
from optimizer.solve.limit_choice import keep_within
from optimizer.solve.limit_findings import Cut
from optimizer.solve.order_findings import Left
from optimizer.solve.progress import ClusterState

R = TypeVar("R", bound=DocumentRow)


@dataclass(frozen=True)
class PlannedOdd:
    """A plan and what it claims.

    Parameters
    ----------
    cluster : Cluster
    replicas : (P, W) int64
        Broker indices after the plan.
    limits : Bands
    scale : (D,) float64
    bound_bytes : int
    is_exact : bool
        The bound is called exact.
    findings, plan : rows
        Findings; rows of ``plan`` that change, null waves among them.
    documents : by path
    """

    cluster: Cluster
    replicas: Ints
    limits: Bands
    scale: Floats
    bound_bytes: int
    is_exact: bool
    findings: tuple[Row, ...]
    plan: tuple[Row, ...]
    documents: Mapping[str, Document]


def plan_odd(odd: OddCluster) -> PlannedOdd:
    """Solve, limit, finish, schedule, write."""
    partitions, hosts = pd.DataFrame(odd.partitions), pd.DataFrame(odd.brokers)
    cluster = to_cluster(partitions, hosts, CLUSTER)
    solved = solve_rounds(cluster, odd.settings)
    state = solved.state
    gone = (solved.replicas >= 0) & ~cluster.brokers.is_live[np.maximum(solved.replicas, 0)]
    whole = np.where(gone.any(axis=1, keepdims=True), cluster.partitions.replicas, solved.replicas)
    reached, cut = _within_limits(cluster, state, whole, odd.settings)
    frame = partitions.assign(current=pd.Series(replica_lists(reached, cluster.brokers.ids)))
    frame["held_back"] = (np.sort(whole, axis=1) != np.sort(reached, axis=1)).any(axis=1)
    reached, frame, left = _ordered(cluster, reached, frame, odd.settings)
    state.loads = _loads(cluster, reached)
    facts = ClusterFacts(cluster.brokers, state.limits, state.loads_before, state.loads, cut=cut, left=left)
    records = finish_cluster(frame, facts, odd.settings.policy)
    changed = _scheduled(partitions, records, hosts, odd.settings)
    bound, is_exact = _bound(cluster, state, reached)
    return PlannedOdd(
        cluster=cluster,
        replicas=reached,
        limits=state.limits,
        scale=state.scale,
        bound_bytes=bound,
        is_exact=is_exact,
        findings=tuple(_rows(records[records["kind"] == "finding"])),
        plan=tuple(_rows(changed)),
        documents={made.path: made for made in _documents(changed, hosts, odd.settings)},
    )


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _loads(cluster: Cluster, replicas: Ints) -> Floats:
    return broker_loads(len(cluster.brokers), replicas, replica_weights(cluster.partitions))


def _within_limits(cluster: Cluster, state: ClusterState, whole: Ints, settings: Settings) -> tuple[Ints, Cut | None]:
    """The plan as its limit or the disks cut it (``frames.limit``)."""
    brokers, partitions = cluster.brokers, cluster.partitions
    before, loads, limit = partitions.replicas, _loads(cluster, whole), disk_limit(brokers, settings.policy)
    allowed = replace(MoveLimit(), moves=settings.policy.max_moves or MoveLimit().moves)
    copies = copies_of(before, whole)
    fills = bool((loads[:, DISK] > np.maximum(limit, state.loads_before[:, DISK])).any())
    moved = int((copies * partitions.size_bytes).sum())
    headroom = settings.policy.disk_headroom if fills else None
    cut = Cut(allowed, moved, int(copies.sum()), loads, disk_headroom=headroom)
    if not cut.names:
        return whole, None
    differs = (np.sort(whole, axis=1) != np.sort(before, axis=1)).any(axis=1)
    rows = np.flatnonzero(differs)
    changes = changes_of(
        brokers,
        partitions.rows(rows),
        whole[rows],
        unchanged=partitions.rows(np.flatnonzero(~differs)),
        limits=state.limits,
        loads=state.loads_before,
        scale=state.scale,
        disk_limit=limit,
        allowed=allowed,
    )
    left = rows[~keep_within(changes)]
    reached = whole.copy()
    reached[left] = before[left]
    return reached, cut


def _ordered(
    cluster: Cluster, reached: Ints, frame: pd.DataFrame, settings: Settings
) -> tuple[Ints, pd.DataFrame, Left | None]:
    """The plan without what no order of copies has room for (``frames.order``)."""
    found = left_by_order(frame, cluster.brokers, settings)
    if found.empty:
        return reached, frame, None
    keys = frozenset(zip(found["topic"], found["partition"], strict=True))
    is_left = np.array([key in keys for key in zip(frame["topic"], frame["partition"], strict=True)])
    lists = [old if kept else new for old, new, kept in zip(frame["replicas"], frame["current"], is_left, strict=True)]
    after = np.where(is_left[:, None], cluster.partitions.replicas, reached)
    return after, frame.assign(current=lists), Left(keys, settings.policy.disk_headroom, settings.schedule.waves)


def _bound(cluster: Cluster, state: ClusterState, reached: Ints) -> tuple[int, bool]:
    """The best bound, and whether it is called exact (``frames.certificate``)."""
    copies = copies_of(cluster.partitions.replicas, reached)
    moved = int((copies * cluster.partitions.size_bytes).sum())
    bound, least = best_bound(cluster, state, reached), state.search_bytes
    lower, upper = whole_limits(state.limits)
    inside = bool(((state.loads >= lower) & (state.loads <= upper)).all())
    if least is None or not inside or least > moved:
        return bound, False
    return max(bound, least), least == moved


def _scheduled(
    partitions: pd.DataFrame, records: pd.DataFrame, hosts: pd.DataFrame, settings: Settings
) -> pd.DataFrame:
    """Rows of ``plan`` that change, with their waves (``frames.plan``)."""
    key = ["topic", "partition"]
    proposed = records[records["kind"] == "proposal"][[*key, "replicas"]]
    moves = records[records["kind"] == "move"].groupby(key)["reason"].agg(lambda found: sorted(set(found)))
    rows = partitions.rename(columns={"replicas": "current_replicas"})
    rows = rows.merge(proposed.rename(columns={"replicas": "proposed_replicas"}), on=key)
    reasons = [moves.get((row.topic, row.partition), ["leader"]) for row in rows.itertuples()]
    pairs = list(zip(rows["current_replicas"], rows["proposed_replicas"], strict=True))
    rows = rows.assign(
        reason_codes=pd.Series(reasons, dtype=object),
        adding_replicas=pd.Series([sorted(set(new) - set(old)) for old, new in pairs]),
        removing_replicas=pd.Series([sorted(set(old) - set(new)) for old, new in pairs]),
        in_sync_followers=[len(set(isr)) - 1 for isr in rows["isr"]],
        wave=None,
    )
    return schedule_cluster(rows, _with_disk_used(partitions, hosts), settings=settings)


def _with_disk_used(partitions: pd.DataFrame, hosts: pd.DataFrame) -> pd.DataFrame:
    held = partitions.explode("replicas").groupby("replicas")["size_bytes"].sum()
    return hosts.assign(disk_used_bytes=[int(held.get(broker, 0)) for broker in hosts["broker_id"]])


def _filled(cls: type[R], rows: Iterable[Mapping[str, Any]]) -> list[R]:
    """Rows for the documents of Kafka's tools, which read no other columns: null."""
    nothing = dict.fromkeys(field.name for field in fields(cls))
    return cls.of(nothing | dict(row) for row in rows)


def _documents(changed: pd.DataFrame, hosts: pd.DataFrame, settings: Settings) -> list[Document]:
    """What Kafka's tools would be given; nothing where a change has no wave, which the plan stage refuses."""
    if changed.empty or changed["wave"].isna().any():
        return []
    numbers = sorted({int(wave) for wave in changed["wave"]})
    plan = ClusterPlan(
        cluster_id=CLUSTER,
        run_id="fuzz",
        throttle_style=settings.emit.throttle_style,
        plan_log_dirs=False,
        copy_bytes_per_s=copy_bytes_per_s(settings),
        changed=_filled(PlanRow, _rows(changed)),
        waves=_filled(WaveRow, [{"wave": number} for number in numbers]),
        brokers=_filled(BrokerRow, _rows(hosts)),
        moves=(),
        throttles=(),
        balance=(),
        summary=(),
        bounds=(),
        findings=(),
        quality=(),
    )
    return list(kafka_documents(plan))
