"""The lower bounds of every cluster: one pass over the partitions with the prices in the closure.

Three sets of prices are tried, and the best one counts: those of the shards, each from the relaxation of its own
brokers, exact where shards are few; those of the classes, which agree over all brokers; and these mixed with the
flow's. Where that leaves a gap, and one task can hold the cluster, a fourth comes from its relaxation around the plan,
and the bands of one broker are kept whole instead of priced (``cluster_bounds``). A small cluster has the bound of a
search over all placements beside them: exact where it is what the plan moves.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from optimizer.domain import Bands, Brokers, Floats
from optimizer.frames.classes import classes_of
from optimizer.frames.cluster import to_partitions
from optimizer.frames.cluster_bounds import (
    Solved,
    frame_of,
    has_wide_gap,
    may_be_whole,
    prices_of_clusters,
    reached_by,
    whole_bounds,
)
from optimizer.solve.bands import DISK, REPLICAS
from optimizer.solve.bound import band_price, copies_of, flow_bytes, flow_prices, forced_bytes, usable_prices
from optimizer.solve.class_prices import Classes, class_prices
from optimizer.solve.exact import whole_limits
from optimizer.solve.sharding import replicas_stay_in_racks
from optimizer.solve.terms import partition_terms
from optimizer.stages import Run

_LOG = logging.getLogger(__name__)
ROWS_PER_CHUNK = 10_000
TERMS = "cluster_id string, prices int, moved_bytes bigint, forced_bytes bigint, lagrangian_bytes bigint"
SOURCES = ("shards", "classes", "classes and flow")


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


def _candidates(cluster_id: str, state: Solved, classes: Classes, limits: Bands) -> list[Floats]:
    """Prices in bytes per absolute unit of load, from each of SOURCES; those of the shards alone, with a warning, where
    the classes' program fails."""
    leave = not replicas_stay_in_racks(state.brokers, state.demand.replication_factor)
    per_unit = state.scale[DISK] / state.scale
    prices = [state.prices * per_unit]
    try:
        of_classes = class_prices(state.brokers, classes, limits, state.scale, leave_racks=leave)
    except ArithmeticError as error:
        _LOG.warning("cluster %s: no prices from classes, the other bounds stand: %s", cluster_id, error)
    else:
        of_classes = of_classes * per_unit
        prices += [of_classes, (of_classes + flow_prices(state.loads_before, limits)) / 2]
    return [usable_prices(each, limits) for each in prices]


