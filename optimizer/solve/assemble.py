"""From a cluster's arrays and a shard's members to the shard problem."""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Bands, Bools, Brokers, Floats, Ints, Partitions
from optimizer.solve.bands import DISK, replica_weights
from optimizer.solve.pins import group_by_pins, rack_rule
from optimizer.solve.shard import OUTSIDE, PAD, ShardProblem


@dataclass(frozen=True)
class ClusterFrame:
    """What every shard of a cluster shares: brokers, bands and the current load of each broker.

    Parameters
    ----------
    loads : (B, D) float64
        Absolute loads of the placement at the start of the round.
    scale : (D,) float64
        Mean broker load, absolute.
    """

    brokers: Brokers
    bands: Bands
    loads: Floats
    scale: Floats


def _local(replicas: Ints, position: Ints) -> Ints:
    return np.where(replicas < 0, PAD, position[np.maximum(replicas, 0)])


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
    position = np.full(len(brokers), OUTSIDE)
    position[members] = np.arange(len(members))
    hosts = _local(current, position)
    before = _local(partitions.replicas, position)
    original = np.zeros((len(partitions), len(members)), dtype=bool)
    row, slot = np.nonzero(before >= 0)
    original[row, before[row, slot]] = True
    row, slot = np.nonzero(hosts >= 0)
    on_original = np.zeros(hosts.shape, dtype=bool)
    on_original[row, slot] = original[row, hosts[row, slot]]
    groups = group_by_pins(brokers, partitions.topic)
    rule = rack_rule(brokers, groups, partitions.replication_factor)
    return ShardProblem(
        rack=brokers.rack[members],
        accepts=brokers.accepts_replicas[members],
        must_empty=brokers.must_empty[members],
        loads=frame.loads[members] / frame.scale,
        lower=frame.bands.lower[members] / frame.scale,
        upper=frame.bands.upper[members] / frame.scale,
        hosts=hosts,
        host_rack=np.where(current >= 0, brokers.rack[np.maximum(current, 0)], -1),
        on_original=on_original,
        original=original,
        weights=replica_weights(partitions) / frame.scale,
        cap=rule.cap,
        floor=rule.floor,
        owner=owner,
        mobility=partitions.mobility,
        rack_size=rule.sizes,
        pin=groups.of,
        pin_allows=groups.allowed[:, members],
        disk=DISK,
    )
