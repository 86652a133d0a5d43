"""The lower bounds of every cluster: one pass over the partitions with the prices in the closure.

Three sets of prices are tried, and the best one counts: those of the shards, each from the relaxation of its own
brokers, exact where shards are few; those of the classes, which agree over all brokers; and these mixed with the
flow's. Where that leaves a gap, and one task can hold the cluster, a fourth comes from its relaxation around the plan,
and the bands of one broker are kept whole instead of priced. A small cluster has the bound of a search over all
placements beside them: exact where it is what the plan moves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizer.domain import Bands, Floats, Ints, Partitions
from optimizer.solve.bounds.bound import band_price, flow_bytes, flow_prices, usable_prices, widen
from optimizer.solve.bounds.class_prices import Classes, class_prices
from optimizer.solve.bounds.terms import Terms
from optimizer.solve.bounds.tighter_bounds import best_whole_bound, cluster_prices, is_small_enough
from optimizer.solve.placement import Placement
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
    """Rows of all clusters, and what could not be had."""

    rows: Mapping[str, Sequence[ProvenBound]]
    warnings: Sequence[str]


@dataclass(frozen=True)
class Lagrangian:
    """The best bound by prices, in bytes: the prices in bytes per absolute unit of load, (B, D), where they come from,
    and the broker whose bands are kept whole."""

    bound: float
    prices: Floats
    source: str
    broker_id: int | None = None

    @property
    def detail(self) -> str:
        """How it came about."""
        kept = "" if self.broker_id is None else f", whole replicas for broker {self.broker_id}"
        return (
            f"cheapest placement of every partition at the brokers' prices ({self.source}{kept}), less the price of "
            "the bands"
        )


def bounds_of(placement: Placement, clusters: Clusters, tuning: Tuning) -> Bounds:
    """Rows of ``bounds``: forced, flow and lagrangian of each cluster, against bands widened to what the plan
    reached, and what a search has proven."""
    frames = {c: _frame_of(one, tuning) for c, one in clusters.items()}
    classes, warnings = placement.classes(clusters), list[str]()
    prices = {c: _candidates(c, one, classes[c], frames[c].bands, warnings) for c, one in clusters.items()}
    terms = placement.terms(clusters, prices)
    proven = {c: _best(terms[c], prices[c], frames[c].bands, SOURCES) for c in clusters}
    least = {c: max(0.0, found.bound) for c, found in proven.items()}
    wide = [c for c, one in clusters.items() if _may_prove_more(one, terms[c].moved_bytes, least[c], tuning)]
    proven |= _by_clusters(placement, clusters, frames, {c: proven[c] for c in wide})
    flow = {c: flow_bytes(frames[c].loads, frames[c].bands, one.loads) for c, one in clusters.items()}
    known = {c: max(proven[c].bound, terms[c].forced_bytes, flow[c]) for c in clusters}
    gaps = [c for c, one in clusters.items() if _may_be_whole(one, terms[c].moved_bytes, known[c], tuning)]
    proven |= _by_whole_replicas(placement, frames, {c: proven[c] for c in gaps})
    return Bounds({c: _rows(one, terms[c], flow[c], proven[c]) for c, one in clusters.items()}, warnings)


def _frame_of(cluster: SolvedCluster, tuning: Tuning) -> ClusterFrame:
    """A cluster before the plan, with the bands that its bound speaks of: widened to what the plan reached."""
    bands = widen(cluster.bands, cluster.loads)
    return ClusterFrame(cluster.brokers, bands, cluster.loads_before, cluster.scale, tuning)


def _candidates(
    cluster_id: str, cluster: SolvedCluster, classes: Classes, bands: Bands, warnings: list[str]
) -> list[Floats]:
    """Prices in bytes per absolute unit of load, from each of SOURCES; those of the shards alone, with a warning, where
    the classes' program fails."""
    leave = not replicas_stay_in_racks(cluster.brokers, cluster.demand.replication_factor)
    per_unit = cluster.scale[DISK] / cluster.scale
    prices = [cluster.progress.prices * per_unit]
    try:
        of_classes = class_prices(cluster.brokers, classes, bands, cluster.scale, leave_racks=leave)
    except ArithmeticError as error:
        warnings.append(f"cluster {cluster_id}: no prices from classes, the other bounds stand: {error}")
    else:
        of_classes = of_classes * per_unit
        prices += [of_classes, (of_classes + flow_prices(cluster.loads_before, bands)) / 2]
    return [usable_prices(each, bands) for each in prices]


