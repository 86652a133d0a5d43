"""The figures that lead every page, as text: before, with Kafka's default, and with the plan; replication factors."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.figure_table import BY_NAME
from optimizer.units import human_bytes, human_count, human_percent, human_rate, human_ratio, plural

NOTHING = "-"
LEAST_SHOWN = 0.005  # percent: less would be shown as none
LEAVES_NO_MORE = "leaves no more undone"
_TOPICS_NAMED = 5  # in a sentence: more do not fit a line that is read
_ALIKE = 1e-3  # share: brokers whose bands end this near to each other share one number


@dataclass(frozen=True)
class Line:
    """One figure, ready to print; its group is COST or BALANCE."""

    group: str
    label: str
    before: str
    baseline: str
    after: str


def lines(plan: ClusterPlan) -> Iterator[Line]:
    """The figures that compare, in reading order; what is 0 everywhere and only matters otherwise is left out."""
    for row in plan.summary:
        figure = BY_NAME[row.figure]
        values = row.sides.values()
        if not figure.group or all(value is None for value in values):
            continue
        if figure.hidden_at_zero and not any(values):
            continue
        before, baseline, after = (NOTHING if value is None else figure.show(value) for value in values)
        yield Line(figure.group, row.label, before, baseline, after)


def proof(plan: ClusterPlan) -> str:
    """How close the plan is to the least that any plan must copy, in one sentence."""
    bound, gap = plan.figure("bound_bytes"), plan.figure("gap_percent")
    if bound is None:
        return "No lower bound was computed for this plan."
    kind = next((row.kind for row in plan.bounds if row.is_best), "")
    alike = f"{LEAVES_NO_MORE} and balances as well" if plan.cut else "balances as well"
    head = f"No plan that {alike} copies less than {human_bytes(bound)} (proven: {kind} bound)"
    if gap is None:
        return f"{head}."
    if gap <= 0:
        return f"{head}, and this plan copies no more."
    more = human_percent(gap) if gap >= LEAST_SHOWN else f"at most {human_percent(2 * LEAST_SHOWN)}"
    return f"{head}; this plan copies {more} more than that."


def limited(plan: ClusterPlan) -> str:
    """What a limit has left out of the plan, in one sentence; empty where none did."""
    cut = plan.cut
    return f"Cut to the limit {cut.subject}: {cut.detail}; {cut.remedy}." if cut else ""


def band_note(plan: ClusterPlan) -> str:
    """Why a broker inside its bands may be further from the mean than a band is wide, in one sentence; empty where the
    bands of all brokers are alike."""
    taking = {b.broker_id for b in plan.brokers if b.accepts_replicas}
    rows = [row for row in plan.balance if row.placement == "after" and row.broker_id in taking]
    ends = [row.disk_upper_bytes for row in rows]
    mean = sum(row.disk_bytes for row in rows) / max(len(rows), 1)
    if not mean or max(ends) <= (1 + _ALIKE) * sum(ends) / len(ends):
        return ""
    return (
        "Each band lies around what the rack can reach with its brokers and disks, not around the mean. The highest "
        f"disk band ends at {human_ratio(max(ends) / mean)} the mean."
    )


def leader_proof(plan: ClusterPlan) -> str:
    """The fewest changes of leaders and the least bytes out outside the bands, in a sentence or two; empty where they
    are not known."""
    least = plan.figure("leader_changes_bound")
    if least is None:
        return ""
    changes, fewest = plan.number("leader_changes"), plural(int(least), "leader")
    text = f"Every order of these replica lists that balances as well changes at least {fewest} (proven)"
    text += f"; this plan changes {human_count(changes)}." if changes > least else ", and this plan changes no more."
    out, least_out = plan.number("out_outside_bytes_per_s"), plan.number("out_outside_bytes_per_s_bound")
    if not out:
        return text
    return (
        f"{text} Bytes out outside their bands: {human_rate(out)}. Any order leaves at least {human_rate(least_out)}."
    )


def compared_with_default(plan: ClusterPlan) -> str:
    """What Kafka's default would copy, in one sentence."""
    default, times = plan.number("moved_bytes", "baseline"), plan.figure("times_default")
    text = f"Kafka's default assignment would copy {human_bytes(default)}"
    return f"{text}, {human_ratio(times)} as much." if times is not None else f"{text}."


def _factor_changes(plan: ClusterPlan) -> dict[tuple[str, int, int], int]:
    """Partitions by topic, replicas before and after, of lists that change their length; in this order."""
    lengths = ((row.topic, len(row.current_replicas), len(row.proposed_replicas)) for row in plan.changed)
    return dict(sorted(Counter(key for key in lengths if key[1] != key[2]).items()))


def factors_text(plan: ClusterPlan) -> str:
    """Topics with their replication factors in one sentence; empty where all stay."""
    changes = _factor_changes(plan)
    if not changes:
        return ""
    named = [
        f"{topic} {a} -> {b} ({plural(n, 'partition')})" for (topic, a, b), n in list(changes.items())[:_TOPICS_NAMED]
    ]
    more = len(changes) - len(named)
    return f"Replication factor: {', '.join(named)}" + (f" and {more} more in the table plan." if more else ".")


def gives_up_replicas(plan: ClusterPlan) -> bool:
    """Whether a list gets shorter: the way back then copies what was deleted."""
    return any(after < before for _, before, after in _factor_changes(plan))
