"""The figures of a plan in reading order, with label, group and format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from optimizer.units import human_bytes, human_count, human_hours, human_percent, human_ratio, listed, plural

COST, BALANCE, LOSSES = "cost", "balance", "losses"
# Work that a plan may leave undone, by figure: noun, where it stays.
UNDONE = {
    "replicas_on_leaving_brokers": ("replica", "on brokers to empty"),
    "rack_violations": ("partition", "on broken racks"),
    "brokers_outside_bands": ("broker", "outside bands"),
}


@dataclass(frozen=True)
class Figure:
    """One figure.

    Parameters
    ----------
    name : str
        With its unit.
    label : str
        The text on the pages.
    group : str
        COST or BALANCE for the lines of the comparison; LOSSES for those about failures; empty for figures that are
        only in sentences or tables.
    show : callable, optional
        Formats the value; used for figures with a group, and in answers to questions.
    hidden_at_zero : bool
        Whether the pages omit its line if it is 0 in every placement.
    """

    name: str
    label: str
    group: str = ""
    show: Callable[[float], str] = human_count
    hidden_at_zero: bool = False


FIGURES = (
    Figure("unexplained", "Partitions left without a reason", COST, hidden_at_zero=True),
    Figure("moved_bytes", "Bytes copied", COST, human_bytes),
    Figure("moved_share_percent", "Share of all bytes copied", COST, human_percent),
    Figure("cross_rack_bytes", "Bytes copied between racks", COST, human_bytes),
    Figure("cross_rack_percent", "Share of the copied bytes that crosses racks"),
    Figure("near_leader_bytes", "Bytes between racks that leading from leaving replicas would save"),
    Figure("near_leader_partitions", "Partitions that leaving replicas would lead"),
    Figure("near_leader_busiest_over_mean", "Busiest leader meanwhile, in the worst wave, over the mean"),
    Figure("replicas_moved", "Replicas copied", COST),
    Figure("partitions_changed", "Partitions changed", COST),
    Figure("dir_moves", "Replicas moved inside brokers", COST),
    Figure("dir_moved_bytes", "Bytes moved inside brokers", COST, human_bytes),
    Figure("dir_bound_bytes", "Least bytes inside brokers for these bands"),
    Figure("followers_reordered", "Partitions with only followers reordered", COST, hidden_at_zero=True),
    Figure("leader_changes", "Preferred leaders changed", COST),
    Figure("leader_changes_bound", "Proven minimum of leader changes, for these replica lists"),
    Figure("factor_changes", "Partitions with another replication factor", COST, hidden_at_zero=True),
    Figure("bound_bytes", "Proven minimum that any plan as balanced must copy"),
    Figure("gap_percent", "Above the proven minimum", show=human_percent),
    Figure("times_default", "Kafka's default copies / this plan copies"),
    Figure("baseline_refused", "Partitions that Kafka's default refuses", COST, hidden_at_zero=True),
    Figure("waves", "Waves"),
    Figure("estimated_hours", "Hours of copying, estimated", show=human_hours),
    Figure("waves_bound_bytes", "Proven minimum of the busiest brokers' bytes, summed over so many waves"),
    Figure("waves_over_bound", "Busiest brokers' bytes, summed over the waves / proven minimum"),
    Figure("rack_violations", "Partitions that break the rack rule", BALANCE, hidden_at_zero=True),
    Figure("replicas_on_leaving_brokers", "Replicas on brokers to empty", BALANCE, hidden_at_zero=True),
    Figure("brokers_outside_bands", "Brokers outside bands (replicas, disk, bytes in)", BALANCE),
    Figure("leaders_outside", "Preferred leaders outside their bands"),
    Figure("leaders_outside_bound", "Proven minimum of leaders outside their bands, for these replica lists"),
    Figure("out_outside_bytes_per_s", "Bytes out per second outside their bands"),
    Figure("out_outside_bytes_per_s_bound", "Proven minimum of bytes out outside their bands, for these replica lists"),
    Figure("disk_max_over_mean", "Fullest broker's disk, over the mean", BALANCE, human_ratio),
    Figure("disk_min_over_mean", "Emptiest broker's disk, over the mean", BALANCE, human_ratio),
    Figure("in_max_over_mean", "Busiest broker's bytes in, over the mean", BALANCE, human_ratio),
    Figure("out_max_over_mean", "Busiest broker's bytes out, over the mean", BALANCE, human_ratio),
    Figure("replicas_spread", "Replicas, most minus least", BALANCE),
    Figure("leaders_spread", "Preferred leaders, most minus least", BALANCE),
    Figure("dirs_outside_bands", "Log directories outside their bands", BALANCE),
    Figure("fullest_directory_percent", "Fullest log directory, share of its capacity", BALANCE, human_percent),
    Figure("kafka_directory_percent", "Fullest log directory at its peak if Kafka chooses directories (estimate)"),
    Figure("stopped_without_loss", "Partitions that are stopped without a failure", LOSSES, hidden_at_zero=True),
    Figure("stopped_by_some_broker", "Partitions that some broker's failure stops", LOSSES),
    Figure("stopped_by_worst_broker", "Partitions that the worst broker's failure stops", LOSSES),
    Figure("stopped_by_some_rack", "Partitions that some rack's failure stops", LOSSES),
    Figure("stopped_by_worst_rack", "Partitions that the worst rack's failure stops", LOSSES),
    Figure("stopped_by_worst_two_brokers", "Partitions that the worst two brokers stop", LOSSES),
    Figure("lost_by_worst_broker_bytes", "Acknowledged bytes lost if one broker fails", LOSSES, human_bytes),
    Figure("lost_by_worst_rack_bytes", "Acknowledged bytes lost if one rack fails", LOSSES, human_bytes),
    Figure("only_on_worst_broker_bytes", "Bytes of one broker that no other replica has", LOSSES, human_bytes, True),
    Figure("busiest_after_broker_loss", "Busiest leader after a broker failed, over mean", LOSSES, human_ratio),
    Figure("restart_batches", "Batches in which brokers restart"),
    Figure("restart_batches_bound", "Proven minimum of these batches"),
    Figure("restart_blockers", "Partitions that the plan's batches would stop before it"),
    Figure("restart_blocking_topics", "Topics of these partitions"),
    Figure("min_isr_unknown", "Partitions with unknown min.insync.replicas"),
    Figure("brokers", "Brokers that take part"),
    Figure("partitions", "Partitions"),
    Figure("replicas", "Replicas"),
    Figure("total_bytes", "Bytes on all brokers"),
    Figure("tiered_stored_bytes", "Bytes on the disks of the copied replicas of tiered topics"),
    Figure("tiered_moved_bytes", "Bytes copied of tiered topics"),
)
FULLEST_DISK = Figure("fullest_disk_percent", "Fullest broker's disk", BALANCE, human_percent)  # not in plan_summary
BY_NAME = {figure.name: figure for figure in (*FIGURES, FULLEST_DISK)}


def left_undone(counts: Mapping[str, float], more: str = "") -> str:
    """What a plan leaves undone, in words; empty if it leaves nothing.

    Parameters
    ----------
    counts : mapping
        By figure of ``UNDONE``.
    more : str
        Before each noun.
    """
    shown = ((round(counts.get(name, 0)), noun, where) for name, (noun, where) in UNDONE.items())
    parts = [f"{plural(count, f'{more}{noun}')} {where}" for count, noun, where in shown if count > 0]
    return listed(parts) if parts else ""
