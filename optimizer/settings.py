"""Typed settings of a run, by section; invalid values are refused at once."""

import hashlib
import json
from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from optimizer.approval_setting import Approval
from optimizer.cluster_policy import BROKER_LISTS, DEMOTE, FAILOVER_SPREADS, FEW, RACKS, ClusterPolicy
from optimizer.folders import is_reserved
from optimizer.setting_checks import (
    NAME_RULE,
    Problems,
    between,
    check_pattern,
    check_patterns,
    check_servers,
    check_time,
    is_folder_name,
    refuse,
    release,
)
from optimizer.windows_setting import LEAST_MB_PER_S, MOST_MB_PER_S, Window, check_first_night


@dataclass(frozen=True, kw_only=True)
class InstanceBroker:
    """The broker behind an instance in the metrics; the default -1 means that none was given, and is refused."""

    instance: str = ""
    broker: int = -1

    def __post_init__(self) -> None:
        if not self.instance or self.broker < 0:
            remedy = 'give the label and the broker\'s id, such as {instance = "10.0.0.1:7071", broker = 1}'
            refuse("instances", {"instance": self.instance, "broker": self.broker}, remedy)


@dataclass(frozen=True, kw_only=True)
class ClusterInput(ClusterPolicy):
    """The source of one cluster (absolute paths), and its own policy."""

    section = "[[clusters]]"

    id: str
    input: str = ""
    bootstrap_servers: str = ""
    client_config: str = ""
    captured_at: str = ""
    kafka_version: str = ""
    instances: tuple[InstanceBroker, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [entry.instance for entry in self.instances]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            refuse(f"[[clusters]] {self.id!r} instances", repeated, "name each instance once, with its broker")
        if not is_folder_name(self.id):
            refuse("[[clusters]] id", self.id, NAME_RULE)
        if is_reserved(self.id):
            refuse("[[clusters]] id", self.id, "folders or pages of a run have that name; choose another")
        if self.id.endswith(".html"):
            refuse("[[clusters]] id", self.id, "pages of a run end in .html; choose an id that does not")
        if not (self.input or self.bootstrap_servers):
            refuse("[[clusters]]", self.id, "give input (a folder) or bootstrap_servers (a live cluster)")
        if self.bootstrap_servers:
            check_servers(f"[[clusters]] {self.id!r} bootstrap_servers", self.bootstrap_servers)
        if self.captured_at:
            check_time(f"[[clusters]] {self.id!r} captured_at", self.captured_at)
        release(self.kafka_version, f"[[clusters]] {self.id!r} kafka_version")


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Directories of tables and files."""

    warehouse: str = "warehouse"
    output: str = "out"
    single_writer: bool = False


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """How samples become loads."""

    window_hours: int = 168
    rate_percentile: float = 95.0
    min_coverage: float = 0.95
    rates_required: bool = False

    def __post_init__(self) -> None:
        between("metrics", {"window_hours": self.window_hours}, 1, 24 * 366)
        between("metrics", {"rate_percentile": self.rate_percentile}, 1, 100)
        between("metrics", {"min_coverage": self.min_coverage}, 0, 1)


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Thresholds of the data-quality gate."""

    max_quarantined_share: float = 0.01
    max_contradicting_share: float = 0.01
    allow_unreadable_files: tuple[str, ...] = ()
    assignment_is_state: bool = False
    allow_headless_describe: bool = False

    def __post_init__(self) -> None:
        shares = ("max_quarantined_share", "max_contradicting_share")
        between("quality", {name: getattr(self, name) for name in shares}, 0, 1)
        for pattern in self.allow_unreadable_files:
            if not pattern.strip("*?/. "):
                remedy = 'name the files, such as "notes/*.md": a pattern for every file could hide a lost input'
                refuse("[quality] allow_unreadable_files", pattern, remedy)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Which of Kafka's algorithms is the baseline."""

    algorithm: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.algorithm not in ("auto", "striped", "admin_utils"):
            refuse("[baseline] algorithm", self.algorithm, "use auto, striped or admin_utils")


@dataclass(frozen=True, kw_only=True)
class Policy(ClusterPolicy):
    """Requests for every cluster, the goals of a plan, and a limit of the audit."""

    section = "[policy]"

    topics: tuple[str, ...] = ()
    exclude_topics: tuple[str, ...] = ()
    acks_one_topics: tuple[str, ...] = ()
    rack_policy: str = "spread"
    disk_band: float = 0.05
    replicas_band: float = 0.10
    leaders_band: float = 0.10
    in_band: float = 0.10
    out_band: float = 0.10
    start_at: float = 0.0
    disk_headroom: float = 0.10
    bytes_tolerance: float = 0.001
    move_price: float = 0.0
    topic_spread: float = 0.0
    topic_leader_spread: float = 0.0
    max_unexplained: float = 0.01
    failover_spread: str = FEW
    balance_dirs: bool = False
    dir_band: float = 0.10
    cross_rack_price_per_gb: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        bands = {name: getattr(self, name) for name in BANDS}
        between("policy", {**bands, "dir_band": self.dir_band, "start_at": self.start_at}, 0, 100)
        between("policy", {"disk_headroom": self.disk_headroom}, 0, 0.95)
        between("policy", {"bytes_tolerance": self.bytes_tolerance}, 0, 1)
        between("policy", {"move_price": self.move_price}, 0, 1000)
        between("policy", {"max_unexplained": self.max_unexplained}, 0, 1)
        between("policy", {"cross_rack_price_per_gb": self.cross_rack_price_per_gb}, 0, 10**6)
        for name in ("topic_spread", "topic_leader_spread"):
            factor = getattr(self, name)
            if factor != 0 and not 1 <= factor <= 1000:
                refuse(f"[policy] {name}", factor, "give a number from 1 to 1000, or 0 for no rule")
        if self.rack_policy not in ("spread", "none"):
            refuse("[policy] rack_policy", self.rack_policy, "use spread or none")
        if self.failover_spread not in FAILOVER_SPREADS:
            refuse("[policy] failover_spread", self.failover_spread, f"use one of {', '.join(FAILOVER_SPREADS)}")
        for name in ("topics", "exclude_topics", "acks_one_topics"):
            for pattern in getattr(self, name):
                check_pattern(f"[policy] {name}", pattern)


BANDS = ("disk_band", "replicas_band", "leaders_band", "in_band", "out_band")


def with_knobs(policy: Policy, knobs: Mapping[str, Any]) -> Policy:
    """The policy with other values of some knobs, which are not checked.

    A stage has only its declared knobs, so no complete ``Policy`` can be built from them.
    """
    changed = copy(policy)
    vars(changed).update(knobs)
    return changed


def with_policy(settings: "Settings", policy: Policy) -> "Settings":
    """The settings with another policy, which is not checked."""
    changed = copy(settings)
    vars(changed)["policy"] = policy
    return changed


def start_policy(policy: Policy) -> Policy:
    """The policy with the bands of a night on which a cluster waits: none is narrower than ``start_at``."""
    return with_knobs(policy, {name: max(getattr(policy, name), policy.start_at) for name in (*BANDS, "dir_band")})


@dataclass(frozen=True, kw_only=True)
class Solver:
    """How hard the solver tries."""

    shard_brokers: int = 50
    rack_shard_brokers: int = 25
    rounds: int = 4
    seed: int = 20
    curve_brokers: int = 120
    alternatives_brokers: int = 40
    lp_deterministic_time: float = 100.0
    shard_gap: float = 0.01
    cluster_gap: float = 0.001

    def __post_init__(self) -> None:
        between("solver", {"shard_brokers": self.shard_brokers, "rack_shard_brokers": self.rack_shard_brokers}, 2, 200)
        between("solver", {"rounds": self.rounds}, 1, 20)
        sizes = {"curve_brokers": self.curve_brokers, "alternatives_brokers": self.alternatives_brokers}
        between("solver", sizes, 0, 100_000)
        between("solver", {"shard_gap": self.shard_gap, "cluster_gap": self.cluster_gap}, 0, 1)
        between("solver", {"lp_deterministic_time": self.lp_deterministic_time}, 10**-6, 10**6)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the plan is divided into waves."""

    waves: int = 0
    window_hours: float = 8.0
    throttle_mb_per_s: float = 50.0
    max_moves_per_wave: int = 1000
    batch_kb: float = 16.0
    valid_hours: float = 24.0
    windows: tuple[Window, ...] = ()
    first_night: str = field(default="", metadata={"example": '"2026-11-27"'})

    def __post_init__(self) -> None:
        between("schedule", {"waves": self.waves}, 0, 10_000)
        between("schedule", {"window_hours": self.window_hours}, 0.01, 24 * 365)
        between("schedule", {"throttle_mb_per_s": self.throttle_mb_per_s}, LEAST_MB_PER_S, MOST_MB_PER_S)
        between("schedule", {"max_moves_per_wave": self.max_moves_per_wave}, 1, 10**7)
        between("schedule", {"batch_kb": self.batch_kb}, 0.1, 10**5)
        between("schedule", {"valid_hours": self.valid_hours}, 0, 24 * 365)
        if self.first_night:
            check_first_night(self.first_night)


@dataclass(frozen=True, kw_only=True)
class Emit:
    """The form of the emitted files."""

    throttle_style: str = "careful"
    plan_log_dirs: bool = False

    def __post_init__(self) -> None:
        if self.throttle_style not in ("careful", "kafka"):
            refuse("[emit] throttle_style", self.throttle_style, "use careful or kafka")


AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How an approved plan is executed. No plan depends on it."""

    max_moves_per_broker: int = 0
    max_throttle_mb_per_s: float = 0.0
    on_pressure: str = "slow"
    cordon: str = AUTO

    def __post_init__(self) -> None:
        between("execution", {"max_moves_per_broker": self.max_moves_per_broker}, 0, 10**5)
        between("execution", {"max_throttle_mb_per_s": self.max_throttle_mb_per_s}, 0, MOST_MB_PER_S)
        if self.on_pressure not in ("slow", "hold", "stop"):
            refuse("[execution] on_pressure", self.on_pressure, "use slow, hold or stop")
        if self.cordon not in (AUTO, "off"):
            refuse("[execution] cordon", self.cordon, "use auto or off")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The whole configuration of a run."""

    clusters: tuple[ClusterInput, ...] = field(default_factory=tuple)
    storage: Storage = field(default_factory=Storage)
    metrics: Metrics = field(default_factory=Metrics)
    quality: Quality = field(default_factory=Quality)
    baseline: Baseline = field(default_factory=Baseline)
    policy: Policy = field(default_factory=Policy)
    solver: Solver = field(default_factory=Solver)
    schedule: Schedule = field(default_factory=Schedule)
    emit: Emit = field(default_factory=Emit)
    execution: Execution = field(default_factory=Execution)
    approval: Approval | None = field(default_factory=lambda: None)  # no value of the class: no stage may read it

    def __post_init__(self) -> None:
        problems = Problems()
        for name in BROKER_LISTS:
            problems.collect(partial(self._check_list, name))
        checks = (
            *(self._check_ids, self._check_only, self._check_policy_pins, self._check_patterns),
            *(self._check_first_night, self._check_start),
        )
        for check in checks:
            problems.collect(check)
        if self.approval:
            problems.collect(self.approval.check)
        problems.raise_any()

    def _check_ids(self) -> None:
        ids = [cluster.id for cluster in self.clusters]
        repeated = sorted({i for i in ids if ids.count(i) > 1})
        if repeated:
            refuse("[[clusters]] id", repeated, "name each cluster once")

    def _check_list(self, name: str) -> None:
        ids = sorted({cluster.id for cluster in self.clusters})
        if getattr(self.policy, name) and len(ids) > 1:
            where = f"give {name} in the [[clusters]] table of its cluster"
            remedy = f"the same id is a different broker in each of {ids}: {where}"
            refuse(f"[policy] {name}", list(getattr(self.policy, name)), remedy)

    def _check_policy_pins(self) -> None:
        ids = sorted({cluster.id for cluster in self.clusters})
        by_broker = [pin.topics for pin in self.policy.pins if pin.brokers]
        if by_broker and len(ids) > 1:
            remedy = f"the same id is a different broker in each of {ids}: pin to racks, or in a [[clusters]] table"
            refuse("[[policy.pins]]", by_broker, remedy)

    def _check_patterns(self) -> None:
        cluster_policies = self.cluster_policies().items()
        for cluster_id, cluster_policy in cluster_policies:
            remedy = "with all of its brokers or racks"
            check_patterns(f"cluster {cluster_id}: pins", [pin.topics for pin in cluster_policy.pins], remedy)
        for cluster_id, cluster_policy in cluster_policies:
            where = f"cluster {cluster_id}: replication_factors"
            patterns = [topic_factor.topics for topic_factor in cluster_policy.replication_factors]
            check_patterns(where, patterns, "with one factor")

    def _check_only(self) -> None:
        """Reject ``only`` if a cluster requests nothing of that kind; each cluster by itself."""
        cluster_policies = self.cluster_policies()
        idle = [
            cluster_id
            for cluster_id, cluster_policy in cluster_policies.items()
            if cluster_policy.only == DEMOTE and not cluster_policy.demote_brokers
        ]
        if idle:
            refuse(
                "only", DEMOTE, f"clusters {idle} have no brokers to demote: name some by --demote or demote_brokers"
            )
        if (
            RACKS in (cluster_policy.only for cluster_policy in cluster_policies.values())
            and self.policy.rack_policy == "none"
        ):
            refuse("only", RACKS, 'rack_policy = "none" has no rules for racks: remove one of the two')

    def _check_first_night(self) -> None:
        """Reject a first night without windows; not in ``Schedule``, whose knobs may be checked one by one."""
        if self.schedule.first_night and not self.schedule.windows:
            remedy = "nights are those of [[schedule.windows]]: give one, or leave first_night out"
            refuse("[schedule] first_night", self.schedule.first_night, remedy)

    def _check_start(self) -> None:
        """Reject a start width that no band reaches; not in ``Policy``, whose knobs may be checked one by one."""
        least = min(getattr(self.policy, name) for name in BANDS)
        if 0 < self.policy.start_at < least:
            remedy = f"every band is wider, so nothing would wait: give more than {least:g}, or 0 to plan every night"
            refuse("[policy] start_at", self.policy.start_at, remedy)

    def kafka_versions(self) -> dict[str, str]:
        """The Kafka version of each cluster; empty if it is not given."""
        return {cluster.id: cluster.kafka_version for cluster in self.clusters}

    def cluster_policies(self) -> dict[str, ClusterPolicy]:
        """The policy of each cluster: its own table over ``[policy]``."""
        return {cluster.id: cluster.over(self.policy) for cluster in self.clusters}

    def planning_json(self) -> str:
        """The settings that decide the plan as canonical JSON: no locations, credentials, approval or execution.

        ``start_at`` is left out if it is 0, so that a run without it has the hash that older releases gave it.
        """
        content = asdict(self)
        del content["storage"], content["execution"], content["approval"]
        if not self.policy.start_at:
            del content["policy"]["start_at"]
        for cluster in content["clusters"]:
            for location in ("input", "bootstrap_servers", "client_config"):
                del cluster[location]
        return json.dumps(content, sort_keys=True)

    def config_hash(self) -> str:
        """sha256 of ``planning_json``."""
        return hashlib.sha256(self.planning_json().encode()).hexdigest()
