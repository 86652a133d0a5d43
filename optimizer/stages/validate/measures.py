"""Computes the figures of whole clusters; ``quality_figures`` has their limits."""

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from optimizer.emit.quality_causes import UNREAD_RULES
from optimizer.settings import Settings
from schemas.spark import small_frame

_CLUSTER = ["cluster_id"]
_UNITS = (10**3, 10**6, 10**9)  # factors of a wrong unit: kilo, mega, giga
_KILO_OFF = 1e-6  # used share of the disks: below it the unit is wrong by more than 1,000
# Powers of 1024 are up to 7.4 % larger than those of 1000; sizes of different times differ a little.
_NEAR = (0.9, 1.2)


@dataclass(frozen=True)
class Counted:
    """Frames of all clusters from which the figures are counted.

    Parameters
    ----------
    records, samples : DataFrame
        bronze_records and bronze_metrics.
    placed, registered : DataFrame
        Used partitions, and used brokers of lists.
    sizes, topics, load : DataFrame
        Judged rows, with ``ok_`` columns.
    held : DataFrame
        Bytes on each broker, and the disk capacity that the input states.
    """

    records: DataFrame
    samples: DataFrame
    placed: DataFrame
    registered: DataFrame
    sizes: DataFrame
    topics: DataFrame
    load: DataFrame
    held: DataFrame


def measured(counted: Counted, quarantine: DataFrame, settings: Settings, spark: SparkSession) -> DataFrame:
    """One row for each cluster with a column for each of ``quality_figures.figures``; null if it is not judged."""
    clusters = small_frame(spark, [(cluster.id,) for cluster in settings.clusters], "cluster_id string")
    counts = (
        _count(counted.placed, "partitions"),
        counted.registered.groupBy(*_CLUSTER).agg(F.count_distinct("broker_id").alias("registered_brokers")),
        # Consumer groups are optional and many: they do not count in the share of quarantined rows.
        _count(counted.records.where("kind NOT LIKE 'consumer\\_%'"), "records"),
        _count(counted.samples, "samples"),
        _errors(quarantine),
        _contradictions(counted),
        counted.load.where("is_lost").groupBy(*_CLUSTER).agg(F.count(F.lit(1)).alias("lost_partitions")),
        counted.topics.groupBy(*_CLUSTER).agg(
            F.count_if(~F.col("ok_configured_topic_described")).alias("undescribed_topics")
        ),
    )
    counted_all = reduce(lambda left, right: left.join(right, _CLUSTER, "left"), counts, clusters).fillna(0)
    joined = counted_all.join(_disk_use(counted.held), _CLUSTER, "left").join(_hours_apart(counted), _CLUSTER, "left")
    share = F.coalesce(F.try_divide("errors", F.col("records") + F.col("samples")), F.lit(0.0))
    figures = joined.withColumn("quarantined_share", share).drop("errors", "records", "samples")
    covered = figures.join(_coverage(counted.load), _CLUSTER, "left").fillna(
        0, ["partitions_with_rates", "partitions_with_estimates"]
    )
    # Judged only if enough partitions have a size: one cause should break one rule.
    has_sizes = F.col("sized_share") >= settings.metrics.min_coverage
    need_sizes = ("size_coverage_by_rates", "misplaced_partitions")
    return covered.withColumns({name: F.when(has_sizes, F.col(name)) for name in need_sizes}).drop("sized_share")


def _count(frame: DataFrame, name: str) -> DataFrame:
    return frame.groupBy(*_CLUSTER).agg(F.count(F.lit(1)).alias(name))


def _errors(quarantine: DataFrame) -> DataFrame:
    """Numbers of rows of severity error, and of those among them about unread input."""
    is_error = F.col("severity") == "error"
    error = F.when(is_error, F.xxhash64("source", "line", "kind", "payload"))
    unread = (F.count_if(is_error & (F.col("rule") == rule)).alias(name) for name, rule in UNREAD_RULES.items())
    return quarantine.groupBy(*_CLUSTER).agg(F.count_distinct(error).alias("errors"), *unread)


