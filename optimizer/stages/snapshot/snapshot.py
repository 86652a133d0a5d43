"""Stage 3, snapshot: silver tables and policy -> instance, instance_brokers.

The rules are in ``planning.policy``. Brokers are few, so the driver applies them; partitions stay in Spark.
"""

from collections.abc import Iterable, Mapping

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from optimizer.domain import OFFSETS, UPPER_BOUND
from optimizer.errors import BallastError
from optimizer.kafka.versions import completion_rule
from optimizer.planning.policy import brokers as broker_rules
from optimizer.planning.policy import partitions as partition_rules
from optimizer.planning.policy import topic_mosts as most_rules
from optimizer.planning.policy.refusals import known_of, names_any, unknown_names, unmet_by_brokers
from optimizer.planning.policy.topics import conflicting_factors
from optimizer.settings import Settings
from optimizer.stages.stage import Frames, Refusals, Run
from schemas.keys import RUN_BROKER, RUN_PARTITION
from schemas.planning import INSTANCE, INSTANCE_BROKERS
from schemas.spark import compute_once, conform, nullable_struct_of, small_frame, struct_of
from sources.offsets import TIERED

# Columns of ``instance`` that are set for each partition alone, and those that need all partitions of its topic.
_MOSTS = tuple(column for column in INSTANCE.columns if column.name in most_rules.COLUMNS)
_ALONE = tuple(column for column in INSTANCE.columns if column not in _MOSTS)
_FACTS = tuple(column.name for column in _ALONE if column.name not in partition_rules.DECIDED)
_DECIDED_BROKERS = tuple(c for c in INSTANCE_BROKERS.columns if c.name in (*RUN_BROKER, *broker_rules.DECIDED))
_TOPIC_COLUMNS = ("configs", "min_insync_replicas", "min_insync_source", "allows_unclean_election")
Hosts = Mapping[str, pd.DataFrame]  # rows of ``instance_brokers`` by cluster


def build(inputs: Frames, run: Run) -> Frames:
    """Apply the policy to brokers and partitions."""
    hosts = decide_brokers(inputs["brokers"], inputs["replicas"], run.settings)
    brokers = small_frame(
        run.spark, [row for rows in hosts.values() for row in _rows(rows)], struct_of(_DECIDED_BROKERS)
    )
    given = inputs["brokers"].drop(*broker_rules.DECIDED)
    brokers = with_log_dirs(brokers.join(given, RUN_BROKER), inputs["log_dirs"])
    # Computed once: the limits of topics and the rows themselves both need them.
    partitions = compute_once(decide_partitions(partition_facts(inputs), hosts, run.settings))
    return {
        "instance": conform(with_topic_most(partitions, hosts, run.settings), INSTANCE),
        "instance_brokers": conform(brokers, INSTANCE_BROKERS),
    }


def _rows(brokers: pd.DataFrame) -> list[dict[str, object]]:
    columns = [column.name for column in _DECIDED_BROKERS]
    return [{str(name): value for name, value in row.items()} for row in brokers[columns].to_dict("records")]


def gate(frames: Frames, run: Run) -> Refusals:
    """Clusters that can't meet their policy.

    A list or a pin names an unknown broker or rack, no broker may hold replicas, patterns request different replication
    factors for a topic, or ``only`` is "drain" but the policy drains no broker.
    """
    policies = run.settings.cluster_policies()
    refusals: dict[str, BallastError | None] = {}
    if any(policy.replication_factors for policy in policies.values()):
        topics = frames["replicas"].select("cluster_id", "topic").distinct().toPandas()
        for cluster_id, rows in topics.groupby("cluster_id", sort=True):
            refusals[str(cluster_id)] = conflicting_factors(str(cluster_id), rows["topic"], policies[str(cluster_id)])
    hosts = frames["instance_brokers"].select("cluster_id", "accepts_replicas", "must_empty").toPandas()
    for cluster_id, rows in hosts.groupby("cluster_id", sort=True):
        unmet = unmet_by_brokers(str(cluster_id), rows, policies[str(cluster_id)])
        refusals[str(cluster_id)] = unmet or refusals.get(str(cluster_id))
    if any(map(names_any, policies.values())):
        brokers = frames["brokers"].select("cluster_id", "broker_id", "rack").toPandas()
        for cluster_id, rows in brokers.groupby("cluster_id", sort=True):
            unknown = unknown_names(str(cluster_id), known_of(rows), policies[str(cluster_id)])
            refusals[str(cluster_id)] = unknown or refusals.get(str(cluster_id))
    return {cluster_id: error for cluster_id, error in refusals.items() if error}


