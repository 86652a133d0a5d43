"""Stage 6, plan: instance, baseline, proposal, moves -> plan, waves, rack_flow, broker_waves, dir_balance, dir_moves,
throttles, broker_balance, plan_summary, exposure, restart_batches, wave_findings, alternatives, consumer_load,
consumer_impact.

``cluster_tables`` makes all of them but ``alternatives``, in one Spark task for each cluster.
"""

from collections.abc import Sequence
from functools import partial

import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from optimizer.domain import FindingCode
from optimizer.errors import AuditFailed, BallastError, ConfigError
from optimizer.planning.alternatives import alternative_rows
from optimizer.planning.wave_rows import captured_at
from optimizer.settings import Settings
from optimizer.stages.plan.cluster_tables import cluster_tables
from optimizer.stages.stage import Frames, Refusals, Run
from optimizer.units import first_of
from schemas.keys import CLUSTER_RUN, PARTITION
from schemas.output import ALTERNATIVES
from schemas.spark import conform, schema_of


def alternatives_table(instance: DataFrame, hosts: DataFrame, moved: DataFrame, settings: Settings) -> DataFrame:
    """Rows of ``alternatives`` of the clusters with at most ``[solver] alternatives_brokers`` brokers.

    Parameters
    ----------
    instance : DataFrame
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``captured_at``.
    moved : DataFrame
        ``moved_bytes`` that the plan of each cluster copies.
    """
    counts = hosts.groupBy("cluster_id").count().filter(F.col("count") <= settings.solver.alternatives_brokers)
    small = F.broadcast(counts.select("cluster_id"))
    rows = hosts.join(small, "cluster_id", "left_semi").join(moved, "cluster_id").groupBy("cluster_id")
    partitions = instance.join(small, "cluster_id", "left_semi").groupBy("cluster_id")
    made = partitions.cogroup(rows).applyInPandas(partial(_rows, settings=settings), schema_of(ALTERNATIVES))
    return conform(made, ALTERNATIVES)


def _rows(instance: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    if instance.empty or hosts.empty:
        return pd.DataFrame(columns=list(ALTERNATIVES.names))
    moved = float(hosts["moved_bytes"].iloc[0])
    rows = alternative_rows(instance, hosts, settings, moved_bytes=moved, captured_at=captured_at(hosts))
    common = {name: hosts[name].iloc[0] for name in CLUSTER_RUN}
    return pd.DataFrame(rows).assign(**common)[list(ALTERNATIVES.names)]


_NAMED = 5  # partitions in a message: more make a line too long to read


def build(inputs: Frames, run: Run) -> Frames:
    """The tables of a plan."""
    oldest = F.unix_seconds(F.min("captured_at")).alias("captured_at")
    captured = inputs["sources"].where("has_state").groupBy("cluster_id").agg(oldest)
    hosts = inputs["instance_brokers"].join(captured, "cluster_id", "left")
    tables = cluster_tables(inputs, hosts, run.settings)
    waiting = inputs["findings"].where(F.col("code") == FindingCode.WAITS_TO_START.value).select("cluster_id")
    if run.settings.policy.start_at:
        hosts = hosts.join(F.broadcast(waiting), "cluster_id", "left_anti")
    moved = tables["plan"].groupBy("cluster_id").agg(F.sum("moved_bytes").alias("moved_bytes"))
    return {**tables, "alternatives": alternatives_table(inputs["instance"], hosts, moved, run.settings)}


def gate(frames: Frames, run: Run) -> Refusals:
    """Clusters whose task needed too much memory; clusters in which the disks have no room for any order of the copies,
    with the first partitions; and clusters without a first night."""
    number = F.row_number().over(Window.partitionBy("cluster_id").orderBy("topic", "partition"))
    unscheduled = frames["plan"].filter("is_changed AND wave IS NULL").withColumn("number", number)
    planned = frames["broker_balance"].select("cluster_id").distinct()
    lost = frames["instance_brokers"].select("cluster_id").distinct().join(planned, "cluster_id", "anti")
    both = unscheduled.filter(F.col("number") <= _NAMED + 1).unionByName(lost, allowMissingColumns=True)
    rows = both.select(*PARTITION).orderBy(*PARTITION).collect()
    refused: dict[str, BallastError] = {row.cluster_id: _no_memory(row.cluster_id) for row in rows if row.topic is None}
    first: dict[str, list[str]] = {}
    for row in (row for row in rows if row.cluster_id not in refused):
        first.setdefault(row.cluster_id, []).append(f"{row.cluster_id}: {row.topic}-{row.partition}")
    unplaced = {cluster: _no_order_of_copies(names, run.settings) for cluster, names in first.items()}
    return refused | (_without_first_night(frames["waves"]) if run.settings.schedule.windows else {}) | unplaced


def _no_memory(cluster: str) -> BallastError:
    remedy = "plan it alone (--cluster), or on a machine with more memory"
    return BallastError(f"cluster {cluster}: its plan needs more memory than a Python process got; {remedy}")


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
    named = first_of(names, _NAMED)
    or_waves = " or set [schedule] waves = 0" if settings.schedule.waves else ""
    return AuditFailed(
        f"no order of copies keeps every disk under its limit while old and new copies exist: {named}; "
        f"lower [policy] disk_headroom (now {settings.policy.disk_headroom:g}), add disks{or_waves}"
    )
