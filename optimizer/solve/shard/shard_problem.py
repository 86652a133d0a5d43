"""One shard in one round: which single moves are legal and what they cost.

Sets: members b = 0..n-1 (the shard's brokers), partitions p = 0..m-1 with a replica on a member, movable replicas
k = 0..K-1 (partition, slot, source broker). An *option* (k, t) moves replica k to member t. At most one option per
partition is taken in a round, so broker-disjoint shards never conflict: a replica changes racks only in its partition's
owner shard, and every other shard keeps the rack histogram as it is.
"""

from dataclasses import dataclass, replace

import numpy as np

from optimizer.domain import FREE, Bools, Floats, Ints
from optimizer.solve.rules.mobility import may_move, mends_racks, stays
from optimizer.solve.rules.racks import rack_disorder
from optimizer.solve.rules.topic_spread import TopicSpread, topic_spread
from optimizer.wishes import NO_LIMIT

PAD, OUTSIDE = -1, -2
MOST_CELLS = 3_000_000
BY_ROW = (
    *("hosts", "host_rack", "row", "movable", "on_original", "original"),
    *("weights", "cap", "floor", "owner", "mobility", "pin", "topic", "topic_most"),
)


@dataclass(frozen=True)
class ShardProblem:
    """A shard's brokers and partitions.

    Parameters
    ----------
    rack : (n,) int64
    accepts, must_empty : (n,) bool
    scale : (D,) float64
        Mean broker load, absolute.
    loads, lower, upper : (n, D) float64
        In units of ``scale``: the mean broker is 1.
    hosts : (m, W) int64
        Member index of each replica; PAD behind the list, OUTSIDE for brokers of other shards.
    host_rack : (m, W) int64
        Rack of each replica, -1 at PAD.
    row : (m,) int64
        The partition among those handed in: one with several replicas to move off has a row for each of them.
    movable : (m, W) bool
        The replicas that this row may move.
    on_original : (m, W) bool
        The replica sits where it sat before the plan: moving it costs its bytes; else they are paid already.
    original : (m, n) bool
        The member held a replica before the plan: returning to it refunds the bytes.
    weights : (m, D) float64
        Load of one replica in units of ``scale``; column ``disk`` is the cost of a copy.
    cap, floor : (m,) int64
        Most and least replicas in a rack.
    owner : (m,) bool
        Racks may be changed here.
    mobility : (m,) int64
    topic : (m,) int64
        Topic of each partition, numbered in the shard; 0 for all where nothing is asked of any.
    topic_most : (m,) int64
        Most replicas of its topic on one broker, ``NO_LIMIT`` where nothing is asked.
    rack_size : (G, R) int64
        Brokers of each rack that may hold replicas of a pin's group after the plan.
    pin : (m,) int64
        Group of each partition; 0 without a pin.
    pin_allows : (G, n) bool
        Members that may hold replicas of each group; row 0 is all True.
    disk : int
        Column of bytes in ``weights``.
    is_cluster : bool
        The members are all brokers of the cluster.
    """

    rack: Ints
    accepts: Bools
    must_empty: Bools
    scale: Floats
    loads: Floats
    lower: Floats
    upper: Floats
    hosts: Ints
    host_rack: Ints
    row: Ints
    movable: Bools
    on_original: Bools
    original: Bools
    weights: Floats
    cap: Ints
    floor: Ints
    owner: Bools
    mobility: Ints
    topic: Ints
    topic_most: Ints
    rack_size: Ints
    pin: Ints
    pin_allows: Bools
    disk: int
    is_cluster: bool

    @property
    def held(self) -> Bools:
        """Members that hold a replica of each partition now, (m, n)."""
        holds = np.zeros(self.original.shape, dtype=bool)
        row, slot = np.nonzero(self.hosts >= 0)
        holds[row, self.hosts[row, slot]] = True
        return holds

    def one_row_each(self) -> "ShardProblem":
        """The same with one row for each partition, in the order of the partitions."""
        first = np.unique(self.row, return_index=True)[1]
        return replace(self, **{name: getattr(self, name)[first] for name in BY_ROW})

    @property
    def spread(self) -> TopicSpread | None:
        """Topics on members; None where nothing is asked of any topic."""
        if not (self.topic_most < NO_LIMIT).any():
            return None
        first = np.unique(self.row, return_index=True)[1]
        return topic_spread(self.topic[first], self.topic_most[first], self.hosts[first], len(self.rack))

    @property
    def paid(self) -> float:
        """Bytes copied before this round to the members, in mean broker loads."""
        first = np.unique(self.row, return_index=True)[1]
        copies = ((self.hosts >= 0) & ~self.on_original)[first].sum(axis=1)
        return float(self.size[first] @ copies)

    @property
    def size(self) -> Floats:
        """Bytes of one replica in mean broker loads, (m,)."""
        return np.asarray(self.weights[:, self.disk])


