"""Rows of one cluster's tables, as documents get them."""

import json
from typing import Any

import pandas as pd

from optimizer.stages.emit.gather import tables_of

FINDING = {"rule": "band", "topic": None, "partition": None, "broker_id": None, "resource": None, "when": "after"}


def in_order(*rows: dict[str, Any]) -> list[str]:
    """Subjects of some findings in the order in which documents get them."""
    texts = [json.dumps({**FINDING, **row}) for row in rows]
    group = pd.DataFrame({"table": "findings", "row": texts})
    return [row["subject"] for row in tables_of(group)["findings"]]


def test_findings_are_sorted_by_numbers_as_numbers() -> None:
    """Broker 2 comes before broker 10, partition 9 before 12; what is about none comes last, then words decide."""
    partitions = [{"rule": "not_free", "topic": "t", "partition": p, "subject": f"t-{p}"} for p in (12, 9)]
    brokers = [
        {"broker_id": broker, "resource": resource, "subject": f"broker {broker} {resource}"}
        for broker in (10, 2)
        for resource in ("in", "disk")
    ]
    others = [{"subject": "z"}, {"subject": "a"}, {"subject": "m", "when": "both"}]
    expected = ["broker 2 disk", "broker 2 in", "broker 10 disk", "broker 10 in", "a", "z", "m", "t-9", "t-12"]
    assert in_order(*partitions, *others, *brokers) == expected
