"""Build the problem of a shard from the arrays of its cluster and its members."""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bands, Bools, Brokers, Floats, Ints, Partitions
from optimizer.kafka.partition_state import CompletionRule
from optimizer.solve.rules.bands import replica_weights
from optimizer.solve.rules.mobility import stays
from optimizer.solve.rules.pins import PinGroups, group_by_pins, rack_rule
from optimizer.solve.rules.racks import rack_histogram
from optimizer.solve.rules.topic_spread import topic_numbers
from optimizer.solve.shard.shard_problem import OUTSIDE, PAD, Members, Rows, ShardProblem
from optimizer.solve.tuning import Tuning


@dataclass(frozen=True)
class ClusterFrame:
    """Data that all shards of a cluster share: brokers, bands and the current load of each broker.

    Parameters
    ----------
    loads : (B, D) float64
        Absolute loads at the start of the round.
    scale : (D,) float64
        Mean broker load, absolute.
    tuning : Tuning
        How hard the solvers of its shards try.
    completion : CompletionRule
        When Kafka ends a reassignment.
    """

    brokers: Brokers
    bands: Bands
    loads: Floats
    scale: Floats
    tuning: Tuning
    completion: CompletionRule = CompletionRule.TARGET


def _local(replicas: Ints, position: Ints) -> Ints:
    return np.where(replicas < 0, PAD, position[np.maximum(replicas, 0)])


def _in_crowded_racks(brokers: Brokers, current: Ints, cap: Ints) -> Bools:
    """Replicas in racks over the cap, (m, W)."""
    counts = rack_histogram(current, brokers.rack, len(brokers.rack_names))
    in_same_rack = np.take_along_axis(counts, brokers.rack[np.maximum(current, 0)], axis=1)
    return np.asarray((current >= 0) & (in_same_rack > cap[:, None]))


def _leaving(brokers: Brokers, members: Ints, current: Ints, groups: PinGroups) -> Bools:
    """Replicas on members to empty, if the members of their rack can hold all replicas of the partition, (m, W)."""
    inside = np.zeros(len(brokers), dtype=bool)
    inside[members] = True
    racks, host = len(brokers.rack_names), np.maximum(current, 0)
    takes = inside & brokers.accepts_replicas
    takers = np.stack([np.bincount(brokers.rack[takes & allowed], minlength=racks) for allowed in groups.allowed])
    leaves = (current >= 0) & (inside & brokers.must_empty)[host]
    taken = (current >= 0) & takes[host] & groups.allowed[groups.of[:, None], host]
    needed = rack_histogram(np.where(leaves | taken, current, -1), brokers.rack, racks)
    fits = takers[groups.of] >= needed
    return np.asarray(leaves & np.take_along_axis(fits, brokers.rack[host], axis=1))


def _rows(leaving: Bools, repairs: Bools) -> tuple[Ints, Bools, Bools]:
    """Rows of the shard: their partitions (m,), movable replicas (m, W), and whether they may change racks (m,).

    A partition has one row. If several of its replicas must move, it has a row for each leaving replica; if its racks
    are to be repaired, it also has a row for the other replicas. The row of a leaving replica moves it inside its rack.
    So all leave in one round, and their bytes also serve the balance.
    """
    split = (leaving.sum(axis=1) > 1) | repairs
    row, slot = np.nonzero(leaving & split[:, None])
    alone = np.zeros((len(row), leaving.shape[1]), dtype=bool)
    alone[np.arange(len(row)), slot] = True
    whole, rest = np.flatnonzero(~split), np.flatnonzero(repairs)
    rows = np.concatenate([whole, row, rest])
    movable = np.concatenate([np.ones((len(whole), leaving.shape[1]), dtype=bool), alone, ~leaving[rest]])
    may_own = np.repeat([True, False, True], [len(whole), len(row), len(rest)])
    order = np.argsort(rows, kind="stable")
    return rows[order], movable[order], may_own[order]


