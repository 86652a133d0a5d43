"""The figures of the summary: before the plan, with Kafka's default, and after the plan."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from optimizer.domain import FindingCode
from optimizer.emit.figure_table import FIGURES
from optimizer.planning.exposed import BROKER, NONE, RACK, SOME_BROKER, SOME_RACK
from optimizer.stages.plan.balance import PLACEMENTS
from schemas.keys import CLUSTER_RUN

# The figure that counts the partitions that a loss stops.
_FIGURE_OF_LOSS = {
    NONE: "stopped_without_loss",
    BROKER: "stopped_by_worst_broker",
    RACK: "stopped_by_worst_rack",
    SOME_BROKER: "stopped_by_some_broker",
    SOME_RACK: "stopped_by_some_rack",
}


def _long(frame: DataFrame, figures: dict[str, Column], placement: Column) -> DataFrame:
    """One row for each figure: cluster, run, figure, placement, value."""
    pairs = [
        F.struct(F.lit(name).alias("figure"), value.cast("double").alias("value")) for name, value in figures.items()
    ]
    exploded = frame.select(*CLUSTER_RUN, placement.alias("placement"), F.explode(F.array(*pairs)).alias("pair"))
    return exploded.select(*CLUSTER_RUN, "placement", "pair.figure", "pair.value")


def _percent(part: Column, whole: Column) -> Column:
    return F.when(whole > 0, 100.0 * part / whole)


def _copied(base: DataFrame) -> DataFrame:
    """Bytes, replicas, partitions and leaders that the default and the plan change; one row for each cluster."""
    return base.groupBy(*CLUSTER_RUN).agg(
        F.sum(F.col("size_bytes") * F.size("current_replicas")).alias("total_bytes"),
        F.count(F.lit(1)).alias("partitions"),
        F.sum("moved_bytes").alias("moved_bytes"),
        F.sum(F.size("adding_replicas")).alias("replicas_moved"),
        F.sum(F.col("is_changed").cast("long")).alias("partitions_changed"),
        F.sum(F.col("leader_changed").cast("long")).alias("leader_changes"),
        F.sum(_only_followers().cast("long")).alias("followers_reordered"),
        _resized("proposed_replicas").alias("factor_changes"),
        F.sum("default_moved_bytes").alias("default_moved_bytes"),
        F.sum("default_added_replicas").alias("default_replicas_moved"),
        F.sum(F.col("default_changed").cast("long")).alias("default_partitions_changed"),
        F.sum(F.col("default_leader_changed").cast("long")).alias("default_leader_changes"),
        _resized("baseline_replicas").alias("default_factor_changes"),
        F.sum(F.col("min_insync_replicas").isNull().cast("long")).alias("min_isr_unknown"),
        F.sum(F.col("default_refused").cast("long")).alias("baseline_refused"),
    )


def _only_followers() -> Column:
    """Whether the plan changes only the order of a list's followers."""
    copies = F.size("adding_replicas") + F.size("removing_replicas")
    return F.col("is_changed") & ~F.col("leader_changed") & (copies == 0)


def _resized(column: str) -> Column:
    """Partitions whose list changes its length; an empty list means that Kafka refused the topic."""
    length = F.size(column)
    return F.sum(((length > 0) & (length != F.size("current_replicas"))).cast("long"))


def _plan_figures(totals: DataFrame, bounds: DataFrame, waves: DataFrame, findings: DataFrame) -> list[DataFrame]:
    best = bounds.filter("is_best").select(*CLUSTER_RUN, "bound_bytes", "gap_percent")
    timed = waves.groupBy(*CLUSTER_RUN).agg(
        F.max("wave").alias("waves"),
        (F.sum("estimated_seconds") / 3600).alias("estimated_hours"),
        F.sum("busiest_bytes").alias("waves_bytes"),
        F.max("least_total_bytes").alias("waves_bound_bytes"),
    )
    by_cluster = findings.filter(F.col("code") == FindingCode.UNEXPLAINED.value).groupBy(*CLUSTER_RUN)
    unexplained = by_cluster.agg(F.count(F.lit(1)).alias("unexplained"))
    frame = reduce(lambda left, right: left.join(right, CLUSTER_RUN, "left"), (best, timed, unexplained), totals)
    moved = F.col("moved_bytes")
    changes = ("moved_bytes", "replicas_moved", "partitions_changed", "leader_changes", "factor_changes")
    after = {name: F.col(name) for name in changes}
    after |= {
        "followers_reordered": F.col("followers_reordered"),
        "unexplained": F.coalesce("unexplained", F.lit(0)),
        "moved_share_percent": _percent(moved, F.col("total_bytes")),
        "bound_bytes": F.col("bound_bytes"),
        "gap_percent": F.col("gap_percent"),
        "times_default": F.when(moved > 0, F.col("default_moved_bytes") / moved),
        "waves": F.coalesce("waves", F.lit(0)),
        "estimated_hours": F.coalesce("estimated_hours", F.lit(0.0)),
        "waves_bound_bytes": F.col("waves_bound_bytes"),
        "waves_over_bound": F.when(F.col("waves_bound_bytes") > 0, F.col("waves_bytes") / F.col("waves_bound_bytes")),
    }
    default = {name: F.col(f"default_{name}") for name in changes}
    default |= {
        "moved_share_percent": _percent(F.col("default_moved_bytes"), F.col("total_bytes")),
        "baseline_refused": F.col("baseline_refused"),
    }
    before = {"partitions": F.col("partitions"), "min_isr_unknown": F.col("min_isr_unknown")}
    sides = (("before", before), ("baseline", default), ("after", after))
    return [_long(frame, figures, F.lit(placement)) for placement, figures in sides]


