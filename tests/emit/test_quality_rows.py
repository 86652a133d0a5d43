"""The quality page from rows of the tables: which checks a row belongs to, and which checks may follow from others."""

from typing import Any

import pytest

from optimizer.emit.quality_rows import first_rows, in_order, page_of
from tests.emit.test_quality_page import failed, result

CAUSED = "Another failed check may be the cause"
UNREAD = failed("unreadable_files", 1)


@pytest.mark.parametrize(
    ("cause", "is_caused"),
    [
        (UNREAD, True),
        ({**UNREAD, "severity": "warning"}, False),
        (result("unreadable_files"), False),
        (result("unreadable_files", severity="warning"), False),
    ],
    ids=["failed", "reported", "passed", "passed warning"],
)
def test_only_a_failed_critical_check_is_a_cause(cause: dict[str, Any], is_caused: bool) -> None:
    """A file that was not read may explain that there are no partitions."""
    text = page_of([cause, failed("partitions", 1)], [], cluster_id="c", run_id="r")
    assert (CAUSED in text) == is_caused


@pytest.mark.parametrize(
    ("rule", "severity", "checks"),
    [
        ("size_known", "warning", ["size_known"]),
        ("size_known", "error", ["quarantined_share", "size_known"]),
        ("log_is_placed", "warning", ["log_is_placed", "misplaced_partitions"]),
        ("log_is_placed", "error", ["log_is_placed", "misplaced_partitions", "quarantined_share"]),
        (None, None, []),
    ],
)
def test_a_row_belongs_to_its_rule_and_to_the_figures_that_count_it(
    rule: str | None, severity: str | None, checks: list[str]
) -> None:
    """Errors count in the share; a row without a rule belongs to no check."""
    row = {"source": "a", "line": 1, "kind": "k", "rule": rule, "severity": severity, "payload": "{}"}
    assert [each["check"] for each in first_rows([row])] == checks


def test_results_are_sorted_by_table_and_rule() -> None:
    """As the job reads them."""
    rows = [result(rule, table_name=table) for table in ("b", "a") for rule in ("y", "x")]
    assert [(row["table_name"], row["rule"]) for row in in_order(rows)] == [
        *(("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")),
    ]
