"""The seven stages in their order: which tables each reads and writes, and which settings it may read."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Declared:
    """Inputs, outputs and settings of a stage.

    Parameters
    ----------
    name : str
    reads, writes : tuple of str
        Table names. The stage gets only the rows of its run.
    settings : tuple of str
        Sections, and single knobs such as ``emit.throttle_style``. The stage can read no other knob. Once it has
        run, these knobs may not change within the run.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    settings: tuple[str, ...]


# Settings that must be declared by name; their section does not include them. A stage that does not read them stays
# valid if they change.
NAMED_ALONE = ("policy.max_unexplained", "policy.cross_rack_price_per_gb", "schedule.valid_hours")


def can_read(settings: Collection[str], section: str, knob: str) -> bool:
    """Whether a stage that declares these settings may read a knob of a section."""
    name = f"{section}.{knob}"
    return name in settings or (section in settings and name not in NAMED_ALONE)


_IN_ORDER = (
    Declared("ingest", (), ("bronze_records", "bronze_metrics"), ("clusters", "quality", "policy")),
    Declared(
        "validate",
        ("bronze_records", "bronze_metrics"),
        (
            "brokers",
            "log_dirs",
            "topics",
            "replicas",
            "partition_load",
            "throttles_found",
            "consumer_groups",
            "consumer_members",
            "quarantine",
            "quality_results",
            "input_findings",
            "sources",
        ),
        ("storage", "clusters", "metrics", "quality", "policy", "schedule.windows"),
    ),
    Declared(
        "snapshot",
        ("brokers", "log_dirs", "topics", "replicas", "partition_load"),
        ("instance", "instance_brokers"),
        ("clusters", "policy"),
    ),
    Declared("baseline", ("instance", "instance_brokers"), ("baseline",), ("clusters", "baseline")),
    Declared(
        "solve",
        ("instance", "instance_brokers"),
        ("proposal", "moves", "leaders", "leader_bounds", "shard_results", "bounds", "curve", "findings"),
        ("clusters", "policy", "solver", "schedule"),
    ),
    Declared(
        "plan",
        (
            *("instance", "instance_brokers", "baseline", "proposal", "moves", "leader_bounds", "bounds", "findings"),
            *("throttles_found", "sources", "brokers", "consumer_groups", "consumer_members"),
        ),
        (
            *("plan", "waves", "rack_flow", "broker_waves", "dir_balance", "dir_moves", "throttles"),
            *("broker_balance", "plan_summary", "exposure", "restart_batches"),
            *("wave_findings", "alternatives"),
            *("consumer_load", "consumer_impact"),
        ),
        ("clusters", "policy", "solver", "schedule", "emit.throttle_style"),
    ),
    Declared(
        "emit",
        (
            "plan",
            "moves",
            "waves",
            "throttles",
            "throttles_found",
            "broker_balance",
            "plan_summary",
            "rack_flow",
            "broker_waves",
            "dir_balance",
            "dir_moves",
            "consumer_load",
            "consumer_impact",
            "alternatives",
            "curve",
            "bounds",
            "findings",
            "wave_findings",
            "quality_results",
            "input_findings",
            "sources",
            "topics",
            "instance",
            "instance_brokers",
        ),
        ("documents",),
        ("storage", "clusters", "policy", *NAMED_ALONE, "schedule", "emit"),
    ),
)
DECLARED = {stage.name: stage for stage in _IN_ORDER}
NAMES = tuple(DECLARED)
# Which stage writes a table: error messages about a missing table name it.
WRITERS = {table: stage.name for stage in _IN_ORDER for table in stage.writes}
