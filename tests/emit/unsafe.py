"""A plan that is unsafe and has a row of every kind. The cells of a row differ, so a swapped column is noticed.

Names are hostile: a page that does not escape them loses a part of the text.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

from optimizer.emit import rows
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.figure_table import FIGURES
from optimizer.emit.requested import Requested

GB, MB = 10**9, 10**6
DAY = 1_793_482_200  # 2026-10-31 21:30 UTC, Unix time
HOUR = 3600
CAPACITY = 1000 * GB
RACKS = ("r<b>2", "r&amp;1", "r</td>3")
WINDOW_HOURS = 2
_UNITS = {"_bytes": GB, "_per_s": MB, "_seconds": 6, "_messages": 1}
R = TypeVar("R", bound=rows.TableRow)
SLOW = (203, 204)  # hours of the second alternative that are unknown


def distinct(cls: type[R], number: int, **given: Any) -> R:
    """A row with a hundred of its own in each column, and ``number`` in it; names have the name of the column."""
    values = dict[str, Any]()
    for position, field in enumerate(fields(cls), start=1):
        amount, kinds = 100 * position + number, str(field.type)
        unit = next((unit for end, unit in _UNITS.items() if field.name.endswith(end)), 1)
        if "bool" in kinds:
            values[field.name] = False
        elif "Sequence" in kinds:
            values[field.name] = ()
        elif "float" in kinds:
            values[field.name] = amount + amount / 1000
        else:
            values[field.name] = amount * unit if "int" in kinds else f"{field.name} <b>{number}"
    return cls(**values | given)


def _of_brokers(n_brokers: int, racks: Sequence[str]) -> dict[str, Any]:
    """Brokers of every kind, loads, and what two waves copy; the first and the last broker copy nothing."""
    kinds: dict[int, dict[str, Any]] = {
        2: {"must_empty": True, "accepts_replicas": False},
        3: {"state": "dead", "must_empty": True, "accepts_replicas": False, "disk_capacity_bytes": None},
        4: {"state": "fenced"},
        5: {"accepts_replicas": False},
        7: {"rack": None},
        11: {"state": "dead", "must_empty": True, "accepts_replicas": False},
    }
    brokers = [
        rows.BrokerRow(**{
            "broker_id": b, "rack": racks[b % len(racks)], "state": "alive", "accepts_replicas": True,
            "must_empty": False, "disk_capacity_bytes": CAPACITY, **kinds.get(b, {}),
        })
        for b in range(1, n_brokers + 1)
    ]  # fmt: skip
    balance = [
        distinct(
            rows.LoadRow, 20 * b + side, broker_id=b, placement=placement, rack=brokers[b - 1].rack,
            disk_bytes=(10 + (7 * b + 23 * side) % 80) * 10 * GB,
            disk_lower_bytes=(20 + 4 * side + b % 9) * 10 * GB, disk_upper_bytes=(50 + 8 * side + b % 7) * 10 * GB,
            **{"replicas": 0} if (b, side) == (6, 0) else {},
        )
        for side, placement in enumerate(("before", "baseline", "after"))
        for b in range(1, n_brokers + 1)
    ]  # fmt: skip
    busy = [
        distinct(
            rows.BrokerWaveRow, 3 * b + wave, wave=wave, broker_id=b, busy_seconds=360 * ((13 * b) % 71 + wave),
            peak_disk_bytes=(850 + 100 * (wave == 1 + b % 2) + (11 * b) % 50) * GB,
        )
        for wave in (1, 2)
        for b in range(2, n_brokers)
    ]  # fmt: skip
    return {"brokers": brokers, "balance": balance, "broker_waves": busy}


def _waves() -> list[rows.WaveRow]:
    """Two between brokers, the first late in its night, and one that never ends; one inside brokers."""
    night = {"starts_at": DAY, "ends_at": DAY + 9 * HOUR, "night_ends_at": DAY + 8 * HOUR, "time_zone": "Europe/Paris"}
    none = {"starts_at": None, "ends_at": None, "night_ends_at": None, "time_zone": None}
    in_time = {
        "starts_at": DAY + 24 * HOUR, "ends_at": DAY + 27 * HOUR, "night_ends_at": DAY + 32 * HOUR, "time_zone": "UTC",
    }  # fmt: skip
    return [
        distinct(rows.WaveRow, 10, wave=1, **night),
        distinct(rows.WaveRow, 20, wave=2, **in_time),
        distinct(rows.WaveRow, 30, wave=3, replicas_moved=0, below_floor=True, busiest_broker=None, **none),
        distinct(rows.WaveRow, 40, wave=4, inside_brokers=True, least_seconds=5400, most_seconds=5400, **none),
    ]


def _changes() -> dict[str, Any]:
    """Partitions of three topics, with a copy for each reason but one; a removed replica is none."""
    partitions = [("small<i>", 3, 1, 1), ("large<b>", 0, 3, 4), ("large<b>", 1, 2, 7), ("<u>none", 5, 2, 0)]
    changed = [
        distinct(
            rows.PlanRow, number, topic=topic, partition=number, current_replicas=[1, 2], leader=1,
            baseline_replicas=[4, 2], proposed_replicas=[6, 7], reason_codes=["rack"], wave=wave,
            log_dirs=["any", "any"], moved_bytes=size * 100 * GB,
        )
        for topic, number, wave, size in partitions
    ]  # fmt: skip
    reasons = ("balance", "drain", "rack", "balance", "drain")
    moves = [
        rows.MoveRow(topic, number, 41 + number, 61 + number, (50 + 30 * number + wave) * GB, reason)
        for (topic, number, wave, _), reason in zip(partitions, reasons, strict=False)
    ]
    added = rows.MoveRow("large<b>", 1, None, 91, 300 * GB, "replication")
    removed = rows.MoveRow("large<b>", 0, 40, None, 0, "drain")
    inside = [
        rows.DirMoveRow("inner<b>", 30 + n, broker, [1, 2], f"/from<b>{n}", f"/to<b>{n}", size * GB, 4, "id")
        for n, (broker, size) in enumerate([(5, 20), (6, 90), (5, 40)])
    ]
    return {"changed": changed, "moves": [*moves, added, removed], "dir_moves": inside}


def _directories() -> list[rows.DirectoryRow]:
    """Over the limit, closed and outside the band, of unknown capacity, and without a band."""
    capacity = {"capacity_bytes": 2000 * GB}
    inside = {"lower_bytes": 700 * GB, "upper_bytes": 950 * GB}
    return [
        distinct(rows.DirectoryRow, 7, is_open=True, limit_bytes=1800 * GB, **capacity, **inside),
        distinct(rows.DirectoryRow, 14, after_bytes=1010 * GB, **capacity),
        distinct(rows.DirectoryRow, 28, is_open=True, capacity_bytes=None, limit_bytes=None, peak_wave=None),
        distinct(rows.DirectoryRow, 21, is_open=True, **capacity, lower_bytes=None, upper_bytes=None),
    ]


def _consumers() -> dict[str, Any]:
    """Groups that notice racks, leaders, copies and nothing, and one that nobody knows; three members."""

    def group(number: int, *waves: tuple[int, int, int, int], **given: Any) -> rows.ConsumerImpactRow:
        names = ("wave", "rack_set_changes", "leader_changes", "copied")
        of_waves = [{**dict(zip(names, wave, strict=True)), "rack_list_changes": 0} for wave in waves]
        sums = {name: sum(wave[name] for wave in of_waves) for name in names[1:]}
        usual = {"is_known": True, "protocol": "classic", "waves": of_waves}
        return distinct(rows.ConsumerImpactRow, number, **{**usual, **sums, **given})

    unknown = dict.fromkeys(("rack_set_changes", "leader_changes", "copied", "lag_messages"))
    groups = [
        group(1, (1, 0, 0, 8)),
        group(2, (1, 0, 5, 6), (3, 0, 2, 3)),
        group(3, (1, 4, 0, 9), (2, 3, 1, 0)),
        group(4, (2, 40, 6, 1), protocol="consumer"),
        group(5, state=None, assignor=None),
        group(6, (3, 2, 0, 9)),
        group(7, is_known=False, **unknown),
    ]
    members = [
        distinct(rows.ConsumerLoadRow, number, brokers=[number, 8], brokers_after=[9, number], **given)
        for number, given in ((1, {}), (2, {"client_id": None, "host": None}), (3, {"in_bytes_per_s": None}))
    ]
    return {"consumer_groups": groups, "consumer_members": members}


def _figures() -> list[rows.FigureRow]:
    """All figures, with four values of their own; one that is 0 everywhere, and one that is known only after."""
    found = []
    for number, figure in enumerate(FIGURES):
        values = [(100 + 10 * number + side) * (GB if figure.name.endswith("_bytes") else 1) for side in range(4)]
        row = rows.FigureRow(figure.name, f"{figure.label} <b>", *values)
        found.append(row)
    changes: dict[str, dict[str, Any]] = {
        "unexplained": {"before": 0, "baseline": 0, "after": 0, "worst_moment": 0},
        "moved_share_percent": {"before": None, "baseline": None},
        "stopped_by_some_rack": {"worst_moment": None},
    }
    return [rows.FigureRow(**{**vars(row), **changes.get(row.figure, {})}) for row in found]


def _findings() -> dict[str, Any]:
    """Findings that endanger, stay, are fixed and are similar; input that contradicts, was left out, and is noted."""
    codes = [
        ("band", "after"), ("limited", "after"), ("stops_writes", "during"), ("rack_spread", "before"),
        ("dead_broker", "both"), ("not_pinned", "both"),
    ]  # fmt: skip
    found = [
        distinct(rows.FindingRow, n, code=code, when=when, cause=None, topic=None, broker_id=None, resource=None)
        for n, (code, when) in enumerate(codes)
    ]
    similar = [
        distinct(rows.FindingRow, n, code="not_emptied", when="after", cause=None, resource=None, topic="t")
        for n in range(10, 14)
    ]
    standings: dict[str, dict[str, Any]] = {
        "noted": {}, "broken": {"rows": 1}, "left_out": {}, "contradicts": {"remedy": ""},
    }  # fmt: skip
    inputs = [
        distinct(rows.InputFindingRow, n, **{"standing": standing, **given})
        for n, (standing, given) in enumerate(standings.items())
    ]
    return {"findings": [*found, *similar], "input_findings": inputs}


def unsafe(n_brokers: int = 8, racks: Sequence[str] = RACKS) -> ClusterPlan:
    """The plan. With over 60 brokers or 12 racks the page has other tables."""
    flow = [
        rows.RackFlowRow(source, target, (20 + 10 * a**3 + 3 * b + again) * GB)
        for a, source in enumerate(racks)
        for b, target in enumerate(racks)
        for again in range(2)
        if (a, b) != (0, 1)
    ]
    alternatives = [
        rows.AlternativeRow(number, f"other <b>{number}", f"knobs <b>{number}", name, None if value in SLOW else value)
        for number in (2, 1)
        for value, name in enumerate(
            ("moved_bytes", "replicas_moved", "waves", "least_hours", "most_hours", "fullest_disk_percent",
             "brokers_outside_bands", "rack_violations", "replicas_on_leaving_brokers", "stopped_by_worst_rack"),
            start=100 * number,
        )
    ]  # fmt: skip
    return ClusterPlan(
        cluster_id="c", run_id="r", throttle_style="careful", plan_log_dirs=False, copy_bytes_per_s=50 * MB,
        waves=_waves(), throttles=[], summary=_figures(), rack_flow=flow, alternatives=alternatives,
        bounds=[distinct(rows.BoundRow, n, kind=kind, is_best=n == 1) for n, kind in enumerate(("flow", "lagrangian"))],
        quality=[distinct(rows.QualityRow, n, success=n > 1) for n in range(5)],
        sources=[
            distinct(rows.SourceRow, n, captured_at=at, has_state=True) for n, at in enumerate((DAY, None, DAY - 600))
        ],
        curve=[distinct(rows.CurveRow, n) for n in (50, 10, 30)], directories=_directories(), requested=Requested(),
        window_hours=WINDOW_HOURS, code_version="1", **_of_brokers(n_brokers, racks), **_changes(), **_consumers(),
        **_findings(),
    )  # fmt: skip
