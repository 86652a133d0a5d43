"""Rows of ``throttles`` of one cluster: the config entries of each wave, in both styles."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from optimizer.domain import NOT_LIVE, WHOLE_PLAN, Ints
from optimizer.kafka.throttle import ConfigEntry, careful_throttles, config_entries, tool_throttles
from optimizer.planning.wave_rows import broker_ids, to_changes
from optimizer.schedule.estimate import traffic
from optimizer.schedule.throttle_rate import common_rate, rates_per_broker
from schemas.output import THROTTLES

# Columns of ``throttles`` without the previous value.
COLUMNS = tuple(name for name in THROTTLES.names if name != "previous_value")
_ENTRY_COLUMNS = ["wave", "style", "entity_type", "entity_name", "config_name", "config_value"]


def _lists_by_partition(rows: pd.DataFrame, column: str) -> dict[tuple[str, int], list[int]]:
    keys = zip(rows["topic"], rows["partition"], strict=True)
    return {(topic, int(number)): [int(b) for b in x] for (topic, number), x in zip(keys, rows[column], strict=True)}


def _settable(entries: list[ConfigEntry], down: set[str]) -> list[ConfigEntry]:
    """The entries without configs of brokers that are down, which nobody can set, and without empty values."""
    return [
        entry
        for entry in entries
        if entry[3] and not (entry[0] == "brokers" and entry[1] in down)
    ]  # fmt: skip


def _throttle_entries(rows: pd.DataFrame, ids: Ints, down: set[str]) -> Iterator[tuple[str, list[ConfigEntry]]]:
    """Throttle entries in both styles for the partitions of ``rows``; none if no replica is copied."""
    changes = to_changes(rows, ids)
    load = traffic(changes, len(ids))
    rate = int(rows["copy_bytes_per_s"].min())
    # Also if the partitions were empty at the snapshot: they may have grown since.
    if not changes.copies.any():
        return
    proposed, current = _lists_by_partition(rows, "proposed_replicas"), _lists_by_partition(rows, "current_replicas")
    common = max(common_rate(load, copy_bytes_per_s=rate), rate)
    yield "kafka", config_entries(tool_throttles(proposed, current), common, common)
    rates = rates_per_broker(load, copy_bytes_per_s=rate)
    # A follower may become the leader: without a rate it would send at full speed.
    leader = dict(zip(ids.tolist(), np.maximum(rates.leader, rate).tolist(), strict=True))
    follower = dict(zip(ids.tolist(), np.maximum(rates.follower, rate).tolist(), strict=True))
    careful = careful_throttles(proposed, current)
    yield "careful", _settable(config_entries(careful, leader, follower), down)


def throttle_rows(scheduled: pd.DataFrame, hosts: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``COLUMNS`` of one cluster; wave 0 is the whole plan at once.

    Parameters
    ----------
    scheduled : DataFrame
        Changed rows of ``compare_lists`` with waves.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    """
    placed = scheduled[scheduled["wave"].notna()].sort_values(["topic", "partition"], kind="stable")
    if placed.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    ids = broker_ids(hosts)
    down = {str(b) for b in hosts.loc[hosts["state"].isin(NOT_LIVE), "broker_id"]}
    parts = [
        (WHOLE_PLAN, placed),
        *((w, placed[placed["wave"] == w]) for w in sorted({int(w) for w in placed["wave"]})),
    ]
    content = [
        (wave, style, *entry)
        for wave, rows in parts
        for style, entries in _throttle_entries(rows, ids, down)
        for entry in entries
    ]
    frame = pd.DataFrame(content, columns=_ENTRY_COLUMNS)
    frame["cluster_id"], frame["run_id"] = hosts["cluster_id"].iloc[0], hosts["run_id"].iloc[0]
    return frame[list(COLUMNS)]
