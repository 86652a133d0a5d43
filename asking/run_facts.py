"""What a finished run knows about one cluster: the facts that a question may change, and the run's own answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd

from execution.planned import Refused, check_planned, last_verdicts, unknown_name, verdicts_by_cluster
from execution.tables import Warehouse
from optimizer.configuration import build, merge
from optimizer.errors import ConfigError, StageError
from optimizer.planning.policy import brokers as broker_rules
from optimizer.planning.policy import partitions as partition_rules
from optimizer.planning.policy import topic_mosts
from optimizer.settings import Settings
from optimizer.shipped import defaults
from schemas.planning import INSTANCE
from schemas.verdicts import WITH_PLAN

_SET_BY_RULES = (*partition_rules.DECIDED, *topic_mosts.COLUMNS)
_FACTS = tuple(name for name in INSTANCE.names if name not in _SET_BY_RULES)
_CAPACITIES = ("disk_capacity_bytes", "in_capacity_bytes_per_s", "out_capacity_bytes_per_s")
_ANSWERED = ("plan_summary", "waves", "broker_balance", "exposure")


@dataclass(frozen=True)
class RunFacts:
    """Facts about one cluster.

    Parameters
    ----------
    cluster_id, run_id : str
    content : mapping
        The run's settings, merged with the defaults; ``clusters`` has this cluster alone.
    partitions : DataFrame
        Columns of ``instance`` that no policy sets, and ``configs`` of the topic.
    brokers : DataFrame
        ``broker_rules.FACTS`` with capacities and ``log_dirs``.
    captured_at : datetime or None
        Oldest capture of its sources.
    solve_seconds : float
        CPU time of all shards in the run.
    consumer_groups, consumer_members : sequence of mapping
        Rows of these tables; empty if no source is about consumers.
    """

    cluster_id: str
    run_id: str
    content: Mapping[str, Any]
    partitions: pd.DataFrame
    brokers: pd.DataFrame
    captured_at: datetime | None
    solve_seconds: float = 0.0
    consumer_groups: Sequence[Mapping[str, Any]] = ()
    consumer_members: Sequence[Mapping[str, Any]] = ()

    @property
    def settings(self) -> Settings:
        """The run's settings for this cluster."""
        return build(self.content)


@dataclass(frozen=True)
class _Rows:
    """The rows of one cluster and run."""

    warehouse: Warehouse
    cluster_id: str
    run_id: str

    def frame(self, table: str, *columns: str) -> pd.DataFrame:
        """Columns of a table, all by default; whole numbers stay exact where values are missing."""
        rows = self.warehouse.table(table, columns=columns, cluster_id=self.cluster_id, run_id=self.run_id)
        return rows.to_pandas(integer_object_nulls=True)


def last_run(warehouse: Warehouse, cluster_id: str) -> str:
    """The run whose plan for this cluster was stored last.

    Raises
    ------
    StageError
        When no run has planned the cluster.
    """
    verdicts = last_verdicts(warehouse.required_rows("verdicts"))
    clusters = {row["cluster_id"] for row in verdicts}
    if cluster_id not in clusters:
        raise unknown_name(warehouse.path, "cluster", cluster_id, clusters, "./ballast show lists the runs of all")
    planned = {row["run_id"] for row in verdicts if row["cluster_id"] == cluster_id and row["verdict"] in WITH_PLAN}
    times = warehouse.written_at("verdicts", (row["run_id"] for row in verdicts))
    timed = sorted((times[run_id], run_id) for run_id in planned if run_id in times)
    if not timed and len(planned) != 1:
        remedy = f"./ballast show --cluster {cluster_id} lists them; name one with --run-id ID"
        raise StageError(f"{warehouse.path} does not show which run of {cluster_id!r} planned last; {remedy}")
    return timed[-1][1] if timed else planned.pop()


def read_facts(warehouse: Warehouse, cluster_id: str, run_id: str) -> RunFacts:
    """Read the facts of a run.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    Refused
        When the run has no plan for the cluster.
    """
    verdict = verdicts_by_cluster(warehouse, run_id, cluster_id)[cluster_id]
    check_planned(verdict, reason=verdict["reason"])
    rows = _Rows(warehouse, cluster_id, run_id)
    topics, instance = rows.frame("topics", "topic", "configs"), rows.frame("instance")
    for name, frame in {"instance": instance, "topics": topics}.items():
        _check_rows(frame, name, cluster_id, run_id)
    partitions = instance[list(_FACTS)].merge(topics, on="topic", how="left", validate="many_to_one")
    captured = rows.frame("sources", "captured_at")["captured_at"].dropna()
    return RunFacts(
        cluster_id=cluster_id,
        run_id=run_id,
        content=_content(warehouse, cluster_id, run_id),
        partitions=partitions.sort_values(["topic", "partition"], kind="stable").reset_index(drop=True),
        brokers=_brokers(rows),
        captured_at=captured.min().to_pydatetime() if len(captured) else None,
        solve_seconds=float(rows.frame("shard_results", "cpu_seconds")["cpu_seconds"].sum()),
        consumer_groups=warehouse.rows("consumer_groups", cluster_id=cluster_id, run_id=run_id),
        consumer_members=warehouse.rows("consumer_members", cluster_id=cluster_id, run_id=run_id),
    )


def stored_answer(warehouse: Warehouse, facts: RunFacts) -> dict[str, pd.DataFrame]:
    """The tables of the run's own plan that the figures of an answer come from."""
    rows = _Rows(warehouse, facts.cluster_id, facts.run_id)
    tables = {name: rows.frame(name) for name in _ANSWERED}
    for name in ("plan_summary", "broker_balance"):
        _check_rows(tables[name], name, facts.cluster_id, facts.run_id)
    return tables


def _check_rows(frame: pd.DataFrame, table: str, cluster_id: str, run_id: str) -> None:
    if frame.empty:
        raise Refused(f"run {run_id!r} has no rows of {cluster_id!r} in table {table} any more: plan again")


def _content(warehouse: Warehouse, cluster_id: str, run_id: str) -> dict[str, Any]:
    rows = [row for row in warehouse.rows("runs", run_id=run_id) if row["stage"] == "solve"]
    if not rows:
        raise Refused(f"table runs has no stage solve of run {run_id!r}: plan again")
    content = merge(defaults(), json.loads(rows[-1]["config_json"]))
    clusters = [{**table, "input": "/"} for table in content["clusters"] if table["id"] == cluster_id]
    if not clusters:
        raise ConfigError(f"the settings of run {run_id!r} do not name cluster {cluster_id!r}: plan again")
    return {**content, "clusters": clusters}


def _brokers(rows: _Rows) -> pd.DataFrame:
    columns = [name for name in broker_rules.FACTS if name != "holds"]
    dirs = rows.frame("instance_brokers", "broker_id", "log_dirs")
    facts, replicas = rows.frame("brokers", *columns, *_CAPACITIES), rows.frame("replicas", "broker_id")
    for name, frame in {"brokers": facts, "replicas": replicas}.items():
        _check_rows(frame, name, rows.cluster_id, rows.run_id)
    brokers = facts.merge(dirs, on="broker_id", how="left", validate="1:1")
    holding = replicas["broker_id"].unique()
    return brokers.assign(holds=brokers["broker_id"].isin(holding)).sort_values("broker_id").reset_index(drop=True)
