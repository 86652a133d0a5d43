"""The tables ``rack_flow``, ``broker_waves`` and ``dir_balance``: one pandas function makes the rows of a cluster."""

from functools import partial

import pandas as pd
from pyspark.sql import DataFrame

from optimizer.planning.flow_rows import flow_rows
from optimizer.settings import Settings
from optimizer.stages.plan.table_pair import rows_of_all, schema_of_all, split
from schemas.keys import CLUSTER_RUN
from schemas.output import BROKER_WAVES, DIR_BALANCE, RACK_FLOW

_TABLES = (RACK_FLOW, BROKER_WAVES, DIR_BALANCE)
_ALL = schema_of_all(_TABLES)


def flow_tables(scheduled: DataFrame, hosts: DataFrame, settings: Settings) -> dict[str, DataFrame]:
    """The frames of all tables by name; they are computed once.

    Parameters
    ----------
    scheduled : DataFrame
        Changed rows of ``compare_lists`` with waves.
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``disk_used_bytes``.
    """
    by_cluster = scheduled.groupBy("cluster_id").cogroup(hosts.groupBy("cluster_id"))
    rows = by_cluster.applyInPandas(partial(_rows, settings=settings), _ALL).persist()
    return split(rows, _TABLES)


def _rows(scheduled: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    frames = flow_rows(scheduled, hosts, settings=settings)
    common = {name: hosts[name].iloc[0] for name in CLUSTER_RUN} if frames else {}
    return rows_of_all(frames, _ALL.names, **common)
