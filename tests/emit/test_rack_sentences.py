"""Sentences about copied bytes: between racks and of tiered topics, and where they are."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.rack_sentences import cross_rack_cost, near_leaders, tiered
from optimizer.emit.rows import FigureRow
from tests.emit.test_pages import GB, page, synthetic

FIGURES = {
    "cross_rack_bytes": 680 * GB,
    "cross_rack_percent": 68,
    "near_leader_bytes": 560 * GB,
    "near_leader_partitions": 148,
    "near_leader_busiest_over_mean": 2.866,
}


def crossing(price: float = 0, changes: Mapping[str, float | None] | None = None) -> ClusterPlan:
    """A plan with these figures after it."""
    figures: dict[str, float | None] = {**FIGURES, **(changes or {})}
    rows = [FigureRow(name, name, None, None, value) for name, value in figures.items()]
    return replace(synthetic(3), summary=rows, cross_rack_price_per_gb=price)


def test_bytes_between_racks_cost_their_price() -> None:
    """The sentence names the bytes, the price and its result."""
    expected = "Copying 680 GB between racks costs about 13.60 at the given price of 0.02 per GB."
    assert cross_rack_cost(crossing(0.02)) == expected
    assert "about 6,800,000.00 at the given price of 10000 per GB" in cross_rack_cost(crossing(10_000))


@pytest.mark.parametrize(
    "plan", [crossing(), crossing(1, {"cross_rack_bytes": 0}), crossing(1, {"cross_rack_bytes": None})]
)
def test_without_a_price_or_bytes_no_cost_is_shown(plan: ClusterPlan) -> None:
    """A price of 0 means that it is unknown; unknown racks mean unknown bytes."""
    assert cross_rack_cost(plan) == ""


def test_other_leaders_would_save_bytes_and_cost_leader_changes() -> None:
    """The share that would be left, the bytes saved, two leader changes for each partition, the busiest leader."""
    text = near_leaders(crossing())
    assert text.startswith("68 % of the copied bytes cross racks. It would be 12 % (560 GB less) if the leaving")
    changes = "it takes 296 more leader changes, two per partition."
    assert text.endswith(f"{changes} Meanwhile the busiest leader would be at 2.87x the mean.")
    assert near_leaders(crossing(0, {"near_leader_busiest_over_mean": None})).endswith(changes)
    assert "it takes 2 more leader changes" in near_leaders(crossing(0, {"near_leader_partitions": 1}))


@pytest.mark.parametrize("changes", [{"near_leader_bytes": 0}, {"near_leader_bytes": None}, dict.fromkeys(FIGURES)])
def test_other_leaders_that_save_nothing_are_not_mentioned(changes: dict[str, float | None]) -> None:
    """Without known racks there are no such figures."""
    assert near_leaders(crossing(0, changes)) == ""


def test_tiered_topics_are_one_sentence_on_the_pages() -> None:
    """What is stored and what is copied; without copies of tiered topics there is no such figure."""
    plan = crossing(0, {"tiered_stored_bytes": 3_100 * GB, "tiered_moved_bytes": 400 * GB})
    sentence = "Tiered: 3.10 TB are stored, 400 GB are copied."
    assert tiered(plan) == sentence
    assert sentence in page(plan, "report.html")
    assert sentence in " ".join(page(plan, "summary.txt").split())
    assert tiered(crossing()) == ""


def test_pages_show_the_sentences() -> None:
    """Summary and report have the cost and the other leaders; the report has no empty paragraph."""
    plan = crossing(0.02)
    summary, report = " ".join(page(plan, "summary.txt").split()), page(plan, "report.html")
    assert cross_rack_cost(plan) in summary
    assert near_leaders(plan) in summary
    assert "<small>68 % of the copied bytes; costs about 13.60</small>" in report
    assert '<p class="key"></p>' not in page(crossing(0, {"near_leader_bytes": 0}), "report.html")
    assert "680 GB" in summary
