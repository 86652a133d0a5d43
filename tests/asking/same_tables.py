"""Compares the tables that a question makes in memory with those that a job has stored."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

import schemas
from asking.noticing import consumer_tables
from asking.question import Question, facts_for, settings_for
from asking.run_facts import read_facts
from optimizer.planning.in_memory import plan_in_memory, records
from optimizer.planning.policy.all_rules import instance_of
from optimizer.planning.restarts import restarts_of
from stored.tables import Warehouse

OF_INSTANCE = ("instance", "instance_brokers")
OF_PLAN = (
    *("proposal", "moves", "leaders", "leader_bounds", "shard_results", "bounds", "curve", "findings", "plan"),
    *(
        "waves",
        "rack_flow",
        "broker_waves",
        "dir_balance",
        "dir_moves",
        "throttles",
        "broker_balance",
        "plan_summary",
        "exposure",
        "restart_batches",
        "wave_findings",
        "consumer_load",
        "consumer_impact",
    ),
)
# An answer has nothing about Kafka's default; labels and positions are for pages; previous values are of a live cluster
LEFT_OUT = {
    "plan": {"baseline_replicas"},
    "plan_summary": {"baseline", "label", "position"},
    "throttles": {"previous_value"},
}
OF_DEFAULT = ("times_default", "baseline_refused")
Row = Mapping[str, Any]
# The names of tables in memory that differ.
NAMES = {"plan": "compared", "broker_balance": "measured"}


def differences(
    warehouse: Warehouse,
    cluster_id: str,
    run_id: str,
    question: Question | None = None,
    planned: Warehouse | None = None,
) -> list[str]:
    """A line for each table that a question about a run answers otherwise; by default one without a change.

    Parameters
    ----------
    planned : Warehouse, optional
        With the tables that are compared, of a run with the same name; by default those of the run that is asked.
    """
    asked = question or Question()
    facts = read_facts(warehouse, cluster_id, run_id)
    settings, changed = settings_for(facts, asked), facts_for(facts, asked)
    instance, hosts = instance_of(changed.partitions, changed.brokers, settings, cluster_id)
    plan = plan_in_memory(instance, hosts.assign(run_id=run_id), settings, captured_at=facts.captured_at)
    of_consumers = {name: pd.DataFrame(rows, dtype=object) for name, rows in consumer_tables(changed, plan).items()}
    throttles = warehouse.rows("throttles_found", run_id=run_id, cluster_id=cluster_id)
    restarts = with_restarts(plan.tables, hosts, throttles)
    tables = {**plan.tables, **of_consumers, **restarts, "instance": instance, "instance_brokers": hosts}
    stored = {
        name: (planned or warehouse).rows(name, run_id=run_id, cluster_id=cluster_id)
        for name in (*OF_INSTANCE, *OF_PLAN)
    }
    return [*tables_that_differ(stored, tables)]


def with_restarts(
    tables: Mapping[str, pd.DataFrame], hosts: pd.DataFrame, throttles: Iterable[Row]
) -> dict[str, pd.DataFrame]:
    """Restart batches, and ``plan_summary`` with their figures."""
    found = restarts_of(tables["compared"], hosts, throttles=throttles)
    summary = pd.DataFrame([*records(tables["plan_summary"]), *found.figures()], dtype=object)
    return {"restart_batches": pd.DataFrame(found.rows(), dtype=object), "plan_summary": summary}


def tables_that_differ(stored: Mapping[str, Iterable[Row]], tables: Mapping[str, pd.DataFrame]) -> Iterable[str]:
    """A line for each stored table that differs, with a row of each."""
    for name, rows in stored.items():
        of_job = _lines(name, rows)
        frame = tables.get(NAMES.get(name, name), pd.DataFrame())
        in_memory = _lines(name, records(frame) if len(frame) else [])
        if of_job != in_memory:
            missing, new = sorted({*of_job} - {*in_memory}), sorted({*in_memory} - {*of_job})
            yield f"{name}: {len(missing)} rows differ: {missing[:1]} {new[:1]}"


def _lines(table: str, rows: Iterable[Row]) -> list[str]:
    contract = schemas.ALL[table]
    left_out = {*contract.volatile, "run_id", "cluster_id", *LEFT_OUT.get(table, ())}
    names = [name for name in contract.names if name not in left_out]
    kept = [r for r in rows if r.get("placement") != "baseline" and r.get("figure") not in OF_DEFAULT]
    return sorted(json.dumps({name: _plain(row[name]) for name in names}) for row in kept)


def _plain(value: Any) -> Any:
    """The value as JSON has it, without the differences of types that a table does not have."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value
