"""What a run that goes on tells of its input: rows set aside, rules that failed, figures outside their limits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.settings import Settings
from optimizer.stages.validate.judge import Judged
from optimizer.stages.validate.quality_figures import figures
from optimizer.stages.validate.rule import Severity, Standing
from optimizer.units import agree, human_percent
from sources.record import ALLOWED_FILE, TOOL_ERROR

_SILENT = frozenset({"rates_known"})  # told by the figure of its coverage, with bytes
# Of rules that parsers name: a broker that a tool got no answer of is in the list all the same; files that may stay
# unread, and configs or columns that can't be read, are left out.
_OF_PARSERS = {
    (TOOL_ERROR, Severity.WARNING): Standing.BROKEN,
    (ALLOWED_FILE, Severity.WARNING): Standing.LEFT_OUT,
    ("readable", Severity.WARNING): Standing.LEFT_OUT,
}
_BY_SEVERITY = {Severity.ERROR: Standing.LEFT_OUT, Severity.WARNING: Standing.NOTED}

Row = Mapping[str, Any]


def summed_up(
    quarantine: DataFrame,
    results: Sequence[Row],
    measured: Iterable[Row],
    *,
    judged: Sequence[Judged],
    settings: Settings,
) -> Iterator[dict[str, Any]]:
    """Rows of ``input_findings`` without run id.

    Parameters
    ----------
    quarantine : DataFrame
    results : sequence of rows
        Of ``quality_results``.
    measured : iterable of rows
        One a cluster, with a value for each of ``quality.figures``.
    """
    standings = {rule.name: rule.standing for one in judged for rule in one.rules if rule.standing}
    for aside in _aside(quarantine):
        if aside["rule"] not in _SILENT:
            of_parser = _OF_PARSERS.get((aside["rule"], aside["severity"]))
            standing = standings.get(aside["rule"]) or of_parser or _BY_SEVERITY[aside["severity"]]
            yield {**aside, "standing": standing, "subject": _place(aside["source"], aside["line"])}
    failed = {(row["cluster_id"], row["rule"]) for row in results if not row["success"]}
    for row in measured:
        for figure in figures(settings, row["partitions"]):
            if (row["cluster_id"], figure.name) in failed and figure.told:
                yield {
                    "cluster_id": row["cluster_id"],
                    "rule": figure.name,
                    "standing": figure.standing,
                    "subject": row["cluster_id"],
                    "detail": figure.told + (f" ({row[figure.example]})" if figure.example else ""),
                    "remedy": figure.remedy,
                    "rows": 1,
                }
        yield from _missing_rates(row)
        yield from _estimated_rates(row)


def _place(source: str, line: int) -> str:
    return f"{source}:{line}" if line else source


def _aside(quarantine: DataFrame) -> Iterator[dict[str, Any]]:
    """One row a cluster, rule and severity, with the first of the rows that it stands for."""
    place = ("source", "line", "reason", "remedy")
    grouped = quarantine.groupBy("cluster_id", "rule", "severity").agg(
        F.count(F.lit(1)).alias("rows"), F.min(F.struct(*place)).alias("first")
    )
    for row in grouped.orderBy("cluster_id", "rule", "severity").collect():
        first = row["first"].asDict()
        yield {
            "cluster_id": row.cluster_id,
            "rule": row.rule,
            "severity": row.severity,
            "rows": row.rows,
            "detail": first.pop("reason"),
            **first,
        }


def _missing_rates(row: Row) -> Iterator[dict[str, Any]]:
    """Rates of some partitions but not of others: those count as idle, and the plan treats them so."""
    readable = row["partitions"] - row["lost_partitions"]
    missing = readable - row["partitions_with_rates"]
    if not 0 < missing < readable:
        return
    idle = agree(missing, "has no rates: it counts as idle", "have no rates: they count as idle")
    bytes_missing = human_percent(100 * (1 - row["rate_coverage_by_bytes"]))
    yield {
        "cluster_id": row["cluster_id"],
        "rule": "rates_known",
        "standing": Standing.LEFT_OUT,
        "subject": row["cluster_id"],
        "detail": f"{missing:,} of {readable:,} partitions, with {bytes_missing} of the stored bytes, {idle}",
        "remedy": "export rates of all topics, or [metrics] rates_required = true to be refused",
        "rows": missing,
    }


def _estimated_rates(row: Row) -> Iterator[dict[str, Any]]:
    """Rates that are known of whole topics alone."""
    estimated = row["partitions_with_estimates"]
    if not estimated:
        return
    have = agree(estimated, "has no rates of its own: it gets", "have no rates of their own: they get")
    yield {
        "cluster_id": row["cluster_id"],
        "rule": "rates_measured",
        "standing": Standing.NOTED,
        "subject": row["cluster_id"],
        "detail": f"{estimated:,} of {row['partitions']:,} partitions {have} the topic's rate by size, an estimate",
        "remedy": "for better leaders and network loads, export the rates of each partition",
        "rows": estimated,
    }
