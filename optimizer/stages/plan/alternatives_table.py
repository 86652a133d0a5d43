"""The table ``alternatives``: small clusters are planned again with other bands and limits, one Spark task each."""

from datetime import UTC, datetime
from functools import partial

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.planning.alternatives import alternative_rows
from optimizer.settings import Settings
from schemas.keys import CLUSTER_RUN
from schemas.output import ALTERNATIVES
from schemas.planning import INSTANCE
from schemas.spark import schema_of


def alternatives_table(compared: DataFrame, hosts: DataFrame, settings: Settings) -> DataFrame:
    """Rows of ``alternatives`` of the clusters with at most ``[solver] alternatives_brokers`` brokers.

    Parameters
    ----------
    compared : DataFrame
        Rows of ``compare_lists`` with ``with_totals``: the columns of ``instance`` and the bytes that are copied.
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``captured_at``.
    """
    counts = hosts.groupBy("cluster_id").count()
    small = counts.filter(F.col("count") <= settings.solver.alternatives_brokers).select("cluster_id")
    chosen = compared.withColumnRenamed("current_replicas", "replicas").select(*INSTANCE.names, "moved_bytes")
    by_cluster = chosen.join(F.broadcast(small), "cluster_id", "left_semi").groupBy("cluster_id")
    return by_cluster.cogroup(hosts.groupBy("cluster_id")).applyInPandas(
        partial(_rows, settings=settings), schema_of(ALTERNATIVES)
    )


def _rows(instance: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    if instance.empty or hosts.empty:
        return pd.DataFrame(columns=list(ALTERNATIVES.names))
    seconds = hosts["captured_at"].iloc[0]
    captured = None if pd.isna(seconds) else datetime.fromtimestamp(int(seconds), UTC)
    moved = float(instance["moved_bytes"].sum())
    rows = alternative_rows(instance, hosts, settings, moved_bytes=moved, captured_at=captured)
    common = {name: hosts[name].iloc[0] for name in CLUSTER_RUN}
    return pd.DataFrame(rows).assign(**common)[list(ALTERNATIVES.names)]
