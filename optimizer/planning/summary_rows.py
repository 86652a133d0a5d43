"""The figures of the summary of one cluster: before the plan, with Kafka's default, and after the plan."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from optimizer.planning.balance_rows import PLACEMENTS
from optimizer.planning.exposed import BROKER, NONE, RACK, SOME_BROKER, SOME_RACK, TWO_BROKERS
from optimizer.units import SECONDS_PER_HOUR

AFTER, BASELINE, BEFORE = "after", "baseline", "before"
SIDES = (*PLACEMENTS, "worst_moment")
# The figure that counts the partitions that a loss stops.
_FIGURE_OF_LOSS = {
    NONE: "stopped_without_loss",
    BROKER: "stopped_by_worst_broker",
    RACK: "stopped_by_worst_rack",
    SOME_BROKER: "stopped_by_some_broker",
    SOME_RACK: "stopped_by_some_rack",
    TWO_BROKERS: "stopped_by_worst_two_brokers",
}
_AMOUNTS_OF_LOSS = {
    (SOME_BROKER, "lost_bytes"): "lost_by_worst_broker_bytes",
    (SOME_RACK, "lost_bytes"): "lost_by_worst_rack_bytes",
    (SOME_BROKER, "sole_bytes"): "only_on_worst_broker_bytes",
}
_CHANGES = ("moved_bytes", "replicas_moved", "partitions_changed", "leader_changes", "factor_changes")
Row = Mapping[str, Any]
Rows = Sequence[Row]
# Name of a figure, its placement, and its value.
Value = tuple[str, str, float | None]


def summary_rows(
    totals: Row,
    measured: Rows,
    bounds: Rows,
    leader_bounds: Rows,
    waves: Rows,
    exposure: Rows,
    dir_balance: Rows,
    dir_moves: Rows,
    *,
    unexplained: int,
) -> list[dict[str, Any]]:
    """A row for each figure: ``figure`` and the columns of ``SIDES``.

    Parameters
    ----------
    totals : mapping
        ``compared_lists.TOTALS``.
    measured : rows of ``balance_rows.COLUMNS``
    bounds, leader_bounds, waves, exposure, dir_balance, dir_moves : rows of these tables
    unexplained : int
        Findings about partitions that stay without a reason.
    """
    values: Iterable[Value] = (
        *_plan_figures(totals, bounds, waves, unexplained),
        *balance_figures(measured),
        *_leader_figures(leader_bounds),
        *_exposure_figures(exposure),
        *_directory_figures(dir_balance),
        *_inside_figures(dir_balance, dir_moves),
    )
    sides: dict[str, dict[str, float | None]] = defaultdict(lambda: dict.fromkeys(SIDES))
    for figure, side, value in values:
        known = [float(x) for x in (sides[figure][side], value) if x is not None]
        sides[figure][side] = max(known, default=None)
    return [{"figure": figure, **by_side} for figure, by_side in sides.items()]


def _ratio(part: float | None, whole: float | None, times: float = 1.0) -> float | None:
    """None if one is unknown, or the whole is 0."""
    return times * part / whole if part is not None and whole is not None and whole > 0 else None


def _sum(rows: Iterable[Row], name: str) -> int | None:
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known else None


def _plan_figures(totals: Row, bounds: Rows, waves: Rows, unexplained: int) -> Iterator[Value]:
    best = next((row for row in bounds if row["is_best"]), {"bound_bytes": None, "gap_percent": None})
    moved, default_moved = totals["moved_bytes"], totals["default_moved_bytes"]
    between = [row for row in waves if not row["inside_brokers"]]
    waves_bound = max((row["least_total_bytes"] for row in between), default=None)
    after = {name: totals[name] for name in (*_CHANGES, "followers_reordered")} | {
        "unexplained": unexplained,
        "moved_share_percent": _ratio(moved, totals["total_bytes"], 100.0),
        "bound_bytes": best["bound_bytes"],
        "gap_percent": best["gap_percent"],
        "times_default": _ratio(default_moved, moved),
        "waves": max((row["wave"] for row in waves), default=0),
        "estimated_hours": sum(row["estimated_seconds"] for row in waves) / SECONDS_PER_HOUR,
        "waves_bound_bytes": waves_bound,
        "waves_over_bound": _ratio(_sum(between, "busiest_bytes"), waves_bound),
    }
    if totals["tiered_stored_bytes"]:
        after |= {name: totals[name] for name in ("tiered_stored_bytes", "tiered_moved_bytes")}
    default = {name: totals[f"default_{name}"] for name in _CHANGES} | {
        "moved_share_percent": _ratio(default_moved, totals["total_bytes"], 100.0),
        "baseline_refused": totals["baseline_refused"],
    }
    before = {name: totals[name] for name in ("partitions", "min_isr_unknown")}
    for side, figures in ((BEFORE, before), (BASELINE, default), (AFTER, after)):
        yield from ((name, side, value) for name, value in figures.items())


def balance_figures(measured: Rows) -> Iterator[Value]:
    """Figures of the brokers in each placement, from rows of ``balance_rows.COLUMNS``."""
    for side in PLACEMENTS:
        rows = [row for row in measured if row["placement"] == side]
        if rows:
            yield from ((name, side, value) for name, value in _balance(rows, side).items())


def _balance(rows: Rows, side: str) -> dict[str, float | None]:
    """Figures of the brokers in one placement."""
    accepting = [row for row in rows if row["accepts_replicas"]]

    def over_mean(name: str, extreme: Callable[[Iterable[float]], float]) -> float | None:
        loads = [row[name] for row in accepting]
        return _ratio(extreme(loads), sum(loads) / len(loads)) if loads else None

    def spread(name: str) -> float | None:
        counts = [row[name] for row in accepting]
        return max(counts) - min(counts) if counts else None

    return {
        "rack_violations": _sum(rows, "rack_violations"),
        "replicas_on_leaving_brokers": sum(row["replicas"] for row in rows if row["must_empty"]),
        "brokers_outside_bands": sum(not row["in_band"] for row in rows),
        "disk_max_over_mean": over_mean("disk_bytes", max),
        "disk_min_over_mean": over_mean("disk_bytes", min),
        "in_max_over_mean": over_mean("in_bytes_per_s", max),
        "out_max_over_mean": over_mean("out_bytes_per_s", max),
        "replicas_spread": spread("replicas"),
        "leaders_spread": spread("leaders"),
        "brokers": len(accepting),
        "replicas": _sum(rows, "replicas"),
        "total_bytes": _sum(rows, "disk_bytes"),
        "cross_rack_bytes": _sum(rows, "cross_rack_bytes"),
        "cross_rack_percent": _ratio(_sum(rows, "cross_rack_bytes"), _sum(rows, "copied_bytes"), 100.0),
        **{
            name: _sum(rows, name) if side == AFTER else None
            for name in ("near_leader_bytes", "near_leader_partitions")
        },
    }


def _leader_figures(leader_bounds: Rows) -> Iterator[Value]:
    """The bounds of ``leader_bounds``, and the plan's measures; the totals count the leader changes."""
    for row in leader_bounds:
        yield f"{row['measure']}_bound", AFTER, row["bound"]
        if row["measure"] != "leader_changes":
            yield row["measure"], AFTER, row["planned"]


