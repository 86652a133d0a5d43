"""The figures at the top of every page, as text: before, with Kafka's default, and with the plan."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.domain import FindingCode
from optimizer.emit.broker_lines import fullest_disks
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.figure_table import BY_NAME, FULLEST_DISK, LOSSES, UNDONE, left_undone
from optimizer.emit.quality_causes import OF_LEFT_OUT
from optimizer.emit.rows import FigureRow
from optimizer.units import clause, first_of, human_bytes, human_count, human_rate, human_ratio, plural
from optimizer.wording.restart_words import restart_in_words

NOTHING = "-"
_SIDES = ("before", "baseline", "after")
_TOPICS_NAMED = 5  # topics in a sentence
_EQUAL_SHARE = 1e-3  # share: bands that end this close to each other count as equal


@dataclass(frozen=True)
class Line:
    """One figure, ready to print; its group is COST or BALANCE."""

    group: str
    label: str
    before: str
    baseline: str
    after: str


@dataclass(frozen=True)
class LossLine:
    """One figure about the loss of a broker or a rack, ready to print."""

    label: str
    before: str
    worst_moment: str
    after: str


def lines(plan: ClusterPlan) -> Iterator[Line]:
    """The lines of the comparison, in reading order; without lines that are 0 everywhere and hidden then."""
    for row in (_in_percent(plan, row) for row in plan.summary):
        figure = BY_NAME[row.figure]
        if figure.group and figure.group != LOSSES and (shown := _shown(row, (row.before, row.baseline, row.after))):
            yield Line(figure.group, row.label, *shown)


def _in_percent(plan: ClusterPlan, row: FigureRow) -> FigureRow:
    """The row; the one about the fullest disk in percent if the capacities are known."""
    fullest = fullest_disks(plan) if row.figure == "disk_max_over_mean" else {}
    return FigureRow(FULLEST_DISK.name, FULLEST_DISK.label, *map(fullest.get, _SIDES)) if fullest else row


def loss_lines(plan: ClusterPlan) -> Iterator[LossLine]:
    """The lines about losses, in reading order."""
    for row in plan.summary:
        is_loss = BY_NAME[row.figure].group == LOSSES
        if is_loss and (shown := _shown(row, (row.before, row.worst_moment, row.after))):
            yield LossLine(row.label, *shown)


def _shown(row: FigureRow, values: tuple[float | None, ...]) -> tuple[str, ...]:
    """The values as texts; empty if the pages omit the line."""
    figure = BY_NAME[row.figure]
    if all(value is None for value in values) or (figure.hidden_at_zero and not any(values)):
        return ()
    return tuple(NOTHING if value is None else figure.show(value) for value in values)


def loss_note(plan: ClusterPlan) -> str:
    """What the lines about losses count, and what they assume."""
    unknown = int(plan.number("min_isr_unknown", "before"))
    assumed = (
        f" min.insync.replicas is unknown for {plural(unknown, 'partition')}: 1 is assumed. If brokers set it, add the "
        "output of kafka-configs.sh --describe --all --entity-type brokers."
        if unknown
        else ""
    )
    single = "".join(f" {row.subject}: {row.detail}." for row in plan.findings if row.code == FindingCode.ONE_REPLICA)
    return (
        "A partition is stopped if it takes no writes with acks=all, or has no leader. Worst moment: before the "
        f"plan, while a wave runs, between waves, or after it.{single}{assumed}"
    )


def restarts(plan: ClusterPlan) -> str:
    """In how many batches brokers may restart, in one sentence or two; empty if that was not computed."""
    before, after = (
        (int(plan.number("restart_batches", side)), int(plan.number("restart_batches_bound", side)))
        for side in ("before", "after")
    )
    if not before[0]:
        return ""
    blocking, topics = (int(plan.number(f"restart_{name}", "before")) for name in ("blockers", "blocking_topics"))
    blockers = f"{plural(blocking, 'partition')} of {plural(topics, 'topic')}" if blocking else ""
    lacks = any(row.rule in OF_LEFT_OUT for row in plan.input_findings)
    return restart_in_words((before[0], after[0]), (before[1], after[1]), blockers, lacks_partitions=lacks)


def limited(plan: ClusterPlan) -> str:
    """What a limit leaves out of the plan, in one sentence; empty if no limit does."""
    finding = plan.limit_finding
    return f"Limited by {finding.subject}: {finding.detail}; {finding.remedy}." if finding else ""


def band_note(plan: ClusterPlan) -> str:
    """Why a broker may be inside its bands and still far from the mean; empty if the bands of all brokers are equal."""
    accepting = {b.broker_id for b in plan.brokers if b.accepts_replicas}
    rows = [row for row in plan.balance if row.placement == "after" and row.broker_id in accepting]
    ends = [row.disk_upper_bytes for row in rows]
    mean = sum(row.disk_bytes for row in rows) / max(len(rows), 1)
    if not mean or max(ends) <= (1 + _EQUAL_SHARE) * sum(ends) / len(ends):
        return ""
    return (
        "The centre of a band is what the brokers and disks of the rack allow, not the mean of the cluster. "
        f"The highest disk band ends at {human_ratio(max(ends) / mean)} the mean."
    )


def leader_proof(plan: ClusterPlan) -> str:
    """The minimum of leader changes and of bytes out outside the bands, in two or three sentences; empty if unknown."""
    least = plan.figure("leader_changes_bound")
    if least is None:
        return ""
    changes = plan.number("leader_changes")
    text = clause(int(changes), "preferred leader", "changes", "change")
    text += (
        f". With these replica lists and this balance, at least {human_count(least)} must change (proven)."
        if changes > least
        else ", the fewest possible with these replica lists and this balance (proven)."
    )
    out, least_out = plan.number("out_outside_bytes_per_s"), plan.number("out_outside_bytes_per_s_bound")
    if not out:
        return text
    return (
        f"{text} Bytes out outside the bands: {human_rate(out)}. Any order of the lists leaves at least "
        f"{human_rate(least_out)}."
    )


def compared_with_default(plan: ClusterPlan) -> str:
    """What Kafka's default would copy, in one sentence; empty if that was not computed.

    There is a ratio only if the assignment that copies less does not leave more undone.
    """
    default, times = plan.figure("moved_bytes", "baseline"), plan.figure("times_default")
    if default is None:
        return ""
    text = f"Kafka's default assignment would copy {human_bytes(default)}"
    if times is None:
        return f"{text}."
    name, side, other = ("this plan", "after", "baseline") if times >= 1 else ("the default", "baseline", "after")
    more = {figure: plan.number(figure, side) - plan.number(figure, other) for figure in UNDONE}
    if undone := left_undone(more, "more "):
        return f"{text}. The bytes cannot be compared: {name} leaves {undone}."
    return f"{text}, {human_ratio(times)} as much."


def _factor_changes(plan: ClusterPlan) -> dict[tuple[str, int, int], int]:
    """The number of partitions by topic, replication factor before and after; sorted. Only factors that change."""
    lengths = ((row.topic, len(row.current_replicas), len(row.proposed_replicas)) for row in plan.changed)
    return dict(sorted(Counter(key for key in lengths if key[1] != key[2]).items()))


def factors_text(plan: ClusterPlan) -> str:
    """Topics with a new replication factor, in one sentence; empty if no factor changes."""
    changes = _factor_changes(plan)
    if not changes:
        return ""
    topics = (f"{topic} {a} -> {b} ({plural(n, 'partition')})" for (topic, a, b), n in changes.items())
    where = " in the table plan" if len(changes) > _TOPICS_NAMED else ""
    return f"Replication factor: {first_of(topics, _TOPICS_NAMED)}{where}."


def gives_up_replicas(plan: ClusterPlan) -> bool:
    """Whether a list gets shorter. A rollback then copies the deleted replicas again."""
    return any(after < before for _, before, after in _factor_changes(plan))
