"""The rates of a wave's throttles.

The operator sets the rate for *copies*. Live replication of the same partitions counts against the same throttle, so
each broker's rate is the copy rate plus its live traffic. Then copies get the requested rate, and a replica always
catches up.
"""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Ints
from optimizer.schedule.estimate import Traffic
from optimizer.settings import Schedule

BYTES_PER_KB, BYTES_PER_MB = 10**3, 10**6  # decimal units, powers of 1000


@dataclass(frozen=True)
class Rates:
    """The two ``replication.throttled.rate`` of each broker, (B,), bytes per second; 0 for a broker without copies."""

    leader: Ints
    follower: Ints


def copy_rate_bytes_per_s(schedule: Schedule) -> int:
    """The rate that copies may take, per broker and direction."""
    return round(schedule.throttle_mb_per_s * BYTES_PER_MB)


def rates_of_windows(schedule: Schedule) -> list[int]:
    """The same rate in each window: its own, or else that of the schedule."""
    usual = copy_rate_bytes_per_s(schedule)
    return [round(window.throttle_mb_per_s * BYTES_PER_MB) or usual for window in schedule.windows]


def rates_per_broker(of: Traffic, *, copy_bytes_per_s: int) -> Rates:
    """The careful style: each broker that sends or receives copies has its own rate."""
    return Rates(
        leader=np.where(of.out_bytes > 0, copy_bytes_per_s + of.live_out, 0),
        follower=np.where(of.in_bytes > 0, copy_bytes_per_s + of.live_in, 0),
    )


def common_rate(of: Traffic, *, copy_bytes_per_s: int) -> int:
    """The style of Kafka's own tool: one rate for all brokers and directions, the largest that one of them needs."""
    rates = rates_per_broker(of, copy_bytes_per_s=copy_bytes_per_s)
    return int(max(rates.leader.max(initial=0), rates.follower.max(initial=0)))


def rates_in_style(of: Traffic, copy_bytes_per_s: int, style: str) -> Rates:
    """Rates in the style that the runbook uses: careful, one for each broker, or Kafka's common rate."""
    if style == "careful":
        return rates_per_broker(of, copy_bytes_per_s=copy_bytes_per_s)
    common = np.full(len(of.out_bytes), common_rate(of, copy_bytes_per_s=copy_bytes_per_s), dtype=np.int64)
    return Rates(leader=common, follower=common)


def is_below_floor(of: Traffic, rates: Rates) -> bool:
    """Whether a rate is below the least that Kafka's throttle can enforce; copies are then faster than requested."""
    leader = (rates.leader > 0) & (rates.leader < of.floor_out)
    follower = (rates.follower > 0) & (rates.follower < of.floor_in)
    return bool((leader | follower).any())
