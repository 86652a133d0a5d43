"""The report: one self-contained HTML page."""

from collections import Counter
from collections.abc import Sequence

from optimizer.domain import REASONS
from optimizer.emit.calendar import calendar
from optimizer.emit.charts import HEIGHT, WIDTH, charts
from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.figure_table import BALANCE, COST
from optimizer.emit.findings import SHOWN, count_findings, first_lines, fixed_or_noted, open_findings
from optimizer.emit.goals import exclusions, goals, origin, verdict
from optimizer.emit.pages import render
from optimizer.emit.rack_sentences import cross_rack_cost, near_leaders
from optimizer.emit.rows import PlanRow, QualityRow
from optimizer.emit.shown_figures import (
    LEAST_SHOWN,
    LEAVES_NO_MORE,
    band_note,
    compared_with_default,
    factors_text,
    leader_proof,
    limited,
    lines,
    loss_lines,
    loss_note,
    proof,
)
from optimizer.emit.summary import execution
from optimizer.units import human_bytes, human_count, human_percent, human_ratio, human_time, plural

LARGEST = 25  # moves: the page lists the largest
_MOST_FINDINGS = 50  # findings in the page; most of them are folded
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
_REASONS = {
    "dead": "leaves a broker that is down",
    "rack": "repairs racks",
    "drain": "leaves a broker to empty",
    "pin": "meets a pin",
    "replication": "changes the replication factor",
    "balance": "improves the balance",
    "leader": "only the order changes",
}


def _cards(plan: ClusterPlan) -> list[tuple[str, str, str]]:
    """Value, label and remark of each card."""
    gap, times = plan.figure("gap_percent"), plan.figure("times_default")
    seconds = sum(row.estimated_seconds for row in plan.waves)
    outside = {side: human_count(plan.number("brokers_outside_bands", side)) for side in ("before", "after")}
    racks = {side: human_count(plan.number("rack_violations", side)) for side in ("before", "after")}
    cards = [
        (
            human_bytes(plan.number("moved_bytes")),
            "copied",
            f"{human_percent(plan.number('moved_share_percent'))} of all",
        ),
        (
            human_bytes(plan.number("moved_bytes", "baseline")),
            "with Kafka's default",
            human_ratio(times) if times else "",
        ),
        (human_time(seconds), "of copying", plural(len(plan.waves), "wave")),
        (f"{outside['before']} → {outside['after']}", "brokers outside a band", "before → after"),
        (f"{racks['before']} → {racks['after']}", "partitions with broken racks", "before → after"),
    ]
    if gap is not None:
        above = f"< {human_percent(2 * LEAST_SHOWN)}" if 0 < gap < LEAST_SHOWN else human_percent(gap)
        cards.insert(1, (above, "above the proven minimum", human_bytes(plan.number("bound_bytes"))))
    return cards


def _proves(plan: ClusterPlan, kind: str) -> str:
    """What a bound of this kind proves. If a limit reduces the plan, only for plans that leave no more undone."""
    if kind == "forced" and plan.limit_finding:
        return _FORCED_WHEN_LIMITED
    if kind == "forced" and plan.requested.only:
        return _FORCED_WITH_ONLY
    within = f"that {LEAVES_NO_MORE} outside the bands" if plan.limit_finding else "within the bands"
    return _PROVES.get(kind, "").format(within=within)


def _reasons(plan: ClusterPlan) -> list[tuple[str, int, int, int]]:
    """Reason, partitions, copies and bytes, the most urgent first.

    Copies and bytes add up to the totals of the plan. A partition with several reasons is counted for each.
    """
    partitions, copies, moved = Counter[str](), Counter[str](), Counter[str]()
    for row in plan.changed:
        partitions.update(row.reason_codes)
    for move in plan.moves:
        copies[move.reason] += move.to_broker is not None
        moved[move.reason] += move.size_bytes
    names = [name for name in REASONS if partitions[name]]
    return [(_REASONS[name], partitions[name], copies[name], moved[name]) for name in names]


def _observed(row: QualityRow) -> str:
    """What a check observed: the rows that passed if it requires a share of them, else the rows that failed."""
    failed, rows = row.unexpected_count or 0, row.judged_rows
    if rows is None:
        return row.observed or ""
    if row.least is not None:
        return f"{rows - failed:,} of {plural(rows, 'row')} passed"
    return f"{failed:,} of {plural(rows, 'row')} failed"


def _largest(plan: ClusterPlan) -> list[PlanRow]:
    copied = [row for row in plan.changed if row.moved_bytes]
    return sorted(copied, key=lambda row: (-row.moved_bytes, row.topic, row.partition))[:LARGEST]


def report(plan: ClusterPlan, written: Sequence[Document]) -> str:
    """The report of one cluster; it names the files in ``written``."""
    figures = list(lines(plan))
    failed = [row for row in plan.quality if not row.success]
    open_, open_more = first_lines(open_findings(plan), _MOST_FINDINGS)
    fixed, fixed_more = first_lines(fixed_or_noted(plan), _MOST_FINDINGS)
    return render(
        "report.html.j2",
        plan=plan,
        cards=_cards(plan),
        proof=proof(plan),
        leader_proof=leader_proof(plan),
        default=compared_with_default(plan),
        factors=factors_text(plan),
        execution=execution(plan),
        racks=[text for text in (cross_rack_cost(plan), near_leaders(plan)) if text],
        limited=limited(plan),
        cost=[line for line in figures if line.group == COST],
        balance=[line for line in figures if line.group == BALANCE],
        band_note=band_note(plan),
        losses=list(loss_lines(plan)),
        loss_note=loss_note(plan),
        bounds=[(row, _proves(plan, row.kind)) for row in plan.bounds],
        verdict=verdict(plan),
        goals=goals(plan),
        exclusions=exclusions(plan),
        origin=origin(plan),
        open=open_[:SHOWN],
        open_folded=open_[SHOWN:],
        open_folded_count=count_findings(open_[SHOWN:]),
        open_more=open_more,
        open_count=count_findings(open_) + open_more,
        fixed=fixed,
        fixed_more=fixed_more,
        fixed_count=count_findings(fixed) + fixed_more,
        waves=[(wave_folder(row.wave, len(plan.waves)), row) for row in plan.waves],
        calendar=calendar(plan),
        reasons=_reasons(plan),
        largest=_largest(plan),
        charts=charts(plan),
        width=WIDTH,
        height=HEIGHT,
        quality=[(row, _observed(row)) for row in plan.quality],
        quality_failed=len(failed),
        names=[document.path.removeprefix(f"{plan.folder}/") for document in written if document.wave == 0],
    )
