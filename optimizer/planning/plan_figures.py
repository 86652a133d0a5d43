"""All figures of a plan: those of ``plan_summary``, and those that several tables give together."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from optimizer.planning.exposed import NONE
from optimizer.units import SECONDS_PER_HOUR

BEFORE, AFTER = "before", "after"
Figures = Mapping[str, tuple[float | None, float | None]]


def figures_of(tables: Mapping[str, pd.DataFrame], hosts: pd.DataFrame) -> Figures:
    """Figures of a plan, by name: those of ``plan_summary``, hours, disks, and partitions that are offline.

    Parameters
    ----------
    tables : mapping
        ``plan_summary``, ``waves``, ``measured`` and ``exposure``.
    hosts : DataFrame
        With ``disk_capacity_bytes``.
    """
    figures: dict[str, tuple[float | None, float | None]] = {
        str(row["figure"]): (_value(row[BEFORE]), _value(row[AFTER]))
        for row in tables["plan_summary"][["figure", BEFORE, AFTER]].to_dict("records")
    }
    for name in ("least_seconds", "most_seconds"):
        seconds = tables["waves"][name] if len(tables["waves"]) else pd.Series([0])
        known = None if seconds.isna().any() else float(seconds.sum()) / SECONDS_PER_HOUR
        figures[name.replace("seconds", "hours")] = (None, known)
    figures["fullest_disk_percent"] = (
        _fullest(tables["measured"], hosts, BEFORE),
        _fullest(tables["measured"], hosts, AFTER),
    )
    without_loss = tables["exposure"][tables["exposure"]["loss"] == NONE].set_index("moment")["offline"]
    figures["offline"] = (_value(without_loss.get(BEFORE)), _value(without_loss.get(AFTER)))
    return figures


def _value(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _fullest(measured: pd.DataFrame, hosts: pd.DataFrame, placement: str) -> float | None:
    """The largest share of a disk that is used, in percent; None if a capacity is unknown."""
    percents = disk_percents(measured, hosts, placement)
    return max(percents) if percents else None


def disk_percents(measured: pd.DataFrame, hosts: pd.DataFrame, placement: str) -> list[float]:
    """Used share of each disk that holds something, in percent, by broker id; empty if a capacity is unknown.

    Parameters
    ----------
    measured : DataFrame
        Rows of ``broker_balance``.
    hosts : DataFrame
        With ``disk_capacity_bytes``.
    """
    rows = measured[measured["placement"] == placement].merge(
        hosts[["broker_id", "disk_capacity_bytes"]], on="broker_id"
    )
    rows = rows[rows["disk_bytes"] > 0]
    if rows.empty or rows["disk_capacity_bytes"].isna().any():
        return []
    ordered = rows.sort_values("broker_id")
    return [*(100 * ordered["disk_bytes"].astype(float) / ordered["disk_capacity_bytes"].astype(float))]
