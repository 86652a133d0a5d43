"""The rows of one cluster by table, in the order of their keys, from the frame of ``gather_rows``."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

Tables = Mapping[str, list[dict[str, Any]]]
_ORDER = {
    "plan": ("topic", "partition"),
    "moves": ("topic", "partition", "reason", "size_bytes"),
    "waves": ("wave",),
    "throttles": ("wave", "style", "entity_type", "entity_name", "config_name"),
    "throttles_found": ("entity_type", "entity_name", "config_name"),
    "broker_balance": ("broker_id", "placement"),
    "plan_summary": ("position",),
    "rack_flow": ("wave", "from_rack", "to_rack"),
    "broker_waves": ("wave", "broker_id"),
    "dir_balance": ("broker_id", "log_dir"),
    "dir_moves": ("wave", "topic", "partition", "broker_id"),
    "consumer_load": ("group_id", "member_id"),
    "consumer_impact": ("group_id",),
    "alternatives": ("position", "figure"),
    "curve": ("move_price",),
    "bounds": ("kind",),
    "findings": ("rule", "topic", "partition", "broker_id", "resource", "when", "subject"),
    "wave_findings": ("rule", "topic", "subject", "when"),
    "sources": ("source",),
    "quality_results": ("table_name", "rule"),
    "input_findings": ("standing", "rule"),
    "instance": ("topic", "partition"),
    "instance_brokers": ("broker_id",),
    "documents": ("path",),
}


def tables_of(group: pd.DataFrame) -> Tables:
    """Rows by table, each in the order of its key, nulls last; a table without rows is empty."""
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in _ORDER}
    for name, text in zip(group["table"], group["row"], strict=True):
        tables[name].append(json.loads(text))
    for name, rows in tables.items():
        rows.sort(key=partial(_sort_key, _ORDER[name]))
    return tables


def _sort_key(columns: Sequence[str], row: Mapping[str, Any]) -> list[tuple[bool, Any]]:
    return [(row[column] is None, row[column]) for column in columns]
