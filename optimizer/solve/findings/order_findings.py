"""What people are told of partitions that are left because no order of copies has room for them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from optimizer.domain import Cause, FindingCode, Partitions
from optimizer.settings import Settings
from optimizer.solve.findings.finding import Finding, not_resized, of_partition, partition_name

Key = tuple[str, int]
WHY = "no order of the copies leaves room on the disks for its old and new copies at once"
_ABOUT_PARTITIONS = (FindingCode.NOT_EMPTIED, FindingCode.NOT_PINNED, FindingCode.RACK_SPREAD)


@dataclass(frozen=True)
class LeftForDisk:
    """Partitions of one cluster that are left.

    Parameters
    ----------
    keys : set of (topic, partition)
    second : by key
        Broker ids of partitions, of these and of others, that get another list instead of their old one.
    disk_headroom : float
        Of the policy.
    waves : int
        The number that the schedule fixes; 0 where it fixes none.
    """

    keys: frozenset[Key]
    second: Mapping[Key, Sequence[int]]
    disk_headroom: float
    waves: int

    @classmethod
    def of(cls, rows: Iterable[Any], settings: Settings) -> Self:
        """From rows with the fields of ``planning.left_out.left_by_order``, under the settings of a run."""
        found = {(str(row.topic), int(row.partition)): row for row in rows}
        second = {key: tuple(row.second) for key, row in found.items() if isinstance(row.second, Iterable)}
        left = frozenset(key for key, row in found.items() if row.is_left)
        return cls(left, second, settings.policy.disk_headroom, settings.schedule.waves)

    @property
    def remedy(self) -> str:
        """What would do."""
        fixed = " set [schedule] waves = 0," if self.waves else ""
        lower = f"lower [policy] disk_headroom (now {self.disk_headroom:g}),{fixed} or add disk"
        return f"execute this plan and run again; or {lower}"


def with_left(findings: Iterable[Finding], left: LeftForDisk, partitions: Partitions) -> list[Finding]:
    """The findings, those of partitions that are left saying so, and one of each that keeps its replicas."""
    remedy, cause = left.remedy, Cause.NO_ORDER_OF_COPIES
    keys = [*zip(partitions.topic.tolist(), partitions.partition.tolist(), strict=True)]
    is_left = np.array([key in left.keys for key in keys], dtype=bool)
    told = [
        replace(finding, detail=f"{finding.detail}; {WHY}", remedy=remedy, cause=cause)
        if finding.code in _ABOUT_PARTITIONS and (finding.topic, finding.partition) in left.keys
        else finding
        for finding in findings
    ]
    for row in np.flatnonzero(is_left):
        if keys[row] in left.second:
            continue
        name, key = partition_name(partitions, row), of_partition(partitions, row)
        keeps = f"it keeps its replicas: {WHY}"
        told.append(Finding(FindingCode.LEFT_FOR_DISK, name, "after", keeps, remedy, cause=cause, **key))
    return [*told, *not_resized(partitions, is_left, why=WHY, remedy=remedy, cause=cause)]
