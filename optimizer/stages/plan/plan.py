"""PLAN: current, Kafka's default and proposed lists side by side, cut into waves, throttled, balanced and summed up."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from optimizer.domain import REORDERED
from optimizer.errors import AuditFailed
from optimizer.settings import Settings
from optimizer.stages.plan.balance import with_balance
from optimizer.stages.plan.summary_figures import summarise
from optimizer.stages.plan.throttle_rows import ENTRIES, throttle_rows
from optimizer.stages.plan.wave_rows import SCHEDULED, schedule_cluster, wave_rows
from optimizer.stages.shared.throttles_found import with_previous
from optimizer.stages.stage import Frames, Refusals, Run
from schemas.keys import PARTITION
from schemas.output import BROKER_BALANCE, PLAN, PLAN_SUMMARY, THROTTLES, WAVES
from schemas.spark import conform, schema_of

_NAMED = 5  # partitions in a message: more do not fit a line that is read


def _default(baseline: DataFrame) -> DataFrame:
    return baseline.select(
        *PARTITION,
        F.col("replicas").alias("baseline_replicas"),
        F.col("moved_bytes").alias("default_moved_bytes"),
        F.col("added_replicas").alias("default_added_replicas"),
        F.col("leader_changed").alias("default_leader_changed"),
        (F.size("replicas") == 0).alias("default_refused"),
    )


def _reasons(moves: DataFrame) -> DataFrame:
    return moves.groupBy(*PARTITION).agg(F.array_sort(F.collect_set("reason")).alias("move_reasons"))


def side_by_side(instance: DataFrame, baseline: DataFrame, proposal: DataFrame, moves: DataFrame) -> DataFrame:
    """One row a partition: the three lists, what changes and why; no waves yet."""
    current, proposed = F.col("current_replicas"), F.col("proposed_replicas")
    followers = F.array_except("isr", F.array("leader"))
    moved = F.coalesce("move_reasons", F.array(F.lit(REORDERED)))
    joined = (
        instance.withColumnRenamed("replicas", "current_replicas")
        .join(_default(baseline), PARTITION, "left")
        .join(proposal.select(*PARTITION, F.col("replicas").alias("proposed_replicas")), PARTITION, "left")
        .join(_reasons(moves), PARTITION, "left")
    )
    return (
        joined.withColumn("baseline_replicas", F.coalesce("baseline_replicas", F.array().cast("array<int>")))
        .withColumn("proposed_replicas", F.coalesce(proposed, current))
        .withColumn("adding_replicas", F.array_sort(F.array_except(proposed, current)))
        .withColumn("removing_replicas", F.array_sort(F.array_except(current, proposed)))
        .withColumn("moved_bytes", F.col("size_bytes") * F.size("adding_replicas"))
        .withColumn("is_changed", proposed != current)
        .withColumn("leader_changed", F.get(proposed, F.lit(0)) != F.get(current, F.lit(0)))
        .withColumn("default_changed", (F.size("baseline_replicas") > 0) & (F.col("baseline_replicas") != current))
        .withColumn("reason_codes", F.when(F.col("is_changed"), moved).otherwise(F.array().cast("array<string>")))
        .withColumn("reasons", F.concat_ws(",", "reason_codes"))
        .withColumn("in_sync_followers", F.when(F.col("leader").isNull(), 0).otherwise(F.size(followers)))
        .withColumn("wave", F.lit(None).cast("int"))
    )


def _with_disk_used(hosts: DataFrame, instance: DataFrame) -> DataFrame:
    held = instance.select("cluster_id", "size_bytes", F.explode("replicas").alias("broker_id"))
    used = held.groupBy("cluster_id", "broker_id").agg(F.sum("size_bytes").alias("disk_used_bytes"))
    joined = hosts.join(used, ["cluster_id", "broker_id"], "left")
    return joined.withColumn("disk_used_bytes", F.coalesce("disk_used_bytes", F.lit(0)))


def build(inputs: Frames, run: Run) -> Frames:
    """The tables of a plan; what several of them come from is cached until the stage ends."""
    base = side_by_side(inputs["instance"], inputs["baseline"], inputs["proposal"], inputs["moves"]).persist()
    hosts = _with_disk_used(inputs["instance_brokers"], inputs["instance"])
    by_cluster = hosts.groupBy("cluster_id")

    changed = base.filter("is_changed").select(*SCHEDULED.fieldNames()).groupBy("cluster_id").cogroup(by_cluster)
    scheduled = changed.applyInPandas(partial(schedule_cluster, settings=run.settings), SCHEDULED)
    scheduled = scheduled.persist()
    again = scheduled.groupBy("cluster_id").cogroup(by_cluster)
    waves = again.applyInPandas(partial(wave_rows, settings=run.settings), schema_of(WAVES)).persist()
    throttles = again.applyInPandas(partial(throttle_rows, settings=run.settings), ENTRIES)
    measured = with_balance(base, inputs["instance_brokers"], policy=run.settings.policy).persist()
    plan = base.filter("NOT is_changed").select(*PLAN.names)
    summary = summarise(base, measured, inputs["bounds"], inputs["leader_bounds"], waves, inputs["findings"])
    return {
        "plan": conform(plan.unionByName(scheduled.select(*plan.columns)), PLAN),
        "waves": conform(waves, WAVES),
        "throttles": conform(with_previous(throttles, inputs["throttles_found"]), THROTTLES),
        "broker_balance": conform(measured, BROKER_BALANCE),
        "plan_summary": conform(summary, PLAN_SUMMARY),
    }


def gate(frames: Frames, run: Run) -> Refusals:
    """Clusters whose plan no order of copies keeps within the disks: the first partitions, and the remedy."""
    place = F.row_number().over(Window.partitionBy("cluster_id").orderBy("topic", "partition"))
    stuck = frames["plan"].filter("is_changed AND wave IS NULL").withColumn("place", place)
    first: dict[str, list[str]] = {}
    for row in stuck.filter(F.col("place") <= _NAMED + 1).orderBy(*PARTITION).collect():
        first.setdefault(row.cluster_id, []).append(f"{row.cluster_id}: {row.topic}-{row.partition}")
    return {cluster: _no_order(names, run.settings) for cluster, names in first.items()}


def _no_order(names: Sequence[str], settings: Settings) -> AuditFailed:
    named, more = ", ".join(names[:_NAMED]), ", ..." if len(names) > _NAMED else ""
    fixed = " or set [schedule] waves = 0" if settings.schedule.waves else ""
    return AuditFailed(
        f"no order of copies keeps every disk under its limit while both copies exist: {named}{more}; "
        f"lower [policy] disk_headroom (now {settings.policy.disk_headroom:g}), add disk{fixed}"
    )
