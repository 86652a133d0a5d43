"""Which broken rules are told as causes, which only follow from them, and how limits are told."""

import pytest

from optimizer.stages.validate.quality_figures import FigureLimit
from optimizer.stages.validate.refusal import following_of


@pytest.mark.parametrize(
    ("broken", "following"),
    [
        ({"size_known"}, set()),
        ({"quarantined_share"}, set()),
        ({"quarantined_share", "size_known"}, set()),
        ({"unreadable_files", "size_known", "partitions"}, {"size_known", "partitions"}),
        ({"unreadable_files", "one_cluster_id", "misplaced_partitions"}, set()),
        ({"tool_errors", "undescribed_partitions", "partitions"}, {"undescribed_partitions", "partitions"}),
        ({"no_repeated_broker", "all_partitions_described", "size_known"}, {"all_partitions_described"}),
        ({"no_conflicting_snapshot", "partitions", "quarantined_share"}, {"partitions", "quarantined_share"}),
        ({"capacity_in_range", "quarantined_share"}, {"quarantined_share"}),
        ({"all_partitions_described", "load_of_known_partition"}, set()),
    ],
)
def test_what_follows_is_not_told_as_a_cause(broken: set[str], following: set[str]) -> None:
    """What was not read explains all else; a partition that is set aside explains what names it."""
    assert following_of(broken) == following


@pytest.mark.parametrize(
    ("least", "most", "told"),
    [(1, None, "at least 1"), (None, 0.01, "at most 0.01"), (0.2, 5, "0.2 to 5"), (1, 1, "1")],
)
def test_limits_of_a_figure_read_well(least: float | None, most: float | None, told: str) -> None:
    """Two limits that are one are one number."""
    assert FigureLimit("figure", "table", True, "remedy", least=least, most=most).threshold == told
