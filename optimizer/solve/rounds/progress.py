"""How far the rounds of one cluster have come, and whether there is another one."""

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

PATIENCE = 2  # rounds without progress: two, because a round within racks and one over all racks differ
WORTH = 0.003  # of the bytes copied: a round that saved less is the last one that looks for fewer


@dataclass(frozen=True)
class Copies:
    """What a placement copies."""

    moves: int
    moved_bytes: int


@dataclass(frozen=True)
class Progress:
    """Where the rounds of one cluster stand.

    Parameters
    ----------
    open : bool
        There is another round.
    to_mend : bool
        Racks are still mended in rounds of their own, before any that balances.
    balanced : bool
        A round has balanced all shards.
    balanced_within : bool
        The last balancing round kept replicas within their racks.
    unsettled : bool
        The last balancing round has left something to do.
    in_order : bool
        The last balancing round has left no rule to mend and no shard unsolved: only bands may be broken.
    improving : bool
        Nothing is left to do, but shards are far above their own bounds: the next round looks for fewer bytes.
    violation : float
        Load outside the bands after the last balancing round, in mean broker loads.
    stalled, idle : int
        Balancing rounds in a row that have not made it less; that have moved nothing.
    copied_moves, copied_bytes : int
        Copies of the placement that the first balancing round started from; the bytes with those of the rounds since.
    above_bytes : float
        What the shards of the balancing rounds copy above their own bounds, as far as these are known.
    prices : (B, D) float64
        Of the first balancing round, bytes per mean broker load.
    shards : int
        Of the first balancing round.
    curve : tuple of CurvePoint
        Of the first balancing round, ``cost`` in bytes.
    search_bytes : int, optional
        What any placement copies at least, by search over them all.
    """

    prices: Floats
    open: bool = True
    to_mend: bool = True
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


def after(
    progress: Progress,
    statuses: Sequence[ShardStatus],
    task: ClusterRound,
    loads: Floats,
    copied: Copies | None = None,
) -> Progress:
    """Where the rounds stand after one of them.

    Parameters
    ----------
    statuses : sequence of ShardStatus
        Of all shards of the cluster.
    loads : (B, D) float64
        Absolute loads after the round.
    copied : Copies, optional
        Of the placement that the round started from, where there are any before the first round that balances.
    """
    progress = replace(progress, balanced_within=task.within_racks)
    if copied:
        progress = replace(progress, copied_moves=copied.moves, copied_bytes=copied.moved_bytes)
    failed = any(r.status in NOT_SOLVED for r in statuses)
    if task.mends:
        to_mend = any(r.moves for r in statuses) and (failed or any(r.disordered for r in statuses))
        progress = replace(progress, to_mend=to_mend)
    else:
        if not progress.balanced:
            progress = _with_first(progress, statuses, task)
            progress = replace(progress, balanced=task.search.is_last or not failed)
        progress = _with_balance(progress, statuses, task, loads)
    return replace(progress, open=progress.open and not task.search.is_last)


def _with_first(progress: Progress, statuses: Sequence[ShardStatus], task: ClusterRound) -> Progress:
    """Prices and curve of the first round that balances all shards; until then, of those that did some."""
    prices = progress.prices.copy()
    for row in (r for r in statuses if any(r.prices)):
        at = np.searchsorted(task.frame.brokers.ids, row.broker_ids)
        prices[at] = np.array(row.prices).reshape(len(at), -1)
    copied = {"moves": progress.copied_moves, "bytes_": progress.copied_bytes}
    curve = curve_of(statuses, float(task.frame.scale[DISK]), **copied)
    return replace(progress, prices=prices, curve=curve, shards=len(statuses))


def curve_of(
    statuses: Sequence[ShardStatus], bytes_per_load: float, *, moves: int, bytes_: int
) -> tuple[CurvePoint, ...]:
    """Points of all shards of a round added up by price, where every shard has one, with the moves and bytes of the
    copies before it; ``cost`` in bytes."""
    sums: dict[float, list[float]] = {}
    tried = [{p.move_price for p in row.curve} for row in statuses if row.curve]
    everywhere = set.intersection(*tried) if tried else set()
    for point in (p for row in statuses for p in row.curve if p.move_price in everywhere):
        total = sums.setdefault(point.move_price, [moves, float(bytes_), 0.0])
        for i, value in enumerate((point.moves, point.cost * bytes_per_load, point.violation)):
            total[i] += value
    return tuple(CurvePoint(price, int(n), cost, violation) for price, (n, cost, violation) in sorted(sums.items()))


def _with_balance(progress: Progress, statuses: Sequence[ShardStatus], task: ClusterRound, loads: Floats) -> Progress:
    """What a balancing round has left: load outside bands, rules to mend, bytes above the shards' bounds."""
    moved, failed = any(r.moves for r in statuses), any(r.status in NOT_SOLVED for r in statuses)
    violation = sum(r.violation_after for r in statuses)
    stalled = progress.stalled + 1 if violation > PROGRESS * progress.violation else 0
    idle = 0 if moved else progress.idle + 1
    stranded = bool(loads[task.frame.brokers.must_empty].any())
    broken = stranded or any(r.disordered for r in statuses)
    unsettled = (violation > SETTLED and stalled < PATIENCE) or broken or failed
    searched = [r.search_bytes for r in statuses if r.search_bytes is not None]
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
    """What is copied, and how far it lies above the shards' bounds; where nothing else is left to do, whether a round
    that looks for fewer bytes is worth it."""
    saved = -sum(r.objective_bytes for r in statuses)
    copied = progress.copied_bytes - saved
    above = sum(r.objective_bytes - r.bound_bytes for r in statuses if r.bound_bytes is not None)
    above = above if progress.improving else progress.above_bytes + above
    progress = replace(progress, copied_bytes=copied, above_bytes=above)
    if progress.unsettled:
        return progress
    worth = not progress.improving or saved > WORTH * copied
    another = worth and above > task.gap * copied
    return replace(progress, open=another, improving=another)