def _exposure_figures(exposure: Rows) -> Iterator[Value]:
    """Partitions that losses stop: by one loss or another, and by the worst; what the worst lose; the busiest leader
    after a loss; and the busiest leader of the worst wave if leaving replicas led meanwhile."""
    for row in exposure:
        figures = {_FIGURE_OF_LOSS[row["loss"]]: row["writes_stopped"]}
        if row["loss"] == BROKER:
            figures["busiest_after_broker_loss"] = row["busiest_over_mean"]
        figures |= {name: row[amount] for (loss, amount), name in _AMOUNTS_OF_LOSS.items() if row["loss"] == loss}
        for figure, value in figures.items():
            if row["moment"] in (BEFORE, AFTER):
                yield figure, row["moment"], value
            if row["loss"] != TWO_BROKERS:  # of which the moments in between have no row
                yield figure, "worst_moment", value
        yield "near_leader_busiest_over_mean", AFTER, row["near_leader_busiest_over_mean"]


def _directory_figures(dir_balance: Rows) -> Iterator[Value]:
    """The fullest of the directories that may get replicas, with a known capacity."""
    for row in (row for row in dir_balance if row["is_open"]):
        for side, name in ((BEFORE, "before_bytes"), (AFTER, "after_bytes"), ("worst_moment", "peak_bytes")):
            yield "fullest_directory_percent", side, _ratio(row[name], row["capacity_bytes"], 100.0)
        yield "kafka_directory_percent", "worst_moment", _ratio(row["default_peak_bytes"], row["capacity_bytes"], 100.0)


def _inside_figures(dir_balance: Rows, dir_moves: Rows) -> Iterator[Value]:
    """Moves inside brokers, their bound, and directories outside their bands; nothing unless they are balanced.

    What stays outside the bands need not move, so it is subtracted from the bound of each broker.
    """
    banded = [row for row in dir_balance if row["lower_bytes"] is not None]
    if not banded and not dir_moves:
        return
    moved = Counter[tuple[int, str]]()
    for row in dir_moves:
        moved[row["broker_id"], row["to_log_dir"]] += row["size_bytes"]
        moved[row["broker_id"], row["from_log_dir"]] -= row["size_bytes"]
    over, under, before, after = Counter[int](), Counter[int](), 0, 0
    for row in banded:
        load = row["after_bytes"] - moved[row["broker_id"], row["log_dir"]]  # before the moves inside brokers
        for side, was, is_now in (
            (over, load - row["upper_bytes"], row["after_bytes"] - row["upper_bytes"]),
            (under, row["lower_bytes"] - load, row["lower_bytes"] - row["after_bytes"]),
        ):
            side[row["broker_id"]] += max(was, 0) - max(is_now, 0)
        before += not row["lower_bytes"] <= row["before_bytes"] <= row["upper_bytes"]
        after += not row["lower_bytes"] <= row["after_bytes"] <= row["upper_bytes"]
    yield "dir_moves", AFTER, len(dir_moves)
    yield "dir_moved_bytes", AFTER, sum(row["size_bytes"] for row in dir_moves)
    yield "dir_bound_bytes", AFTER, sum(max(over[broker], under[broker], 0) for broker in over)
    yield "dirs_outside_bands", BEFORE, before
    yield "dirs_outside_bands", AFTER, after
