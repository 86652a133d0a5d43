"""Findings as lines of a page: the worst first, similar ones in one line."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optimizer.domain import Cause, FindingCode
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.rows import FindingRow, InputFindingRow
from optimizer.units import plural

# What the plan leaves broken or undone, the worst first. Then come FACTS.
# The order is that of ``URGENCY``, except that drains come before racks: NOT_EMPTIED is also used for dead brokers.
WORST_FIRST = (
    FindingCode.STOPS_WRITES,
    FindingCode.RACK_EMPTIED,
    FindingCode.NEWLY_EXPOSED,
    FindingCode.UNEXPLAINED,
    FindingCode.UNDER_REPLICATED,
    FindingCode.LOSES_RECORDS,
    FindingCode.WAVE_TOO_LONG,
    FindingCode.LIMITED,
    FindingCode.NOT_EMPTIED,
    FindingCode.RACK_SPREAD,
    FindingCode.NOT_PINNED,
    FindingCode.NOT_RESIZED,
    FindingCode.LEFT_FOR_DISK,
    FindingCode.LOG_DIR_FILLS,
    FindingCode.LOG_DIR_OVER,
    FindingCode.PIN,
    FindingCode.REPLICATION_FACTOR,
    FindingCode.NO_SPARE_REPLICA,
    FindingCode.COPIED_FOR_SYNC,
    FindingCode.TOPIC_SPREAD,
    FindingCode.BAND,
    FindingCode.LEADER_BAND,
    FindingCode.TOPIC_LEADER_SPREAD,
    FindingCode.DIR_BAND,
    FindingCode.DIRS_NOT_BALANCED,
    FindingCode.SHARD_FAILED,
    FindingCode.SHARD_OUT_OF_TIME,
    FindingCode.PIN_UNUSED,
    FindingCode.FACTOR_UNUSED,
    FindingCode.TOPICS_UNUSED,
    FindingCode.EXCLUDE_UNUSED,
    FindingCode.ACKS_UNUSED,
    FindingCode.NOT_FREE,
)
FACTS = (
    FindingCode.DEAD_BROKER,
    FindingCode.FENCED_BROKER,
    FindingCode.NO_RACKS,
    FindingCode.NESTED_RACKS,
    FindingCode.NO_DISK_CAPACITY,
    FindingCode.NO_LOG_DIR_CAPACITY,
    FindingCode.NO_NETWORK_CAPACITY,
    FindingCode.NO_RATES,
    FindingCode.TIERED_UPPER_BOUND,
    FindingCode.NOT_ASKED_NOW,
    FindingCode.ONE_REPLICA,
    FindingCode.WAITS_TO_START,
)
_WHEN = {"both": "before and after", "before": "before only", "after": "after only", "during": "while it moves"}
_FIXED, _NOTED = "before", "noted"
# Shown before the findings about the input.
_BEFORE_INPUT = (
    FindingCode.STOPS_WRITES,
    FindingCode.RACK_EMPTIED,
    FindingCode.NEWLY_EXPOSED,
    FindingCode.UNEXPLAINED,
)
_DOUBTS = ("contradicts", "left_out", "broken")  # standings of input that makes the plan doubtful, the worst first
SHOWN = 8  # findings that a page shows; the tables ``findings`` and ``input_findings`` have all
_MOST_SINGLE_LINES = 3  # findings of one kind; with more, there is one line for all


@dataclass(frozen=True)
class FindingLine:
    """One line: a finding, or the first of ``count`` similar findings."""

    rule: str
    when: str
    subject: str
    detail: str
    remedy: str
    count: int

    @property
    def text(self) -> str:
        """Count, subject and detail."""
        finding = f"{self.subject}: {self.detail}"
        return finding if self.count == 1 else f"{self.count:,} similar findings, the first: {finding}"

    @property
    def text_and_remedy(self) -> str:
        """The text and the remedy."""
        return ". What to do: ".join(filter(None, (self.text, self.remedy)))


def _severity(row: FindingRow) -> tuple[int, int]:
    code = row.code
    if code in FACTS:
        return 1, FACTS.index(code)
    if row.cause == Cause.TOPIC_EXCLUDED:
        return 1, len(FACTS)
    return 0, WORST_FIRST.index(code)


def _group_key(row: FindingRow) -> tuple[object, ...]:
    """Findings are similar if this is equal: code, cause, resource, side of the band, kind of subject."""
    above = row.resource is not None and row.limit is not None and (row.amount or 0) > row.limit
    about = (row.topic is None, row.broker_id is None)
    return row.code, row.when, row.cause, row.resource, above, about


def _line(row: FindingRow, count: int) -> FindingLine:
    return FindingLine(row.rule, _WHEN[row.when], row.subject, row.detail, row.remedy, count)


def doubtful_input(plan: ClusterPlan) -> list[InputFindingRow]:
    """Input that makes the plan doubtful, the worst first."""
    doubts = (row for row in plan.input_findings if row.standing != _NOTED)
    return sorted(doubts, key=lambda row: _DOUBTS.index(row.standing))


def open_findings(plan: ClusterPlan) -> list[FindingLine]:
    """Findings that need attention: what the plan endangers and does not explain, then doubtful input, then all else
    that the plan leaves broken or undone."""
    input_lines = [_input_line(row) for row in doubtful_input(plan)]
    remaining = [row for row in plan.findings if row.when != _FIXED]
    before_input = [row for row in remaining if row.code in _BEFORE_INPUT]
    after_input = [row for row in remaining if row.code not in _BEFORE_INPUT]
    return [*_grouped_lines(before_input), *input_lines, *_grouped_lines(after_input)]


def fixed_or_noted(plan: ClusterPlan) -> list[FindingLine]:
    """What the plan fixes, and what is only noted about the input."""
    input_lines = [_input_line(row) for row in plan.input_findings if row.standing == _NOTED]
    return [*_grouped_lines(row for row in plan.findings if row.when == _FIXED), *input_lines]


def _input_line(row: InputFindingRow) -> FindingLine:
    rows = "" if row.rows == 1 else f", {plural(row.rows, 'row')}"
    return FindingLine(row.rule, row.standing.replace("_", " ") + rows, row.subject, row.detail, row.remedy, 1)


def _grouped_lines(findings: Iterable[FindingRow]) -> list[FindingLine]:
    """The worst first. More than three similar findings are one line, except for requests that ``only`` skips."""
    groups: dict[tuple[object, ...], list[FindingRow]] = {}
    for row in sorted(findings, key=_severity):
        groups.setdefault(_group_key(row), []).append(row)
    lines = list[FindingLine]()
    for rows in groups.values():
        if len(rows) > _MOST_SINGLE_LINES and rows[0].code != FindingCode.NOT_ASKED_NOW:
            lines.append(_line(rows[0], len(rows)))
        else:
            lines += [_line(row, 1) for row in rows]
    return lines


def count_findings(lines: Iterable[FindingLine]) -> int:
    """The number of findings in all lines."""
    return sum(line.count for line in lines)


def by_remedy(lines: Iterable[FindingLine]) -> dict[str, list[FindingLine]]:
    """The lines by what to do about them, in the order of the first line of each; under an empty text without it."""
    groups: dict[str, list[FindingLine]] = {}
    for line in lines:
        groups.setdefault(line.remedy, []).append(line)
    return groups


def first_lines(lines: Sequence[FindingLine], limit: int) -> tuple[Sequence[FindingLine], int]:
    """At most ``limit`` lines, and the number of findings in the lines after them."""
    return lines[:limit], count_findings(lines[limit:])
