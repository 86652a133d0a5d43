"""Everything that the documents need to know about one cluster's plan."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from optimizer.domain import NOT_LIVE, WHOLE_PLAN, FindingCode
from optimizer.emit import rows
from optimizer.emit.consumer_counts import ConsumerCounts, consumer_counts
from optimizer.emit.figure_table import BY_NAME
from optimizer.emit.requested import Requested
from optimizer.settings import Policy, Schedule
from optimizer.units import SECONDS_PER_HOUR

YOUR_CONFIG = " --config YOUR_CONFIG"


def run_command(run_id: str, cluster_id: str, where: str = YOUR_CONFIG) -> str:
    """The command that executes all waves of a plan after its approval; ``where`` says where its cluster is."""
    return f"./ballast run --run-id {run_id} --cluster {cluster_id}{where}"


@dataclass(frozen=True)
class Document:
    """One file: its path relative to the run's output folder, and its text."""

    path: str
    kind: str
    wave: int
    content: str

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the content in UTF-8."""
        return hashlib.sha256(self.content.encode()).hexdigest()


@dataclass(frozen=True)
class ClusterPlan:
    """Rows of one cluster and run, by table; sorted by key.

    Parameters
    ----------
    changed : sequence of PlanRow
        Only partitions that change.
    throttle_style : str
        careful or kafka: the form that the runbook uses.
    plan_log_dirs : bool
        Whether documents name directories.
    copy_bytes_per_s : int
        Highest copy rate of a wave between brokers, per broker and direction. The throttles of these waves are the
        rates of copies plus live replication.
    throttles_found : sequence of EarlierThrottleRow
        Throttles that were set before the plan; the unthrottle scripts restore them.
    input_findings : sequence of InputFindingRow
        Input that was left out, contradicts or is broken, the worst first; then what is only noted.
    sources : sequence of SourceRow
        Files and clusters that were read.
    cross_rack_price_per_gb : float
        Price of a GB between two racks; 0 if it is unknown.
    batch_kb : float
        Size of the producers' batches in kB that the times of the waves assume.
    directories : sequence of DirectoryRow
        Empty if no broker has several.
    dir_moves : sequence of DirMoveRow
        Replicas that move inside their brokers, in waves of their own after all others.
    consumer_groups, consumer_members : sequences of rows
        Empty if no source is about consumers.
    disk_headroom : float
        Share of a disk that stays free.
    window_hours : float
        Length that the waves were packed for.
    valid_hours : float
        Hours from the oldest capture time until the plan expires; 0: never.
    """

    cluster_id: str
    run_id: str
    throttle_style: str
    plan_log_dirs: bool
    copy_bytes_per_s: int
    changed: Sequence[rows.PlanRow]
    moves: Sequence[rows.MoveRow]
    waves: Sequence[rows.WaveRow]
    throttles: Sequence[rows.ThrottleRow]
    balance: Sequence[rows.LoadRow]
    summary: Sequence[rows.FigureRow]
    bounds: Sequence[rows.BoundRow]
    findings: Sequence[rows.FindingRow]
    quality: Sequence[rows.QualityRow]
    brokers: Sequence[rows.BrokerRow]
    input_findings: Sequence[rows.InputFindingRow] = ()
    sources: Sequence[rows.SourceRow] = ()
    code_version: str = ""
    requested: Requested = field(default_factory=Requested)
    throttles_found: Sequence[rows.EarlierThrottleRow] = ()
    cross_rack_price_per_gb: float = 0.0
    batch_kb: float = Schedule.batch_kb
    rack_flow: Sequence[rows.RackFlowRow] = ()
    broker_waves: Sequence[rows.BrokerWaveRow] = ()
    alternatives: Sequence[rows.AlternativeRow] = ()
    curve: Sequence[rows.CurveRow] = ()
    directories: Sequence[rows.DirectoryRow] = ()
    dir_moves: Sequence[rows.DirMoveRow] = ()
    consumer_groups: Sequence[rows.ConsumerImpactRow] = ()
    consumer_members: Sequence[rows.ConsumerLoadRow] = ()
    disk_headroom: float = Policy.disk_headroom
    window_hours: float = Schedule.window_hours
    valid_hours: float = Schedule.valid_hours

    @property
    def capture_times(self) -> list[int]:
        """Capture times of the sources that have the cluster's state and a time, in seconds of Unix time."""
        return [row.captured_at for row in self.sources if row.captured_at is not None and row.has_state]

    @property
    def captured_at(self) -> int | None:
        """Capture time of the oldest of these sources in seconds of Unix time; None if none has one."""
        return min(self.capture_times, default=None)

    @property
    def kafka_cluster_id(self) -> str | None:
        """Kafka's own id of the cluster; None if no source has it. All sources have the same (a rule of validate)."""
        return max((row.kafka_cluster_id for row in self.sources if row.kafka_cluster_id), default=None)

    @property
    def valid_until(self) -> int | None:
        """When the plan expires, in seconds of Unix time; None if it never does, or if no source has a capture time."""
        if self.captured_at is None or not self.valid_hours:
            return None
        return self.captured_at + round(self.valid_hours * SECONDS_PER_HOUR)

    @property
    def approve_command(self) -> str:
        """The command that approves the plan; its manifest's sum may follow."""
        return f"./ballast approve --run-id {self.run_id} --cluster {self.cluster_id}{YOUR_CONFIG} --by YOUR_NAME"

    @property
    def run_command(self) -> str:
        """The command that executes all waves of the plan after its approval."""
        return run_command(self.run_id, self.cluster_id)

    @property
    def copying_seconds(self) -> tuple[int, int]:
        """Ends of the interval of the time of all waves."""
        return sum(row.least_seconds for row in self.waves), sum(row.most_seconds for row in self.waves)

    @cached_property
    def has_racks(self) -> bool:
        """Whether any broker has a known rack; without, figures about the failure of racks mean nothing."""
        return any(row.rack for row in self.brokers)

    def window_seconds(self, wave: rows.WaveRow) -> float:
        """Seconds of a wave's night, or of the length that waves are packed for."""
        if wave.starts_at is not None and wave.night_ends_at is not None:
            return wave.night_ends_at - wave.starts_at
        return self.window_hours * SECONDS_PER_HOUR

    @property
    def folder(self) -> str:
        """The cluster's folder, relative to the run's output folder."""
        return self.cluster_id

    @cached_property
    def figures(self) -> dict[str, rows.FigureRow]:
        """Rows of ``plan_summary`` by figure."""
        return {row.figure: row for row in self.summary}

    def figure(self, name: str, side: str = "after") -> float | None:
        """The value of a figure: before, baseline or after; None if it has no meaning there.

        Raises
        ------
        KeyError
            When no figure has the name.
        """
        if name not in BY_NAME:
            raise KeyError(f"no figure is named {name!r}")
        row = self.figures.get(name)
        value = row.sides[side] if row else None
        return None if value is None else float(value)

    def number(self, name: str, side: str = "after") -> float:
        """The value of a figure; 0 if it has none."""
        return self.figure(name, side) or 0.0

    @cached_property
    def limit_finding(self) -> rows.FindingRow | None:
        """The finding of a plan that a limit reduces; None if no limit does."""
        return next((row for row in self.findings if row.code == FindingCode.LIMITED), None)

    @cached_property
    def down_brokers(self) -> tuple[int, ...]:
        """Brokers that are dead or fenced, ascending. Their configs cannot be set."""
        return tuple(sorted(b.broker_id for b in self.brokers if b.state in NOT_LIVE))

    @cached_property
    def drained(self) -> list[int]:
        """Brokers that it empties because the policy says so, ascending; dead ones too."""
        return sorted(b.broker_id for b in self.brokers if b.must_empty and b.broker_id in self.requested.drain)

    @cached_property
    def replicas_on_leaving(self) -> dict[int, int]:
        """Replicas after the plan by live broker to empty, ascending by id."""
        after = {row.broker_id: row.replicas for row in self.balance if row.placement == "after"}
        leaving = sorted(b.broker_id for b in self.brokers if b.must_empty and b.state not in NOT_LIVE)
        return {broker: after.get(broker, 0) for broker in leaving}

    def changes_of_wave(self, wave: int) -> Sequence[rows.PlanRow]:
        """Changed partitions of one wave; of all waves for ``WHOLE_PLAN``."""
        return self.changed if wave == WHOLE_PLAN else self._by_wave.get(wave, [])

    def moves_inside(self, wave: int) -> Sequence[rows.DirMoveRow]:
        """The replicas that move inside their brokers in one wave."""
        return self._inside_by_wave.get(wave, [])

    def topics_of_wave(self, wave: int) -> set[str]:
        """The topics of the partitions that one wave changes or moves inside brokers."""
        between = {row.topic for row in self.changes_of_wave(wave)}
        return between | {row.topic for row in self.moves_inside(wave)}

    @cached_property
    def _inside_by_wave(self) -> dict[int, list[rows.DirMoveRow]]:
        groups: dict[int, list[rows.DirMoveRow]] = {}
        for row in self.dir_moves:
            groups.setdefault(row.wave, []).append(row)
        return groups

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to execute, between brokers or inside them."""
        return bool(self.changed or self.dir_moves)

    @cached_property
    def waves_between(self) -> Sequence[rows.WaveRow]:
        """The waves that change replica lists."""
        return [row for row in self.waves if not row.inside_brokers]

    @cached_property
    def waves_inside(self) -> Sequence[rows.WaveRow]:
        """The waves that move replicas to other directories of their brokers."""
        return [row for row in self.waves if row.inside_brokers]

    @property
    def topic_ids(self) -> dict[str, str | None]:
        """The ids of all topics that the plan changes."""
        between = {row.topic: row.topic_id for row in self.changed}
        return between | {row.topic: row.topic_id for row in self.dir_moves}

    @cached_property
    def consumer_counts(self) -> ConsumerCounts | None:
        """How many consumer groups notice the plan; None if no source is about consumers."""
        return consumer_counts(self.consumer_groups)

    @property
    def inside_bytes(self) -> int:
        """Bytes that are copied inside brokers."""
        return sum(row.size_bytes for row in self.dir_moves)

    @cached_property
    def _by_wave(self) -> dict[int, list[rows.PlanRow]]:
        groups: dict[int, list[rows.PlanRow]] = {}
        for row in self.changed:
            groups.setdefault(row.wave, []).append(row)
        return groups

    @cached_property
    def _live_brokers(self) -> frozenset[int]:
        return frozenset(b.broker_id for b in self.brokers if b.state not in NOT_LIVE)

    @cached_property
    def open_log_dirs(self) -> dict[int, frozenset[str]]:
        """Directories that may get replicas, of brokers with several directories."""
        several = {b.broker_id: b.log_dirs for b in self.brokers if b.log_dirs and len(b.log_dirs) > 1}
        return {b: frozenset(dir_["path"] for dir_ in dirs if dir_["is_open"]) for b, dirs in several.items()}

    def can_roll_back(self, row: rows.PlanRow) -> bool:
        """Whether Kafka accepts the old list. If it names a broker that is down, Kafka refuses the whole document."""
        return self._live_brokers.issuperset(row.current_replicas)

    @cached_property
    def not_reversible(self) -> Sequence[rows.PlanRow]:
        """Changed partitions whose old list names a broker that is down."""
        return [row for row in self.changed if not self.can_roll_back(row)]

    def names_down_broker(self, wave: int) -> bool:
        """Whether a partition of the wave names a broker that is down. The tool's ``--throttle`` then fails."""
        down = set(self.down_brokers)
        return any(down & set(row.current_replicas) for row in self.changes_of_wave(wave))


def wave_folder(wave: int, n_waves: int) -> str:
    """``wave-01``: as many digits as the last wave has, at least two."""
    return f"wave-{wave:0{max(2, len(str(n_waves)))}d}"
