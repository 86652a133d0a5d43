"""Which broken rules are told as causes, and which only follow from them."""

import pytest

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
