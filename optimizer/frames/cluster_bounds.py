"""What one task can tell about a whole cluster where the passes over its partitions leave a gap (``certificate``)."""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from optimizer.domain import Bands, Brokers, Floats, Ints, Partitions
from optimizer.frames.cluster import column_names, replica_matrix, to_partitions
from optimizer.solve.assemble import ClusterFrame
from optimizer.solve.bands import DISK, REPLICAS, Demand
from optimizer.solve.bound import usable_prices, widen
from optimizer.solve.cluster_prices import cluster_prices, is_small_enough
from optimizer.solve.whole_bound import best_whole_bound

PRICES = "cluster_id string, problem string, prices array<double>"
WHOLE = "cluster_id string, problem string, bound_bytes double, broker_id int"
WIDE_GAP = 2e-3  # between the plan and a bound of several shards: prices that agree are worth a relaxation
GAP = 1e-3  # between the plan and a bound by prices: a bound by whole replicas is tried
_LOG = logging.getLogger(__name__)


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


def _fits_one_task(state: Solved) -> bool:
    return is_small_enough(len(state.brokers), int(state.loads[:, REPLICAS].sum()))


def has_wide_gap(state: Solved, moved: int, bound: float) -> bool:
    """Whether the shards of a cluster prove little, and one task can prove more."""
    return state.shards > 1 and _fits_one_task(state) and moved > (1 + WIDE_GAP) * bound


def may_be_whole(state: Solved, moved: int, bound: float) -> bool:
    """Whether prices leave a gap that may be of whole replicas, and one task can tell."""
    return _fits_one_task(state) and moved > (1 + GAP) * bound


def reached_by(frame: pd.DataFrame, ids: Ints, width: int) -> Ints:
    """Replicas after the plan, in the order of ``to_partitions``, (P, width)."""
    rows = frame.sort_values(["topic", "partition"], kind="stable")
    return replica_matrix(rows["current"], ids, width=width)


def frame_of(state: Solved) -> ClusterFrame:
    """A cluster before the plan, with the bands that its bound speaks of: widened to what the plan reached."""
    return ClusterFrame(state.brokers, widen(state.limits, state.loads), state.loads_before, state.scale)


def _one_task_each(
    placement: DataFrame,
    frames: Mapping[str, ClusterFrame],
    found_by: Callable[[str, Partitions, Ints], dict[str, object]],
    schema: str,
) -> list[Row]:
    """What a function finds about each cluster from its partitions and the replicas after the plan; no row, but a
    warning, where it fails: the other bounds stand."""

    def of_cluster(frame: pd.DataFrame) -> pd.DataFrame:
        cluster_id = str(frame["cluster_id"].iloc[0])
        ids = frames[cluster_id].brokers.ids
        partitions = to_partitions(frame, ids)
        reached = reached_by(frame, ids, partitions.replicas.shape[1])
        row: dict[str, object] = dict.fromkeys(column_names(schema))
        try:
            row |= found_by(cluster_id, partitions, reached)
        except Exception as error:
            row["problem"] = f"{type(error).__name__}: {error}"
        return pd.DataFrame([row | {"cluster_id": cluster_id}], dtype=object)

    if not frames:
        return []
    mine = placement.where(F.col("cluster_id").isin(*frames))
    rows = mine.groupBy("cluster_id").applyInPandas(of_cluster, schema).collect()
    for row in rows:
        if row.problem:
            _LOG.warning("cluster %s: one of its bounds is left out, the others stand: %s", row.cluster_id, row.problem)
    return [row for row in rows if not row.problem]


def prices_of_clusters(placement: DataFrame, frames: Mapping[str, ClusterFrame]) -> dict[str, Floats]:
    """Prices of clusters from their relaxations around the plan, bytes per absolute unit of load, (B, D) each."""

    def prices(cluster_id: str, partitions: Partitions, reached: Ints) -> dict[str, object]:
        return {"prices": cluster_prices(frames[cluster_id], partitions, reached).ravel().tolist()}

    found = {}
    for row in _one_task_each(placement, frames, prices, PRICES):
        frame = frames[row.cluster_id]
        absolute = np.array(row.prices, dtype=np.float64).reshape(frame.loads.shape) * (frame.scale[DISK] / frame.scale)
        found[row.cluster_id] = usable_prices(absolute, frame.bands)
    return found


def whole_bounds(
    placement: DataFrame, frames: Mapping[str, ClusterFrame], prices: Mapping[str, Floats]
) -> dict[str, tuple[float, int]]:
    """Bounds of clusters that keep the bands of one broker whole, in bytes, and the id of that broker."""

    def whole(cluster_id: str, partitions: Partitions, reached: Ints) -> dict[str, object]:
        bound, broker_id = best_whole_bound(frames[cluster_id], partitions, prices[cluster_id], reached)
        return {"bound_bytes": bound, "broker_id": broker_id}

    rows = _one_task_each(placement, frames, whole, WHOLE)
    return {row.cluster_id: (row.bound_bytes, row.broker_id) for row in rows if row.broker_id is not None}
