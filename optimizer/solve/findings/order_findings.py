"""What people are told of partitions that are left because no order of copies has room for them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from optimizer.domain import Cause, FindingCode, Partitions
from optimizer.settings import Settings
from optimizer.solve.findings.finding import Finding, of_partition, partition_name
from optimizer.units import agree, plural

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
    remedy = left.remedy
    keys = zip(partitions.topic.tolist(), partitions.partition.tolist(), strict=True)
    rows = [row for row, key in enumerate(keys) if key in left.keys]
    told = [
        replace(finding, detail=f"{finding.detail}; {WHY}", remedy=remedy, cause=Cause.NO_ORDER_OF_COPIES)
        if finding.code in _ABOUT_PARTITIONS and (finding.topic, finding.partition) in left.keys
        else finding
        for finding in findings
    ]
    held = (partitions.replicas >= 0).sum(axis=1)
    for row in rows:
        name, now, asked = partition_name(partitions, row), int(held[row]), int(partitions.replication_factor[row])
        cause, key = Cause.NO_ORDER_OF_COPIES, of_partition(partitions, row)
        keeps = f"it keeps its replicas: {WHY}"
        told.append(Finding(FindingCode.LEFT_FOR_DISK, name, "after", keeps, remedy, cause=cause, **key))
        if now != asked:
            subject = f"{name} on {plural(now, 'replica')}"
            detail = f"{asked} {agree(asked, 'is', 'are')} asked for; {WHY}"
            finding = Finding(FindingCode.NOT_RESIZED, subject, "after", detail, remedy, cause=cause, **key)
            told.append(replace(finding, amount=now, limit=asked))
    return told
