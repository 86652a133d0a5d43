"""Pins that are not met, and their causes."""

from collections.abc import Iterator

import numpy as np

from optimizer.domain import FREE, Bools, Brokers, Cause, FindingCode, Ints, Partitions
from optimizer.solve.findings.finding import SHOWN, Finding, of_partition, unused_pattern
from optimizer.solve.rules.pins import PinGroups, group_by_pins


def pin_room(brokers: Brokers, partitions: Partitions, groups: PinGroups) -> Ints:
    """Number of brokers that may hold each partition after the plan: in its pin, and accepting or keeping replicas."""
    accepting = (groups.allowed & brokers.accepts_replicas).sum(axis=1)
    host = np.maximum(partitions.replicas, 0)
    keeps = (partitions.replicas >= 0) & ~brokers.accepts_replicas[host] & ~brokers.must_empty[host]
    return np.asarray(accepting[groups.of] + (keeps & ~groups.outside_pin(partitions.replicas)).sum(axis=1))


def pin_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Pins that match no topic, pins that leave too few brokers, and replicas that stay outside their pin."""
    if not brokers.pins:
        return
    groups = group_by_pins(brokers, partitions.topic)
    used = {pattern for patterns in groups.patterns for pattern in patterns}
    for pattern in (pin.topics for pin in brokers.pins if pin.topics not in used):
        yield unused_pattern(FindingCode.PIN_UNUSED, pattern)
    room = pin_room(brokers, partitions, groups)
    short = (groups.of > 0) & (room < partitions.replication_factor)
    yield from _short_pins(brokers, partitions, groups, room, short)
    for p, j in zip(*np.nonzero(groups.outside_pin(after) & ~short[:, None]), strict=True):
        yield Finding(
            FindingCode.NOT_PINNED,
            "both",
            cause=Cause.NO_MORE_ROUNDS if partitions.mobility[p] == FREE else Cause.NOT_FREE,
            **of_partition(partitions, p),
            broker_id=int(brokers.ids[after[p, j]]),
            facts={"patterns": groups.patterns[groups.of[p]]},
        )


def _short_pins(
    brokers: Brokers, partitions: Partitions, groups: PinGroups, room: Ints, short: Bools
) -> Iterator[Finding]:
    """Topics with pins that leave fewer brokers than replicas: one finding for each topic."""
    for topic in dict.fromkeys(partitions.topic[short]):
        rows = np.flatnonzero(short & (partitions.topic == topic))
        worst = rows[np.argmax(partitions.replication_factor[rows] - room[rows])]
        factor, hosts = int(partitions.replication_factor[worst]), int(room[worst])
        ids = brokers.ids[groups.allowed[groups.of[worst]]].tolist()
        yield Finding(
            FindingCode.PIN,
            "both",
            cause=Cause.TOO_FEW_BROKERS,
            topic=str(topic),
            amount=hosts,
            limit=factor,
            facts={
                "patterns": groups.patterns[groups.of[worst]],
                "brokers": ids[:SHOWN],
                "more_brokers": len(ids) - len(ids[:SHOWN]),
                "partitions": len(rows),
            },
        )
