"""The table ``alternatives``: small clusters are planned again with other bands and limits, one Spark task each."""

from functools import partial

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.planning.alternatives import alternative_rows
from optimizer.planning.wave_rows import captured_at
from optimizer.settings import Settings
from schemas.keys import CLUSTER_RUN
from schemas.output import ALTERNATIVES
from schemas.spark import conform, schema_of


def alternatives_table(instance: DataFrame, hosts: DataFrame, moved: DataFrame, settings: Settings) -> DataFrame:
    """Rows of ``alternatives`` of the clusters with at most ``[solver] alternatives_brokers`` brokers.

    Parameters
    ----------
    instance : DataFrame
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``captured_at``.
    moved : DataFrame
        ``moved_bytes`` that the plan of each cluster copies.
    """
    counts = hosts.groupBy("cluster_id").count().filter(F.col("count") <= settings.solver.alternatives_brokers)
    small = F.broadcast(counts.select("cluster_id"))
    rows = hosts.join(small, "cluster_id", "left_semi").join(moved, "cluster_id").groupBy("cluster_id")
    partitions = instance.join(small, "cluster_id", "left_semi").groupBy("cluster_id")
    made = partitions.cogroup(rows).applyInPandas(partial(_rows, settings=settings), schema_of(ALTERNATIVES))
    return conform(made, ALTERNATIVES)


def _rows(instance: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    if instance.empty or hosts.empty:
        return pd.DataFrame(columns=list(ALTERNATIVES.names))
    moved = float(hosts["moved_bytes"].iloc[0])
    rows = alternative_rows(instance, hosts, settings, moved_bytes=moved, captured_at=captured_at(hosts))
    common = {name: hosts[name].iloc[0] for name in CLUSTER_RUN}
    return pd.DataFrame(rows).assign(**common)[list(ALTERNATIVES.names)]
