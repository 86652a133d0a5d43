"""The tables ``consumer_load`` and ``consumer_impact``: one pandas function makes the rows of a cluster."""

import json

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.planning.consumer_rows import COLUMNS, consumer_rows
from optimizer.stages.plan.table_pair import rows_of_all, schema_of_all, split
from optimizer.stages.shared.gathered import gather_rows
from optimizer.stages.stage import Frames
from schemas.consumers import CONSUMER_IMPACT, CONSUMER_LOAD
from schemas.keys import CLUSTER_RUN
from schemas.spark import conform, schema_of, small_frame

_TABLES = (CONSUMER_LOAD, CONSUMER_IMPACT)
_ALL = schema_of_all(_TABLES)
_FACTS = ("consumer_groups", "consumer_members", "brokers")


def consumer_tables(base: DataFrame, scheduled: DataFrame, inputs: Frames) -> dict[str, DataFrame]:
    """Both frames by name; without rows if no source is about consumers.

    Parameters
    ----------
    base : DataFrame
        Rows of ``compare_lists`` of all partitions.
    scheduled : DataFrame
        Changed rows of them with waves.
    inputs : mapping
        ``consumer_groups``, ``consumer_members`` and ``brokers``.
    """
    facts = {name: inputs[name] for name in _FACTS}
    groups = facts["consumer_groups"]
    if groups.isEmpty():
        spark = base.sparkSession
        return {table.name: small_frame(spark, [], schema_of(table)) for table in _TABLES}
    with_readers = F.broadcast(groups.select("cluster_id").distinct())
    unchanged = base.filter("NOT is_changed").select("cluster_id", *COLUMNS)
    lists = unchanged.unionByName(scheduled.select("cluster_id", *COLUMNS)).join(with_readers, "cluster_id", "semi")
    by_cluster = lists.groupBy("cluster_id").cogroup(gather_rows(facts).groupBy("cluster_id"))
    made = split(by_cluster.applyInPandas(_rows, _ALL).persist(), _TABLES)
    return {table.name: conform(made[table.name], table) for table in _TABLES}


def _rows(partitions: pd.DataFrame, facts: pd.DataFrame) -> pd.DataFrame:
    groups, members, brokers = (list(map(json.loads, facts.loc[facts["table"] == name, "row"])) for name in _FACTS)
    if not groups or partitions.empty:
        return pd.DataFrame(columns=_ALL.names)
    made = consumer_rows(partitions, groups, members, {row["broker_id"]: row["rack"] for row in brokers})
    common = {name: groups[0][name] for name in CLUSTER_RUN}
    return rows_of_all({name: pd.DataFrame(rows, dtype=object) for name, rows in made.items()}, _ALL.names, **common)
