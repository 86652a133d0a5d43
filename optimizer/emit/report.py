"""The report: one self-contained HTML page."""

from collections import Counter
from collections.abc import Sequence

from optimizer.domain import REASONS
from optimizer.emit.charts import HEIGHT, WIDTH, charts
from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.figure_table import BALANCE, COST
from optimizer.emit.findings import SHOWN, counted, first, left_open, settled
from optimizer.emit.goals import goals, kept_out, origin, verdict
from optimizer.emit.pages import render
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
    proof,
)
from optimizer.emit.summary import execution
from optimizer.units import human_bytes, human_count, human_percent, human_ratio, human_time, plural

LARGEST = 25  # moves: the page lists the largest
_HELD = 50  # findings that the page holds, most of them folded
_PROVES = {
    "forced": (
        "Any plan must copy the replicas on brokers to empty, those outside their pin, those that break the rack rule, "
        "and those that a larger replication factor adds."
    ),
    "flow": (
        "What brokers hold above their bands must leave, and what they lack must be copied to them. No plan {within} "
        "copies less than the larger of the two."
    ),
    "lagrangian": (
        "Prices on the brokers' bands split the problem into one choice for each partition, and one for the whole "
        "replicas of a broker where the last column says so. At any prices, the total cost of the cheapest choices, "
        "less what the bands are worth, is at most what any plan {within} copies."
    ),
    "search": (
        "The cluster is small enough for branch and bound over all placements at once. It stopped at its limit. "
        "What it had not ruled out by then copies at least this much."
    ),
    "exact": (
        "The cluster is small enough for branch and bound over all placements at once. No plan {within} "
        "copies less, to the byte."
    ),
}
_FORCED_OF_A_CUT = (
    f"Any plan that {LEAVES_NO_MORE} must make the copies that this plan makes to empty brokers, to meet pins, to mend "
    "racks, or for a larger replication factor."
)
_FORCED_OF_ONLY = "Any plan that mends what policy.only asks must copy what this plan copies."
_REASONS = {
    "dead": "off a broker that is down",
    "rack": "to mend racks",
    "drain": "off a broker to empty",
    "pin": "to where its topic is pinned",
    "replication": "to change replication",
    "balance": "for balance",
    "leader": "order only",
}


def _cards(plan: ClusterPlan) -> list[tuple[str, str, str]]:
    """Head figures: value, label, remark."""
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
    """What a bound of this kind proves; of a plan that a limit has cut only against plans that leave no more undone."""
    if kind == "forced" and plan.cut:
        return _FORCED_OF_A_CUT
    if kind == "forced" and plan.asked.only:
        return _FORCED_OF_ONLY
    within = f"that {LEAVES_NO_MORE} outside the bands" if plan.cut else "within the bands"
    return _PROVES.get(kind, "").format(within=within)


def _reasons(plan: ClusterPlan) -> list[tuple[str, int, int, int]]:
    """Reason, partitions, copies and bytes of what changes, the most urgent first: copies and bytes add up to those of
    the plan, a partition with several reasons is counted at each."""
    partitions, copies, moved = Counter[str](), Counter[str](), Counter[str]()
    for row in plan.changed:
        partitions.update(row.reason_codes)
    for move in plan.moves:
        copies[move.reason] += move.to_broker is not None
        moved[move.reason] += move.size_bytes
    told = [name for name in REASONS if partitions[name]]
    return [(_REASONS[name], partitions[name], copies[name], moved[name]) for name in told]


def _observed(row: QualityRow) -> str:
    """What a check saw; of rows as many as it asks for: those that are good, or those that failed."""
    failed, rows = row.unexpected_count or 0, row.judged_rows
    if rows is None:
        return row.observed or ""
    if row.least is not None:
        return f"{rows - failed:,} of {plural(rows, 'row')} good"
    return f"{failed:,} of {plural(rows, 'row')} failed"


def _largest(plan: ClusterPlan) -> list[PlanRow]:
    copied = [row for row in plan.changed if row.moved_bytes]
    return sorted(copied, key=lambda row: (-row.moved_bytes, row.topic, row.partition))[:LARGEST]


def report(plan: ClusterPlan, written: Sequence[Document]) -> str:
    """The report of one cluster; ``written`` are the files that it points to."""
    figures = list(lines(plan))
    failed = [row for row in plan.quality if not row.success]
    open_, open_more = first(left_open(plan), _HELD)
    mended, mended_more = first(settled(plan), _HELD)
    return render(
        "report.html.j2",
        plan=plan,
        cards=_cards(plan),
        proof=proof(plan),
        leader_proof=leader_proof(plan),
        default=compared_with_default(plan),
        factors=factors_text(plan),
        execution=execution(plan),
        limited=limited(plan),
        cost=[line for line in figures if line.group == COST],
        balance=[line for line in figures if line.group == BALANCE],
        band_note=band_note(plan),
        bounds=[(row, _proves(plan, row.kind)) for row in plan.bounds],
        verdict=verdict(plan),
        goals=goals(plan),
        kept_out=kept_out(plan),
        origin=origin(plan),
        open=open_[:SHOWN],
        open_folded=open_[SHOWN:],
        open_folded_count=counted(open_[SHOWN:]),
        open_more=open_more,
        open_count=counted(open_) + open_more,
        mended=mended,
        mended_more=mended_more,
        mended_count=counted(mended) + mended_more,
        waves=[(wave_folder(row.wave, len(plan.waves)), row) for row in plan.waves],
        reasons=_reasons(plan),
        largest=_largest(plan),
        charts=charts(plan),
        width=WIDTH,
        height=HEIGHT,
        quality=[(row, _observed(row)) for row in plan.quality],
        quality_failed=len(failed),
        names=[document.path.removeprefix(f"{plan.folder}/") for document in written if document.wave == 0],
    )
