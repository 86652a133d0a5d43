"""A finding: what was broken before a plan, or is after it; and how partitions are named in one."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import TypedDict

import numpy as np

from optimizer.domain import Bools, Cause, FindingCode, Partitions
from optimizer.units import agree, plural

LET_MOVE = "let this partition move (fixed_reason in table instance says what holds it)"
# Where a partition may move, but has not.
RUN_AGAIN = "execute the plan and run again, or raise solver.shard_brokers or solver.rounds"
SHOWN = 10  # brokers, or cases, that are told one by one; the rest is counted


@dataclass(frozen=True)
class Finding:
    """What was broken before the plan, or is after it: in words, and in fields for code to compare.

    Parameters
    ----------
    code : FindingCode
    subject, when, detail, remedy : str
        For people; of these, code may compare ``when`` alone: before, after or both.
    cause : Cause, optional
        Why, where that is known.
    topic, partition, broker_id, resource : optional
        What it is about, as far as it is about one.
    amount, limit : float, optional
        How much there is, in the resource's unit or counted, and how much there may or must be.
    """

    code: FindingCode
    subject: str
    when: str
    detail: str
    remedy: str
    _: KW_ONLY
    cause: Cause | None = None
    topic: str | None = None
    partition: int | None = None
    broker_id: int | None = None
    resource: str | None = None
    amount: float | None = None
    limit: float | None = None


def unused_pattern(code: FindingCode, pattern: str) -> Finding:
    """A pattern of the policy that names nothing."""
    remedy = "a pattern must match a topic's whole name: correct it, or remove it"
    return Finding(code, pattern, "both", "no topic matches this pattern", remedy)


def partition_name(partitions: Partitions, row: int | np.integer) -> str:
    """Topic and number, as Kafka writes them."""
    return f"{partitions.topic[row]}-{partitions.partition[row]}"


class OfPartition(TypedDict):
    """Fields of a finding that name a partition."""

    topic: str
    partition: int


def of_partition(partitions: Partitions, row: int | np.integer) -> OfPartition:
    """Topic and number, as findings hold them."""
    return {"topic": str(partitions.topic[row]), "partition": int(partitions.partition[row])}


def not_resized(partitions: Partitions, left: Bools, *, why: str, remedy: str, cause: Cause) -> Iterator[Finding]:
    """Partitions among those that are left, (P,), that keep their replication factor though another is asked."""
    now = (partitions.replicas >= 0).sum(axis=1)
    for row in np.flatnonzero(left & (now != partitions.replication_factor)):
        asked = int(partitions.replication_factor[row])
        yield Finding(
            FindingCode.NOT_RESIZED,
            f"{partition_name(partitions, row)} on {plural(int(now[row]), 'replica')}",
            "after",
            f"{asked} {agree(asked, 'is', 'are')} asked for; {why}",
            remedy,
            cause=cause,
            **of_partition(partitions, row),
            amount=int(now[row]),
            limit=asked,
        )
