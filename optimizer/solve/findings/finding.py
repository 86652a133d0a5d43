"""A finding: a problem before or after a plan. ``optimizer.wording`` has its texts."""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypedDict

import numpy as np

from optimizer.domain import Bools, Cause, FindingCode, Partitions

SHOWN = 10  # most brokers or cases in a list; the rest are counted


@dataclass(frozen=True)
class Finding:
    """A problem before the plan, after it, or both.

    Parameters
    ----------
    code : FindingCode
    when : str
        before, after or both.
    cause : Cause, optional
        None if it is unknown.
    topic, partition, broker_id, resource : optional
        The subject; None if it is not a single one.
    amount, limit : float, optional
        The actual value, and the most or least allowed; in the unit of the resource, or counted.
    facts : mapping
        Further plain values for the texts; see the function of the code in ``optimizer.wording``.
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
    """A finding for each partition in ``left``, (P,), that keeps a replication factor other than requested."""
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
