"""What a finished run knows about one cluster: the facts that a question may change, and the run's own answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd

from optimizer.configuration import build, merge, only_of
from optimizer.domain import FindingCode
from optimizer.errors import ConfigError
from optimizer.planning.policy import brokers as broker_rules
from optimizer.planning.policy import partitions as partition_rules
from optimizer.planning.policy import topic_mosts
from optimizer.settings import Settings
from optimizer.shipped import defaults
from schemas.planning import INSTANCE
from stored.runs import StoredRun
from stored.tables import Warehouse
from stored.verdicts import Refused

_SET_BY_RULES = (*partition_rules.DECIDED, *topic_mosts.COLUMNS)
SCALED_BY_SIZE = ("copy_bytes", "tiered_copy_bytes", "log_records")
_LAGS = ("lag_brokers", "lag_records")
_FACTS = tuple(name for name in INSTANCE.names if name not in _SET_BY_RULES)
_CAPACITIES = ("disk_capacity_bytes", "in_capacity_bytes_per_s", "out_capacity_bytes_per_s")


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
        ``broker_rules.FACTS`` with capacities, ``log_dirs`` and ``skips_tiered``.
    captured_at : datetime or None
        Oldest capture of its sources.
    solve_seconds : float
        CPU time of all shards in the run.
    consumer_groups, consumer_members : sequence of mapping
        Rows of these tables; empty if no source is about consumers.
    has_started : bool
        The cluster did not wait for ``start_at``; a run with ``only`` does not decide that.
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
    has_started: bool = True

    @property
    def settings(self) -> Settings:
        """The run's settings for this cluster."""
        return build(self.content)


def captured(facts: RunFacts) -> str:
    """When the cluster was as the run knows it, in words behind its name."""
    return f", snapshot of {facts.captured_at:%Y-%m-%d %H:%M} UTC" if facts.captured_at else ""


def read_facts(warehouse: Warehouse, cluster_id: str, run_id: str) -> RunFacts:
    """Read the facts of a run.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    Refused
        When the run has no plan for the cluster.
    """
    stored = StoredRun(warehouse, run_id, cluster_id).planned()
    instance, topics = stored.required_frame("instance"), stored.required_frame("topics", "topic", "configs")
    partitions = instance[list(_FACTS)].merge(topics, on="topic", how="left", validate="many_to_one")
    content, waits = _content(stored), stored.rows("findings", "code", code=FindingCode.WAITS_TO_START.value)
    return RunFacts(
        cluster_id=cluster_id,
        run_id=run_id,
        content=content,
        partitions=partitions.sort_values(["topic", "partition"], kind="stable").reset_index(drop=True),
        brokers=_brokers(stored),
        captured_at=next(iter(stored.captured_at), None),
        solve_seconds=float(stored.frame("shard_results", "cpu_seconds")["cpu_seconds"].sum()),
        consumer_groups=stored.rows("consumer_groups"),
        consumer_members=stored.rows("consumer_members"),
        has_started=not waits and not only_of(content, cluster_id),
    )


def stored_answer(warehouse: Warehouse, facts: RunFacts) -> dict[str, pd.DataFrame]:
    """The tables of the run's own plan that the figures of an answer come from."""
    stored = StoredRun(warehouse, facts.run_id, facts.cluster_id)
    tables = {name: stored.required_frame(name) for name in ("plan_summary", "broker_balance")}
    return tables | {name: stored.frame(name) for name in ("waves", "exposure")}


def resized(rows: pd.DataFrame, size_bytes: pd.Series) -> pd.DataFrame:
    """Partitions of other sizes; what is copied of them, and their records, change in proportion."""
    old = rows["size_bytes"].astype("Float64")
    factor = (size_bytes.astype("Float64") / old.mask(old == 0)).fillna(1.0)
    scaled = {name: (rows[name].astype("Float64") * factor).round().astype("Int64") for name in SCALED_BY_SIZE}
    return rows.assign(size_bytes=size_bytes.round().astype("int64"), **scaled)


def led(rows: pd.DataFrame, lists: Sequence[Sequence[int]]) -> pd.DataFrame:
    """Partitions with other replicas, all of them in sync; the first one leads."""
    columns = {
        "replicas": [list(ids) for ids in lists],
        "isr": [sorted(ids) for ids in lists],
        "log_dirs": [["any"] * len(ids) for ids in lists],
        **dict.fromkeys(("elr", "controller_replicas", "adding_replicas", *_LAGS), [None] * len(rows)),
    }
    objects = {name: pd.Series(values, rows.index, dtype=object) for name, values in columns.items()}
    return rows.assign(**objects, leader=pd.Series([ids[0] for ids in lists], rows.index, dtype="Int64"))


def _content(stored: StoredRun) -> dict[str, Any]:
    settings = stored.settings
    if settings is None:
        raise Refused(f"table runs has no stage solve of run {stored.run_id!r}: plan again")
    content = merge(defaults(), settings)
    clusters = [{**table, "input": "/"} for table in content["clusters"] if table["id"] == stored.cluster_id]
    if not clusters:
        raise ConfigError(
            f"the settings of run {stored.run_id!r} do not name cluster {stored.cluster_id!r}: plan again"
        )
    return {**content, "clusters": clusters}


def _brokers(stored: StoredRun) -> pd.DataFrame:
    columns = [name for name in broker_rules.FACTS if name != "holds"]
    facts = stored.required_frame("brokers", *columns, *_CAPACITIES)
    holding = stored.required_frame("replicas", "broker_id")["broker_id"].unique()
    dirs = stored.frame("instance_brokers", "broker_id", "log_dirs", "skips_tiered")
    brokers = facts.merge(dirs, on="broker_id", how="left", validate="1:1")
    return brokers.assign(holds=brokers["broker_id"].isin(holding)).sort_values("broker_id").reset_index(drop=True)
