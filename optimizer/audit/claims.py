"""What the checker is given and what it answers: plain data."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.errors import AuditFailed
from optimizer.units import plural

Key = tuple[str, int]

FREE, FORCED_ONLY, FIXED = "free", "forced_only", "fixed"
RACKS_ONLY, ORDER_ONLY = "racks_only", "order_only"
NOT_LIVING = ("dead", "fenced")
REPORT_BUG = "it is a bug in Ballast: keep the run's tables, and report it with them"
LEFT_AGAIN = (
    "see findings shard_failed and shard_out_of_time, or raise solver.rounds or solver.shard_brokers; where that does "
    f"not help, {REPORT_BUG}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditBroker:
    """One broker; fields as in the table ``instance_brokers``."""

    broker_id: int
    rack: str | None
    state: str
    accepts_replicas: bool
    accepts_leadership: bool
    must_empty: bool
    disk_capacity_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPartition:
    """One partition before the plan; fields as in the table ``instance``; None where nothing is asked."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    size_bytes: int
    replication_factor: int
    mobility: str
    pinned_brokers: frozenset[int] | None = None
    topic_most_replicas: int | None = None
    topic_most_leaders: int | None = None
    leader: int | None = None

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return (self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLimits:
    """What the policy asks for.

    Parameters
    ----------
    disk_headroom : float
        Share of a broker's disk that stays free, also while both copies exist.
    rack_spread : bool
        False where the policy ignores racks.
    max_moves_per_wave : int, optional
        Copies that one wave may start; a wave of a single partition may need more.
    max_moved_bytes, max_moves : int, optional
        Bytes and replicas that the whole plan may copy.
    fixed_waves : bool
        The number of waves is given, so that none can be added.
    max_unexplained : float
        Share of the partitions that could be mended which may be left without an excuse that the audit finds, 0 to 1;
        none where the policy does not speak.
    """

    disk_headroom: float
    rack_spread: bool = True
    max_moves_per_wave: int | None = None
    max_moved_bytes: int | None = None
    max_moves: int | None = None
    fixed_waves: bool = False
    max_unexplained: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditClaims:
    """Figures that the plan states about itself; None is not checked.

    Parameters
    ----------
    moved_bytes, replicas_moved, leader_changes, partitions_changed, unexplained : int, optional
        ``leader_changes`` counts preferred leaders.
    bound_bytes : int, optional
        The proven lower bound. It speaks of plans that are as balanced as this one, so it is never over the bytes that
        this one copies.
    """

    moved_bytes: int | None = None
    replicas_moved: int | None = None
    leader_changes: int | None = None
    partitions_changed: int | None = None
    unexplained: int | None = None
    bound_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that does not hold, for whom, and by how much; or what is left without an excuse, which breaks none."""

    rule: str
    subject: str
    detail: str
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The verdict.

    Parameters
    ----------
    violations : tuple of Violation
        Empty when the plan holds.
    figures : mapping of str to int
        What was recomputed: bytes, copies, leader changes, and what was broken before and still is.
    remark : str
        On what is left: last line of a refusal.
    """

    violations: tuple[Violation, ...]
    figures: Mapping[str, int] = field(default_factory=dict)
    remark: str = ""

    def raise_if_failed(self) -> None:
        """Refuse the plan.

        Raises
        ------
        AuditFailed
            When a rule does not hold: counts by rule, the first ten violations, and what to do.
        """
        if not self.violations:
            return
        counts = Counter(v.rule for v in self.violations)
        by_rule = ", ".join(f"{rule} {n}" for rule, n in sorted(counts.items()))
        left = "left without a reason: "
        lines = [f"  {left if v.is_left else ''}{v.rule}: {v.subject}: {v.detail}" for v in self.violations[:10]]
        rest = len(self.violations) - len(lines)
        more = [f"  and {rest} more"] if rest else []
        head = (
            f"the audit refuses the plan: {plural(len(self.violations), 'violation')} ({by_rule}); nothing was written"
        )
        bug = "" if all(v.is_left for v in self.violations) else f"  a broken rule: {REPORT_BUG}"
        raise AuditFailed("\n".join([head, *lines, *more, *filter(None, [bug, self.remark])]))


def _optional_int(value: Any) -> int | None:
    """An integer cell of a row; None for SQL's null in each of its Python forms."""
    return None if value is None or value != value else int(value)


def _optional_text(value: Any) -> str | None:
    return None if value is None or value != value else str(value)


def _optional_ids(value: Any) -> frozenset[int] | None:
    return None if value is None or isinstance(value, float) else frozenset(int(b) for b in value)


def brokers_from_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[AuditBroker, ...]:
    """Brokers from rows of ``instance_brokers``."""
    return tuple(
        AuditBroker(
            broker_id=int(row["broker_id"]),
            rack=_optional_text(row["rack"]),
            state=str(row["state"]),
            accepts_replicas=bool(row["accepts_replicas"]),
            accepts_leadership=bool(row["accepts_leadership"]),
            must_empty=bool(row["must_empty"]),
            disk_capacity_bytes=_optional_int(row["disk_capacity_bytes"]),
        )
        for row in rows
    )


def partitions_from_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[AuditPartition, ...]:
    """Partitions from rows of ``instance``."""
    return tuple(
        AuditPartition(
            topic=str(row["topic"]),
            partition=int(row["partition"]),
            replicas=tuple(int(b) for b in row["replicas"]),
            size_bytes=int(row["size_bytes"]),
            replication_factor=int(row["replication_factor"]),
            mobility=str(row["mobility"]),
            pinned_brokers=_optional_ids(row["pinned_brokers"]),
            topic_most_replicas=_optional_int(row["topic_most_replicas"]),
            topic_most_leaders=_optional_int(row["topic_most_leaders"]),
            leader=_optional_int(row.get("leader")),
        )
        for row in rows
    )
