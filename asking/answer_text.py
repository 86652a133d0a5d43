"""Answers as a table: a column for each answer, a row for each figure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from asking.answer import Answer
from asking.sections import Grid
from optimizer.planning.in_memory import Tables
from optimizer.planning.plan_figures import Figures
from optimizer.units import human_bytes, human_count, human_hours, human_percent, human_ratio, plural

_NONE = "-"
_FULLEST = "fullest_disk_percent"
_ARROW = " -> "
NOW, PLANNED, BOTH = "now", "planned", "both"
OF_RUN = {"now": NOW, "this run": PLANNED}  # headings of the columns about the run itself
_SHOWN_FINDINGS = 4  # kinds of findings in a line: more make it too long to read


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Parameters
    ----------
    name : str
        Of the figure.
    label : str
    show : callable
    is_state : bool
        It describes the cluster, so it also has a value before the plan.
    hidden_at_zero : bool
        It is left out if it is 0 or unknown in every column.
    instead_of : str
        It is left out if this figure is known in any column.
    """

    name: str
    label: str
    show: Callable[[float], str]
    is_state: bool = False
    hidden_at_zero: bool = False
    instead_of: str = ""


ROWS = (
    Row("moved_bytes", "Bytes copied", human_bytes),
    Row("moved_share_percent", "Share of all bytes", human_percent),
    Row("gap_percent", "Above the proven minimum", human_percent),
    Row("cross_rack_bytes", "Bytes between racks", human_bytes),
    Row("replicas_moved", "Replicas copied", human_count),
    Row("dir_moved_bytes", "Bytes moved inside brokers", human_bytes, hidden_at_zero=True),
    Row("dir_moves", "Replicas moved inside brokers", human_count, hidden_at_zero=True),
    Row("leader_changes", "Preferred leaders changed", human_count),
    Row("waves", "Waves", human_count),
    Row("estimated_hours", "Time of the copies", human_hours),
    Row("most_hours", "Time, at most", human_hours),
    Row(_FULLEST, "Fullest disk", human_percent, is_state=True),
    Row("disk_max_over_mean", "Fullest disk, over the mean", human_ratio, is_state=True, instead_of=_FULLEST),
    Row("brokers_outside_bands", "Brokers outside requested bands", human_count, is_state=True),
    Row("rack_violations", "Partitions that break the rack rule", human_count, is_state=True),
    Row("replicas_on_leaving_brokers", "Replicas on brokers to empty", human_count, is_state=True, hidden_at_zero=True),
    Row("offline", "Partitions offline", human_count, is_state=True, hidden_at_zero=True),
    Row("stopped_without_loss", "Partitions that take no writes", human_count, is_state=True, hidden_at_zero=True),
    Row("stopped_by_worst_rack", "Stopped if the worst rack fails", human_count, is_state=True),
    Row("stopped_by_worst_broker", "Stopped if the worst broker fails", human_count, is_state=True),
    Row("groups_noticing", "Consumer groups that notice it", human_count),
    Row("groups_may_rebalance", "Consumer groups that may rebalance", human_count),
    Row("unexplained", "Partitions left without a reason", human_count, hidden_at_zero=True),
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
                item.figures,
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
        rows.append([row.label, *cells])
    return Grid(["", *(column.heading for column in columns)], rows)


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
        return row.show(before) if row.is_state and before is not None else ""
    if after is None:
        return _NONE
    if column.side == BOTH and row.is_state and before is not None:
        return f"{row.show(before)}{_ARROW}{row.show(after)}"
    return row.show(after)


def remarks(answers: Sequence[Answer]) -> Iterator[str]:
    """Sentences below the table: what does not fit, and what stays broken."""
    for answer in answers:
        if answer.shortage:
            yield f"{answer.question.name}: {answer.shortage.words()}."
        if answer.plan:
            tables = answer.plan.tables
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
