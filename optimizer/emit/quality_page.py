"""The quality page of one cluster: each check of its input as failed, not judged or passed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.emit.pages import render
from optimizer.units import plural

EXAMPLES = 5  # rows of a check on the page: enough to see a pattern; table quarantine has them all
PAGE_BYTES = 100_000  # largest page, bytes: it must open at once, also from a ticket or a mail
# Examples of a check, and characters of an example's text. The page uses the first pair with which it is small enough.
_SIZES = ((EXAMPLES, 400), (EXAMPLES, 120), (2, 120), (0, 120))
_REMEDY = 400  # longest remedy, characters: those of the rules are shorter, those of parsers may name files
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """One check as the page shows it.

    Parameters
    ----------
    rule, table, threshold, remedy : str
        Texts of ``quality_results``. A rule without a result of its own has the remedy of its first row, and no table.
    observed : str
        Number of rows, or the value of a figure.
    stops : bool
        Whether a failure refuses the cluster.
    may_follow : bool
        Whether another failed check may be the cause.
    total : int
        Rows in ``quarantine``.
    examples : sequence of (str, str)
        Place and reason of the first of these rows.
    """

    rule: str
    table: str
    observed: str
    threshold: str
    remedy: str
    stops: bool = False
    may_follow: bool = False
    total: int = 0
    examples: Sequence[tuple[str, str]] = ()

    @property
    def more(self) -> int:
        """Rows that the page does not show."""
        return self.total - len(self.examples)


def quality_page(
    results: Sequence[Row],
    first_rows: Sequence[Row],
    *,
    cluster_id: str,
    run_id: str,
    consequences: Collection[str],
    figures_of_rules: Mapping[str, str],
) -> str:
    """The page, at most ``PAGE_BYTES`` long.

    Parameters
    ----------
    results : sequence of rows
        Rows of ``quality_results`` of the cluster, in the order of the page.
    first_rows : sequence of rows
        First rows of ``quarantine`` for each check: check, total, source, line, reason, remedy.
    consequences : collection of str
        Failed checks that another failed check may have caused.
    figures_of_rules : mapping
        Figures of the whole cluster that count the broken rows of rules, by rule.
    """
    text = ""
    for most, length in _SIZES:
        checks = _Checks(results, first_rows, consequences, figures_of_rules, most, length)
        text = render("quality.html.j2", cluster_id=cluster_id, run_id=run_id, **checks.sections())
        if len(text.encode()) <= PAGE_BYTES:
            break
    return text


@dataclass(frozen=True)
class _Checks:
    """The rows of a page, with at most ``most`` examples of a check and ``length`` characters of a text."""

    results: Sequence[Row]
    first_rows: Sequence[Row]
    consequences: Collection[str]
    figures_of_rules: Mapping[str, str]
    most: int
    length: int

    def sections(self) -> dict[str, Any]:
        """The variables of the template."""
        rows: dict[str, list[Row]] = {}
        for row in self.first_rows:
            rows.setdefault(row["check"], []).append(row)
        without_row = self._not_judged_figures()
        kinds: dict[str, list[Check]] = {"failed": [], "not_judged": [], "passed": []}
        for result in self.results:
            kind = _kind(result, without_row)
            # Rows that a passed figure counts belong to rules, and the page has them there.
            has_rows = kind == "failed" or result["judged_rows"] is not None
            kinds[kind].append(self._check(result, rows.get(result["rule"], []) if has_rows else []))
        kinds["failed"].sort(key=lambda check: (not check.stops, check.may_follow))
        kinds["passed"].sort(key=lambda check: not check.total)
        judged = {result["rule"] for result in self.results}
        others = [self._other(rule, of_rule) for rule, of_rule in rows.items() if rule not in judged]
        stopping = sum(check.stops for check in kinds["failed"])
        return {**kinds, "others": others, "stopping": stopping, "reported": len(kinds["failed"]) - stopping}

    def _not_judged_figures(self) -> set[str]:
        """Figures that count broken rows of rules, if no row of these rules was judged."""
        judged: dict[str, int] = {}
        for result in self.results:
            figure = self.figures_of_rules.get(result["rule"])
            if figure:
                judged[figure] = judged.get(figure, 0) + (result["judged_rows"] or 0)
        return {figure for figure, rows in judged.items() if not rows}

    def _check(self, result: Row, rows: Sequence[Row]) -> Check:
        return Check(
            rule=result["rule"],
            table=result["table_name"],
            observed=_observed(result, self.length),
            threshold=_shortened(result["threshold"] or "", self.length),
            remedy=_shortened(result["remedy"], _REMEDY),
            stops=result["severity"] == "critical",
            may_follow=result["rule"] in self.consequences,
            total=rows[0]["total"] if rows else 0,
            examples=self._examples(rows),
        )

    def _other(self, rule: str, rows: Sequence[Row]) -> Check:
        """A rule that only a parser knows: lines and files that it could not use."""
        total = rows[0]["total"]
        remedy = _shortened(rows[0]["remedy"], _REMEDY)
        return Check(rule, "", plural(total, "row"), "", remedy, total=total, examples=self._examples(rows))

    def _examples(self, rows: Sequence[Row]) -> list[tuple[str, str]]:
        shown = rows[: self.most]
        return [(_place(row, self.length), _shortened(row["reason"], self.length)) for row in shown]


def _kind(result: Row, not_judged: Collection[str]) -> str:
    """Whether a check failed, had nothing to judge, or passed: 0 of 0 rows is not passed."""
    if not result["success"]:
        return "failed"
    return "not_judged" if result["judged_rows"] == 0 or result["rule"] in not_judged else "passed"


def _observed(result: Row, length: int) -> str:
    """Rows that are good if the check requires a share of them, else rows that are broken; or the value of a figure."""
    rows, broken = result["judged_rows"], result["unexpected_count"] or 0
    if rows is None:
        return _shortened(result["observed"] or "", length)
    if result["least"] is not None:
        return f"{rows - broken:,} of {plural(rows, 'row')} good"
    return f"{broken:,} of {plural(rows, 'row')} broken"


def _place(row: Row, length: int) -> str:
    """File and line of a row. The end of a long path is its useful part."""
    source, line = row["source"], row["line"]
    shown = source if len(source) <= length else f"...{source[-length:]}"
    return f"{shown}:{line}" if line else shown


def _shortened(text: str, length: int) -> str:
    more = len(text) - length
    return text if more <= 0 else f"{text[:length]}... ({plural(more, 'more character')})"
