"""The table ``plan_summary``: its inputs are small, so the driver computes it."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.domain import FindingCode
from optimizer.emit.figure_table import FIGURES
from optimizer.planning.summary_rows import summary_rows
from optimizer.stages.stage import Frames
from schemas.output import PLAN_SUMMARY
from schemas.spark import nullable_struct_of, small_frame

_INPUTS = ("measured", "bounds", "leader_bounds", "waves", "exposure")
_LABELS = {figure.name: figure.label for figure in FIGURES}
_POSITIONS = {figure.name: position for position, figure in enumerate(FIGURES, start=1)}
Rows = list[dict[str, Any]]


def summary_table(totals: DataFrame, frames: Frames) -> DataFrame:
    """Rows of ``plan_summary`` of every cluster.

    Parameters
    ----------
    totals : DataFrame
        ``compared_lists.TOTALS`` of each cluster.
    frames : mapping
        ``measured`` (rows of ``balance_rows.COLUMNS``), ``bounds``, ``leader_bounds``, ``waves``, ``exposure`` and
        ``findings``.
    """
    unexplained = frames["findings"].filter(F.col("code") == FindingCode.UNEXPLAINED.value).groupBy("cluster_id")
    counts = {row.cluster_id: row["count"] for row in unexplained.count().collect()}
    inputs = {name: _by_cluster(frames[name]) for name in _INPUTS}
    rows: Rows = []
    for row in sorted(_records(totals), key=lambda row: str(row["cluster_id"])):
        cluster_id = row["cluster_id"]
        of_cluster = {name: by_cluster.get(cluster_id, []) for name, by_cluster in inputs.items()}
        figures = summary_rows(row, **of_cluster, unexplained=counts.get(cluster_id, 0))
        rows += [{"cluster_id": cluster_id, "run_id": row["run_id"], **_named(figure)} for figure in figures]
    ordered = [{name: row[name] for name in PLAN_SUMMARY.names} for row in rows]
    return small_frame(totals.sparkSession, ordered, nullable_struct_of(PLAN_SUMMARY.columns))


def _named(figure: Mapping[str, Any]) -> dict[str, Any]:
    name = figure["figure"]
    return {**figure, "position": _POSITIONS[name], "label": _LABELS[name]}


def _records(frame: DataFrame) -> Rows:
    return [row.asDict() for row in frame.collect()]


def _by_cluster(frame: DataFrame) -> dict[str, Rows]:
    rows: dict[str, Rows] = {}
    for row in _records(frame):
        rows.setdefault(row["cluster_id"], []).append(row)
    return rows
