"""Input and result of the audit: plain data."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizer.errors import AuditFailed
from optimizer.kafka.partition_state import CompletionRule
from optimizer.units import plural

Key = tuple[str, int]
Replica = tuple[str, int, int]  # topic, partition, broker id

FREE, FORCED_ONLY, FIXED = "free", "forced_only", "fixed"
RACKS_ONLY, ORDER_ONLY = "racks_only", "order_only"
ONLY = "only"  # cause of partitions that are fixed because the policy's only leaves them out
NOT_LIVING = ("dead", "fenced")
WHOLE_PLAN = 0  # wave number of documents of the whole plan
REPORT_BUG = "this is a bug in Ballast: keep the tables of the run and report it with them"
LEFT_AGAIN = (
    "see the findings shard_failed and shard_out_of_time, or raise solver.rounds or solver.shard_brokers; if that does "
    f"not help, {REPORT_BUG}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLogDir:
    """One log directory of a broker; fields as in ``instance_brokers.log_dirs``."""

    path: str
    capacity_bytes: int | None
    used_bytes: int
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditBroker:
    """One broker; fields as in the table ``instance_brokers``; no directories if they are unknown.

    ``skips_tiered`` decides which bytes of a partition a copy to it transfers.
    """

    broker_id: int
    rack: str | None
    state: str
    accepts_replicas: bool
    accepts_leadership: bool
    must_empty: bool
    disk_capacity_bytes: int | None
    log_dirs: tuple[AuditLogDir, ...] = ()
    skips_tiered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPartition:
    """One partition before the plan; fields as in the table ``instance``; None means no limit.

    ``fixed_cause`` is None for free partitions. If ``isr`` is None, all replicas count as in sync. Without
    ``copy_bytes`` a copy has ``size_bytes``, and without ``tiered_copy_bytes`` ``copy_bytes``.
    """

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
    log_dirs: tuple[str, ...] = ()
    fixed_cause: str | None = None
    isr: frozenset[int] | None = None
    elr: frozenset[int] = frozenset()
    copy_bytes: int | None = None
    tiered_copy_bytes: int | None = None

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return (self.topic, self.partition)

    @property
    def out_of_sync(self) -> frozenset[int]:
        """Brokers whose replicas are not in sync."""
        return frozenset() if self.isr is None else frozenset(self.replicas) - self.isr


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLimits:
    """The limits of the policy.

    Parameters
    ----------
    disk_headroom : float
        Share of a broker's disk that stays free, also while old and new copies exist.
    rack_spread : bool
        False if the policy ignores racks.
    max_moves_per_wave : int, optional
        Copies that one wave may start; a wave of a single partition may need more.
    max_moved_bytes, max_moves : int, optional
        Bytes and replicas that the whole plan may copy.
    fixed_waves : bool
        The policy sets the number of waves, so none can be added.
    completion : CompletionRule
        When Kafka ends a reassignment.
    max_unexplained : float
        Largest share of unexplained partitions among those that the plan fixes or could fix, 0 to 1.
    """

    disk_headroom: float
    rack_spread: bool = True
    max_moves_per_wave: int | None = None
    max_moved_bytes: int | None = None
    max_moves: int | None = None
    fixed_waves: bool = False
    completion: CompletionRule = CompletionRule.TARGET
    max_unexplained: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditClaims:
    """Figures that the plan states; None is not checked.

    Parameters
    ----------
    moved_bytes, replicas_moved, leader_changes, partitions_changed, unexplained : int, optional
        ``leader_changes`` counts preferred leaders.
    bound_bytes : int, optional
        The proven lower bound for plans with the same balance. It is never more than the bytes that this plan copies.
    dir_moves, dir_moved_bytes : int, optional
        Replicas that move to another directory of their broker, and their bytes. The other figures do not count them.
    """

    moved_bytes: int | None = None
    replicas_moved: int | None = None
    leader_changes: int | None = None
    partitions_changed: int | None = None
    unexplained: int | None = None
    bound_bytes: int | None = None
    dir_moves: int | None = None
    dir_moved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class AuditFile:
    """A row of the table ``documents``."""

    path: str
    kind: str
    wave: int
    content: str

    @property
    def folder(self) -> str:
        """The folder of the path, without a slash at the end."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Excess:
    """What a plan has of something and what is allowed: bytes or replicas; in a wave, from 1, or in the whole plan."""

    planned: int
    allowed: int
    wave: int = WHOLE_PLAN


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule with its subject and detail; with ``is_left`` an unexplained partition, which breaks no rule.

    ``excess`` has the numbers of a disk or a limit, for other words than those of ``detail``.
    """

    rule: str
    subject: str
    detail: str
    is_left: bool = False
    excess: Excess | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The verdict.

    Parameters
    ----------
    violations : tuple of Violation
        Empty if the plan is valid.
    figures : mapping of str to int
        Recomputed figures: bytes, copies, leader changes, and rules that are broken before and after.
    remark : str
        About unexplained partitions: the last line of a refusal.
    """

    violations: tuple[Violation, ...]
    figures: Mapping[str, int] = field(default_factory=dict)
    remark: str = ""

    def raise_if_failed(self) -> None:
        """Refuse the plan.

        Raises
        ------
        AuditFailed
            If there are violations: counts by rule, the first ten violations, and what to do.
        """
        if not self.violations:
            return
        counts = Counter(v.rule for v in self.violations)
        by_rule = ", ".join(f"{rule} {n}" for rule, n in sorted(counts.items()))
        unexplained = "unexplained: "
        lines = [f"  {unexplained if v.is_left else ''}{v.rule}: {v.subject}: {v.detail}" for v in self.violations[:10]]
        hidden = len(self.violations) - len(lines)
        last = [f"  and {hidden} more"] if hidden else []
        head = (
            f"the audit refuses the plan: {plural(len(self.violations), 'violation')} ({by_rule}); nothing was written"
        )
        bug = "" if all(v.is_left for v in self.violations) else f"  a broken rule: {REPORT_BUG}"
        raise AuditFailed("\n".join([head, *lines, *last, *filter(None, [bug, self.remark])]))


