"""Rows of ``consumer_load`` and ``consumer_impact`` of one cluster: who reads what, how evenly, who notices the plan.

Nothing of it changes the plan.

References
----------
KIP-881, ``ConsumerCoordinator.MetadataSnapshot`` (4.3.1): a classic group rebalances if the set of racks of a partition
changes and its leader has ``client.rack``. KIP-1101, ``Utils.computeTopicHash`` (4.3.1): a group of the consumer
protocol gets a new epoch if the list of racks changes.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from optimizer.domain import Bools, Ints
from optimizer.kafka.assignors import Assigned, Key, Member, range_assignment, round_robin_assignment
from optimizer.planning.rebalance import assignor_of, sharing_of


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


# Columns of partitions that ``consumer_rows`` reads, besides those that name the cluster and the run.
COLUMNS = ("topic", "partition", "current_replicas", "proposed_replicas", "leader", "wave", "in_bytes_per_s")
_NO_LEADER = -1  # not a broker id: the partition has no leader
_NOTICED = ("rack_set_changes", "rack_list_changes", "leader_changes", "copied")
_RATIOS = tuple(field.name for field in fields(Evenness))


@dataclass(frozen=True)
class _ListChanges:
    """How replica lists change, each (P,): another set of racks, meanwhile another list of racks, a copy.

    While a replica is copied both brokers are in the list, so the list of racks also changes if the copy stays inside a
    rack. A broker without a rack counts as in a rack of no name, as for Kafka.
    """

    of_rack_set: Bools
    of_rack_list: Bools
    is_copied: Bools


@dataclass(frozen=True)
class _Partitions:
    """All partitions of the cluster as arrays of length P, by topic and number.

    ``wave`` is 0 for unchanged ones.
    """

    row_of: dict[tuple[str, int], int]
    keys: list[tuple[str, int]]
    rows_of: dict[str, range]
    rate: Ints
    wave: Ints
    leader_before: Ints
    leader_after: Ints
    lists: _ListChanges
    are_racks_known: bool
    are_rates_known: bool

    @property
    def leader_changes(self) -> Bools:
        """Whether another broker leads after the plan."""
        return self.leader_before != self.leader_after

    def rates_of(self, topic: str) -> dict[Key, int]:
        """Bytes per second of each partition of a topic; empty if it is unknown."""
        rows = self.rows_of.get(topic, range(0))
        return dict(zip(self.keys[rows.start : rows.stop], self.rate[rows.start : rows.stop].tolist(), strict=True))

    def noticed(self, rows: Ints) -> dict[str, int | None]:
        """What the readers of some partitions notice, in numbers of partitions."""
        of_racks = (self.lists.of_rack_set, self.lists.of_rack_list)
        in_set, in_list = (int(each[rows].sum()) if self.are_racks_known else None for each in of_racks)
        return {
            "rack_set_changes": in_set,
            "rack_list_changes": in_list,
            "leader_changes": int(self.leader_changes[rows].sum()),
            "copied": int(self.lists.is_copied[rows].sum()),
        }


def consumer_rows(
    partitions: pd.DataFrame,
    groups: Iterable[Mapping[str, Any]],
    members: Iterable[Mapping[str, Any]],
    racks: Mapping[int, str | None],
) -> dict[str, list[dict[str, Any]]]:
    """Rows of ``consumer_load`` and ``consumer_impact`` of one cluster, without the columns that name cluster and run.

    Parameters
    ----------
    partitions : DataFrame
        All partitions, with ``COLUMNS``; ``wave`` is null for unchanged ones.
    groups, members : iterable of mapping
        Rows of ``consumer_groups`` and ``consumer_members``.
    racks : mapping
        The rack of each broker, also if the policy ignores racks; None without one.
    """
    known = _known_partitions(partitions, racks)
    members_of: dict[str, list[Mapping[str, Any]]] = {}
    for member in sorted(members, key=lambda row: str(row["member_id"])):
        members_of.setdefault(member["group_id"], []).append(member)
    loads, impacts = [], []
    for group in sorted(groups, key=lambda row: str(row["group_id"])):
        of_group = members_of.get(group["group_id"], [])
        held = [_rows_held(known, member) for member in of_group]
        loads += [_load(known, member, rows) for member, rows in zip(of_group, held, strict=True) if rows is not None]
        impacts.append(_impact(known, group, of_group, held))
    return {"consumer_load": loads, "consumer_impact": impacts}


def _known_partitions(rows: pd.DataFrame, racks: Mapping[int, str | None]) -> _Partitions:
    ordered = rows.sort_values(["topic", "partition"], kind="stable").reset_index(drop=True)
    keys = list(zip(ordered["topic"], ordered["partition"].astype(int), strict=True))
    before, after = ordered["current_replicas"].to_list(), ordered["proposed_replicas"].to_list()
    wave = ordered["wave"].to_numpy(dtype="float64", na_value=0.0).astype(np.int64)
    leader = ordered["leader"].to_numpy(dtype="float64", na_value=float(_NO_LEADER)).astype(np.int64)
    first = np.fromiter((ids[0] for ids in after), np.int64, len(after))
    rate = ordered["in_bytes_per_s"].to_numpy(dtype=np.int64)
    ends = ordered.groupby("topic", sort=False).size().cumsum()
    return _Partitions(
        row_of={key: row for row, key in enumerate(keys)},
        keys=keys,
        rows_of={
            str(topic): range(start, end) for topic, start, end in zip(ends.index, [0, *ends[:-1]], ends, strict=True)
        },
        rate=rate,
        wave=wave,
        leader_before=leader,
        leader_after=np.where(wave > 0, first, leader),
        lists=_list_changes(before, after, wave, racks),
        are_racks_known=any(racks.values()),
        are_rates_known=bool(rate.any()),
    )


def _list_changes(
    before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], wave: Ints, racks: Mapping[int, str | None]
) -> _ListChanges:
    of_rack_set, of_rack_list, is_copied = np.zeros((3, len(before)), dtype=bool)
    for row in np.flatnonzero(wave > 0).tolist():
        old, new = ({int(broker) for broker in ids} for ids in (before[row], after[row]))
        of_rack_set[row] = {racks.get(broker) for broker in old} != {racks.get(broker) for broker in new}
        of_rack_list[row] = any(racks.get(broker) for broker in old ^ new)
        is_copied[row] = not new <= old
    return _ListChanges(of_rack_set, of_rack_list, is_copied)


def _rows_held(known: _Partitions, member: Mapping[str, Any]) -> Ints | None:
    """The rows of a member's partitions; None if no source says what it holds."""
    assigned = member["assigned"]
    if assigned is None:
        return None
    keys = [(str(topic["topic"]), int(partition)) for topic in assigned for partition in topic["partitions"]]
    return np.array([known.row_of[key] for key in keys if key in known.row_of], dtype=np.int64)


