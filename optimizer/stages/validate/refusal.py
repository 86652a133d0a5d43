"""The message about input data that can't be used: unread input, then each cause, then possible consequences."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from optimizer.emit.quality_causes import FIGURES_OF_RULES, SHARE, consequences_of
from optimizer.units import agree, first_of, plural
from sources.detect import RULE as KNOWN_FORMAT_RULE

_EXAMPLES = 5  # rows of a rule in the message; the quarantine has them all
# Rules about what partitions lack: one line of the message names the first of these partitions.
_LACKING = {"size_known": "no size", "rates_known": "no rates"}
# Rules whose rows say why another rule is broken.
_CAUSES = {"size_known": ("holder_tells_of_directories",)}
_NAMED = 20  # partitions in such a line; the quarantine has them all
# Lines and files that were not read. A file of an unknown kind is only a warning, but may be the missing input.
_UNREAD = f"kind = 'malformed' AND (severity = 'error' OR rule = '{KNOWN_FORMAT_RULE}')"
Row = Mapping[str, Any]


def refusals(quarantine: DataFrame, failed: Sequence[Row], *, end: Callable[[str], str]) -> dict[str, str]:
    """The message of each refused cluster.

    Parameters
    ----------
    quarantine : DataFrame
    failed : sequence of rows
        Failed critical rows of ``quality_results``, by cluster, table and rule.
    end : callable
        ``end(cluster_id)`` is the last line of a message: where the details are.
    """
    rules: dict[str, list[Row]] = {}
    for row in failed:
        rules.setdefault(row["cluster_id"], []).append(row)
    of_refused = quarantine.where(F.col("cluster_id").isin(*rules))
    unread, examples = _unread(of_refused), _examples(of_refused) | _lacking(of_refused)
    texts = {}
    for cluster, rows in rules.items():
        consequences = consequences_of({row["rule"] for row in rows})
        causes = [row for row in rows if row["rule"] not in consequences]
        head = f"the data can't be used for planning: {plural(len(causes), 'broken rule')}"
        lines = []
        for row in causes:
            rules_of_row = [row["rule"], *_CAUSES.get(row["rule"], ())]
            shown = [example for rule in rules_of_row for example in examples.get((cluster, rule), [])]
            lines.append(_describe_cause(row, shown))
        if consequences:
            lines.append(f"- cluster {cluster}: these may be consequences: {', '.join(sorted(consequences))}")
        texts[cluster] = "\n".join([head, *unread.get(cluster, []), *lines, end(cluster)])
    return texts


def _unread(quarantine: DataFrame) -> dict[str, list[str]]:
    """Lines about unread input, with the first lines of each file. Other rules may be broken because it is missing."""
    of_file = Window.partitionBy("cluster_id", "source")
    numbers = {"number": F.row_number().over(of_file.orderBy("line", "payload")), "total": F.count("*").over(of_file)}
    ranked = quarantine.where(_UNREAD).withColumns(numbers).where(F.col("number") <= _EXAMPLES)
    messages: dict[str, list[str]] = {}
    rows = ranked.orderBy("cluster_id", "source", "number").collect()
    for (cluster, source, remedy), group in groupby(rows, lambda row: (row.cluster_id, row.source, row.remedy)):
        lines = messages.setdefault(
            cluster, [f"- cluster {cluster}: not read; other rules may be broken because of it"]
        )
        same_remedy = [*group]
        lines += [*(f"    {source}:{row.line}: {row.reason}" for row in same_remedy), f"        fix: {remedy}"]
        more = same_remedy[-1].total - _EXAMPLES
        if same_remedy[-1].number == _EXAMPLES and more:
            lines.append(f"    and {plural(more, 'more line')} of {source}")
    return messages


def _lacking(quarantine: DataFrame) -> dict[tuple[str, str], list[str]]:
    """One line for each rule of ``_LACKING``: the first partitions, and the number of the others."""
    of_rule = Window.partitionBy("cluster_id", "rule")
    name = F.concat(F.get_json_object("payload", "$.topic"), F.lit("-"), F.get_json_object("payload", "$.partition"))
    order = of_rule.orderBy("source", "line", "payload")
    numbers = {"number": F.row_number().over(order), "total": F.count("*").over(of_rule), "name": name}
    ranked = quarantine.where(F.col("rule").isin(*_LACKING)).withColumns(numbers).where(F.col("number") <= _NAMED)
    lines: dict[tuple[str, str], list[str]] = {}
    rows = ranked.orderBy("cluster_id", "rule", "number").collect()
    for (cluster, rule), group in groupby(rows, lambda row: (row.cluster_id, row.rule)):
        first = [*group]
        names = first_of((row.name for row in first), len(first), total=first[0].total)
        have = f"{agree(first[0].total, 'has', 'have')} {_LACKING[rule]}"
        lines[cluster, rule] = [f"{names} {have}"]
    return lines


def _examples(quarantine: DataFrame) -> dict[tuple[str, str], list[str]]:
    """The first examples of each rule, and of each figure that counts rows of a rule.

    Errors of any rule, except those of ``_unread``, are also examples of ``quarantined_share``.
    """
    figure = F.create_map(*(F.lit(text) for pair in FIGURES_OF_RULES.items() for text in pair))
    counted = quarantine.where(F.col("rule").isin(*FIGURES_OF_RULES)).withColumn("rule", figure[F.col("rule")])
    errors = quarantine.where(f"severity = 'error' AND NOT ({_UNREAD})").withColumn("rule", F.lit(SHARE))
    order = Window.partitionBy("cluster_id", "rule").orderBy("source", "line", "payload")
    rows = quarantine.unionByName(counted).unionByName(errors)
    ranked = rows.withColumn("number", F.row_number().over(order))
    examples: dict[tuple[str, str], list[str]] = {}
    for row in ranked.where(F.col("number") <= _EXAMPLES).orderBy("cluster_id", "rule", "number").collect():
        examples.setdefault((row.cluster_id, row.rule), []).append(f"{row.source}:{row.line}: {row.reason}")
    return examples


def _describe_cause(row: Row, examples: Sequence[str]) -> str:
    head = f"- cluster {row['cluster_id']}, {row['rule']}: {row['observed']}, allowed {row['threshold']}"
    return "\n".join([head, *(f"    {example}" for example in examples), f"    fix: {row['remedy']}"])
