"""Legal single moves of a shard, their costs, and their costs at prices of load.

An *option* (k, t) moves replica k to member t. A round takes at most one option per partition. Shards have disjoint
brokers and never conflict: a replica changes racks only in its partition's owner shard; no other shard changes the rack
histogram.
"""

from dataclasses import dataclass, replace

import numpy as np

from optimizer.domain import FREE, Bools, Floats, Ints
from optimizer.solve.rules.mobility import may_move, may_repair_racks, stays
from optimizer.solve.rules.racks import rack_disorder
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.shard_problem import PAD, ShardProblem

FIXED_COST = 1e-7  # mean broker loads: a tiny cost, so that needless moves at no bytes are avoided


@dataclass(frozen=True)
class Options:
    """Legal single moves of a shard.

    Parameters
    ----------
    partition, slot, source : (K,) int64
        The movable replicas; ``source`` is a member index.
    pushes : (K,) bool
        It must leave, and no target has space for its topic: it exceeds the topic's limit there.
    allowed : (K, n) bool
    copies : (K, n) float64
        Copies made: 1; 0 if the replica is a copy of this plan already; -1 if a copy becomes unnecessary.
    copied : (K, n) float64
        Bytes copied, in mean broker loads; negative if a copy becomes unnecessary.
    cost : (K, n) float64
        ``copied``, plus the price of the copies if they have one.
    needed : (m,) bool
        The partition must take one of its options (draining, dead, pins, racks, topics), and has one.
    narrowed : bool
        Topic limits exclude or force options, or a wide shard left some out: the least cost of these options need not
        be the least of all moves.
    """

    partition: Ints
    slot: Ints
    source: Ints
    pushes: Bools
    allowed: Bools
    copies: Floats
    copied: Floats
    cost: Floats
    needed: Bools
    narrowed: bool

    def only(self, open_: Bools, goes: Bools) -> tuple["Options", Ints]:
        """Keep only open options, and force more partitions to move.

        Parameters
        ----------
        open_ : (K, n) bool
        goes : (m,) bool
            Partitions that must take an option, in addition to ``needed``. A partition without options need not move.

        Returns
        -------
        tuple
            The options, and which rows of the old options they are.
        """
        allowed = self.allowed & open_
        rows = np.flatnonzero(allowed.any(axis=1))
        has = np.zeros(len(self.needed), dtype=bool)
        has[self.partition[rows]] = True
        per_row = ("partition", "slot", "source", "pushes", "copies", "copied", "cost")
        remaining = {name: getattr(self, name)[rows] for name in per_row}
        needed = (self.needed | goes) & has
        return replace(self, **remaining, allowed=allowed[rows], needed=needed, narrowed=True), rows

    def priced(self, move_price: float) -> "Options":
        """Add a price on each copy, in mean broker loads, to its bytes."""
        return replace(self, cost=self.copied + move_price * self.copies)


def _histogram(problem: ShardProblem) -> Ints:
    rows = problem.rows
    counts = np.zeros((len(rows.hosts), problem.rack_size.shape[1]), dtype=np.int64)
    row, slot = np.nonzero(rows.hosts != PAD)
    np.add.at(counts, (row, rows.host_rack[row, slot]), 1)
    return counts


def _disorder_change(problem: ShardProblem, counts: Ints, partition: Ints, source: Ints) -> Ints:
    """Change in rack disorder by each option, (K, n)."""
    members, rows = problem.members, problem.rows
    cap = rows.cap[partition][:, None]
    floor, group = rows.floor[partition][:, None], rows.pin[partition]
    source_floor = np.minimum(floor, problem.rack_size[group, members.rack[source]][:, None])
    target_floor = np.minimum(floor, problem.rack_size[:, members.rack][group])
    source_count = counts[partition, members.rack[source]][:, None]
    target_count = counts[partition][:, members.rack]
    leave = (source_count <= source_floor).astype(np.int64) - (source_count > cap)
    enter = (target_count >= cap).astype(np.int64) - (target_count < target_floor)
    return np.where(members.rack[source][:, None] == members.rack[None, :], 0, leave + enter)


