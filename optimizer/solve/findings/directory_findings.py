"""Log directories: those that are over their limit, and those that Kafka alone would fill.

A broker puts a new replica in the directory with the fewest logs.

References
----------
``kafka.log.LogManager.nextLogDirs`` of Kafka 4.3.1. Among directories with equally many logs, Kafka follows the order
of a hash map; here the order is by path. So this is an estimate.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from optimizer.domain import Bools, Brokers, FindingCode, Ints, LogDir, Partitions, only_in
from optimizer.solve.findings.finding import Finding


def directory_findings(
    brokers: Brokers, partitions: Partitions, final: Ints, log_dirs: Sequence[Sequence[str]], *, headroom: float
) -> Iterator[Finding]:
    """Directories that get more bytes than they have space for, on brokers with several directories.

    Parameters
    ----------
    final : (P, W) int64
        Lists after the plan.
    log_dirs : of each partition
        The directory of each replica before the plan.
    headroom : float
        Share of a directory that must stay free.
    """
    several = {
        b: [log_dir for log_dir in dirs if log_dir.is_open] for b, dirs in enumerate(brokers.log_dirs) if len(dirs) > 1
    }
    if not several:
        return
    gained, lost = only_in(final, partitions.replicas), only_in(partitions.replicas, final)
    for b, open_ in several.items():
        arriving = np.nonzero(gained & (final == b))[0]
        if open_ and len(arriving):
            chosen = _by_fewest_logs(open_, len(arriving))
            freed = _freed(partitions, log_dirs, lost & (partitions.replicas == b))
            sizes = partitions.size_bytes[arriving]
            for d, log_dir in enumerate(open_):
                freed_bytes = freed.get(log_dir.path, 0)
                yield from _finding(int(brokers.ids[b]), log_dir, sizes[chosen == d], freed_bytes, headroom)


def _by_fewest_logs(dirs: Sequence[LogDir], arriving: int) -> Ints:
    """The directory of each arriving replica, in the order of arrival, (N,)."""
    logs = np.array([log_dir.logs for log_dir in dirs])[:, None] + np.arange(arriving)
    return np.argsort(logs.T.ravel(), kind="stable")[:arriving] % len(dirs)


def _freed(partitions: Partitions, log_dirs: Sequence[Sequence[str]], leaving: Bools) -> dict[str, int]:
    """Bytes that leave each directory of one broker."""
    freed: dict[str, int] = {}
    for row, slot in zip(*np.nonzero(leaving), strict=True):
        path = log_dirs[row][slot]
        freed[path] = freed.get(path, 0) + int(partitions.size_bytes[row])
    return freed


def _finding(broker_id: int, log_dir: LogDir, sizes: Ints, freed: int, headroom: float) -> Iterator[Finding]:
    """A finding if the arriving replicas need more space than there is, even after others have left."""
    limit = log_dir.limit_bytes(headroom)
    if limit is None:
        return
    room = max(0, limit - log_dir.used_bytes + freed)
    arriving = int(sizes.sum())
    if arriving > room:
        facts = {"log_dir": log_dir.path, "replicas": len(sizes)}
        yield Finding(FindingCode.LOG_DIR_FILLS, "after", broker_id=broker_id, amount=arriving, limit=room, facts=facts)


def full_directory_findings(brokers: Brokers, *, headroom: float) -> Iterator[Finding]:
    """Directories over their limit before the plan, on brokers with several; and one finding if capacities are unknown.

    Parameters
    ----------
    headroom : float
        Share of a directory that must stay free.
    """
    several = [(int(brokers.ids[b]), dirs) for b, dirs in enumerate(brokers.log_dirs) if len(dirs) > 1]
    known = sum(all(log_dir.capacity_bytes for log_dir in dirs) for _, dirs in several)
    if known < len(several):
        yield Finding(FindingCode.NO_LOG_DIR_CAPACITY, "both", amount=known, limit=len(several))
    for broker_id, dirs in several:
        for log_dir in dirs:
            limit = log_dir.limit_bytes(headroom)
            if limit is not None and log_dir.used_bytes > limit:
                facts = {"log_dir": log_dir.path}
                amount = log_dir.used_bytes
                yield Finding(
                    FindingCode.LOG_DIR_OVER, "before", broker_id=broker_id, amount=amount, limit=limit, facts=facts
                )
