"""Decisions about plans, as ``decision.json`` has them, for tests of the rules of approval."""

from collections.abc import Mapping
from typing import Any

STOPPED = ("without_loss", "by_some_broker", "by_worst_broker", "by_some_rack", "by_worst_rack")
GB = 10**9


def figure(after: float | None = None, before: float | None = None, worst: float | None = None) -> dict[str, Any]:
    """A figure of a plan."""
    return {"label": "", "before": before, "baseline": None, "after": after, "worst_moment": worst}


def decision(**changes: Any) -> dict[str, Any]:
    """A decision about a harmless plan of 298 GB that copies for up to two hours; some fields replaced."""
    figures = {
        "moved_bytes": figure(298.0 * GB),
        "moved_share_percent": figure(1.5),
        "cross_rack_bytes": figure(40.0 * GB),
        "leader_changes": figure(12.0),
        "gap_percent": figure(0.5),
        **{f"stopped_{name}": figure(0.0, 2.0, 4.0) for name in STOPPED},
    }
    usual = {
        "title": "c: 298 GB",
        "captured_at": "2026-10-05T02:00:00+00:00",
        "valid_until": None,
        "verdict": {"state": "green", "headline": "The plan reaches all goals."},
        "goals": [{"name": "balance", "is_reached": True}],
        "notes": [],
        "note_codes": [],
        "requests": ["racks", "balance"],
        "copying": {"waves": 1, "nights": None, "seconds": [3600, 7200], "words": "1 to 2 h"},
        "peak_disk_percent": 71.0,
        "inside_bytes": 5 * GB,
        "consumer_groups": {"noticing": 4},
        "has_racks": True,
    }
    own: Mapping[str, Any] = changes.pop("figures", {})
    return {**usual, **changes, "figures": {**figures, **own}}
