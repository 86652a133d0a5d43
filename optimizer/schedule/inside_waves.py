"""Waves of moves inside brokers: which partition moves when, and how long each wave takes.

A broker meters all its moves together, at one rate. Brokers do not wait for each other. So a wave takes as long as the
broker with most bytes.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from optimizer.domain import Ints
from optimizer.kafka.size_limits import PARTITIONS_PER_REQUEST
from optimizer.schedule.throttle_rate import copy_rate_bytes_per_s, rates_of_windows
from optimizer.schedule.windows import Slot, coming_nights, least_capacity, place_waves
from optimizer.settings import Schedule

# Share of the time, and seconds: four moves of 20 MB at 2 and 4 MB/s took 1.08 and 0.91 of it, and 4 s less right after
# the rate was raised (Kafka 4.3.1). Kafka's meter remembers eleven seconds.
UNCERTAIN_SHARE, UNCERTAIN_SECONDS = 0.15, 11.0


@dataclass(frozen=True)
class InsideWaves:
    """The waves of moves inside brokers.

    Parameters
    ----------
    wave_of : (n,) int64
        From 1.
    rates : tuple of int
        Bytes per second of each wave, for each broker.
    slots : tuple of Slot
        The place of each wave; empty without windows.
    """

    wave_of: Ints
    rates: tuple[int, ...]
    slots: tuple[Slot, ...]


def span_seconds(size_bytes: int, rate: int) -> tuple[float, float]:
    """Ends of the interval of the time of so many bytes in one broker."""
    seconds = size_bytes / rate
    least = max(seconds * (1 - UNCERTAIN_SHARE) - UNCERTAIN_SECONDS, 0.0)
    return least, seconds * (1 + UNCERTAIN_SHARE) + UNCERTAIN_SECONDS


def busiest_bytes(broker: Ints, size_bytes: Ints) -> int:
    """Bytes of the broker with most."""
    return int(np.bincount(broker, weights=size_bytes).max(initial=0)) if len(broker) else 0


def inside_waves(
    broker: Ints,
    size_bytes: Ints,
    partition: Sequence[object],
    schedule: Schedule,
    *,
    ends_at: datetime | None,
    captured_at: datetime | None,
) -> InsideWaves:
    """Give each move a wave; all moves of a partition are in one wave.

    Parameters
    ----------
    broker, size_bytes : (n,) int64
        Of each move, the most urgent first.
    partition : of each move
    ends_at : datetime, optional
        UTC: the end of the waves before.
    captured_at : datetime, optional
        UTC, of the snapshot, as for ``timed_waves``.
    """
    windows, usual_rate = schedule.windows, copy_rate_bytes_per_s(schedule)
    rates = rates_of_windows(schedule)
    seconds, rate = least_capacity(windows, rates) if windows else (schedule.window_hours * 3600, usual_rate)
    most_bytes = max(seconds - UNCERTAIN_SECONDS, 0.0) / (1 + UNCERTAIN_SHARE) * rate
    # A fixed number of waves is that of the reassignments: the moves inside brokers are one wave more, if one request
    # can have them.
    limits = (np.inf, PARTITIONS_PER_REQUEST) if schedule.waves else (most_bytes, schedule.max_moves_per_wave)
    wave_of = _pack(broker, size_bytes, partition, limits[0], min(limits[1], PARTITIONS_PER_REQUEST))
    n_waves = int(wave_of.max(initial=0))
    coming = coming_nights(schedule, captured_at)
    if coming is None:
        return InsideWaves(wave_of, (min(rates, default=usual_rate),) * n_waves, ())

    def most_seconds(wave: int, rate: int) -> float:
        part = wave_of == wave
        return span_seconds(busiest_bytes(broker[part], size_bytes[part]), rate)[1]

    slots = place_waves(most_seconds, n_waves, rates, coming, ends_at=ends_at)
    return InsideWaves(wave_of, tuple(rates[slot.night.window] for slot in slots), tuple(slots))


class _Wave:
    """A wave that is being filled."""

    def __init__(self) -> None:
        self.bytes_of = Counter[int]()
        self.moves = 0

    def takes(self, moves: Sequence[tuple[int, int]], most_bytes: float, most_moves: int) -> bool:
        """Whether the moves of a partition, (broker, bytes), fit in."""
        return self.moves + len(moves) <= most_moves and all(
            self.bytes_of[broker] + size <= most_bytes for broker, size in moves
        )

    def add(self, moves: Sequence[tuple[int, int]]) -> None:
        """Add the moves of a partition."""
        self.moves += len(moves)
        for broker, size in moves:
            self.bytes_of[broker] += size


def _pack(broker: Ints, size_bytes: Ints, partition: Sequence[object], most_bytes: float, most_moves: int) -> Ints:
    """Each partition in the first wave in which its brokers have time, or in a new one."""
    rows_of = defaultdict[object, list[int]](list)
    for row, key in enumerate(partition):
        rows_of[key].append(row)
    waves, wave_of = list[_Wave](), np.zeros(len(broker), dtype=np.int64)
    for rows in rows_of.values():
        moves = [(int(broker[i]), int(size_bytes[i])) for i in rows]
        number = next((n for n, wave in enumerate(waves) if wave.takes(moves, most_bytes, most_moves)), len(waves))
        if number == len(waves):
            waves.append(_Wave())
        waves[number].add(moves)
        wave_of[rows] = number + 1
    return wave_of
