"""What people are told of partitions that are left because no order of copies has room for them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from optimizer.domain import Cause, FindingCode, Partitions
from optimizer.settings import Settings
from optimizer.solve.findings.finding import Finding, not_resized, of_partition, partition_name

WHY = "no order of the copies leaves room on the disks for its old and new copies at once"
_ABOUT_PARTITIONS = (FindingCode.NOT_EMPTIED, FindingCode.NOT_PINNED, FindingCode.RACK_SPREAD)


@dataclass(frozen=True)
class LeftForDisk:
    """Partitions of one cluster that are left.

    Parameters
    ----------
    keys : set of (topic, partition)
    disk_headroom : float
        Of the policy.
    waves : int
        The number that the schedule fixes; 0 where it fixes none.
    """

    keys: frozenset[tuple[str, int]]
    disk_headroom: float
    waves: int

    @classmethod
    def of(cls, keys: Iterable[tuple[str, int]], settings: Settings) -> Self:
        """What is left under the settings of a run."""
        return cls(frozenset(keys), settings.policy.disk_headroom, settings.schedule.waves)

    @property
    def remedy(self) -> str:
        """What would do."""
        fixed = " set [schedule] waves = 0," if self.waves else ""
        lower = f"lower [policy] disk_headroom (now {self.disk_headroom:g}),{fixed} or add disk"
        return f"execute this plan and run again; or {lower}"


def with_left(findings: Iterable[Finding], left: LeftForDisk, partitions: Partitions) -> list[Finding]:
    """The findings, those of partitions that are left saying so, and one of each that is left."""
    remedy, cause = left.remedy, Cause.NO_ORDER_OF_COPIES
    keys = zip(partitions.topic.tolist(), partitions.partition.tolist(), strict=True)
    is_left = np.array([key in left.keys for key in keys], dtype=bool)
    told = [
        replace(finding, detail=f"{finding.detail}; {WHY}", remedy=remedy, cause=cause)
        if finding.code in _ABOUT_PARTITIONS and (finding.topic, finding.partition) in left.keys
        else finding
        for finding in findings
    ]
    for row in np.flatnonzero(is_left):
        name, key = partition_name(partitions, row), of_partition(partitions, row)
        keeps = f"it keeps its replicas: {WHY}"
        told.append(Finding(FindingCode.LEFT_FOR_DISK, name, "after", keeps, remedy, cause=cause, **key))
    return [*told, *not_resized(partitions, is_left, why=WHY, remedy=remedy, cause=cause)]
