"""Log directories for the pages: the fullest ones, and what it costs that Kafka's tool copies twice."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.log_dir_files import arriving
from optimizer.emit.rows import DirectoryRow

MOST_DIRECTORIES = 60  # rows of a table: more are not read


@dataclass(frozen=True)
class SecondCopies:
    """Copies inside brokers, if Kafka's tool executes a plan that names directories.

    Parameters
    ----------
    replicas, size_bytes : int
        That get a second copy, at most.
    seconds : float
        Of the broker with most bytes, in all waves together, at the rate of the plan's copies.
    """

    replicas: int
    size_bytes: int
    seconds: float


def fullest_directories(plan: ClusterPlan) -> Sequence[DirectoryRow]:
    """The directories in the order of their fullest moment; those without a known capacity last, by bytes."""

    def key(row: DirectoryRow) -> tuple[float, int, int, str]:
        percent = row.percent(row.peak_bytes)
        return 1.0 if percent is None else -percent, -row.peak_bytes, row.broker_id, row.log_dir

    return sorted(plan.directories, key=key)[:MOST_DIRECTORIES]


def second_copies(plan: ClusterPlan) -> SecondCopies | None:
    """What the names of directories cost; None if the documents name none."""
    by_broker, replicas = Counter[int](), 0
    for row in plan.changed if plan.plan_log_dirs else ():
        named = arriving(row)
        replicas += len(named)
        copies = len(set(row.proposed_replicas) - set(row.current_replicas))
        by_broker.update({broker: row.moved_bytes // copies for broker in named})
    if not replicas:
        return None
    return SecondCopies(replicas, by_broker.total(), max(by_broker.values()) / plan.copy_bytes_per_s)


def overfilled_by_kafka(plan: ClusterPlan) -> DirectoryRow | None:
    """The fullest directory that Kafka alone would fill over its limit (an estimate); None if there is none."""
    over = [row for row in plan.directories if row.limit_bytes is not None and row.default_peak_bytes > row.limit_bytes]
    grown = [row for row in over if row.default_peak_bytes > row.before_bytes]
    return max(grown, key=lambda row: row.percent(row.default_peak_bytes) or 0.0, default=None)
