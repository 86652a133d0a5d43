"""A small cluster with a finished plan, by hand: six brokers on three racks, one to drain, one dead, one new."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from optimizer.settings import Policy, Schedule, Settings, Solver
from optimizer.solve.certificate import gap_percent
from optimizer.stages.stage import Run
from optimizer.windows_setting import Window
from tests.stages.tables import table

CLUSTER, RUN_ID = "orders", "night-1"
GB = 10**9
Rows = list[dict[str, Any]]

BROKERS = (  # id, rack, state, accepts, must_empty
    (1, "a", "alive", True, False),
    (2, "a", "draining", False, True),
    (3, "b", "alive", True, False),
    (4, "b", "dead", False, True),
    (5, "c", "alive", True, False),
    (6, "a", "new", True, False),
    (7, "b", "new", True, False),
)
PARTITIONS = (  # topic, partition, before, leader, isr, size GB, after, Kafka's default, reason
    ("clicks", 0, [1, 3, 5], 1, [1, 3, 5], 40, [1, 3, 5], [3, 5, 6], ""),
    ("clicks", 1, [2, 3, 5], 2, [2, 3, 5], 40, [6, 3, 5], [5, 6, 7], "drain"),
    ("clicks", 2, [1, 4, 5], 1, [1, 5], 60, [1, 7, 5], [6, 7, 1], "dead"),
    ("clicks", 10, [3, 1, 5], 3, [1, 3, 5], 20, [1, 3, 5], [1, 3, 5], "leader"),
    ("orders.v1", 0, [1, 2, 5], 1, [1, 2, 5], 10, [1, 7, 5], [5, 1, 3], "drain,rack"),
    ("orders.v1", 1, [5, 3, 1], 5, [1, 3, 5], 30, [5, 7, 1], [7, 5, 1], "balance"),
)


def instance() -> Rows:
    """Rows of ``instance``."""
    return [
        {
            "topic": topic, "partition": number, "replicas": before, "log_dirs": ["any"] * len(before),
            "leader": leader, "isr": isr, "size_bytes": size * GB, "in_bytes_per_s": 1_000_000,
            "out_bytes_per_s": 3_000_000, "replication_factor": len(before), "mobility": "free", "fixed_reason": None,
        }
        for topic, number, before, leader, isr, size, *_ in PARTITIONS
    ]  # fmt: skip


def instance_brokers(disk_gb: int = 1000) -> Rows:
    """Rows of ``instance_brokers``."""
    return [
        {
            "broker_id": broker, "rack": rack, "state": state, "accepts_replicas": accepts,
            "accepts_leadership": accepts, "must_empty": empty, "disk_capacity_bytes": disk_gb * GB,
            "in_capacity_bytes_per_s": None, "out_capacity_bytes_per_s": None, "pinned_topics": [],
        }
        for broker, rack, state, accepts, empty in BROKERS
    ]  # fmt: skip


def brokers() -> Rows:
    """Rows of ``brokers``."""
    return [
        {
            "broker_id": broker, "host": None, "port": None, "rack": rack, "state": state, "is_controller": False,
            "closed_cause": None, "closed_reason": None, "disk_capacity_bytes": None, "in_capacity_bytes_per_s": None,
            "out_capacity_bytes_per_s": None,
        }
        for broker, rack, state, *_ in BROKERS
    ]  # fmt: skip


def baseline() -> Rows:
    """Rows of ``baseline``."""
    rows: Rows = []
    for topic, number, before, _, _, size, _, default, _ in PARTITIONS:
        added = len(set(default) - set(before))
        rows.append(
            {
                "topic": topic, "partition": number, "algorithm": "striped", "replicas": default,
                "added_replicas": added, "moved_bytes": added * size * GB,
                "leader_changed": default[0] != before[0], "error": None,
            }
        )  # fmt: skip
    return rows


def proposal() -> Rows:
    """Rows of ``proposal``: only what changes."""
    return [
        {"topic": topic, "partition": number, "replicas": after}
        for topic, number, before, _, _, _, after, _, _ in PARTITIONS
        if after != before
    ]


def moves() -> Rows:
    """Rows of ``moves``; the second reason of a partition has a row that copies nothing."""
    rows: Rows = []
    for topic, number, before, _, _, size, after, _, reasons in PARTITIONS:
        gone, came = sorted(set(before) - set(after)), sorted(set(after) - set(before))
        pairs = list(zip(gone, came, strict=True))
        rows += [
            {
                "topic": topic,
                "partition": number,
                "from_broker": g,
                "to_broker": None if k else c,
                "size_bytes": 0 if k else size * GB,
                "reason": r,
            }
            for g, c in pairs
            for k, r in enumerate(reasons.split(","))
        ]
    return rows


BOUNDS: Rows = [
    {
        "kind": kind,
        "bound_bytes": bound,
        "gap_percent": gap_percent(140 * GB, bound),
        "is_best": is_best,
        "detail": detail,
    }
    for kind, bound, is_best, detail in (
        ("forced", 110 * GB, False, "replicas on brokers to empty"),
        ("flow", 130 * GB, True, "what brokers hold above their bands"),
    )
]
LEADER_BOUNDS: Rows = [
    {"measure": "leader_changes", "planned": 2, "bound": 1, "detail": "min-cost flow of leaders"},
    {"measure": "leaders_outside", "planned": 2, "bound": 1, "detail": "min-cost flow of leaders"},
    {"measure": "out_outside_bytes_per_s", "planned": 3_000_000, "bound": 1_000_000, "detail": "flow of bytes out"},
]
FINDINGS: Rows = [
    {
        "rule": "dead_broker", "code": "dead_broker", "broker_id": 4, "subject": "broker 4", "when": "before",
        "detail": "holds 1 replica, 60 GB, and is down", "remedy": "the plan copies it elsewhere",
    }
]  # fmt: skip
FOUND: Rows = [
    {
        "entity_type": kind, "entity_name": name, "config_name": f"leader.replication.throttled.{config}",
        "config_value": value, "is_static": False, "source": "configs.txt", "line": 1,
    }
    for kind, name, config, value in (
        ("topics", "orders.v1", "replicas", "*"),
        ("topics", "untouched", "replicas", "0:1,0:3"),
        ("brokers", "5", "rate", "20000000"),
        ("brokers", "3", "rate", "20000000"),
    )
]  # fmt: skip
QUALITY: Rows = [
    {
        "table_name": "replicas", "expectation": "expect_column_values_to_be_true", "rule": "no_repeated_broker",
        "severity": "critical", "success": True, "observed": None, "threshold": None, "unexpected_count": 0,
        "remedy": "",
    },
    {
        "table_name": "partition_load", "expectation": "expect_column_values_to_be_between", "rule": "rates_known",
        "severity": "warning", "success": False, "observed": "0.5", "threshold": "0.95", "unexpected_count": 3,
        "remedy": "export the rates of every partition",
    },
]  # fmt: skip
INPUT: Rows = [
    {
        "rule": "rates_known", "standing": "left_out", "subject": "orders",
        "detail": "3 of 6 partitions, with 20 % of the stored bytes, have no rates: they count as idle",
        "remedy": "export rates of all topics; to refuse such input, set [metrics] rates_required = true", "rows": 3,
    },
    {
        "rule": "no_duplicate_snapshot", "standing": "noted", "subject": "describe-2.txt:4",
        "detail": "orders-0 is described again; describe-1.txt has the same description",
        "remedy": "keep only one description of the cluster", "rows": 6,
    },
]  # fmt: skip

_TOPIC = {"partitions": 6, "replication_factor": 2, "is_internal": False, "configs": None, "min_insync_replicas": None}
# The other topic is of before Kafka 2.8: it has no id.
TOPICS: Rows = [{**_TOPIC, "topic": "orders.v1", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}]
SOURCES: Rows = [
    {"source": name, "captured_at": at, "records": records, "has_state": at is not None, "kafka_cluster_id": None}
    for name, at, records in (
        ("describe.txt", datetime(2026, 10, 5, 2, tzinfo=UTC), 6),
        ("metrics.csv", None, 12),
    )
]


def frame(spark: SparkSession, name: str, rows: Rows, cluster_id: str = CLUSTER) -> DataFrame:
    """Rows as the table's DataFrame."""
    full = [{"cluster_id": cluster_id, "run_id": RUN_ID, **row} for row in rows]
    return table(spark, name, full)