@dataclass(frozen=True)
class Options:
    """Legal single moves of a shard.

    Parameters
    ----------
    partition, slot, source : (K,) int64
        The movable replicas; ``source`` is a member index.
    pushes : (K,) bool
        It must leave and no member that it may go to has room for its topic: it goes where there is none.
    allowed : (K, n) bool
    copies : (K, n) float64
        Copies made: 1, 0 for moving on one that is paid already, -1 where a copy becomes unnecessary.
    cost : (K, n) float64
        Bytes copied in mean broker loads; negative where a copy becomes unnecessary.
    needed : (m,) bool
        The partition must take one of its options (draining, dead, pins, racks, topics), and has one.
    narrowed : bool
        The spread of topics closes or demands some, or the width of the shard hides some: what is least of these need
        not be least of all moves.
    """

    partition: Ints
    slot: Ints
    source: Ints
    pushes: Bools
    allowed: Bools
    copies: Floats
    cost: Floats
    needed: Bools
    narrowed: bool

    def only(self, open_: Bools, goes: Bools) -> tuple["Options", Ints]:
        """The same without options that are not open, (K, n), and with partitions that must take one beside those that
        had to, (m,); a partition that has none left is not needed. Also the rows that are left of these options."""
        allowed = self.allowed & open_
        rows = np.flatnonzero(allowed.any(axis=1))
        has = np.zeros(len(self.needed), dtype=bool)
        has[self.partition[rows]] = True
        per_row = ("partition", "slot", "source", "pushes", "copies", "cost")
        kept = {name: getattr(self, name)[rows] for name in per_row}
        needed = (self.needed | goes) & has
        return replace(self, **kept, allowed=allowed[rows], needed=needed, narrowed=True), rows

    def priced(self, size: Floats, move_price: float) -> "Options":
        """The same with a price on each copy beside its bytes; ``size`` (m,) and the price in mean broker loads."""
        return replace(self, cost=(size + move_price)[self.partition][:, None] * self.copies)


def _histogram(problem: ShardProblem) -> Ints:
    counts = np.zeros((len(problem.hosts), problem.rack_size.shape[1]), dtype=np.int64)
    row, slot = np.nonzero(problem.hosts != PAD)
    np.add.at(counts, (row, problem.host_rack[row, slot]), 1)
    return counts


def _disorder_change(problem: ShardProblem, counts: Ints, partition: Ints, source: Ints) -> Ints:
    """Change of rack disorder by each option, (K, n)."""
    cap = problem.cap[partition][:, None]
    floor, group = problem.floor[partition][:, None], problem.pin[partition]
    floor_here = np.minimum(floor, problem.rack_size[group, problem.rack[source]][:, None])
    floor_there = np.minimum(floor, problem.rack_size[:, problem.rack][group])
    here = counts[partition, problem.rack[source]][:, None]
    there = counts[partition][:, problem.rack]
    leave = (here <= floor_here).astype(np.int64) - (here > cap)
    enter = (there >= cap).astype(np.int64) - (there < floor_there)
    return np.where(problem.rack[source][:, None] == problem.rack[None, :], 0, leave + enter)


def _restrict(partition: Ints, allowed: Bools, wanted: Bools, n_partitions: int) -> tuple[Bools, Bools]:
    """Keep only wanted options of partitions that have any; returns (allowed, partitions that have)."""
    hit = allowed & wanted
    has = np.zeros(n_partitions, dtype=bool)
    has[partition[hit.any(axis=1)]] = True
    return np.where(has[partition][:, None], hit, allowed), has


def _rack_broken(problem: ShardProblem, counts: Ints) -> Bools:
    broken = np.zeros(len(counts), dtype=bool)
    for group, sizes in enumerate(problem.rack_size):
        rows = problem.pin == group
        broken[rows] = rack_disorder(counts[rows], problem.cap[rows], problem.floor[rows], sizes) > 0
    return broken


