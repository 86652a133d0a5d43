"""bronze_metrics -> loads of partitions and topics: a percentile of the rates in a window, and the newest size.

A *series* has the samples of one metric from one *reporter*: a broker, else an instance, else a file.

The *window* of ``[metrics]`` has the newest samples. The windows of ``[schedule]`` are the hours of the week in which
waves may run.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.settings import Metrics
from optimizer.windows_setting import DAY_SECONDS, DAYS
from optimizer.windows_setting import Window as Hours
from schemas.keys import CLUSTER_RUN, RUN_PARTITION

RATES = ("in_bytes_per_s", "out_bytes_per_s")
WINDOW_RATES = tuple(f"window_{name}" for name in RATES)
_TOPIC_METRIC = (*RUN_PARTITION, "metric")  # the partition is null
_SERIES = (*_TOPIC_METRIC, "reporter")
_EXACT = "decimal(38,9)"  # sums of doubles would depend on the order of their rows
_FIRST_MONDAY = 4 * DAY_SECONDS  # seconds of Unix time: 1970-01-01 was a Thursday


def loads_in_window(bronze_metrics: DataFrame, settings: Metrics, windows: Sequence[Hours] = ()) -> DataFrame:
    """The load of every partition and every topic that has a sample inside the window.

    The window ends at the cluster's newest sample; samples without a time always count. A counter (``*_total``) becomes
    the rate between two samples of the same series; if it falls, the broker was restarted and counts from 0 again. If
    several brokers report a rate of a partition, the largest of their percentiles counts, because only one leads at a
    time. The rate of a topic at a time is the sum over the brokers, because each counts the partitions that it leads:
    the percentile is that of the sums (``_sums``). A sample of a topic without broker, instance and time is a scrape of
    one broker: each file counts as a broker.

    Parameters
    ----------
    windows : sequence of Window
        Those of the schedule. Each has a load of its own, from its samples alone; the largest of them counts.

    Returns
    -------
    DataFrame
        cluster_id, run_id, topic, partition (null for a whole topic), size_bytes, in_bytes_per_s, out_bytes_per_s
        (bigint, null if unknown), samples (the larger number of both rates), window_in_bytes_per_s and
        window_out_bytes_per_s (bigint, null without a sample in ``windows``).

    References
    ----------
    Counter resets as Prometheus' ``rate`` treats them; percentiles are exact, interpolated between samples.
    """
    of_topics = bronze_metrics.where("topic IS NOT NULL AND (partition IS NOT NULL OR metric <> 'size_bytes')")
    file = "if(partition IS NULL AND observed_at IS NULL, concat('file ', source), NULL)"
    reporter = F.expr(f"coalesce(concat('broker ', broker_id), concat('instance ', instance), {file})")
    named = of_topics.withColumn("reporter", reporter)
    recent = named.transform(_in_window, hours=settings.window_hours).transform(_one_sample_a_time)
    sizes = recent.where("metric = 'size_bytes'").transform(_newest_sizes)
    all_rates = recent.transform(_rates)
    sums = all_rates.where("partition IS NULL").transform(_sums)
    rates = (
        all_rates.where("partition IS NOT NULL")
        .select(sums.columns)
        .unionByName(sums)
        .transform(_percentiles, percentile=settings.rate_percentile, windows=windows)
    )
    return sizes.join(rates, RUN_PARTITION, "full").select(
        *RUN_PARTITION,
        "size_bytes",
        *RATES,
        F.coalesce("samples", F.lit(0).cast("bigint")).alias("samples"),
        *WINDOW_RATES,
    )


def _in_window(samples: DataFrame, *, hours: int) -> DataFrame:
    newest = F.max("observed_at").over(Window.partitionBy(*CLUSTER_RUN))
    start = F.expr(f"newest - make_interval(0, 0, 0, 0, {int(hours)})")
    inside = F.col("observed_at").isNull() | (F.col("observed_at") >= start)
    return samples.withColumn("newest", newest).where(inside).drop("newest")


def _one_sample_a_time(samples: DataFrame) -> DataFrame:
    """The largest sample of a series at each time: the same export may have been given twice."""
    return samples.groupBy(*_SERIES, "observed_at").agg(F.max("value").alias("value"))


def _newest_sizes(samples: DataFrame) -> DataFrame:
    newest = samples.groupBy(*_SERIES).agg(
        F.max_by("value", F.coalesce("observed_at", F.lit(0).cast("timestamp"))).alias("value")
    )
    return newest.groupBy(*RUN_PARTITION).agg(_whole(F.max("value")).alias("size_bytes"))


def _rates(samples: DataFrame) -> DataFrame:
    """Gauges unchanged; counters as rates between consecutive samples, the earlier one at ``since``."""
    series = Window.partitionBy(*_SERIES).orderBy("observed_at")
    counters = samples.where("metric LIKE '%_total' AND observed_at IS NOT NULL").withColumns(
        {"earlier": F.lag("value").over(series), "since": F.lag("observed_at").over(series)}
    )
    growth = F.when(F.col("value") >= F.col("earlier"), F.col("value") - F.col("earlier")).otherwise(F.col("value"))
    micros = F.unix_micros("observed_at") - F.unix_micros("since")
    rates = counters.where("earlier IS NOT NULL").withColumns(
        {"value": growth * 1e6 / micros, "metric": F.replace("metric", F.lit("_total"), F.lit("_per_s"))}
    )
    gauges = samples.where("metric LIKE '%_per_s'").withColumn("since", F.lit(None).cast("timestamp"))
    return gauges.unionByName(rates.select(gauges.columns))


def _sums(rates: DataFrame) -> DataFrame:
    """The rates of each topic, summed over its series at each time; a single series stays as it is.

    Brokers are not sampled at the same instant. The usual step between two samples of a series divides time into
    buckets; a series has its mean in a bucket. The sum of a bucket with a sample includes series without one there:

    - a counter's rate counts from its earlier sample to its later one, however long that is;
    - a gauge that misses one bucket has the value of its next sample. If it misses more, the broker had no such series,
      because it led no partition: nothing is added, as before the first sample and after the last;
    - a series without any time counts in every bucket.
    """
    series, topic = Window.partitionBy(*_SERIES), Window.partitionBy(*_TOPIC_METRIC)
    reporter = F.coalesce("reporter", F.lit(""))
    rows = rates.withColumn("is_single", F.min(reporter).over(topic) == F.max(reporter).over(topic))
    several = rows.where("NOT is_single").withColumns(
        {
            "is_counter": F.col("since").isNotNull(),
            "since": F.coalesce("since", F.lag("observed_at").over(series.orderBy("observed_at"))),
        }
    )
    micros = {name: F.unix_micros(name) for name in ("observed_at", "since")}
    timed = several.withColumns(
        {
            "first": F.min(F.coalesce(micros["since"], micros["observed_at"])).over(series),
            "step": F.median(F.nullif(micros["observed_at"] - micros["since"], F.lit(0))).over(topic),
        }
    ).withColumn("start", F.min("first").over(topic))
    buckets = {f"bucket_{name}": _bucket(at) for name, at in micros.items()}
    by_bucket = (
        timed.where("observed_at IS NOT NULL OR first IS NULL")
        .withColumns(buckets)
        .groupBy(*_SERIES, "start", "bucket_observed_at")
        .agg(
            F.avg(F.col("value").cast(_EXACT)).cast(_EXACT).alias("value"),
            *(F.min(name).alias(name) for name in ("observed_at", "bucket_since")),
            F.max("is_counter").alias("is_counter"),
        )
    )
    sums = _running_sums(by_bucket).withColumn("reporter", F.lit("sum"))
    columns = [*_SERIES, "observed_at", "value"]
    return rows.where("is_single").select(columns).unionByName(sums.select(columns))


def _bucket(at: Column) -> Column:
    """The bucket of a time: each series counts steps from its first sample, because its samples have an offset.

    A series that begins later begins at the next whole bucket: in this one another broker may have led.
    """
    since_start = (F.col("first") - F.col("start")) / F.col("step")
    first = F.when(since_start < 1, F.lit(0)).otherwise(F.ceil(since_start))
    return F.when(at.isNotNull(), F.coalesce(first + F.round((at - F.col("first")) / F.col("step")), F.lit(0))).cast(
        "bigint"
    )


def _running_sums(by_bucket: DataFrame) -> DataFrame:
    """The sum over the series in each bucket with a sample: a value is added at its begin, subtracted after its end."""
    at, since, no_time = F.col("bucket_observed_at"), F.col("bucket_since"), F.lit(None).cast("timestamp")
    fills = F.col("is_counter") | (at - since <= 2)
    begin = F.coalesce(F.when(fills, F.least(since + 1, at)), at, F.lit(0))
    point = F.when(F.col("start").isNull(), F.lit(0)).otherwise(at)

    def change(bucket: Column, value: Column, observed_at: Column, *, is_point: bool) -> Column:
        fields = (bucket.cast("bigint").alias("bucket"), value.alias("value"), observed_at.alias("observed_at"))
        return F.struct(*fields, F.lit(is_point).alias("is_point"))

    changes = F.array(
        change(begin, F.col("value"), no_time, is_point=False),
        change(at + 1, -F.col("value"), no_time, is_point=False),
        change(point, F.lit(0).cast(_EXACT), F.col("observed_at"), is_point=True),
    )
    by_time = (
        by_bucket.select(*_TOPIC_METRIC, F.inline(changes))
        .where("bucket IS NOT NULL")
        .groupBy(*_TOPIC_METRIC, "bucket")
        .agg(
            F.sum("value").cast(_EXACT).alias("value"),
            F.min("observed_at").alias("observed_at"),
            F.max("is_point").alias("is_point"),
        )
    )
    until_now = Window.partitionBy(*_TOPIC_METRIC).orderBy("bucket").rowsBetween(Window.unboundedPreceding, 0)
    return by_time.withColumn("value", F.sum("value").over(until_now).cast("double")).where("is_point")


def _percentiles(rates: DataFrame, *, percentile: float, windows: Sequence[Hours]) -> DataFrame:
    in_windows = {f"in_window_{i}": F.when(_is_inside(hours), F.col("value")) for i, hours in enumerate(windows)}
    values = {"value": F.col("value"), **in_windows}
    by_series = rates.groupBy(*_SERIES).agg(
        *(F.percentile(value, percentile / 100).alias(name) for name, value in values.items()),
        F.count(F.lit(1)).alias("samples"),
    )

    def over_brokers(metric: str, percentiles: str) -> Column:
        return F.max(F.when(F.col("metric") == metric, F.col(percentiles)))

    def largest(metric: str) -> Column:
        return F.array_max(F.array(*(over_brokers(metric, name) for name in in_windows), F.lit(None).cast("double")))

    return by_series.groupBy(*RUN_PARTITION).agg(
        *(_whole(over_brokers(name, "value")).alias(name) for name in RATES),
        F.max("samples").alias("samples"),
        *(_whole(largest(name)).alias(f"window_{name}") for name in RATES),
    )


def _is_inside(hours: Hours) -> Column:
    """Whether the clock shows an hour of the window at the time of a sample; null without a time.

    A rate of a counter has the time of its later sample. The hour that the clock shows twice counts twice.
    """
    clock = F.unix_seconds(F.from_utc_timestamp("observed_at", hours.time_zone))
    starts = (_FIRST_MONDAY + DAYS.index(day) * DAY_SECONDS + hours.start_seconds for day in hours.days)
    since_start = (F.pmod(clock - start, F.lit(len(DAYS) * DAY_SECONDS)) for start in starts)
    return reduce(Column.__or__, (seconds < hours.usual_seconds for seconds in since_start))


def _whole(value: Column) -> Column:
    return F.round(value).cast("bigint")
