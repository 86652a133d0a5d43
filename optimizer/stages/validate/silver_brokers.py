"""Judged records -> the silver tables brokers and log_dirs."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from optimizer.domain import TIERED_FETCH, Cause
from optimizer.kafka.cordon import CORDON
from optimizer.stages.shared.causes import first_cause
from optimizer.stages.shared.records import newest_first, whole_number
from optimizer.stages.validate.rule_table import HAS_SCHEME
from optimizer.stages.validate.silver import MIN_ISR
from schemas.keys import CLUSTER_RUN, RUN_BROKER

_MOST = 2**63 - 1  # largest bigint
_CAPACITY = ("whole", "parts", "in", "out", "source", "as_written")


def known_brokers(registered: DataFrame, placed: DataFrame, log_dirs: DataFrame, configs: DataFrame) -> DataFrame:
    """Every broker that is registered, holds a replica or reports its directories, with the columns that rules need.

    Without a list of brokers, those that hold replicas or report directories count as registered.
    """
    listed = registered.groupBy(*RUN_BROKER).agg(
        F.lit(True).alias("is_listed"),
        F.max("host").alias("host"),
        F.max(F.when(F.col("port") > 0, F.col("port"))).alias("port"),
        F.max("rack").alias("rack"),
        F.max("fenced").alias("fenced"),
        F.max("is_controller").alias("is_controller"),
        F.min(F.struct("source", "line")).alias("listed_at"),
    )
    answering = log_dirs.groupBy(*RUN_BROKER).agg(
        F.min(F.struct("source", "line")).alias("answered_at"),
        F.array_sort(F.collect_set("log_dir")).alias("directories"),
        F.array_sort(F.collect_set(F.when(F.col("error").isNotNull(), F.col("log_dir")))).alias("failed"),
        F.array_sort(F.collect_set(F.when(F.col("is_cordoned"), F.col("log_dir")))).alias("closed"),
    )
    joined = listed.join(_holding(placed), RUN_BROKER, "full").join(answering, RUN_BROKER, "full")
    joined = joined.join(_configured(configs), RUN_BROKER, "left").transform(_with_state).transform(_with_closed)
    of_cluster = configs.where((F.col("entity_type") == "cluster") & (F.col("name") == TIERED_FETCH))
    default = of_cluster.groupBy(*CLUSTER_RUN).agg(F.max(F.col("value").try_cast("boolean")).alias("default_skips"))
    joined = joined.join(F.broadcast(default), CLUSTER_RUN, "left")
    # Kafka's order: the broker's dynamic value, the cluster's, the broker's own file.
    return joined.withColumn("skips_tiered", F.coalesce("dynamic_skips", "default_skips", "static_skips"))


def _holding(placed: DataFrame) -> DataFrame:
    """Counts for each broker: replica lists that name it, that it stays in, that it leads, that it is in sync in."""
    held = placed.select("*", F.explode("replicas").alias("broker_id"))
    broker = F.col("broker_id")
    has_leader = F.col("leader").isNotNull()
    # Kafka keeps the last replica in the ISR when its broker dies, so without a leader the ISR proves nothing.
    facts = {
        "partitions": F.lit(True),
        "settled": ~F.array_contains("adding", broker),
        "leads": has_leader & (F.col("leader") == broker),
        "in_sync": has_leader & F.array_contains("isr", broker),
        "leaderless": ~has_leader,
    }
    return held.groupBy(*RUN_BROKER).agg(
        *(F.count_if(fact).alias(name) for name, fact in facts.items()),
        F.min(F.struct("source", "line")).alias("placed_at"),
    )


def _configured(configs: DataFrame) -> DataFrame:
    """What configs say about each broker.

    ``cordoned``: directories that receive no replica (KIP-1066, Kafka 4.3); ``*`` means all of them. ``min_isr``: its
    min.insync.replicas, which topics may use; null if the cluster has a default. ``has_configs``: whether its own
    file was read, or it gives min.insync.replicas. ``dynamic_skips``, ``static_skips``: values of ``TIERED_FETCH``.
    """
    is_min_isr = F.col("name") == MIN_ISR
    cluster_has = F.max((F.col("entity_type") == "cluster") & is_min_isr).over(Window.partitionBy(*CLUSTER_RUN))
    given = configs.where("entity_type IN ('brokers', 'cluster')").withColumn("cluster_has", cluster_has)
    broker_id = F.expr("try_cast(entity_name AS BIGINT)").alias("broker_id")
    skips, is_static = F.col("value").try_cast("boolean"), F.coalesce("is_static", F.lit(False))
    is_skips = F.col("name") == TIERED_FETCH
    cordoned = F.when((F.col("name") == CORDON) & (F.col("value") != ""), F.split("value", r"\s*,\s*"))
    return (
        given.where("entity_type = 'brokers'")
        .groupBy(*CLUSTER_RUN, broker_id)
        .agg(
            F.array_sort(F.array_distinct(F.flatten(F.collect_list(cordoned)))).alias("cordoned"),
            F.max(F.when(is_min_isr & ~F.col("cluster_has"), F.col("value").try_cast("int"))).alias("min_isr"),
            F.max(is_static | is_min_isr).alias("has_configs"),
            F.max(F.when(is_skips & ~is_static, skips)).alias("dynamic_skips"),
            F.max(F.when(is_skips & is_static, skips)).alias("static_skips"),
        )
    )


def _with_closed(brokers: DataFrame) -> DataFrame:
    """Add why a broker receives no replica, as a code and in words; both null if it may receive replicas."""
    cluster = Window.partitionBy(*CLUSTER_RUN)
    nothing = F.expr("CAST(array() AS ARRAY<STRING>)")
    failed = F.coalesce("failed", nothing)
    cordoned = F.array_sort(F.array_union(F.coalesce("cordoned", nothing), F.coalesce("closed", nothing)))
    usable = F.array_except("directories", cordoned)
    all_cordoned = F.array_contains(cordoned, "*") | ((F.size("directories") > 0) & (F.size(usable) == 0))
    in_sync = F.col("in_sync") + F.col("leaderless")
    is_silent = F.col("answered_at").isNull() & F.col("others_tell")
    known = brokers.withColumns(
        {
            "cordoned": cordoned,
            "is_cordoned": F.coalesce(all_cordoned, F.lit(False)),
            "in_sync_nowhere": (F.col("state") == "alive") & (F.col("settled") > 0) & (in_sync == 0),
            "only_listed": (F.col("state") == "alive") & (F.col("partitions") == 0) & is_silent,
            "holds_silently": (F.col("state") == "alive") & (F.col("partitions") > 0) & is_silent,
            "most_min_isr": F.max("min_isr").over(cluster),
        }
    )
    lacks_configs = F.col("most_min_isr").isNotNull() & ~F.coalesce("has_configs", F.lit(False))
    known = known.withColumn("lacks_configs", lacks_configs & (F.col("state") == "alive") & (F.col("partitions") > 0))
    # One message names all of these brokers. Those that are only listed are most likely the KRaft controllers.
    for flag in ("only_listed", "holds_silently", "lacks_configs"):
        ids = F.collect_set(F.when(F.col(flag), F.col("broker_id"))).over(cluster)
        known = known.withColumn(f"all_{flag}", F.array_sort(ids))
    first = first_cause(
        (
            (
                F.size(failed) > 0,
                Cause.FAILED_DIRECTORY,
                F.concat(F.lit("failed directory "), F.array_join(failed, ", ")),
            ),
            (F.col("in_sync_nowhere"), Cause.IN_SYNC_NOWHERE, F.lit("in sync nowhere")),
            (F.col("is_cordoned"), Cause.CORDONED, F.lit("cordoned")),
            (F.col("only_listed"), Cause.ONLY_LISTED, F.lit("reports no directory")),
        )
    )
    return known.withColumns({"closed_cause": first["cause"], "closed_reason": first["reason"]})


def _with_state(brokers: DataFrame) -> DataFrame:
    cluster = Window.partitionBy(*CLUSTER_RUN)
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
    newest = Window.partitionBy(*RUN_BROKER, "log_dir").orderBy(*newest_first(), "ordinal")
    ranked = log_dirs.withColumn("rank", F.row_number().over(newest)).where("rank = 1")
    return ranked.withColumn("total_bytes", F.nullif(F.expr(whole_number("total_bytes")), F.lit(0)))


def _given(capacities: DataFrame) -> DataFrame:
    """Given capacities by broker (-1: the default): of the whole broker, and the sum of its named directories."""
    values = [F.expr(whole_number(name)).alias(name) for name in ("disk_bytes", "in_bytes_per_s", "out_bytes_per_s")]
    # A capacity that is in two files counts once.
    numbers = capacities.groupBy(*RUN_BROKER, "log_dir", *values).agg(
        F.min("source").alias("source"), F.min("as_written").alias("as_written")
    )
    return numbers.groupBy(*RUN_BROKER).agg(
        F.max(F.when(F.col("log_dir").isNull(), F.col("disk_bytes"))).alias("whole"),
        F.sum(F.when(F.expr(f"log_dir IS NOT NULL AND NOT {HAS_SCHEME}"), F.col("disk_bytes"))).alias("parts"),
        F.max("in_bytes_per_s").alias("in"),
        F.max("out_bytes_per_s").alias("out"),
        F.min("source").alias("source"),
        F.array_join(F.array_sort(F.collect_set("as_written")), ", ").alias("as_written"),
    )


def _sized_dirs(log_dirs: DataFrame, capacities: DataFrame) -> DataFrame:
    """Directories of brokers with ``capacity_bytes``: the one given for the directory, else the one the broker reports.

    If both are missing and the broker has no given capacity, the default's directory of the same name counts.
    """
    disk = F.max(F.expr(whole_number("disk_bytes")))
    given = capacities.groupBy(*RUN_BROKER, "log_dir").agg(disk.alias("given_bytes"))
    default = given.where("broker_id = -1").select(
        *CLUSTER_RUN, "log_dir", F.col("given_bytes").alias("of_default_bytes")
    )
    whole = given.where("log_dir IS NULL").select(*RUN_BROKER, F.col("given_bytes").alias("whole_bytes"))
    joined = _newest_dirs(log_dirs).join(given, [*RUN_BROKER, "log_dir"], "left")
    joined = joined.join(whole, RUN_BROKER, "left").join(default, [*CLUSTER_RUN, "log_dir"], "left")
    is_given = F.max(F.coalesce("given_bytes", "whole_bytes")).over(Window.partitionBy(*RUN_BROKER)).isNotNull()
    default_bytes = F.when(~is_given, F.col("of_default_bytes"))
    return joined.withColumns(
        {
            "is_own": F.col("given_bytes").isNotNull(),
            "is_default": F.coalesce("given_bytes", "total_bytes").isNull() & default_bytes.isNotNull(),
            "capacity_bytes": F.coalesce("given_bytes", "total_bytes", default_bytes),
        }
    )


def _disks(log_dirs: DataFrame, capacities: DataFrame) -> DataFrame:
    """Brokers that report directories: sum and origin of the known capacities, and directories without a capacity."""
    unsized = F.col("capacity_bytes").isNull()
    of_brokers = _sized_dirs(log_dirs, capacities).groupBy(*RUN_BROKER)
    return of_brokers.agg(
        F.sum("capacity_bytes").alias("disks"),
        F.max("is_own").alias("some_own"),
        F.max("is_default").alias("some_default"),
        F.max(unsized).alias("some_unsized"),
        F.array_sort(F.collect_set(F.when(unsized & F.col("error").isNull(), F.col("log_dir")))).alias("unsized"),
    )


def brokers(known: DataFrame, log_dirs: DataFrame, capacities: DataFrame) -> DataFrame:
    """The table ``brokers``. A capacity given for the broker counts, else its directories, else the default.

    Dead brokers have no capacity. If a broker reports its directories, capacities of other directories don't count.
    The frame has more columns than the table: ``stated_disk_bytes`` (the capacity from the input, null if the broker
    reported it), ``capacity_source`` (its file), ``capacity_as_written`` (its numbers there) and ``uncounted``
    (directories without a known capacity, if the others make up the broker's capacity).
    """
    given = _given(capacities)
    own = given.select(*RUN_BROKER, *(F.col(name).alias(f"own_{name}") for name in _CAPACITY))
    default = given.where("broker_id = -1").select(
        *CLUSTER_RUN, *(F.col(name).alias(f"default_{name}") for name in _CAPACITY)
    )
    disks = _disks(log_dirs, capacities)
    joined = known.join(own, RUN_BROKER, "left").join(disks, RUN_BROKER, "left").join(default, CLUSTER_RUN, "left")
    is_alive = F.col("state") != "dead"
    of_dirs = F.coalesce(
        F.when(F.col("some_own") | ~F.col("some_unsized"), F.col("disks")),
        "default_whole",
        F.when(F.col("some_default"), F.col("disks")),
    )
    of_any = F.coalesce("own_parts", "default_whole", "default_parts")
    disk = F.coalesce("own_whole", F.when(F.col("some_unsized").isNull(), of_any).otherwise(of_dirs))
    is_measured = F.expr("own_whole IS NULL AND NOT some_unsized AND NOT some_own AND NOT some_default")
    is_partial = F.expr("own_whole IS NULL AND some_unsized AND (some_own OR some_default AND default_whole IS NULL)")
    return joined.withColumns(
        {
            "stated_disk_bytes": F.when(~F.coalesce(is_measured, F.lit(False)), disk),
            "capacity_source": F.coalesce("own_source", "default_source"),
            "capacity_as_written": F.nullif(F.coalesce("own_as_written", "default_as_written"), F.lit("")),
            "disk_capacity_bytes": F.when(is_alive, disk),
            "in_capacity_bytes_per_s": F.when(is_alive, F.coalesce("own_in", "default_in")),
            "out_capacity_bytes_per_s": F.when(is_alive, F.coalesce("own_out", "default_out")),
            "uncounted": F.when(is_alive & is_partial, F.col("unsized")),
        }
    )


def log_dirs(dirs: DataFrame, sizes: DataFrame, capacities: DataFrame, known: DataFrame) -> DataFrame:
    """The table ``log_dirs``: bytes and logs include future copies; capacities as in ``_sized_dirs``.

    Parameters
    ----------
    dirs, sizes, capacities : DataFrame
    known : DataFrame
        From ``known_brokers``, with the cordoned directories.
    """
    key = [*RUN_BROKER, "log_dir"]
    # Sizes in a wrong unit may be too large for a bigint: the gate refuses them later.
    total = F.sum(F.expr(whole_number("size_bytes")).cast("decimal(38,0)"))
    used = sizes.groupBy(*key).agg(
        F.least(total, F.lit(_MOST)).cast("bigint").alias("used_bytes"), F.count(F.lit(1)).cast("int").alias("logs")
    )
    joined = _sized_dirs(dirs, capacities).join(used, key, "left").fillna(0, ["used_bytes", "logs"])
    is_cordoned = F.array_contains("cordoned", F.col("log_dir")) | F.array_contains("cordoned", "*")
    cordoned = known.select(*RUN_BROKER, "cordoned")
    return joined.drop("is_cordoned").join(cordoned, RUN_BROKER, "left").withColumn("is_cordoned", is_cordoned)
