"""The tables of a plan: one Spark task for each cluster calls what a question calls, too."""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial, reduce
from operator import itemgetter
from typing import Any

import pandas as pd
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

import schemas
from optimizer.declared import DECLARED
from optimizer.domain import FindingCode
from optimizer.emit.figure_table import FIGURES
from optimizer.kafka.throttle import FOLLOWER_RATE
from optimizer.planning.compared_lists import DEFAULT
from optimizer.planning.consumer_rows import consumer_rows
from optimizer.planning.in_memory import records, tables_of_lists
from optimizer.planning.restarts import restarts_of
from optimizer.planning.wave_rows import captured_at
from optimizer.settings import Settings
from optimizer.stages.shared.gathered import gather_rows, rows_field, table_of
from optimizer.stages.shared.throttles_found import to_restore
from optimizer.stages.stage import Frames
from schemas.keys import CLUSTER_RUN, PARTITION
from schemas.output import ALTERNATIVES, BROKER_BALANCE, PLAN, RESTART_BATCHES
from schemas.spark import compute_once, conform, nullable_struct_of

_LOG = logging.getLogger(__name__)
_SMALL = [schemas.ALL[name] for name in DECLARED["plan"].writes if name not in (PLAN.name, ALTERNATIVES.name)]
# Of each cluster the rows of ``plan``, and one row without a topic that has the rows of all other tables.
_ROWS = T.StructType([*nullable_struct_of(PLAN.columns), *map(rows_field, _SMALL)])
_LABELS = {figure.name: figure.label for figure in FIGURES}
_READ_FINDINGS = (FindingCode.UNEXPLAINED.value, FindingCode.WAITS_TO_START.value)
Rows = list[dict[str, Any]]
Facts = Mapping[str, Rows]


def cluster_tables(inputs: Frames, hosts: DataFrame, settings: Settings) -> dict[str, DataFrame]:
    """All tables of the stage but ``alternatives``, computed.

    A cluster whose task fails has no rows, not even in ``broker_balance``.

    Parameters
    ----------
    inputs : mapping
        Tables that the stage reads.
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``captured_at``, seconds of Unix time of the oldest capture.
    """
    lists, facts = _lists(inputs), gather_rows(_facts(inputs, hosts))

    def made(chosen: Column) -> DataFrame:
        grouped = (frame.where(chosen).groupBy("cluster_id") for frame in (lists, facts))
        return next(grouped).cogroup(next(grouped)).applyInPandas(partial(_rows, settings=settings), _ROWS)

    stored = computed(made, hosts)
    small = stored.where("topic IS NULL")
    plan = conform(stored.where("topic IS NOT NULL"), PLAN)
    return {PLAN.name: plan, **{table.name: table_of(small, table) for table in _SMALL}}


def computed(made: Callable[[Column], DataFrame], hosts: DataFrame) -> DataFrame:
    """The rows of all clusters whose tasks end: if one dies, as if its machine has no memory left, each is tried alone.

    Parameters
    ----------
    made : callable
        The rows of the clusters for which a condition is true.
    hosts : DataFrame
        The brokers of all clusters.
    """
    try:
        return compute_once(made(F.lit(True)))
    except (PySparkException, Py4JJavaError) as error:
        if not _has_died(error):
            raise
    _LOG.warning("stage plan: a task has died; each cluster is planned alone")
    ended = [made(F.lit(False))]
    for (cluster,) in hosts.select("cluster_id").distinct().orderBy("cluster_id").collect():
        try:
            ended.append(compute_once(made(F.col("cluster_id") == cluster)))
        except (PySparkException, Py4JJavaError) as error:
            if not _has_died(error):
                raise
            _LOG.error("stage plan: the task of cluster %s has died", cluster)
    return reduce(DataFrame.unionByName, ended)


def _has_died(error: Exception) -> bool:
    """Whether a Python process had too little memory, or the system has killed it; any other error is ours."""
    signs = ("MemoryError", "Python worker exited unexpectedly")
    return any(sign in str(error) for sign in signs)


