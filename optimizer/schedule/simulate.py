"""How long a wave may take: an event simulation of Kafka's throttle, for the ends of the interval.

Each follower has a fetcher for each leader. Every broker has a meter as leader and one as follower, over windows of a
second, eleven seconds long. A follower over its rate waits for a second before its next fetch. A leader over its rate
holds a fetch back for half a second. An answer carries at most 1 MiB of each partition and 10 MiB in all; a batch that
is cut off at its end counts at both meters, and is dropped.

The time over the least time hardly depends on the size of a wave (from 60 to 1,200 s: within 2 % with many copies, 7 %
with six), so a wave is simulated scaled down to a minute. Only the start of each fetcher and the time on the network
are random. A wave of less than a minute has its own size: chance decides more in it.

References
----------
Kafka 4.3.1: kafka.server.AbstractFetcherThread, ReplicationQuotaManager, ReplicaManager.shouldLeaderThrottle,
DelayedFetch; org.apache.kafka.common.metrics.stats.SimpleRate.
"""

import heapq
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from optimizer.schedule.estimate import PARTITION_FETCH_BYTES, RESPONSE_FETCH_BYTES
from optimizer.schedule.sharing import START_SECONDS, Copies, CopyRates, cut_off_factor, end_seconds, fair_seconds

SIMULATED_SECONDS = 60.0  # least time of the longest wave that is simulated; longer ones are scaled down to it
SEEDS = 3  # simulations: more change the ends of large waves by less than 1 %
# In a shorter wave (least time in seconds) chance decides more: with three seeds, a tenth of the waves of a minute
# ended outside the interval, and a third of those of 40 s.
SHORT_SECONDS, SHORT_SEEDS = 120.0, 20
# Share added to both ends: runs of one plan on a real cluster differ by up to 15 %, seeds of a large wave by 1 %.
SPREAD = 0.1
MOST_FETCHES = 30_000  # of one simulation; a larger wave is cut down to the busiest broker and its partners
_WINDOW_SECONDS, _KEPT_SECONDS = 1.0, 11.0  # replication.quota.window.size.seconds, and .num of them
_FOLLOWER_WAITS, _LEADER_HOLDS = 1.0, 0.5  # seconds: replica.fetch.backoff.ms and replica.fetch.wait.max.ms
_NETWORK_SECONDS = (0.001, 0.01)  # of one answer, at most a hundredth of a second
_FIRST_FETCH_SECONDS = (0.1, 0.3)  # after the reassignment is accepted, as seen on real clusters


@dataclass(frozen=True)
class WaveTime:
    """Seconds of a wave: expected, and the ends of the interval."""

    expected_seconds: float
    least_seconds: float
    most_seconds: float


def wave_time(copies: Copies, rates: CopyRates, *, batch_bytes: int) -> WaveTime:
    """The time of a wave; all infinite if a broker's throttle leaves nothing to its copies, 0 without copies.

    Parameters
    ----------
    batch_bytes : int
        Size of the producers' batches.
    """
    factor = cut_off_factor(batch_bytes)
    shared = fair_seconds(copies, rates)
    if not shared or shared == float("inf"):
        return WaveTime(shared, shared, shared)
    expected_seconds = shared * factor + START_SECONDS
    part = _busiest_part(copies, rates)
    alone = fair_seconds(part, rates)
    seconds, seeds = min(alone, SIMULATED_SECONDS), SHORT_SEEDS if shared < SHORT_SECONDS else SEEDS
    scaled = replace(part, size_bytes=part.size_bytes * (seconds / alone))
    times = [simulated_seconds(scaled, rates, batch_bytes=batch_bytes, seed=seed) for seed in range(seeds)]
    simulated = [shared * time / seconds for time in times]
    return WaveTime(
        expected_seconds,
        least_seconds=(1 - SPREAD) * min(expected_seconds, *simulated),
        most_seconds=(1 + SPREAD) * max(expected_seconds, *simulated),
    )


