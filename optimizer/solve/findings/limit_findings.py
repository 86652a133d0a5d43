"""Findings of a plan that a limit reduces: the whole plan, and what is left for a later run."""

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
class Cut:
    """The plan of one cluster before a limit cut it.

    Parameters
    ----------
    limit : MoveLimit
    moved_bytes, moves : int
        What it would copy.
    loads : (B, D) float64
        Loads of the brokers after it, absolute.
    disk_headroom : float, optional
        Where it would fill a disk further than this headroom allows.
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
    def binds(self) -> bool:
        """Whether the plan is over any limit."""
        return self._copies_too_much or self.disk_headroom is not None

    @property
    def cause(self) -> Cause:
        """Why something is left, as a code."""
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
    cut: Cut,
    brokers: Brokers,
    bands: Bands,
    after: Floats,
    *,
    partitions: Partitions,
    held_back: Bools,
) -> list[Finding]:
    """The findings, with the limit as the cause of those that only it explains, and one of the limit itself.

    Parameters
    ----------
    after : (B, D) float64
        Loads after the plan as it was cut.
    held_back : (P,) bool
        Partitions that the plan would change, and the limit leaves.
    """
    rows = np.flatnonzero(held_back)
    keys = set(zip(partitions.topic[rows].tolist(), partitions.partition[rows].tolist(), strict=True))
    held_out = set(_held_out(cut, brokers, bands, after))
    told, left = list[Finding](), dict.fromkeys(_LEFT, 0)
    for finding in findings:
        is_band = finding.code == FindingCode.BAND
        is_left = (
            (finding.broker_id, finding.resource) in held_out if is_band else (finding.topic, finding.partition) in keys
        )
        if finding.code in _LEFT and is_left:
            left[finding.code] += 1
            finding = replace(finding, cause=cut.cause, facts={**finding.facts, **cut.facts})
        told.append(finding)
    kept = not_resized(partitions, held_back, cause=cut.cause, facts=cut.facts)
    return [*told, *kept, _limited(cut, int(held_back.sum()), left)]


def _held_out(cut: Cut, brokers: Brokers, bands: Bands, after: Floats) -> Iterator[tuple[int, str]]:
    """Bands that the uncut plan meets and the plan as cut does not: broker and resource."""
    for b, d in zip(*np.nonzero(is_outside(after, bands) & ~is_outside(cut.loads, bands)), strict=True):
        yield int(brokers.ids[b]), bands.resources[d]


def _limited(cut: Cut, held_back: int, left: dict[FindingCode, int]) -> Finding:
    whole = {"moved_bytes": cut.moved_bytes, "moves": cut.moves, "left": left}
    return Finding(FindingCode.LIMITED, "after", cause=cut.cause, amount=held_back, facts={**cut.facts, **whole})
