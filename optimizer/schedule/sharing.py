"""How long a wave takes if Kafka shares its throttles fairly: the expected time.

Kafka serves the throttled partitions of a broker in turn, at the leader and at the follower. So the copies share the
rate of each end by partition, not by bytes: *max-min sharing*. A copy that ends early leaves its share to the others.
The least time is that of the busiest end, if it always works at its rate.

References
----------
Measured on real clusters of Kafka 4.3.1, rates up to 4 MB/s: fair sharing times the cut-off factor plus a second is
within -6 and +12 % of the measured times (tests/schedule/test_times.py).
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Floats, Ints
from optimizer.schedule.estimate import PARTITION_FETCH_BYTES, RESPONSE_FETCH_BYTES, Traffic
from optimizer.schedule.wave_changes import WaveChanges

START_SECONDS = 1.0  # from the acceptance of a reassignment to the first fetch, and the last look at the ISR
STEPS = 200  # of a wave: with 200 the time is up to 0.8 % too long
_MOST_PARTITIONS = RESPONSE_FETCH_BYTES // PARTITION_FETCH_BYTES  # partitions in one answer
_SPENT = 1e-6  # share of a rate that counts as nothing


@dataclass(frozen=True)
class CopyRates:
    """What each broker's throttle leaves to copies, (B,), bytes per second: rate less live traffic; 0: never ends."""

    out: Floats
    into: Floats


def copy_rates(of: Traffic, *, leader_rate: Ints, follower_rate: Ints) -> CopyRates:
    """The rates of copies under the throttles of a wave.

    Parameters
    ----------
    leader_rate, follower_rate : (B,) int64
        ``leader.`` and ``follower.replication.throttled.rate``, bytes per second.
    """
    return CopyRates(
        out=np.maximum(np.maximum(leader_rate, of.floor_out) - of.live_out, 0).astype(np.float64),
        into=np.maximum(np.maximum(follower_rate, of.floor_in) - of.live_in, 0).astype(np.float64),
    )


def cut_off_factor(batch_bytes: int) -> float:
    """Bytes on the wire for each byte that stays: Kafka cuts a fetch off inside a batch, whose part is dropped.

    >>> round(cut_off_factor(16_000), 3), round(cut_off_factor(600_000), 2)
    (1.008, 1.75)
    """
    whole = PARTITION_FETCH_BYTES // batch_bytes * batch_bytes
    return PARTITION_FETCH_BYTES / whole if whole else 1.0


@dataclass(frozen=True)
class Copies:
    """The copies of a wave, one for each added replica: source, target, bytes, (C,)."""

    source: Ints
    target: Ints
    size_bytes: Floats


def copies_of(changes: WaveChanges) -> Copies:
    """The copies of partitions that have a leader."""
    row, slot = np.nonzero((changes.added >= 0) & (changes.source >= 0)[:, None])
    return Copies(changes.source[row], changes.added[row, slot], changes.copy_bytes[row, slot].astype(np.float64))


def fair_seconds(copies: Copies, rates: CopyRates) -> float:
    """Seconds until the last copy has ended; infinite if a broker's throttle leaves nothing.

    Time advances to the next end of a copy, but at least by a step of the least time.
    """
    n_brokers = len(rates.out)
    key, left, now = copies.source * n_brokers + copies.target, copies.size_bytes, 0.0
    key, left = key[left > 0], left[left > 0]
    if not len(left):
        return 0.0
    least = least_seconds(copies, rates)
    if least == float("inf"):
        return least
    step = least / STEPS
    while len(left):
        pairs, pair_of, partitions = np.unique(key, return_inverse=True, return_counts=True)
        weight = np.minimum(partitions, _MOST_PARTITIONS).astype(np.float64)
        rate = _max_min(pairs // n_brokers, pairs % n_brokers, weight, rates)
        of_copy = (rate / partitions)[pair_of]
        passed = max(float((left / of_copy).min()), step)
        left, now = left - of_copy * passed, now + passed
        key, left = key[left > 0], left[left > 0]
    return now


def least_seconds(copies: Copies, rates: CopyRates) -> float:
    """Seconds in which the busiest end can send or receive its bytes (formula 26 of docs/solver.md).

    Infinite if a broker's throttle leaves nothing.
    """
    return float(max(seconds.max(initial=0.0) for seconds in end_seconds(copies, rates)))


def end_seconds(copies: Copies, rates: CopyRates) -> tuple[Floats, Floats]:
    """Seconds of each broker as sender and as receiver, (B,)."""
    ends = ((copies.source, rates.out), (copies.target, rates.into))
    volumes = [(np.bincount(broker, copies.size_bytes, len(rate)), rate) for broker, rate in ends]
    sent, received = (
        np.divide(volume, rate, out=np.where(volume > 0, np.inf, 0.0), where=rate > 0) for volume, rate in volumes
    )
    return sent, received


def _max_min(source: Ints, target: Ints, weight: Floats, rates: CopyRates) -> Floats:
    """The max-min fair rate of each pair, by weight: all rise together, and stop when an end is full."""
    n_brokers = len(rates.out)
    out, into = rates.out.copy(), rates.into.copy()
    rate, rising = np.zeros(len(source)), np.arange(len(source))
    while len(rising):
        sending = np.bincount(source[rising], weight[rising], n_brokers)
        receiving = np.bincount(target[rising], weight[rising], n_brokers)
        room = [
            np.divide(free, used, out=np.full(n_brokers, np.inf), where=used > 0)
            for free, used in ((out, sending), (into, receiving))
        ]
        rise = float(min(room[0].min(), room[1].min()))
        rate[rising] += rise * weight[rising]
        out -= rise * sending
        into -= rise * receiving
        is_full = (out <= _SPENT * rates.out)[source[rising]] | (into <= _SPENT * rates.into)[target[rising]]
        rising = rising[~is_full]
    return rate
