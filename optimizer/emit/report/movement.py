"""The waves, and what moves: between racks, by topic, by reason."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.domain import REASONS
from optimizer.emit.calendar import calendar
from optimizer.emit.cluster_plan import ClusterPlan, wave_folder
from optimizer.emit.rows import DirMoveRow, MoveRow, WaveRow
from optimizer.units import NEVER_SECONDS, human_times

MOST_RACKS = 12  # of a matrix: more columns do not fit a page
_PAIRS = 20  # of racks, the largest
_TOPICS = 12  # the largest
_BROKERS = 12  # with most bytes inside them
_ALL_COPIES = 2000  # copies: a page opens so many in a second
_LARGEST_COPIES = 1000  # of more copies
MOST_WAVES = 100  # a page with more is not read
REASON_TEXTS = {
    "dead": "leave a broker that is down",
    "rack": "repair racks",
    "drain": "empty a broker",
    "pin": "meet a pin",
    "replication": "change the replication factor",
    "balance": "balance",
    "leader": "only the order changes",
}


@dataclass(frozen=True)
class WaveLine:
    """One wave; positions in percent of the drawing."""

    row: WaveRow
    name: str
    night: str
    time: str
    least: float
    most: float
    window: float
    is_late: bool
    fullest: str


@dataclass(frozen=True)
class Amount:
    """A name with a count and bytes; its bar in percent of the largest."""

    name: str
    count: int
    size_bytes: int
    share: float


@dataclass(frozen=True)
class Copy:
    """One copied replica."""

    move: MoveRow
    wave: int


def largest_copies(plan: ClusterPlan) -> tuple[list[Copy], int]:
    """All copies, the largest first, or the largest of many; and the number of all."""
    waves = {(row.topic, row.partition): row.wave for row in plan.changed}
    copies = [Copy(row, waves.get((row.topic, row.partition), 0)) for row in plan.moves if row.to_broker is not None]
    copies.sort(key=lambda copy: (-copy.move.size_bytes, copy.move.topic, copy.move.partition, copy.move.to_broker))
    return copies if len(copies) <= _ALL_COPIES else copies[:_LARGEST_COPIES], len(copies)


def largest_inside(plan: ClusterPlan) -> Sequence[DirMoveRow]:
    """All replicas that move inside their brokers, the largest first, or the largest of many."""
    rows = sorted(plan.dir_moves, key=lambda row: (-row.size_bytes, row.topic, row.partition, row.broker_id))
    return rows if len(rows) <= _ALL_COPIES else rows[:_LARGEST_COPIES]


def inside_by_broker(plan: ClusterPlan) -> tuple[list[Amount], int]:
    """The brokers with most bytes inside, and how many brokers there are."""
    replicas, moved = Counter[int](), Counter[int]()
    for row in plan.dir_moves:
        replicas[row.broker_id] += 1
        moved[row.broker_id] += row.size_bytes
    largest = sorted(moved.items(), key=lambda item: (-item[1], item[0]))[:_BROKERS]
    return _amounts([(str(broker), replicas[broker], size) for broker, size in largest]), len(moved)


def wave_lines(plan: ClusterPlan) -> list[WaveLine]:
    """A line for each of the first waves."""
    shown = plan.waves[:MOST_WAVES]
    windows = [plan.window_seconds(row) for row in shown]
    ends = [row.most_seconds for row in shown if row.most_seconds < NEVER_SECONDS]  # endless ones would hide the others
    top = max((*windows, *ends), default=1) * 1.02 or 1  # 1.02: the last line is inside
    nights = {line.wave: line for line in calendar(plan)}
    fullest = _fullest(plan)
    lines = []
    for row, window in zip(shown, windows, strict=True):
        least, most = row.least_seconds, row.most_seconds
        name = wave_folder(row.wave, len(plan.waves))
        night = nights.get(name)
        lines.append(
            WaveLine(
                row=row,
                name=name,
                night=f"{night.day} {night.starts}" if night else "",
                time=human_times(least, most),
                least=100 * min(least / top, 1),
                most=100 * min(most / top, 1),
                window=100 * window / top,
                is_late=night.is_late if night else most > window,
                fullest=fullest.get(row.wave, ""),
            )
        )
    return lines


def _fullest(plan: ClusterPlan) -> dict[int, str]:
    """The fullest disk among the brokers of each wave, in percent of its capacity; without capacities nothing."""
    capacity = {row.broker_id: row.disk_capacity_bytes for row in plan.brokers}
    most: dict[int, tuple[float, int]] = {}
    for row in plan.broker_waves:
        size = capacity.get(row.broker_id)
        if size:
            most[row.wave] = max(most.get(row.wave, (0.0, 0)), (100 * row.peak_disk_bytes / size, row.broker_id))
    return {wave: f"{percent:.0f} % ({broker})" for wave, (percent, broker) in most.items()}


def rack_matrix(plan: ClusterPlan) -> tuple[list[str], dict[tuple[str, str], int]]:
    """Racks, and bytes by rack of the leader and rack of the new replica."""
    flow: dict[tuple[str, str], int] = defaultdict(int)
    for row in plan.rack_flow:
        flow[row.from_rack, row.to_rack] += row.copied_bytes
    racks = {row.rack for row in plan.brokers if row.rack} | {rack for pair in flow for rack in pair}
    return sorted(racks), dict(flow)


def largest_pairs(flow: dict[tuple[str, str], int]) -> list[Amount]:
    """The pairs of racks with most bytes."""
    pairs = sorted(flow.items(), key=lambda item: (-item[1], item[0]))[:_PAIRS]
    return _amounts([(f"{source} → {target}", 0, size) for (source, target), size in pairs])


def topics(plan: ClusterPlan) -> tuple[list[Amount], int]:
    """The topics with most bytes, and how many topics move."""
    partitions, moved = Counter[str](), Counter[str]()
    for row in plan.changed:
        if row.moved_bytes:
            partitions[row.topic] += 1
            moved[row.topic] += row.moved_bytes
    largest = sorted(moved.items(), key=lambda item: (-item[1], item[0]))[:_TOPICS]
    return _amounts([(name, partitions[name], size) for name, size in largest]), len(moved)


def copies_by_reason(plan: ClusterPlan) -> list[Amount]:
    """Why replicas are copied, the most urgent first; copies and bytes add up to those of the plan."""
    copies, moved = Counter[str](), Counter[str]()
    for move in plan.moves:
        copies[move.reason] += move.to_broker is not None
        moved[move.reason] += move.size_bytes
    return _amounts([(REASON_TEXTS[name], copies[name], moved[name]) for name in REASONS if copies[name]])


def _amounts(items: Sequence[tuple[str, int, int]]) -> list[Amount]:
    top = max((size for _, _, size in items), default=0) or 1
    return [Amount(name, count, size, 100 * size / top) for name, count, size in items]
