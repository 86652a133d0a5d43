"""Findings as people read them: what the input and the plan leave open, the worst first; many alike in one line."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optimizer.emit.model import LIMITED, ClusterPlan, Row

# What the plan leaves broken or undone, worst first; then a rule that is not named here, then _FACTS.
_WORST_FIRST = (
    "unexplained",
    LIMITED,
    "not_emptied",
    "not_pinned",
    "rack_spread",
    "not_resized",
    "pin",
    "replication_factor",
    "topic_spread",
    "band",
    "leader_band",
    "topic_leader_spread",
    "shard_failed",
    "shard_out_of_time",
    "pin_unused",
    "factor_unused",
    "exclude_unused",
    "not_free",
)
_FACTS = (
    "dead_broker",
    "fenced_broker",
    "no_racks",
    "no_disk_capacity",
    "no_network_capacity",
    "no_rates",
    "not_asked_now",
)
_WHEN = {"both": "before and after", "before": "before only", "after": "after only"}
_MENDED, _NOTED = "before", "noted"
_ASKED_FOR = "topic excluded"
_TOLD_ONE_BY_ONE = 3
_AMOUNT = re.compile(r"\d+(?:[.,]\d+)*(?: [PTGMk]?B\b)?")


@dataclass(frozen=True)
class Told:
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


def _severity(row: Row) -> tuple[int, int]:
    """What is broken, then what is so or was asked for."""
    rule = row["rule"]
    if rule in _FACTS:
        return 1, _FACTS.index(rule)
    if row["detail"] == _ASKED_FOR:
        return 1, len(_FACTS)
    place = _WORST_FIRST.index(rule) if rule in _WORST_FIRST else len(_WORST_FIRST)
    return 0, place


def _shape(row: Row) -> tuple[str, ...]:
    """What findings that are alike share: the words less the subject's name and all amounts."""
    name = row["subject"].partition(" on ")[0]
    words = (_AMOUNT.sub("#", row[part].replace(name, "")) for part in ("detail", "remedy"))
    return row["rule"], row["when"], *words


def _told(row: Row, count: int) -> Told:
    return Told(row["rule"], _WHEN[row["when"]], row["subject"], row["detail"], row["remedy"], count)


def left_open(plan: ClusterPlan) -> list[Told]:
    """What was left out of the input, contradicts or is broken there, then what the plan leaves broken or undone."""
    of_input = [_of_input(row) for row in plan.input_findings if row["standing"] != _NOTED]
    return [*of_input, *_folded(row for row in plan.findings if row["when"] != _MENDED)]


def settled(plan: ClusterPlan) -> list[Told]:
    """What the plan mends, and what is only noted of the input."""
    of_input = [_of_input(row) for row in plan.input_findings if row["standing"] == _NOTED]
    return [*_folded(row for row in plan.findings if row["when"] == _MENDED), *of_input]


def _of_input(row: Row) -> Told:
    rows = "" if row["rows"] == 1 else f", {row['rows']:,} rows"
    return Told(row["rule"], row["standing"].replace("_", " ") + rows, row["subject"], row["detail"], row["remedy"], 1)


def _folded(findings: Iterable[Row]) -> list[Told]:
    """The worst first; more than three alike are one line with the first of them."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(findings, key=_severity):
        groups.setdefault(_shape(row), []).append(row)
    lines = list[Told]()
    for rows in groups.values():
        if len(rows) > _TOLD_ONE_BY_ONE:
            lines.append(_told(rows[0], len(rows)))
        else:
            lines += [_told(row, 1) for row in rows]
    return lines


def counted(lines: Iterable[Told]) -> int:
    """Findings that lines stand for."""
    return sum(line.count for line in lines)


def first(lines: Sequence[Told], most: int) -> tuple[Sequence[Told], int]:
    """At most so many lines, and how many findings no line of them stands for."""
    return lines[:most], counted(lines[most:])
