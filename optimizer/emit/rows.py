"""The table rows and columns that the documents need; names as in the table contracts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(frozen=True)
class TableRow:
    """One row of a table."""

    @classmethod
    def columns(cls) -> list[str]:
        """The names of the columns."""
        return [field.name for field in fields(cls)]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> list[Self]:
        """Make rows from mappings by column name. A missing column is an error; further columns are ignored."""
        names = cls.columns()
        return [cls(**{name: row[name] for name in names}) for row in rows]


@dataclass(frozen=True)
class PlanRow(TableRow):
    """Of ``plan``: a partition that changes, with columns of ``instance`` and ``topic_id`` of ``topics``."""

    topic: str
    partition: int
    current_replicas: Sequence[int]
    baseline_replicas: Sequence[int]
    proposed_replicas: Sequence[int]
    leader: int | None
    moved_bytes: int
    reason_codes: Sequence[str]
    wave: int
    log_dirs: Sequence[str]
    in_bytes_per_s: int
    topic_id: str | None
    planned_log_dirs: Sequence[str] | None = None
    tiered_copy_bytes: int | None = None


@dataclass(frozen=True)
class MoveRow(TableRow):
    """Of ``moves``: a replica that is copied or removed, with its reason."""

    topic: str
    partition: int
    from_broker: int | None
    to_broker: int | None
    size_bytes: int
    reason: str


@dataclass(frozen=True)
class WaveRow(TableRow):
    """Of ``waves``, with ``starts_at``, ``ends_at`` and ``night_ends_at`` in seconds of Unix time."""

    wave: int
    partitions: int
    replicas_moved: int
    moved_bytes: int
    busiest_broker: int | None
    busiest_bytes: int
    throttle_bytes_per_s: int
    estimated_seconds: int
    below_floor: bool
    peak_disk_bytes: int
    least_seconds: int
    most_seconds: int
    copy_bytes_per_s: int
    requested_bytes_per_s: int
    inside_brokers: bool
    network_broker: int | None = None
    network_left_bytes_per_s: int | None = None
    starts_at: int | None = None
    ends_at: int | None = None
    night_ends_at: int | None = None
    time_zone: str | None = None


@dataclass(frozen=True)
class ConfigRow(TableRow):
    """One config entry of a throttle: its new value and its value before."""

    entity_type: str
    entity_name: str
    config_name: str
    config_value: str
    previous_value: str | None


@dataclass(frozen=True)
class ThrottleRow(ConfigRow):
    """Of ``throttles``: an entry of one wave in one form."""

    wave: int
    style: str


@dataclass(frozen=True)
class EarlierThrottleRow(TableRow):
    """Of ``throttles_found``: an entry that was set before the plan."""

    entity_type: str
    entity_name: str
    config_name: str
    config_value: str
    is_static: bool


@dataclass(frozen=True)
class LoadRow(TableRow):
    """Of ``broker_balance``: one broker's load under one placement."""

    broker_id: int
    placement: str
    rack: str | None
    replicas: int
    leaders: int
    disk_bytes: int
    in_bytes_per_s: int
    out_bytes_per_s: int
    disk_lower_bytes: int
    disk_upper_bytes: int
    in_band: bool


@dataclass(frozen=True)
class FigureRow(TableRow):
    """Of ``plan_summary``."""

    figure: str
    label: str
    before: float | None
    baseline: float | None
    after: float | None
    worst_moment: float | None = None

    @property
    def sides(self) -> dict[str, float | None]:
        """Its values by placement, and its largest value at any moment."""
        return {
            "before": self.before,
            "baseline": self.baseline,
            "after": self.after,
            "worst_moment": self.worst_moment,
        }


@dataclass(frozen=True)
class BoundRow(TableRow):
    """Of ``bounds``."""

    kind: str
    bound_bytes: int
    is_best: bool
    detail: str


@dataclass(frozen=True)
class FindingRow(TableRow):
    """Of ``findings``."""

    rule: str
    subject: str
    when: str
    detail: str
    remedy: str
    code: str
    cause: str | None
    topic: str | None
    broker_id: int | None
    resource: str | None
    amount: float | None
    limit: float | None


@dataclass(frozen=True)
class InputFindingRow(TableRow):
    """Of ``input_findings``."""

    rule: str
    standing: str
    subject: str
    detail: str
    remedy: str
    rows: int


@dataclass(frozen=True)
class QualityRow(TableRow):
    """Of ``quality_results``."""

    table_name: str
    rule: str
    severity: str
    success: bool
    observed: str | None
    threshold: str | None
    unexpected_count: int | None
    judged_rows: int | None
    least: float | None
    remedy: str


