"""Pins that are not kept: which, why, and what would make it feasible."""

from collections.abc import Iterator

import numpy as np

from optimizer.domain import FREE, Bools, Brokers, Cause, FindingCode, Ints, Partitions
from optimizer.solve.findings.finding import (
    LET_MOVE,
    RUN_AGAIN,
    SHOWN,
    Finding,
    of_partition,
    partition_name,
    unused_pattern,
)
from optimizer.solve.rules.pins import PinGroups, group_by_pins
from optimizer.units import agree, plural


def pin_room(brokers: Brokers, partitions: Partitions, groups: PinGroups) -> Ints:
    """Brokers that may hold each partition after the plan: those of its pin that accept replicas, or keep theirs."""
    accepting = (groups.allowed & brokers.accepts_replicas).sum(axis=1)
    host = np.maximum(partitions.replicas, 0)
    keeps = (partitions.replicas >= 0) & ~brokers.accepts_replicas[host] & ~brokers.must_empty[host]
    return np.asarray(accepting[groups.of] + (keeps & ~groups.outside_pin(partitions.replicas)).sum(axis=1))


def pin_findings(brokers: Brokers, partitions: Partitions, after: Ints) -> Iterator[Finding]:
    """Pins that match nothing, that leave too few brokers, and replicas that stay outside theirs."""
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
        broker = int(brokers.ids[after[p, j]])
        detail = f"a replica stays on broker {broker}, outside the pin {' and '.join(groups.patterns[groups.of[p]])}"
        free = partitions.mobility[p] == FREE
        remedy = RUN_AGAIN if free else LET_MOVE
        yield Finding(
            FindingCode.NOT_PINNED,
            f"{partition_name(partitions, p)} on {broker}",
            "both",
            detail,
            remedy,
            cause=Cause.NO_MORE_ROUNDS if free else Cause.NOT_FREE,
            **of_partition(partitions, p),
            broker_id=broker,
        )


def _short_pins(
    brokers: Brokers, partitions: Partitions, groups: PinGroups, room: Ints, short: Bools
) -> Iterator[Finding]:
    """Topics whose pins leave fewer brokers than they have replicas: one finding a topic."""
    for topic in dict.fromkeys(partitions.topic[short]):
        rows = np.flatnonzero(short & (partitions.topic == topic))
        worst = rows[np.argmax(partitions.replication_factor[rows] - room[rows])]
        factor, left = int(partitions.replication_factor[worst]), int(room[worst])
        ids = brokers.ids[groups.allowed[groups.of[worst]]].tolist()
        named = f"{ids[:SHOWN]}{' and more' if len(ids) > SHOWN else ''}"
        pins = " and ".join(groups.patterns[groups.of[worst]])
        detail = (
            f"the pin {pins} allows brokers {named}: {left} of them can hold a replica, "
            f"{factor} {agree(factor, 'is', 'are')} needed. "
            f"{plural(len(rows), 'partition')} cannot move"
        )
        remedy = f"let the pin allow {plural(factor - left, 'more broker')} that can take replicas"
        remedy += f"; or ask for {plural(left, 'replica')}" if left else ""
        yield Finding(
            FindingCode.PIN,
            str(topic),
            "both",
            detail,
            remedy,
            cause=Cause.TOO_FEW_BROKERS,
            topic=str(topic),
            amount=left,
            limit=factor,
        )
