"""The tables ``exposure`` and ``wave_findings``: one pandas function for each cluster makes the rows of both."""

from collections.abc import Mapping

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from optimizer.kafka.versions import needs_whole_min_isr
from optimizer.planning.arrays import with_nulls
from optimizer.planning.exposed import COLUMNS, exposure_rows
from optimizer.settings import Settings
from schemas.keys import CLUSTER_RUN
from schemas.output import EXPOSURE, WAVE_FINDINGS
from schemas.spark import schema_of
from schemas.table import Table

_TABLES = (EXPOSURE, WAVE_FINDINGS)
_TABLE = "table_name"
# Rows of both tables: the columns of one are null in rows of the other.
_BOTH = T.StructType(
    [
        T.StructField(_TABLE, T.StringType()),
        *(T.StructField(name, T.StringType()) for name in CLUSTER_RUN),
        *(
            T.StructField(field.name, field.dataType)
            for table in _TABLES
            for field in schema_of(table)
            if field.name not in CLUSTER_RUN
        ),
    ]
)


def exposure_tables(partitions: DataFrame, hosts: DataFrame, settings: Settings) -> dict[str, DataFrame]:
    """The frames of both tables by name; they are computed once.

    Parameters
    ----------
    partitions : DataFrame
        All partitions, with ``optimizer.planning.exposed.COLUMNS``.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    """
    versions = {cluster.id: cluster.kafka_version for cluster in settings.clusters}

    def of_cluster(rows: pd.DataFrame, brokers: pd.DataFrame) -> pd.DataFrame:
        return _rows(rows, brokers, versions)

    by_cluster = partitions.select(*CLUSTER_RUN, *COLUMNS).groupBy("cluster_id")
    both = by_cluster.cogroup(hosts.groupBy("cluster_id")).applyInPandas(of_cluster, _BOTH).persist()
    return {table.name: _select(both, table) for table in _TABLES}


def _rows(partitions: pd.DataFrame, hosts: pd.DataFrame, versions: Mapping[str, str]) -> pd.DataFrame:
    if partitions.empty or hosts.empty:
        return pd.DataFrame(columns=_BOTH.fieldNames())
    cluster_id = hosts["cluster_id"].iloc[0]
    frames = exposure_rows(partitions, hosts, needs_whole_min_isr=needs_whole_min_isr(versions.get(cluster_id, "")))
    tagged = [frame.assign(**{_TABLE: table.name}) for table, frame in zip(_TABLES, frames, strict=True)]
    whole = pd.concat([frame for frame in tagged if len(frame)]).reindex(columns=_BOTH.fieldNames())
    return with_nulls(whole.assign(cluster_id=cluster_id, run_id=hosts["run_id"].iloc[0]))


def _select(both: DataFrame, table: Table) -> DataFrame:
    return both.filter(F.col(_TABLE) == table.name).select(*table.names)
