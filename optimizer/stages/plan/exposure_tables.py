"""The tables ``exposure`` and ``wave_findings``: one pandas function for each cluster makes the rows of both."""

from collections.abc import Mapping

import pandas as pd
from pyspark.sql import DataFrame

from optimizer.kafka.versions import needs_whole_min_isr
from optimizer.planning.exposed import COLUMNS, exposure_rows
from optimizer.settings import Settings
from optimizer.stages.plan.table_pair import rows_of_all, schema_of_all, split
from schemas.keys import CLUSTER_RUN
from schemas.output import EXPOSURE, WAVE_FINDINGS

_TABLES = (EXPOSURE, WAVE_FINDINGS)
_BOTH = schema_of_all(_TABLES)


def exposure_tables(partitions: DataFrame, hosts: DataFrame, settings: Settings) -> dict[str, DataFrame]:
    """The frames of both tables by name; they are computed once.

    Parameters
    ----------
    partitions : DataFrame
        All partitions, with ``optimizer.planning.exposed.COLUMNS``.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    """
    versions = settings.kafka_versions()

    def of_cluster(rows: pd.DataFrame, brokers: pd.DataFrame) -> pd.DataFrame:
        return _rows(rows, brokers, versions)

    by_cluster = partitions.select(*CLUSTER_RUN, *COLUMNS).groupBy("cluster_id")
    both = by_cluster.cogroup(hosts.groupBy("cluster_id")).applyInPandas(of_cluster, _BOTH).persist()
    return split(both, _TABLES)


def _rows(partitions: pd.DataFrame, hosts: pd.DataFrame, versions: Mapping[str, str]) -> pd.DataFrame:
    if partitions.empty or hosts.empty:
        return rows_of_all({}, _BOTH.names)
    cluster_id, run_id = (hosts[name].iloc[0] for name in CLUSTER_RUN)
    frames = exposure_rows(partitions, hosts, needs_whole_min_isr=needs_whole_min_isr(versions.get(cluster_id, "")))
    names = [table.name for table in _TABLES]
    return rows_of_all(dict(zip(names, frames, strict=True)), _BOTH.names, cluster_id=cluster_id, run_id=run_id)
