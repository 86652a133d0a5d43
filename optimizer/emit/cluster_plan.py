"""Everything that is known about one cluster's plan, for the documents."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from optimizer.domain import NOT_LIVE, WHOLE_PLAN, FindingCode
from optimizer.emit import rows
from optimizer.emit.figure_table import BY_NAME
from optimizer.emit.requested import Requested


@dataclass(frozen=True)
class Document:
    """One file: path relative to the run's output folder, and its text."""

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
        What copies may take, per broker and direction; the throttles of ``waves`` add live replication to it.
    throttles_found : sequence of FoundRow
        What was set before the plan, and is put back.
    input_findings : sequence of InputFindingRow
        What was left out of the input, contradicts or is broken there; the worst first, and last what is noted.
    sources : sequence of SourceRow
        What was read.
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
    asked: Requested = field(default_factory=Requested)
    throttles_found: Sequence[rows.FoundRow] = ()

    @property
    def capture_times(self) -> list[int]:
        """When its sources were captured, those that tell: seconds of Unix time."""
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
        """One figure: before, baseline or after; None where it has no meaning, or another release did not count it.

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
        """One figure that always has a value, 0 where nothing was counted."""
        return self.figure(name, side) or 0.0

    @cached_property
    def cut(self) -> rows.FindingRow | None:
        """The finding of a plan that a limit has cut; None where none has."""
        return next((row for row in self.findings if row.code == FindingCode.LIMITED), None)

    @cached_property
    def down_brokers(self) -> tuple[int, ...]:
        """Brokers that are dead or fenced, ascending: no config of theirs can be set."""
        return tuple(sorted(b.broker_id for b in self.brokers if b.state in NOT_LIVE))

    @cached_property
    def held_by_leaving(self) -> dict[int, int]:
        """Replicas after the plan on brokers that live and are to be emptied, by id, ascending."""
        after = {row.broker_id: row.replicas for row in self.balance if row.placement == "after"}
        leaving = sorted(b.broker_id for b in self.brokers if b.must_empty and b.state not in NOT_LIVE)
        return {broker: after.get(broker, 0) for broker in leaving}

    def of_wave(self, wave: int) -> Sequence[rows.PlanRow]:
        """Changed partitions of one wave; of all waves for ``WHOLE_PLAN``."""
        return self.changed if wave == WHOLE_PLAN else self._by_wave.get(wave, [])

    @cached_property
    def _by_wave(self) -> dict[int, list[rows.PlanRow]]:
        groups: dict[int, list[rows.PlanRow]] = {}
        for row in self.changed:
            groups.setdefault(row.wave, []).append(row)
        return groups

    @cached_property
    def _living(self) -> frozenset[int]:
        return frozenset(b.broker_id for b in self.brokers if b.state not in NOT_LIVE)

    def can_go_back(self, row: rows.PlanRow) -> bool:
        """Whether Kafka accepts the old list: one broker that does not live, and it refuses the whole document."""
        return self._living.issuperset(row.current_replicas)

    @cached_property
    def no_way_back(self) -> Sequence[rows.PlanRow]:
        """Changed partitions whose old list names a broker that does not live."""
        return [row for row in self.changed if not self.can_go_back(row)]

    def touches_down(self, wave: int) -> bool:
        """Whether a partition of the wave still names a broker that is down: Kafka's own throttle option then fails."""
        down = set(self.down_brokers)
        return any(down & set(row.current_replicas) for row in self.of_wave(wave))


def wave_folder(wave: int, n_waves: int) -> str:
    """``wave-01``: as many digits as the last wave has, at least two."""
    return f"wave-{wave:0{max(2, len(str(n_waves)))}d}"
