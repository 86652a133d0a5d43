"""One shard in one round: its brokers and its partitions.

Sets: members b = 0..n-1 (the shard's brokers), rows p = 0..m-1 (partitions with a replica on a member), movable
replicas k = 0..K-1 (row, slot, source broker).
"""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import Bools, Floats, Ints, Partitions
from optimizer.solve.rules.resources import DISK
from optimizer.solve.rules.topic_spread import TopicSpread, topic_spread
from optimizer.solve.tuning import Tuning

PAD, OUTSIDE = -1, -2  # in place of a member: padding behind the list; a broker of another shard


@dataclass(frozen=True)
class Members:
    """The brokers of a shard.

    Parameters
    ----------
    rack : (n,) int64
    accepts, must_empty, skips_tiered : (n,) bool
    scale : (D,) float64
        Mean broker load, absolute.
    loads, lower, upper : (n, D) float64
        In units of ``scale``: the mean broker is 1.
    pin_allows : (G, n) bool
        Members that may hold replicas of each group of pins; row 0 is all True.
    """

    rack: Ints
    accepts: Bools
    must_empty: Bools
    skips_tiered: Bools
    scale: Floats
    loads: Floats
    lower: Floats
    upper: Floats
    pin_allows: Bools


@dataclass(frozen=True)
class Rows:
    """The partitions of a shard; a partition with several replicas that must leave has a row for each of them.

    Parameters
    ----------
    of : (m,) int64
        Index of the row's partition among those given to ``assemble``.
    partitions : Partitions
        The partition of each row, (m,), as before the plan.
    hosts : (m, W) int64
        Member index of each replica; PAD behind the list, OUTSIDE for brokers of other shards.
    host_rack : (m, W) int64
        Rack of each replica, -1 at PAD.
    movable : (m, W) bool
        The replicas that this row may move.
    on_original : (m, W) bool
        The replica is where it was before the plan: moving it costs its bytes. Else they are paid already.
    original : (m, n) bool
        The member held a replica before the plan: returning to it refunds the bytes.
    stuck : (m, n) bool
        The member held a replica before the plan that was out of sync.
    removes_stuck : (m,) bool
        The partition can only change if none of its replicas out of sync stays.
    left_stuck : (m,) int64
        Replicas out of sync that it still has, on any broker.
    weights : (m, D) float64
        Load of one replica in units of ``scale``.
    cap, floor : (m,) int64
        Most and least replicas in a rack.
    owner : (m,) bool
        This shard may change the partition's racks.
    topic : (m,) int64
        Topic of each partition, numbered in the shard; 0 for all if no topic has a limit.
    pin : (m,) int64
        Group of each partition; 0 without a pin.
    """

    of: Ints
    partitions: Partitions
    hosts: Ints
    host_rack: Ints
    movable: Bools
    on_original: Bools
    original: Bools
    stuck: Bools
    removes_stuck: Bools
    left_stuck: Ints
    weights: Floats
    cap: Ints
    floor: Ints
    owner: Bools
    topic: Ints
    pin: Ints

    @property
    def mobility(self) -> Ints:
        """Mobility of each partition, (m,)."""
        return self.partitions.mobility

    @property
    def topic_most(self) -> Ints:
        """Most replicas of each partition's topic on one broker, (m,); ``NO_LIMIT`` if there is no limit."""
        return self.partitions.topic_most_replicas

    @property
    def size(self) -> Floats:
        """Bytes of one replica in mean broker loads, (m,)."""
        return np.asarray(self.weights[:, DISK])

    @cached_property
    def held(self) -> Bools:
        """Members that hold a replica of each partition now, (m, n); read-only."""
        holds = np.zeros(self.original.shape, dtype=bool)
        row, slot = np.nonzero(self.hosts >= 0)
        holds[row, self.hosts[row, slot]] = True
        holds.flags.writeable = False
        return holds

    @cached_property
    def spread(self) -> TopicSpread | None:
        """Spread of topics over members; None if no topic has a limit."""
        if not (self.topic_most < NO_LIMIT).any():
            return None
        rows = self.one_per_partition()
        return topic_spread(rows.topic, rows.topic_most, rows.hosts, rows.original.shape[1])

    def one_per_partition(self) -> "Rows":
        """The rows with one row for each partition, in the order of the partitions."""
        first = np.unique(self.of, return_index=True)[1]
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        partitions = values.pop("partitions").rows(first)
        return Rows(partitions=partitions, **{name: value[first] for name, value in values.items()})


@dataclass(frozen=True)
class ShardProblem:
    """A shard's brokers and partitions.

    Parameters
    ----------
    rack_size : (G, R) int64
        Brokers of each rack that may hold replicas of a group of pins after the plan; of the whole cluster.
    is_cluster : bool
        The members are all brokers of the cluster.
    tuning : Tuning
        How hard its solvers try.
    """

    members: Members
    rows: Rows
    rack_size: Ints
    is_cluster: bool
    tuning: Tuning

    @cached_property
    def copy_bytes(self) -> Ints:
        """Bytes of a copy of each row's partition to each member, (m, n)."""
        return self.rows.partitions.bytes_to(self.members.skips_tiered)

    @cached_property
    def paid(self) -> float:
        """Bytes copied to the members before this round, in mean broker loads."""
        rows = self.rows.one_per_partition()
        row, slot = np.nonzero((rows.hosts >= 0) & ~rows.on_original)
        copied = rows.partitions.bytes_to(self.members.skips_tiered)[row, rows.hosts[row, slot]]
        return float(copied.sum() / self.members.scale[DISK])
