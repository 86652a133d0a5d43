"""Answers as a table: a column for each answer, a row for each figure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from asking.answer import LEAVING, OUTSIDE, Answer
from asking.question import sets_bands
from asking.sections import Grid, split
from optimizer.domain import FindingCode
from optimizer.emit.figure_table import BY_NAME, Figure
from optimizer.planning.in_memory import Tables
from optimizer.planning.plan_figures import Figures
from optimizer.units import clause, human_hours, human_percent, plural

_NONE = "-"
_FULLEST = "fullest_disk_percent"
_ARROW = " -> "
NOW, PLANNED, BOTH = "now", "planned", "both"
OF_RUN = {"now": NOW, "this run": PLANNED}  # headings of the columns about the run itself
_SHOWN_FINDINGS = 4  # kinds of findings in a line: more make it too long to read


# Figures that no page of the job has.
_OWN = {
    "most_hours": Figure("most_hours", "Hours of copying, at most", show=human_hours),
    _FULLEST: Figure(_FULLEST, "Fullest broker's disk", show=human_percent),
    "offline": Figure("offline", "Partitions offline"),
    "groups_noticing": Figure("groups_noticing", "Consumer groups that notice it"),
    "groups_may_rebalance": Figure("groups_may_rebalance", "Consumer groups that may rebalance"),
}


@dataclass(frozen=True)
class Row:
    """One row of the table, with the label and format of the report.

    Parameters
    ----------
    name : str
        Of the figure.
    is_state : bool
        It describes the cluster, so it also has a value before the plan.
    hidden_at_zero : bool
        It is left out if it is 0 or unknown in every column.
    instead_of : str
        It is left out if this figure is known in any column.
    """

    name: str
    is_state: bool = False
    hidden_at_zero: bool = False
    instead_of: str = ""

    @property
    def figure(self) -> Figure:
        """Its label and format."""
        return _OWN.get(self.name) or BY_NAME[self.name]


ROWS = (
    *map(Row, ("moved_bytes", "moved_share_percent", "gap_percent", "cross_rack_bytes", "replicas_moved")),
    Row("dir_moved_bytes", hidden_at_zero=True),
    Row("dir_moves", hidden_at_zero=True),
    *map(Row, ("leader_changes", "waves", "estimated_hours", "most_hours")),
    Row(_FULLEST, is_state=True),
    Row("disk_max_over_mean", is_state=True, instead_of=_FULLEST),
    Row(OUTSIDE, is_state=True),
    Row("rack_violations", is_state=True),
    Row(LEAVING, is_state=True, hidden_at_zero=True),
    Row("offline", is_state=True, hidden_at_zero=True),
    Row("stopped_without_loss", is_state=True, hidden_at_zero=True),
    Row("stopped_by_worst_rack", is_state=True),
    Row("stopped_by_worst_broker", is_state=True),
    Row("lost_by_worst_broker_bytes", is_state=True, hidden_at_zero=True),
    Row("lost_by_worst_rack_bytes", is_state=True, hidden_at_zero=True),
    *map(Row, ("groups_noticing", "groups_may_rebalance")),
    Row("unexplained", hidden_at_zero=True),
)


@dataclass(frozen=True)
class Column:
    """One column of the table.

    Parameters
    ----------
    heading : str
    figures : mapping
        Values before and after the plan, by name.
    side : str
        NOW: the cluster before the plan; PLANNED: after it; BOTH: the plan is about another cluster, so states have
        both.
    instead : str
        Text in the first row; for a question without a plan.
    """

    heading: str
    figures: Figures
    side: str
    instead: str = ""


def columns_of(stored: Figures, answers: Sequence[Answer]) -> list[Column]:
    """The cluster now, the plan of the run, and each answer."""
    return [
        *(Column(heading, stored, side) for heading, side in OF_RUN.items()),
        *(
            Column(
                item.question.name,
                item.compared,
                BOTH if item.question.changes_cluster else PLANNED,
                "" if item.plan else "does not fit",
            )
            for item in answers
        ),
    ]


def table(columns: Sequence[Column]) -> Grid:
    """The table."""
    rows = []
    for number, row in enumerate(_shown([column.figures for column in columns])):
        cells = [column.instead if column.instead and number == 0 else _cell(row, column) for column in columns]
        rows.append([row.figure.label, *cells])
    return Grid(["", *(column.heading for column in columns)], rows)


def split_table(columns: Sequence[Column]) -> tuple[list[Grid], list[Grid]]:
    """The table of the figures that differ between the plans, and the table of the others."""

    def is_same(row: Sequence[str]) -> bool:
        cells = [(cell, column.side) for cell, column in zip(row[1:], columns, strict=True) if cell != _NONE]
        after = {cell.rpartition(_ARROW)[2] for cell, side in cells if side != NOW}
        before = {cell.partition(_ARROW)[0] for cell, side in cells if side == NOW or _ARROW in cell}
        return len(after) < 2 and len(before) < 2

    return split(table(columns), is_same)


def _shown(figures: Sequence[Figures]) -> Iterator[Row]:
    for row in ROWS:
        values = _known(row.name, figures)
        if values and not _known(row.instead_of, figures) and (not row.hidden_at_zero or any(values)):
            yield row


def _known(name: str, figures: Sequence[Figures]) -> list[float]:
    """All values of a figure that are known, before and after."""
    return [value for each in figures for value in each.get(name, ()) if value is not None]


def _cell(row: Row, column: Column) -> str:
    before, after = column.figures.get(row.name, (None, None))
    if column.side == NOW:
        return row.figure.show(before) if row.is_state and before is not None else ""
    if after is None:
        return _NONE
    if column.side == BOTH and row.is_state and before is not None:
        return f"{row.figure.show(before)}{_ARROW}{row.figure.show(after)}"
    return row.figure.show(after)


def remarks(answers: Sequence[Answer]) -> Iterator[str]:
    """Sentences below the table: what does not fit, and what stays broken."""
    for answer in answers:
        if answer.shortage:
            yield f"{answer.question.name}: {answer.shortage.words()}."
        if answer.plan:
            if sets_bands(answer.question):
                outside = clause(round(answer.figures[OUTSIDE][1] or 0), "broker", "is", "are")
                yield f"{answer.question.name}: {outside} outside its own bands."
            tables = answer.plan.tables
            findings = tables["findings"]
            limits = findings[findings["code"] == FindingCode.LIMITED]
            yield from (f"{answer.question.name}: {row.subject}: {row.detail}." for row in limits.itertuples())
            for when, counts in (("after the plan", _stays(tables)), ("of its waves", _codes(tables["wave_findings"]))):
                if counts:
                    yield f"{answer.question.name}: findings {when}: {_listed(counts)}."


def _stays(tables: Tables) -> Counter[str]:
    findings = tables["findings"]
    return _codes(findings[findings["when"].isin(("after", "both"))])


def _codes(findings: pd.DataFrame) -> Counter[str]:
    return Counter(findings["code"].astype(str))


def _listed(counts: Mapping[str, int]) -> str:
    largest = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    named = [f"{count} {code}" for code, count in largest[:_SHOWN_FINDINGS]]
    rest = sum(count for _, count in largest[_SHOWN_FINDINGS:])
    return ", ".join([*named, *([f"{plural(rest, 'other finding')}"] if rest else [])])
