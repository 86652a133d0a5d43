"""Stage 4, baseline: instance, instance_brokers -> baseline (what Kafka's own tool would assign)."""

from collections.abc import Callable, Iterator, Mapping

import pandas as pd
from pyspark.sql import Row
from pyspark.sql import functions as F

from optimizer.kafka.broker import Broker
from optimizer.kafka.default_assignment import DefaultPlacer, default_placer, place_or_refuse, topic_seed
from optimizer.kafka.versions import default_algorithm
from optimizer.settings import Settings
from optimizer.stages.stage import Frames, Run
from schemas.planning import BASELINE
from schemas.spark import conform, struct_of

_LIVING = ("alive", "new")
_PLACED = struct_of(column for column in BASELINE.columns if column.name != "run_id")
_READ = ("cluster_id", "topic", "partition", "replicas", "replication_factor", "size_bytes")


def build(inputs: Frames, run: Run) -> Frames:
    """Place every topic of ``instance`` by the algorithm of its cluster's Kafka version.

    Notes
    -----
    The brokers are those that an operator would pass to ``--generate``: live ones that accept replicas. Topics are
    hashed into one group per shuffle partition: a group per topic would cost more than its placement.
    """
    placers = _default_placers(inputs["instance_brokers"].collect(), run.settings)
    groups = int(run.spark.conf.get("spark.sql.shuffle.partitions") or 1)
    placed = (
        inputs["instance"]
        .select(*_READ, F.pmod(F.xxhash64("cluster_id", "topic"), F.lit(groups)).alias("bucket"))
        .repartitionByRange(groups, "bucket")
        .groupBy("bucket")
        .applyInPandas(_place_groups(placers, run.settings.baseline.seed), _PLACED)
    )
    return {"baseline": conform(placed.withColumn("run_id", F.lit(run.run_id)), BASELINE)}


def _default_placers(rows: list[Row], settings: Settings) -> dict[str, DefaultPlacer]:
    """By cluster id. A cluster without a broker that accepts replicas has one, too; Kafka then refuses every topic."""
    versions = settings.kafka_versions()
    brokers: dict[str, list[Broker]] = {}
    for row in rows:
        usable = brokers.setdefault(row.cluster_id, [])
        if row.accepts_replicas and not row.must_empty and row.state in _LIVING:
            usable.append(Broker(row.broker_id, row.rack))
    algorithm = settings.baseline.algorithm
    return {
        cluster_id: default_placer(
            default_algorithm(versions.get(cluster_id, "")) if algorithm == "auto" else algorithm, usable
        )
        for cluster_id, usable in brokers.items()
    }


def _place_groups(placers: dict[str, DefaultPlacer], seed: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def place_group(rows: pd.DataFrame) -> pd.DataFrame:
        # Plain lists: a DataFrame per topic would cost more than its placement.
        topics: dict[tuple[str, str], dict[int, tuple[list[int], int, int]]] = {}
        for cluster_id, topic, partition, replicas, factor, size_bytes in rows[list(_READ)].itertuples(index=False):
            topics.setdefault((cluster_id, topic), {})[partition] = (replicas.tolist(), factor, size_bytes)
        placed = [
            row
            for (cluster_id, topic), partitions in sorted(topics.items())
            for row in _place_topic(cluster_id, topic, partitions, placers[cluster_id], seed)
        ]
        return pd.DataFrame(placed, columns=_PLACED.names)

    return place_group


def _place_topic(
    cluster_id: str, topic: str, partitions: Mapping[int, tuple[list[int], int, int]], placer: DefaultPlacer, seed: int
) -> Iterator[tuple[object, ...]]:
    """Rows of one topic: what Kafka would assign, and what that would copy.

    Parameters
    ----------
    partitions : mapping
        (current replicas, replication factor, size in bytes) by partition.
    """
    factors = {partition: factor for partition, (_, factor, _) in partitions.items()}
    targets, error = place_or_refuse(placer, topic, factors, topic_seed(seed, cluster_id, topic))
    for partition, (current, _, size_bytes) in partitions.items():
        target = targets[partition]
        added = len(set(target).difference(current))
        leader_changed = bool(target) and target[0] != current[0]
        sizes = (added, added * size_bytes)
        yield cluster_id, topic, partition, placer.algorithm, target, *sizes, leader_changed, error