def _outside_pin(problem: ShardProblem, partition: Ints, source: Ints) -> Bools:
    """Replicas that a pin sends away, (K,): of free partitions alone."""
    return ~problem.pin_allows[problem.pin[partition], source] & (problem.mobility == FREE)[partition]


def _worth_a_look(problem: ShardProblem, source: Ints, cells: int) -> Bools:
    """Replicas whose move may help, (K,): all; in a very wide shard those of brokers fuller than the middle of a band.

    A shard is that wide only where a few brokers are so full that all the others must take from them.
    """
    if cells <= MOST_CELLS:
        return np.ones(len(source), dtype=bool)
    bounded = np.isfinite(problem.upper)
    middle = np.where(bounded, (problem.lower + np.where(bounded, problem.upper, 0.0)) / 2, np.inf)
    return np.asarray((problem.loads > middle).any(axis=1))[source]


def _spread(
    problem: ShardProblem, partition: Ints, source: Ints, allowed: Bools, forced: Bools
) -> tuple[Bools, Bools, Bools]:
    """Options where their topics have room, (K, n), the replicas that their topics send away, and those that push in.

    What must leave its broker and finds no room pushes in: an empty broker comes before a topic's spread, and what is
    then too many is sent away in the next round.
    """
    spread, nothing = problem.spread, np.zeros(len(partition), dtype=bool)
    if spread is None:
        return allowed, nothing, nothing
    topic = problem.topic[partition]
    roomy = allowed & spread.has_room[topic]
    pushes = forced & allowed.any(axis=1) & ~roomy.any(axis=1)
    busy = np.zeros(len(problem.hosts), dtype=bool)
    busy[partition[forced]] = True
    may_leave = roomy.any(axis=1) & ~busy[partition] & (problem.mobility == FREE)[partition]
    shed = spread.to_shed(topic, source, problem.size[partition], may_leave)
    return np.where(pushes[:, None], allowed, roomy), shed, pushes


def _mending(problem: ShardProblem, counts: Ints, partition: Ints, change: Ints) -> Bools:
    """Options that mend the racks of their partition, (K, n)."""
    mendable = _rack_broken(problem, counts) & problem.owner & mends_racks(problem.mobility)
    return np.asarray((change < 0) & mendable[partition][:, None])


def legal_options(problem: ShardProblem) -> Options:
    """Every legal single move (formula 2 of docs/solver.md), its cost, and the partitions that must move."""
    m = len(problem.hosts)
    partition, slot = np.nonzero((problem.hosts >= 0) & problem.movable & ~stays(problem.mobility)[:, None])
    source = problem.hosts[partition, slot]
    counts = _histogram(problem)
    allowed = problem.accepts[None, :] & ~problem.held[partition]
    same_rack = problem.rack[source][:, None] == problem.rack[None, :]
    change = _disorder_change(problem, counts, partition, source)
    allowed &= (same_rack | problem.owner[partition][:, None]) & (change <= 0)
    if len(problem.pin_allows) > 1:
        allowed &= problem.pin_allows[problem.pin[partition]]
    forced = problem.must_empty[source] | _outside_pin(problem, partition, source)
    mends = _mending(problem, counts, partition, change)
    allowed &= may_move(problem.mobility[partition], forced, mends)
    open_, shed, pushes = _spread(problem, partition, source, allowed, forced)
    narrowed, allowed, forced = bool(shed.any() or pushes.any() or (open_ != allowed).any()), open_, forced | shed
    allowed, drains = _restrict(partition, allowed, np.broadcast_to(forced[:, None], allowed.shape), m)
    allowed, mended = _restrict(partition, allowed, mends, m)
    new_copy = (~problem.original[partition]).astype(np.float64)
    paid = (~problem.on_original[partition, slot]).astype(np.float64)
    copies = new_copy - paid[:, None]
    needed = drains | mended
    looked_at = needed[partition] | _worth_a_look(problem, source, allowed.size)
    narrowed |= not looked_at.all()
    keep = allowed.any(axis=1) & looked_at
    cost = problem.size[partition][:, None] * copies
    return Options(
        partition=partition[keep],
        slot=slot[keep],
        source=source[keep],
        pushes=pushes[keep],
        allowed=allowed[keep],
        copies=copies[keep],
        cost=cost[keep],
        needed=needed,
        narrowed=narrowed,
    )
