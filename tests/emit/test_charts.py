"""Columns of the report's charts, on clusters small enough to reckon by hand."""

from dataclasses import replace

import pytest

from optimizer.emit.charts import Chart, charts
from tests.emit.test_pages import synthetic


def chart(n_brokers: int, title: str) -> Chart:
    """One chart of a plan that empties broker 0."""
    return next(drawn for drawn in charts(synthetic(n_brokers)) if drawn.title == title)


def test_columns_stand_on_one_scale() -> None:
    """The largest load of any placement is the full height; brokers to empty have a path of their own."""
    drawn = chart(2, "Preferred leaders")
    assert drawn.top == "31"
    assert [panel.path for panel in drawn.panels] == ["M550 0h400v110h-400z"] * 3
    assert [panel.leaving for panel in drawn.panels] == ["M50 3.55h400v106.45h-400z"] * 3
    assert [panel.caption for panel in drawn.panels] == ["before", "Kafka's default", "this plan"]
    assert drawn.band == ""


def test_empty_brokers_have_no_column_and_those_that_leave_no_band() -> None:
    """The band ends at the top of the chart where it reaches further."""
    drawn = chart(2, "Disk")
    assert [panel.leaving for panel in drawn.panels] == [""] * 3
    assert drawn.band == "M500 0h500v7.25h-500z"


@pytest.mark.parametrize(("n_brokers", "mean"), [(2, "31"), (3, "32")])
def test_the_mean_is_that_of_brokers_that_take_part(n_brokers: int, mean: str) -> None:
    """What a broker to empty still has does not count, also where one broker alone takes part."""
    drawn = chart(n_brokers, "Preferred leaders")
    assert drawn.mean == mean
    assert drawn.mean_y == pytest.approx(110 * (1 - (31 if n_brokers == 2 else 31.5) / (29 + n_brokers)))


def test_racks_are_runs_of_columns() -> None:
    """Columns go by rack, and each rack's run has a start, a width and a name; without racks there is none."""
    plan = synthetic(6)
    drawn = charts(plan)[0]
    third = 1000 / 3
    assert [name for _, _, name in drawn.racks] == ["a", "b", "c"]
    assert [number for start, width, _ in drawn.racks for number in (start, width)] == pytest.approx(
        [0, third, third, third, 2 * third, third]
    )
    assert [text for _, text in drawn.labels] == ["0", "3", "1", "4", "2", "5"]
    bare = replace(plan, balance=[replace(row, rack=None) for row in plan.balance])
    assert charts(bare)[0].racks == []


@pytest.mark.parametrize(("n_brokers", "hovers", "labels"), [(40, 40, 40), (41, 41, 0), (150, 150, 0), (151, 0, 0)])
def test_many_brokers_have_no_room_for_words(n_brokers: int, hovers: int, labels: int) -> None:
    """Up to 40 brokers have their ids below; up to 150 show their load under the mouse pointer."""
    drawn = chart(n_brokers, "Replicas")
    assert [len(panel.hover) for panel in drawn.panels] == [hovers] * 3
    assert len(drawn.labels) == labels


def test_what_nobody_has_is_not_drawn() -> None:
    """A resource that is 0 everywhere has no chart, and a cluster without brokers has none at all."""
    titles = ["Disk", "Replicas", "Preferred leaders", "Bytes in per second"]
    assert [drawn.title for drawn in charts(synthetic(12))] == titles
    assert charts(replace(synthetic(12), balance=[])) == []


def test_a_column_says_whose_it_is() -> None:
    """Under the mouse pointer, a column shows the broker and its load."""
    assert [column.title for column in chart(2, "Disk").panels[0].hover] == ["0: 0 B", "1: 91.00 GB"]
