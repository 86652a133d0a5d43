"""Moves inside brokers: the table ``dir_moves``, and what they change in other tables."""

from functools import partial

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.planning.dir_move_rows import COLUMNS, Before, balances_dirs, dir_move_rows
from optimizer.planning.throttle_rows import COLUMNS as ENTRY_COLUMNS
from optimizer.settings import Settings
from optimizer.stages.plan.table_pair import rows_of_all, schema_of_all, split
from schemas.keys import CLUSTER_RUN
from schemas.output import DIR_BALANCE, DIR_MOVES, THROTTLES, WAVE_FINDINGS, WAVES
from schemas.spark import schema_of, small_frame

_TABLES = (DIR_MOVES, DIR_BALANCE, WAVES, THROTTLES, WAVE_FINDINGS)
_ALL = schema_of_all(_TABLES)
_DIR_COLUMNS = [name for name in DIR_BALANCE.names if name not in CLUSTER_RUN]
Frames = dict[str, DataFrame]


def dir_move_tables(
    partitions: DataFrame, hosts: DataFrame, frames: Frames, clusters: list[str], settings: Settings
) -> Frames:
    """``dir_moves``, and the other frames with the moves inside brokers.

    Parameters
    ----------
    partitions : DataFrame
        Rows of ``compare_lists``.
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``captured_at``.
    frames : mapping
        ``dir_balance``, ``waves``, ``throttles`` and ``wave_findings``, without moves inside brokers; ``throttles``
        also without previous values.
    clusters : list of str
        All clusters of the run.
    """
    chosen = [cluster for cluster in clusters if balances_dirs(settings, cluster)]
    if not chosen:
        return {**frames, "dir_moves": small_frame(hosts.sparkSession, [], schema_of(DIR_MOVES))}
    has_moves = F.col("cluster_id").isin(chosen)
    rows = partitions.filter(has_moves).select(*CLUSTER_RUN, *COLUMNS).groupBy("cluster_id")
    known = _with_balance(hosts.filter(has_moves), frames).groupBy("cluster_id")
    made = rows.cogroup(known).applyInPandas(partial(_rows, settings=settings), _ALL).persist()
    new = split(made, _TABLES)
    return {
        "dir_moves": new["dir_moves"],
        "dir_balance": frames["dir_balance"].filter(~has_moves).unionByName(new["dir_balance"]),
        "waves": frames["waves"].unionByName(new["waves"]),
        "throttles": frames["throttles"].unionByName(new["throttles"].select(*ENTRY_COLUMNS)),
        "wave_findings": frames["wave_findings"].unionByName(new["wave_findings"]),
    }


def _with_balance(hosts: DataFrame, frames: Frames) -> DataFrame:
    """The brokers with their rows of ``dir_balance``, and with the number and the end of the waves."""
    dirs = frames["dir_balance"].groupBy("cluster_id", "broker_id")
    listed = dirs.agg(F.collect_list(F.struct(*_DIR_COLUMNS)).alias("dir_rows"))
    waves = (
        frames["waves"]
        .groupBy("cluster_id")
        .agg(
            F.max("wave").alias("waves"),
            F.unix_seconds(F.max(F.coalesce("ends_at", "night_ends_at"))).alias("ends_at"),
        )
    )
    return hosts.join(listed, ["cluster_id", "broker_id"], "left").join(waves, "cluster_id", "left")


def _rows(partitions: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    listed = [rows for rows in hosts["dir_rows"] if rows is not None]
    if not listed:
        return pd.DataFrame(columns=_ALL.names)
    waves, ends_at, captured_at = (hosts[name].iloc[0] for name in ("waves", "ends_at", "captured_at"))
    times = (None if pd.isna(seconds) else int(seconds) for seconds in (ends_at, captured_at))
    before = Before(0 if pd.isna(waves) else int(waves), *times)
    dir_balance = [row.asDict() if hasattr(row, "asDict") else dict(row) for rows in listed for row in rows]
    made = dir_move_rows(partitions, hosts, dir_balance, settings, before)
    common = {name: hosts[name].iloc[0] for name in CLUSTER_RUN}
    return rows_of_all({name: pd.DataFrame(rows) for name, rows in made.items()}, _ALL.names, **common)