def _leader_figures(leader_bounds: DataFrame) -> DataFrame:
    """The bounds of ``leader_bounds``, and the plan's measures; ``_copied`` counts the leader changes."""
    figure, value = F.concat("measure", F.lit("_bound")).alias("figure"), F.col("bound").alias("value")
    bound = leader_bounds.select(*CLUSTER_RUN, figure, value)
    planned = leader_bounds.filter("measure != 'leader_changes'").select(
        *CLUSTER_RUN, F.col("measure").alias("figure"), F.col("planned").alias("value")
    )
    rows = bound.unionByName(planned).withColumn("placement", F.lit("after"))
    return rows.select(*CLUSTER_RUN, "placement", "figure", F.col("value").cast("double").alias("value"))


def _balance_figures(measured: DataFrame) -> DataFrame:
    accepts = F.col("accepts_replicas")

    def over_mean(column: str, extreme: Column) -> Column:
        mean = F.avg(accepting(column))
        return F.when(mean > 0, extreme / mean)

    def accepting(column: str) -> Column:
        """The column, null for brokers that accept no replicas."""
        return F.when(accepts, F.col(column))

    def of_plan(total: Column) -> Column:
        return F.when(F.col("placement") == "after", total)

    totals = measured.groupBy(*CLUSTER_RUN, "placement").agg(
        F.sum("rack_violations").alias("rack_violations"),
        F.sum(F.when(F.col("must_empty"), F.col("replicas")).otherwise(0)).alias("replicas_on_leaving_brokers"),
        F.sum((~F.col("in_band")).cast("long")).alias("brokers_outside_bands"),
        over_mean("disk_bytes", F.max(accepting("disk_bytes"))).alias("disk_max_over_mean"),
        over_mean("disk_bytes", F.min(accepting("disk_bytes"))).alias("disk_min_over_mean"),
        over_mean("in_bytes_per_s", F.max(accepting("in_bytes_per_s"))).alias("in_max_over_mean"),
        over_mean("out_bytes_per_s", F.max(accepting("out_bytes_per_s"))).alias("out_max_over_mean"),
        (F.max(accepting("replicas")) - F.min(accepting("replicas"))).alias("replicas_spread"),
        (F.max(accepting("leaders")) - F.min(accepting("leaders"))).alias("leaders_spread"),
        F.sum(accepts.cast("long")).alias("brokers"),
        F.sum("replicas").alias("replicas"),
        F.sum("disk_bytes").alias("total_bytes"),
        F.sum("cross_rack_bytes").alias("cross_rack_bytes"),
        _percent(F.sum("cross_rack_bytes"), F.sum("copied_bytes")).alias("cross_rack_percent"),
        *(of_plan(F.sum(name)).alias(name) for name in ("near_leader_bytes", "near_leader_partitions")),
    )
    names = [name for name in totals.columns if name not in (*CLUSTER_RUN, "placement")]
    return _long(totals, {name: F.col(name) for name in names}, F.col("placement"))


def _exposure_figures(exposure: DataFrame) -> DataFrame:
    """Partitions that losses stop: by one loss or another, and by the worst; the busiest leader after a loss; and the
    busiest leader of the worst wave if leaving replicas led meanwhile."""
    figure = F.create_map(*(F.lit(text) for pair in _FIGURE_OF_LOSS.items() for text in pair))[F.col("loss")]
    of_broker = exposure.filter(F.col("loss") == BROKER).select(
        *CLUSTER_RUN,
        "moment",
        F.lit("busiest_after_broker_loss").alias("figure"),
        F.col("busiest_over_mean").alias("value"),
    )
    stopped = exposure.select(
        *CLUSTER_RUN, "moment", figure.alias("figure"), F.col("writes_stopped").cast("double").alias("value")
    )
    rows = stopped.unionByName(of_broker)
    in_plan = rows.filter("moment IN ('before', 'after')").withColumnRenamed("moment", "placement")
    near = exposure.select(
        *CLUSTER_RUN,
        F.lit("after").alias("placement"),
        F.lit("near_leader_busiest_over_mean").alias("figure"),
        F.col("near_leader_busiest_over_mean").alias("value"),
    )
    return in_plan.unionByName(rows.withColumn("placement", F.lit("worst_moment")).drop("moment")).unionByName(near)


def summarise(
    base: DataFrame,
    measured: DataFrame,
    bounds: DataFrame,
    leader_bounds: DataFrame,
    waves: DataFrame,
    findings: DataFrame,
    exposure: DataFrame,
) -> DataFrame:
    """Rows of ``plan_summary``: a figure of a cluster with its values before, with the default, and after."""
    parts = [
        *_plan_figures(_copied(base), bounds, waves, findings),
        _balance_figures(measured),
        _leader_figures(leader_bounds),
        _exposure_figures(exposure).select(*CLUSTER_RUN, "placement", "figure", "value"),
    ]
    rows = reduce(DataFrame.unionByName, parts)
    sides = [
        F.max(F.when(F.col("placement") == side, F.col("value"))).alias(side) for side in (*PLACEMENTS, "worst_moment")
    ]
    wide = rows.groupBy(*CLUSTER_RUN, "figure").agg(*sides)
    names = F.array(*(F.lit(figure.name) for figure in FIGURES))
    labels = F.array(*(F.lit(figure.label) for figure in FIGURES))
    numbered = wide.withColumn("position", F.array_position(names, F.col("figure")).cast("int"))
    return numbered.withColumn("label", F.element_at(labels, F.col("position")))
