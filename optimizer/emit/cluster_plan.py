"""Everything that the documents need to know about one cluster's plan."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from optimizer.domain import NOT_LIVE, WHOLE_PLAN, FindingCode
from optimizer.emit import rows
from optimizer.emit.figure_table import BY_NAME
from optimizer.emit.requested import Requested
from optimizer.settings import Schedule


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
        Highest copy rate of a wave, per broker and direction. The throttles of ``waves`` are the rates of copies plus
        live replication.
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

    @property
    def capture_times(self) -> list[int]:
        """Capture times of the sources that have one, in seconds of Unix time."""
        return [row.captured_at for row in self.sources if row.captured_at is not None]

    @property
    def folder(self) -> str:
        """The cluster's folder, relative to the run's output folder."""
        return self.cluster_id

    @cached_property
    def figures(self) -> dict[str, rows.FigureRow]:
        """Rows of ``plan_summary`` by figure."""
        return {row.figure: row for row in self.summary}

    def figure(self, name: str, side: str = "after") -> float | None:
        """The value of a figure: before, baseline or after; None if it has no meaning there or an old release lacks it.

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
    def replicas_on_leaving(self) -> dict[int, int]:
        """Replicas after the plan by live broker to empty, ascending by id."""
        after = {row.broker_id: row.replicas for row in self.balance if row.placement == "after"}
        leaving = sorted(b.broker_id for b in self.brokers if b.must_empty and b.state not in NOT_LIVE)
        return {broker: after.get(broker, 0) for broker in leaving}

    def changes_of_wave(self, wave: int) -> Sequence[rows.PlanRow]:
        """Changed partitions of one wave; of all waves for ``WHOLE_PLAN``."""
        return self.changed if wave == WHOLE_PLAN else self._by_wave.get(wave, [])

    @cached_property
    def _by_wave(self) -> dict[int, list[rows.PlanRow]]:
        groups: dict[int, list[rows.PlanRow]] = {}
        for row in self.changed:
            groups.setdefault(row.wave, []).append(row)
        return groups

    @cached_property
    def _live_brokers(self) -> frozenset[int]:
        return frozenset(b.broker_id for b in self.brokers if b.state not in NOT_LIVE)

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
