"""The table ``plan_summary``: its inputs are small, so the driver computes it."""

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.domain import FindingCode
from optimizer.emit.figure_table import FIGURES
from optimizer.planning.summary_rows import summary_rows
from optimizer.stages.stage import Frames
from schemas.keys import CLUSTER_RUN
from schemas.output import PLAN_SUMMARY
from schemas.spark import nullable_struct_of, small_frame

_LABELS = {figure.name: figure.label for figure in FIGURES}
Rows = list[dict[str, Any]]


def summary_table(totals: DataFrame, frames: Frames) -> DataFrame:
    """Rows of ``plan_summary`` of every cluster.

    Parameters
    ----------
    totals : DataFrame
        ``compared_lists.TOTALS`` of each cluster.
    frames : mapping
        ``measured`` (rows of ``balance_rows.COLUMNS``), ``bounds``, ``leader_bounds``, ``waves``, ``exposure``,
        ``dir_balance``, ``dir_moves`` and ``findings``.
    """
    names = ("measured", "bounds", "leader_bounds", "waves", "exposure", "dir_balance", "dir_moves")
    unexplained = frames["findings"].filter(F.col("code") == FindingCode.UNEXPLAINED.value).select(*CLUSTER_RUN)
    by_cluster = _collect({"totals": totals, "unexplained": unexplained, **{name: frames[name] for name in names}})
    rows: Rows = []
    for (cluster_id, run_id), tables in sorted(by_cluster.items()):
        [sums] = tables["totals"]
        figures = summary_rows(sums, **{name: tables[name] for name in names}, unexplained=len(tables["unexplained"]))
        rows += [{**_labelled(figure), "cluster_id": cluster_id, "run_id": run_id} for figure in figures]
    ordered = [{name: row[name] for name in PLAN_SUMMARY.names} for row in rows]
    return small_frame(totals.sparkSession, ordered, nullable_struct_of(PLAN_SUMMARY.columns))


def _labelled(figure: Mapping[str, Any]) -> dict[str, Any]:
    name = figure["figure"]
    return {**figure, "position": 1 + list(_LABELS).index(name), "label": _LABELS[name]}


def _collect(frames: Frames) -> dict[tuple[str, str], dict[str, Rows]]:
    """The rows of all frames by cluster and run, and by name, in one query: each row as JSON."""
    parts = (
        frame.select(
            *CLUSTER_RUN,
            F.lit(name).alias("name"),
            F.to_json(F.struct(*frame.columns), {"ignoreNullFields": "false"}).alias("content"),
        )
        for name, frame in frames.items()
    )
    tables: dict[tuple[str, str], dict[str, Rows]] = defaultdict(lambda: defaultdict(list))
    for row in reduce(DataFrame.unionByName, parts).collect():
        tables[row.cluster_id, row.run_id][row.name].append(json.loads(row.content))
    return tables
