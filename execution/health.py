"""What is wrong with a cluster: partitions that are offline or lack replicas, missing brokers, full directories."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from execution.observed import Observed, Stored, TopicPartition

OFFLINE, UNDER_MIN, UNDER_REPLICATED = "offline", "under min.insync.replicas", "under-replicated"
PARTITION_KINDS = (OFFLINE, UNDER_MIN, UNDER_REPLICATED)  # the worst first
GONE, FULL = "gone", "over its limit"  # of brokers; of directories

# One thing that is wrong: its kind, topic or path of a directory (empty for a broker), partition or broker.
Sign = tuple[str, str, int]


@dataclass(frozen=True)
class Baseline:
    """The cluster when a wave begins: what was wrong already is no reason to hold the wave back.

    Parameters
    ----------
    alive : frozenset of int
        Brokers.
    signs : frozenset of Sign
        What was wrong.
    """

    alive: frozenset[int]
    signs: frozenset[Sign]

    def to_data(self) -> dict[str, Any]:
        """For JSON."""
        return {"alive": sorted(self.alive), "signs": sorted(self.signs)}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Baseline":
        """From the result of ``to_data``."""
        return cls(frozenset(data["alive"]), frozenset((kind, name, number) for kind, name, number in data["signs"]))


def baseline_of(now: Observed, full: Collection[Sign] = ()) -> Baseline:
    """The cluster as it is now; ``full`` are its directories over their limit."""
    return Baseline(now.alive, frozenset({*signs(now, now.min_isr), *full}))


def signs(
    now: Observed,
    min_isr: Mapping[str, int],
    *,
    brokers: Collection[int] = (),
    planned: Mapping[TopicPartition, Collection[int]] | None = None,
) -> Iterator[Sign]:
    """What is wrong with the brokers and partitions of a cluster.

    A partition has all kinds up to its worst: one without a leader lacks replicas too.

    Parameters
    ----------
    min_isr : mapping of topic to int
        ``min.insync.replicas`` of topics that do not have Kafka's default of 1.
    brokers : collection of int
        The brokers that should be alive.
    planned : mapping of (topic, partition) to collection of int
        Lists that the plan changes: replicas that it removes need not be in sync.
    """
    yield from ((GONE, "", broker) for broker in sorted(set(brokers) - now.alive))
    for partition, replicas in sorted(now.replicas.items()):
        in_sync = now.in_sync[partition]
        added = now.adding.get(partition, frozenset())
        old = [broker for broker in replicas if broker not in added or broker in in_sync]
        is_offline = now.leaders[partition] is None
        staying = (planned or {}).get(partition, old)
        missing = [broker for broker in old if broker not in in_sync and broker in staying]
        is_repaired = not missing and len(in_sync) < len(old)
        needed = min(min_isr.get(partition[0], 1), len(old))
        is_under_min = is_offline or (not is_repaired and len(in_sync & now.alive) < needed)
        if is_offline:
            yield OFFLINE, *partition
        if is_under_min:
            yield UNDER_MIN, *partition
        if is_under_min or missing:
            yield UNDER_REPLICATED, *partition


def by_worst_kind(some: Collection[Sign]) -> dict[str, list[TopicPartition]]:
    """The partitions of each kind, each partition only with its worst; the worst kind first."""
    result: dict[str, list[TopicPartition]] = {}
    known: set[TopicPartition] = set()
    for worst in PARTITION_KINDS:
        partitions = sorted({(name, number) for kind, name, number in some if kind == worst} - known)
        known.update(partitions)
        if partitions:
            result[worst] = partitions
    return result


def full_directories(stored: Stored, disk_headroom: float) -> Iterator[Sign]:
    """Directories with less free space than this share of their disk; those of silent brokers are unknown."""
    for (broker, path), (total_bytes, usable_bytes) in sorted(stored.directories.items()):
        if usable_bytes < disk_headroom * total_bytes:
            yield FULL, path, broker
