"""The lower bounds of every cluster: one pass over the partitions with the prices in the closure."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.domain import Bands, Brokers, Floats, Ints
from optimizer.frames.cluster import replica_matrix, to_partitions
from optimizer.solve.bands import DISK
from optimizer.solve.bound import band_price, flow_bytes, forced_bytes, partition_terms, usable_prices, widen
from optimizer.stages import Run

ROWS_PER_CHUNK = 10_000
TERMS = "cluster_id string, forced_bytes bigint, lagrangian_bytes bigint"


class Solved(Protocol):
    """What the bounds need of a solved cluster."""

    brokers: Brokers
    limits: Bands
    scale: Floats
    loads_before: Floats
    loads: Floats
    prices: Floats


def reached_by(frame: pd.DataFrame, ids: Ints, width: int) -> Ints:
    """Replicas after the plan, in the order of ``to_partitions``, (P, width)."""
    rows = frame.sort_values(["topic", "partition"], kind="stable")
    return replica_matrix(rows["current"], ids, width=width)


def _absolute_prices(state: Solved, limits: Bands) -> Floats:
    """Prices in bytes per absolute unit of load."""
    return usable_prices(state.prices * (state.scale[DISK] / state.scale), limits)


def _terms(placement: DataFrame, hosts: dict[str, tuple[Brokers, Floats]]) -> dict[str, tuple[int, int]]:
    """Sums of the forced bytes and the Lagrangian's terms, rounded down to whole bytes partition by partition."""

    def chunk(frame: pd.DataFrame) -> pd.DataFrame:
        cluster_id = str(frame["cluster_id"].iloc[0])
        brokers, prices = hosts[cluster_id]
        partitions = to_partitions(frame, brokers.ids)
        reached = reached_by(frame, brokers.ids, partitions.replicas.shape[1])
        terms = np.floor(partition_terms(brokers, partitions, prices, reached)).astype(np.int64)
        forced = forced_bytes(brokers, partitions, reached)
        return pd.DataFrame(
            {"cluster_id": [cluster_id], "forced_bytes": [forced.sum()], "lagrangian_bytes": [terms.sum()]}
        )

    rows = placement.groupBy("cluster_id").count().collect()
    most = max((row["count"] for row in rows), default=1)
    chunks = max(1, -(-most // ROWS_PER_CHUNK))
    keyed = placement.withColumn("chunk", F.pmod(F.xxhash64("topic", "partition"), F.lit(chunks)))
    sums = keyed.groupBy("cluster_id", "chunk").applyInPandas(chunk, TERMS).groupBy("cluster_id")
    total = sums.agg(F.sum("forced_bytes").alias("forced"), F.sum("lagrangian_bytes").alias("lagrangian"))
    return {row.cluster_id: (int(row.forced), int(row.lagrangian)) for row in total.collect()}


def bound_rows(placement: DataFrame, states: Mapping[str, Solved], run: Run) -> list[dict[str, object]]:
    """Rows of ``bounds``: forced, flow and lagrangian of each cluster, against bands widened to what the plan
    reached."""
    limits = {cluster_id: widen(s.limits, s.loads) for cluster_id, s in states.items()}
    prices = {cluster_id: _absolute_prices(s, limits[cluster_id]) for cluster_id, s in states.items()}
    terms = _terms(placement, {c: (s.brokers, prices[c]) for c, s in states.items()})
    rows: list[dict[str, object]] = []
    for cluster_id, state in states.items():
        forced, term = terms[cluster_id]
        values = {
            "forced": (forced, "replicas on brokers to empty, and over the rack cap"),
            "flow": (flow_bytes(state.loads_before, limits[cluster_id]), "disk that brokers must shed or receive"),
            "lagrangian": (
                max(0, int(np.floor(term - band_price(prices[cluster_id], limits[cluster_id])))),
                "cheapest placement of every partition at the brokers' prices, less the price of the bands",
            ),
        }
        best = max(values, key=lambda kind: values[kind][0])
        for kind, (value, detail) in values.items():
            row = {"cluster_id": cluster_id, "run_id": run.run_id, "kind": kind, "bound_bytes": value}
            rows.append({**row, "is_best": kind == best, "detail": detail})
    return rows
