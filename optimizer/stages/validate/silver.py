"""Build the silver tables topics, replicas and partition_load from checked records.

Module ``silver_brokers`` builds brokers and log_dirs.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.domain import PLACEMENT_RULE
from optimizer.stages.shared.records import newest_first, whole_number
from optimizer.stages.validate.metric_rates import RATES, WINDOW_RATES
from optimizer.stages.validate.rule_table import HAS_SCHEME
from schemas.keys import CLUSTER_RUN, RUN_BROKER, RUN_PARTITION
from sources.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, PENDING_UPLOAD, REPLICA_LATEST, TIMES

# org.apache.kafka.common.internals.Topic (4.3): Kafka's own topics.
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
MIN_ISR, _UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


def partitions_in_flight(placed: DataFrame, reassignments: DataFrame) -> DataFrame:
    """Add the adding and removing replicas to placements.

    They are from the description, or else from the list of reassignments: before Kafka 2.6 descriptions do not show
    them. ZooKeeper's list has only the targets: all replicas of the description that are not in the target leave.
    """
    # A script may poll and append to the same file: the last line is the newest.
    newest = Window.partitionBy(*RUN_PARTITION).orderBy(*newest_first(), F.desc("ordinal"))
    listed = (
        reassignments.withColumn("rank", F.row_number().over(newest))
        .where("rank = 1")
        .select(
            *RUN_PARTITION,
            F.col("replicas").alias("moving_replicas"),
            F.col("adding").alias("listed_adding"),
            F.col("removing").alias("listed_removing"),
        )
    )
    joined = placed.join(listed, RUN_PARTITION, "left")
    only_in_list = F.expr("size(adding) + size(removing) = 0 AND moving_replicas IS NOT NULL")
    is_target = only_in_list & F.col("listed_adding").isNull()
    uses_listed_replicas = only_in_list & (F.col("kind") == "assignment")
    # Which replicas were added is unknown. A partition in flight must have one: those out of sync, else the last one.
    out_of_sync = F.array_except("moving_replicas", "isr")
    added = F.when(F.size(out_of_sync) > 0, out_of_sync).otherwise(F.slice("moving_replicas", -1, 1))
    left = F.array_except("replicas", "moving_replicas")
    return joined.withColumns(
        {
            "replicas": F.when(is_target, F.concat("moving_replicas", left))
            .when(uses_listed_replicas, F.col("moving_replicas"))
            .otherwise(F.col("replicas")),
            "adding": F.when(is_target, added).when(only_in_list, F.col("listed_adding")).otherwise(F.col("adding")),
            "removing": F.when(is_target, left)
            .when(only_in_list, F.coalesce("listed_removing", "removing"))
            .otherwise(F.col("removing")),
        }
    ).drop("moving_replicas", "listed_adding", "listed_removing")


def local_sizes(sizes: DataFrame) -> DataFrame:
    """Size and directory of each replica.

    A future log (a copy that moves to another directory of the same broker) only sets ``changes_disk``.
    """
    is_current = ~F.col("is_future")
    return sizes.groupBy(*RUN_PARTITION, "broker_id").agg(
        F.max(F.when(is_current, F.col("bytes"))).alias("size_bytes"),
        F.max(F.when(is_current, F.col("log_dir"))).alias("log_dir"),
        F.max("is_future").alias("changes_disk"),
    )


def replicas(placed: DataFrame, sizes: DataFrame) -> DataFrame:
    """One row for each replica, with its position in the list.

    If a replica moves to another directory of its broker, ``log_dir`` is null: a reassignment that names the old
    directory would cancel the move.
    """
    exploded = placed.select("*", F.posexplode("replicas").alias("position", "broker_id"))
    rows = exploded.select(
        *RUN_PARTITION,
        "position",
        "broker_id",
        F.coalesce(F.col("leader") == F.col("broker_id"), F.lit(False)).alias("is_leader"),
        F.array_contains("isr", F.col("broker_id")).alias("in_sync"),
        F.array_contains("adding", F.col("broker_id")).alias("is_adding"),
        F.array_contains("removing", F.col("broker_id")).alias("is_removing"),
        F.get("log_dirs", F.col("position")).alias("log_dir"),
        F.array_contains("elr", F.col("broker_id")).alias("in_elr"),
        F.array_contains("observers", F.col("broker_id")).alias("is_observer"),
    )
    is_path = F.expr(f"log_dir <> 'any' AND NOT {HAS_SCHEME}")
    planned = rows.withColumn("planned_dir", F.when(is_path, F.col("log_dir"))).drop("log_dir")
    joined = planned.join(sizes, [*RUN_PARTITION, "broker_id"], "left")
    stays = ~F.coalesce("changes_disk", F.lit(False))
    return joined.withColumn("log_dir", F.when(stays, F.coalesce("log_dir", "planned_dir")))


def topics(placed: DataFrame, headers: DataFrame, configs: DataFrame) -> DataFrame:
    """The table ``topics``, from partitions, headers of descriptions and listed configs.

    A topic without its own min.insync.replicas has that of the cluster, else the largest of the brokers.
    """
    from_partitions = placed.groupBy(*CLUSTER_RUN, "topic").agg(
        F.count(F.lit(1)).alias("partitions"),
        F.max(F.size(F.array_except("replicas", "removing"))).alias("replication_factor"),
    )
    from_headers = headers.groupBy(*CLUSTER_RUN, "topic").agg(
        F.max("topic_id").alias("topic_id"), F.max(F.nullif("configs", F.lit(""))).alias("header_configs")
    )
    topic_configs = configs.where("entity_type = 'topics' AND NOT coalesce(sensitive, false) AND value IS NOT NULL")
    from_configs = topic_configs.groupBy(*CLUSTER_RUN, F.col("entity_name").alias("topic")).agg(
        F.array_join(F.array_sort(F.collect_set(F.concat("name", F.lit("="), "value"))), ",").alias("listed_configs"),
        F.max(F.when(F.col("name") == MIN_ISR, F.col("value"))).alias("listed_min_isr"),
        F.max(F.when(F.col("name") == _UNCLEAN, F.col("value"))).alias("listed_unclean"),
    )
    joined = (
        from_partitions.join(from_headers, [*CLUSTER_RUN, "topic"], "left")
        .join(from_configs, [*CLUSTER_RUN, "topic"], "left")
        .join(F.broadcast(_defaults(configs)), CLUSTER_RUN, "left")
    )
    topic_min_isr = F.coalesce("listed_min_isr", _in_header(MIN_ISR)).try_cast("int")
    topic_unclean = F.coalesce("listed_unclean", _in_header(_UNCLEAN)).try_cast("boolean")
    return joined.withColumns(
        {
            "is_internal": F.col("topic").isin(*INTERNAL_TOPICS),
            "configs": F.when(_is_shortened(), F.concat_ws(",", "header_configs", "listed_configs")).otherwise(
                F.coalesce("header_configs", "listed_configs")
            ),
            "min_insync_replicas": F.coalesce(topic_min_isr, "cluster_min_isr", "brokers_min_isr"),
            "min_insync_source": F.when(topic_min_isr.isNotNull(), "topic")
            .when(F.col("cluster_min_isr").isNotNull(), "cluster")
            .when(F.col("brokers_min_isr").isNotNull(), "broker"),
            "allows_unclean_election": F.coalesce(topic_unclean, "cluster_unclean", "brokers_unclean"),
        }
    )


def _in_header(config: str) -> Column:
    """The value of a config in the header of a description; null without it."""
    pattern = rf"(?:^|,){config.replace('.', '[.]')}=(\w+)"
    return F.nullif(F.regexp_extract("header_configs", pattern, 1), F.lit(""))


def _defaults(configs: DataFrame) -> DataFrame:
    """What topics without own values get, one row for each cluster: cluster-wide defaults, and values of brokers."""
    given = configs.where(F.col("entity_type").isin("cluster", "brokers") & F.col("name").isin(MIN_ISR, _UNCLEAN))

    def greatest(entity_type: str, name: str, data_type: str) -> Column:
        is_given = (F.col("entity_type") == entity_type) & (F.col("name") == name)
        return F.max(F.when(is_given, F.col("value").try_cast(data_type)))

    return given.groupBy(*CLUSTER_RUN).agg(
        greatest("cluster", MIN_ISR, "int").alias("cluster_min_isr"),
        greatest("brokers", MIN_ISR, "int").alias("brokers_min_isr"),
        greatest("cluster", _UNCLEAN, "boolean").alias("cluster_unclean"),
        greatest("brokers", _UNCLEAN, "boolean").alias("brokers_unclean"),
    )


def _is_shortened() -> Column:
    """Whether the listed configs have a placement rule that the header lacks. Kafka may shorten a header."""
    header_has_rule = F.coalesce(F.col("header_configs").contains(PLACEMENT_RULE), F.lit(False))
    return F.col("listed_configs").contains(PLACEMENT_RULE) & ~header_has_rule


def _reporting(log_dirs: DataFrame, logs: DataFrame) -> DataFrame:
    """Brokers that reported all their directories, for each cluster with logs."""
    with_logs = log_dirs.join(logs.select(*CLUSTER_RUN).distinct(), CLUSTER_RUN, "semi")
    by_broker = with_logs.groupBy(*RUN_BROKER).agg(F.max(F.col("error").isNotNull()).alias("has_failed"))
    complete_broker = F.when(~F.col("has_failed"), F.col("broker_id"))
    return by_broker.groupBy(*CLUSTER_RUN).agg(F.collect_set(complete_broker).alias("reporting"))


def _with_lost(partitions: DataFrame, brokers: DataFrame) -> DataFrame:
    """Add ``is_lost``: all replicas are on dead or fenced brokers, so nobody knows size and rates.

    Or the partition has no leader and no known log, and some of these brokers have a failed directory instead.
    """
    is_down = F.col("state") != "alive"
    gone = brokers.groupBy(*CLUSTER_RUN).agg(
        F.collect_set(F.when(is_down, F.col("broker_id"))).alias("down"),
        F.collect_set(F.when(is_down | (F.size("failed") > 0), F.col("broker_id"))).alias("failing"),
    )
    on_down, on_failing = (F.size(F.array_except("replicas", name)) == 0 for name in ("down", "failing"))
    is_lost = on_down | (on_failing & F.col("leader").isNull() & F.col("log_size").isNull())
    return partitions.join(F.broadcast(gone), CLUSTER_RUN, "left").withColumn(
        "is_lost", F.coalesce(is_lost, F.lit(False))
    )


def _with_missing_logs(partitions: DataFrame) -> DataFrame:
    """Add ``without_log``: brokers that should have a log of the partition, but did not report it.

    They have an in-sync replica of it and reported all their directories.
    """
    empty = F.expr("CAST(array() AS ARRAY<BIGINT>)")
    should_have_log = F.array_intersect(F.array_except("isr", "adding"), F.coalesce("reporting", empty))
    return partitions.withColumn(
        "without_log", F.array_sort(F.array_except(should_have_log, F.coalesce("logged_on", empty)))
    )


def _with_estimates(partitions: DataFrame, topic_rates: DataFrame, *, where: Column) -> DataFrame:
    """Add estimated rates to partitions without rates: each gets a share of the topic's rates by its size."""
    topic = [*CLUSTER_RUN, "topic"]
    topic_values = topic_rates.select(
        *topic, *(F.col(name).alias(f"topic_{name}") for name in (*RATES, *WINDOW_RATES, "samples"))
    )
    same_topic = Window.partitionBy(*topic)
    # Sizes in a wrong unit may add up to more than a bigint holds: the gate refuses them later.
    topic_size = F.sum(F.col("size_bytes").cast("decimal(38,0)")).over(same_topic).cast("double")
    by_size = F.try_divide(F.col("size_bytes").cast("double"), topic_size)
    joined = partitions.join(topic_values, topic, "left").withColumn(
        "share", F.coalesce(by_size, 1 / F.count(F.lit(1)).over(same_topic))
    )
    estimates = {
        f"estimated_{name}": F.when(where, F.round(F.col(f"topic_{name}") * F.col("share")).cast("bigint"))
        for name in (*RATES, *WINDOW_RATES)
    }
    samples = F.when(where, F.col("topic_samples"))
    return joined.withColumns({**estimates, "topic_samples": samples}).drop("share")


