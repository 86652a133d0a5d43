"""The figures of a plan, as people compare them: the cluster before, with Kafka's default, and after."""

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

CLUSTER = ["cluster_id", "run_id"]
PLACEMENTS = ("before", "baseline", "after")


@dataclass(frozen=True)
class Figure:
    """One figure: its name with the unit, and what people read."""

    name: str
    label: str


FIGURES = (
    Figure("unexplained", "Partitions left without a reason"),
    Figure("moved_bytes", "Bytes copied"),
    Figure("moved_share_percent", "Share of all bytes copied"),
    Figure("replicas_moved", "Replicas copied"),
    Figure("partitions_changed", "Partitions changed"),
    Figure("leader_changes", "Preferred leaders changed"),
    Figure("leader_changes_bound", "Proven least changes of leaders, in lists as these and as balanced"),
    Figure("factor_changes", "Partitions with another replication factor"),
    Figure("bound_bytes", "Proven least that any plan as balanced must copy"),
    Figure("gap_percent", "Over the proven least"),
    Figure("times_default", "Kafka's default copies so many times as much"),
    Figure("baseline_refused", "Partitions that Kafka's default refuses"),
    Figure("waves", "Waves"),
    Figure("estimated_hours", "Hours of copying, estimated"),
    Figure("rack_violations", "Partitions that break the rack rule"),
    Figure("replicas_on_leaving_brokers", "Replicas on brokers to empty"),
    Figure("brokers_outside_bands", "Brokers outside bands (replicas, disk, bytes in)"),
    Figure("leaders_outside", "Preferred leaders outside their bands"),
    Figure("leaders_outside_bound", "Proven least leaders outside their bands, in lists as these"),
    Figure("out_outside_bytes_per_s", "Bytes out per second outside their bands"),
    Figure("out_outside_bytes_per_s_bound", "Proven least bytes out outside their bands, in lists as these"),
    Figure("disk_max_over_mean", "Fullest broker's disk, over the mean"),
    Figure("disk_min_over_mean", "Emptiest broker's disk, over the mean"),
    Figure("in_max_over_mean", "Busiest broker's bytes in, over the mean"),
    Figure("out_max_over_mean", "Busiest broker's bytes out, over the mean"),
    Figure("replicas_spread", "Replicas, most less least"),
    Figure("leaders_spread", "Preferred leaders, most less least"),
    Figure("brokers", "Brokers that take part"),
    Figure("partitions", "Partitions"),
    Figure("replicas", "Replicas"),
    Figure("total_bytes", "Bytes on all brokers"),
)


def _long(frame: DataFrame, figures: dict[str, Column], placement: Column) -> DataFrame:
    """One row a figure: cluster, run, figure, placement, value."""
    pairs = [
        F.struct(F.lit(name).alias("figure"), value.cast("double").alias("value")) for name, value in figures.items()
    ]
    exploded = frame.select(*CLUSTER, placement.alias("placement"), F.explode(F.array(*pairs)).alias("pair"))
    return exploded.select(*CLUSTER, "placement", "pair.figure", "pair.value")


def _percent(part: Column, whole: Column) -> Column:
    return F.when(whole > 0, 100.0 * part / whole)


def _copied(base: DataFrame) -> DataFrame:
    """Bytes, replicas, partitions and leaders that the default and the plan change, one row a cluster."""
    return base.groupBy(*CLUSTER).agg(
        F.sum(F.col("size_bytes") * F.size("current_replicas")).alias("total_bytes"),
        F.count(F.lit(1)).alias("partitions"),
        F.sum("moved_bytes").alias("moved_bytes"),
        F.sum(F.size("adding_replicas")).alias("replicas_moved"),
        F.sum(F.col("is_changed").cast("long")).alias("partitions_changed"),
        F.sum(F.col("leader_changed").cast("long")).alias("leader_changes"),
        _resized("proposed_replicas").alias("factor_changes"),
        F.sum("default_moved_bytes").alias("default_moved_bytes"),
        F.sum("default_added_replicas").alias("default_replicas_moved"),
        F.sum(F.col("default_changed").cast("long")).alias("default_partitions_changed"),
        F.sum(F.col("default_leader_changed").cast("long")).alias("default_leader_changes"),
        _resized("baseline_replicas").alias("default_factor_changes"),
        F.sum(F.col("default_refused").cast("long")).alias("baseline_refused"),
    )


def _resized(column: str) -> Column:
    """Partitions whose list gets another length; an empty list is Kafka's refusal."""
    length = F.size(column)
    return F.sum(((length > 0) & (length != F.size("current_replicas"))).cast("long"))


