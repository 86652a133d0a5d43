"""The decision as text, for terminals and schedulers, and as JSON, for programs."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from textwrap import wrap

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.decision import Decision
from optimizer.units import human_moment, iso_time

NAME = "decision.json"
FORMAT = 1  # version of the file format; raise it if readers must change
_NO_BREAK = "\u00a0"  # a blank at which lines are not broken
# The blank between a number and its unit, and those inside a duration.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[kMGT]?B|d|h|min|s)(?!\w))|(?<=\d [dh]) (?=\d+ (?:h|min)\b)")
WIDTH = 96  # characters: fits a usual terminal
_CARD_VALUE, _CARD_LABEL = 18, 43  # characters of the columns: the longest label and two blanks


def paragraph(text: str, *, first: str = "  ", indent: str = "    ") -> list[str]:
    """Lines of a paragraph; none if it is empty. No line ends between a number and its unit."""
    joined = _UNIT.sub(_NO_BREAK, text)
    lines = wrap(
        joined, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def verdict_lines(decision: Decision) -> Iterator[str]:
    """The verdict, its sentence, the requests and what is excluded."""
    yield from paragraph(f"{decision.verdict.tag}. {decision.verdict.headline}")
    yield from paragraph(decision.verdict.sentence)
    for goal in decision.goals:
        yield from paragraph(f"{goal.state:<12} {goal.name}: {goal.detail}", indent=" " * 15)
    yield from paragraph(decision.exclusions)


def note_lines(decision: Decision) -> Iterator[str]:
    """What to do or to know before the approval; a blank line comes first."""
    if decision.notes:
        yield ""
        yield "  Before you approve:"
    for note in decision.notes:
        yield from paragraph(f"- {note.kind}: {note.subject} {note.text}")


def first_screen(plan: ClusterPlan, decision: Decision) -> str:
    """The first screen of the report, without the command."""
    lines = [*verdict_lines(decision), *note_lines(decision), ""]
    for card in decision.cards:
        row = f"{card.value:<{_CARD_VALUE}}{card.label:<{_CARD_LABEL}}{card.remark}"
        lines += paragraph(row, indent=" " * (2 + _CARD_VALUE + _CARD_LABEL))
    if plan.has_changes and plan.valid_until is not None:
        lines += ["", *paragraph(f"Approve it and start its first wave before {human_moment(plan.valid_until)}.")]
    return "\n".join(line.removeprefix("  ").rstrip() for line in lines) + "\n"


def decision_json(plan: ClusterPlan, decision: Decision) -> str:
    """The decision as JSON: all its fields, the first screen as ``text``, and the times of the plan.

    ``calendar`` has start and latest end of each wave, if the schedule has windows.
    """
    counts = plan.consumer_counts
    calendar = [(iso_time(row.starts_at), iso_time(row.ends_at)) for row in plan.waves if row.starts_at is not None]
    content = {
        "format": FORMAT,
        "cluster_id": plan.cluster_id,
        "run_id": plan.run_id,
        "captured_at": iso_time(plan.captured_at),
        "valid_until": iso_time(plan.valid_until),
        **asdict(decision),
        **({"calendar": calendar} if calendar else {}),
        **({"consumer_groups": asdict(counts)} if counts else {}),
        "text": first_screen(plan, decision),
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
