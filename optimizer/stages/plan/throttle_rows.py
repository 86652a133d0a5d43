"""The throttle configs of every wave and of the whole plan, in Kafka's form and in the careful one."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from optimizer.domain import NOT_LIVE, WHOLE_PLAN, Ints
from optimizer.kafka.throttle import ConfigEntry, careful_throttles, config_entries, tool_throttles
from optimizer.schedule.estimate import traffic
from optimizer.schedule.throttle_rate import asked_bytes_per_s, one_for_all, per_broker
from optimizer.settings import Settings
from optimizer.stages.plan.wave_rows import broker_ids, to_changes
from schemas.output import THROTTLES
from schemas.spark import struct_of

# Rows of ``throttles`` without what was set before.
ENTRIES = struct_of(column for column in THROTTLES.columns if column.name != "previous_value")
_COLUMNS = ["wave", "style", "entity_type", "entity_name", "config_name", "config_value"]


def _lists(rows: pd.DataFrame, column: str) -> dict[tuple[str, int], list[int]]:
    keys = zip(rows["topic"], rows["partition"], strict=True)
    return {(topic, int(number)): [int(b) for b in x] for (topic, number), x in zip(keys, rows[column], strict=True)}


def _reachable(entries: list[ConfigEntry], down: set[str]) -> list[ConfigEntry]:
    """Without broker configs that nobody can set, and without topics where nothing is throttled."""
    return [
        entry
        for entry in entries
        if entry[3] and not (entry[0] == "brokers" and entry[1] in down)
    ]  # fmt: skip


def _entries(
    rows: pd.DataFrame, ids: Ints, down: set[str], settings: Settings
) -> Iterator[tuple[str, list[ConfigEntry]]]:
    """Both forms for the partitions of ``rows``; nothing where no replica is copied."""
    changes = to_changes(rows, ids)
    of = traffic(changes, len(ids))
    rate = asked_bytes_per_s(settings.schedule)
    # Of what was empty at the snapshot, too: it may have grown since.
    if not changes.copies.any():
        return
    proposed, current = _lists(rows, "proposed_replicas"), _lists(rows, "current_replicas")
    same = max(one_for_all(of, copy_bytes_per_s=rate), rate)
    yield "kafka", config_entries(tool_throttles(proposed, current), same, same)
    rates = per_broker(of, copy_bytes_per_s=rate)
    # A replica that does not lead now may come to lead: without a rate it would send at full speed.
    leader = dict(zip(ids.tolist(), np.maximum(rates.leader, rate).tolist(), strict=True))
    follower = dict(zip(ids.tolist(), np.maximum(rates.follower, rate).tolist(), strict=True))
    careful = careful_throttles(proposed, current)
    yield "careful", _reachable(config_entries(careful, leader, follower), down)


def throttle_rows(scheduled: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    """Rows of ``ENTRIES`` of one cluster; wave 0 is the whole plan at once.

    Parameters
    ----------
    scheduled : DataFrame
        Rows of ``SCHEDULED`` with waves.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    """
    placed = scheduled[scheduled["wave"].notna()].sort_values(["topic", "partition"], kind="stable")
    if placed.empty:
        return pd.DataFrame(columns=ENTRIES.fieldNames())
    ids = broker_ids(hosts)
    down = {str(b) for b in hosts.loc[hosts["state"].isin(NOT_LIVE), "broker_id"]}
    parts = [
        (WHOLE_PLAN, placed),
        *((w, placed[placed["wave"] == w]) for w in sorted({int(w) for w in placed["wave"]})),
    ]
    content = [
        (wave, style, *entry)
        for wave, rows in parts
        for style, entries in _entries(rows, ids, down, settings)
        for entry in entries
    ]
    frame = pd.DataFrame(content, columns=_COLUMNS)
    frame["cluster_id"], frame["run_id"] = hosts["cluster_id"].iloc[0], hosts["run_id"].iloc[0]
    return frame[ENTRIES.fieldNames()]
