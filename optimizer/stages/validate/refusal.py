"""What a person reads of data that can't be planned on: what was not read, then each cause, then what follows."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from optimizer.stages.validate import cross_rules, rule_table
from optimizer.stages.validate.quality_figures import FIGURES_OF_RULES, UNREAD_RULES
from optimizer.stages.validate.rule import Severity
from optimizer.units import agree, plural
from sources.detect import RULE as KNOWN_FORMAT_RULE

_EXAMPLES = 5  # rows of a rule in the message; the quarantine has them all
# What partitions lack that break these rules: one line of the message names the first of them.
_LACKING = {"size_known": "no size", "rates_known": "no rates"}
_NAMED = 20  # partitions in such a line; the quarantine has them all
# Lines and whole files that were not read; a file of an unknown kind is no error, but may be what is missing.
_UNREAD = f"kind = 'malformed' AND (severity = 'error' OR rule = '{KNOWN_FORMAT_RULE}')"
_SHARE = "quarantined_share"
# What is broken where a partition is set aside: it is missing then, and with it what else names it.
_OF_PLACEMENTS = frozenset(
    rule.name for rule in (*rule_table.PLACEMENTS, *rule_table.SNAPSHOTS) if rule.severity is Severity.ERROR
)
_OF_LOST_PARTITIONS = frozenset(
    {
        _SHARE,
        "all_partitions_described",
        "no_partition_missing",
        "load_of_known_partition",
        "metrics_of_known_partition",
        "undescribed_partitions",
        "misplaced_partitions",
        "partitions",
    }
)
# What may only be missing, because a file or the rest of one was not read.
_OF_UNREAD = _OF_LOST_PARTITIONS - {"misplaced_partitions"} | {
    "size_known",
    "rates_known",
    "size_coverage_by_rates",
    "rate_coverage_by_bytes",
    "undescribed_topics",
    "unlisted_is_silent",
    "rack_known",
}
# Rows that break these are set aside, and counted in the share.
_SET_ASIDE = frozenset(rule.name for rule in (*rule_table.RULES, *cross_rules.RULES) if rule.severity is Severity.ERROR)
Row = Mapping[str, Any]


def refusals(quarantine: DataFrame, failed: Sequence[Row], *, end: str) -> dict[str, str]:
    """The text of each cluster that is refused.

    Parameters
    ----------
    quarantine : DataFrame
    failed : sequence of rows
        Of ``quality_results``: critical ones that do not hold, by cluster, table and rule.
    end : str
        Where the rest is found.
    """
    rules: dict[str, list[Row]] = {}
    for row in failed:
        rules.setdefault(row["cluster_id"], []).append(row)
    of_refused = quarantine.where(F.col("cluster_id").isin(*rules))
    unread, examples = _unread(of_refused), _examples(of_refused) | _lacking(of_refused)
    texts = {}
    for cluster, rows in rules.items():
        following = following_of({row["rule"] for row in rows})
        causes = [row for row in rows if row["rule"] not in following]
        head = f"the data can't be planned on: {plural(len(causes), 'broken rule')}"
        told = [_told(row, examples.get((cluster, row["rule"]), [])) for row in causes]
        if following:
            told.append(f"- cluster {cluster}: may follow from this: {', '.join(sorted(following))}")
        texts[cluster] = "\n".join([head, *unread.get(cluster, []), *told, end])
    return texts


def following_of(broken: set[str]) -> set[str]:
    """Broken rules that may have no cause of their own: what is missing was not read, or was set aside."""
    not_read = broken & set(UNREAD_RULES)
    if not_read:
        return broken & _OF_UNREAD
    if broken & _OF_PLACEMENTS:
        return broken & _OF_LOST_PARTITIONS
    return broken & {_SHARE} if broken & _SET_ASIDE else set()


def _unread(quarantine: DataFrame) -> dict[str, list[str]]:
    """What no parser could read, the first places of each file: other rules may be broken because it is missing."""
    of_file = Window.partitionBy("cluster_id", "source")
    places = {"place": F.row_number().over(of_file.orderBy("line", "payload")), "places": F.count("*").over(of_file)}
    ranked = quarantine.where(_UNREAD).withColumns(places).where(F.col("place") <= _EXAMPLES)
    told: dict[str, list[str]] = {}
    rows = ranked.orderBy("cluster_id", "source", "place").collect()
    for (cluster, source, remedy), alike in groupby(rows, lambda row: (row.cluster_id, row.source, row.remedy)):
        lines = told.setdefault(cluster, [f"- cluster {cluster}: not read, and so missing in what follows"])
        found = [*alike]
        lines += [*(f"    {source}:{row.line}: {row.reason}" for row in found), f"        mend: {remedy}"]
        more = found[-1].places - _EXAMPLES
        if found[-1].place == _EXAMPLES and more:
            lines.append(f"    and {plural(more, 'more place')} of {source}")
    return told


def _lacking(quarantine: DataFrame) -> dict[tuple[str, str], list[str]]:
    """One line for each rule of what partitions lack: the names of the first, and how many more there are."""
    of_rule = Window.partitionBy("cluster_id", "rule")
    name = F.concat(F.get_json_object("payload", "$.topic"), F.lit("-"), F.get_json_object("payload", "$.partition"))
    order = of_rule.orderBy("source", "line", "payload")
    places = {"place": F.row_number().over(order), "places": F.count("*").over(of_rule), "name": name}
    ranked = quarantine.where(F.col("rule").isin(*_LACKING)).withColumns(places).where(F.col("place") <= _NAMED)
    told: dict[tuple[str, str], list[str]] = {}
    rows = ranked.orderBy("cluster_id", "rule", "place").collect()
    for (cluster, rule), lacking in groupby(rows, lambda row: (row.cluster_id, row.rule)):
        first = [*lacking]
        more, names = first[0].places - len(first), ", ".join(row.name for row in first)
        have = f"{agree(first[0].places, 'has', 'have')} {_LACKING[rule]}"
        told[cluster, rule] = [f"{names} and {more:,} more {have}" if more else f"{names} {have}"]
    return told


def _examples(quarantine: DataFrame) -> dict[tuple[str, str], list[str]]:
    """The first examples of each rule; of the rules that figures count, also under the figures' names.

    Errors of any rule, except those of ``_unread``, are also examples of the share set aside.
    """
    figure = F.create_map(*(F.lit(text) for pair in FIGURES_OF_RULES.items() for text in pair))
    counted = quarantine.where(F.col("rule").isin(*FIGURES_OF_RULES)).withColumn("rule", figure[F.col("rule")])
    errors = quarantine.where(f"severity = 'error' AND NOT ({_UNREAD})").withColumn("rule", F.lit(_SHARE))
    order = Window.partitionBy("cluster_id", "rule").orderBy("source", "line", "payload")
    rows = quarantine.unionByName(counted).unionByName(errors)
    ranked = rows.withColumn("place", F.row_number().over(order))
    found: dict[tuple[str, str], list[str]] = {}
    for row in ranked.where(F.col("place") <= _EXAMPLES).orderBy("cluster_id", "rule", "place").collect():
        found.setdefault((row.cluster_id, row.rule), []).append(f"{row.source}:{row.line}: {row.reason}")
    return found


def _told(row: Row, examples: Sequence[str]) -> str:
    head = f"- cluster {row['cluster_id']}, {row['rule']}: {row['observed']}, allowed {row['threshold']}"
    return "\n".join([head, *(f"    {example}" for example in examples), f"    mend: {row['remedy']}"])
