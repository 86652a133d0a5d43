"""Replication throttles of a reassignment (KIP-73): throttled replicas and brokers with a rate.

There are two forms. Both have a leader list and a follower list per topic, ``partition:broker`` joined by commas:

- ``tool_throttles``: exactly what ``kafka-reassign-partitions --throttle`` sets. Every current replica of every
  partition in the plan is on the leader side, even of partitions that only change their order.
- ``careful_throttles``: all replicas before the move on the leader side, added replicas on the follower side, for the
  partitions that copy data. Any replica may become leader during a wave, and a leader that is not listed would send
  without a throttle. Lists keep the order of the replicas.

References
----------
org.apache.kafka.tools.reassign.ReassignPartitionsCommand (calculateProposedMoveMap, calculateLeaderThrottles,
calculateFollowerThrottles, calculateReassigningBrokers), Kafka 4.3.1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from optimizer.errors import KafkaError
from optimizer.kafka.partition_state import InFlight
from optimizer.kafka.reassignment_json import TopicPartition, partition_name, partition_order

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

Assignment = Mapping[TopicPartition, Sequence[int]]
ConfigEntry = tuple[str, str, str, str]


@dataclass(frozen=True)
class Throttles:
    """The throttles of one reassignment.

    Parameters
    ----------
    leader, follower : dict
        Value of the topic's list by topic, topics ascending; an empty string if no replica is throttled.
    leader_brokers, follower_brokers : tuple of int
        Brokers with a rate for this direction, ascending.
    """

    leader: dict[str, str]
    follower: dict[str, str]
    leader_brokers: tuple[int, ...]
    follower_brokers: tuple[int, ...]

    @property
    def brokers(self) -> tuple[int, ...]:
        """Brokers with a rate, ascending."""
        return tuple(sorted({*self.leader_brokers, *self.follower_brokers}))


def tool_throttles(
    proposed: Assignment, current: Assignment, *, in_flight: Mapping[TopicPartition, InFlight] | None = None
) -> Throttles:
    """The throttles that Kafka's own tool sets for ``--execute --throttle``.

    Parameters
    ----------
    proposed : mapping
        Target replicas by (topic, partition).
    current : mapping
        Replicas before the reassignment; not used for partitions in flight.
    in_flight : mapping, optional
        Running reassignments. They keep their entries; only their old replicas count as sources.

    Raises
    ------
    KafkaError
        RuntimeException if a partition of the plan has no current replicas.

    Notes
    -----
    Both lists are sorted as strings: "10:1" comes before "2:3".
    """
    moves = {key: (set(state.sources), set(state.adding)) for key, state in (in_flight or {}).items()}
    for key, target in proposed.items():
        if key in moves:
            sources = moves[key][0]
        elif key in current:
            sources = set(current[key])
        else:
            text = f"Trying to reassign a topic partition {partition_name(key)} with 0 replicas"
            raise KafkaError("RuntimeException", text)
        moves[key] = (sources, set(target) - sources)
    brokers = sorted(set().union(*(sources | added for sources, added in moves.values())))
    return Throttles(
        _lists({key: sorted(move[0]) for key, move in moves.items()}, as_strings=True),
        _lists({key: sorted(move[1] - move[0]) for key, move in moves.items()}, as_strings=True),
        tuple(brokers),
        tuple(brokers),
    )


def careful_throttles(proposed: Assignment, current: Assignment) -> Throttles:
    """The fewest throttles that slow every copy, whichever replica leads.

    Parameters
    ----------
    proposed, current : mapping
        Target replicas and replicas before, by (topic, partition).

    Returns
    -------
    Throttles
        With an entry for each topic of ``proposed``, which may be empty. Partitions without added replicas are not
        listed.

    Raises
    ------
    KeyError
        If a partition of the plan has no current replicas.
    """
    senders: dict[TopicPartition, list[int]] = {}
    receivers: dict[TopicPartition, list[int]] = {}
    for key, target in proposed.items():
        before = current[key]
        added = [b for b in target if b not in before]
        senders[key] = list(before) if added else []
        receivers[key] = added
    return Throttles(_lists(senders), _lists(receivers), _brokers(senders.values()), _brokers(receivers.values()))


def _brokers(lists: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(sorted({broker for brokers in lists for broker in brokers}))


def _lists(brokers: Mapping[TopicPartition, Sequence[int]], *, as_strings: bool = False) -> dict[str, str]:
    """The list of each topic; partitions ascending, or all elements sorted as strings."""
    elements: dict[str, list[str]] = {}
    for topic, partition in sorted(brokers, key=partition_order):
        values = (f"{partition}:{broker}" for broker in brokers[topic, partition])
        elements.setdefault(topic, []).extend(values)
    return {topic: ",".join(sorted(values) if as_strings else values) for topic, values in elements.items()}


def config_entries(
    throttles: Throttles, leader_rates: Mapping[int, int] | int, follower_rates: Mapping[int, int] | int
) -> list[ConfigEntry]:
    """The config entries to set.

    Parameters
    ----------
    leader_rates, follower_rates : int or mapping
        Bytes per second, for all brokers or by broker id.

    Returns
    -------
    list of (entity type, entity name, config, value)
        Topics, then brokers ascending; the leader side first.
    """
    entries: list[ConfigEntry] = []
    for topic in throttles.leader:
        entries.append(("topics", topic, LEADER_REPLICAS, throttles.leader[topic]))
        entries.append(("topics", topic, FOLLOWER_REPLICAS, throttles.follower[topic]))
    sides = (
        (LEADER_RATE, leader_rates, throttles.leader_brokers),
        (FOLLOWER_RATE, follower_rates, throttles.follower_brokers),
    )
    for broker in throttles.brokers:
        for config, rates, brokers in sides:
            if broker in brokers:
                rate = rates if isinstance(rates, int) else rates[broker]
                entries.append(("brokers", str(broker), config, str(rate)))
    return entries