def _records(offsets: DataFrame) -> DataFrame:
    """Records on the leader's disk, those of them that are not in tiered storage yet, and those that replicas lack.

    A new replica copies all records of a log that begins at 0 on the leader's disk: it never asks for a record that is
    only in tiered storage.
    """
    at = {time: F.max(F.when(F.col("time") == time, F.col("value"))).alias(time) for time in TIMES}
    is_end = (F.col("time") == REPLICA_LATEST) & F.col("value").isNotNull()
    end = F.when(is_end, F.struct("broker_id", "value"))
    by_partition = offsets.groupBy(*RUN_PARTITION).agg(*at.values(), F.array_sort(F.collect_list(end)).alias("ends"))
    last = F.array_max(F.col("ends.value"))
    lags = {
        "lag_brokers": F.col("ends.broker_id"),
        "lag_records": F.transform("ends", lambda end: last - end["value"]),
    }
    local = F.col(LATEST) - F.col(EARLIEST_LOCAL)
    untiered = F.col(LATEST) - F.greatest(EARLIEST_LOCAL, PENDING_UPLOAD)
    pending = F.when(F.col(PENDING_UPLOAD).isNotNull(), F.greatest(untiered, F.lit(0)))
    rest = F.when(F.col(EARLIEST_LOCAL) == 0, local).otherwise(pending)
    return by_partition.select(
        *RUN_PARTITION,
        (F.coalesce(last, LATEST) - F.coalesce(EARLIEST_LOCAL, EARLIEST)).alias("log_records"),
        *(F.when(F.size("ends") > 0, lag).alias(name) for name, lag in lags.items()),
        local.alias("local_records"),
        rest.alias("untiered_records"),
    )


