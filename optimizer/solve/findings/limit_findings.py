"""What people are told of a plan that a limit has cut: what it would have been, and what is left for a later run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from optimizer.domain import Bands, Bools, Brokers, Cause, FindingCode, Floats, Partitions
from optimizer.solve.findings.finding import Finding, not_resized
from optimizer.solve.rules.bands import is_outside
from optimizer.units import clause, human_bytes, plural
from optimizer.wishes import BYTES_PER_GB, MoveLimit

REMEDY = "run again once this plan is executed, or raise the limit"
DISK_REMEDY = "add disk, let more brokers accept replicas, or lower disk_headroom"
_LEFT = {  # a thing, and more about one or several
    FindingCode.BAND: ("load", "outside a band that the uncut plan meets", "outside bands that the uncut plan meets"),
    FindingCode.NOT_EMPTIED: ("replica", "on a broker to empty", "on brokers to empty"),
    FindingCode.NOT_PINNED: ("replica", "outside its pin", "outside their pin"),
    FindingCode.RACK_SPREAD: ("partition", "that breaks the rack rule", "that break the rack rule"),
}


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
    def why(self) -> str:
        """Why something is left, after what is left."""
        return "the limit leaves it for a later run" if self._copies_too_much else "the disks have no room"

    @property
    def remedy(self) -> str:
        """What would do."""
        wanted = (REMEDY, self._copies_too_much), (DISK_REMEDY, self.disk_headroom is not None)
        return "; ".join(remedy for remedy, is_wanted in wanted if is_wanted)

    @property
    def names(self) -> str:
        """The limits that it is over, as the configuration names them."""
        limits = (
            (self.moved_bytes > self.limit.moved_bytes, f"max_moved_gb = {self.limit.moved_bytes / BYTES_PER_GB:.12g}"),
            (self.moves > self.limit.moves, f"max_moves = {self.limit.moves}"),
            (self.disk_headroom is not None, f"disk_headroom = {self.disk_headroom}"),
        )
        return ", ".join(name for is_over, name in limits if is_over)


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
    """The findings, those that the limit alone is the reason of saying so, and one of the limit itself.

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
            detail = f"{finding.detail}; {cut.why}"
            finding = replace(finding, detail=detail, remedy=cut.remedy, cause=cut.cause)
        told.append(finding)
    kept = not_resized(partitions, held_back, why=cut.why, remedy=cut.remedy, cause=cut.cause)
    return [*told, *kept, _limited(cut, int(held_back.sum()), left)]


def _held_out(cut: Cut, brokers: Brokers, bands: Bands, after: Floats) -> Iterator[tuple[int, str]]:
    """Bands that the uncut plan meets and the plan as cut does not: broker and resource."""
    for b, d in zip(*np.nonzero(is_outside(after, bands) & ~is_outside(cut.loads, bands)), strict=True):
        yield int(brokers.ids[b]), bands.resources[d]


def _limited(cut: Cut, held_back: int, left: dict[FindingCode, int]) -> Finding:
    whole = f"without the limit the plan would copy {human_bytes(cut.moved_bytes)} in {plural(cut.moves, 'move')}"
    rest = [clause(count, *_LEFT[code]) for code, count in left.items() if count]
    detail = f"{whole}; the {clause(held_back, 'least important change', 'is', 'are')} left out"
    detail = ": ".join([detail, ", ".join(rest)]) if rest else detail
    return Finding(FindingCode.LIMITED, cut.names, "after", detail, cut.remedy, cause=cut.cause, amount=held_back)
