"""The tables ``rack_flow`` and ``broker_waves``: one pandas function for each cluster makes the rows of both."""

from functools import partial

import pandas as pd
from pyspark.sql import DataFrame

from optimizer.planning.flow_rows import flow_rows
from optimizer.settings import Settings
from optimizer.stages.plan.table_pair import rows_of_all, schema_of_all, split
from schemas.keys import CLUSTER_RUN
from schemas.output import BROKER_WAVES, RACK_FLOW

_TABLES = (RACK_FLOW, BROKER_WAVES)
_BOTH = schema_of_all(_TABLES)


def flow_tables(scheduled: DataFrame, hosts: DataFrame, settings: Settings) -> dict[str, DataFrame]:
    """The frames of both tables by name; they are computed once.

    Parameters
    ----------
    scheduled : DataFrame
        Changed rows of ``compare_lists`` with waves.
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``disk_used_bytes``.
    """
    by_cluster = scheduled.groupBy("cluster_id").cogroup(hosts.groupBy("cluster_id"))
    both = by_cluster.applyInPandas(partial(_rows, settings=settings), _BOTH).persist()
    return split(both, _TABLES)


def _rows(scheduled: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    frames = flow_rows(scheduled, hosts, settings=settings)
    common = {name: hosts[name].iloc[0] for name in CLUSTER_RUN} if frames else {}
    return rows_of_all(frames, _BOTH.names, **common)
