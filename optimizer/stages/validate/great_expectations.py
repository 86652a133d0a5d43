"""Great Expectations: suites over judged rows, and a result for every expectation."""

import os
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.settings import Settings
from optimizer.stages.validate.judge import Judged
from optimizer.stages.validate.quality_figures import FigureLimit, figures
from optimizer.stages.validate.rule import Rule, Stops
from optimizer.units import plural

# Only counts: the rows are in quarantine.
_COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0}


class Allowed(NamedTuple):
    """The least share of rows that must meet a rule, or the largest share that may break it; also in words."""

    share: float
    is_least: bool
    words: str

    @property
    def mostly(self) -> float:
        """Share of rows that must meet the rule: the parameter of Great Expectations."""
        return self.share if self.is_least else 1 - self.share


def allowed(rule: Rule, settings: Settings) -> Allowed:
    """The share of rows that must meet a rule, or may break it."""
    if rule.stops is Stops.SHARE:
        most = settings.quality.max_quarantined_share
        return Allowed(most, False, f"at most {most:.2%} of the rows")
    if rule.stops is Stops.COVERAGE:
        least = settings.metrics.min_coverage
        return Allowed(least, True, f"at least {least:.2%} of the rows")
    return Allowed(0.0, False, "no row")


def evaluate(
    judged: Sequence[Judged], measured: pd.DataFrame, *, clusters: Iterable[str], settings: Settings
) -> list[dict[str, Any]]:
    """Validate every cluster; rows of ``quality_results`` without run id.

    Parameters
    ----------
    measured : DataFrame
        One row for each cluster: cluster_id and a column for each of ``figures``.
    """
    flags = _flags(judged)
    figures_of = measured.set_index("cluster_id")
    context = _context()
    results: list[dict[str, Any]] = []
    for cluster in clusters:
        of_cluster = flags[flags["cluster_id"] == cluster]
        of_rules = [
            row
            for number, frame in enumerate(judged)
            for row in _rows_suite(
                context, f"{cluster} {number}", _repeated(of_cluster, number, frame), frame, settings
            )
        ]
        of_figures = _figures_suite(context, cluster, figures_of.loc[[cluster]], settings)
        results += [{"cluster_id": cluster, **row} for row in (*of_rules, *of_figures)]
    return results


def load() -> Any:
    """Import Great Expectations without its analytics. It takes seconds, so only the stage that needs it calls this."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations

    return great_expectations


def _context() -> Any:
    context = load().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return context


def _flags(judged: Sequence[Judged]) -> pd.DataFrame:
    """How many ``rows`` of each ``frame`` (its number) have which values of all ``ok_`` columns; null if a rule is not
    about the frame: rows of two frames are counted once. Of a million rows these are some hundred combinations."""
    names = [f"ok_{rule.name}" for frame in judged for rule in frame.rules]
    rows = reduce(DataFrame.unionByName, [_own_flags(frame, number, names) for number, frame in enumerate(judged)])
    counted = rows.groupBy("cluster_id", "frame", *names).agg(F.count(F.lit(1)).alias("rows")).toPandas()
    return counted.astype(dict.fromkeys(names, "boolean"))


def _own_flags(frame: Judged, number: int, names: Sequence[str]) -> DataFrame:
    own = {f"ok_{rule.name}" for rule in frame.rules}
    flags = (F.col(n) if n in own else F.lit(None).cast("boolean").alias(n) for n in names)
    return frame.rows.select("cluster_id", F.lit(number).alias("frame"), *flags)


def _repeated(flags: pd.DataFrame, number: int, frame: Judged) -> pd.DataFrame:
    """A row for each judged row of a frame, as Great Expectations counts them, with the frame's own flags: each
    expectation copies all columns."""
    of_frame = flags[flags["frame"] == number]
    own = of_frame[[f"ok_{rule.name}" for rule in frame.rules]]
    return own.loc[own.index.repeat(of_frame["rows"])]


def _rows_suite(
    context: Any, name: str, flags: pd.DataFrame, judged: Judged, settings: Settings
) -> list[dict[str, Any]]:
    from great_expectations import expectations as gxe

    rules = {rule.name: rule for rule in judged.rules}
    expectations = [
        gxe.ExpectColumnValuesToBeInSet(
            column=f"ok_{rule.name}",
            value_set=[True],
            mostly=allowed(rule, settings).mostly,
            severity=_severity(rule.stops is not Stops.NEVER),
            meta={"rule": rule.name},
        )
        for rule in judged.rules
    ]
    results = _validate(context.data_sources.add_pandas(f"rows of {name}"), flags, expectations)
    return [
        _row_result(result, judged.table, rules[result.expectation_config.meta["rule"]], settings) for result in results
    ]


def _row_result(result: Any, table: str, rule: Rule, settings: Settings) -> dict[str, Any]:
    judged_rows = result.result["element_count"] - result.result["missing_count"]
    broken, limit = result.result["unexpected_count"], allowed(rule, settings)
    return {
        "table_name": table,
        "expectation": result.expectation_config.type,
        "rule": rule.name,
        "severity": _severity(rule.stops is not Stops.NEVER),
        "success": bool(result.success),
        "observed": f"{broken} of {plural(judged_rows, 'row')}",
        "threshold": limit.words,
        "unexpected_count": int(broken),
        "judged_rows": int(judged_rows),
        "least": limit.share if limit.is_least else None,
        "most": None if limit.is_least else limit.share,
        "remedy": rule.remedy,
    }


def _figures_suite(context: Any, cluster: str, row: pd.DataFrame, settings: Settings) -> list[dict[str, Any]]:
    from great_expectations import expectations as gxe

    limits = {figure.name: figure for figure in figures(settings, int(row["partitions"].iloc[0]))}
    expectations = [
        gxe.ExpectColumnValuesToBeBetween(
            column=figure.name,
            min_value=figure.least,
            max_value=figure.most,
            severity=_severity(figure.stops),
            meta={"rule": figure.name},
        )
        for figure in limits.values()
    ]
    results = _validate(context.data_sources.add_pandas(f"figures of {cluster}"), row, expectations)
    return [_figure_result(result, limits[result.expectation_config.meta["rule"]], row) for result in results]


def _figure_result(result: Any, figure: FigureLimit, row: pd.DataFrame) -> dict[str, Any]:
    value = row[figure.name].iloc[0]
    return {
        "table_name": figure.table,
        "expectation": result.expectation_config.type,
        "rule": figure.name,
        "severity": _severity(figure.stops),
        "success": bool(result.success),
        "observed": "not judged" if pd.isna(value) else f"{value:.6g}" if isinstance(value, float) else str(value),
        "threshold": figure.threshold,
        "unexpected_count": int(result.result["unexpected_count"]),
        "judged_rows": 0 if pd.isna(value) else None,
        "least": figure.least,
        "most": figure.most,
        "remedy": figure.remedy,
    }


def _severity(stops: bool) -> str:
    return "critical" if stops else "warning"


def _validate(source: Any, frame: Any, expectations: list[Any]) -> Any:
    import great_expectations as gx

    batches = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("whole")
    suite = gx.ExpectationSuite(name=source.name, expectations=expectations)
    return batches.get_batch({"dataframe": frame}).validate(suite, result_format=_COUNTS).results
