"""Moves inside brokers: a replica is copied from one log directory to another one of the same broker.

Kafka has no list of these moves. Each broker reports the directory of each replica; while a replica moves, it also
reports a future replica in the new directory.
"""

import json
from collections.abc import Mapping
from enum import StrEnum

from execution.observed import Replica, Stored
from optimizer.emit.dir_move_files import BACK, FORWARD
from optimizer.kafka.reassignment_json import ANY_DIR

Move = tuple[str, str]  # directories before and after
Moves = Mapping[Replica, Move]


class Place(StrEnum):
    """Where a replica is that a wave moves inside its broker."""

    OLD = "old directory"
    MOVING = "moves to the planned directory"
    PLANNED = "planned directory"
    RETURNING = "moves from the planned directory back to the old one"
    OTHER = "another directory, or it moves to another one"
    MISSING = "in no directory that the broker reports: its directory failed, or somebody removed it"
    UNKNOWN = "unknown: the broker does not answer"


# A cancel that comes too late starts a copy back, so both directions are the wave's.
RUNNING = (Place.MOVING, Place.RETURNING)


def place_of(replica: Replica, move: Move, stored: Stored | None) -> Place:
    """Where a replica is; unknown if the directories were not read."""
    path = stored.log_dirs.get(replica) if stored else None
    if stored is None or path is None:
        return Place.MISSING if stored and replica[2] in stored.reporting else Place.UNKNOWN
    before, after = move
    if replica in stored.moving:
        target, _ = stored.moving[replica]
        if target == after:
            return Place.MOVING
        return Place.RETURNING if (path, target) == (after, before) else Place.OTHER
    return {after: Place.PLANNED, before: Place.OLD}.get(path, Place.OTHER)


def moves_inside(documents: Mapping[str, str]) -> dict[Replica, Move]:
    """The moves of a wave from its documents by file name; none if the wave moves partitions between brokers."""
    if FORWARD not in documents:
        return {}
    before, after = (_named(documents[name]) for name in (BACK, FORWARD))
    return {replica: (before[replica], path) for replica, path in after.items()}


def moves_back(moves: Moves) -> dict[Replica, Move]:
    """The moves that take others back."""
    return {replica: (after, before) for replica, (before, after) in moves.items()}


def _named(text: str) -> dict[Replica, str]:
    """The directories that a reassignment names."""
    return {
        (entry["topic"], entry["partition"], broker): path
        for entry in json.loads(text)["partitions"]
        for broker, path in zip(entry["replicas"], entry["log_dirs"], strict=True)
        if path != ANY_DIR
    }
