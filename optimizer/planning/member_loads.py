"""How evenly a consumer group shares what it reads, and how evenly it could."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Ints
from optimizer.kafka.assignors import Assigned, Key, Member, range_assignment, round_robin_assignment


@dataclass(frozen=True)
class Evenness:
    """The busiest member's bytes per second over the mean of all members.

    Parameters
    ----------
    busiest_over_mean : float
        Today.
    possible_over_mean : float
        The least of four assignments: today's, those of both assignors, and each partition, the largest first, to the
        member with the least.
    least_over_mean : float
        No assignment of whole partitions gives less.
    range_over_mean, round_robin_over_mean : float
        By these assignors, if all members subscribe to all topics of the group, without racks.
    """

    busiest_over_mean: float
    possible_over_mean: float
    least_over_mean: float
    range_over_mean: float
    round_robin_over_mean: float


def evenness(
    members: Sequence[Member],
    held: Mapping[str, int],
    rates: Mapping[Key, int],
    partition_counts: Mapping[str, int],
) -> Evenness | None:
    """How evenly the members share the partitions of their topics, each of which one member holds.

    Parameters
    ----------
    members : sequence of Member
        Each subscribed to all topics of the group.
    held : mapping
        Bytes per second that each member reads, by member id.
    rates : mapping
        Bytes per second that producers write, by partition of the group's topics.
    partition_counts : mapping
        Partitions by topic.

    Returns
    -------
    Evenness or None
        None without any bytes, or without members: then there is no mean.
    """
    total = sum(rates.values())
    if not members or not total:
        return None
    sizes, mean = np.sort(np.fromiter(rates.values(), np.int64, len(rates)))[::-1], total / len(members)
    made = (range_assignment(partition_counts, members), round_robin_assignment(partition_counts, members))
    busiest, with_range, with_round_robin = max(held.values()), *(_busiest(assigned, rates) for assigned in made)
    possible = min(busiest, with_range, with_round_robin, largest_first(sizes, len(members)))
    return Evenness(
        busiest_over_mean=busiest / mean,
        possible_over_mean=possible / mean,
        least_over_mean=least_of_busiest(sizes, len(members)) / mean,
        range_over_mean=with_range / mean,
        round_robin_over_mean=with_round_robin / mean,
    )


def _busiest(assigned: Assigned, rates: Mapping[Key, int]) -> int:
    return max(sum(rates.get(key, 0) for key in keys) for keys in assigned.values())


def largest_first(sizes: Ints, members: int) -> int:
    """The busiest member's sum, if each size goes to the member with the least so far.

    Parameters
    ----------
    sizes : (P,) int
        Descending.

    References
    ----------
    Graham, Bounds on Multiprocessing Timing Anomalies (1969): at most 4/3 of the optimum.
    """
    loads = [0] * members
    for size in sizes.tolist():
        heapq.heapreplace(loads, loads[0] + size)
    return max(loads)


def least_of_busiest(sizes: Ints, members: int) -> int:
    """A sum that the busiest member has under every assignment of whole sizes: formula 32 of docs/solver.md.

    It is at least the mean. Of the ``k * members + 1`` largest sizes some member has ``k + 1``, so at least the
    ``k + 1`` smallest of these.

    Parameters
    ----------
    sizes : (P,) int
        Descending.

    References
    ----------
    Dell'Amico and Martello, Optimal Scheduling of Tasks on Identical Parallel Processors (1995), section 2.
    """
    mean = -(-int(sizes.sum()) // members)
    rounds = np.arange((len(sizes) - 1) // members + 1)
    ends = rounds * members + 1
    sums = np.concatenate([[0], np.cumsum(sizes)])
    return max(mean, int((sums[ends] - sums[ends - rounds - 1]).max(initial=0)))
