"""An answer begins with one sentence that its figures give."""

from typing import Any

import pytest

from asking.answer import Answer
from asking.answer_text import NOW, PLANNED, Column, split_table
from asking.first_sentence import sentence
from asking.fitting import Shortage
from optimizer.planning.in_memory import MemoryPlan
from optimizer.planning.plan_figures import Figures
from optimizer.settings import Settings
from tests.asking.small_run import GB, asked

FIGURES: Figures = {
    "moved_bytes": (None, 100.0 * GB),
    "least_hours": (None, 1 / 12),
    "most_hours": (None, 0.15),
    "leader_changes": (None, 7.0),
    "fullest_disk_percent": (60.0, 50.0),
    "brokers_outside_bands": (6.0, 0.0),
    "rack_violations": (1.0, 0.0),
    "replicas_on_leaving_brokers": (9.0, 0.0),
    "stopped_without_loss": (0.0, 0.0),
    "offline": (0.0, 0.0),
}


def _item(words: str, name: str = "x", /, **after: float) -> Answer:
    solved: Any = None
    figures = {**FIGURES, **{figure: (value, value) for figure, value in after.items()}}
    return Answer(asked(*words.split(), name=name), figures, MemoryPlan(solved, {}), None, Settings())


NOT_FITTING = Answer(asked("--load", "9", name="much"), {}, None, Shortage("b", 600 * GB, 500 * GB), Settings())
LESS, MORE = {"moved_bytes": 50.0 * GB}, {"moved_bytes": 200.0 * GB}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (
            [_item("")],
            "The plan copies 100 GB in 5 min to 9 min, as this run does; racks, bands and drains are met.",
        ),
        (
            [_item("--drain 2", **MORE, brokers_outside_bands=1)],
            "The plan copies 200 GB in 5 min to 9 min, this run copies 100 GB in 5 min to 9 min; it leaves 1 "
            "broker outside bands.",
        ),
        (
            [_item("--only leaders", moved_bytes=0, replicas_on_leaving_brokers=9, rack_violations=1)],
            "The plan copies nothing and changes 7 leaders, this run copies 100 GB in 5 min to 9 min; it leaves 9 "
            "replicas on brokers to empty and 1 partition on broken racks.",
        ),
        (
            [_item("--lose-rack b", **MORE, stopped_without_loss=7, offline=2, fullest_disk_percent=75)],
            "7 partitions take no writes now, 2 have no leader; the plan copies 200 GB in 5 min to 9 min, then the "
            "fullest disk is at 75 %; racks, bands and drains are met.",
        ),
        (
            [_item("--lose-broker 1")],
            "All partitions take writes now; the plan copies 100 GB in 5 min to 9 min, then the fullest disk is at 50 "
            "%; racks, bands and drains are met.",
        ),
        ([NOT_FITTING], "This does not fit: rack b may hold 500 GB, but must hold 600 GB: 100 GB more."),
        (
            [_item("--load 2", "twice", **MORE), NOT_FITTING],
            "twice copies 200 GB in 5 min to 9 min, fullest disk 50 %; much does not fit.",
        ),
        (
            # A plan that keeps a broker does not empty it, so it is not as good.
            [_item(""), _item("--keep 5", "kept", **LESS), _item("--drain 1", "a", **MORE), _item("--drain 2", "b")],
            "2 of these 3 plans reach as much as this run: the cheapest, b, copies 100 GB in 5 min to 9 min, this run "
            "copies 100 GB in 5 min to 9 min.",
        ),
        (
            [_item("--only racks", "a", **LESS, brokers_outside_bands=2), _item("--drain 1", "b", rack_violations=1)],
            "None of these 2 plans reaches as much as this run; the cheapest, a, copies 50.0 GB in 5 min to 9 min, "
            "and leaves 2 brokers outside bands.",
        ),
    ],
)
def test_the_first_sentence(answers: list[Answer], words: str) -> None:
    """One question: its plan and what it leaves; several: each, or the cheapest that reaches as much as the run."""
    assert sentence(FIGURES, answers) == words


def test_figures_that_differ_come_first() -> None:
    """A table of the rows that differ between the plans, and one of the others; an unknown figure does not differ."""
    theirs = {**FIGURES, "moved_bytes": (None, 5.0 * GB), "leader_changes": (None, None)}
    columns = [Column("now", FIGURES, NOW), Column("a", FIGURES, PLANNED), Column("b", theirs, PLANNED)]
    (differing,), (same,) = split_table(columns)
    assert [row[0] for row in differing.rows] == ["Bytes copied"]
    assert "Preferred leaders changed" in [row[0] for row in same.rows]
    assert split_table(columns[:2])[0] == []
