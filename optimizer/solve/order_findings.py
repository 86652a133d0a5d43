"""What people are told of partitions that are left because no order of copies has room for them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from optimizer.domain import Partitions
from optimizer.solve.proposal import Finding, partition_name

LEFT_FOR_DISK = "left_for_disk"
WHY = "no order of copies has room for it on the disks while both copies exist"
_ABOUT_PARTITIONS = ("not_emptied", "not_pinned", "rack_spread")


@dataclass(frozen=True)
class Left:
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

    @property
    def remedy(self) -> str:
        """What would do."""
        fixed = " set [schedule] waves = 0," if self.waves else ""
        lower = f"lower [policy] disk_headroom (now {self.disk_headroom:g}),{fixed} or add disk"
        return f"execute this plan and run again; or {lower}"


def with_left(findings: Iterable[Finding], left: Left, partitions: Partitions) -> list[Finding]:
    """The findings, those of partitions that are left saying so, and one of each that is left."""
    remedy = left.remedy
    keys = zip(partitions.topic.tolist(), partitions.partition.tolist(), strict=True)
    rows = [row for row, key in enumerate(keys) if key in left.keys]
    names = {partition_name(partitions, row) for row in rows}
    told = [
        replace(finding, detail=f"{finding.detail}; {WHY}", remedy=remedy)
        if finding.rule in _ABOUT_PARTITIONS and finding.subject.partition(" on ")[0] in names
        else finding
        for finding in findings
    ]
    held = (partitions.replicas >= 0).sum(axis=1)
    for row in rows:
        name, now, asked = partition_name(partitions, row), held[row], partitions.replication_factor[row]
        told.append(Finding(LEFT_FOR_DISK, name, "after", f"it keeps its replicas: {WHY}", remedy))
        if now != asked:
            detail = f"{asked} are asked for; {WHY}"
            told.append(Finding("not_resized", f"{name} on {now} replicas", "after", detail, remedy))
    return told
