"""Sentences about copied bytes: of tiered topics; between racks, what they cost and what other leaders would save."""

from optimizer.cluster_policy import BYTES_PER_GB
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.units import human_bytes, human_count, human_percent, human_ratio


def cross_rack_cost(plan: ClusterPlan) -> str:
    """The price of the bytes between racks, in one sentence; empty without a price or without such bytes."""
    crossing = plan.number("cross_rack_bytes")
    price = plan.cross_rack_price_per_gb
    if not (crossing and price):
        return ""
    return (
        f"Copying {human_bytes(crossing)} between racks costs about {crossing / BYTES_PER_GB * price:,.2f} at the "
        f"given price of {price:g} per GB."
    )


def tiered(plan: ClusterPlan) -> str:
    """Stored and copied bytes of tiered topics, in one sentence; empty if no replica of one is copied."""
    stored, copied = plan.number("tiered_stored_bytes"), plan.number("tiered_moved_bytes")
    return f"Tiered: {human_bytes(stored)} are stored, {human_bytes(copied)} are copied." if stored else ""


def near_leaders(plan: ClusterPlan) -> str:
    """What leading from leaving replicas would save and cost, in three or four sentences; empty if it saves nothing."""
    saved, crossing = plan.number("near_leader_bytes"), plan.number("cross_rack_bytes")
    if not (saved and crossing):
        return ""
    share, partitions = plan.number("cross_rack_percent"), plan.number("near_leader_partitions")
    rest = human_percent(share * (1 - saved / crossing))
    busiest = plan.figure("near_leader_busiest_over_mean")
    meanwhile = f" Meanwhile the busiest leader would be at {human_ratio(busiest)} the mean." if busiest else ""
    return (
        f"{human_percent(share)} of the copied bytes cross racks. It would be {rest} ({human_bytes(saved)} less) if "
        "the leaving replica in the target's rack led during the copy. Ballast does not do this: it takes "
        f"{human_count(2 * partitions)} more leader changes, two per partition.{meanwhile}"
    )
