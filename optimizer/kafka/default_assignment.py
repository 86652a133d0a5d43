"""The assignment that Kafka's own tool proposes for a topic."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimizer.errors import KafkaError
from optimizer.kafka.admin_utils import BrokerRing, assign_replicas, broker_ring
from optimizer.kafka.broker import Broker
from optimizer.kafka.generate import check_racks, replication_factor_source
from optimizer.kafka.java import JavaRandom
from optimizer.kafka.striped_placer import RackLayout, StripedReplicaPlacer, rack_layout
from optimizer.kafka.versions import STRIPED


@dataclass(frozen=True)
class DefaultPlacer:
    """Algorithm and brokers for all topics of a cluster.

    Parameters
    ----------
    algorithm : str
        "striped" or "admin_utils".
    brokers : tuple of Broker
        Brokers that accept replicas, ascending by id, as the tool lists them.
    layout : RackLayout
        The same brokers for the striped placer.
    ring : BrokerRing
        The same brokers for AdminUtils.
    """

    algorithm: str
    brokers: tuple[Broker, ...]
    layout: RackLayout
    ring: BrokerRing


def default_placer(algorithm: str, brokers: Sequence[Broker]) -> DefaultPlacer:
    """Prepare the brokers of a cluster."""
    ordered = tuple(sorted(brokers, key=lambda broker: broker.broker_id))
    return DefaultPlacer(algorithm, ordered, rack_layout(ordered), broker_ring(ordered))


def topic_seed(seed: int, cluster_id: str, topic: str) -> int:
    """Seed of a topic's random numbers, independent of run, machine and other topics.

    Kafka draws one topic after the other from a single unseeded generator; a seed per topic has the same distribution
    and lets topics be placed in parallel.
    """
    text = f"{seed}\0{cluster_id}\0{topic}"
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big", signed=True)


def place_topic(
    placer: DefaultPlacer, topic: str, replication_factors: Mapping[int, int], seed: int
) -> dict[int, list[int]]:
    """Place all partitions of a topic as ``--generate`` would.

    Parameters
    ----------
    replication_factors : mapping
        Replication factor by partition. If they differ, Kafka uses one of them for the whole topic: that of the
        partition that comes first in a HashMap.
    seed : int
        See ``topic_seed``.

    Returns
    -------
    dict
        Ordered replicas by partition. If ids have gaps, all ids are placed, and the gaps are left out.

    Raises
    ------
    KafkaError
        With Kafka's message.
    """
    check_racks(placer.brokers)
    factor, *other_factors = set(replication_factors.values())
    if other_factors:
        factor = replication_factors[replication_factor_source(topic, sorted(replication_factors))]
    count = max(replication_factors) + 1
    random = JavaRandom(seed)
    lists: Sequence[list[int]]
    if placer.algorithm == STRIPED:
        lists = StripedReplicaPlacer(random).place(placer.layout, count, factor)
    else:
        lists = list(assign_replicas(placer.ring, count, factor, random=random).values())
    return {partition: lists[partition] for partition in replication_factors}


def place_more(
    placer: DefaultPlacer, topic: str, existing: Sequence[Sequence[int]], count: int, factor: int, seed: int
) -> list[list[int]]:
    """Place the partitions of a new topic, or more partitions of an old one, as a controller of Kafka does.

    With KRaft it is striped in every release (``ReplicationControlManager``), with ZooKeeper AdminUtils.

    Parameters
    ----------
    existing : sequence of sequence of int
        Replicas of the partitions that are there, in their order; empty for a new topic. With AdminUtils the first
        replica of partition 0 decides, without chance (``AdminZkClient.createNewPartitionsAssignment``).
    count, factor : int
        How many partitions, with how many replicas each.
    seed : int
        See ``topic_seed``.

    Raises
    ------
    KafkaError
        With Kafka's message.
    """
    random = JavaRandom(seed)
    if placer.algorithm == STRIPED:
        return [*StripedReplicaPlacer(random).place(placer.layout, count, factor)]
    if not existing:
        return [*assign_replicas(placer.ring, count, factor, random=random).values()]
    start = next((at for at, broker in enumerate(placer.brokers) if broker.broker_id >= existing[0][0]), 0)
    return [*assign_replicas(placer.ring, count, factor, start_index=start, start_partition=len(existing)).values()]


def place_or_refuse(
    placer: DefaultPlacer, topic: str, replication_factors: Mapping[int, int], seed: int
) -> tuple[dict[int, list[int]], str | None]:
    """Like ``place_topic``; if Kafka refuses, empty lists and Kafka's message."""
    try:
        return place_topic(placer, topic, replication_factors, seed), None
    except KafkaError as error:
        return {partition: [] for partition in replication_factors}, str(error)
