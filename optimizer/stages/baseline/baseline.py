"""Stage 4, baseline: instance, instance_brokers -> baseline (what Kafka's own tool would assign)."""

from collections import defaultdict
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
_READ = ("cluster_id", "topic", "partition", "replicas", "replication_factor")


# Of a partition: current replicas, replication factor, bytes of one copy to a broker that copies all and to one that
# skips what is tiered.
_Partition = tuple[list[int], int, list[int]]


def build(inputs: Frames, run: Run) -> Frames:
    """Place every topic of ``instance`` by the algorithm of its cluster's Kafka version.

    Notes
    -----
    The brokers are those that an operator would pass to ``--generate``: live ones that accept replicas. Topics are
    hashed into one group per shuffle partition: a group per topic would cost more than its placement.
    """
    hosts = inputs["instance_brokers"].collect()
    placers, skips_tiered = _default_placers(hosts, run.settings), defaultdict[str, set[int]](set)
    for row in hosts:
        if row.skips_tiered:
            skips_tiered[row.cluster_id].add(row.broker_id)
    copy_bytes = F.coalesce("copy_bytes", "size_bytes")
    sizes = F.array(copy_bytes, F.coalesce("tiered_copy_bytes", copy_bytes)).alias("copy_bytes")
    groups = int(run.spark.conf.get("spark.sql.shuffle.partitions") or 1)
    placed = (
        inputs["instance"]
        .select(*_READ, sizes, F.pmod(F.xxhash64("cluster_id", "topic"), F.lit(groups)).alias("bucket"))
        .repartitionByRange(groups, "bucket")
        .groupBy("bucket")
        .applyInPandas(_place_groups(placers, skips_tiered, run.settings.baseline.seed), _PLACED)
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


def _place_groups(
    placers: Mapping[str, DefaultPlacer], skips_tiered: Mapping[str, set[int]], seed: int
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def place_group(rows: pd.DataFrame) -> pd.DataFrame:
        # Plain lists: a DataFrame per topic would cost more than its placement.
        topics: dict[tuple[str, str], dict[int, _Partition]] = {}
        columns = [*_READ, "copy_bytes"]
        for cluster_id, topic, partition, replicas, factor, copy_bytes in rows[columns].itertuples(index=False):
            topics.setdefault((cluster_id, topic), {})[partition] = (replicas.tolist(), factor, copy_bytes.tolist())
        placed = [
            row
            for (cluster_id, topic), partitions in sorted(topics.items())
            for row in _place_topic(
                cluster_id, topic, partitions, placers[cluster_id], skips_tiered.get(cluster_id, set()), seed
            )
        ]
        return pd.DataFrame(placed, columns=_PLACED.names)

    return place_group


def _place_topic(
    cluster_id: str,
    topic: str,
    partitions: Mapping[int, _Partition],
    placer: DefaultPlacer,
    skips_tiered: set[int],
    seed: int,
) -> Iterator[tuple[object, ...]]:
    """Rows of one topic: what Kafka would assign, and what that would copy.

    Parameters
    ----------
    partitions : mapping
        By number.
    skips_tiered : set of int
        Brokers that copy only what is not in tiered storage.
    """
    factors = {partition: factor for partition, (_, factor, _) in partitions.items()}
    targets, error = place_or_refuse(placer, topic, factors, topic_seed(seed, cluster_id, topic))
    for partition, (current, _, copy_bytes) in partitions.items():
        target = targets[partition]
        added = set(target).difference(current)
        leader_changed = bool(target) and target[0] != current[0]
        sizes = (len(added), sum(copy_bytes[broker in skips_tiered] for broker in added))
        yield cluster_id, topic, partition, placer.algorithm, target, *sizes, leader_changed, error
