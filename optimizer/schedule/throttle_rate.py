"""The rates of a wave's throttles.

The operator gives the rate that *copies* may take. Live replication of the same partitions counts against the same
meter, so each broker's rate is that plus its live traffic: copies then get what was asked for, and a replica always
catches up.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Ints
from optimizer.schedule.estimate import Traffic
from optimizer.settings import Schedule

BYTES_PER_MB = 10**6  # as people say MB: a power of 1000


@dataclass(frozen=True)
class Rates:
    """The two ``replication.throttled.rate`` of each broker, (B,) bytes per second; 0: takes no part."""

    leader: Ints
    follower: Ints


def copy_rate_bytes_per_s(schedule: Schedule) -> int:
    """The rate that copies may take, per broker and direction."""
    return round(schedule.throttle_mb_per_s * BYTES_PER_MB)


def rates_per_broker(of: Traffic, *, copy_bytes_per_s: int) -> Rates:
    """The careful form: a rate of its own for each broker that sends or receives."""
    return Rates(
        leader=np.where(of.out_bytes > 0, copy_bytes_per_s + of.live_out, 0),
        follower=np.where(of.in_bytes > 0, copy_bytes_per_s + of.live_in, 0),
    )


def common_rate(of: Traffic, *, copy_bytes_per_s: int) -> int:
    """The form of Kafka's own tool: one rate for all brokers and directions, enough for the neediest."""
    rates = rates_per_broker(of, copy_bytes_per_s=copy_bytes_per_s)
    return int(max(rates.leader.max(initial=0), rates.follower.max(initial=0)))


def is_below_floor(of: Traffic, rates: Rates) -> bool:
    """Whether a rate is under what Kafka's throttle can hold, so that copies run faster than asked."""
    leader = (rates.leader > 0) & (rates.leader < of.floor_out)
    follower = (rates.follower > 0) & (rates.follower < of.floor_in)
    return bool((leader | follower).any())
