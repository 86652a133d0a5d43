"""Findings of partitions that stay because no order of the copies has disk space for them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from optimizer.domain import Cause, FindingCode, Partitions
from optimizer.settings import Settings
from optimizer.solve.findings.finding import Finding, not_resized, of_partition

Key = tuple[str, int]
_ABOUT_PARTITIONS = (FindingCode.NOT_EMPTIED, FindingCode.NOT_PINNED, FindingCode.RACK_SPREAD)


@dataclass(frozen=True)
class LeftForDisk:
    """Partitions of one cluster that stay because no order of the copies has disk space for them.

    Parameters
    ----------
    keys : set of (topic, partition)
    second : by key
        Broker ids of another list, for partitions (these or others) that get one instead of their old list.
    disk_headroom : float
        Of the policy.
    waves : int
        The number that the schedule fixes; 0 if it fixes none.
    """

    keys: frozenset[Key]
    second: Mapping[Key, Sequence[int]]
    disk_headroom: float
    waves: int

    @classmethod
    def from_rows(cls, rows: Iterable[Any], settings: Settings) -> Self:
        """From rows with the fields of ``planning.left_out.left_by_order``, under the settings of a run."""
        by_key = {(str(row.topic), int(row.partition)): row for row in rows}
        second = {key: tuple(row.second) for key, row in by_key.items() if isinstance(row.second, Iterable)}
        left = frozenset(key for key, row in by_key.items() if row.is_left)
        return cls(left, second, settings.policy.disk_headroom, settings.schedule.waves)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The settings that leave too little disk space."""
        return {"disk_headroom": self.disk_headroom, "waves": self.waves}


def with_left(findings: Iterable[Finding], left: LeftForDisk, partitions: Partitions) -> list[Finding]:
    """Add the cause to findings about partitions that stay, and a finding for each that keeps its replicas."""
    cause, facts = Cause.NO_ORDER_OF_COPIES, left.facts
    keys = [*zip(partitions.topic.tolist(), partitions.partition.tolist(), strict=True)]
    is_left = np.array([key in left.keys for key in keys], dtype=bool)
    explained = [
        replace(finding, cause=cause, facts={**finding.facts, **facts})
        if finding.code in _ABOUT_PARTITIONS and (finding.topic, finding.partition) in left.keys
        else finding
        for finding in findings
    ]
    for row in np.flatnonzero(is_left):
        if keys[row] in left.second:
            continue
        key = of_partition(partitions, row)
        explained.append(Finding(FindingCode.LEFT_FOR_DISK, "after", cause=cause, **key, facts=facts))
    return [*explained, *not_resized(partitions, is_left, cause=cause, facts=facts)]
