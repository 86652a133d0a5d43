"""The report: one HTML page that is complete without other files, scripts and network."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.emit.broker_lines import (
    MOST_DRAWN,
    BrokerLine,
    broker_lines,
    fullest_disks,
    has_capacities,
    most_loaded,
    rack_lines,
)
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.decision import Decision
from optimizer.emit.directory_lines import fullest_directories
from optimizer.emit.figure_table import BALANCE, COST
from optimizer.emit.findings import by_remedy, count_findings, first_lines, fixed_or_noted, open_findings
from optimizer.emit.goals import origin, validity
from optimizer.emit.inside_sentences import directories_in_words, moves_in_words
from optimizer.emit.pages import render, text_of
from optimizer.emit.proofs import LEAVES_NO_MORE, proof
from optimizer.emit.rack_sentences import near_leaders, tiered
from optimizer.emit.report import movement
from optimizer.emit.report.readers import readers
from optimizer.emit.rows import CurveRow
from optimizer.emit.shown_figures import (
    band_note,
    factors_text,
    leader_proof,
    limited,
    lines,
    loss_lines,
    loss_note,
    restarts,
)
from optimizer.emit.summary import execution
from optimizer.units import SECONDS_PER_HOUR, human_bytes, human_count, human_hours, human_percent, human_ratio

THIS_PLAN = "this plan"


COLUMNS: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("moved_bytes", "bytes copied", human_bytes),
    ("replicas_moved", "replicas copied", human_count),
    ("waves", "waves", human_count),
    ("most_hours", "time", human_hours),
    ("fullest_disk_percent", "fullest disk", human_percent),
    ("disk_max_over_mean", "fullest disk, over the mean", human_ratio),
    ("brokers_outside_bands", "brokers outside the bands of this plan", human_count),
    ("rack_violations", "break the rack rule", human_count),
    ("replicas_on_leaving_brokers", "on brokers to empty", human_count),
    ("stopped_by_worst_rack", "stopped by the worst rack", human_count),
)
_ABOUT = {
    "bands x 2": "all bands twice as wide",
    "only urgent": "no balance: only dead brokers and those to empty, racks, pins and replication factors",
    "half the bytes": "the most important half of the bytes",
    "no limit": "without the limits on bytes and replicas",
}
Values = Mapping[str, float | None]


@dataclass(frozen=True)
class OtherPlan:
    """One row: the names of equal plans, what they differ in, and the cells of the columns."""

    name: str
    about: str
    cells: Sequence[str]


def other_plans(plan: ClusterPlan) -> tuple[list[str], list[OtherPlan]]:
    """Headings of the columns, and a row for this plan and for each alternative; no rows without alternatives."""
    values: dict[str, dict[str, float | None]] = defaultdict(dict)
    about: dict[str, str] = {}
    for row in sorted(plan.alternatives, key=lambda row: row.position):
        values[row.alternative][row.figure] = row.value
        about[row.alternative] = _ABOUT.get(row.alternative, row.knobs)
    if not values:
        return [], []
    least, most = (seconds / SECONDS_PER_HOUR for seconds in plan.copying_seconds)
    own = {name: row.after for name, row in plan.figures.items()}
    own |= {"fullest_disk_percent": fullest_disks(plan).get("after"), "least_hours": least, "most_hours": most}
    rows = {THIS_PLAN: own, **values}
    columns = list(_known(rows))
    names: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, figures in rows.items():
        names[tuple(_text(figures, figure, show) for figure, _, show in columns)].append(name)
    others = [
        OtherPlan(" = ".join(same), "; ".join(about[name] for name in same if name in about), cells)
        for cells, same in names.items()
    ]
    return [label for _, label, _ in columns], others


def _known(rows: Mapping[str, Values]) -> Iterator[tuple[str, str, Callable[[float], str]]]:
    """Columns with a value in some row; disks over the mean only where percents are unknown."""
    has_percent = any(figures.get("fullest_disk_percent") is not None for figures in rows.values())
    for column in COLUMNS:
        is_known = any(figures.get(column[0]) is not None for figures in rows.values())
        if is_known and not (column[0] == "disk_max_over_mean" and has_percent):
            yield column


def _text(figures: Values, name: str, show: Callable[[float], str]) -> str:
    """A cell; times are intervals."""
    value = figures.get(name)
    ends = [value if name != "most_hours" else figures.get("least_hours"), value]
    return "-" if value is None else " to ".join(dict.fromkeys(show(end) for end in ends if end is not None))


Variables = Mapping[str, Any]
_MOST_FINDINGS = 50  # lines of findings in the page; the tables have all
_LINKS = {
    "runbook.md": "Runbook: run, stop, undo",
    "reassignment.json": "Whole plan",
    "rollback.json": "Rollback",
    "rollback-01.json": "Rollback, part 1",
    "moves.csv": "All copies (CSV)",
    "dir-moves.csv": "All copies inside brokers (CSV)",
}
_FLAT = 0.01  # share: a curve whose bytes differ less says nothing
_PROVES = {
    "forced": (
        "These copies are in every valid plan: replicas on brokers to empty, outside their pin, against the rack rule, "
        "or added by a larger replication factor."
    ),
    "flow": (
        "Bytes above a broker's band must leave it, and bytes missing below a band must be copied to it. Any plan "
        "{within} copies at least the larger sum."
    ),
    "lagrangian": (
        "A lower bound by prices (Lagrange multipliers) on the bands: any plan {within} copies at least this much. If "
        "the last column says so, the bound also counts whole replicas per broker."
    ),
    "search": (
        "The cluster is small enough to search all placements (branch and bound). The search stopped at its limit: "
        "every placement it had not excluded copies at least this much."
    ),
    "exact": (
        "The cluster is small enough to search all placements (branch and bound). Any plan {within} copies at least "
        "this much, exact to the byte."
    ),
}
_FORCED_WHEN_LIMITED = (
    f"Any plan that {LEAVES_NO_MORE} makes the same copies to empty brokers, to meet pins, to repair racks, or for a "
    "larger replication factor."
)
_FORCED_WITH_ONLY = "Any plan that does what policy.only requests makes these copies."


def _proves(plan: ClusterPlan, kind: str) -> str:
    """What a bound of this kind proves. If a limit reduces the plan, only for plans that leave no more undone."""
    if kind == "forced" and plan.limit_finding:
        return _FORCED_WHEN_LIMITED
    if kind == "forced" and plan.requested.only:
        return _FORCED_WITH_ONLY
    within = f"that {LEAVES_NO_MORE} outside the bands" if plan.limit_finding else "within the bands"
    return _PROVES.get(kind, "").format(within=within)


def _curve(plan: ClusterPlan) -> Sequence[CurveRow]:
    """The curve, if its points differ in bytes."""
    sizes = [row.moved_bytes for row in plan.curve]
    return plan.curve if sizes and max(sizes) > (1 + _FLAT) * min(sizes) else ()


def _is_safe(plan: ClusterPlan) -> bool:
    """Whether no failure stops a partition at any moment."""
    stopped = [row for row in plan.summary if row.figure.startswith("stopped_")]
    return not any(value for row in stopped for value in row.sides.values())


def style() -> str:
    """The style sheet, also as a file: some servers forbid styles inside a page."""
    return text_of("report.css")


def report(plan: ClusterPlan, decision: Decision, written: Sequence[Document], *, manifest_sha256: str) -> str:
    """The report of one cluster; it links the files in ``written``.

    Parameters
    ----------
    decision : Decision
        About this plan.
    manifest_sha256 : str
        Hex digest of the manifest, which an approval names.
    """
    names = {document.path.removeprefix(f"{plan.folder}/") for document in written}
    return render(
        "report.html.j2",
        plan=plan,
        decision=decision,
        manifest_sha256=manifest_sha256,
        validity=validity(plan),
        links=[(name, text) for name, text in _LINKS.items() if name in names],
        **_of_brokers(plan, broker_lines(plan)),
        **_of_movement(plan),
        **_of_directories(plan),
        readers=readers(plan),
        losses=list(loss_lines(plan)),
        is_safe=_is_safe(plan),
        loss_note=loss_note(plan),
        restarts=restarts(plan),
        **_of_findings(plan),
        **_of_proof(plan),
    )


def _of_brokers(plan: ClusterPlan, brokers: Sequence[BrokerLine]) -> Variables:
    """Brokers and waves; and the other plans, which are compared by the fullest disk."""
    in_percent, are_many = has_capacities(plan), len(brokers) > MOST_DRAWN
    other_columns, others = other_plans(plan)
    return {
        "brokers": brokers,
        "racks_drawn": list(rack_lines(brokers)) if are_many else [],
        "most_loaded": most_loaded(brokers) if are_many else [],
        "in_percent": in_percent,
        "limit": 100 * (1 - plan.disk_headroom),
        "busiest": max((line.busy_seconds for line in brokers), default=0) or 1,
        "band_note": band_note(plan),
        "waves": movement.wave_lines(plan),
        "waves_hidden": max(len(plan.waves) - movement.MOST_WAVES, 0),
        "execution": execution(plan),
        "other_columns": other_columns,
        "others": others,
        "curve": _curve(plan),
    }


def _of_movement(plan: ClusterPlan) -> Variables:
    racks, flow = movement.rack_matrix(plan)
    copies, copy_count = movement.largest_copies(plan)
    topics, topic_count = movement.topics(plan)
    return {
        "racks": racks,
        "flow": flow,
        "largest_flow": max(flow.values(), default=0) or 1,
        "draw_matrix": bool(flow) and len(racks) <= movement.MOST_RACKS,
        "pairs": movement.largest_pairs(flow),
        "topics": topics,
        "topic_count": topic_count,
        "factors": factors_text(plan),
        "by_reason": movement.copies_by_reason(plan),
        "copies": copies,
        "copy_count": copy_count,
        "near_leaders": near_leaders(plan),
        "tiered": tiered(plan),
    }


def _of_directories(plan: ClusterPlan) -> Variables:
    by_broker, broker_count = movement.inside_by_broker(plan)
    return {
        "directories": fullest_directories(plan),
        "have_bands": any(row.has_band for row in plan.directories),
        "directories_result": directories_in_words(plan),
        "moves_in_words": moves_in_words(plan),
        "inside": movement.largest_inside(plan),
        "by_broker": by_broker,
        "broker_count": broker_count,
    }


def _of_findings(plan: ClusterPlan) -> Variables:
    open_, open_more = first_lines(open_findings(plan), _MOST_FINDINGS)
    fixed, fixed_more = first_lines(fixed_or_noted(plan), _MOST_FINDINGS)
    return {
        "limited": limited(plan),
        "open": by_remedy(open_),
        "open_more": open_more,
        "open_count": count_findings(open_) + open_more,
        "fixed": by_remedy(fixed),
        "fixed_more": fixed_more,
        "fixed_count": count_findings(fixed) + fixed_more,
    }


def _of_proof(plan: ClusterPlan) -> Variables:
    return {
        "figures": [line for line in lines(plan) if line.group in (COST, BALANCE)],
        "proof": proof(plan),
        "leader_proof": leader_proof(plan),
        "bounds": [(row, _proves(plan, row.kind)) for row in plan.bounds],
        "quality_failed": sum(not row.success for row in plan.quality),
        "quality_count": len(plan.quality),
        "origin": origin(plan),
    }