def _lists(inputs: Frames) -> DataFrame:
    """Rows for ``compare_lists``."""
    default = inputs["baseline"].select(*PARTITION, *(F.col(old).alias(new) for old, new in DEFAULT.items()))
    reasons = inputs["moves"].groupBy(*PARTITION).agg(F.array_sort(F.collect_set("reason")).alias("move_reasons"))
    proposed = inputs["proposal"].select(*PARTITION, F.col("replicas").alias("proposed_replicas"))
    rows = inputs["instance"].withColumnRenamed("replicas", "current_replicas")
    return reduce(lambda joined, part: joined.join(part, PARTITION, "left"), (default, proposed, reasons), rows)


def _facts(inputs: Frames, hosts: DataFrame) -> dict[str, DataFrame]:
    """Small tables that a task needs besides."""
    names = ("bounds", "leader_bounds", "brokers", "consumer_groups", "consumer_members")
    return {
        **{name: inputs[name] for name in names},
        "hosts": hosts,
        "findings": inputs["findings"].where(F.col("code").isin(*_READ_FINDINGS)),
        "throttles_found": to_restore(inputs["throttles_found"]),
        "follower_rates": inputs["throttles_found"].where(F.col("config_name") == FOLLOWER_RATE),
    }


def _rows(lists: pd.DataFrame, gathered: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    """Rows of ``_ROWS`` of one cluster."""
    facts: dict[str, Rows] = defaultdict(list)
    for name, row in zip(gathered["table"], gathered["row"], strict=True):
        facts[name].append(json.loads(row))
    if not facts["hosts"]:
        return pd.DataFrame(columns=_ROWS.names)
    hosts = pd.DataFrame(facts["hosts"], dtype=object).astype({"broker_id": "int64"})
    solved = {
        "findings": pd.DataFrame(facts["findings"], columns=["code"]),
        **{name: pd.DataFrame(facts[name]) for name in ("bounds", "leader_bounds")},
    }
    tables = tables_of_lists(lists, hosts, solved, settings, captured_at=captured_at(hosts))
    small = {name: records(frame) for name, frame in tables.items() if name != "compared"}
    small |= {BROKER_BALANCE.name: small.pop("measured")} | _of_consumers(tables["compared"], facts)
    small |= {"throttles": with_previous(small["throttles"], facts["throttles_found"])}
    restarts = restarts_of(tables["compared"], hosts, throttles=facts["follower_rates"])
    small |= {RESTART_BATCHES.name: restarts.rows(), "plan_summary": [*small["plan_summary"], *restarts.figures()]}
    small |= {"plan_summary": [*map(_labelled, small["plan_summary"])]}
    last = {name: hosts[name].iloc[0] for name in CLUSTER_RUN}
    rows = pd.DataFrame({name: _and(tables["compared"][name], last.get(name)) for name in PLAN.names})
    for table in _SMALL:
        rows[table.name] = _and(pd.Series([None] * (len(rows) - 1), dtype=object), small.get(table.name, []))
    return rows


def _and(column: pd.Series, last: object) -> pd.Series:
    """The values and one more; whole numbers and booleans may be followed by a missing one."""
    nullable: dict[str, Any] = {"i": "Int64", "b": "boolean"}
    values = column.astype(nullable.get(column.dtype.kind, object))
    return pd.concat([values, pd.Series([last], dtype=values.dtype)], ignore_index=True)


def _of_consumers(compared: pd.DataFrame, facts: Facts) -> dict[str, Rows]:
    groups, members = facts["consumer_groups"], facts["consumer_members"]
    if not groups or compared.empty:
        return {}
    return consumer_rows(compared, groups, members, {row["broker_id"]: row["rack"] for row in facts["brokers"]})


def with_previous(throttles: Rows, found: Rows) -> Rows:
    """Throttle entries of a plan with the value that was set before; null if there was none."""
    key = itemgetter("entity_type", "entity_name", "config_name")
    values = {key(row): row["config_value"] for row in found}
    return [{**row, "previous_value": values.get(key(row))} for row in throttles]


def _labelled(figure: Mapping[str, Any]) -> dict[str, Any]:
    name = figure["figure"]
    return {**figure, "position": 1 + list(_LABELS).index(name), "label": _LABELS[name]}
