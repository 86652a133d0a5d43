"""The lower bounds of every cluster: one pass over the partitions with the prices in the closure.

Three sets of prices are tried, and the best one counts: those of the shards, each from the relaxation of its own
brokers, exact where shards are few; those of the classes, which agree over all brokers; and these mixed with the
flow's. Where that leaves a gap, and one task can hold the cluster, a fourth comes from its relaxation around the plan.
A small cluster has the bound of a search over all placements beside them: exact where it is what the plan moves.
"""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from optimizer.domain import Bands, Brokers, Floats, Ints
from optimizer.frames.classes import classes_of
from optimizer.frames.cluster import replica_matrix, to_partitions
from optimizer.solve.assemble import ClusterFrame
from optimizer.solve.bands import DISK, REPLICAS, Demand
from optimizer.solve.bound import (
    band_price,
    copies_of,
    flow_bytes,
    flow_prices,
    forced_bytes,
    partition_terms,
    usable_prices,
    widen,
)
from optimizer.solve.class_prices import Classes, class_prices
from optimizer.solve.cluster_prices import cluster_prices, is_small_enough
from optimizer.solve.exact import whole_limits
from optimizer.solve.sharding import replicas_stay_in_racks
from optimizer.stages import Run

ROWS_PER_CHUNK = 10_000
TERMS = "cluster_id string, prices int, moved_bytes bigint, forced_bytes bigint, lagrangian_bytes bigint"
PRICES = "cluster_id string, prices array<double>"
SOURCES = ("shards", "classes", "classes and flow", "cluster")
WIDE_GAP = 2e-3


class Solved(Protocol):
    """What the bounds need of a solved cluster."""

    brokers: Brokers
    limits: Bands
    scale: Floats
    loads_before: Floats
    loads: Floats
    prices: Floats
    demand: Demand
    search_bytes: int | None
    shards: int


def reached_by(frame: pd.DataFrame, ids: Ints, width: int) -> Ints:
    """Replicas after the plan, in the order of ``to_partitions``, (P, width)."""
    rows = frame.sort_values(["topic", "partition"], kind="stable")
    return replica_matrix(rows["current"], ids, width=width)


def _candidates(state: Solved, classes: Classes, limits: Bands) -> list[Floats]:
    """Prices in bytes per absolute unit of load, from each of SOURCES."""
    leave = not replicas_stay_in_racks(state.brokers, state.demand.replication_factor)
    of_classes = class_prices(state.brokers, classes, limits, state.scale, leave_racks=leave)
    shards, of_classes = (p * (state.scale[DISK] / state.scale) for p in (state.prices, of_classes))
    mixed = (of_classes + flow_prices(state.loads_before, limits)) / 2
    return [usable_prices(prices, limits) for prices in (shards, of_classes, mixed)]


def _of_whole_clusters(
    placement: DataFrame, states: Mapping[str, Solved], limits: Mapping[str, Bands]
) -> dict[str, Floats]:
    """Prices of some clusters from their relaxations around the plan, one task a cluster, in bytes per absolute unit;
    none where that fails."""
    frames = {c: ClusterFrame(s.brokers, limits[c], s.loads_before, s.scale) for c, s in states.items()}

    def of_cluster(frame: pd.DataFrame) -> pd.DataFrame:
        cluster_id = str(frame["cluster_id"].iloc[0])
        rows = frame.sort_values(["topic", "partition"], kind="stable")
        cluster = frames[cluster_id]
        partitions = to_partitions(rows, cluster.brokers.ids)
        reached = reached_by(rows, cluster.brokers.ids, partitions.replicas.shape[1])
        try:
            prices = cluster_prices(cluster, partitions, reached)
        except Exception:  # the other prices stand
            prices = np.zeros((0, len(cluster.scale)))
        return pd.DataFrame({"cluster_id": [cluster_id], "prices": [prices.ravel().tolist()]})

    rows = placement.where(F.col("cluster_id").isin(*states)).groupBy("cluster_id").applyInPandas(of_cluster, PRICES)
    found = {
        row.cluster_id: np.array(row.prices).reshape(-1, len(frames[row.cluster_id].scale)) for row in rows.collect()
    }
    absolute = {c: p * (states[c].scale[DISK] / states[c].scale) for c, p in sorted(found.items()) if len(p)}
    return {c: usable_prices(p, limits[c]) for c, p in absolute.items()}


def has_wide_gap(state: Solved, moved: int, bound: float) -> bool:
    """Whether the shards of a cluster prove little, and one task can prove more."""
    replicas = int(state.loads[:, REPLICAS].sum())
    is_small = is_small_enough(len(state.brokers), replicas)
    return state.shards > 1 and is_small and moved > (1 + WIDE_GAP) * bound


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
    """How much more bytes are moved than a bound says; None where it says nothing."""
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
    limits = {cluster_id: widen(s.limits, s.loads) for cluster_id, s in states.items()}
    brokers, scales = ({c: getattr(s, name) for c, s in states.items()} for name in ("brokers", "scale"))
    classes = classes_of(placement, brokers, scales)
    prices = {cluster_id: _candidates(s, classes[cluster_id], limits[cluster_id]) for cluster_id, s in states.items()}
    most = max((int(s.demand.load[:, REPLICAS].sum()) for s in states.values()), default=1)
    terms = _terms(placement, {c: (s.brokers, prices[c]) for c, s in states.items()}, most)

    def proven(cluster_id: str, row: Row, price: Floats) -> float:
        return float(row.lagrangian - band_price(price, limits[cluster_id]))

    duals = {c: [proven(c, terms[c, i], price) for i, price in enumerate(prices[c])] for c in states}
    wide = {c: s for c, s in states.items() if has_wide_gap(s, terms[c, 0].moved, max(0.0, *duals[c]))}
    more = _of_whole_clusters(placement, wide, limits) if wide else {}
    of_more = _terms(placement, {c: (states[c].brokers, [price]) for c, price in more.items()}, most)
    for cluster_id, price in more.items():
        duals[cluster_id].append(proven(cluster_id, of_more[cluster_id, 0], price))
    rows: list[dict[str, object]] = []
    for cluster_id, state in states.items():
        source = int(np.argmax(duals[cluster_id]))
        detail = (
            f"cheapest placement of every partition at the brokers' prices ({SOURCES[source]}), less the price of the "
            "bands"
        )
        moved = terms[cluster_id, 0].moved
        values = _searched(state, moved)
        values |= {
            "forced": (terms[cluster_id, 0].forced, "replicas on brokers to empty, over the rack cap, and missing"),
            "flow": (
                flow_bytes(state.loads_before, limits[cluster_id], state.loads),
                "disk that brokers must shed or receive",
            ),
            "lagrangian": (max(0, int(np.floor(duals[cluster_id][source]))), detail),
        }
        best = max(values, key=lambda kind: values[kind][0])
        for kind, (value, detail) in values.items():
            row = {"cluster_id": cluster_id, "run_id": run.run_id, "kind": kind, "bound_bytes": value}
            rows.append({**row, "gap_percent": gap_percent(moved, value), "is_best": kind == best, "detail": detail})
    return rows
