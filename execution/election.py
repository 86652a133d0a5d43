"""Elects the plan's preferred leaders, and waits until every one of them leads."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from execution.admin import Admin
from execution.observed import Observed, TopicPartition

# Brokers know of an election after less than half a second (measured, Kafka 4.3.1).
_LOOK_AGAIN_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Elected:
    """What an election has reached.

    Parameters
    ----------
    count : int
        Partitions that their preferred replica leads now, and did not before.
    reasons : mapping of (topic, partition) to str
        Why another replica leads, for each partition that its preferred replica does not lead.
    """

    count: int
    reasons: Mapping[TopicPartition, str]


def not_led(planned: Mapping[TopicPartition, tuple[int, ...]], now: Observed) -> list[TopicPartition]:
    """Partitions with their planned replicas that their first replica does not lead."""
    return sorted(
        partition
        for partition, brokers in planned.items()
        if now.replicas.get(partition) == brokers and now.leaders[partition] != brokers[0]
    )


def elect(admin: Admin, planned: Mapping[TopicPartition, tuple[int, ...]], observe: Callable[[], Observed]) -> Elected:
    """Elect the first replica of each planned list as leader."""
    wanted = not_led(planned, observe())
    refused = admin.elect(wanted) if wanted else {}
    rest = wanted
    for pause in (*_LOOK_AGAIN_SECONDS, None):
        now = observe()
        rest = [partition for partition in not_led(planned, now) if partition in wanted]
        if set(rest) <= set(refused) or pause is None:
            break
        time.sleep(pause)
    return Elected(len(wanted) - len(rest), {p: refused.get(p, "another replica leads") for p in rest})
