"""The figures that lead every page, and what the plan knows of its brokers."""

from dataclasses import fields, replace

import pytest

from optimizer.audit import AuditClaims
from optimizer.emit.figure_table import BALANCE, BY_NAME, COST, FIGURES
from optimizer.emit.rows import FigureRow
from optimizer.emit.shown_figures import Line, lines
from tests.emit.test_pages import synthetic


def figure(name: str, before: float | None, baseline: float | None, after: float | None) -> FigureRow:
    """A row of ``summary``."""
    return FigureRow(name, "l", before, baseline, after)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (figure("replicas_moved", None, 5, 3), ("-", "5", "3")),
        (figure("replicas_moved", None, 0, 0), ("-", "0", "0")),
        (figure("replicas_moved", None, None, None), None),
        (figure("gap_percent", 1, 2, 3), None),
        (figure("rack_violations", 4, 0, 0), ("4", "0", "0")),
        (figure("rack_violations", 0, None, 0), None),
        (figure("unexplained", None, None, 2), ("-", "-", "2")),
        (figure("unexplained", None, None, 0), None),
    ],
)
def test_figures_that_say_nothing_are_left_out(row: FigureRow, told: tuple[str, str, str] | None) -> None:
    """Unknown figures, those without a value, and those of troubles that nobody has take no line."""
    found = list(lines(replace(synthetic(3), summary=[row])))
    assert found == ([] if told is None else [Line(BY_NAME[row.figure].group, "l", *told)])


def test_every_list_of_figures_is_this_one() -> None:
    """Names stand once, the audit's claims are figures, and what is hidden or has a form is in a group."""
    assert len(BY_NAME) == len(FIGURES)
    assert {field.name for field in fields(AuditClaims)} <= BY_NAME.keys()
    assert {one.group for one in FIGURES} == {"", COST, BALANCE}
    assert not any(one.hidden_at_zero for one in FIGURES if not one.group)


def test_a_name_of_no_figure_is_an_error() -> None:
    """A misspelt name is no 0, by which a goal would read as reached; a figure that rows of before lack is none."""
    plan = synthetic(3)
    for asked in (plan.figure, plan.number):
        with pytest.raises(KeyError, match="no figure is named 'rack_violation'"):
            asked("rack_violation")
    assert (plan.figure("unexplained"), plan.number("unexplained")) == (None, 0)


def test_replicas_held_by_brokers_that_leave() -> None:
    """Only living brokers to empty count: a dead one holds nothing that could be served."""
    assert synthetic(3).held_by_leaving == {0: 100}
    assert synthetic(3, dead=True).held_by_leaving == {}
    assert synthetic(3, dead=True).down_brokers == (0,)
