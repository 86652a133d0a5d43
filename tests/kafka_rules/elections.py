"""The controller's state of a partition after brokers fail (KIP-966): the model that ``exposure`` is compared with.

References
----------
org.apache.kafka.controller.PartitionChangeBuilder, Kafka 4.3.1;
kafka.cluster.Partition.effectiveMinIsr (KAFKA-15583, since 3.7).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from optimizer.kafka.partition_state import InFlight, complete


@dataclass(frozen=True)
class Partition:
    """A partition as the controller stores it.

    Parameters
    ----------
    replicas : tuple of int
        In its order; in flight: the target, then the replicas to remove.
    isr : tuple of int
        In-sync replicas.
    leader : int, optional
        None without a leader.
    elr : tuple of int
        Eligible leader replicas: not in sync, but they have all committed records.
    adding, removing : tuple of int
        Empty unless the partition is in flight.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True)
class ElectionRules:
    """The configs that decide an election.

    Parameters
    ----------
    min_isr : int
        min.insync.replicas of the topic.
    has_elr : bool
        Whether the cluster has the feature ``eligible.leader.replicas.version`` 1.
    allows_unclean : bool
        unclean.leader.election.enable of the topic.
    """

    min_isr: int
    has_elr: bool = False
    allows_unclean: bool = False


def fence(partition: Partition, broker: int, *, down: Collection[int], rules: ElectionRules) -> Partition:
    """The partition after the controller has fenced a broker.

    Parameters
    ----------
    down : collection of int
        All brokers that are fenced now, ``broker`` included.

    Notes
    -----
    The last known leader, which Kafka may elect if the ISR and the ELR are empty, is down in any sequence of failures.
    """
    isr = tuple(b for b in partition.isr if b != broker)
    if done := complete(InFlight(partition.replicas, partition.adding, partition.removing), isr):
        partition = replace(partition, replicas=done.replicas, adding=(), removing=())
        isr = done.isr
    elr: tuple[int, ...] = ()
    if rules.has_elr and len(isr) < rules.min_isr:
        elr = tuple(b for b in sorted({*partition.elr, *partition.isr}) if b not in isr)
    leader = _elect(partition, isr, elr, down, rules)
    if leader is not None and leader != partition.leader and leader not in isr:
        isr, elr = (leader,), tuple(b for b in elr if b != leader) if leader in elr else ()
    if not isr and not rules.has_elr:
        isr = partition.isr  # the last in-sync replica stays in the ISR
    return replace(partition, isr=isr, elr=elr, leader=leader)


def _elect(
    partition: Partition, isr: Sequence[int], elr: Sequence[int], down: Collection[int], rules: ElectionRules
) -> int | None:
    """The present leader if it may lead; else the first of the list that may; else with unclean election any."""
    living = [b for b in partition.replicas if b not in down]
    may_lead = [b for b in living if b in (isr or elr)]
    if partition.leader in may_lead:
        return partition.leader
    return next(iter(may_lead or (living if rules.allows_unclean else ())), None)


def needed_in_sync(min_isr: int, replicas: int, *, counts_all: bool) -> int:
    """In-sync replicas without which a write with ``acks=all`` fails.

    Parameters
    ----------
    replicas : int
        Length of the controller's list, with the replicas that are added and removed.
    counts_all : bool
        Before Kafka 3.7: the whole ``min_isr`` is needed, even if the list is shorter.
    """
    return min_isr if counts_all else min(min_isr, replicas)
