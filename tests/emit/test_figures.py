"""The figures that lead every page, and what the plan knows of its brokers."""

from dataclasses import replace

import pytest

from optimizer.emit.figures import Line, lines
from optimizer.emit.model import Row
from tests.emit.test_pages import synthetic


def figure(name: str, before: float | None, baseline: float | None, after: float | None) -> Row:
    """A row of ``summary``."""
    return {"figure": name, "label": "l", "before": before, "baseline": baseline, "after": after}


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
def test_figures_that_say_nothing_are_left_out(row: Row, told: tuple[str, str, str] | None) -> None:
    """Unknown figures, those without a value, and those of troubles that nobody has take no line."""
    found = list(lines(replace(synthetic(3), summary=[row])))
    assert found == ([] if told is None else [Line(row["figure"], "l", *told)])


def test_replicas_held_by_brokers_that_leave() -> None:
    """Only living brokers to empty count: a dead one holds nothing that could be served."""
    assert synthetic(3).held_by_leaving == {0: 100}
    assert synthetic(3, dead=True).held_by_leaving == {}
    assert synthetic(3, dead=True).dead_brokers == (0,)
