"""What was asked of one cluster, for the head of its pages."""

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.cluster_policy import NO_LIMIT, ClusterPolicy, MoveLimit
from optimizer.settings import ClusterInput, Policy, Settings
from optimizer.topic_policy import Pin
from optimizer.units import human_bytes, plural


@dataclass(frozen=True, kw_only=True)
class Requested:
    """What the policy asks of one cluster, and where it was read.

    Parameters
    ----------
    drain, demote : tuple of int
    limits, pins, factors, kept_out : tuple of str
        In words: at most so much copied; where topics sit; replication factors; topics and brokers to leave alone.
    topics, exclude_topics : tuple of str
        Regular expressions for whole names, as in ``topic_policy.is_excluded``.
    place : str
        The folder's name, addresses of a live cluster, or both.
    """

    only: str = ""
    drain: tuple[int, ...] = ()
    demote: tuple[int, ...] = ()
    limits: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    factors: tuple[str, ...] = ()
    kept_out: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    exclude_topics: tuple[str, ...] = ()
    kafka_version: str = ""
    place: str = ""


def requested_of(settings: Settings, cluster_id: str) -> Requested:
    """What the settings ask of one cluster."""
    cluster = next((one for one in settings.clusters if one.id == cluster_id), None)
    if cluster is None:
        return Requested()
    cluster_policy = cluster.over(settings.policy)
    return Requested(
        only=cluster_policy.only,
        drain=cluster_policy.drain_brokers,
        demote=cluster_policy.demote_brokers,
        limits=tuple(_limits(cluster_policy.move_limit)),
        pins=tuple(map(_pin, cluster_policy.pins)),
        factors=tuple(f"{one.topics}: {one.factor}" for one in cluster_policy.replication_factors),
        kept_out=tuple(_kept_out(cluster_policy, settings.policy)),
        topics=settings.policy.topics,
        exclude_topics=settings.policy.exclude_topics,
        kafka_version=cluster.kafka_version,
        place=_place(cluster),
    )


def _limits(limit: MoveLimit) -> Iterator[str]:
    if limit.moved_bytes < NO_LIMIT:
        yield human_bytes(limit.moved_bytes)
    if limit.moves < NO_LIMIT:
        yield plural(limit.moves, "replica")


def _pin(pin: Pin) -> str:
    where = f"brokers {', '.join(map(str, pin.brokers))}" if pin.brokers else f"racks {', '.join(pin.racks)}"
    return f"{pin.topics} on {where}"


def _kept_out(cluster_policy: ClusterPolicy, policy: Policy) -> Iterator[str]:
    if cluster_policy.exclude_brokers:
        yield f"no new replica on {', '.join(map(str, cluster_policy.exclude_brokers))}"
    if policy.topics:
        yield f"every topic except {', '.join(policy.topics)}"
    if policy.exclude_topics:
        yield f"topics {', '.join(policy.exclude_topics)}"


def _place(cluster: ClusterInput) -> str:
    """Names that may be shown: never what a client configuration holds."""
    folder = cluster.input.rstrip("/").rpartition("/")[2]
    return " and ".join(filter(None, (folder, cluster.bootstrap_servers)))