def _terms(
    placement: DataFrame, hosts: dict[str, tuple[Brokers, list[Floats]]], most: int
) -> dict[tuple[str, int], Row]:
    """Sums of the bytes that the plan moves, of the forced ones, and of the Lagrangian's terms at each of the prices,
    rounded down to whole bytes partition by partition; ``most`` are the partitions of the largest cluster."""

    def chunk(frame: pd.DataFrame) -> pd.DataFrame:
        cluster_id = str(frame["cluster_id"].iloc[0])
        brokers, candidates = hosts[cluster_id]
        partitions = to_partitions(frame, brokers.ids)
        reached = reached_by(frame, brokers.ids, partitions.replicas.shape[1])
        terms = [np.floor(partition_terms(brokers, partitions, p, reached)).astype(np.int64).sum() for p in candidates]
        return pd.DataFrame(
            {
                "cluster_id": cluster_id,
                "prices": range(len(terms)),
                "moved_bytes": (copies_of(partitions.replicas, reached) * partitions.size_bytes).sum(),
                "forced_bytes": forced_bytes(brokers, partitions, reached).sum(),
                "lagrangian_bytes": terms,
            }
        )

    if not hosts:
        return {}
    chunks = max(1, -(-most // ROWS_PER_CHUNK))
    mine = placement.where(F.col("cluster_id").isin(*hosts))
    keyed = mine.withColumn("chunk", F.pmod(F.xxhash64("topic", "partition"), F.lit(chunks)))
    sums = keyed.groupBy("cluster_id", "chunk").applyInPandas(chunk, TERMS).groupBy("cluster_id", "prices")
    kinds = ("moved", "forced", "lagrangian")
    total = sums.agg(*(F.sum(f"{kind}_bytes").alias(kind) for kind in kinds))
    return {(row.cluster_id, row.prices): row for row in total.collect()}


def gap_percent(moved: int, bound: int) -> float | None:
    """How many more bytes are moved than a bound says (formula 15 of docs/solver.md); None where it says nothing."""
    if moved == bound:
        return 0.0
    return 100.0 * (moved / bound - 1) if bound > 0 else None


def _searched(state: Solved, moved_bytes: int) -> dict[str, tuple[int, str]]:
    """What was proven over all placements that keep bands and rules: of no use for a plan that does not."""
    lower, upper = whole_limits(state.limits)
    inside = ((state.loads >= lower) & (state.loads <= upper)).all()
    least = state.search_bytes
    if least is None or not inside or least > moved_bytes:
        return {}
    return {"exact" if least == moved_bytes else "search": (least, "branch and bound over all placements")}


def bound_rows(placement: DataFrame, states: Mapping[str, Solved], run: Run) -> list[dict[str, object]]:
    """Rows of ``bounds``: forced, flow and lagrangian of each cluster, against bands widened to what the plan
    reached, and what a search has proven."""
    frames = {cluster_id: frame_of(s) for cluster_id, s in states.items()}
    brokers, scales = ({c: getattr(s, name) for c, s in states.items()} for name in ("brokers", "scale"))
    classes = classes_of(placement, brokers, scales)
    prices = {c: _candidates(c, s, classes[c], frames[c].bands) for c, s in states.items()}
    most = max((int(s.demand.load[:, REPLICAS].sum()) for s in states.values()), default=1)
    terms = _terms(placement, {c: (s.brokers, prices[c]) for c, s in states.items()}, most)
    moved = {c: terms[c, 0].moved for c in states}
    proven = {c: _best(terms, c, prices[c], frames[c].bands, SOURCES) for c in states}
    wide = {c: frames[c] for c, s in states.items() if has_wide_gap(s, moved[c], max(0.0, proven[c].bound))}
    more = prices_of_clusters(placement, wide)
    of_more = _terms(placement, {c: (states[c].brokers, [price]) for c, price in more.items()}, most)
    for c, price in more.items():
        proven[c] = max(proven[c], _best(of_more, c, [price], frames[c].bands, ("cluster",)), key=_bound)
    flow = {c: flow_bytes(frames[c].loads, frames[c].bands, s.loads) for c, s in states.items()}
    known = {c: max(proven[c].bound, terms[c, 0].forced, flow[c]) for c in states}
    gaps = {c: frames[c] for c, s in states.items() if may_be_whole(s, moved[c], known[c])}
    for c, (bound, broker_id) in whole_bounds(placement, gaps, {c: proven[c].prices for c in gaps}).items():
        proven[c] = max(proven[c], replace(proven[c], bound=bound, broker_id=broker_id), key=_bound)
    rows = {c: _rows(s, terms[c, 0], flow[c], proven[c]) for c, s in states.items()}
    return [{"cluster_id": c, "run_id": run.run_id, **row} for c in states for row in rows[c]]


def _bound(proven: Lagrangian) -> float:
    return proven.bound


def _best(
    terms: Mapping[tuple[str, int], Row], cluster_id: str, prices: list[Floats], limits: Bands, sources: Sequence[str]
) -> Lagrangian:
    bounds = [float(terms[cluster_id, i].lagrangian - band_price(price, limits)) for i, price in enumerate(prices)]
    best = int(np.argmax(bounds))
    return Lagrangian(bounds[best], prices[best], sources[best])


def _rows(state: Solved, sums: Row, flow: int, proven: Lagrangian) -> list[dict[str, object]]:
    """What ``bounds`` says of one cluster."""
    values = _searched(state, sums.moved)
    values |= {
        "forced": (sums.forced, "replicas on brokers to empty, over the rack cap, and missing"),
        "flow": (flow, "disk that brokers must shed or receive"),
        "lagrangian": (max(0, int(np.floor(proven.bound))), proven.detail),
    }
    best = max(values, key=lambda kind: values[kind][0])
    return [
        {
            "kind": kind,
            "bound_bytes": value,
            "gap_percent": gap_percent(sums.moved, value),
            "is_best": kind == best,
            "detail": detail,
        }
        for kind, (value, detail) in values.items()
    ]
