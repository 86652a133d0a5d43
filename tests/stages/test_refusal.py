"""Which broken rules are causes and which are consequences, and the words for limits."""

import pytest

from optimizer.emit.quality_causes import OF_PLACEMENTS, QUARANTINING, consequences_of
from optimizer.stages.validate import cross_rules, rule_table
from optimizer.stages.validate.quality_figures import FigureLimit
from optimizer.stages.validate.rule import Severity


@pytest.mark.parametrize(
    ("broken", "consequences"),
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
def test_a_consequence_is_not_a_cause(broken: set[str], consequences: set[str]) -> None:
    """Unread input may explain all other rules; a quarantined partition explains the rules about it."""
    assert consequences_of(broken) == consequences


def test_the_listed_rules_are_those_that_quarantine() -> None:
    """Pages are also written without Spark, so their module names the rules; a new rule belongs there too."""
    placements = (*rule_table.PLACEMENTS, *rule_table.SNAPSHOTS)
    assert {rule.name for rule in placements if rule.severity is Severity.ERROR} == OF_PLACEMENTS
    rules = (*rule_table.RULES, *cross_rules.RULES)
    assert {rule.name for rule in rules if rule.severity is Severity.ERROR} == QUARANTINING


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [(1, None, "at least 1"), (None, 0.01, "at most 0.01"), (0.2, 5, "0.2 to 5"), (1, 1, "1")],
)
def test_words_for_the_limits_of_a_figure(least: float | None, most: float | None, words: str) -> None:
    """Equal limits are shown as one number."""
    assert FigureLimit("figure", "table", True, "remedy", least=least, most=most).threshold == words
