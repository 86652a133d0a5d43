"""Findings as people read them: what is broken after the plan first, many alike in one line."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optimizer.emit.model import LIMITED, ClusterPlan, Row

# What the plan leaves broken or undone, worst first; then a rule that is not named here, then _FACTS.
_WORST_FIRST = (
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
_FACTS = ("dead_broker", "fenced_broker", "no_racks", "no_disk_capacity", "no_network_capacity", "no_rates")
_WHEN = {"both": "before and after", "before": "before only", "after": "after only"}
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
    """What the plan leaves broken, then what is so and was asked for, then what the plan mends."""
    rule = row["rule"]
    if rule in _FACTS:
        return 1, _FACTS.index(rule)
    if row["detail"] == _ASKED_FOR:
        return 1, len(_FACTS)
    place = _WORST_FIRST.index(rule) if rule in _WORST_FIRST else len(_WORST_FIRST)
    return 2 if row["when"] == "before" else 0, place


def _shape(row: Row) -> tuple[str, ...]:
    """What findings that are alike share: the words less the subject's name and all amounts."""
    name = row["subject"].partition(" on ")[0]
    words = (_AMOUNT.sub("#", row[part].replace(name, "")) for part in ("detail", "remedy"))
    return row["rule"], row["when"], *words


def _told(row: Row, count: int) -> Told:
    return Told(row["rule"], _WHEN[row["when"]], row["subject"], row["detail"], row["remedy"], count)


def told(plan: ClusterPlan) -> list[Told]:
    """Every finding, the worst first; more than three alike are one line with the first of them."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(plan.findings, key=_severity):
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


def first(plan: ClusterPlan, most: int) -> tuple[Sequence[Told], int]:
    """At most so many lines, and how many findings no line of them stands for."""
    lines = told(plan)
    return lines[:most], counted(lines[most:])
