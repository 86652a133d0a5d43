"""Findings of a plan that a limit reduces: the whole plan, and what stays for a later run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optimizer.cluster_policy import MoveLimit
from optimizer.domain import Bands, Bools, Brokers, Cause, FindingCode, Floats, Partitions
from optimizer.solve.findings.finding import Finding, not_resized
from optimizer.solve.rules.bands import is_outside

_LEFT = (FindingCode.BAND, FindingCode.NOT_EMPTIED, FindingCode.NOT_PINNED, FindingCode.RACK_SPREAD)


@dataclass(frozen=True)
class OverLimits:
    """The whole plan of one cluster, and the limits that it may exceed.

    Parameters
    ----------
    limit : MoveLimit
    moved_bytes, moves : int
        What the whole plan would copy.
    loads : (B, D) float64
        Loads of the brokers after the whole plan, absolute.
    disk_headroom : float, optional
        Given if the whole plan would fill a disk further than this headroom allows.
    """

    limit: MoveLimit
    moved_bytes: int
    moves: int
    loads: Floats
    disk_headroom: float | None = None

    @property
    def _copies_too_much(self) -> bool:
        return self.moved_bytes > self.limit.moved_bytes or self.moves > self.limit.moves

    @property
    def exceeds_any(self) -> bool:
        """Whether the plan exceeds any limit."""
        return self._copies_too_much or self.disk_headroom is not None

    @property
    def cause(self) -> Cause:
        """The code of the limit that is exceeded."""
        return Cause.MOVE_LIMIT if self._copies_too_much else Cause.NO_DISK_ROOM

    @property
    def facts(self) -> Mapping[str, Any]:
        """The limits that the plan exceeds."""
        exceeded = {
            "max_moved_bytes": self.limit.moved_bytes if self.moved_bytes > self.limit.moved_bytes else None,
            "max_moves": self.limit.moves if self.moves > self.limit.moves else None,
            "disk_headroom": self.disk_headroom,
        }
        return {"exceeded": {name: value for name, value in exceeded.items() if value is not None}}


def with_limit(
    findings: Iterable[Finding],
    over_limits: OverLimits,
    brokers: Brokers,
    bands: Bands,
    after: Floats,
    *,
    partitions: Partitions,
    held_back: Bools,
) -> list[Finding]:
    """Add the limit as the cause of every finding that the limit alone explains, and a finding of the limit itself.

    Parameters
    ----------
    after : (B, D) float64
        Loads after the reduced plan.
    held_back : (P,) bool
        Partitions that the whole plan changes and the reduced plan does not.
    """
    rows = np.flatnonzero(held_back)
    keys = set(zip(partitions.topic[rows].tolist(), partitions.partition[rows].tolist(), strict=True))
    unmet_bands = set(_bands_unmet_by_reduction(over_limits, brokers, bands, after))
    explained, left = list[Finding](), dict.fromkeys(_LEFT, 0)
    for finding in findings:
        is_band = finding.code == FindingCode.BAND
        is_left = (
            (finding.broker_id, finding.resource) in unmet_bands
            if is_band
            else (finding.topic, finding.partition) in keys
        )
        if finding.code in _LEFT and is_left:
            left[finding.code] += 1
            finding = replace(finding, cause=over_limits.cause, facts={**finding.facts, **over_limits.facts})
        explained.append(finding)
    unresized = not_resized(partitions, held_back, cause=over_limits.cause, facts=over_limits.facts)
    return [*explained, *unresized, _limited(over_limits, int(held_back.sum()), left)]


def _bands_unmet_by_reduction(
    over_limits: OverLimits, brokers: Brokers, bands: Bands, after: Floats
) -> Iterator[tuple[int, str]]:
    """Broker and resource of each band that the whole plan meets and the reduced plan does not."""
    for b, d in zip(*np.nonzero(is_outside(after, bands) & ~is_outside(over_limits.loads, bands)), strict=True):
        yield int(brokers.ids[b]), bands.resources[d]


def _limited(over_limits: OverLimits, held_back: int, left: dict[FindingCode, int]) -> Finding:
    whole = {"moved_bytes": over_limits.moved_bytes, "moves": over_limits.moves, "left": left}
    return Finding(
        FindingCode.LIMITED, "after", cause=over_limits.cause, amount=held_back, facts={**over_limits.facts, **whole}
    )