def _contradictions(counted: Counted) -> DataFrame:
    """Numbers of partitions that have logs and no description, and of partitions with logs on other brokers."""
    partition = F.struct("topic", "partition")
    misplaced = counted.sizes.where("NOT ok_log_is_placed").select(*_CLUSTER, partition.alias("misplaced"))
    logless = counted.load.where("NOT ok_replica_has_log").select(*_CLUSTER, partition.alias("misplaced"))
    unknown = counted.sizes.where("NOT ok_log_is_described").select(*_CLUSTER, partition.alias("undescribed"))
    rows = misplaced.unionByName(logless).unionByName(unknown, True)
    return rows.groupBy(*_CLUSTER).agg(
        F.count_distinct("undescribed").alias("undescribed_partitions"),
        F.count_distinct("misplaced").alias("misplaced_partitions"),
    )


def _coverage(load: DataFrame) -> DataFrame:
    """Share of the rates in partitions with a size, share of the bytes in partitions with rates, and units.

    Lost partitions don't count.
    """
    sized, rated = F.col("size_source") != "missing", F.col("rate_source") != "missing"
    ratio = F.when((F.col("metric_size_bytes") > 0) & (F.col("log_size") > 0), F.expr("metric_size_bytes / log_size"))
    sums = (
        load.where("NOT is_lost")
        .groupBy(*_CLUSTER)
        .agg(
            F.count_if(rated).alias("partitions_with_rates"),
            F.count_if(F.col("rate_source") == "topic").alias("partitions_with_estimates"),
            F.avg(sized.cast("double")).alias("sized_share"),
            _share("in_bytes_per_s", sized).alias("size_coverage_by_rates"),
            _share("size_bytes", rated).alias("rate_coverage_by_bytes"),
            F.percentile(ratio, 0.5).alias("metric_over_log_size"),
        )
    )
    factor = F.col("metric_over_log_size")
    return sums.withColumns(
        {
            "size_unit_factor": _unit_factor(factor),
            "metric_over_log_size": F.when(_unit_factor(factor) == 1, factor),
        }
    )


def _disk_use(held: DataFrame) -> DataFrame:
    """Used share of the stated disk capacities, and a capacity as its file has it; null if nothing is stored.

    Capacities that brokers report don't count: they have the same unit as their logs.
    """
    of_clusters = held.where("stated_disk_bytes IS NOT NULL").groupBy(*_CLUSTER)
    bytes_held, capacity = F.sum("held_bytes").cast("double"), F.sum("stated_disk_bytes").cast("double")
    use = F.try_divide(F.nullif(bytes_held, F.lit(0.0)), capacity)
    as_written = F.min(F.concat_ws(": ", "capacity_source", "capacity_as_written"))
    times = F.when(use < _KILO_OFF, F.lit("1,000,000")).otherwise(F.lit("1,000"))
    example = F.concat(as_written, F.lit("; the unit may be "), times, F.lit(" times too large"))
    return of_clusters.agg(use.alias("disk_use"), example.alias("disk_use_example"))


def _hours_apart(counted: Counted) -> DataFrame:
    """Hours from the newest metric sample to the newest of the other sources, also in words, such as "3 days older".

    Both are null if one of them has no time.
    """
    taken = counted.records.groupBy(*_CLUSTER).agg(F.max("captured_at").alias("taken"))
    sampled = counted.samples.groupBy(*_CLUSTER).agg(F.max("observed_at").alias("sampled"))
    hours = (F.unix_seconds("taken") - F.unix_seconds("sampled")) / 3600
    apart = F.abs(hours)
    amount = F.when(apart < 48, F.concat(F.round(apart).cast("int"), F.lit(" hours "))).otherwise(
        F.concat(F.round(apart / 24).cast("int"), F.lit(" days "))
    )
    words = F.concat(amount, F.when(hours > 0, F.lit("older")).otherwise(F.lit("newer")))
    return taken.join(sampled, _CLUSTER).select(
        *_CLUSTER, hours.alias("hours_after_metrics"), words.alias("metrics_apart")
    )


def _share(weight: str, where: Column) -> Column:
    """Share of a weight in the rows that meet a condition; 1 if the weight is zero."""
    part = F.sum(F.when(where, F.col(weight)).otherwise(0).cast("double"))
    return F.coalesce(F.try_divide(part, F.sum(F.col(weight).cast("double"))), F.lit(1.0))


def _unit_factor(ratio: Column) -> Column:
    """The power of 1000 (or 1024), or its inverse, that is near the ratio; 1 if none is near."""
    least, most = _NEAR
    near = [
        F.when((side >= least * unit) & (side <= most * unit), F.lit(value))
        for unit in _UNITS
        for side, value in ((ratio, float(unit)), (1 / ratio, 1.0 / unit))
    ]
    return F.coalesce(*near, F.lit(1.0))