def _restrict(partition: Ints, allowed: Bools, preferred: Bools, n_partitions: int) -> tuple[Bools, Bools]:
    """Keep only the preferred options of partitions that have any; returns (allowed, partitions that have any)."""
    hit = allowed & preferred
    has = np.zeros(n_partitions, dtype=bool)
    has[partition[hit.any(axis=1)]] = True
    return np.where(has[partition][:, None], hit, allowed), has


def rack_broken(problem: ShardProblem, counts: Ints) -> Bools:
    """Whether partitions break the rack rule, (m,), by their replicas in each rack, (m, R)."""
    broken = np.zeros(len(counts), dtype=bool)
    for group, sizes in enumerate(problem.rack_size):
        rows = problem.rows.pin == group
        broken[rows] = rack_disorder(counts[rows], problem.rows.cap[rows], problem.rows.floor[rows], sizes) > 0
    return broken


def _outside_pin(problem: ShardProblem, partition: Ints, source: Ints) -> Bools:
    """Replicas of free partitions outside their pin, (K,)."""
    return ~problem.members.pin_allows[problem.rows.pin[partition], source] & (problem.rows.mobility == FREE)[partition]


def _may_help(problem: ShardProblem, source: Ints, cells: int) -> Bools:
    """Replicas to consider, (K,): all; in a very wide shard only those on brokers fuller than the middle of a band.

    A shard is that wide only if a few brokers are so full that all other brokers must take from them.
    """
    members = problem.members
    if cells <= problem.tuning.wide_cells:
        return np.ones(len(source), dtype=bool)
    bounded = np.isfinite(members.upper)
    middle = np.where(bounded, (members.lower + np.where(bounded, members.upper, 0.0)) / 2, np.inf)
    return np.asarray((members.loads > middle).any(axis=1))[source]


def _with_topic_limits(
    problem: ShardProblem, partition: Ints, source: Ints, allowed: Bools, forced: Bools
) -> tuple[Bools, Bools, Bools]:
    """Options within topic limits, (K, n); replicas that must leave because of their topic; replicas that push in.

    A replica that must leave its broker and has no target within its topic's limit pushes in: emptying a broker comes
    before the spread of topics. The next round moves the surplus away.
    """
    rows = problem.rows
    spread, nothing = rows.spread, np.zeros(len(partition), dtype=bool)
    if spread is None:
        return allowed, nothing, nothing
    topic = rows.topic[partition]
    roomy = allowed & spread.has_room[topic]
    pushes = forced & allowed.any(axis=1) & ~roomy.any(axis=1)
    busy = np.zeros(len(rows.hosts), dtype=bool)
    busy[partition[forced]] = True
    may_leave = roomy.any(axis=1) & ~busy[partition] & (rows.mobility == FREE)[partition]
    shed = spread.to_shed(topic, source, rows.size[partition], may_leave)
    return np.where(pushes[:, None], allowed, roomy), shed, pushes


def _rack_repairs(problem: ShardProblem, counts: Ints, partition: Ints, change: Ints) -> Bools:
    """Options that repair the racks of their partition, (K, n)."""
    repairable = rack_broken(problem, counts) & problem.rows.owner & may_repair_racks(problem.rows.mobility)
    return np.asarray((change < 0) & repairable[partition][:, None])


def _keeps_in_sync(problem: ShardProblem, partition: Ints, source: Ints) -> Bools:
    """Options that keep enough replicas in sync, (K, n) (formula 33 of docs/solver.md).

    No replica that was out of sync comes back for one in sync; only shorter lists have removed one. If no replica out
    of sync may stay, these leave first, and none comes back.
    """
    rows = problem.rows
    is_stuck, removes = rows.stuck[partition, source], rows.removes_stuck[partition]
    is_barred = removes | (rows.partitions.shrinks[partition] & ~is_stuck)
    waits = removes & ~is_stuck & (rows.left_stuck[partition] > 0)
    return ~((is_barred[:, None] & rows.stuck[partition]) | waits[:, None])


def _repairs_by_stuck(problem: ShardProblem, partition: Ints, slot: Ints, source: Ints, repairs: Bools) -> Bools:
    """Rack repairs by the replica that is out of sync, (K, n); none where a copy of this plan can repair for less."""
    rows = problem.rows
    cheaper = np.zeros(len(rows.hosts), dtype=bool)
    cheaper[partition[repairs.any(axis=1) & ~rows.on_original[partition, slot]]] = True
    return repairs & (rows.stuck[partition, source] & ~cheaper[partition])[:, None]


