"""Why no plan can meet the policy of a cluster: the error that refuses it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pandas as pd

from optimizer.cluster_policy import BROKER_LISTS, DRAIN, ClusterPolicy
from optimizer.errors import ConfigError
from optimizer.settings import InstanceBroker

_Name = TypeVar("_Name", int, str)


@dataclass(frozen=True)
class Known:
    """Brokers and racks of one cluster, ascending."""

    brokers: tuple[int, ...]
    racks: tuple[str, ...]


def known_of(brokers: pd.DataFrame) -> Known:
    """Brokers and racks in columns broker_id and rack of one cluster."""
    racks = brokers["rack"].dropna().unique()
    return Known(tuple(sorted(int(b) for b in brokers["broker_id"])), tuple(sorted(map(str, racks))))


def names_any(policy: ClusterPolicy) -> bool:
    """Whether the policy of a cluster names a broker or a rack."""
    return bool(policy.pins or any(map(policy.brokers, BROKER_LISTS)))


def unknown_instances(
    cluster_id: str, known: Known, table: Sequence[InstanceBroker], exported: Sequence[str]
) -> ConfigError | None:
    """The error about instances that no metric has, and brokers that the cluster lacks."""
    names, brokers = tuple(entry.instance for entry in table), tuple(entry.broker for entry in table)
    problems = [
        *_unknown("instances", names, tuple(exported), cluster_id),
        *_unknown("instances", brokers, known.brokers, cluster_id, kind="brokers "),
    ]
    remedy = "write each instance as the metrics name it, with the id of a broker of the cluster"
    return ConfigError(*(f"{problem}: {remedy}" for problem in problems)) if problems else None


def unknown_names(cluster_id: str, known: Known, policy: ClusterPolicy) -> ConfigError | None:
    """The error about brokers and racks of lists and pins that the cluster lacks; it names each list or pin."""
    problems = tuple(_problems(cluster_id, known, policy))
    return ConfigError(*problems) if problems else None


def _problems(cluster_id: str, known: Known, policy: ClusterPolicy) -> Iterator[str]:
    for name in BROKER_LISTS:
        yield from _unknown(name, policy.brokers(name), known.brokers, cluster_id)
    for pin in policy.pins:
        yield from _unknown(f"the pin of {pin.topics!r}", pin.brokers, known.brokers, cluster_id, kind="brokers ")
        yield from _unknown(f"the pin of {pin.topics!r}", pin.racks, known.racks, cluster_id, kind="racks ")


def _unknown(
    setting: str, names: tuple[_Name, ...], known: tuple[_Name, ...], cluster_id: str, *, kind: str = ""
) -> Iterator[str]:
    unknown = sorted(set(names) - set(known))
    if unknown:
        yield f"{setting} names {kind}{unknown}, which cluster {cluster_id} does not have; known are {list(known)}"


def unmet_by_brokers(cluster_id: str, hosts: pd.DataFrame, policy: ClusterPolicy) -> ConfigError | None:
    """The error if no broker may hold replicas, or if ``only`` is "drain" but the policy drains no broker.

    Most likely the list of brokers was forgotten then.

    Parameters
    ----------
    hosts : DataFrame
        Rows of ``instance_brokers`` of the cluster.
    """
    if not hosts["accepts_replicas"].any():
        reason = (
            "every broker is drained, excluded, cordoned, fenced, dead, or in trouble (table brokers, closed_cause)"
        )
        remedy = "drain or exclude fewer brokers"
        return ConfigError(f"no broker of {[cluster_id]} may hold replicas: {reason}; {remedy}")
    if policy.only == DRAIN and not hosts["must_empty"].any():
        problem = "is dead or to be emptied: name some by --drain or drain_brokers"
        return ConfigError(f"only = 'drain': no broker of {[cluster_id]} {problem}")
    return None
