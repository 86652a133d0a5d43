"""Data-quality rules: each a SQL expression that holds for a good row (their table: ``rule_table``).

The rules of a frame become ``ok_<rule>`` columns in one pass. The same columns split the rows into used and set aside
(``quarantine``) and are what Great Expectations expects to be true (``great_expectations``).

A rule's *severity* says what becomes of the row: ``error`` rows are not used, ``warning`` rows are (or are harmlessly
left out). *Stops* says what becomes of the run:

==========  =========================================================================================
stops       the run is refused (exit code 3) when
==========  =========================================================================================
any         one row breaks the rule: where every replica lies must be known for certain
share       more than ``[quality] max_quarantined_share`` of the rows break it
coverage    less than ``[metrics] min_coverage`` of the rows keep it
never       it is reported
==========  =========================================================================================

A figure of the whole cluster that counts rows that break a rule may also stop the run (``quality_figures``).

*Standing* says how a run that goes on tells of the rows that break a rule (table ``input_findings``). Pages show above
the figures where sources *contradict* each other, what was *left out*, and what is *broken*; below them, what is only
*noted*.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


class Severity(StrEnum):
    """What becomes of a row that breaks a rule."""

    ERROR = "error"
    WARNING = "warning"


class Stops(Enum):
    """What becomes of the run."""

    ANY = auto()
    SHARE = auto()
    COVERAGE = auto()
    NEVER = auto()


class Standing(StrEnum):
    """How a run that goes on reports it."""

    CONTRADICTS = "contradicts"
    LEFT_OUT = "left_out"
    BROKEN = "broken"
    NOTED = "noted"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule.

    Parameters
    ----------
    name : str
        What a good row is; unique over all frames.
    ok : str
        SQL; null counts as broken.
    severity : Severity
    stops : Stops
    reason, remedy : str
        SQL for what is wrong, with the value; what to do, in words.
    listed : bool
        Whether rows that break it are listed in ``quarantine``.
    standing : Standing, optional
        None: left_out for errors, noted for warnings.
    """

    name: str
    ok: str
    severity: Severity
    stops: Stops
    reason: str
    remedy: str
    listed: bool = True
    standing: Standing | None = None


def with_flags(frame: DataFrame, rules: Sequence[Rule], *, where: Column | None = None) -> DataFrame:
    """Add ``ok_<rule>`` for every rule; null for rows outside ``where``, which the rules do not judge."""
    judged = F.lit(True) if where is None else where
    return frame.withColumns(
        {f"ok_{rule.name}": F.when(judged, F.coalesce(F.expr(rule.ok), F.lit(False))) for rule in rules}
    )


def is_usable(rules: Sequence[Rule]) -> Column:
    """Whether a flagged row keeps every rule of severity error."""
    flags = [F.col(f"ok_{rule.name}") for rule in rules if rule.severity is Severity.ERROR]
    return reduce(Column.__and__, flags, F.lit(True))


def set_aside(frame: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Rows of ``quarantine``: one for every rule that a flagged row breaks."""
    broken = [
        F.when(
            ~F.col(f"ok_{rule.name}"),
            F.struct(
                F.lit(rule.name).alias("rule"),
                F.lit(rule.severity).alias("severity"),
                F.coalesce(F.expr(rule.reason), F.lit("a value is missing")).alias("reason"),
                F.lit(rule.remedy).alias("remedy"),
            ),
        )
        for rule in rules
        if rule.listed
    ]
    listed = frame.withColumn("broken", F.array_compact(F.array(*broken))).where(F.size("broken") > 0)
    return listed.select(
        "cluster_id", "run_id", "source", "line", "kind", "payload", F.explode("broken").alias("broken")
    ).select("cluster_id", "run_id", "source", "line", "kind", "broken.*", "payload")