def _load(known: _Partitions, member: Mapping[str, Any], rows: Ints) -> dict[str, Any]:
    return {
        **{name: member[name] for name in ("group_id", "member_id", "client_id", "host", "instance_id")},
        "partitions": len(rows),
        "in_bytes_per_s": int(known.rate[rows].sum()) if known.are_rates_known else None,
        "brokers": _brokers(known.leader_before[rows]),
        "brokers_after": _brokers(known.leader_after[rows]),
    }


def _brokers(leaders: Ints) -> list[int]:
    return [int(broker) for broker in np.unique(leaders[leaders != _NO_LEADER])]


def _impact(
    known: _Partitions,
    group: Mapping[str, Any],
    members: Sequence[Mapping[str, Any]],
    held: Sequence[Ints | None],
) -> dict[str, Any]:
    """The row of one group; what depends on its members' partitions is null if a source does not say them."""
    is_known = bool(group["is_complete"]) and all(rows is not None for rows in held)
    none = np.array([], dtype=np.int64)
    each = np.concatenate([none, *(rows for rows in held if rows is not None and is_known)])
    rows = np.unique(each)
    changed = rows[known.wave[rows] > 0]
    topics = sorted({known.keys[row][0] for row in rows.tolist()})
    waves = np.unique(known.wave[changed]).tolist()
    result: dict[str, Any] = {
        **{name: group[name] for name in ("group_id", "protocol", "state", "assignor", "lag_messages", "members")},
        "is_known": is_known,
        "partitions": len(rows) if is_known else None,
        "in_bytes_per_s": int(known.rate[rows].sum()) if is_known and known.are_rates_known else None,
        **dict.fromkeys((*_RATIOS, "moved_if_busiest_leaves")),
        **(known.noticed(changed) if is_known else dict.fromkeys(_NOTICED)),
        "topics": topics,
        "changed_topics": sorted({known.keys[row][0] for row in changed.tolist()}),
        "waves": [{"wave": wave, **known.noticed(changed[known.wave[changed] == wave])} for wave in waves],
    }
    shared = sharing_of(group, members, known.rates_of)
    if shared:
        loads = {name: shared.load(keys) for name, keys in shared.held.items()}
        found = evenness(shared.members, loads, shared.rates, shared.counts)
        result |= asdict(found) if found else {}
        result["moved_if_busiest_leaves"] = shared.moved_if_busiest_leaves(assignor_of(group))
    return result