def partition_load(
    placed: DataFrame,
    sizes: DataFrame,
    rates: DataFrame,
    loads: DataFrame,
    *,
    topic_rates: DataFrame,
    offsets: DataFrame,
    logs: DataFrame,
    log_dirs: DataFrame,
    brokers: DataFrame,
) -> DataFrame:
    """The table ``partition_load``, with extra columns that the coverage rules need.

    Parameters
    ----------
    sizes : DataFrame
        From ``local_sizes``.
    rates : DataFrame
        Rates of partitions, from ``metric_rates.loads_in_window``.
    loads : DataFrame
        Loads of partitions that an input file gives.
    topic_rates : DataFrame
        Rates of whole topics, from ``metric_rates.loads_in_window``: used for partitions without rates.
    offsets : DataFrame
        Offsets of partitions, from ``judge.judge_offsets``.
    logs, log_dirs : DataFrame
        Logs and directories that brokers reported, with any size.
    brokers : DataFrame
        From ``silver_brokers.known_brokers``.
    """
    by_broker = F.map_from_entries(F.collect_list(F.struct("broker_id", "size_bytes")))
    largest = sizes.groupBy(*RUN_PARTITION).agg(F.max("size_bytes").alias("log_size"), by_broker.alias("sizes"))
    logged = logs.where("NOT coalesce(is_future, false)").groupBy(*RUN_PARTITION)
    logged_on = logged.agg(F.collect_set("broker_id").alias("logged_on"))
    measured = rates.select(
        *RUN_PARTITION, "samples", *(F.col(name).alias(f"metric_{name}") for name in (*_LOADS, *WINDOW_RATES))
    )
    from_table = loads.groupBy(*RUN_PARTITION).agg(
        *(F.max(F.expr(whole_number(name))).alias(f"table_{name}") for name in _LOADS)
    )
    joined = placed.select(*RUN_PARTITION, "source", "line", "payload", "kind", "leader", "replicas", "isr", "adding")
    for frame in (largest, logged_on, measured, from_table, _records(offsets)):
        joined = joined.join(frame, RUN_PARTITION, "left")
    # Without the leader's own end nobody knows what the others lack.
    has_end = F.array_contains("lag_brokers", F.col("leader"))
    joined = joined.withColumns({name: F.when(has_end, F.col(name)) for name in ("lag_brokers", "lag_records")})
    joined = joined.join(F.broadcast(_reporting(log_dirs, logs)), CLUSTER_RUN, "left").transform(_with_missing_logs)
    joined = joined.transform(_with_lost, brokers)
    has_metric = F.coalesce("metric_in_bytes_per_s", "metric_out_bytes_per_s").isNotNull()
    has_table = F.coalesce("table_in_bytes_per_s", "table_out_bytes_per_s").isNotNull()
    sized = joined.withColumn(
        "size_bytes", F.coalesce("log_size", "metric_size_bytes", "table_size_bytes", F.lit(0))
    ).transform(_with_estimates, topic_rates, where=~(has_metric | has_table))
    has_estimate = F.coalesce("estimated_in_bytes_per_s", "estimated_out_bytes_per_s").isNotNull()

    def rate(name: str) -> Column:
        return F.coalesce(*(f"{source}_{name}" for source in ("metric", "table", "estimated")), F.lit(0))

    return sized.withColumns(
        {
            **{name: rate(name) for name in RATES},
            **{name: F.coalesce(f"metric_{name}", f"estimated_{name}") for name in WINDOW_RATES},
            "size_source": F.when(F.col("log_size").isNotNull(), "log_dirs")
            .when(F.col("metric_size_bytes").isNotNull(), "metric")
            .when(F.col("table_size_bytes").isNotNull(), "table")
            .otherwise("missing"),
            "rate_source": F.when(has_metric, "metric")
            .when(has_table, "table")
            .when(has_estimate, "topic")
            .otherwise("missing"),
            "samples": F.coalesce("samples", "topic_samples", F.lit(0)),
            "leader_bytes": F.try_element_at("sizes", "leader"),
        }
    )


_LOADS = ("size_bytes", *RATES)
