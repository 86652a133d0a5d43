"""Stage 6, plan: instance, baseline, proposal, moves -> plan, waves, rack_flow, broker_waves, dir_balance, dir_moves,
throttles, broker_balance, plan_summary, exposure, wave_findings, alternatives, consumer_load, consumer_impact."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from optimizer.errors import AuditFailed, BallastError, ConfigError
from optimizer.planning.arrays import PARTITION_COLUMNS
from optimizer.planning.balance_rows import MEASURES, PLACEMENTS, measure
from optimizer.planning.compared_lists import DEFAULT, TIMES, TOTALS, compare_lists, with_totals
from optimizer.planning.exposed import COLUMNS as EXPOSED
from optimizer.planning.late_waves import MOMENTS, late_rows
from optimizer.planning.throttle_rows import COLUMNS as ENTRY_COLUMNS
from optimizer.planning.throttle_rows import throttle_rows
from optimizer.planning.wave_rows import schedule_cluster, wave_rows
from optimizer.settings import Settings
from optimizer.stages.plan.alternatives_table import alternatives_table
from optimizer.stages.plan.consumer_tables import consumer_tables
from optimizer.stages.plan.dir_move_tables import dir_move_tables
from optimizer.stages.plan.exposure_tables import exposure_tables
from optimizer.stages.plan.flow_tables import flow_tables
from optimizer.stages.plan.summary_table import summary_table
from optimizer.stages.shared.throttles_found import with_previous
from optimizer.stages.stage import Frames, Refusals, Run
from schemas.keys import CLUSTER_RUN, PARTITION
from schemas.output import (
    ALTERNATIVES,
    BROKER_BALANCE,
    BROKER_WAVES,
    DIR_BALANCE,
    DIR_MOVES,
    EXPOSURE,
    PLAN,
    PLAN_SUMMARY,
    RACK_FLOW,
    THROTTLES,
    WAVE_FINDINGS,
    WAVES,
)
from schemas.planning import INSTANCE
from schemas.spark import conform, nullable_struct_of, schema_of, struct_of

_INTEGERS = (*TIMES, *TOTALS)
# Rows of ``compare_lists`` with the columns of ``with_totals``.
_BASE = T.StructType(
    [
        *(field for field in nullable_struct_of(INSTANCE.columns) if field.name != "replicas"),
        *(f for f in nullable_struct_of(PLAN.columns) if f.name not in (*INSTANCE.names, *_INTEGERS)),
        T.StructField("in_sync_followers", T.IntegerType()),
        *(T.StructField(name, T.LongType()) for name in _INTEGERS),
    ]
)
# Changed rows of ``plan``, with columns that the throttle rates need, and those that ``exposure`` needs.
_SCHEDULED = T.StructType(
    [field for field in _BASE if field.name in (*PLAN.names, *TIMES, *EXPOSED, "in_sync_followers", "log_dirs")]
)
_ENTRIES = struct_of(column for column in THROTTLES.columns if column.name in ENTRY_COLUMNS)
_MEASURED = T.StructType(
    [
        *schema_of(BROKER_BALANCE).fields,
        T.StructField("accepts_replicas", T.BooleanType()),
        T.StructField("must_empty", T.BooleanType()),
        *(T.StructField(name, T.LongType()) for name in MEASURES),
    ]
)
_NAMED = 5  # partitions in a message: more make a line too long to read


def _compared(inputs: Frames) -> DataFrame:
    """A row of ``_BASE`` for each partition."""
    default = inputs["baseline"].select(*PARTITION, *(F.col(old).alias(new) for old, new in DEFAULT.items()))
    reasons = inputs["moves"].groupBy(*PARTITION).agg(F.array_sort(F.collect_set("reason")).alias("move_reasons"))
    joined = (
        inputs["instance"]
        .withColumnRenamed("replicas", "current_replicas")
        .join(default, PARTITION, "left")
        .join(inputs["proposal"].select(*PARTITION, F.col("replicas").alias("proposed_replicas")), PARTITION, "left")
        .join(reasons, PARTITION, "left")
    )
    return joined.mapInPandas(_compare, _BASE)


def _compare(batches: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield with_totals(compare_lists(batch))[_BASE.fieldNames()]


def _with_load(hosts: DataFrame, instance: DataFrame) -> DataFrame:
    """The brokers with what they hold, and with what they receive and send before the plan, in the windows if known."""
    followers, leads = F.size("replicas") - 1, F.col("broker_id") == F.col("leader")
    received, consumed = (F.coalesce(f"window_{name}", name) for name in ("in_bytes_per_s", "out_bytes_per_s"))
    sent = F.when(leads, consumed + followers * received).otherwise(0)
    replicas = instance.select("*", F.explode("replicas").alias("broker_id"))
    used = replicas.groupBy("cluster_id", "broker_id").agg(
        F.sum("size_bytes").alias("disk_used_bytes"),
        F.sum(received).alias("in_used_bytes_per_s"),
        F.sum(sent).alias("out_used_bytes_per_s"),
    )
    return hosts.join(used, ["cluster_id", "broker_id"], "left").fillna(0, used.columns[2:])


def _with_capture(hosts: DataFrame, sources: DataFrame) -> DataFrame:
    """The brokers with the oldest capture of their cluster, in seconds of Unix time."""
    oldest = sources.groupBy("cluster_id").agg(F.unix_seconds(F.min("captured_at")).alias("captured_at"))
    return hosts.join(oldest, "cluster_id", "left")


def build(inputs: Frames, run: Run) -> Frames:
    """The tables of a plan; frames that several of them use are cached until the stage ends."""
    base = _compared(inputs).persist()
    hosts = _with_capture(_with_load(inputs["instance_brokers"], inputs["instance"]), inputs["sources"]).persist()
    by_cluster = hosts.groupBy("cluster_id")

    changed = base.filter("is_changed").select(*_SCHEDULED.fieldNames()).groupBy("cluster_id").cogroup(by_cluster)
    scheduled = changed.applyInPandas(partial(schedule_cluster, settings=run.settings), _SCHEDULED)
    scheduled = scheduled.persist()
    with_waves = scheduled.groupBy("cluster_id").cogroup(by_cluster)
    waves = with_waves.applyInPandas(partial(wave_rows, settings=run.settings), schema_of(WAVES)).persist()
    flows = flow_tables(scheduled, hosts, run.settings)
    throttles = with_waves.applyInPandas(throttle_rows, _ENTRIES)
    measured = _with_balance(base, inputs["instance_brokers"], run.settings).persist()
    plan = base.filter("NOT is_changed").select(*PLAN.names)
    exposed = [frame.select("cluster_id", "run_id", *EXPOSED) for frame in (base.filter("NOT is_changed"), scheduled)]
    exposed_tables = exposure_tables(exposed[0].unionByName(exposed[1]), inputs["instance_brokers"], run.settings)
    wave_findings = exposed_tables["wave_findings"]
    moved = dir_move_tables(
        base,
        hosts,
        {
            **{"waves": waves, "throttles": throttles, "wave_findings": wave_findings},
            "dir_balance": flows["dir_balance"],
        },
        [cluster.id for cluster in run.settings.clusters],
        run.settings,
    )
    waves, throttles, wave_findings = (moved[name] for name in ("waves", "throttles", "wave_findings"))
    summary = summary_table(
        base.groupBy(*CLUSTER_RUN).agg(*(F.sum(name).alias(name) for name in TOTALS)),
        {
            **{name: inputs[name] for name in ("bounds", "leader_bounds", "findings")},
            **{"measured": measured, "waves": waves, "exposure": exposed_tables["exposure"]},
            **{name: moved[name] for name in ("dir_balance", "dir_moves")},
        },
    )
    if run.settings.schedule.windows:
        wave_findings = wave_findings.unionByName(_late(waves))
    return {
        "plan": conform(plan.unionByName(scheduled.select(*plan.columns)), PLAN),
        "waves": conform(waves, WAVES),
        "rack_flow": conform(flows["rack_flow"], RACK_FLOW),
        "broker_waves": conform(flows["broker_waves"], BROKER_WAVES),
        "dir_balance": conform(moved["dir_balance"], DIR_BALANCE),
        "dir_moves": conform(moved["dir_moves"], DIR_MOVES),
        "throttles": conform(with_previous(throttles, inputs["throttles_found"]), THROTTLES),
        "broker_balance": conform(measured, BROKER_BALANCE),
        "plan_summary": conform(summary, PLAN_SUMMARY),
        "exposure": conform(exposed_tables["exposure"], EXPOSURE),
        "wave_findings": conform(wave_findings, WAVE_FINDINGS),
        "alternatives": conform(alternatives_table(base, hosts, run.settings), ALTERNATIVES),
        **consumer_tables(base, scheduled, inputs),
    }


def _with_balance(base: DataFrame, hosts: DataFrame, settings: Settings) -> DataFrame:
    """Rows of ``_MEASURED`` of every cluster, one task each."""
    known = [name for name in PARTITION_COLUMNS if name != "replicas"]
    lists = base.select("cluster_id", *known, *PLACEMENTS.values(), F.col("current_replicas").alias("replicas"))
    grouped = lists.groupBy("cluster_id").cogroup(hosts.groupBy("cluster_id"))
    return grouped.applyInPandas(partial(measure, policy=settings.policy), _MEASURED)


def _late(waves: DataFrame) -> DataFrame:
    """Rows of ``wave_findings`` about waves that may not end inside their windows."""
    times = [F.unix_seconds(name).alias(name) for name in MOMENTS]
    rows = waves.select("cluster_id", "run_id", "wave", "most_seconds", *times)
    return rows.groupBy("cluster_id").applyInPandas(late_rows, schema_of(WAVE_FINDINGS))


def gate(frames: Frames, run: Run) -> Refusals:
    """Clusters in which the disks have no room for any order of the copies, with the first partitions; and clusters
    without a first night."""
    number = F.row_number().over(Window.partitionBy("cluster_id").orderBy("topic", "partition"))
    unscheduled = frames["plan"].filter("is_changed AND wave IS NULL").withColumn("number", number)
    first: dict[str, list[str]] = {}
    for row in unscheduled.filter(F.col("number") <= _NAMED + 1).orderBy(*PARTITION).collect():
        first.setdefault(row.cluster_id, []).append(f"{row.cluster_id}: {row.topic}-{row.partition}")
    unplaced = {cluster: _no_order_of_copies(names, run.settings) for cluster, names in first.items()}
    return (_without_first_night(frames["waves"]) if run.settings.schedule.windows else {}) | unplaced


def _without_first_night(waves: DataFrame) -> dict[str, BallastError]:
    """Clusters whose waves have no place in the windows, because nobody knows when the calendar begins."""
    rows = waves.filter("starts_at IS NULL").select("cluster_id").distinct().collect()
    remedy = 'set [schedule] first_night to a date, such as "2026-11-27"'
    return {
        row.cluster_id: ConfigError(
            f"[[schedule.windows]]: no source of {row.cluster_id} has a capture time, so the first night is not known; "
            f"{remedy}"
        )
        for row in rows
    }


def _no_order_of_copies(names: Sequence[str], settings: Settings) -> AuditFailed:
    named, rest = ", ".join(names[:_NAMED]), ", ..." if len(names) > _NAMED else ""
    or_waves = " or set [schedule] waves = 0" if settings.schedule.waves else ""
    return AuditFailed(
        f"no order of copies keeps every disk under its limit while old and new copies exist: {named}{rest}; "
        f"lower [policy] disk_headroom (now {settings.policy.disk_headroom:g}), add disks{or_waves}"
    )
