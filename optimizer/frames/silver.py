"""Judged records -> the clean tables: brokers, log_dirs, topics, replicas."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.frames.typed import whole_number

_RUN = ("cluster_id", "run_id")
_PARTITION = (*_RUN, "topic", "partition")
_BROKER = (*_RUN, "broker_id")
# org.apache.kafka.common.internals.Topic (4.3): the topics that Kafka keeps for itself.
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_MIN_ISR = "min.insync.replicas"
_CORDONED = "cordoned.log.dirs"
_MOST = 2**63 - 1


def partitions_in_flight(placed: DataFrame, reassignments: DataFrame) -> DataFrame:
    """Placements with what moves: as described, else as the list of reassignments says (descriptions before 2.6)."""
    newest = Window.partitionBy(*_PARTITION).orderBy(F.desc("captured_at"), "source", "ordinal")
    listed = (
        reassignments.withColumn("place", F.row_number().over(newest))
        .where("place = 1")
        .select(
            *_PARTITION,
            F.col("replicas").alias("moving_replicas"),
            F.col("adding").alias("listed_adding"),
            F.col("removing").alias("listed_removing"),
        )
    )
    joined = placed.join(listed, list(_PARTITION), "left")
    unknown = F.expr("size(adding) + size(removing) = 0 AND moving_replicas IS NOT NULL")
    from_document = unknown & (F.col("kind") == "assignment")
    return joined.withColumns(
        {
            "replicas": F.when(from_document, F.col("moving_replicas")).otherwise(F.col("replicas")),
            "adding": F.when(unknown, F.coalesce("listed_adding", "adding")).otherwise(F.col("adding")),
            "removing": F.when(unknown, F.coalesce("listed_removing", "removing")).otherwise(F.col("removing")),
        }
    ).drop("moving_replicas", "listed_adding", "listed_removing")


def local_sizes(sizes: DataFrame) -> DataFrame:
    """Size and directory of each replica; future copies are no replicas yet."""
    measured = sizes.where("NOT coalesce(is_future, false)").withColumn("bytes", F.expr(whole_number("size_bytes")))
    return measured.groupBy(*_PARTITION, "broker_id").agg(
        F.max("bytes").alias("size_bytes"), F.max_by("log_dir", F.struct("bytes", "log_dir")).alias("log_dir")
    )


def replicas(placed: DataFrame, sizes: DataFrame) -> DataFrame:
    """One row a replica, in the order of the list."""
    exploded = placed.select("*", F.posexplode("replicas").alias("position", "broker_id"))
    planned_dir = F.get("log_dirs", F.col("position"))
    rows = exploded.select(
        *_PARTITION,
        "position",
        "broker_id",
        F.coalesce(F.col("leader") == F.col("broker_id"), F.lit(False)).alias("is_leader"),
        F.array_contains("isr", F.col("broker_id")).alias("in_sync"),
        F.array_contains("adding", F.col("broker_id")).alias("is_adding"),
        F.array_contains("removing", F.col("broker_id")).alias("is_removing"),
        F.when(planned_dir != "any", planned_dir).alias("planned_dir"),
    )
    joined = rows.join(sizes, [*_PARTITION, "broker_id"], "left")
    return joined.withColumn("log_dir", F.coalesce("log_dir", "planned_dir"))


def known_brokers(registered: DataFrame, placed: DataFrame, log_dirs: DataFrame, configs: DataFrame) -> DataFrame:
    """Every broker that is registered, holds a replica, or tells of its directories, with what the rules ask.

    Where no list of brokers was given, those that hold replicas or answered with their directories count as registered.
    """
    listed = registered.groupBy(*_BROKER).agg(
        F.lit(True).alias("is_listed"),
        F.max("host").alias("host"),
        F.max(F.when(F.col("port") > 0, F.col("port"))).alias("port"),
        F.max("rack").alias("rack"),
        F.max("fenced").alias("fenced"),
        F.max("is_controller").alias("is_controller"),
        F.min(F.struct("source", "line")).alias("listed_at"),
    )
    answering = log_dirs.groupBy(*_BROKER).agg(
        F.min(F.struct("source", "line")).alias("answered_at"),
        F.array_sort(F.collect_set("log_dir")).alias("directories"),
        F.array_sort(F.collect_set(F.when(F.col("error").isNotNull(), F.col("log_dir")))).alias("failed"),
        F.array_sort(F.collect_set(F.when(F.col("is_cordoned"), F.col("log_dir")))).alias("closed"),
    )
    joined = listed.join(_holding(placed), list(_BROKER), "full").join(answering, list(_BROKER), "full")
    return joined.join(_cordoned(configs), list(_BROKER), "left").transform(_with_state).transform(_with_closed)


def _holding(placed: DataFrame) -> DataFrame:
    """What replica lists say of each broker: in how many it is, stays, leads, is in sync under a leader."""
    held = placed.select("*", F.explode("replicas").alias("broker_id"))
    me = F.col("broker_id")
    led = F.col("leader").isNotNull()
    # Kafka keeps the last replica of a partition in the ISR when its broker dies: without a leader it says nothing.
    facts = {
        "partitions": F.lit(True),
        "settled": ~F.array_contains("adding", me),
        "leads": led & (F.col("leader") == me),
        "in_sync": led & F.array_contains("isr", me),
        "leaderless": ~led,
    }
    return held.groupBy(*_BROKER).agg(
        *(F.count_if(fact).alias(name) for name, fact in facts.items()),
        F.min(F.struct("source", "line")).alias("placed_at"),
    )


def _cordoned(configs: DataFrame) -> DataFrame:
    """Directories that brokers may give no replica (KIP-1066, Kafka 4.3); ``*``: all of them."""
    of_brokers = configs.where(f"entity_type = 'brokers' AND name = '{_CORDONED}' AND coalesce(value, '') <> ''")
    return of_brokers.groupBy(*_RUN, F.expr("try_cast(entity_name AS BIGINT)").alias("broker_id")).agg(
        F.array_sort(F.array_distinct(F.flatten(F.collect_list(F.split("value", r"\s*,\s*"))))).alias("cordoned")
    )


def _with_closed(brokers: DataFrame) -> DataFrame:
    """Add why a broker receives no replica, null where it may."""
    nothing = F.expr("CAST(array() AS ARRAY<STRING>)")
    failed = F.coalesce("failed", nothing)
    cordoned = F.array_sort(F.array_union(F.coalesce("cordoned", nothing), F.coalesce("closed", nothing)))
    left = F.array_except("directories", cordoned)
    whole = F.array_contains(cordoned, "*") | ((F.size("directories") > 0) & (F.size(left) == 0))
    known = brokers.withColumns({"cordoned": cordoned, "is_cordoned": F.coalesce(whole, F.lit(False))})
    idle = (F.col("state") == "alive") & (F.col("settled") > 0) & (F.col("in_sync") + F.col("leaderless") == 0)
    told = F.col("answered_at").isNotNull()
    mute = (F.col("state") == "alive") & (F.col("partitions") == 0) & ~told & F.col("others_tell")
    reason = (
        F.when(F.size(failed) > 0, F.concat(F.lit("failed directory "), F.array_join(failed, ", ")))
        .when(idle, F.lit("in sync nowhere"))
        .when(F.col("is_cordoned"), F.lit("cordoned"))
        .when(mute, F.lit("tells of no directory"))
    )
    return known.withColumn("closed_reason", reason)


def _with_state(brokers: DataFrame) -> DataFrame:
    cluster = Window.partitionBy(*_RUN)
    no_list = ~F.coalesce(F.max("is_listed").over(cluster), F.lit(False))
    registered = F.coalesce("is_listed", F.lit(False)) | no_list
    at = F.coalesce("listed_at", "placed_at", "answered_at")
    state = F.when(F.col("fenced"), "fenced").when(F.col("is_registered"), "alive").otherwise("dead")
    known = brokers.withColumns({"is_registered": registered, "no_list": no_list}).where(
        F.coalesce("is_listed", F.lit(False)) | F.col("partitions").isNotNull() | F.col("answered_at").isNotNull()
    )
    counts = ("partitions", "settled", "leads", "in_sync", "leaderless")
    return known.withColumns(
        {
            **{name: F.coalesce(name, F.lit(0)) for name in counts},
            "state": state,
            "racks_used": F.max(F.col("rack").isNotNull()).over(cluster),
            "others_tell": F.max(F.col("answered_at").isNotNull()).over(cluster),
            "is_controller": F.coalesce("is_controller", F.lit(False)),
            "kind": F.lit("broker"),
            "source": at["source"],
            "line": at["line"],
            "payload": F.to_json(F.struct("broker_id", "rack", F.coalesce("partitions", F.lit(0)).alias("partitions"))),
        }
    )


def _newest_dirs(log_dirs: DataFrame) -> DataFrame:
    newest = Window.partitionBy(*_BROKER, "log_dir").orderBy(F.desc("captured_at"), "source", "ordinal")
    ranked = log_dirs.withColumn("place", F.row_number().over(newest)).where("place = 1")
    return ranked.withColumn("total_bytes", F.nullif(F.expr(whole_number("total_bytes")), F.lit(0)))


def _given(capacities: DataFrame) -> DataFrame:
    """Capacities by broker (-1: the default): of the broker as a whole, else the sum of its directories."""
    numbers = capacities.select(
        *(*_BROKER, "log_dir"),
        *(F.expr(whole_number(name)).alias(name) for name in ("disk_bytes", "in_bytes_per_s", "out_bytes_per_s")),
    ).distinct()
    whole = F.max(F.when(F.col("log_dir").isNull(), F.col("disk_bytes")))
    parts = F.sum(F.when(F.col("log_dir").isNotNull(), F.col("disk_bytes")))
    return numbers.groupBy(*_BROKER).agg(
        F.coalesce(whole, parts).alias("disk"),
        F.max("in_bytes_per_s").alias("in"),
        F.max("out_bytes_per_s").alias("out"),
    )


def brokers(known: DataFrame, log_dirs: DataFrame, capacities: DataFrame) -> DataFrame:
    """The table: a capacity given for the broker counts, else its disks, else the default; the dead need none."""
    given = _given(capacities)
    own = given.select(*_BROKER, *(F.col(name).alias(f"own_{name}") for name in ("disk", "in", "out")))
    default = given.where("broker_id = -1").select(
        *_RUN, *(F.col(name).alias(f"default_{name}") for name in ("disk", "in", "out"))
    )
    disks = _newest_dirs(log_dirs).groupBy(*_BROKER)
    measured = disks.agg(F.when(F.count("total_bytes") == F.count(F.lit(1)), F.sum("total_bytes")).alias("measured"))
    joined = (
        known.join(own, list(_BROKER), "left").join(measured, list(_BROKER), "left").join(default, list(_RUN), "left")
    )

    def living(*names: str) -> Column:
        return F.when(F.col("state") != "dead", F.coalesce(*names))

    return joined.withColumns(
        {
            "disk_capacity_bytes": living("own_disk", "measured", "default_disk"),
            "in_capacity_bytes_per_s": living("own_in", "default_in"),
            "out_capacity_bytes_per_s": living("own_out", "default_out"),
        }
    )


def log_dirs(dirs: DataFrame, sizes: DataFrame, capacities: DataFrame) -> DataFrame:
    """The table: used bytes count future copies; capacity as given for the directory, else as the broker says."""
    key = [*_BROKER, "log_dir"]
    # Sizes in a wrong unit may be more than an integer holds: the gate refuses them later.
    total = F.sum(F.expr(whole_number("size_bytes")).cast("decimal(38,0)"))
    used = sizes.groupBy(*key).agg(F.least(total, F.lit(_MOST)).cast("bigint").alias("used_bytes"))
    given = capacities.groupBy(*key).agg(F.max(F.expr(whole_number("disk_bytes"))).alias("given_bytes"))
    joined = _newest_dirs(dirs).join(used, key, "left").join(given, key, "left")
    return joined.fillna(0, ["used_bytes"]).withColumn("capacity_bytes", F.coalesce("given_bytes", "total_bytes"))


def topics(placed: DataFrame, headers: DataFrame, configs: DataFrame) -> DataFrame:
    """The table: what the header says beside what the partitions show."""
    seen = placed.groupBy(*_RUN, "topic").agg(
        F.count(F.lit(1)).alias("partitions"),
        F.max(F.size(F.array_except("replicas", "removing"))).alias("replication_factor"),
    )
    stated = headers.groupBy(*_RUN, "topic").agg(
        F.max("topic_id").alias("topic_id"), F.max(F.nullif("configs", F.lit(""))).alias("header_configs")
    )
    of_topics = configs.where("entity_type = 'topics' AND NOT coalesce(sensitive, false) AND value IS NOT NULL")
    entries = of_topics.groupBy(*_RUN, F.col("entity_name").alias("topic")).agg(
        F.array_join(F.array_sort(F.collect_set(F.concat("name", F.lit("="), "value"))), ",").alias("listed_configs"),
        F.max(F.when(F.col("name") == _MIN_ISR, F.col("value"))).alias("listed_min_isr"),
    )
    joined = seen.join(stated, [*_RUN, "topic"], "left").join(entries, [*_RUN, "topic"], "left")
    found = F.nullif(F.regexp_extract("header_configs", r"(?:^|,)min\.insync\.replicas=(\d+)", 1), F.lit(""))
    return joined.withColumns(
        {
            "is_internal": F.col("topic").isin(*INTERNAL_TOPICS),
            "configs": F.coalesce("header_configs", "listed_configs"),
            "min_insync_replicas": F.coalesce("listed_min_isr", found).try_cast("int"),
        }
    )


def _telling(log_dirs: DataFrame, logs: DataFrame) -> DataFrame:
    """Brokers that told of all their directories, of each cluster that has logs at all."""
    with_logs = log_dirs.join(logs.select(*_RUN).distinct(), list(_RUN), "semi")
    of_broker = with_logs.groupBy(*_BROKER).agg(F.max(F.col("error").isNotNull()).alias("has_failed"))
    whole = F.when(~F.col("has_failed"), F.col("broker_id"))
    return of_broker.groupBy(*_RUN).agg(F.collect_set(whole).alias("telling"))


def _with_missing_logs(partitions: DataFrame) -> DataFrame:
    """Add ``without_log``: brokers with an in-sync replica that told of their directories, but of no log of it."""
    nothing = F.expr("CAST(array() AS ARRAY<BIGINT>)")
    expected = F.array_intersect(F.array_except("isr", "adding"), F.coalesce("telling", nothing))
    return partitions.withColumn(
        "without_log", F.array_sort(F.array_except(expected, F.coalesce("logged_on", nothing)))
    )


def partition_load(
    placed: DataFrame, sizes: DataFrame, rates: DataFrame, loads: DataFrame, *, logs: DataFrame, log_dirs: DataFrame
) -> DataFrame:
    """The table, with the place and payload that the coverage rules report.

    Parameters
    ----------
    sizes : DataFrame
        Of ``local_sizes``.
    rates : DataFrame
        Of ``metrics.partition_rates``.
    loads : DataFrame
        Finished loads, where given.
    logs, log_dirs : DataFrame
        Logs and directories that brokers told of, whatever their sizes.
    """
    largest = sizes.groupBy(*_PARTITION).agg(F.max("size_bytes").alias("log_size"))
    logged = logs.where("NOT coalesce(is_future, false)").groupBy(*_PARTITION)
    told = logged.agg(F.collect_set("broker_id").alias("logged_on"))
    measured = rates.select(*_PARTITION, "samples", *(F.col(name).alias(f"metric_{name}") for name in _LOADS))
    finished = loads.groupBy(*_PARTITION).agg(
        *(F.max(F.expr(whole_number(name))).alias(f"table_{name}") for name in _LOADS)
    )
    joined = placed.select(*_PARTITION, "source", "line", "payload", "kind", "isr", "adding")
    for frame in (largest, told, measured, finished):
        joined = joined.join(frame, list(_PARTITION), "left")
    joined = joined.join(F.broadcast(_telling(log_dirs, logs)), list(_RUN), "left").transform(_with_missing_logs)
    metric = F.coalesce("metric_in_bytes_per_s", "metric_out_bytes_per_s").isNotNull()
    table = F.coalesce("table_in_bytes_per_s", "table_out_bytes_per_s").isNotNull()
    return joined.withColumns(
        {
            "size_bytes": F.coalesce("log_size", "metric_size_bytes", "table_size_bytes", F.lit(0)),
            "in_bytes_per_s": F.coalesce("metric_in_bytes_per_s", "table_in_bytes_per_s", F.lit(0)),
            "out_bytes_per_s": F.coalesce("metric_out_bytes_per_s", "table_out_bytes_per_s", F.lit(0)),
            "size_source": F.when(F.col("log_size").isNotNull(), "log_dirs")
            .when(F.col("metric_size_bytes").isNotNull(), "metric")
            .when(F.col("table_size_bytes").isNotNull(), "table")
            .otherwise("missing"),
            "rate_source": F.when(metric, "metric").when(table, "table").otherwise("missing"),
            "samples": F.coalesce("samples", F.lit(0)),
        }
    )


_LOADS = ("size_bytes", "in_bytes_per_s", "out_bytes_per_s")
