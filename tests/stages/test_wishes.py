"""Reassignment JSON that is not the state of the cluster: refused, or left out if other files have the state."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from optimizer.stages.ingest.ingest import without_plan_documents
from sources.record import Record
from tests.stages.bronze import bronze, partition

STATE, BARE, BEGUN = ((False, False), (True, False), (False, True))


def document(number: int, replicas: list[int], flags: tuple[bool, bool]) -> Record:
    """An entry of reassignment JSON."""
    named_flags = dict(zip(("bare", "begun"), flags, strict=True))
    return Record("assignment", 4 + number, {"topic": "t", "partition": number, "replicas": replicas, **named_flags})


LIST = Record("reassignment", 9, {"topic": "t", "partition": 0, "replicas": [1, 2], "adding": [], "removing": []})
CASES: dict[str, tuple[list[Record], bool, dict[str, int], str]] = {
    "what was printed as current is the state": ([document(0, [1, 2], STATE)], False, {"assignment": 1}, ""),
    "a bare document is refused": (
        [document(1, [1, 2], BARE), document(0, [1, 2], BARE)],
        False,
        {},
        "error: 2 replica lists of bare reassignment JSON may be a plan",
    ),
    "a bare document may be allowed": ([document(0, [1, 2], BARE)], True, {"assignment": 1}, ""),
    "a bare document next to descriptions is not used": (
        [document(0, [1, 2], BARE), partition(7, [1, 2])],
        False,
        {"partition": 1},
        "warning: 1 replica list of bare reassignment JSON is not used",
    ),
    "a move that was begun is refused": (
        [document(0, [1, 2], BEGUN)],
        True,
        {},
        "error: 1 replica list shows the state before a reassignment",
    ),
    "a description from before the move does not help": (
        [document(0, [1, 2], BEGUN), partition(0, [1, 2])],
        False,
        {"partition": 1},
        "error: 1 replica list shows the state before",
    ),
    "a description of the move does": (
        [document(0, [1, 2], BEGUN), partition(0, [1, 2, 3], adding=[3])],
        False,
        {"partition": 1},
        "warning: 1 replica list shows the state before",
    ),
    "a description of what came of it does": (
        [document(0, [1, 2], BEGUN), document(1, [1, 2], BEGUN), partition(0, [3, 2]), partition(1, [1, 2])],
        False,
        {"partition": 2},
        "warning: 2 replica lists show the state before",
    ),
    "a list of moves does": (
        [document(0, [1, 2], BEGUN), LIST],
        False,
        {"reassignment": 1},
        "warning: 1 replica list shows the state before",
    ),
}


@pytest.mark.parametrize(("records", "are_state", "counts", "message"), CASES.values(), ids=CASES)
def test_a_plan_is_not_the_state(
    spark: SparkSession, records: list[Record], are_state: bool, counts: dict[str, int], message: str
) -> None:
    """One record a source says what was left out, with the first line; it stops the run if nothing else is known."""
    rows = without_plan_documents(bronze(spark, {"c": records}), are_state=are_state).collect()
    kinds = {row.kind for row in rows} - {"malformed"}
    assert {kind: sum(row.kind == kind for row in rows) for kind in kinds} == counts
    payloads: list[dict[str, Any]] = [json.loads(row.payload) for row in rows if row.kind == "malformed"]
    assert len(payloads) == bool(message)
    for payload in payloads:
        assert f"{payload['severity']}: {payload['reason']}".startswith(message)
        assert (payload["rule"], bool(payload["remedy"])) == ("state_not_wish", True)
    assert len({(row.source, row.ordinal) for row in rows}) == len(rows)
