"""Stage 6, plan: instance, baseline, proposal, moves -> plan, waves, rack_flow, broker_waves, throttles,
broker_balance, plan_summary, exposure, wave_findings."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from optimizer.domain import NOT_LIVE, REORDERED, WHOLE_PLAN, Ints
from optimizer.errors import AuditFailed, BallastError, ConfigError
from optimizer.kafka.throttle import ConfigEntry, careful_throttles, config_entries, tool_throttles
from optimizer.planning.exposed import COLUMNS as EXPOSED
from optimizer.planning.late_waves import MOMENTS, late_rows
from optimizer.schedule.estimate import traffic
from optimizer.schedule.throttle_rate import common_rate, rates_per_broker
from optimizer.settings import Settings
from optimizer.stages.plan.balance import with_balance
from optimizer.stages.plan.exposure_tables import exposure_tables
from optimizer.stages.plan.flow_tables import flow_tables
from optimizer.stages.plan.summary_figures import summarise
from optimizer.stages.plan.wave_rows import SCHEDULED, TIMES, broker_ids, schedule_cluster, to_changes, wave_rows
from optimizer.stages.shared.throttles_found import with_previous
from optimizer.stages.stage import Frames, Refusals, Run
from schemas.keys import PARTITION
from schemas.output import (
    BROKER_BALANCE,
    BROKER_WAVES,
    EXPOSURE,
    PLAN,
    PLAN_SUMMARY,
    RACK_FLOW,
    THROTTLES,
    WAVE_FINDINGS,
    WAVES,
)
from schemas.spark import conform, schema_of, struct_of

# Rows of ``throttles`` without the previous value.
ENTRIES = struct_of(column for column in THROTTLES.columns if column.name != "previous_value")
_ENTRY_COLUMNS = ["wave", "style", "entity_type", "entity_name", "config_name", "config_value"]
_NAMED = 5  # partitions in a message: more make a line too long to read


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


def compare_lists(instance: DataFrame, baseline: DataFrame, proposal: DataFrame, moves: DataFrame) -> DataFrame:
    """A row for each partition: its current, default and proposed list, the changes and their reasons; no waves yet."""
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
        .withColumns({name: F.lit(None).cast("bigint") for name in TIMES})
    )


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
    base = compare_lists(inputs["instance"], inputs["baseline"], inputs["proposal"], inputs["moves"]).persist()
    hosts = _with_capture(_with_load(inputs["instance_brokers"], inputs["instance"]), inputs["sources"]).persist()
    by_cluster = hosts.groupBy("cluster_id")

    changed = base.filter("is_changed").select(*SCHEDULED.fieldNames()).groupBy("cluster_id").cogroup(by_cluster)
    scheduled = changed.applyInPandas(partial(schedule_cluster, settings=run.settings), SCHEDULED)
    scheduled = scheduled.persist()
    with_waves = scheduled.groupBy("cluster_id").cogroup(by_cluster)
    waves = with_waves.applyInPandas(partial(wave_rows, settings=run.settings), schema_of(WAVES)).persist()
    flows = flow_tables(scheduled, hosts, run.settings)
    throttles = with_waves.applyInPandas(throttle_rows, ENTRIES)
    measured = with_balance(base, inputs["instance_brokers"], policy=run.settings.policy).persist()
    plan = base.filter("NOT is_changed").select(*PLAN.names)
    exposed = [frame.select("cluster_id", "run_id", *EXPOSED) for frame in (base.filter("NOT is_changed"), scheduled)]
    exposed_tables = exposure_tables(exposed[0].unionByName(exposed[1]), inputs["instance_brokers"], run.settings)
    summary = summarise(
        base,
        measured,
        inputs["bounds"],
        inputs["leader_bounds"],
        waves,
        inputs["findings"],
        exposed_tables["exposure"],
    )
    wave_findings = exposed_tables["wave_findings"]
    if run.settings.schedule.windows:
        wave_findings = wave_findings.unionByName(_late(waves))
    return {
        "plan": conform(plan.unionByName(scheduled.select(*plan.columns)), PLAN),
        "waves": conform(waves, WAVES),
        "rack_flow": conform(flows["rack_flow"], RACK_FLOW),
        "broker_waves": conform(flows["broker_waves"], BROKER_WAVES),
        "throttles": conform(with_previous(throttles, inputs["throttles_found"]), THROTTLES),
        "broker_balance": conform(measured, BROKER_BALANCE),
        "plan_summary": conform(summary, PLAN_SUMMARY),
        "exposure": conform(exposed_tables["exposure"], EXPOSURE),
        "wave_findings": conform(wave_findings, WAVE_FINDINGS),
    }


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


def _lists_by_partition(rows: pd.DataFrame, column: str) -> dict[tuple[str, int], list[int]]:
    keys = zip(rows["topic"], rows["partition"], strict=True)
    return {(topic, int(number)): [int(b) for b in x] for (topic, number), x in zip(keys, rows[column], strict=True)}


def _settable(entries: list[ConfigEntry], down: set[str]) -> list[ConfigEntry]:
    """The entries without configs of brokers that are down, which nobody can set, and without empty values."""
    return [
        entry
        for entry in entries
        if entry[3] and not (entry[0] == "brokers" and entry[1] in down)
    ]  # fmt: skip


def _throttle_entries(rows: pd.DataFrame, ids: Ints, down: set[str]) -> Iterator[tuple[str, list[ConfigEntry]]]:
    """Throttle entries in both styles for the partitions of ``rows``; none if no replica is copied."""
    changes = to_changes(rows, ids)
    load = traffic(changes, len(ids))
    rate = int(rows["copy_bytes_per_s"].min())
    # Also if the partitions were empty at the snapshot: they may have grown since.
    if not changes.copies.any():
        return
    proposed, current = _lists_by_partition(rows, "proposed_replicas"), _lists_by_partition(rows, "current_replicas")
    common = max(common_rate(load, copy_bytes_per_s=rate), rate)
    yield "kafka", config_entries(tool_throttles(proposed, current), common, common)
    rates = rates_per_broker(load, copy_bytes_per_s=rate)
    # A follower may become the leader: without a rate it would send at full speed.
    leader = dict(zip(ids.tolist(), np.maximum(rates.leader, rate).tolist(), strict=True))
    follower = dict(zip(ids.tolist(), np.maximum(rates.follower, rate).tolist(), strict=True))
    careful = careful_throttles(proposed, current)
    yield "careful", _settable(config_entries(careful, leader, follower), down)


def throttle_rows(scheduled: pd.DataFrame, hosts: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``ENTRIES`` of one cluster; wave 0 is the whole plan at once.

    Parameters
    ----------
    scheduled : DataFrame
        Rows of ``SCHEDULED`` with waves.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    """
    placed = scheduled[scheduled["wave"].notna()].sort_values(["topic", "partition"], kind="stable")
    if placed.empty:
        return pd.DataFrame(columns=ENTRIES.fieldNames())
    ids = broker_ids(hosts)
    down = {str(b) for b in hosts.loc[hosts["state"].isin(NOT_LIVE), "broker_id"]}
    parts = [
        (WHOLE_PLAN, placed),
        *((w, placed[placed["wave"] == w]) for w in sorted({int(w) for w in placed["wave"]})),
    ]
    content = [
        (wave, style, *entry)
        for wave, rows in parts
        for style, entries in _throttle_entries(rows, ids, down)
        for entry in entries
    ]
    frame = pd.DataFrame(content, columns=_ENTRY_COLUMNS)
    frame["cluster_id"], frame["run_id"] = hosts["cluster_id"].iloc[0], hosts["run_id"].iloc[0]
    return frame[ENTRIES.fieldNames()]