def legal_options(problem: ShardProblem) -> Options:
    """Every legal single move (formula 2 of docs/solver.md), its cost, and the partitions that must move."""
    members, rows = problem.members, problem.rows
    m = len(rows.hosts)
    partition, slot = np.nonzero((rows.hosts >= 0) & rows.movable & ~stays(rows.mobility)[:, None])
    source = rows.hosts[partition, slot]
    counts = _histogram(problem)
    allowed = members.accepts[None, :] & ~rows.held[partition]
    same_rack = members.rack[source][:, None] == members.rack[None, :]
    change = _disorder_change(problem, counts, partition, source)
    allowed &= (same_rack | rows.owner[partition][:, None]) & (change <= 0)
    if rows.stuck.any():
        allowed &= _keeps_in_sync(problem, partition, source)
    if len(members.pin_allows) > 1:
        allowed &= members.pin_allows[rows.pin[partition]]
    forced = members.must_empty[source] | _outside_pin(problem, partition, source)
    repairs = _rack_repairs(problem, counts, partition, change)
    allowed &= may_move(rows.mobility[partition], forced, repairs)
    open_, shed, pushes = _with_topic_limits(problem, partition, source, allowed, forced)
    narrowed, allowed, forced = bool(shed.any() or pushes.any() or (open_ != allowed).any()), open_, forced | shed
    allowed, drains = _restrict(partition, allowed, np.broadcast_to(forced[:, None], allowed.shape), m)
    allowed, repaired = _restrict(partition, allowed, repairs, m)
    if rows.stuck.any():
        by_stuck = _repairs_by_stuck(problem, partition, slot, source, allowed & repairs)
        allowed, _ = _restrict(partition, allowed, by_stuck, m)
    copy_cost = problem.copy_bytes / members.scale[DISK]
    new_copy = (~rows.original[partition]).astype(np.float64)
    paid = (~rows.on_original[partition, slot]).astype(np.float64)
    copies = new_copy - paid[:, None]
    needed = drains | repaired
    considered = needed[partition] | _may_help(problem, source, allowed.size)
    narrowed |= not considered.all()
    keep = allowed.any(axis=1) & considered
    of_source = copy_cost[partition, source] * paid
    copied = (copy_cost[partition] * new_copy - of_source[:, None])[keep]
    return Options(
        partition=partition[keep],
        slot=slot[keep],
        source=source[keep],
        pushes=pushes[keep],
        allowed=allowed[keep],
        copies=copies[keep],
        copied=copied,
        cost=copied,
        needed=needed,
        narrowed=narrowed,
    )


def tie_broken_cost(problem: ShardProblem, options: Options, tie_break: float) -> Floats:
    """Cost of each option, (K, n), with a tie-break towards small replicas.

    A replica of the mean size costs ``tie_break``, as a share, more; a replica of twice the size twice this share.
    """
    size = problem.rows.size
    moving = size[size > 0]
    mean = float(moving.mean()) if len(moving) else 1.0
    factor = 1.0 + tie_break * size / mean
    return np.asarray(options.cost * factor[options.partition][:, None] + FIXED_COST)


def charges(problem: ShardProblem, options: Options, cost: Floats, prices: Floats) -> Floats:
    """Cost of every option plus the prices of the load that it moves, (K, n); +inf if it is not allowed."""
    price = problem.rows.weights[options.partition] @ prices.T
    paid = np.take_along_axis(price, options.source[:, None], axis=1)
    return np.where(options.allowed, cost + price - paid, np.inf)


def dual_value(problem: ShardProblem, options: Options, charge: Floats, prices: Floats) -> float:
    """Lower bound on the cost of any single moves within the bands, by weak duality at the given prices.

    Every partition takes its cheapest option at the prices (``charge``), or stays if it may; minus the price of bands.
    """
    members = problem.members
    best = np.where(options.needed, np.inf, 0.0)
    np.minimum.at(best, options.partition, charge.min(axis=1))
    finite = np.isfinite(members.upper)
    rising = np.where(finite, np.maximum(prices, 0), 0.0)
    upper = np.where(finite, members.upper, 0.0)
    falling = np.maximum(-prices, 0)
    paid = (rising * (members.loads - upper)).sum() - (falling * (members.loads - members.lower)).sum()
    return float(best.sum() + paid)