def _busiest_part(copies: Copies, rates: CopyRates) -> Copies:
    """All copies; of a large wave, those between the busiest broker and its partners, and between the partners."""
    seconds = np.maximum(*end_seconds(copies, rates))
    busiest = int(seconds.argmax())
    fetches = copies.size_bytes.sum() * SIMULATED_SECONDS / seconds.max() / PARTITION_FETCH_BYTES
    if fetches <= MOST_FETCHES:
        return copies
    touched = (copies.source == busiest) | (copies.target == busiest)
    partners = np.union1d(copies.source[touched], copies.target[touched])
    kept = touched | (np.isin(copies.source, partners) & np.isin(copies.target, partners))
    return Copies(copies.source[kept], copies.target[kept], copies.size_bytes[kept])


class _Meter:
    """Kafka's rate over the last eleven seconds, in windows of at least a second."""

    def __init__(self, rate_bytes_per_s: float) -> None:
        self._rate = rate_bytes_per_s
        self._windows = deque[list[float]]()  # begin, last event, bytes
        self._total = 0.0

    def record(self, now: float, size: float) -> None:
        windows = self._windows
        if not windows or now - windows[-1][0] >= _WINDOW_SECONDS:
            windows.append([now, now, 0.0])
        windows[-1][1] = now
        windows[-1][2] += size
        self._total += size

    def is_exceeded(self, now: float) -> bool:
        windows = self._windows
        while windows and now - windows[0][1] >= _KEPT_SECONDS:
            self._total -= windows.popleft()[2]
        return bool(windows) and self._total > self._rate * max(_WINDOW_SECONDS, now - windows[0][0])


class _Fetcher:
    """The copies of one pair of brokers, in the order of the next answer."""

    def __init__(self, leader: _Meter, follower: _Meter) -> None:
        self.leader, self.follower = leader, follower
        self.left = deque[float]()

    def answer(self, batch_bytes: int) -> float:
        """Bytes of the next answer; what stays of them is taken from the copies."""
        wire = 0.0
        for _ in range(len(self.left)):
            size = self.left.popleft()
            room = min(float(PARTITION_FETCH_BYTES), RESPONSE_FETCH_BYTES - wire)
            part = min(room, size)
            kept = size if part == size else part // batch_bytes * batch_bytes
            if not kept and not wire:
                part = kept = min(float(batch_bytes), size)  # the first partition gets a whole batch
            wire += part
            if size > kept:
                self.left.append(size - kept)
            if wire >= RESPONSE_FETCH_BYTES:
                break
        return wire


def simulated_seconds(copies: Copies, rates: CopyRates, *, batch_bytes: int, seed: int) -> float:
    """Seconds until the last copy has ended, by events."""
    drawn = random.Random(seed)
    number = count()
    now = 0.0
    events = [(drawn.uniform(*_FIRST_FETCH_SECONDS), next(number), f, 0.0) for f in _fetchers(copies, rates)]
    heapq.heapify(events)
    while events:
        now, _, fetcher, arrived = heapq.heappop(events)
        if arrived:
            fetcher.follower.record(now, arrived)
            if not fetcher.left:
                continue
        arriving = 0.0
        if fetcher.follower.is_exceeded(now):
            later = now + _FOLLOWER_WAITS
        elif fetcher.leader.is_exceeded(now):
            later = now + _LEADER_HOLDS
        else:
            arriving = fetcher.answer(batch_bytes)
            fetcher.leader.record(now, arriving)
            later = now + drawn.uniform(*_NETWORK_SECONDS)
        heapq.heappush(events, (later, next(number), fetcher, arriving))
    return now


def _fetchers(copies: Copies, rates: CopyRates) -> Iterator[_Fetcher]:
    leaders, followers = ({b: _Meter(rate) for b, rate in enumerate(x.tolist())} for x in (rates.out, rates.into))
    fetchers: dict[tuple[int, int], _Fetcher] = {}
    for source, target, size in zip(
        copies.source.tolist(), copies.target.tolist(), copies.size_bytes.tolist(), strict=True
    ):
        pair = (source, target)
        if pair not in fetchers:
            fetchers[pair] = _Fetcher(leaders[source], followers[target])
        fetchers[pair].left.append(max(size, 1.0))
    yield from fetchers.values()
