"""The progress of one cluster's rounds, and whether another round follows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizer.domain import Floats
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rules.bands import SETTLED
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.search import CurvePoint
from optimizer.solve.shard.shard_solver import NOT_SOLVED, PROGRESS
from optimizer.solve.shard.shard_status import ShardStatus

PATIENCE = 2  # rounds without progress; two, because a round within racks and a round over all racks differ
WORTH = 0.003  # share of the bytes copied; after a round that saves less, no further round looks for fewer bytes


@dataclass(frozen=True)
class Copies:
    """Replicas and bytes that a placement copies."""

    moves: int
    moved_bytes: int


@dataclass(frozen=True)
class Progress:
    """The progress of one cluster's rounds.

    Parameters
    ----------
    open : bool
        Another round follows.
    has_racks_to_repair : bool
        Rounds that only repair racks are still needed; balancing rounds follow them.
    balanced : bool
        A round has balanced every shard.
    balanced_within : bool
        The last balancing round kept replicas within their racks.
    unsettled : bool
        The last balancing round left a band unmet, a rule broken or a shard unsolved.
    in_order : bool
        The last balancing round left no rule broken and no shard unsolved; only bands may be unmet.
    improving : bool
        Bands and rules are met, but shards are far above their own bounds: the next round looks for fewer bytes.
    violation : float
        Load outside the bands after the last balancing round, in mean broker loads.
    stalled, idle : int
        Balancing rounds in a row that did not reduce ``violation``; that moved nothing.
    copied_moves, copied_bytes : int
        Copies that the first balancing round started from; the bytes also include the rounds since then.
    above_bytes : float
        Bytes that the shards of the balancing rounds copy above their own bounds, as far as the bounds are known.
    prices : (B, D) float64
        Of the first balancing round, bytes per mean broker load.
    shards : int
        Of the first balancing round.
    curve : tuple of CurvePoint
        Of the first balancing round, ``cost`` in bytes.
    search_bytes : int, optional
        Least bytes that any placement copies, proven by a search over all placements.
    """

    prices: Floats
    open: bool = True
    has_racks_to_repair: bool = True
    balanced: bool = False
    balanced_within: bool = False
    unsettled: bool = False
    in_order: bool = False
    improving: bool = False
    violation: float = np.inf
    stalled: int = 0
    idle: int = 0
    copied_moves: int = 0
    copied_bytes: int = 0
    above_bytes: float = 0.0
    shards: int = 0
    curve: tuple[CurvePoint, ...] = ()
    search_bytes: int | None = None


def after_round(
    progress: Progress,
    statuses: Sequence[ShardStatus],
    task: ClusterRound,
    loads: Floats,
    copied: Copies | None = None,
) -> Progress:
    """The progress after one more round.

    Parameters
    ----------
    statuses : sequence of ShardStatus
        All shards of the cluster.
    loads : (B, D) float64
        Absolute loads after the round.
    copied : Copies, optional
        Copies that the first balancing round starts from; None if there are none, or in other rounds.
    """
    progress = replace(progress, balanced_within=task.within_racks)
    if copied:
        progress = replace(progress, copied_moves=copied.moves, copied_bytes=copied.moved_bytes)
    failed = any(status.status in NOT_SOLVED for status in statuses)
    if task.repairs_racks:
        has_racks_to_repair = any(status.moves for status in statuses) and (
            failed or any(status.disordered for status in statuses)
        )
        progress = replace(progress, has_racks_to_repair=has_racks_to_repair)
    else:
        if not progress.balanced:
            progress = _with_prices_and_curve(progress, statuses, task)
            progress = replace(progress, balanced=task.search.is_last or not failed)
        progress = _with_balance(progress, statuses, task, loads)
    return replace(progress, open=progress.open and not task.search.is_last)


def _with_prices_and_curve(progress: Progress, statuses: Sequence[ShardStatus], task: ClusterRound) -> Progress:
    """Take prices and curve from the first round that balances every shard; until then, from the latest round."""
    prices = progress.prices.copy()
    for status in (status for status in statuses if any(status.prices)):
        at = np.searchsorted(task.frame.brokers.ids, status.broker_ids)
        prices[at] = np.array(status.prices).reshape(len(at), -1)
    copied = {"moves": progress.copied_moves, "bytes_": progress.copied_bytes}
    curve = curve_of(statuses, float(task.frame.scale[DISK]), **copied)
    return replace(progress, prices=prices, curve=curve, shards=len(statuses))


def curve_of(
    statuses: Sequence[ShardStatus], bytes_per_load: float, *, moves: int, bytes_: int
) -> tuple[CurvePoint, ...]:
    """The curve of a cluster: the points of its shards, summed by price, for the prices that every shard has tried.

    Parameters
    ----------
    moves, bytes_ : int
        Copies made before the round; they are included in each point.

    Returns
    -------
    tuple of CurvePoint
        ``cost`` in bytes.
    """
    sums: dict[float, list[float]] = {}
    tried = [{point.move_price for point in status.curve} for status in statuses if status.curve]
    common_prices = set.intersection(*tried) if tried else set()
    for point in (point for status in statuses for point in status.curve if point.move_price in common_prices):
        total = sums.setdefault(point.move_price, [moves, float(bytes_), 0.0])
        for i, value in enumerate((point.moves, point.cost * bytes_per_load, point.violation)):
            total[i] += value
    return tuple(CurvePoint(price, int(n), cost, violation) for price, (n, cost, violation) in sorted(sums.items()))


def _with_balance(progress: Progress, statuses: Sequence[ShardStatus], task: ClusterRound, loads: Floats) -> Progress:
    """Update what a balancing round leaves: load outside bands, broken rules, bytes above the shards' bounds."""
    moved = any(status.moves for status in statuses)
    failed = any(status.status in NOT_SOLVED for status in statuses)
    violation = sum(status.violation_after for status in statuses)
    stalled = progress.stalled + 1 if violation > PROGRESS * progress.violation else 0
    idle = 0 if moved else progress.idle + 1
    stranded = bool(loads[task.frame.brokers.must_empty].any())
    broken = stranded or any(status.disordered for status in statuses)
    unsettled = (violation > SETTLED and stalled < PATIENCE) or broken or failed
    searched = [status.search_bytes for status in statuses if status.search_bytes is not None]
    progress = replace(
        progress,
        violation=violation,
        stalled=stalled,
        idle=idle,
        in_order=not (broken or failed),
        unsettled=unsettled,
        open=unsettled and (failed or moved or progress.balanced_within or (broken and idle < PATIENCE)),
        search_bytes=max(searched, default=progress.search_bytes),
    )
    return _with_bytes(progress, statuses, task)


def _with_bytes(progress: Progress, statuses: Sequence[ShardStatus], task: ClusterRound) -> Progress:
    """Update the bytes copied, and their distance from the shards' bounds.

    If bands and rules are met, also decide whether a round that looks for fewer bytes is worth it.
    """
    saved = -sum(status.objective_bytes for status in statuses)
    copied = progress.copied_bytes - saved
    above = sum(status.objective_bytes - status.bound_bytes for status in statuses if status.bound_bytes is not None)
    above = above if progress.improving else progress.above_bytes + above
    progress = replace(progress, copied_bytes=copied, above_bytes=above)
    if progress.unsettled:
        return progress
    worth = not progress.improving or saved > WORTH * copied
    another = worth and above > task.gap * copied
    return replace(progress, open=another, improving=another)
