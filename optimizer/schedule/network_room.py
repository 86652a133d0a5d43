"""The rate of copies that the network of every broker has room for.

Copies are read from leaders. Both ends of a copy have a network with a capacity, in each direction. Producers,
consumers and replication use a part of it, and the copied partitions need more of it afterwards: a new replica receives
what is produced meanwhile. What is left at the busiest end is the rate for all: rates that follow the bytes are no
quicker (formula 26 of docs/solver.md).

With windows, the use is that of their hours, where metrics have samples in them. The need of the copied partitions is
that of all hours: a wave may end late.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.domain import Ints
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker

UNKNOWN = -1  # of a capacity, as in ``instance_brokers``
LEAST_SHARE = 0.1  # of the smallest requested rate: copies must end, also if a broker's network is full


@dataclass(frozen=True)
class NetworkLoad:
    """Capacity and use of each broker's network before the plan, in and out, (B, 2) each, bytes per second.

    Parameters
    ----------
    capacity : int64
        ``UNKNOWN`` if it is not known.
    used : int64
        By producers, consumers and replication.
    """

    capacity: Ints
    used: Ints


@dataclass(frozen=True)
class NetworkRoom:
    """What the busiest end of the copies has left: index of its broker, bytes per second (negative if it has less).

    ``is_known`` says whether the capacity of every end is known. If not, an unknown one may have less.
    """

    broker: int
    left_bytes_per_s: int
    is_known: bool = True


def network_room(changes: WaveChanges, load: NetworkLoad) -> NetworkRoom | None:
    """The room of the end with least of it; None if no end of a copy has a known capacity."""
    copied = changes.select(changes.copies > 0)
    n = len(load.capacity)
    into = bytes_per_broker(copied.added, copied.in_bytes_per_s, n)
    out = bytes_per_broker(copied.source[:, None], copied.in_bytes_per_s * copied.copies, n)
    takes_part = np.stack([np.isin(np.arange(n), ends) for ends in (copied.added, copied.source)], axis=1)
    is_known = takes_part & (load.capacity != UNKNOWN)
    if not is_known.any():
        return None
    left = np.where(is_known, load.capacity - load.used - np.stack([into, out], axis=1), np.iinfo(np.int64).max)
    broker = int(left.min(axis=1).argmin())
    return NetworkRoom(broker, int(left[broker].min()), bool((is_known == takes_part).all()))


def rates_with_room(requested_bytes_per_s: Sequence[int], room: NetworkRoom | None) -> list[int]:
    """Each requested rate, or what the network leaves if that is less; at least ``LEAST_SHARE`` of the smallest."""
    if room is None:
        return list(requested_bytes_per_s)
    most = max(room.left_bytes_per_s, round(LEAST_SHARE * min(requested_bytes_per_s)), 1)
    return [min(requested, most) for requested in requested_bytes_per_s]