@dataclass(frozen=True)
class BrokerRow(TableRow):
    """Of ``instance_brokers``."""

    broker_id: int
    rack: str | None
    state: str
    accepts_replicas: bool
    must_empty: bool
    disk_capacity_bytes: int | None = None
    log_dirs: Sequence[Mapping[str, Any]] | None = None
    skips_tiered: bool | None = None


@dataclass(frozen=True)
class RackFlowRow(TableRow):
    """Of ``rack_flow``: the copies of one wave between two racks."""

    from_rack: str
    to_rack: str
    copied_bytes: int


@dataclass(frozen=True)
class BrokerWaveRow(TableRow):
    """Of ``broker_waves``: what one broker copies in one wave."""

    wave: int
    broker_id: int
    out_bytes: int
    in_bytes: int
    busy_seconds: int
    peak_disk_bytes: int


@dataclass(frozen=True)
class DirectoryRow(TableRow):
    """Of ``dir_balance``: a log directory of a broker that has several."""

    broker_id: int
    log_dir: str
    is_open: bool
    capacity_bytes: int | None
    limit_bytes: int | None
    before_bytes: int
    default_bytes: int
    default_peak_bytes: int
    after_bytes: int
    peak_bytes: int
    peak_wave: int | None
    lower_bytes: int | None = None
    upper_bytes: int | None = None

    def percent(self, size_bytes: int) -> float | None:
        """Bytes in percent of its capacity; None if that is unknown."""
        return 100 * size_bytes / self.capacity_bytes if self.capacity_bytes else None

    @property
    def has_band(self) -> bool:
        """Whether it has a band: directories are balanced, and it may take replicas."""
        return self.lower_bytes is not None and self.upper_bytes is not None

    @property
    def is_outside(self) -> bool:
        """Whether it is outside its band after the plan."""
        if self.lower_bytes is None or self.upper_bytes is None:
            return False
        return not self.lower_bytes <= self.after_bytes <= self.upper_bytes

    @property
    def is_over(self) -> bool:
        """Whether it exceeds its limit at any moment."""
        return self.limit_bytes is not None and self.peak_bytes > self.limit_bytes


@dataclass(frozen=True)
class DirMoveRow(TableRow):
    """Of ``dir_moves``, with ``topic_id`` of ``topics``: a replica that moves to another directory of its broker."""

    topic: str
    partition: int
    broker_id: int
    replicas: Sequence[int]
    from_log_dir: str
    to_log_dir: str
    size_bytes: int
    wave: int
    topic_id: str | None


@dataclass(frozen=True)
class ConsumerLoadRow(TableRow):
    """Of ``consumer_load``: a member of a consumer group."""

    group_id: str
    member_id: str
    client_id: str | None
    host: str | None
    partitions: int
    in_bytes_per_s: int | None
    brokers: Sequence[int]
    brokers_after: Sequence[int]


@dataclass(frozen=True)
class ConsumerImpactRow(TableRow):
    """Of ``consumer_impact``: a consumer group; null figures are unknown."""

    group_id: str
    protocol: str | None
    state: str | None
    assignor: str | None
    lag_messages: int | None
    members: int | None
    is_known: bool
    partitions: int | None
    in_bytes_per_s: int | None
    busiest_over_mean: float | None
    possible_over_mean: float | None
    least_over_mean: float | None
    range_over_mean: float | None
    round_robin_over_mean: float | None
    moved_if_busiest_leaves: int | None
    rack_set_changes: int | None
    rack_list_changes: int | None
    leader_changes: int | None
    copied: int | None
    changed_topics: Sequence[str]
    waves: Sequence[Mapping[str, Any]]

    @property
    def is_read(self) -> bool:
        """Whether it is known to have members that hold partitions, or may hold some."""
        return self.is_known and (self.members is None or self.members > 0)

    @property
    def may_rebalance(self) -> bool:
        """Whether a classic group whose leader has client.rack rebalances."""
        return bool(self.rack_set_changes) and not self.keeps_partitions

    @property
    def keeps_partitions(self) -> bool:
        """Whether it is of the consumer protocol: when racks change, only its epoch rose in tests with Kafka 4.3.1."""
        return self.protocol == "consumer"

    @property
    def notices(self) -> bool:
        """Whether anything changes for what its members hold."""
        return self.may_rebalance or bool(self.leader_changes) or bool(self.copied)


@dataclass(frozen=True)
class AlternativeRow(TableRow):
    """Of ``alternatives``: one figure of another plan."""

    position: int
    alternative: str
    knobs: str
    figure: str
    value: float | None


@dataclass(frozen=True)
class CurveRow(TableRow):
    """Of ``curve``."""

    moves: int
    moved_bytes: int
    violation: float


@dataclass(frozen=True)
class SourceRow(TableRow):
    """Of ``sources``, with ``captured_at`` in seconds of Unix time."""

    source: str
    captured_at: int | None
    records: int
    has_state: bool = True
    kafka_cluster_id: str | None = None
