"""Findings as people read them: what the input and the plan leave open, the worst first; many alike in one line."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optimizer.domain import Cause, FindingCode
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.rows import FindingRow, InputFindingRow
from optimizer.units import plural

# What the plan leaves broken or undone, worst first, then a code that another release stored, then FACTS. The order is
# that of ``URGENCY`` as far as it goes, but drains stand before racks: NOT_EMPTIED is also told of dead brokers.
WORST_FIRST = (
    FindingCode.RACK_EMPTIED,
    FindingCode.UNEXPLAINED,
    FindingCode.LIMITED,
    FindingCode.NOT_EMPTIED,
    FindingCode.RACK_SPREAD,
    FindingCode.NOT_PINNED,
    FindingCode.NOT_RESIZED,
    FindingCode.LEFT_FOR_DISK,
    FindingCode.LOG_DIR_FILLS,
    FindingCode.PIN,
    FindingCode.REPLICATION_FACTOR,
    FindingCode.NO_SPARE_REPLICA,
    FindingCode.TOPIC_SPREAD,
    FindingCode.BAND,
    FindingCode.LEADER_BAND,
    FindingCode.TOPIC_LEADER_SPREAD,
    FindingCode.SHARD_FAILED,
    FindingCode.SHARD_OUT_OF_TIME,
    FindingCode.PIN_UNUSED,
    FindingCode.FACTOR_UNUSED,
    FindingCode.TOPICS_UNUSED,
    FindingCode.EXCLUDE_UNUSED,
    FindingCode.NOT_FREE,
)
FACTS = (
    FindingCode.DEAD_BROKER,
    FindingCode.FENCED_BROKER,
    FindingCode.NO_RACKS,
    FindingCode.NO_DISK_CAPACITY,
    FindingCode.NO_NETWORK_CAPACITY,
    FindingCode.NO_RATES,
    FindingCode.NOT_ASKED_NOW,
)
_WHEN = {"both": "before and after", "before": "before only", "after": "after only"}
_MENDED, _NOTED = "before", "noted"
_BEFORE_INPUT = (FindingCode.RACK_EMPTIED, FindingCode.UNEXPLAINED)  # what pages show before doubts about the input
_DOUBTS = ("contradicts", "left_out", "broken")  # standings of what makes the input doubtful, the worst first
SHOWN = 8  # findings that a page shows at once; the tables ``findings`` and ``input_findings`` have every one
_TOLD_ONE_BY_ONE = 3  # findings of one kind: more are told as one


@dataclass(frozen=True)
class FindingLine:
    """One line about a finding, or about the first of ``count`` alike."""

    rule: str
    when: str
    subject: str
    detail: str
    remedy: str
    count: int

    @property
    def text(self) -> str:
        """How many, what and where."""
        one = f"{self.subject}: {self.detail}"
        return one if self.count == 1 else f"{self.count:,} alike, the first {one}"

    @property
    def text_and_remedy(self) -> str:
        """The text, and what helps."""
        return ". What helps: ".join(filter(None, (self.text, self.remedy)))


def _severity(row: FindingRow) -> tuple[int, int]:
    """What is broken, then what is so or was asked for."""
    code = row.code
    if code in FACTS:
        return 1, FACTS.index(code)
    if row.cause == Cause.TOPIC_EXCLUDED:
        return 1, len(FACTS)
    place = WORST_FIRST.index(code) if code in WORST_FIRST else len(WORST_FIRST)
    return 0, place


def _shape(row: FindingRow) -> tuple[object, ...]:
    """What findings that are alike share: what is so, why, of which resource, and on which side of a band."""
    above = row.resource is not None and row.limit is not None and (row.amount or 0) > row.limit
    about = (row.topic is None, row.broker_id is None)
    return row.code, row.when, row.cause, row.resource, above, about


def _told(row: FindingRow, count: int) -> FindingLine:
    return FindingLine(row.rule, _WHEN[row.when], row.subject, row.detail, row.remedy, count)


def left_open(plan: ClusterPlan) -> list[FindingLine]:
    """Racks that the plan empties, and what it leaves without a reason; what contradicts, was left out or is broken in
    the input; then what else the plan leaves broken or undone."""
    doubts = sorted(
        (row for row in plan.input_findings if row.standing != _NOTED), key=lambda row: _DOUBTS.index(row.standing)
    )
    of_input = [_of_input(row) for row in doubts]
    left = [row for row in plan.findings if row.when != _MENDED]
    first = [row for row in left if row.code in _BEFORE_INPUT]
    others = [row for row in left if row.code not in _BEFORE_INPUT]
    return [*_folded(first), *of_input, *_folded(others)]


def settled(plan: ClusterPlan) -> list[FindingLine]:
    """What the plan mends, and what is only noted of the input."""
    of_input = [_of_input(row) for row in plan.input_findings if row.standing == _NOTED]
    return [*_folded(row for row in plan.findings if row.when == _MENDED), *of_input]


def _of_input(row: InputFindingRow) -> FindingLine:
    rows = "" if row.rows == 1 else f", {plural(row.rows, 'row')}"
    return FindingLine(row.rule, row.standing.replace("_", " ") + rows, row.subject, row.detail, row.remedy, 1)


def _folded(findings: Iterable[FindingRow]) -> list[FindingLine]:
    """The worst first; more than three alike are one line with the first of them, but for the wishes that ``only``
    leaves."""
    groups: dict[tuple[object, ...], list[FindingRow]] = {}
    for row in sorted(findings, key=_severity):
        groups.setdefault(_shape(row), []).append(row)
    lines = list[FindingLine]()
    for rows in groups.values():
        if len(rows) > _TOLD_ONE_BY_ONE and rows[0].code != FindingCode.NOT_ASKED_NOW:
            lines.append(_told(rows[0], len(rows)))
        else:
            lines += [_told(row, 1) for row in rows]
    return lines


def counted(lines: Iterable[FindingLine]) -> int:
    """Findings that lines stand for."""
    return sum(line.count for line in lines)


def first(lines: Sequence[FindingLine], most: int) -> tuple[Sequence[FindingLine], int]:
    """At most so many lines, and how many findings no line of them stands for."""
    return lines[:most], counted(lines[most:])