def decide_brokers(brokers: DataFrame, replicas: DataFrame, settings: Settings) -> Hosts:
    """Brokers of each cluster under its policy, without directories.

    Parameters
    ----------
    brokers, replicas : DataFrame
        Rows of the silver tables.
    """
    with_replicas = replicas.select(*RUN_BROKER, F.lit(True).alias("holds")).distinct()
    joined = brokers.join(with_replicas, RUN_BROKER, "left").fillna(False, ["holds"])
    facts = joined.toPandas().assign(log_dirs=None)  # the rules do not read directories
    policies, rack_policy = settings.cluster_policies(), settings.policy.rack_policy
    return {
        str(cluster_id): broker_rules.decide_brokers(
            rows.sort_values("broker_id"), policies[str(cluster_id)], rack_policy=rack_policy
        )
        for cluster_id, rows in facts.groupby("cluster_id", sort=True)
    }


def with_log_dirs(brokers: DataFrame, log_dirs: DataFrame) -> DataFrame:
    """Brokers with their directories. A directory that has failed or is cordoned is not open.

    If a broker's only directory has no capacity of its own, it gets the broker's.
    """
    fields = (
        "log_dir AS path",
        "capacity_bytes",
        "used_bytes",
        "coalesce(logs, 0) AS logs",
        "error IS NULL AND NOT coalesce(is_cordoned, false) AS is_open",
    )
    entry = F.expr(f"struct({', '.join(fields)})")
    by_broker = log_dirs.groupBy(*RUN_BROKER).agg(F.array_sort(F.collect_list(entry)).alias("log_dirs"))
    broker_capacity = F.when(F.size("log_dirs") == 1, F.col("disk_capacity_bytes"))
    sized = F.transform(
        "log_dirs", lambda disk: disk.withField("capacity_bytes", F.coalesce(disk["capacity_bytes"], broker_capacity))
    )
    return brokers.join(by_broker, RUN_BROKER, "left").withColumn("log_dirs", sized)


def partition_facts(inputs: Frames) -> DataFrame:
    """Partitions with ordered replicas, load and configs: what ``planning.policy.partitions`` reads.

    Parameters
    ----------
    inputs : mapping
        ``replicas``, ``topics`` and ``partition_load``.
    """
    entry = F.struct("position", "broker_id", F.coalesce("log_dir", F.lit("any")).alias("log_dir"))
    target = F.array_sort(F.collect_list(F.when(~F.col("is_removing"), entry)))
    gathered = (
        inputs["replicas"]
        .groupBy(*RUN_PARTITION)
        .agg(
            target.alias("target"),
            F.max(F.when(F.col("is_leader"), F.col("broker_id"))).alias("leader"),
            F.array_sort(F.collect_list(F.when(F.col("in_sync"), F.col("broker_id")))).alias("isr"),
            F.max(F.col("is_adding") | F.col("is_removing")).alias("in_flight"),
            F.array_sort(F.collect_list(entry)).alias("whole_list"),
            F.array_sort(F.collect_list(F.when(F.col("is_adding"), F.col("broker_id")))).alias("added"),
            _if_known("in_elr").alias("elr"),
            _if_known("is_observer").alias("observers"),
        )
    )
    targets = {
        "replicas": F.col("target.broker_id"),
        "log_dirs": F.col("target.log_dir"),
        "controller_replicas": F.when(F.col("in_flight"), F.col("whole_list.broker_id")),
        "adding_replicas": F.when(F.col("in_flight"), F.col("added")),
    }
    of_topics = inputs["topics"].select("cluster_id", "topic", *_TOPIC_COLUMNS)
    joined = gathered.withColumns(targets).join(inputs["partition_load"], RUN_PARTITION, "left")
    with_topics = joined.join(of_topics, ["cluster_id", "topic"], "left").withColumns(_copies())
    return with_topics.select(*_FACTS, "configs")


