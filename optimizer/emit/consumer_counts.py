"""How many consumer groups notice a plan: on pages, in the manifest, and in answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.emit.rows import ConsumerImpactRow
from optimizer.kafka.sticky_assignors import COOPERATIVE
from optimizer.units import agree, plural


@dataclass(frozen=True)
class ConsumerCounts:
    """Numbers of consumer groups.

    Parameters
    ----------
    reading : int
        Who holds what is known; the next five count these.
    noticing, unaffected : int
        Something changes for what their members hold, or nothing.
    may_rebalance : int
        The set of racks of a partition changes, and the group is not of the consumer protocol.
    with_new_leaders : int
    read_while_copied : int
    without_members : int
        Nobody reads.
    unknown : int
        No source says who holds what.
    """

    reading: int
    noticing: int
    unaffected: int
    may_rebalance: int
    with_new_leaders: int
    read_while_copied: int
    without_members: int
    unknown: int


def consumer_counts(groups: Sequence[ConsumerImpactRow]) -> ConsumerCounts | None:
    """The numbers; None if no source is about consumers."""
    if not groups:
        return None
    reading = [row for row in groups if row.is_read]
    noticing = sum(row.notices for row in reading)
    return ConsumerCounts(
        reading=len(reading),
        noticing=noticing,
        unaffected=len(reading) - noticing,
        may_rebalance=sum(row.may_rebalance for row in reading),
        with_new_leaders=sum(bool(row.leader_changes) for row in reading),
        read_while_copied=sum(bool(row.copied) for row in reading),
        without_members=sum(row.is_known and not row.is_read for row in groups),
        unknown=sum(not row.is_known for row in groups),
    )


def stopped(moved: int, partitions: int, assignor: str) -> int:
    """Partitions that nobody reads during a rebalance: all, with the cooperative assignor those that move."""
    return moved if assignor.lower() == COOPERATIVE else partitions


def moved_in_words(moved: int, partitions: int, assignor: str) -> str:
    """What a rebalance moves and stops."""
    which = "only these stop" if stopped(moved, partitions, assignor) < partitions else "all stop"
    return f"{moved:,} of {plural(partitions, 'partition')} {agree(moved, 'moves', 'move')}, {which} meanwhile"


def idle_in_words(idle: int, members: int, partitions: int) -> str:
    """How many members have no partition."""
    verb, has = agree(idle, "has", "have"), f"the group has {plural(partitions, 'partition')}"
    return f"{idle:,} of {plural(members, 'member')} {verb} nothing to read; {has}"
