"""Data-quality rules: each is a SQL expression that is true for a good row (``rule_table`` has the rules).

The rules of a frame become ``ok_<rule>`` columns in one pass. These columns split the rows into used and quarantined
ones (``quarantine``), and Great Expectations expects them to be true (``great_expectations``).

The *severity* of a rule decides about the row: ``error`` rows are not used; ``warning`` rows are used, or can be left
out without harm. *Stops* decides about the run:

==========  =========================================================================================
stops       the run is refused (exit code 3) when
==========  =========================================================================================
any         one row breaks the rule: the place of every replica must be certain
share       more than ``[quality] max_quarantined_share`` of the rows break the rule
coverage    less than ``[metrics] min_coverage`` of the rows meet the rule
never       never: broken rows are only reported
==========  =========================================================================================

A figure of the whole cluster may count broken rows and also stop the run (``quality_figures``).

*Standing* decides how a run that continues reports the broken rows (table ``input_findings``). Pages show contradicting
sources (*contradicts*), ignored rows (*left_out*) and broken parts of the cluster (*broken*) above the figures, and
*noted* rows below them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


class Severity(StrEnum):
    """Whether a row that breaks a rule is used (warning) or not (error)."""

    ERROR = "error"
    WARNING = "warning"


class Stops(Enum):
    """When a rule refuses the run; see the module's docstring."""

    ANY = auto()
    SHARE = auto()
    COVERAGE = auto()
    NEVER = auto()


class Standing(StrEnum):
    """How a run that continues reports broken rows."""

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
        Describes a good row; unique over all frames.
    ok : str
        SQL condition of a good row; null counts as broken.
    severity : Severity
    stops : Stops
    reason : str
        SQL for the message: what is wrong, with the value.
    remedy : str
        What to do, as plain text.
    listed : bool
        Whether broken rows are listed in ``quarantine``.
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
    """Add ``ok_<rule>`` for every rule; null for rows outside ``where``, to which the rules do not apply."""
    judged = F.lit(True) if where is None else where
    return frame.withColumns(
        {f"ok_{rule.name}": F.when(judged, F.coalesce(F.expr(rule.ok), F.lit(False))) for rule in rules}
    )


def is_usable(rules: Sequence[Rule]) -> Column:
    """Whether a flagged row meets every rule of severity error."""
    flags = [F.col(f"ok_{rule.name}") for rule in rules if rule.severity is Severity.ERROR]
    return reduce(Column.__and__, flags, F.lit(True))


def quarantined(frame: DataFrame, rules: Sequence[Rule]) -> DataFrame:
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