def assemble(frame: ClusterFrame, members: Ints, partitions: Partitions, current: Ints, owner: Bools) -> ShardProblem:
    """The problem of one shard.

    Parameters
    ----------
    members : (n,) int64
        Broker indices, ascending.
    partitions : Partitions
        Partitions with a replica on a member; ``replicas`` as before the plan.
    current : (m, W) int64
        Their replicas at the start of the round, slot by slot against ``partitions.replicas``.
    owner : (m,) bool
        This shard may change their racks.
    """
    brokers = frame.brokers
    groups = group_by_pins(brokers, partitions.topic)
    rule = rack_rule(brokers, groups, partitions.replication_factor)
    in_crowded_racks = _in_crowded_racks(brokers, current, rule.cap)
    leaving = _leaving(brokers, members, current, groups) & ~in_crowded_racks
    row_of, movable, may_own = _rows(leaving, owner & in_crowded_racks.any(axis=1) & leaving.any(axis=1))
    partitions, current, owner = partitions.rows(row_of), current[row_of], owner[row_of] & may_own
    groups = groups.rows(row_of)
    shard_members = Members(
        rack=brokers.rack[members],
        accepts=brokers.accepts_replicas[members],
        must_empty=brokers.must_empty[members],
        skips_tiered=brokers.skips_tiered[members],
        scale=frame.scale,
        loads=frame.loads[members] / frame.scale,
        lower=frame.bands.lower[members] / frame.scale,
        upper=frame.bands.upper[members] / frame.scale,
        pin_allows=groups.allowed[:, members],
    )
    hosts, original, stuck, on_original = _held(brokers, members, partitions, current)
    rows = Rows(
        of=row_of,
        partitions=partitions,
        hosts=hosts,
        host_rack=np.where(current >= 0, brokers.rack[np.maximum(current, 0)], -1),
        movable=movable,
        on_original=on_original,
        original=original,
        stuck=stuck,
        removes_stuck=_removes_stuck(frame.completion, partitions),
        left_stuck=partitions.stuck(current).sum(axis=1),
        weights=replica_weights(partitions) / frame.scale,
        cap=rule.cap[row_of],
        floor=rule.floor[row_of],
        owner=owner,
        topic=topic_numbers(partitions.topic, partitions.topic_most_replicas),
        pin=groups.of,
    )
    return ShardProblem(shard_members, rows, rule.sizes, len(members) == len(brokers), frame.tuning)


def _held(brokers: Brokers, members: Ints, partitions: Partitions, current: Ints) -> tuple[Ints, Bools, Bools, Bools]:
    """Current member of each replica, (m, W); members that held one before the plan, and one out of sync, (m, n) each;
    and whether a replica is on a member that held one, (m, W)."""
    position = np.full(len(brokers), OUTSIDE)
    position[members] = np.arange(len(members))
    before = partitions.replicas
    hosts, held_before = _local(current, position), _local(before, position)
    original = _marked(held_before, len(members))
    stuck = _marked(np.where(partitions.stuck(before), held_before, PAD), len(members))
    row, slot = np.nonzero(hosts >= 0)
    on_original = np.zeros(hosts.shape, dtype=bool)
    on_original[row, slot] = original[row, hosts[row, slot]]
    return hosts, original, stuck, on_original


def _removes_stuck(completion: CompletionRule, partitions: Partitions) -> Bools:
    """Partitions that can only change if no replica out of sync stays: else Kafka would not end it, (m,)."""
    needs_all = {
        CompletionRule.ADDED: np.zeros(len(partitions), dtype=bool),
        CompletionRule.TARGET: np.ones(len(partitions), dtype=bool),
        CompletionRule.TARGET_IF_FEWER: partitions.shrinks,
    }[completion]
    return np.asarray(needs_all & ~stays(partitions.mobility) & partitions.stuck(partitions.replicas).any(axis=1))


def _marked(hosts: Ints, members: int) -> Bools:
    """The members in each row of ``hosts``, (m, n)."""
    marked = np.zeros((len(hosts), members), dtype=bool)
    row, slot = np.nonzero(hosts >= 0)
    marked[row, hosts[row, slot]] = True
    return marked
