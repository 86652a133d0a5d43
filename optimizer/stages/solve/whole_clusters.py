"""What the bounds ask of all partitions of a cluster: sums over chunks, and what one task tells of it whole."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.domain import Floats, Ints
from optimizer.solve.bounds.terms import Terms, sum_of_terms
from optimizer.solve.placement import LEFT_OUT, OfCluster
from optimizer.solve.rounds.solved_cluster import Clusters
from optimizer.solve.rules.resources import REPLICAS
from optimizer.stages.shared.arrays import placed

ROWS_PER_CHUNK = 10_000  # partitions of a task: seconds of work each
TERMS = "cluster_id string, prices int, moved_bytes bigint, forced_bytes bigint, lagrangian_bytes bigint"
FOUND = "cluster_id string, problem string, found array<double>"
_LOG = logging.getLogger(__name__)


def terms_of(placement: DataFrame, clusters: Clusters, prices: Mapping[str, Sequence[Floats]]) -> dict[str, Terms]:
    """Sums of each cluster that has prices; as many chunks as the largest of all clusters needs."""
    hosts = {cluster_id: clusters[cluster_id].brokers for cluster_id in prices}

    def chunk(frame: pd.DataFrame) -> pd.DataFrame:
        cluster_id = str(frame["cluster_id"].iloc[0])
        brokers = hosts[cluster_id]
        _, partitions, reached = placed(frame, brokers.ids)
        terms = sum_of_terms(brokers, partitions, prices[cluster_id], reached)
        return pd.DataFrame({"cluster_id": cluster_id, "prices": range(len(terms.lagrangian_bytes)), **asdict(terms)})

    most = max((int(one.demand.load[:, REPLICAS].sum()) for one in clusters.values()), default=1)
    chunks = max(1, -(-most // ROWS_PER_CHUNK))
    mine = placement.where(F.col("cluster_id").isin(*prices))
    keyed = mine.withColumn("chunk", F.pmod(F.xxhash64("topic", "partition"), F.lit(chunks)))
    sums = keyed.groupBy("cluster_id", "chunk").applyInPandas(chunk, TERMS).groupBy("cluster_id", "prices")
    kinds = ("moved", "forced", "lagrangian")
    total = sums.agg(*(F.sum(f"{kind}_bytes").alias(kind) for kind in kinds))
    found: dict[str, list[tuple[int, int, int]]] = {}
    for row in total.orderBy("cluster_id", "prices").collect():
        found.setdefault(row.cluster_id, []).append((row.moved, row.forced, row.lagrangian))
    return {c: Terms(rows[0][0], rows[0][1], tuple(row[2] for row in rows)) for c, rows in found.items()}


def each_cluster(placement: DataFrame, hosts: Mapping[str, Ints], found_by: OfCluster) -> dict[str, Sequence[float]]:
    """What a function finds of each cluster, given the ids of its brokers; one that fails has no entry, but a warning:
    the other bounds stand."""
    if not hosts:
        return {}

    def of_cluster(frame: pd.DataFrame) -> pd.DataFrame:
        cluster_id = str(frame["cluster_id"].iloc[0])
        _, partitions, reached = placed(frame, hosts[cluster_id])
        row: dict[str, object] = {"cluster_id": cluster_id, "problem": None, "found": None}
        try:
            row["found"] = list(found_by(cluster_id, partitions, reached))
        except Exception as error:
            row["problem"] = f"{type(error).__name__}: {error}"
        return pd.DataFrame([row], dtype=object)

    mine = placement.where(F.col("cluster_id").isin(*hosts))
    rows = mine.groupBy("cluster_id").applyInPandas(of_cluster, FOUND).collect()
    for row in rows:
        if row.problem:
            _LOG.warning(LEFT_OUT, row.cluster_id, row.problem)
    return {row.cluster_id: row.found for row in rows if not row.problem}
