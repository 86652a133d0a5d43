"""The six figures of the first screen."""

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.cluster_policy import BYTES_PER_GB
from optimizer.emit.broker_lines import BrokerLine, fullest_disks, fullest_while_copying, has_capacities
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.inside_sentences import undo_inside
from optimizer.emit.kafka_files import numbered
from optimizer.emit.shown_figures import gives_up_replicas
from optimizer.units import agree, clause, first_of, human_bytes, human_count, human_percent, human_ratio, plural


@dataclass(frozen=True)
class Card:
    """One figure of the first screen."""

    value: str
    label: str
    remark: str


def cards(plan: ClusterPlan, brokers: list[BrokerLine]) -> list[Card]:
    """Six figures."""
    return [_disk(plan, brokers), _losses(plan), _between_racks(plan), _leaders(plan), _balance(plan), _undo(plan)]


def _disk(plan: ClusterPlan, brokers: list[BrokerLine]) -> Card:
    if not has_capacities(plan):
        sides = (plan.figure("disk_max_over_mean", side) for side in ("before", "after"))
        texts = ["-" if value is None else human_ratio(value) for value in sides]
        is_some = any(row.disk_capacity_bytes for row in plan.brokers)
        known = "disk capacities are not all known" if is_some else "no disk capacity is known"
        return Card(" → ".join(texts), "fullest disk, over the mean", known)
    fullest = fullest_disks(plan)
    text = f"limit {100 * (1 - plan.disk_headroom):.0f} %"
    peak = fullest_while_copying(plan, brokers)
    if peak is None:
        return Card("-", "fullest disk", f"no broker's share is known; {text}")
    if plan.broker_waves:
        text = f"at most {peak.peak:.0f} % while copying (broker {peak.broker_id}); {text}"
    return Card(f"{fullest['before']:.0f} → {fullest['after']:.0f} %", "fullest disk", text)


def _losses(plan: ClusterPlan) -> Card:
    by_broker, assumed = _change(plan, "stopped_by_worst_broker"), ""
    if plan.number("min_isr_unknown", "before"):
        assumed = "; where min.insync.replicas is unknown, 1 is assumed"
    if not plan.has_racks:
        return Card(by_broker, "partitions stop if the worst broker fails", f"no racks are known{assumed}")
    worst = human_count(plan.number("stopped_by_worst_rack", "worst_moment"))
    text = f"{worst} at the worst moment; the worst broker: {by_broker}{assumed}"
    return Card(_change(plan, "stopped_by_worst_rack"), "partitions stop if the worst rack fails", text)


def _between_racks(plan: ClusterPlan) -> Card:
    known, share = plan.figure("cross_rack_bytes"), plan.figure("cross_rack_percent")
    if known is None and plan.moves:
        return Card("-", "between racks", "some brokers have no rack" if plan.has_racks else "no racks are known")
    crossing = known or 0.0
    price = plan.cross_rack_price_per_gb
    nothing = "copies inside brokers cross no rack" if plan.dir_moves else "nothing is copied"
    of_bytes = f"{human_percent(share)} of the copied bytes" if share is not None else nothing
    cost = f"; costs about {crossing / BYTES_PER_GB * price:,.2f}" if price else "; no price is set"
    return Card(human_bytes(crossing), "between racks", f"{of_bytes}{cost}")


def _leaders(plan: ClusterPlan) -> Card:
    racks = {row.broker_id: row.rack for row in plan.brokers}

    def sets(ids: Sequence[int]) -> set[str | None]:
        return {racks.get(broker) for broker in ids}

    changed = sum(sets(row.current_replicas) != sets(row.proposed_replicas) for row in plan.changed)
    counts = plan.consumer_counts
    of_groups = ""
    if counts and counts.reading:
        verb = agree(counts.noticing, "notices", "notice")
        of_groups = f"; {counts.noticing:,} of {plural(counts.reading, 'consumer group')} {verb} the plan"
    if not changed and not plan.number("leader_changes"):
        return Card(
            "0",
            "preferred leaders change",
            f"clients look nothing up{of_groups}" if of_groups else "clients notice nothing",
        )
    leaders = plan.number("leader_changes")
    lookup = "clients look them up again; " if leaders else ""
    text = f"{lookup}{clause(changed, 'partition', 'uses', 'use')} other racks{of_groups}"
    return Card(human_count(leaders), "preferred leaders change", text)


def _balance(plan: ClusterPlan) -> Card:
    text = f"rack rule broken: {_change(plan, 'rack_violations')} partitions"
    if plan.figure("dirs_outside_bands") is not None:
        text = f"{text}; log directories outside theirs: {_change(plan, 'dirs_outside_bands')}"
    return Card(_change(plan, "brokers_outside_bands"), "brokers outside bands", text)


def _undo(plan: ClusterPlan) -> Card:
    if not plan.has_changes:
        return Card("-", "to undo", "no partition changes")
    if not plan.changed:
        return Card("Yes", "can be undone", undo_inside(plan))
    fixed = len(plan.not_reversible)
    names = [name for name, _ in numbered("rollback", [row for row in plan.changed if plan.can_roll_back(row)])]
    until = (
        f" until {first_of([f'broker {b}' for b in plan.replicas_on_leaving])} is switched off"
        if plan.replicas_on_leaving
        else ""
    )
    back = (
        "copies deleted replicas again"
        if gives_up_replicas(plan)
        else f"copies up to {human_bytes(plan.number('moved_bytes'))} back"
    )
    if fixed == len(plan.changed):
        return Card("No", "can be undone", "the old lists name a broker that is down")
    value = "Yes" if not fixed else "In part"
    but = f"; not for {plural(fixed, 'partition')}" if fixed else ""
    inside = f"; first {undo_inside(plan)}" if plan.dir_moves else ""
    return Card(value, "can be undone", f"{first_of(names)}{until}; {back}{but}{inside}")


def _change(plan: ClusterPlan, figure: str) -> str:
    """Its value before and after the plan."""
    values = (plan.figure(figure, side) for side in ("before", "after"))
    return " → ".join("-" if value is None else human_count(value) for value in values)
