"""A plan of one wave with its throttles, on a cluster that already had throttles."""

from collections.abc import Collection, Mapping
from typing import Any

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.rows import BrokerRow, EarlierThrottleRow, PlanRow, ThrottleRow, WaveRow
from optimizer.kafka.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    ConfigEntry,
    careful_throttles,
    config_entries,
    tool_throttles,
)
from tests.emit.rows import rows_of

RATE = 300_000
LIVE = 100  # bytes per second that are produced to each partition
# topic, partition: replicas before, after
CHANGES = {("stays", 0): ([1, 2], [1, 3]), ("stays", 1): ([2, 1], [2, 4]), ("goes", 0): ([1, 2], [3, 2])}
EARLIER: frozenset[ConfigEntry] = frozenset(
    {
        ("topics", "stays", LEADER_REPLICAS, "*"),
        ("brokers", "2", LEADER_RATE, "20000000"),
        ("brokers", "1", FOLLOWER_RATE, "30000000"),
    }
)
CAREFUL: frozenset[ConfigEntry] = frozenset(
    {
        ("topics", "stays", LEADER_REPLICAS, "0:1,0:2,1:2,1:1"),
        ("topics", "stays", FOLLOWER_REPLICAS, "0:3,1:4"),
        ("topics", "goes", LEADER_REPLICAS, "0:1,0:2"),
        ("topics", "goes", FOLLOWER_REPLICAS, "0:3"),
        ("brokers", "1", LEADER_RATE, str(RATE)),
        ("brokers", "2", LEADER_RATE, str(RATE)),
        ("brokers", "3", FOLLOWER_RATE, str(RATE)),
        ("brokers", "4", FOLLOWER_RATE, str(RATE)),
    }
)


def over(below: Collection[ConfigEntry], above: Collection[ConfigEntry]) -> frozenset[ConfigEntry]:
    """The entries after ``above`` is set over ``below``."""
    values = {entry[:3]: entry[3] for entry in (*below, *above)}
    return frozenset((*key, value) for key, value in values.items())


def throttled_plan(changes: Mapping[tuple[str, int], tuple[list[int], list[int]]] = CHANGES) -> ClusterPlan:
    """One wave, in both forms, with earlier throttles."""
    current = {key: before for key, (before, _) in changes.items()}
    proposed = {key: after for key, (_, after) in changes.items()}
    previous = {entry[:3]: entry[3] for entry in EARLIER}
    forms = {"careful": careful_throttles(proposed, current), "kafka": tool_throttles(proposed, current)}
    rates = dict.fromkeys(range(10), RATE)
    throttles = [
        ThrottleRow(*entry, previous_value=previous.get(entry[:3]), wave=1, style=style)
        for style, form in forms.items()
        for entry in config_entries(form, rates, rates)
        if entry[3]
    ]
    changed: list[dict[str, Any]] = [
        {
            "topic": topic, "partition": number, "current_replicas": before, "proposed_replicas": after, "wave": 1,
            "leader": before[0], "log_dirs": ["any"] * len(before), "reason_codes": ["balance"], "moved_bytes": 1,
            "in_bytes_per_s": LIVE,
        }
        for (topic, number), (before, after) in sorted(changes.items())
    ]  # fmt: skip
    wave = {
        "wave": 1, "partitions": len(changed), "replicas_moved": len(changed), "moved_bytes": len(changed),
        "busiest_broker": 1, "busiest_bytes": 1, "throttle_bytes_per_s": RATE, "estimated_seconds": 60,
        "below_floor": False, "peak_disk_bytes": 1, "least_seconds": 60, "most_seconds": 60, "inside_brokers": False,
        "copy_bytes_per_s": RATE, "requested_bytes_per_s": RATE,
    }  # fmt: skip
    brokers = [BrokerRow(b, "a", "alive", accepts_replicas=True, must_empty=False) for b in (1, 2, 3, 4)]
    return ClusterPlan(
        cluster_id="c", run_id="r", throttle_style="careful", plan_log_dirs=False, copy_bytes_per_s=RATE,
        changed=rows_of(PlanRow, *changed), moves=[], waves=rows_of(WaveRow, wave), throttles=throttles, balance=[],
        summary=[], bounds=[], findings=[], quality=[], brokers=brokers,
        throttles_found=[EarlierThrottleRow(*entry, is_static=False) for entry in sorted(EARLIER)],
    )  # fmt: skip
