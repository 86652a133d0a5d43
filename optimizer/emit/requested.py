"""What the policy requests of one cluster, for the head of its pages."""

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.cluster_policy import NO_LIMIT, ClusterPolicy, MoveLimit
from optimizer.settings import ClusterInput, Policy, Settings
from optimizer.topic_policy import Pin
from optimizer.units import agree, human_bytes, plural


@dataclass(frozen=True, kw_only=True)
class Requested:
    """What the policy requests of one cluster, and where the cluster was read.

    Parameters
    ----------
    drain, demote : tuple of int
    limits, pins, factors, exclusions : tuple of str
        Texts for the page: limits of the copies, pins of topics, replication factors, excluded topics and brokers.
    topics, exclude_topics : tuple of str
        Regular expressions for whole names, as in ``topic_policy.is_excluded``.
    source : str
        The folder's name, addresses of a live cluster, or both.
    """

    only: str = ""
    drain: tuple[int, ...] = ()
    demote: tuple[int, ...] = ()
    limits: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    factors: tuple[str, ...] = ()
    exclusions: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    exclude_topics: tuple[str, ...] = ()
    kafka_version: str = ""
    source: str = ""


def requested_of(settings: Settings, cluster_id: str) -> Requested:
    """What the settings request of one cluster."""
    cluster = next((cluster for cluster in settings.clusters if cluster.id == cluster_id), None)
    if cluster is None:
        return Requested()
    cluster_policy = cluster.over(settings.policy)
    return Requested(
        only=cluster_policy.only,
        drain=cluster_policy.drain_brokers,
        demote=cluster_policy.demote_brokers,
        limits=tuple(_limits(cluster_policy.move_limit)),
        pins=tuple(map(_pin, cluster_policy.pins)),
        factors=tuple(f"{rule.topics}: {rule.factor}" for rule in cluster_policy.replication_factors),
        exclusions=tuple(_exclusions(cluster_policy, settings.policy)),
        topics=settings.policy.topics,
        exclude_topics=settings.policy.exclude_topics,
        kafka_version=cluster.kafka_version,
        source=_source(cluster),
    )


def _limits(limit: MoveLimit) -> Iterator[str]:
    if limit.moved_bytes < NO_LIMIT:
        yield human_bytes(limit.moved_bytes)
    if limit.moves < NO_LIMIT:
        yield plural(limit.moves, "replica")


def _pin(pin: Pin) -> str:
    where = f"brokers {', '.join(map(str, pin.brokers))}" if pin.brokers else f"racks {', '.join(pin.racks)}"
    return f"{pin.topics} on {where}"


def _exclusions(cluster_policy: ClusterPolicy, policy: Policy) -> Iterator[str]:
    if cluster_policy.exclude_brokers:
        brokers = cluster_policy.exclude_brokers
        yield f"{agree(len(brokers), 'broker', 'brokers')} {', '.join(map(str, brokers))} (no new replica)"
    if policy.topics:
        yield f"every topic except {', '.join(policy.topics)}"
    if policy.exclude_topics:
        yield f"topics {', '.join(policy.exclude_topics)}"


def _source(cluster: ClusterInput) -> str:
    """Names that pages may show. A client configuration may hold secrets, so it is never shown."""
    folder = cluster.input.rstrip("/").rpartition("/")[2]
    return " and ".join(filter(None, (folder, cluster.bootstrap_servers)))
