"""Typed settings of a run, by section; nonsense is refused at once."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from optimizer.errors import ConfigError


def _refuse(name: str, value: object, remedy: str) -> None:
    raise ConfigError(f"{name} = {value!r} is not usable: {remedy}")


NAME_RULE = "use letters, digits, dot, dash and underscore, at most 100, not dots alone"


def is_folder_name(name: str) -> bool:
    """Whether a cluster or a run may be called so: its name is also a folder's."""
    return bool(re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name)) and bool(name.strip("."))


def _between(section: str, values: Mapping[str, float], low: float, high: float) -> None:
    for name, value in values.items():
        if not low <= value <= high:
            _refuse(f"[{section}] {name}", value, f"give a number from {low:g} to {high:g}")


def _check_pattern(name: str, pattern: object) -> None:
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise ConfigError(f"{name}: {pattern!r} is no regular expression: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Pin:
    """Topics whose replicas may sit on some brokers only, or in some racks only.

    Parameters
    ----------
    topics : str
        Regular expression, whole name.
    brokers : tuple of int
    racks : tuple of str
        One of the two.
    """

    topics: str = ""
    brokers: tuple[int, ...] = ()
    racks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.topics:
            _refuse("pins topics", self.topics, "give a regular expression for the topics' whole names")
        _check_pattern("pins topics", self.topics)
        if bool(self.brokers) == bool(self.racks):
            remedy = "give brokers = [..] or racks = [..], one of them and not empty"
            _refuse(f"the pin of {self.topics!r}", {"brokers": self.brokers, "racks": self.racks}, remedy)
        for name, values, kind in (("brokers", self.brokers, int), ("racks", self.racks, str)):
            wrong = [value for value in values if type(value) is not kind]
            if wrong:
                _refuse(f"the pin of {self.topics!r}: {name}", wrong, f"each is a {kind.__name__}")


MOST_REPLICAS = 32767  # of a partition: Kafka's number is a short


@dataclass(frozen=True, kw_only=True)
class TopicFactor:
    """The replication factor that is asked for some topics.

    Parameters
    ----------
    topics : str
        Regular expression, whole name.
    factor : int
    """

    topics: str = ""
    factor: int = 0

    def __post_init__(self) -> None:
        if not self.topics:
            _refuse("replication_factors topics", self.topics, "give a regular expression for the topics' whole names")
        _check_pattern("replication_factors topics", self.topics)
        if not 1 <= self.factor <= MOST_REPLICAS:
            remedy = f"give a number of replicas from 1 to {MOST_REPLICAS}"
            _refuse(f"the replication factor of {self.topics!r}: factor", self.factor, remedy)


NO_LIMIT = 2**62
BYTES_PER_GB = 10**9


@dataclass(frozen=True, kw_only=True)
class MoveLimit:
    """What the plan of one cluster may copy at most: bytes, and replicas; ``NO_LIMIT`` where nothing is asked."""

    moved_bytes: int = NO_LIMIT
    moves: int = NO_LIMIT


def _check_limits(section: str, max_moved_gb: float, max_moves: int) -> None:
    _between(section, {"max_moved_gb": max_moved_gb, "max_moves": max_moves}, 0, 10**9)


def _check_patterns(where: str, patterns: list[str], remedy: str) -> None:
    twice = sorted({pattern for pattern in patterns if patterns.count(pattern) > 1})
    if twice:
        _refuse(where, twice, f"name each pattern once, {remedy}")


@dataclass(frozen=True, kw_only=True)
class ClusterInput:
    """Where one cluster is read from; paths are absolute."""

    id: str
    input: str = ""
    bootstrap_servers: str = ""
    client_config: str = ""
    captured_at: str = ""
    kafka_version: str = ""
    drain_brokers: tuple[int, ...] = ()
    exclude_brokers: tuple[int, ...] = ()
    demote_brokers: tuple[int, ...] = ()
    pins: tuple[Pin, ...] = ()
    replication_factors: tuple[TopicFactor, ...] = ()
    max_moved_gb: float = 0.0
    max_moves: int = 0

    def __post_init__(self) -> None:
        _check_limits("clusters", self.max_moved_gb, self.max_moves)
        if not is_folder_name(self.id):
            _refuse("[[clusters]] id", self.id, NAME_RULE)
        if not (self.input or self.bootstrap_servers):
            _refuse("[[clusters]]", self.id, "give input (a folder) or bootstrap_servers (a live cluster)")


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where tables and files go."""

    warehouse: str = "warehouse"
    output: str = "out"


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """How samples become loads."""

    window_hours: int = 168
    rate_percentile: float = 95
    min_coverage: float = 0.95
    rates_required: bool = False

    def __post_init__(self) -> None:
        _between("metrics", {"window_hours": self.window_hours}, 1, 24 * 366)
        _between("metrics", {"rate_percentile": self.rate_percentile}, 1, 100)
        _between("metrics", {"min_coverage": self.min_coverage}, 0, 1)


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Thresholds of the data-quality gate."""

    max_quarantined_share: float = 0.01

    def __post_init__(self) -> None:
        _between("quality", {"max_quarantined_share": self.max_quarantined_share}, 0, 1)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Which of Kafka's algorithms is the baseline."""

    algorithm: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.algorithm not in ("auto", "striped", "admin_utils"):
            _refuse("[baseline] algorithm", self.algorithm, "use auto, striped or admin_utils")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What the operator asks for."""

    drain_brokers: tuple[int, ...] = ()
    exclude_brokers: tuple[int, ...] = ()
    demote_brokers: tuple[int, ...] = ()
    exclude_topics: tuple[str, ...] = ()
    pins: tuple[Pin, ...] = ()
    replication_factors: tuple[TopicFactor, ...] = ()
    rack_policy: str = "spread"
    disk_band: float = 0.05
    replicas_band: float = 0.10
    leaders_band: float = 0.10
    in_band: float = 0.10
    out_band: float = 0.10
    disk_headroom: float = 0.10
    bytes_tolerance: float = 0.001
    move_price: float = 0.0
    max_moved_gb: float = 0.0
    max_moves: int = 0

    def __post_init__(self) -> None:
        _check_limits("policy", self.max_moved_gb, self.max_moves)
        bands = {name: getattr(self, name) for name in _BANDS}
        _between("policy", bands, 0, 100)
        _between("policy", {"disk_headroom": self.disk_headroom}, 0, 0.95)
        _between("policy", {"bytes_tolerance": self.bytes_tolerance}, 0, 1)
        _between("policy", {"move_price": self.move_price}, 0, 1000)
        if self.rack_policy not in ("spread", "none"):
            _refuse("[policy] rack_policy", self.rack_policy, "use spread or none")
        for pattern in self.exclude_topics:
            _check_pattern("[policy] exclude_topics", pattern)


BROKER_LISTS = ("drain_brokers", "exclude_brokers", "demote_brokers")
_BANDS = ("disk_band", "replicas_band", "leaders_band", "in_band", "out_band")


@dataclass(frozen=True, kw_only=True)
class Solver:
    """How hard the solver tries."""

    shard_brokers: int = 50
    rack_shard_brokers: int = 25
    rounds: int = 4
    seed: int = 20
    curve_brokers: int = 60

    def __post_init__(self) -> None:
        _between("solver", {"shard_brokers": self.shard_brokers, "rack_shard_brokers": self.rack_shard_brokers}, 2, 200)
        _between("solver", {"rounds": self.rounds}, 1, 20)
        _between("solver", {"curve_brokers": self.curve_brokers}, 0, 100_000)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the plan is cut into waves."""

    waves: int = 0
    window_hours: float = 8
    throttle_mb_per_s: float = 50
    max_moves_per_wave: int = 1000

    def __post_init__(self) -> None:
        _between("schedule", {"waves": self.waves}, 0, 10_000)
        _between("schedule", {"window_hours": self.window_hours}, 0.01, 24 * 365)
        _between("schedule", {"throttle_mb_per_s": self.throttle_mb_per_s}, 0.001, 10**6)
        _between("schedule", {"max_moves_per_wave": self.max_moves_per_wave}, 1, 10**7)


@dataclass(frozen=True, kw_only=True)
class Emit:
    """What the files look like."""

    throttle_style: str = "careful"
    plan_log_dirs: bool = False

    def __post_init__(self) -> None:
        if self.throttle_style not in ("careful", "kafka"):
            _refuse("[emit] throttle_style", self.throttle_style, "use careful or kafka")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The whole configuration of a run."""

    clusters: tuple[ClusterInput, ...] = ()
    storage: Storage = field(default_factory=Storage)
    metrics: Metrics = field(default_factory=Metrics)
    quality: Quality = field(default_factory=Quality)
    baseline: Baseline = field(default_factory=Baseline)
    policy: Policy = field(default_factory=Policy)
    solver: Solver = field(default_factory=Solver)
    schedule: Schedule = field(default_factory=Schedule)
    emit: Emit = field(default_factory=Emit)

    def __post_init__(self) -> None:
        ids = [c.id for c in self.clusters]
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice:
            _refuse("[[clusters]] id", twice, "name each cluster once")
        for name in BROKER_LISTS:
            if getattr(self.policy, name) and len(ids) > 1:
                where = f"give {name} in the [[clusters]] table that it is meant for"
                remedy = f"an id is another broker in each of {ids}: {where}"
                _refuse(f"[policy] {name}", list(getattr(self.policy, name)), remedy)
        by_broker = [pin.topics for pin in self.policy.pins if pin.brokers]
        if by_broker and len(ids) > 1:
            remedy = f"an id is another broker in each of {ids}: pin to racks, or in a [[clusters]] table"
            _refuse("[[policy.pins]]", by_broker, remedy)
        for cluster_id, pins in self.pins().items():
            remedy = "with all of its brokers or racks"
            _check_patterns(f"cluster {cluster_id}: pins", [pin.topics for pin in pins], remedy)
        for cluster_id, factors in self.replication_factors().items():
            where = f"cluster {cluster_id}: replication_factors"
            _check_patterns(where, [asked.topics for asked in factors], "with one factor")

    def pins(self) -> dict[str, tuple[Pin, ...]]:
        """Pins of each cluster: the policy's and its own."""
        return {c.id: (*self.policy.pins, *c.pins) for c in self.clusters}

    def replication_factors(self) -> dict[str, tuple[TopicFactor, ...]]:
        """Replication factors that are asked for in each cluster: by the policy and by its own table."""
        return {c.id: (*self.policy.replication_factors, *c.replication_factors) for c in self.clusters}

    def move_limits(self) -> dict[str, MoveLimit]:
        """Limit of each cluster, knob by knob: its own, or the policy's, which holds for each cluster by itself."""
        limits = {}
        for cluster in self.clusters:
            moved_gb = cluster.max_moved_gb or self.policy.max_moved_gb
            moved_bytes = round(moved_gb * BYTES_PER_GB) if moved_gb else NO_LIMIT
            moves = cluster.max_moves or self.policy.max_moves or NO_LIMIT
            limits[cluster.id] = MoveLimit(moved_bytes=moved_bytes, moves=moves)
        return limits

    def brokers_listed(self, name: str) -> dict[str, tuple[int, ...]]:
        """Broker ids of one of ``BROKER_LISTS`` by cluster: its own, and the policy's where there is one cluster."""
        return {c.id: tuple(sorted({*getattr(c, name), *getattr(self.policy, name)})) for c in self.clusters}

    def planning_json(self) -> str:
        """What decides the plan, as canonical JSON: everything but places and secrets."""
        content = asdict(self)
        del content["storage"]
        for cluster in content["clusters"]:
            for place in ("input", "bootstrap_servers", "client_config"):
                del cluster[place]
        return json.dumps(content, sort_keys=True)

    def config_hash(self) -> str:
        """sha256 of ``planning_json``."""
        return hashlib.sha256(self.planning_json().encode()).hexdigest()
