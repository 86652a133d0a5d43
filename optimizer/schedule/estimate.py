"""What the throttles of a wave meter on each broker: copies, live replication, and the rate that Kafka can enforce.

Kafka measures the replication bytes of throttled partitions per broker, once as leader (limit ``L_b``) and once as
follower (limit ``F_b``). The leader's meter also counts fetches of followers that are in sync already. A copy must be
faster than the producers meanwhile, so a wave takes at least

    T = max_b max( out_b / (L_b - live_out_b),  in_b / (F_b - live_in_b) )

with ``live_out_b = sum_p w_p (in-sync followers + new followers)`` over the throttled partitions that b leads, and
``live_in_b`` the produced bytes ``w_p`` of the copies that b receives. A fetch is all or nothing, so Kafka can't
enforce a rate below the *floor*: about min(partitions x 1 MiB, 10 MiB) per 10 s for each pair of leader and follower.

References
----------
Kafka 4.3.1: kafka.server.ReplicationQuotaManager, ReplicaManager.shouldLeaderThrottle; KIP-73. Modules ``sharing`` and
``simulate`` have the time of a wave.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Ints
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker

PARTITION_FETCH_BYTES = 1 << 20  # replica.fetch.max.bytes
RESPONSE_FETCH_BYTES = 10 << 20  # replica.fetch.response.max.bytes
QUOTA_WINDOW_SECONDS = 10  # replication.quota.window.num - 1 full windows of a second


@dataclass(frozen=True)
class Traffic:
    """Replication traffic of the throttled partitions of one wave, per broker, each (B,).

    Parameters
    ----------
    out_bytes, in_bytes : int64
        Bytes of the copies, sent as leader and received as follower.
    live_out, live_in : int64
        Bytes per second that count against the throttle in addition to the copies.
    floor_out, floor_in : int64
        Least rate in bytes per second that the throttle can enforce.
    """

    out_bytes: Ints
    in_bytes: Ints
    live_out: Ints
    live_in: Ints
    floor_out: Ints
    floor_in: Ints

    @property
    def busiest(self) -> Ints:
        """The larger of bytes out and in, (B,)."""
        return np.maximum(self.out_bytes, self.in_bytes)


def _floors(changes: WaveChanges, n_brokers: int) -> tuple[Ints, Ints]:
    row, slot = np.nonzero((changes.added >= 0) & (changes.source >= 0)[:, None])
    pair = changes.source[row] * n_brokers + changes.added[row, slot]
    pairs, partitions = np.unique(pair, return_counts=True)
    rate = np.minimum(partitions * PARTITION_FETCH_BYTES, RESPONSE_FETCH_BYTES) // QUOTA_WINDOW_SECONDS
    out, into = np.zeros(n_brokers, dtype=np.int64), np.zeros(n_brokers, dtype=np.int64)
    np.add.at(out, pairs // n_brokers, rate)
    np.add.at(into, pairs % n_brokers, rate)
    return out, into


def traffic(changes: WaveChanges, n_brokers: int) -> Traffic:
    """Traffic of the copies in ``changes``; partitions without a copy are not throttled and don't count."""
    copied = changes.select(changes.copies > 0)
    source = copied.source[:, None]
    floor_out, floor_in = _floors(copied, n_brokers)
    followers = copied.in_sync_followers + copied.copies
    return Traffic(
        out_bytes=bytes_per_broker(source, copied.endpoint_bytes, n_brokers),
        in_bytes=bytes_per_broker(copied.added, copied.copy_bytes, n_brokers),
        live_out=bytes_per_broker(source, copied.in_bytes_per_s * followers, n_brokers),
        live_in=bytes_per_broker(copied.added, copied.in_bytes_per_s, n_brokers),
        floor_out=floor_out,
        floor_in=floor_in,
    )