def _optional_int(value: Any) -> int | None:
    """An integer cell of a row; None for SQL's null, which may be None or NaN."""
    return None if value is None or value != value else int(value)


def _optional_text(value: Any) -> str | None:
    return None if value is None or value != value else str(value)


def _optional_ids(value: Any) -> frozenset[int] | None:
    return None if value is None or isinstance(value, float) else frozenset(int(b) for b in value)


def _items(value: Any) -> Iterable[Any]:
    """The items of a list cell; none for SQL's null, which may be None or NaN."""
    return () if value is None or isinstance(value, float) else value


def _log_dir(struct: Any) -> AuditLogDir:
    """A directory from a struct, as Spark or JSON passes it."""
    return AuditLogDir(
        path=str(struct["path"]),
        capacity_bytes=_optional_int(struct["capacity_bytes"]),
        used_bytes=_optional_int(struct["used_bytes"]) or 0,
        is_open=bool(struct["is_open"]),
    )


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
            log_dirs=tuple(_log_dir(struct) for struct in _items(row["log_dirs"])),
            skips_tiered=_optional_int(row["skips_tiered"]) == 1,
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
            leader=_optional_int(row["leader"]),
            log_dirs=tuple(str(path) for path in _items(row["log_dirs"])),
            fixed_cause=_optional_text(row["fixed_cause"]),
            isr=_optional_ids(row["isr"]),
            elr=_optional_ids(row["elr"]) or frozenset(),
            copy_bytes=_optional_int(row["copy_bytes"]),
            tiered_copy_bytes=_optional_int(row["tiered_copy_bytes"]),
        )
        for row in rows
    )
