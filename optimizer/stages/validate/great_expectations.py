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

    Great Expectations takes milliseconds for an expectation, even about no rows. So of a fleet, clusters with equal
    counts of rows that meet a rule, break it, and are not judged share one evaluation.

    Parameters
    ----------
    measured : DataFrame
        One row for each cluster: cluster_id and a column for each of ``figures``.
    """
    flags = _flags(judged)
    figures_of = measured.set_index("cluster_id")
    batches = _batches()
    results: list[dict[str, Any]] = []
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    for cluster in clusters:
        of_cluster = flags[flags["cluster_id"] == cluster]
        for number, frame in enumerate(judged):
            of_frame = of_cluster[of_cluster["frame"] == number]
            rules = {_counted(of_frame, number, rule): rule for rule in frame.rules}
            new = [key for key in rules if key not in known]
            found = _rows_suite(batches, of_frame, frame.table, [rules[key] for key in new], settings)
            known |= dict(zip(new, found, strict=True))
            results += [{"cluster_id": cluster, **known[key]} for key in rules]
        row = figures_of.loc[[cluster]]
        valued = [_valued(row, figure) for figure in figures(settings, int(row["partitions"].iloc[0]))]
        unseen = [key for key in valued if key not in known]
        found = _figures_suite(batches, row, [figure for figure, _ in unseen])
        known |= dict(zip(unseen, found, strict=True))
        results += [{"cluster_id": cluster, **known[key]} for key in valued]
    return results


def load() -> Any:
    """Import Great Expectations without its analytics. It takes seconds, so only the stage that needs it calls this."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations

    return great_expectations


def _batches() -> Any:
    """Makes a batch of any pandas frame."""
    context = load().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_pandas("judged")
    return source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("whole")


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


def _counted(flags: pd.DataFrame, number: int, rule: Rule) -> tuple[int, str, int, int, int]:
    """What the result of a rule depends on: how many rows of the frame meet it and break it, and all rows."""
    rows = flags.groupby(f"ok_{rule.name}", dropna=False)["rows"].sum()
    return number, rule.name, rows.get(True, 0), rows.get(False, 0), rows.sum()


def _valued(row: pd.DataFrame, figure: FigureLimit) -> tuple[FigureLimit, Any]:
    """What the result of a figure depends on: its limits, and its value; None if it is unknown."""
    value = row[figure.name].iloc[0]
    return figure, None if pd.isna(value) else value


def _rows_suite(
    batches: Any, flags: pd.DataFrame, table: str, rules: Sequence[Rule], settings: Settings
) -> list[dict[str, Any]]:
    """The results of these rules, in their order. Great Expectations gets a row for each judged row of the frame, and
    no other columns: each expectation copies all."""
    from great_expectations import expectations as gxe

    expectations = [
        gxe.ExpectColumnValuesToBeInSet(
            column=f"ok_{rule.name}",
            value_set=[True],
            mostly=allowed(rule, settings).mostly,
            severity=_severity(rule.stops is not Stops.NEVER),
            meta={"rule": rule.name},
        )
        for rule in rules
    ]
    repeated = flags.loc[flags.index.repeat(flags["rows"]), [f"ok_{rule.name}" for rule in rules]]
    results = _validate(batches, repeated, expectations)
    return [_row_result(results[rule.name], table, rule, settings) for rule in rules]


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


def _figures_suite(batches: Any, row: pd.DataFrame, limits: Sequence[FigureLimit]) -> list[dict[str, Any]]:
    """The results of these figures, in their order."""
    from great_expectations import expectations as gxe

    expectations = [
        gxe.ExpectColumnValuesToBeBetween(
            column=figure.name,
            min_value=figure.least,
            max_value=figure.most,
            severity=_severity(figure.stops),
            meta={"rule": figure.name},
        )
        for figure in limits
    ]
    results = _validate(batches, row, expectations)
    return [_figure_result(results[figure.name], figure, row) for figure in limits]


def _figure_result(result: Any, figure: FigureLimit, row: pd.DataFrame) -> dict[str, Any]:
    _, value = _valued(row, figure)
    return {
        "table_name": figure.table,
        "expectation": result.expectation_config.type,
        "rule": figure.name,
        "severity": _severity(figure.stops),
        "success": bool(result.success),
        "observed": "not judged" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value),
        "threshold": figure.threshold,
        "unexpected_count": int(result.result["unexpected_count"]),
        "judged_rows": 0 if value is None else None,
        "least": figure.least,
        "most": figure.most,
        "remedy": figure.remedy,
    }


def _severity(stops: bool) -> str:
    return "critical" if stops else "warning"


def _validate(batches: Any, frame: Any, expectations: list[Any]) -> dict[str, Any]:
    """The result of each rule."""
    import great_expectations as gx

    if not expectations:
        return {}
    suite = gx.ExpectationSuite(name="suite", expectations=expectations)
    results = batches.get_batch({"dataframe": frame}).validate(suite, result_format=_COUNTS).results
    return {result.expectation_config.meta["rule"]: result for result in results}
