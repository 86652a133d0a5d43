"""bronze_metrics -> loads of partitions and topics: a percentile of the rates in a window, and the newest size.

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
_SERIES = (*RUN_PARTITION, "broker_id", "scrape", "metric")
_FIRST_MONDAY = 4 * DAY_SECONDS  # seconds of Unix time: 1970-01-01 was a Thursday


def loads_in_window(bronze_metrics: DataFrame, settings: Metrics, windows: Sequence[Hours] = ()) -> DataFrame:
    """The load of every partition and every topic that has a sample inside the window.

    The window ends at the cluster's newest sample; samples without a time always count. A counter (``*_total``) becomes
    the rate between two samples of the same broker; if it falls, the broker was restarted and counts from 0 again. If
    several brokers report a rate of a partition, the largest of their percentiles counts, because only one leads at a
    time. The rate of a topic is the sum over the brokers, because each counts the partitions that it leads. A sample
    of a topic without broker and time is a scrape of one broker: each file counts as a broker.

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
    is_scrape = F.expr("partition IS NULL AND broker_id IS NULL AND observed_at IS NULL")
    named = of_topics.withColumn("scrape", F.when(is_scrape, F.col("source")))
    recent = named.transform(_in_window, hours=settings.window_hours).transform(_one_sample_a_time)
    sizes = recent.where("metric = 'size_bytes'").transform(_newest_sizes)
    rates = recent.transform(_rates).transform(_percentiles, percentile=settings.rate_percentile, windows=windows)
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
    """Gauges unchanged; counters as rates between consecutive samples."""
    series = Window.partitionBy(*_SERIES).orderBy("observed_at")
    counters = samples.where("metric LIKE '%_total' AND observed_at IS NOT NULL").withColumns(
        {"earlier": F.lag("value").over(series), "since": F.lag("observed_at").over(series)}
    )
    growth = F.when(F.col("value") >= F.col("earlier"), F.col("value") - F.col("earlier")).otherwise(F.col("value"))
    micros = F.unix_micros("observed_at") - F.unix_micros("since")
    rates = counters.where("earlier IS NOT NULL").withColumns(
        {"value": growth * 1e6 / micros, "metric": F.replace("metric", F.lit("_total"), F.lit("_per_s"))}
    )
    gauges = samples.where("metric LIKE '%_per_s'")
    return gauges.unionByName(rates.select(gauges.columns))


def _percentiles(rates: DataFrame, *, percentile: float, windows: Sequence[Hours]) -> DataFrame:
    in_windows = {f"in_window_{i}": F.when(_is_inside(hours), F.col("value")) for i, hours in enumerate(windows)}
    values = {"value": F.col("value"), **in_windows}
    by_series = rates.groupBy(*_SERIES).agg(
        *(F.percentile(value, percentile / 100).alias(name) for name, value in values.items()),
        F.count(F.lit(1)).alias("samples"),
    )

    def over_brokers(metric: str, percentiles: str) -> Column:
        value = F.when(F.col("metric") == metric, F.col(percentiles))
        return F.when(F.col("partition").isNull(), F.sum(value)).otherwise(F.max(value))

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
