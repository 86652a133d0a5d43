"""The lower bounds of every cluster, from one pass over the partitions.

Any prices of load prove a bound, and the best one counts. Three sets of prices are tried:

- the shards' prices, each from the relaxation of its own brokers; exact if there are few shards;
- the classes' prices, which agree over all brokers;
- the mean of the classes' and the flow's prices.

If that leaves a gap, and one task can hold the cluster, two more bounds are tried: prices from the cluster's
relaxation around the plan, and keeping the bands of one broker whole instead of pricing them. A small cluster also has
the bound of a search over all placements; it is ``exact`` if the plan copies just that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizer.domain import Bands, Floats, Ints, Partitions
from optimizer.solve.bounds.bound import band_price, flow_bytes, flow_prices, usable_prices, widen
from optimizer.solve.bounds.class_prices import Classes, class_prices
from optimizer.solve.bounds.terms import Terms
from optimizer.solve.bounds.tighter_bounds import best_whole_bound, cluster_prices, is_small_enough
from optimizer.solve.placement import FleetPlacement
from optimizer.solve.rounds.sharding import replicas_stay_in_racks
from optimizer.solve.rounds.solved_cluster import Clusters, SolvedCluster
from optimizer.solve.rules.resources import DISK, REPLICAS
from optimizer.solve.shard.assemble import ClusterFrame
from optimizer.solve.shard.exact import whole_ends
from optimizer.solve.tuning import Tuning

SOURCES = ("shards", "classes", "classes and flow")


@dataclass(frozen=True)
class ProvenBound:
    """A row of ``bounds``."""

    kind: str
    bound_bytes: int
    gap_percent: float | None
    is_best: bool
    detail: str


@dataclass(frozen=True)
class Bounds:
    """Rows of all clusters, and a warning for each bound that could not be computed."""

    rows: Mapping[str, Sequence[ProvenBound]]
    warnings: Sequence[str]


@dataclass(frozen=True)
class Lagrangian:
    """The best bound by prices.

    Parameters
    ----------
    bound : float
        Bytes.
    prices : (B, D) float64
        Bytes per absolute unit of load.
    source : str
        Where the prices come from.
    broker_id : int, optional
        The broker with bands that are kept whole instead of priced.
    """

    bound: float
    prices: Floats
    source: str
    broker_id: int | None = None

    @property
    def detail(self) -> str:
        """How the bound was computed."""
        whole = "" if self.broker_id is None else f", whole replicas for broker {self.broker_id}"
        return (
            f"cheapest placement of every partition at the brokers' prices ({self.source}{whole}), minus the price of "
            "the bands"
        )


def bounds_of(placement: FleetPlacement, clusters: Clusters, tuning: Tuning) -> Bounds:
    """Rows of ``bounds`` for each cluster: forced, flow and lagrangian, and the bound of a search if there was one.

    The bands are widened to the loads that the plan reached.
    """
    frames = {c: _frame_of(cluster, tuning) for c, cluster in clusters.items()}
    classes, warnings = placement.partition_classes(clusters), list[str]()
    prices = {
        c: _candidate_prices(c, cluster, classes[c], frames[c].bands, warnings) for c, cluster in clusters.items()
    }
    terms = placement.bound_terms(clusters, prices)
    proven = {c: _best_lagrangian(terms[c], prices[c], frames[c].bands, SOURCES) for c in clusters}
    priced = {c: max(0.0, lagrangian.bound) for c, lagrangian in proven.items()}
    in_shards = [
        c
        for c, cluster in clusters.items()
        if _may_gain_by_cluster_prices(cluster, terms[c].moved_bytes, priced[c], tuning)
    ]
    proven |= _bounds_by_cluster_prices(placement, clusters, frames, {c: proven[c] for c in in_shards})
    flow = {
        c: max(0, flow_bytes(frames[c].loads, frames[c].bands, cluster.loads) - terms[c].tiered_bytes)
        for c, cluster in clusters.items()
    }
    known = {c: max(proven[c].bound, terms[c].forced_bytes, flow[c]) for c in clusters}
    with_gap = [
        c
        for c, cluster in clusters.items()
        if _may_gain_by_whole_replicas(cluster, terms[c].moved_bytes, known[c], tuning)
    ]
    proven |= _bounds_by_whole_replicas(placement, frames, {c: proven[c] for c in with_gap})
    return Bounds({c: _rows(cluster, terms[c], flow[c], proven[c]) for c, cluster in clusters.items()}, warnings)


def _frame_of(cluster: SolvedCluster, tuning: Tuning) -> ClusterFrame:
    """A cluster before the plan, with its bands widened to the loads that the plan reached."""
    bands = widen(cluster.bands, cluster.loads)
    return ClusterFrame(cluster.brokers, bands, cluster.loads_before, cluster.scale, tuning, cluster.completion)


def _candidate_prices(
    cluster_id: str, cluster: SolvedCluster, classes: Classes, bands: Bands, warnings: list[str]
) -> list[Floats]:
    """Prices in bytes per absolute unit of load, from each of SOURCES.

    If the linear program of the classes fails, there is a warning, and only the shards' prices are returned.
    """
    leave_racks = not replicas_stay_in_racks(cluster.brokers, cluster.demand.replication_factor)
    per_unit = cluster.scale[DISK] / cluster.scale
    prices = [cluster.progress.prices * per_unit]
    try:
        of_classes = class_prices(cluster.brokers, classes, bands, cluster.scale, leave_racks=leave_racks)
    except ArithmeticError as error:
        warnings.append(f"cluster {cluster_id}: no prices from classes; the other bounds are valid: {error}")
    else:
        of_classes = of_classes * per_unit
        prices += [of_classes, (of_classes + flow_prices(cluster.loads_before, bands)) / 2]
    return [usable_prices(candidate, bands) for candidate in prices]


def _best_lagrangian(terms: Terms, prices: Sequence[Floats], bands: Bands, sources: Sequence[str]) -> Lagrangian:
    sums = zip(terms.lagrangian_bytes, prices, strict=True)
    bounds = [float(total - band_price(price, bands)) for total, price in sums]
    best = int(np.argmax(bounds))
    return Lagrangian(bounds[best], prices[best], sources[best])


def _fits_one_task(cluster: SolvedCluster) -> bool:
    return is_small_enough(len(cluster.brokers), int(cluster.loads[:, REPLICAS].sum()))


def _may_gain_by_cluster_prices(cluster: SolvedCluster, moved_bytes: int, bound: float, tuning: Tuning) -> bool:
    """Whether the shards' prices leave a gap, and one task can hold the whole cluster."""
    return cluster.progress.shards > 1 and _fits_one_task(cluster) and moved_bytes > (1 + tuning.wide_gap) * bound


