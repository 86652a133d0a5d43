"""The rounds of one cluster: how it is cut in the next one, and whether there is a next one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from optimizer.domain import Bands, Brokers, Floats, Ints
from optimizer.settings import Settings
from optimizer.solve.assemble import ClusterFrame
from optimizer.solve.bands import DISK, REPLICAS, Demand, fullness, outside
from optimizer.solve.exact import is_small
from optimizer.solve.ownership import owner_slots
from optimizer.solve.racks import hosting_rack_sizes, live_rack_sizes, rack_caps
from optimizer.solve.search import CURVE_PRICES, GAP, PLAN_PRICES, SHORT_CURVE_PRICES, CurvePoint, Search
from optimizer.solve.shard_solver import NOT_SOLVED, PROGRESS
from optimizer.solve.sharding import make_shards, replicas_stay_in_racks, seed_of, shard_counts

SETTLED = 1e-9
PATIENCE = 2
CLOSER = 0.3  # a round that looks for fewer bytes has no other task
WORTH = 0.003  # of the bytes copied: a round that saved less is the last one that looks for fewer


class ShardStatus(Protocol):
    """What a round has to know of each of its shards, as the columns of ``shard_results`` say it."""

    status: str
    moves: int
    disordered: int
    violation_after: float
    objective_bytes: int
    bound_bytes: float | None
    search_bytes: int | None
    broker_ids: Sequence[int]
    prices: Sequence[float]
    curve: Sequence[CurvePoint]


@dataclass
class ClusterState:
    """What the driver knows of one cluster while it is solved.

    Parameters
    ----------
    loads_before, loads, prices : (B, D) float64
        Absolute loads before the plan and now; prices of the first balancing round, bytes per mean broker load.
    resized : bool
        A list changes its length.
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
    violation : float
        Load outside the bands after the last balancing round, in mean broker loads.
    stalled : int
        Balancing rounds in a row that have not made it less.
    idle : int
        Balancing rounds in a row that have moved nothing.
    shards : int
        Shards of the first balancing round.
    copied_moves, copied_bytes : int
        Copies of the placement that the first balancing round started from; the bytes with those of the rounds since.
    improving : bool
        Nothing is left to do, but shards are far above their own bounds: the next round looks for fewer bytes.
    above_bytes : float
        What the shards of the balancing rounds copy above their own bounds, as far as these are known.
    """

    brokers: Brokers
    demand: Demand
    limits: Bands
    scale: Floats
    loads_before: Floats
    loads: Floats
    prices: Floats
    resized: bool
    open: bool = True
    to_mend: bool = True
    balanced: bool = False
    balanced_within: bool = False
    unsettled: bool = False
    in_order: bool = False
    violation: float = np.inf
    stalled: int = 0
    idle: int = 0
    shards: int = 0
    copied_moves: int = 0
    copied_bytes: int = 0
    improving: bool = False
    above_bytes: float = 0.0
    curve: list[CurvePoint] = field(default_factory=list)
    search_bytes: int | None = None


@dataclass(frozen=True)
class ClusterRound:
    """One cluster in one round.

    Parameters
    ----------
    frame : ClusterFrame
        Brokers, bands, loads now, scale.
    shard : (B,) int64
        Shard of each broker, numbered over the fleet; -1 where its shard has nothing to do.
    round : int
    mends : bool
        Only partitions that must change racks take part; nothing is balanced.
    search : Search
    gap : float
        Share of the bytes copied that shards may lie above their own bounds without another round.
    """

    frame: ClusterFrame
    shard: Ints
    round: int
    mends: bool
    search: Search
    gap: float

    @property
    def first(self) -> int:
        """The lowest number of its shards."""
        return int(self.shard[self.shard >= 0].min())

    def shards_of(self, current: Ints, replication_factor: Ints, tie: Ints) -> tuple[Ints, Ints]:
        """Shard of each replica, (P, W), -1 behind the list, and the shard that owns each partition, (P,).

        Parameters
        ----------
        tie : (P,) int64
            A number for each partition that does not depend on the others.
        """
        brokers = self.frame.brokers
        caps = rack_caps(replication_factor, live_rack_sizes(brokers), hosting_rack_sizes(brokers))
        full = fullness(self.frame.loads, self.frame.bands)
        slot = owner_slots(brokers, current, caps, tie + self.round, full)
        shard = np.where(current >= 0, self.shard[np.maximum(current, 0)], -1)
        return shard, shard[np.arange(len(shard)), slot]


def search_for(state: ClusterState, settings: Settings, *, is_last: bool) -> Search:
    """What is tried in a round: the policy's price on moves, or a few; the first round that balances has the curve, a
    longer one on smaller clusters."""
    policy, solver = settings.policy, settings.solver
    curve = CURVE_PRICES if len(state.brokers) <= solver.curve_brokers else SHORT_CURVE_PRICES
    prices = PLAN_PRICES if state.balanced else curve
    asked = (policy.move_price,) if policy.move_price > 0 else prices
    gap = GAP * CLOSER if state.improving else GAP
    return Search(asked, policy.bytes_tolerance, solver.lp_seconds, gap, state.improving, is_last)


def next_round(state: ClusterState, settings: Settings, cluster_id: str, number: int, first: int) -> ClusterRound:
    """How a cluster is cut in a round; its shards are numbered from ``first``.

    Where replicas stay in racks, shards are of one rack, but for clusters small enough to be searched whole: first what
    must change racks is mended in shards over all racks, and a round over all racks also follows one that left a band
    broken.
    """
    within = replicas_stay_in_racks(state.brokers, state.demand.replication_factor)
    replicas = float(state.demand.load[:, REPLICAS].sum())
    within &= not is_small(round(replicas), len(state.brokers))
    mends = within and state.to_mend
    within = within and not mends and not (state.balanced_within and state.unsettled)
    knobs = settings.solver
    size = knobs.rack_shard_brokers if within else knobs.shard_brokers
    counts = shard_counts(state.brokers, replicas, shard_brokers=size, within_racks=within)
    shard = make_shards(
        state.brokers,
        state.loads,
        state.limits,
        state.scale,
        counts=counts,
        seed=seed_of(knobs.seed, cluster_id, number),
    )
    state.balanced_within = within
    shard = _with_work(state, shard)
    frame = ClusterFrame(state.brokers, state.limits, state.loads, state.scale)
    numbered = np.where(shard < 0, -1, shard + first)
    # A partition makes one move a round: there may be as many more rounds as the longest list is long.
    is_last = number + 1 >= knobs.rounds + int(state.demand.replication_factor.max())
    search = search_for(state, settings, is_last=is_last)
    # What the tolerance has spent on fewer moves is not to be had back.
    gap = max(knobs.shard_gap if counts.sum() > 1 else knobs.cluster_gap, settings.policy.bytes_tolerance)
    return ClusterRound(frame, numbered, number, mends, search, gap)


def _with_work(state: ClusterState, shard: Ints) -> Ints:
    """The shards numbered anew, -1 where all brokers are inside their bands and nothing else is left to do."""
    if state.improving or not state.in_order:
        return shard
    works = np.bincount(shard, outside(state.loads, state.limits, state.scale)) > SETTLED
    return np.where(works, np.cumsum(works) - 1, -1)[shard] if works.any() else shard


def curve_of(statuses: Sequence[ShardStatus], bytes_per_load: float, *, moves: int, bytes_: int) -> list[CurvePoint]:
    """Points of all shards of a round added up by price, where every shard has one, with the moves and bytes of the
    copies before it; ``cost`` in bytes."""
    sums: dict[float, list[float]] = {}
    tried = [{p.move_price for p in row.curve} for row in statuses if row.curve]
    everywhere = set.intersection(*tried) if tried else set()
    for point in (p for row in statuses for p in row.curve if p.move_price in everywhere):
        total = sums.setdefault(point.move_price, [moves, float(bytes_), 0.0])
        for i, value in enumerate((point.moves, point.cost * bytes_per_load, point.violation)):
            total[i] += value
    return [CurvePoint(price, int(n), cost, violation) for price, (n, cost, violation) in sorted(sums.items())]


def close_round(state: ClusterState, statuses: Sequence[ShardStatus], task: ClusterRound) -> None:
    """Note what a round brought, and whether the cluster needs another one."""
    if task.mends:
        state.to_mend = any(r.moves for r in statuses) and any(r.disordered or r.status in NOT_SOLVED for r in statuses)
    else:
        if not state.balanced:
            _note_first(state, statuses)
            state.balanced = task.search.is_last or not any(r.status in NOT_SOLVED for r in statuses)
        _note_balance(state, statuses, task)
    state.open = state.open and not task.search.is_last


def _note_first(state: ClusterState, statuses: Sequence[ShardStatus]) -> None:
    """Prices and curve of the first round that balances all shards; until then, of those that did some."""
    for row in (r for r in statuses if any(r.prices)):
        at = np.searchsorted(state.brokers.ids, row.broker_ids)
        state.prices[at] = np.array(row.prices).reshape(len(at), -1)
    copied = {"moves": state.copied_moves, "bytes_": state.copied_bytes}
    state.curve, state.shards = curve_of(statuses, state.scale[DISK], **copied), len(statuses)


def _note_balance(state: ClusterState, statuses: Sequence[ShardStatus], task: ClusterRound) -> None:
    """What is left of load outside bands, rules to mend, and bytes above the shards' bounds."""
    moved = any(r.moves for r in statuses)
    saved = -sum(r.objective_bytes for r in statuses)
    state.copied_bytes -= saved
    searched = [r.search_bytes for r in statuses if r.search_bytes is not None]
    state.search_bytes = max(searched, default=state.search_bytes)
    violation = sum(r.violation_after for r in statuses)
    state.stalled = state.stalled + 1 if violation > PROGRESS * state.violation else 0
    state.violation = violation
    missed = violation > SETTLED and state.stalled < PATIENCE
    stranded = bool(state.loads[state.brokers.must_empty].any())
    failed = any(r.status in NOT_SOLVED for r in statuses)
    broken = stranded or any(r.disordered for r in statuses)
    state.idle = 0 if moved else state.idle + 1
    state.in_order = not (broken or failed)
    state.unsettled = missed or broken or failed
    state.open = state.unsettled and (failed or moved or state.balanced_within or (broken and state.idle < PATIENCE))
    above = sum(r.objective_bytes - r.bound_bytes for r in statuses if r.bound_bytes is not None)
    state.above_bytes = above if state.improving else state.above_bytes + above
    if not state.unsettled:
        worth = not state.improving or saved > WORTH * state.copied_bytes
        state.open = state.improving = worth and state.above_bytes > task.gap * state.copied_bytes
