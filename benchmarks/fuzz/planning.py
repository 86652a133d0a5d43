"""Plans a cluster in memory, from its rows to its documents, with the same steps as the stages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import pandas as pd

from benchmarks.fuzz.unusual_clusters import CLUSTER, Row, UnusualCluster
from optimizer.domain import Bands, Cluster, Floats, Ints
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.rows import BrokerRow, DirMoveRow, PlanRow, TableRow, WaveRow
from optimizer.planning.arrays import to_brokers
from optimizer.planning.dir_move_rows import Before, balances_dirs, dir_move_rows
from optimizer.planning.flow_rows import flow_rows
from optimizer.planning.in_memory import records
from optimizer.planning.memory_placement import in_memory
from optimizer.planning.wave_rows import schedule_cluster
from optimizer.schedule.throttle_rate import copy_rate_bytes_per_s
from optimizer.settings import Settings
from optimizer.solve import driver

R = TypeVar("R", bound=TableRow)


@dataclass(frozen=True)
class PlannedCluster:
    """A plan, its bound, findings and documents.

    Parameters
    ----------
    cluster : Cluster
    replicas : (P, W) int64
        Broker indices after the plan.
    bands : Bands
    scale : (D,) float64
    bound_bytes : int
    is_exact : bool
        Whether the plan claims that a bound is exact.
    findings, plan : rows
        Findings; rows of ``plan`` that change. A row without a wave has null.
    documents : by path
    """

    cluster: Cluster
    replicas: Ints
    bands: Bands
    scale: Floats
    bound_bytes: int
    is_exact: bool
    findings: tuple[Row, ...]
    plan: tuple[Row, ...]
    documents: Mapping[str, Document]


def plan_cluster(unusual: UnusualCluster) -> PlannedCluster:
    """Solve, schedule and write the documents."""
    settings = unusual.run_settings
    partitions, hosts = pd.DataFrame(unusual.partitions), pd.DataFrame(unusual.brokers)
    brokers = {CLUSTER: to_brokers(hosts)}
    solved = driver.solve(in_memory(partitions, brokers), settings)
    placed, cluster, tables = solved.placement.fleet[CLUSTER], solved.clusters[CLUSTER], solved.tables
    loaded = _with_load(partitions, hosts)
    changed = _scheduled(partitions, tables, loaded, settings)
    inside = _inside(partitions, changed, loaded, settings)
    best = max(solved.bounds.rows[CLUSTER], key=lambda row: row.bound_bytes)
    return PlannedCluster(
        cluster=Cluster(CLUSTER, cluster.brokers, placed.partitions),
        replicas=placed.current,
        bands=cluster.bands,
        scale=cluster.scale,
        bound_bytes=best.bound_bytes,
        is_exact=any(row.kind == "exact" for row in solved.bounds.rows[CLUSTER]),
        findings=tuple(_rows(tables["findings"])),
        plan=tuple(_rows(changed)),
        documents={document.path: document for document in _documents(changed, inside, hosts, settings)},
    )


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _scheduled(
    partitions: pd.DataFrame, tables: Mapping[str, pd.DataFrame], hosts: pd.DataFrame, settings: Settings
) -> pd.DataFrame:
    """Rows of ``plan`` that change, with their waves (as ``planning.in_memory`` makes them)."""
    key = ["topic", "partition"]
    proposed = tables["proposal"][[*key, "replicas"]]
    moves = tables["moves"].groupby(key)["reason"].agg(lambda codes: sorted(set(codes)))
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
        planned_log_dirs=None,
    )
    return schedule_cluster(rows, hosts, settings=settings)


def _inside(
    partitions: pd.DataFrame, changed: pd.DataFrame, hosts: pd.DataFrame, settings: Settings
) -> Mapping[str, list[dict[str, Any]]]:
    """Rows of the moves inside brokers (as ``planning.in_memory`` makes them); none if a change has no wave."""
    if changed["wave"].isna().any() or not balances_dirs(settings, CLUSTER):
        return {}
    flows = flow_rows(changed, hosts, settings=settings)
    if "dir_balance" not in flows:
        return {}
    named = {(row.topic, row.partition) for row in changed.itertuples()}
    is_changed = [key in named for key in zip(partitions["topic"], partitions["partition"], strict=True)]
    rows = partitions.rename(columns={"replicas": "current_replicas"}).assign(is_changed=is_changed)
    before = Before(int(changed["wave"].max()) if len(changed) else 0, None, None)
    return dir_move_rows(rows, hosts, records(flows["dir_balance"]), settings, before)


def _with_load(partitions: pd.DataFrame, hosts: pd.DataFrame) -> pd.DataFrame:
    used = partitions.explode("replicas").groupby("replicas")["size_bytes"].sum()
    disk_used = [int(used.get(broker, 0)) for broker in hosts["broker_id"]]
    return hosts.assign(disk_used_bytes=disk_used, in_used_bytes_per_s=0, out_used_bytes_per_s=0, captured_at=None)


def _filled(cls: type[R], rows: Iterable[Mapping[str, Any]]) -> list[R]:
    """Table rows; columns that Kafka's documents do not need are null."""
    nulls = dict.fromkeys(field.name for field in fields(cls))
    return cls.of(nulls | dict(row) for row in rows)


def _documents(
    changed: pd.DataFrame, inside: Mapping[str, list[dict[str, Any]]], hosts: pd.DataFrame, settings: Settings
) -> list[Document]:
    """The documents for Kafka's tools. None if a change has no wave: the plan stage would refuse the plan."""
    if changed["wave"].isna().any():
        return []
    waves = [{"wave": number} for number in sorted({int(wave) for wave in changed["wave"]})]
    plan = ClusterPlan(
        cluster_id=CLUSTER,
        run_id="fuzz",
        throttle_style=settings.emit.throttle_style,
        plan_log_dirs=False,
        copy_bytes_per_s=copy_rate_bytes_per_s(settings.schedule),
        changed=_filled(PlanRow, _rows(changed)),
        waves=_filled(WaveRow, [*waves, *inside.get("waves", [])]),
        dir_moves=_filled(DirMoveRow, inside.get("dir_moves", [])),
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