def _may_gain_by_whole_replicas(cluster: SolvedCluster, moved_bytes: int, bound: float, tuning: Tuning) -> bool:
    """Whether prices leave a gap that whole replicas may explain, and one task can hold the cluster."""
    return _fits_one_task(cluster) and moved_bytes > (1 + tuning.whole_gap) * bound


def _bounds_by_cluster_prices(
    placement: FleetPlacement,
    clusters: Clusters,
    frames: Mapping[str, ClusterFrame],
    proven: Mapping[str, Lagrangian],
) -> dict[str, Lagrangian]:
    """The better bound of each cluster: so far, or by prices from its relaxation around the plan."""
    shipped = {c: frames[c] for c in proven}

    def prices_of(cluster_id: str, partitions: Partitions, reached: Ints) -> list[float]:
        return cluster_prices(shipped[cluster_id], partitions, reached).ravel().tolist()

    prices = {}
    for c, flat_prices in placement.for_each_cluster(list(proven), prices_of).items():
        frame = frames[c]
        absolute = np.array(flat_prices, dtype=np.float64).reshape(frame.loads.shape) * (
            frame.scale[DISK] / frame.scale
        )
        prices[c] = [usable_prices(absolute, frame.bands)]
    terms = placement.bound_terms(clusters, prices) if prices else {}
    return {
        c: max(proven[c], _best_lagrangian(terms[c], prices[c], frames[c].bands, ("cluster",)), key=_bound)
        for c in proven
        if c in prices
    }


def _bounds_by_whole_replicas(
    placement: FleetPlacement, frames: Mapping[str, ClusterFrame], proven: Mapping[str, Lagrangian]
) -> dict[str, Lagrangian]:
    """The better bound of each cluster: so far, or at the same prices with the bands of one broker kept whole."""
    shipped = {c: (frames[c], lagrangian.prices) for c, lagrangian in proven.items()}

    def whole(cluster_id: str, partitions: Partitions, reached: Ints) -> tuple[float, ...]:
        frame, prices = shipped[cluster_id]
        bound, broker_id = best_whole_bound(frame, partitions, prices, reached)
        return () if broker_id is None else (bound, broker_id)

    bounds = {c: result for c, result in placement.for_each_cluster(list(proven), whole).items() if result}
    lagrangians = {c: replace(proven[c], bound=bound, broker_id=int(broker)) for c, (bound, broker) in bounds.items()}
    return {c: max(proven[c], lagrangian, key=_bound) for c, lagrangian in lagrangians.items()}


def _bound(proven: Lagrangian) -> float:
    return proven.bound


def gap_percent(moved: int, bound: int) -> float | None:
    """By how many percent the moved bytes exceed a bound (formula 15 of docs/solver.md); None if the bound is 0."""
    if moved == bound:
        return 0.0
    return 100.0 * (moved / bound - 1) if bound > 0 else None


def _search_row(cluster: SolvedCluster, moved_bytes: int) -> dict[str, tuple[int, str]]:
    """The bound of the search over all placements that meet bands and rules; none if the plan does not meet them."""
    lower, upper = whole_ends(cluster.bands)
    inside = ((cluster.loads >= lower) & (cluster.loads <= upper)).all()
    least = cluster.progress.search_bytes
    if least is None or not inside or least > moved_bytes:
        return {}
    return {"exact" if least == moved_bytes else "search": (least, "branch and bound over all placements")}


def _rows(cluster: SolvedCluster, terms: Terms, flow: int, proven: Lagrangian) -> list[ProvenBound]:
    values = _search_row(cluster, terms.moved_bytes)
    values |= {
        "forced": (terms.forced_bytes, "replicas on brokers to empty, over the rack cap, and missing"),
        "flow": (flow, "disk that brokers must shed or receive"),
        "lagrangian": (max(0, int(np.floor(proven.bound))), proven.detail),
    }
    best = max(values, key=lambda kind: values[kind][0])
    return [
        ProvenBound(kind, value, gap_percent(terms.moved_bytes, value), kind == best, detail)
        for kind, (value, detail) in values.items()
    ]
