"""The quality page of each cluster: two queries, over all results and over the first quarantined rows of each check."""

from collections import defaultdict
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from optimizer.emit.quality_causes import FIGURES_OF_RULES, SHARE, UNREAD_RULES
from optimizer.emit.quality_page import EXAMPLES
from optimizer.emit.quality_rows import page_of
from optimizer.stages.stage import Frames
from optimizer.stages.validate.rule import Severity


def pages(frames: Frames, run_id: str) -> dict[str, str]:
    """The page of every cluster that has results."""
    results: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in frames["quality_results"].orderBy("cluster_id", "table_name", "rule").collect():
        results[row.cluster_id].append(row.asDict())
    examples: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in first_rows(frames["quarantine"]).collect():
        examples[row.cluster_id].append(row.asDict())
    return {
        cluster: page_of(rows, examples[cluster], cluster_id=cluster, run_id=run_id)
        for cluster, rows in results.items()
    }


def first_rows(quarantine: DataFrame) -> DataFrame:
    """The first rows of each check of each cluster; ``quality_rows.first_rows`` chooses the same rows without Spark.

    A row belongs to its own rule and to each figure that counts it. Figures of unread input have no rule with a result
    of its own, so such a row belongs to the figure alone.
    """
    rule, is_error = F.col("rule"), F.col("severity") == Severity.ERROR
    unread = {name: figure for figure, name in UNREAD_RULES.items()}
    own = F.coalesce(F.when(is_error, _looked_up(unread)), rule)
    checks = F.array_compact(F.array(own, _looked_up(FIGURES_OF_RULES), F.when(is_error, F.lit(SHARE))))
    of_check = Window.partitionBy("cluster_id", "check")
    order = of_check.orderBy("source", "line", "kind", "rule", "payload")
    numbers = {"number": F.row_number().over(order), "total": F.count("*").over(of_check)}
    ranked = quarantine.withColumn("check", F.explode(checks)).withColumns(numbers)
    first = ranked.where(F.col("number") <= EXAMPLES).orderBy("cluster_id", "check", "number")
    return first.select("cluster_id", "check", "total", "source", "line", "reason", "remedy")


def _looked_up(figures: dict[str, str]) -> Any:
    """The figure of a row's rule, or null."""
    pairs = F.create_map(*(F.lit(text) for pair in figures.items() for text in pair))
    return F.try_element_at(pairs, F.col("rule"))
