"""Findings about the input of a run that continues: quarantined rows, and figures outside their limits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.settings import Settings
from optimizer.stages.validate.judge import Judged
from optimizer.stages.validate.quality_figures import figures
from optimizer.stages.validate.rule import Severity, Standing
from optimizer.units import agree, first_of, human_percent
from sources.record import ALLOWED_FILE, TOOL_ERROR, UNREADABLE_FILE

_SILENT = frozenset({"rates_known"})  # ``_missing_rates`` reports it, with bytes
# Rules that parsers name. A failed tool shows a broken broker, which is still listed; allowed unread files, and
# unreadable configs or columns, are left out.
_OF_PARSERS = {
    (TOOL_ERROR, Severity.WARNING): Standing.BROKEN,
    (ALLOWED_FILE, Severity.WARNING): Standing.LEFT_OUT,
    ("readable", Severity.WARNING): Standing.LEFT_OUT,
}
_BY_SEVERITY = {Severity.ERROR: Standing.LEFT_OUT, Severity.WARNING: Standing.NOTED}

_FILES = 5  # files in a detail: more make a line too long to read

Row = Mapping[str, Any]


def input_findings(
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
        Rows of ``quality_results``.
    measured : iterable of rows
        One for each cluster, with a value for each of ``quality_figures.figures``.
    """
    standings = {rule.name: rule.standing for frame in judged for rule in frame.rules if rule.standing}
    for group in _quarantined_by_rule(quarantine):
        if group["rule"] not in _SILENT:
            of_parser = _OF_PARSERS.get((group["rule"], group["severity"]))
            standing = standings.get(group["rule"]) or of_parser or _BY_SEVERITY[group["severity"]]
            yield {**group, "standing": standing, "subject": _source_line(group["source"], group["line"])}
    failed = {(row["cluster_id"], row["rule"]) for row in results if not row["success"]}
    for row in measured:
        for figure in figures(settings, row["partitions"]):
            if (row["cluster_id"], figure.name) in failed and figure.message:
                yield {
                    "cluster_id": row["cluster_id"],
                    "rule": figure.name,
                    "standing": figure.standing,
                    "subject": row["cluster_id"],
                    "detail": figure.message.format(row[figure.example]) if figure.example else figure.message,
                    "remedy": figure.remedy,
                    "rows": 1,
                }
        yield from _missing_rates(row)
        yield from _estimated_rates(row)


def _source_line(source: str, line: int) -> str:
    return f"{source}:{line}" if line else source


def _quarantined_by_rule(quarantine: DataFrame) -> Iterator[dict[str, Any]]:
    """One row for each cluster, rule and severity: the number of quarantined rows, and the first of them."""
    example = F.struct("source", "line", "reason", "remedy")
    # Each unread file has its own remedy. Column ``reason`` also says what was expected, so take the parser's reason.
    parser_reason = F.get_json_object("payload", "$.reason").alias("reason")
    is_unread = (F.col("rule") == UNREADABLE_FILE) & (F.col("severity") == Severity.WARNING)
    of_file = F.when(is_unread, F.struct("source", "line", parser_reason, "remedy"))
    grouped = quarantine.groupBy("cluster_id", "rule", "severity").agg(
        F.count(F.lit(1)).alias("rows"),
        F.min(example).alias("first"),
        F.slice(F.array_sort(F.collect_set(of_file)), 1, _FILES).alias("files"),
    )
    for row in grouped.orderBy("cluster_id", "rule", "severity").collect():
        first = row["first"].asDict()
        reason = first.pop("reason")
        yield {
            "cluster_id": row.cluster_id,
            "rule": row.rule,
            "severity": row.severity,
            "rows": row.rows,
            "detail": _describe_files(row.files, row.rows) if row.files else reason,
            **first,
        }


def _describe_files(files: Sequence[Any], total: int) -> str:
    """The reason and the remedy of each file: pages do not show the remedy of a finding that is only noted."""
    descriptions = [f"{file.reason} ({file.remedy})" for file in files]
    return first_of(descriptions, len(descriptions), total=total, separator="; ")


def _missing_rates(row: Row) -> Iterator[dict[str, Any]]:
    """A finding if only some partitions have rates: the plan treats the others as idle."""
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
        "remedy": "export rates of all topics; to refuse such input, set [metrics] rates_required = true",
        "rows": missing,
    }


def _estimated_rates(row: Row) -> Iterator[dict[str, Any]]:
    """A finding if rates are known only for whole topics."""
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
        "remedy": "export the rates of each partition: leaders and network loads are then balanced better",
        "rows": estimated,
    }
