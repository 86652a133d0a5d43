"""A finished run of one small cluster, without Spark: its facts, and a warehouse with its tables."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

import schemas
from asking.options import variant_parser
from asking.question import Question, question_of
from asking.run_facts import RunFacts
from benchmarks.rows import partition_row, row
from optimizer.configuration import merge
from optimizer.planning.in_memory import plan_in_memory, records
from optimizer.planning.policy.all_rules import instance_of
from optimizer.planning.policy.partitions import DECIDED
from optimizer.planning.policy.topic_mosts import COLUMNS as MOSTS
from optimizer.shipped import defaults
from stored.tables import Warehouse

CLUSTER, RUN = "orders", "night-1"
GB = 10**9
DISK = 1000 * GB
CAPTURED_AT = datetime(2026, 11, 1, 2, tzinfo=UTC)
Row = dict[str, Any]
KEY = {"cluster_id": CLUSTER, "run_id": RUN}


def broker(broker_id: int, rack: str | None = "a", **values: Any) -> Row:
    """A broker as the facts have it: alive, with replicas and one disk."""
    defaults_ = {
        **{"state": "alive", "closed_cause": None, "closed_reason": None, "holds": True, "log_dirs": None},
        **{"disk_capacity_bytes": DISK, "in_capacity_bytes_per_s": None, "out_capacity_bytes_per_s": None},
        "skips_tiered": None,
    }
    return {"broker_id": broker_id, "rack": rack, **defaults_, **values}


def partition(topic: str, number: int, replicas: Sequence[int], *, configs: str | None = None, **values: Any) -> Row:
    """A partition as the facts have it: led by its first replica, all in sync, 40 GB."""
    load = {"size_bytes": 40 * GB, "in_bytes_per_s": 1_000_000, "out_bytes_per_s": 3_000_000}
    full = partition_row(replicas, topic=topic, partition=number, **{**load, **values})
    return {**{name: value for name, value in full.items() if name not in (*DECIDED, *MOSTS)}, "configs": configs}


# Two brokers in each of three racks. Broker 6 holds little, so a plan copies something.
BROKERS = tuple(broker(number, "aabbcc"[number - 1]) for number in range(1, 7))
PARTITIONS = (
    *(partition("clicks", number, [1, 3, 5]) for number in range(4)),
    *(partition("clicks", number, [2, 4, 5]) for number in range(4, 7)),
    *(partition("audit", number, [3, 1, 6], size_bytes=20 * GB) for number in range(2)),
)


def make_facts(
    brokers: Sequence[Row] = BROKERS,
    partitions: Sequence[Row] = PARTITIONS,
    *,
    cluster: Mapping[str, Any] | None = None,
    run_id: str = RUN,
    captured_at: datetime = CAPTURED_AT,
    **content: Mapping[str, Any],
) -> RunFacts:
    """Facts about the cluster.

    Parameters
    ----------
    cluster : mapping, optional
        More of the cluster's own table, or another name.
    content : mappings
        Settings of the run by section.
    """
    clusters = [{"id": CLUSTER, "input": "/", **(cluster or {})}]
    return RunFacts(
        cluster_id=clusters[0]["id"],
        run_id=run_id,
        content=merge(merge(defaults(), {"clusters": clusters}), content),
        partitions=_frame(partitions).drop(columns=["cluster_id", "run_id"]),
        brokers=_frame(brokers),
        captured_at=captured_at,
    )


def _frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Rows as a frame; whole numbers stay exact where values are missing, as in frames from tables."""
    columns = {name: [each[name] for each in rows] for name in rows[0]}
    return pd.DataFrame({name: pd.Series(x, dtype=object if None in x else None) for name, x in columns.items()})


def asked(*words: str, name: str = "") -> Question:
    """The question of a command line."""
    return question_of(variant_parser().parse_args(words), name)


def write_run(folder: Path, facts: RunFacts, *, verdict: str = "planned", attempt: int = 1) -> Warehouse:
    """A warehouse with the run of these facts, as a job writes it."""
    warehouse = Warehouse(str(folder))
    tables = _rows(facts)
    for name in ("instance", "brokers", "instance_brokers", "topics", "replicas", "sources", "runs"):
        warehouse.append(name, tables[name])
    for name in ("plan_summary", "waves", "broker_balance", "findings", "exposure", "plan"):
        warehouse.append(name, tables[name])
    add_verdict(warehouse, facts.run_id, verdict=verdict, attempt=attempt, cluster_id=facts.cluster_id)
    return warehouse


def add_verdict(warehouse: Warehouse, run_id: str, *, verdict: str = "planned", attempt: int = 1, **of: Any) -> None:
    """Store the verdict of an attempt."""
    done = verdict in ("planned", "nothing_to_do")
    key = {**KEY, "run_id": run_id, "exit_code": 0 if done else 3}
    warehouse.append("verdicts", [row("verdicts", **{**key, "attempt": attempt, "verdict": verdict, **of})])


def _rows(facts: RunFacts) -> dict[str, list[Row]]:
    """The rows of the tables that a question reads."""
    key = {"cluster_id": facts.cluster_id, "run_id": facts.run_id}
    instance, hosts = instance_of(facts.partitions, facts.brokers, facts.settings, facts.cluster_id)
    hosts = hosts.assign(run_id=facts.run_id)
    plan = plan_in_memory(instance, hosts, facts.settings, captured_at=facts.captured_at)
    topics = facts.partitions.drop_duplicates("topic")[["topic", "configs"]]
    replicas = [
        {"topic": one["topic"], "partition": one["partition"], "position": position, "broker_id": b}
        for one in records(facts.partitions)
        for position, b in enumerate(one["replicas"])
    ]
    content = {**facts.content, "clusters": list(facts.content["clusters"])}
    frames = {
        **{"instance": records(instance), "instance_brokers": records(hosts), "brokers": records(facts.brokers)},
        **{"topics": records(topics), "replicas": replicas},
        "sources": [{"source": "describe.txt", "captured_at": facts.captured_at, "records": 9, "has_state": True}],
        **{name: records(plan.tables[name]) for name in ("waves", "findings", "exposure")},
        "broker_balance": records(plan.tables["measured"]),
        "plan": records(plan.tables["compared"]),
        "plan_summary": [
            {**each, "position": position} for position, each in enumerate(records(plan.tables["plan_summary"]))
        ],
    }
    texts = {"stage": "solve", "code_version": "test", "config_hash": "", "config_json": json.dumps(content)}
    runs = {"runs": [{**key, **texts, "reads": {}, "writes": {}, "fingerprints": {}}]}
    return runs | {name: [_row(name, {**each, **key}) for each in rows] for name, rows in frames.items()}


def _row(table: str, values: Row) -> Row:
    """A row of a table; columns that it lacks are left out."""
    names = schemas.ALL[table].names
    return row(table, **{name: value for name, value in values.items() if name in names})
