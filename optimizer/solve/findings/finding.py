"""A finding: what was broken before a plan, or is after it. ``optimizer.wording`` puts it into words."""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypedDict

import numpy as np

from optimizer.domain import Bools, Cause, FindingCode, Partitions

SHOWN = 10  # brokers, or cases, that are listed; the rest is counted


@dataclass(frozen=True)
class Finding:
    """What was broken before the plan, or is after it.

    Parameters
    ----------
    code : FindingCode
    when : str
        before, after or both.
    cause : Cause, optional
        Why, where that is known.
    topic, partition, broker_id, resource : optional
        What it is about, if it is about a single one.
    amount, limit : float, optional
        How much there is, in the resource's unit or counted, and how much there may or must be.
    facts : mapping
        What else the words need, as plain values: see the function of the code in ``optimizer.wording``.
    """

    code: FindingCode
    when: str
    _: KW_ONLY
    cause: Cause | None = None
    topic: str | None = None
    partition: int | None = None
    broker_id: int | None = None
    resource: str | None = None
    amount: float | None = None
    limit: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def unused_pattern(code: FindingCode, pattern: str) -> Finding:
    """A pattern of the policy that matches no topic."""
    return Finding(code, "both", facts={"pattern": pattern})


def partition_name(partitions: Partitions, row: int | np.integer) -> str:
    """Topic and number, as Kafka writes them."""
    return f"{partitions.topic[row]}-{partitions.partition[row]}"


class OfPartition(TypedDict):
    """Fields of a finding that name a partition."""

    topic: str
    partition: int


def of_partition(partitions: Partitions, row: int | np.integer) -> OfPartition:
    """Topic and number, as fields of a finding."""
    return {"topic": str(partitions.topic[row]), "partition": int(partitions.partition[row])}


def not_resized(partitions: Partitions, left: Bools, *, cause: Cause, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Partitions among those that are left, (P,), that keep their replication factor although another is requested."""
    now = (partitions.replicas >= 0).sum(axis=1)
    for row in np.flatnonzero(left & (now != partitions.replication_factor)):
        yield Finding(
            FindingCode.NOT_RESIZED,
            "after",
            cause=cause,
            **of_partition(partitions, row),
            amount=int(now[row]),
            limit=int(partitions.replication_factor[row]),
            facts=facts,
        )
