"""Findings of partitions that stay because no order of the copies has disk space for them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypedDict

import numpy as np
import pandas as pd

from optimizer.domain import Brokers, Cause, FindingCode, Partitions
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
    full_brokers : by key
        The broker whose log directories have no room, for those that stay because of directories.
    """

    keys: frozenset[Key]
    second: Mapping[Key, Sequence[int]]
    disk_headroom: float
    waves: int
    full_brokers: Mapping[Key, int] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, rows: Iterable[Any], settings: Settings) -> Self:
        """From rows with the fields of ``planning.left_out.left_by_order``, under the settings of a run."""
        by_key = {(str(row.topic), int(row.partition)): row for row in rows}
        second = {key: tuple(row.second) for key, row in by_key.items() if isinstance(row.second, Iterable)}
        left = frozenset(key for key, row in by_key.items() if row.is_left)
        full = {key: int(row.full_broker) for key, row in by_key.items() if not pd.isna(row.full_broker)}
        return cls(left, second, settings.policy.disk_headroom, settings.schedule.waves, full)

    def why(self, key: Key, brokers: Brokers) -> "Why":
        """Why a partition stays: the cause, and the facts for the texts."""
        settings = {"disk_headroom": self.disk_headroom, "waves": self.waves}
        if key not in self.full_brokers:
            return {"cause": Cause.NO_ORDER_OF_COPIES, "facts": settings}
        broker_id = self.full_brokers[key]
        dirs = brokers.log_dirs[int(np.searchsorted(brokers.ids, broker_id))]
        paths = [log_dir.path for log_dir in dirs if log_dir.is_open]
        return {"cause": Cause.NO_DIRECTORY_ROOM, "facts": {**settings, "full_broker": broker_id, "log_dirs": paths}}


class Why(TypedDict):
    """Fields of a finding that say why a partition stays."""

    cause: Cause
    facts: Mapping[str, Any]


def with_left(
    findings: Iterable[Finding], left: LeftForDisk, brokers: Brokers, partitions: Partitions
) -> list[Finding]:
    """Add the cause to findings about partitions that stay, and a finding for each that keeps its replicas."""
    keys = [*zip(partitions.topic.tolist(), partitions.partition.tolist(), strict=True)]
    explained = []
    for finding in findings:
        key = str(finding.topic), -1 if finding.partition is None else finding.partition
        if finding.code in _ABOUT_PARTITIONS and key in left.keys:
            why = left.why(key, brokers)
            finding = replace(finding, cause=why["cause"], facts={**finding.facts, **why["facts"]})
        explained.append(finding)
    by_reason = dict[int | None, list[int]]()
    for row, key in enumerate(keys):
        if key in left.keys:
            by_reason.setdefault(left.full_brokers.get(key), []).append(row)
            if key not in left.second:
                why, partition = left.why(key, brokers), of_partition(partitions, row)
                explained.append(Finding(FindingCode.LEFT_FOR_DISK, "after", **why, **partition))
    for rows in by_reason.values():
        is_left = np.isin(np.arange(len(partitions)), rows)
        explained += not_resized(partitions, is_left, **left.why(keys[rows[0]], brokers))
    return explained