def _copies() -> dict[str, Column]:
    """The bytes of a copy, and where they are from; of a topic that is not tiered, its size.

    Of a tiered topic Kafka copies what the leader has on its disk, and to a broker that skips tiered records only those
    that are not in tiered storage yet.
    """
    is_tiered = F.col("configs").rlike(rf"(?:^|,){TIERED.replace('.', '[.]')}=true\b")
    known = is_tiered & F.col("leader_bytes").isNotNull() & F.col("local_records").isNotNull()
    copied = F.when(known, F.least("leader_bytes", "size_bytes")).otherwise(F.col("size_bytes"))
    share = F.try_divide(F.col("untiered_records").cast("double"), F.col("local_records"))
    tail = F.least(F.ceil(copied * F.coalesce(share, F.lit(0.0))), copied)
    return {
        "copy_bytes": copied,
        "tiered_copy_bytes": F.when(known & F.col("untiered_records").isNotNull(), tail),
        "copy_source": F.when(known, OFFSETS).when(is_tiered, UPPER_BOUND).otherwise("size"),
    }


def _if_known(flag: str) -> Column:
    """Brokers of the replicas with the flag, ascending; null if no replica of the partition has a value."""
    return F.when(F.max(flag).isNotNull(), F.array_sort(F.collect_list(F.when(F.col(flag), F.col("broker_id")))))


def decide_partitions(facts: DataFrame, hosts: Hosts, settings: Settings) -> DataFrame:
    """Partitions under the policies of their clusters, without the limits of their topics.

    Parameters
    ----------
    facts : DataFrame
        As from ``partition_facts``.
    hosts : mapping
        As from ``decide_brokers``.
    """
    policies, policy, columns = settings.cluster_policies(), settings.policy, [column.name for column in _ALONE]
    completion = {cluster_id: completion_rule(version) for cluster_id, version in settings.kafka_versions().items()}

    def decide_cluster(rows: pd.DataFrame, cluster_id: str) -> pd.DataFrame:
        return partition_rules.decide_partitions(
            rows, hosts[cluster_id], policies[cluster_id], policy, completion[cluster_id]
        )[columns]

    def decide(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for batch in batches:
            yield pd.concat(
                decide_cluster(rows, str(cluster_id)) for cluster_id, rows in batch.groupby("cluster_id", sort=True)
            )

    return facts.mapInPandas(decide, nullable_struct_of(_ALONE))


def with_topic_most(partitions: DataFrame, hosts: Hosts, settings: Settings) -> DataFrame:
    """Partitions with the limits of their topics; null without a policy and for pinned topics."""
    policy = settings.policy
    if not (policy.topic_spread or policy.topic_leader_spread):
        return partitions.withColumns({name: F.lit(None).cast("int") for name in most_rules.COLUMNS})

    def mosts(counts: pd.DataFrame) -> pd.DataFrame:
        cluster_id = str(counts["cluster_id"].iloc[0])
        limits = most_rules.topic_mosts(counts, hosts[cluster_id], policy)
        return limits.assign(cluster_id=cluster_id)[["cluster_id", "topic", *most_rules.COLUMNS]]

    keys = [column for column in INSTANCE.columns if column.name in ("cluster_id", "topic")]
    counts = partitions.where("pinned_brokers IS NULL").groupBy("cluster_id", "topic", "replication_factor")
    counted = counts.agg(F.count("*").alias("partitions")).groupBy("cluster_id")
    limits = counted.applyInPandas(mosts, nullable_struct_of([*keys, *_MOSTS]))
    return partitions.join(limits, ["cluster_id", "topic"], "left")