def inputs(spark: SparkSession, **replaced: Rows) -> dict[str, DataFrame]:
    """What PLAN and EMIT read from the stages before; some tables may be replaced."""
    tables: Mapping[str, Rows] = {
        "instance": instance(), "instance_brokers": instance_brokers(), "baseline": baseline(),
        "proposal": proposal(), "moves": moves(), "bounds": BOUNDS, "leader_bounds": LEADER_BOUNDS,
        "curve": [],
        "findings": FINDINGS, "quality_results": QUALITY, "input_findings": INPUT, "sources": SOURCES,
        "throttles_found": FOUND, "topics": TOPICS,
        "brokers": brokers(), "consumer_groups": [], "consumer_members": [],
        **replaced,
    }  # fmt: skip
    return {name: frame(spark, name, rows) for name, rows in tables.items()}


def settings(
    output: str = "out", *, disk_headroom: float = 0.1, max_moves_per_wave: int = 2, windows: tuple[Window, ...] = ()
) -> Settings:
    """Two waves, at most two copies each unless given otherwise."""
    schedule = Schedule(window_hours=1, throttle_mb_per_s=50, max_moves_per_wave=max_moves_per_wave, windows=windows)
    base = Settings(schedule=schedule, policy=Policy(drain_brokers=(2,), disk_headroom=disk_headroom))
    # Alternatives need the cluster in the settings; their own tests have it.
    solver = Solver(alternatives_brokers=0)
    return Settings(schedule=schedule, policy=base.policy, solver=solver, storage=type(base.storage)(output=output))


def run(
    spark: SparkSession, output: str = "out", *, disk_headroom: float = 0.1, windows: tuple[Window, ...] = ()
) -> Run:
    """The run that the stages are given."""
    return Run(spark, RUN_ID, settings(output, disk_headroom=disk_headroom, windows=windows), "test")


def without_network(hosts: pd.DataFrame) -> pd.DataFrame:
    """Brokers that send and receive nothing, with networks of unknown capacity, and unknown directories."""
    used = dict.fromkeys(("in_used_bytes_per_s", "out_used_bytes_per_s"), 0)
    unknown = dict.fromkeys(("in_capacity_bytes_per_s", "out_capacity_bytes_per_s", "captured_at"))
    return hosts.assign(**used, **unknown, log_dirs=None, skips_tiered=None)
