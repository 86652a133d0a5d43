"""The table of answers, and the sentences below it."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from asking.answer import Answer
from asking.answer_text import BOTH, NOW, PLANNED, Column, columns_of, remarks, table
from asking.fitting import Shortage
from optimizer.planning.in_memory import MemoryPlan
from optimizer.planning.plan_figures import Figures
from optimizer.settings import Settings
from tests.asking.small_run import GB, asked

FIGURES: Figures = {
    "moved_bytes": (None, 140.0 * GB),
    "moved_share_percent": (None, 14.0),
    "estimated_hours": (None, 1.5),
    "waves": (None, 2.0),
    "fullest_disk_percent": (28.0, 16.0),
    "disk_max_over_mean": (1.8, 1.05),
    "brokers_outside_bands": (6.0, 0.0),
    "replicas_on_leaving_brokers": (0.0, 0.0),
    "offline": (0.0, 0.0),
}


def _table(*columns: Column) -> dict[str, list[str]]:
    """Cells by label."""
    grid = table(columns)
    assert list(grid.header) == ["", *(column.heading for column in columns)]
    return {label.strip(): list(cells) for label, *cells in grid.rows}


def test_sides() -> None:
    """A state has its value now, after the plan, or both for another cluster; other figures exist after a plan only."""
    columns = [Column(side, FIGURES, side) for side in (NOW, PLANNED, BOTH)]
    assert _table(*columns) == {
        "Bytes copied": ["", "140 GB", "140 GB"],
        "Share of all bytes copied": ["", "14 %", "14 %"],
        "Waves": ["", "2", "2"],
        "Hours of copying, estimated": ["", "1 h 30 min", "1 h 30 min"],
        "Fullest broker's disk": ["28 %", "16 %", "28 % -> 16 %"],
        "Brokers outside bands (replicas, disk, bytes in)": ["6", "0", "6 -> 0"],
    }


@pytest.mark.parametrize(
    ("changes", "label", "cells"),
    [
        # Without a known capacity the fullest disk is shown over the mean.
        ({"fullest_disk_percent": (None, None)}, "Fullest broker's disk", None),
        ({"fullest_disk_percent": (None, None)}, "Fullest broker's disk, over the mean", ["1.80x", "1.05x"]),
        ({"fullest_disk_percent": (28.0, None)}, "Fullest broker's disk", ["28 %", "-"]),
        ({"fullest_disk_percent": (28.0, None)}, "Fullest broker's disk, over the mean", None),
        # These are shown only if there are any.
        ({"offline": (0.0, 1.0)}, "Partitions offline", ["0", "1"]),
        ({"offline": (3.0, 0.0)}, "Partitions offline", ["3", "0"]),
        ({"offline": (None, None)}, "Partitions offline", None),
        ({"replicas_on_leaving_brokers": (5.0, 0.0)}, "Replicas on brokers to empty", ["5", "0"]),
        # A zero is shown elsewhere, and a figure that no column knows is not.
        ({"moved_bytes": (None, 0.0)}, "Bytes copied", ["", "0 B"]),
        ({"brokers_outside_bands": (0.0, 0.0)}, "Brokers outside bands (replicas, disk, bytes in)", ["0", "0"]),
        ({"waves": (None, None)}, "Waves", None),
        ({"gap_percent": (None, None)}, "Above the proven minimum", None),
        ({"gap_percent": (None, 0.01)}, "Above the proven minimum", ["", "0.0100 %"]),
        ({"replicas_moved": (None, 12345.0)}, "Replicas copied", ["", "12,345"]),
    ],
)
def test_rows(changes: Figures, label: str, cells: Sequence[str] | None) -> None:
    """A row is left out if no column knows its figure, or if it is 0 and reports a problem."""
    figures = {**FIGURES, **changes}
    assert _table(Column("now", figures, NOW), Column("x", figures, PLANNED)).get(label) == cells


def test_a_row_of_one_column_is_in_all() -> None:
    """A column without the figure has a dash."""
    other = {**FIGURES, "gap_percent": (None, 2.0), "offline": (1.0, 1.0)}
    rows = _table(Column("now", FIGURES, NOW), Column("a", FIGURES, PLANNED), Column("b", other, BOTH))
    assert rows["Above the proven minimum"] == ["", "-", "2.00 %"]
    assert rows["Partitions offline"] == ["0", "0", "1 -> 1"]


def _answer(words: str, figures: Figures, *, missing: Shortage | None = None, findings: Any = None) -> Answer:
    frame = pd.DataFrame(findings or [], columns=["when", "code"])
    is_of_waves = frame["when"] == "during"
    solved: Any = None
    tables = {"findings": frame[~is_of_waves], "wave_findings": frame[is_of_waves]}
    plan = MemoryPlan(solved, tables) if figures else None
    return Answer(asked(*words.split(), name=words), figures, plan, missing, Settings())


MISSING = Shortage("b", 600 * GB, 500 * GB)


def test_columns() -> None:
    """First the cluster now and the plan of the run; an answer about another cluster has its own "now"."""
    answers = [_answer("--drain 1", FIGURES), _answer("--load 2", FIGURES), _answer("--load 9", {}, missing=MISSING)]
    assert [(c.heading, c.side, c.instead) for c in columns_of(FIGURES, answers)] == [
        ("now", NOW, ""),
        ("this run", PLANNED, ""),
        ("--drain 1", PLANNED, ""),
        ("--load 2", BOTH, ""),
        ("--load 9", BOTH, "does not fit"),
    ]
    rows = _table(*columns_of(FIGURES, answers))
    assert rows["Bytes copied"][-1] == "does not fit"
    assert {cells[-1] for label, cells in rows.items() if label != "Bytes copied"} == {"-"}


@pytest.mark.parametrize(
    ("findings", "missing", "lines"),
    [
        ([], None, []),
        ([("before", "dead_broker")], None, []),
        (
            [("during", "wave_too_long"), ("during", "stops_writes"), ("after", "band"), ("during", "stops_writes")],
            None,
            ["x: findings after the plan: 1 band.", "x: findings of its waves: 2 stops_writes, 1 wave_too_long."],
        ),
        ([("after", "band"), ("both", "band"), ("after", "a")], None, ["x: findings after the plan: 2 band, 1 a."]),
        ([("after", c) for c in "eedcba"], None, ["x: findings after the plan: 2 e, 1 a, 1 b, 1 c, 1 other finding."]),
        (
            [("after", c) for c in "eedcbaf"],
            None,
            ["x: findings after the plan: 2 e, 1 a, 1 b, 1 c, 2 other findings."],
        ),
        (
            [("both", "band")],
            MISSING,
            [
                "x: does not fit: rack b may hold 500 GB, but must hold 600 GB: 100 GB more.",
                "x: findings after the plan: 1 band.",
            ],
        ),
    ],
)
def test_remarks(findings: Sequence[tuple[str, str]], missing: Shortage | None, lines: Sequence[str]) -> None:
    """Below the table: what does not fit, and how many findings of each kind stay, the most frequent first."""
    item = _answer("", FIGURES, missing=missing, findings=findings)
    named = Answer(asked(name="x"), item.figures, item.plan, missing, item.settings)
    assert list(remarks([named])) == lines


def test_an_answer_without_a_plan_has_one_remark() -> None:
    """Only why it does not fit."""
    [line] = remarks([_answer("--load 9", {}, missing=MISSING)])
    assert line.startswith("--load 9: does not fit: rack b")
