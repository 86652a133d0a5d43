"""The table of brokers: how full each disk is, what each broker copies, and how long it is busy."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizer.domain import NOT_LIVE
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.rows import BrokerRow, LoadRow

MOST_DRAWN = 60  # brokers: with more, a strip for each rack and the most loaded brokers are easier to read
_MOST_LOADED = 10  # brokers of each of the two lists


@dataclass(frozen=True)
class BrokerLine:
    """One broker.

    Parameters
    ----------
    has_percent : bool
        Whether its disk can be shown in percent: the capacity of a dead broker may be unknown.
    mark : str
        Why it is special: drain, dead, fenced, closed, or new; else empty.
    before, after, peak, lower, upper : float
        Disk in percent of its capacity: before, after, at most while it copies, and the ends of its band. Without
        capacities in percent of the fullest broker.
    in_bytes, out_bytes, busy_seconds : int
        What it copies in all waves.
    loads_before, loads_after : LoadRow
        All loads.
    """

    broker_id: int
    rack: str
    has_percent: bool
    mark: str
    before: float
    after: float
    peak: float
    lower: float
    upper: float
    in_bytes: int
    out_bytes: int
    busy_seconds: int
    loads_before: LoadRow
    loads_after: LoadRow


@dataclass(frozen=True)
class RackLine:
    """The brokers of one rack, as dots: their disks in percent."""

    rack: str
    brokers: Sequence[BrokerLine]

    def ends(self, side: str) -> str:
        """Least and most of a side."""
        values = [getattr(line, side) for line in self.brokers if line.has_percent]
        if not values:
            return "-"
        return f"{min(values):.0f} to {max(values):.0f}"


def has_capacities(plan: ClusterPlan) -> bool:
    """Whether the capacities of all brokers that are not dead are known: then disks are in percent of them."""
    return bool(plan.brokers) and all(row.disk_capacity_bytes for row in plan.brokers if row.state != "dead")


def fullest_disks(plan: ClusterPlan) -> dict[str, float]:
    """The fullest disk by placement, in percent of its capacity; empty if the capacity of a live broker is unknown."""
    capacities = {row.broker_id: row.disk_capacity_bytes for row in plan.brokers}
    fullest: dict[str, float] = defaultdict(float)
    for row in plan.balance if has_capacities(plan) else ():
        if capacity := capacities.get(row.broker_id):
            fullest[row.placement] = max(fullest[row.placement], 100 * row.disk_bytes / capacity)
    return fullest


def broker_lines(plan: ClusterPlan) -> list[BrokerLine]:
    """A line for each broker, by rack and id."""
    loads = {(row.broker_id, row.placement): row for row in plan.balance}
    known = [row for row in plan.brokers if (row.broker_id, "before") in loads and (row.broker_id, "after") in loads]
    peaks: dict[int, int] = defaultdict(int)
    received, sent, busy = (defaultdict[int, int](int) for _ in range(3))
    for row in plan.broker_waves:
        peaks[row.broker_id] = max(peaks[row.broker_id], row.peak_disk_bytes)
        received[row.broker_id] += row.in_bytes
        sent[row.broker_id] += row.out_bytes
        busy[row.broker_id] += row.busy_seconds
    tops = {
        b.broker_id: max(peaks[b.broker_id], *(loads[b.broker_id, x].disk_bytes for x in ("before", "after")))
        for b in known
    }
    fullest = max(tops.values(), default=0) or 1
    of_capacity = has_capacities(plan)
    lines = []
    for host in known:
        before, after = loads[host.broker_id, "before"], loads[host.broker_id, "after"]
        whole = (host.disk_capacity_bytes if of_capacity else fullest) or 1
        share = 100 / whole
        lines.append(
            BrokerLine(
                broker_id=host.broker_id,
                rack=host.rack or "",
                has_percent=bool(host.disk_capacity_bytes) or not of_capacity,
                mark=_mark(host, before),
                before=share * before.disk_bytes,
                after=share * after.disk_bytes,
                peak=share * tops[host.broker_id],
                lower=share * after.disk_lower_bytes,
                upper=share * after.disk_upper_bytes,
                in_bytes=received[host.broker_id],
                out_bytes=sent[host.broker_id],
                busy_seconds=busy[host.broker_id],
                loads_before=before,
                loads_after=after,
            )
        )
    return sorted(lines, key=lambda line: (line.rack, line.broker_id))


def fullest_while_copying(plan: ClusterPlan, lines: Sequence[BrokerLine]) -> BrokerLine | None:
    """The broker with the fullest disk at any moment of the plan; None if the capacity of a live broker is unknown."""
    shown = [line for line in lines if line.has_percent] if has_capacities(plan) else []
    return max(shown, key=lambda line: line.peak, default=None)


def _mark(host: BrokerRow, before: LoadRow) -> str:
    if host.state in NOT_LIVE:
        return host.state
    if host.must_empty:
        return "drain"
    if not host.accepts_replicas:
        return "closed"
    return "" if before.replicas else "new"


def rack_lines(lines: Sequence[BrokerLine]) -> Iterator[RackLine]:
    """The racks, by name."""
    for rack in sorted({line.rack for line in lines}):
        yield RackLine(rack, [line for line in lines if line.rack == rack])


def most_loaded(lines: Sequence[BrokerLine]) -> list[BrokerLine]:
    """The ten that are fullest while copying, then the ten busiest of the others."""
    fullest = sorted(lines, key=lambda line: (not line.has_percent, -line.peak, line.broker_id))[:_MOST_LOADED]
    named = {line.broker_id for line in fullest}
    others = (line for line in lines if line.broker_id not in named)
    return [*fullest, *sorted(others, key=lambda line: (-line.busy_seconds, line.broker_id))[:_MOST_LOADED]]
