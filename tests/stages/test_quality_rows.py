"""The examples of the quality page: chosen without Spark, they are the same as with it."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from pyspark.sql import SparkSession

from optimizer.emit import quality_rows
from optimizer.emit.quality_causes import SHARE, UNREAD_RULES
from optimizer.emit.quality_page import EXAMPLES
from optimizer.stages.validate.quality_pages import first_rows
from schemas.bronze import QUARANTINE

Row = dict[str, Any]
TEXT = ("source", "kind", "rule", "severity", "reason", "remedy", "payload")
SCHEMA = "cluster_id string, line bigint, " + ", ".join(f"{name} string" for name in TEXT)
# In UTF-16 the first is before the second, in UTF-8 after it.
EMOJI, LATE = "\U0001f600", "\uff5e"
RULES = ("log_is_described", "log_is_placed", "file_readable", "size_known", "\u00e9", EMOJI, LATE, None)


def row(**values: Any) -> Row:
    """A row of quarantine."""
    usual = {"source": "a.txt", "line": 1, "kind": "sizes", "rule": "size_known", "severity": "error"}
    return {"cluster_id": "c", **usual, "reason": "r", "remedy": "do it", "payload": "{}", **values}


def rows_of(name: str, values: Sequence[Any]) -> list[Row]:
    """Two rows for each value of a column, last first; the reason says which row it is."""
    severities = ("error", "warning")
    pairs = reversed([*product(values, severities)])
    return [row(**{name: value, "severity": severity, "reason": f"{value}"}) for value, severity in pairs]


UNREAD = [row(rule=rule, line=line) for rule in UNREAD_RULES.values() for line in range(8, 0, -1)]
CASES = {
    "no row": [],
    "source": rows_of("source", ("a", "B", "", None, "\u00e9", EMOJI, LATE, "e\u0301", "a\0")),
    "line": rows_of("line", (10, 9, None, 0, -1, 2**40)),
    "kind": rows_of("kind", ("sizes", None, EMOJI, LATE)),
    "payload": rows_of("payload", ("{}", None, "", EMOJI, LATE, "\u00e9", '{"a": 1}')),
    "rule": [row(rule=rule, source=f"{line % 2}", line=line) for rule in RULES for line in range(7)],
    "severity": [row(severity=severity, line=line) for severity in (None, "warning") for line in range(3)],
    "unread": [*UNREAD, *({**each, "severity": "warning"} for each in UNREAD)],
    "equal rows": [row()] * 7,
    "equal places": [row(line=3), row(line=3, kind="loads"), row(line=3, payload="[]")] * 2,
}


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES)
def test_the_same_rows_are_chosen_with_and_without_spark(spark: SparkSession, rows: list[Row]) -> None:
    """Nulls are first and texts are compared by their bytes; rows, numbers and order are the same."""
    chosen = [each.asDict() for each in first_rows(spark.createDataFrame(rows, SCHEMA)).collect()]
    ours = quality_rows.first_rows(rows)
    assert [{name: each[name] for name in chosen[0]} for each in ours] == chosen if chosen else ours == []
    assert {*QUARANTINE.names} - {"run_id"} == {*row()}


def test_every_row_of_a_check_is_counted() -> None:
    """Also the rows that are not shown; rows of one file are in the order of their lines."""
    lines = [*range(2 * EXAMPLES, 0, -1)]
    [own, share] = [
        [each for each in quality_rows.first_rows(row(line=line) for line in lines) if each["check"] == check]
        for check in ("size_known", SHARE)
    ]
    assert [each["line"] for each in own] == [each["line"] for each in share] == [*range(1, EXAMPLES + 1)]
    assert {each["total"] for each in (*own, *share)} == {2 * EXAMPLES}