def _plan_figures(totals: DataFrame, bounds: DataFrame, waves: DataFrame, findings: DataFrame) -> list[DataFrame]:
    best = bounds.filter("is_best").select(*CLUSTER, "bound_bytes", "gap_percent")
    timed = waves.groupBy(*CLUSTER).agg(
        F.max("wave").alias("waves"), (F.sum("estimated_seconds") / 3600).alias("estimated_hours")
    )
    left = findings.filter("rule = 'unexplained'").groupBy(*CLUSTER).agg(F.count(F.lit(1)).alias("unexplained"))
    frame = reduce(lambda one, other: one.join(other, CLUSTER, "left"), (best, timed, left), totals)
    moved = F.col("moved_bytes")
    counted = ("moved_bytes", "replicas_moved", "partitions_changed", "leader_changes", "factor_changes")
    after = {name: F.col(name) for name in counted}
    after |= {
        "unexplained": F.coalesce("unexplained", F.lit(0)),
        "moved_share_percent": _percent(moved, F.col("total_bytes")),
        "bound_bytes": F.col("bound_bytes"),
        "gap_percent": F.col("gap_percent"),
        "times_default": F.when(moved > 0, F.col("default_moved_bytes") / moved),
        "waves": F.coalesce("waves", F.lit(0)),
        "estimated_hours": F.coalesce("estimated_hours", F.lit(0.0)),
    }
    default = {name: F.col(f"default_{name}") for name in counted}
    default |= {
        "moved_share_percent": _percent(F.col("default_moved_bytes"), F.col("total_bytes")),
        "baseline_refused": F.col("baseline_refused"),
    }
    before = {"partitions": F.col("partitions")}
    sides = (("before", before), ("baseline", default), ("after", after))
    return [_long(frame, figures, F.lit(placement)) for placement, figures in sides]


def _leader_figures(leader_bounds: DataFrame) -> DataFrame:
    """The measures of ``leader_bounds`` with the plan; that of changes is counted elsewhere, too."""
    name, least = F.concat("measure", F.lit("_bound")).alias("figure"), F.col("bound").alias("value")
    bound = leader_bounds.select(*CLUSTER, name, least)
    planned = leader_bounds.filter("measure != 'leader_changes'").select(
        *CLUSTER, F.col("measure").alias("figure"), F.col("planned").alias("value")
    )
    rows = bound.unionByName(planned).withColumn("placement", F.lit("after"))
    return rows.select(*CLUSTER, "placement", "figure", F.col("value").cast("double").alias("value"))


def _balance_figures(measured: DataFrame) -> DataFrame:
    part = F.col("accepts_replicas")

    def over_mean(column: str, extreme: Column) -> Column:
        mean = F.avg(F.when(part, F.col(column)))
        return F.when(mean > 0, extreme / mean)

    def inside(column: str) -> Column:
        return F.when(part, F.col(column))

    totals = measured.groupBy(*CLUSTER, "placement").agg(
        F.sum("rack_violations").alias("rack_violations"),
        F.sum(F.when(F.col("must_empty"), F.col("replicas")).otherwise(0)).alias("replicas_on_leaving_brokers"),
        F.sum((~F.col("in_band")).cast("long")).alias("brokers_outside_bands"),
        over_mean("disk_bytes", F.max(inside("disk_bytes"))).alias("disk_max_over_mean"),
        over_mean("disk_bytes", F.min(inside("disk_bytes"))).alias("disk_min_over_mean"),
        over_mean("in_bytes_per_s", F.max(inside("in_bytes_per_s"))).alias("in_max_over_mean"),
        over_mean("out_bytes_per_s", F.max(inside("out_bytes_per_s"))).alias("out_max_over_mean"),
        (F.max(inside("replicas")) - F.min(inside("replicas"))).alias("replicas_spread"),
        (F.max(inside("leaders")) - F.min(inside("leaders"))).alias("leaders_spread"),
        F.sum(part.cast("long")).alias("brokers"),
        F.sum("replicas").alias("replicas"),
        F.sum("disk_bytes").alias("total_bytes"),
    )
    names = [name for name in totals.columns if name not in (*CLUSTER, "placement")]
    return _long(totals, {name: F.col(name) for name in names}, F.col("placement"))


def summarise(
    base: DataFrame,
    measured: DataFrame,
    bounds: DataFrame,
    leader_bounds: DataFrame,
    waves: DataFrame,
    findings: DataFrame,
) -> DataFrame:
    """Rows of ``plan_summary``: one figure of one cluster, its three values side by side."""
    parts = [
        *_plan_figures(_copied(base), bounds, waves, findings),
        _balance_figures(measured),
        _leader_figures(leader_bounds),
    ]
    rows = reduce(DataFrame.unionByName, parts)
    sides = [F.max(F.when(F.col("placement") == side, F.col("value"))).alias(side) for side in PLACEMENTS]
    wide = rows.groupBy(*CLUSTER, "figure").agg(*sides)
    names = F.array(*(F.lit(figure.name) for figure in FIGURES))
    labels = F.array(*(F.lit(figure.label) for figure in FIGURES))
    numbered = wide.withColumn("position", F.array_position(names, F.col("figure")).cast("int"))
    return numbered.withColumn("label", F.element_at(labels, F.col("position")))