def _best(terms: Terms, prices: Sequence[Floats], bands: Bands, sources: Sequence[str]) -> Lagrangian:
    sums = zip(terms.lagrangian_bytes, prices, strict=True)
    bounds = [float(total - band_price(price, bands)) for total, price in sums]
    best = int(np.argmax(bounds))
    return Lagrangian(bounds[best], prices[best], sources[best])


def _fits_one_task(cluster: SolvedCluster) -> bool:
    return is_small_enough(len(cluster.brokers), int(cluster.loads[:, REPLICAS].sum()))


def _may_prove_more(cluster: SolvedCluster, moved_bytes: int, bound: float, tuning: Tuning) -> bool:
    """Whether the shards of a cluster prove little, and one task can prove more."""
    return cluster.progress.shards > 1 and _fits_one_task(cluster) and moved_bytes > (1 + tuning.wide_gap) * bound


def _may_be_whole(cluster: SolvedCluster, moved_bytes: int, bound: float, tuning: Tuning) -> bool:
    """Whether prices leave a gap that may be of whole replicas, and one task can tell."""
    return _fits_one_task(cluster) and moved_bytes > (1 + tuning.whole_gap) * bound


def _by_clusters(
    placement: Placement,
    clusters: Clusters,
    frames: Mapping[str, ClusterFrame],
    proven: Mapping[str, Lagrangian],
) -> dict[str, Lagrangian]:
    """What the prices of clusters from their relaxations around the plan prove, where that is more."""
    mine = {c: frames[c] for c in proven}

    def prices_of(cluster_id: str, partitions: Partitions, reached: Ints) -> list[float]:
        return cluster_prices(mine[cluster_id], partitions, reached).ravel().tolist()

    prices = {}
    for c, found in placement.each_cluster(list(proven), prices_of).items():
        frame = frames[c]
        absolute = np.array(found, dtype=np.float64).reshape(frame.loads.shape) * (frame.scale[DISK] / frame.scale)
        prices[c] = [usable_prices(absolute, frame.bands)]
    terms = placement.terms(clusters, prices) if prices else {}
    return {
        c: max(proven[c], _best(terms[c], prices[c], frames[c].bands, ("cluster",)), key=_bound)
        for c in proven
        if c in prices
    }


def _by_whole_replicas(
    placement: Placement, frames: Mapping[str, ClusterFrame], proven: Mapping[str, Lagrangian]
) -> dict[str, Lagrangian]:
    """What the best prices prove where the bands of one broker are kept whole, where that is more."""
    mine = {c: (frames[c], lagrangian.prices) for c, lagrangian in proven.items()}

    def whole(cluster_id: str, partitions: Partitions, reached: Ints) -> tuple[float, ...]:
        frame, prices = mine[cluster_id]
        bound, broker_id = best_whole_bound(frame, partitions, prices, reached)
        return () if broker_id is None else (bound, broker_id)

    found = {c: values for c, values in placement.each_cluster(list(proven), whole).items() if values}
    kept = {c: replace(proven[c], bound=bound, broker_id=int(broker)) for c, (bound, broker) in found.items()}
    return {c: max(proven[c], of_whole, key=_bound) for c, of_whole in kept.items()}


def _bound(proven: Lagrangian) -> float:
    return proven.bound


def gap_percent(moved: int, bound: int) -> float | None:
    """How many more bytes are moved than a bound says (formula 15 of docs/solver.md); None where it says nothing."""
    if moved == bound:
        return 0.0
    return 100.0 * (moved / bound - 1) if bound > 0 else None


def _searched(cluster: SolvedCluster, moved_bytes: int) -> dict[str, tuple[int, str]]:
    """What was proven over all placements that keep bands and rules: of no use for a plan that does not."""
    lower, upper = whole_ends(cluster.bands)
    inside = ((cluster.loads >= lower) & (cluster.loads <= upper)).all()
    least = cluster.progress.search_bytes
    if least is None or not inside or least > moved_bytes:
        return {}
    return {"exact" if least == moved_bytes else "search": (least, "branch and bound over all placements")}


def _rows(cluster: SolvedCluster, terms: Terms, flow: int, proven: Lagrangian) -> list[ProvenBound]:
    """What ``bounds`` says of one cluster."""
    values = _searched(cluster, terms.moved_bytes)
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
