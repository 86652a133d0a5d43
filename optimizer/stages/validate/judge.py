"""Records -> judged frames: rows with the columns that the rules need, and their ``ok_`` columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.settings import Settings
from optimizer.stages.shared.records import SOURCE_COLUMNS, newest_first, placements, typed, whole_number
from optimizer.stages.validate import cross_rules, rule_table
from optimizer.stages.validate.rule import Rule, is_usable, with_flags
from schemas.keys import BROKER, PARTITION
from schemas.spark import compute_once
from sources.offsets import TIMES

_OTHER = "struct<rank: int, source: string, line: int, replicas: array<bigint>>"


@dataclass(frozen=True)
class Judged:
    """Rows with the ``ok_`` columns of their rules.

    Parameters
    ----------
    table : str
        Table of the rows.
    rules : tuple of Rule
    rows : DataFrame
        Computed once: they are split, counted and used.
    is_ranked : bool
        Whether only rows with ``rank`` 1 are used: the others are copies.
    """

    table: str
    rules: tuple[Rule, ...]
    rows: DataFrame
    is_ranked: bool = False

    @property
    def used(self) -> DataFrame:
        """Rows that meet every rule of severity error, without copies."""
        usable = self.rows.where(is_usable(self.rules))
        return usable.where("rank = 1") if self.is_ranked else usable


def judge_rows(table: str, rows: DataFrame, rules: Sequence[Rule]) -> Judged:
    """The rows with the flags of the rules, computed."""
    return Judged(table, tuple(rules), with_flags(rows, rules).transform(compute_once))


def judge_placements(records: DataFrame) -> Judged:
    """Partitions. If described several times, a description counts before an assignment document, then the newest one.

    Of the same time, a description with reassignments in flight counts before one without, then the smaller ISR: a
    replica that one description shows out of sync may still be out of sync.
    """
    readable = (*rule_table.PLACEMENTS, *cross_rules.PLACEMENTS)
    flagged = with_flags(placements(records), readable)
    valid = flagged.withColumn("is_valid", is_usable(readable))
    group = Window.partitionBy(*PARTITION, "is_valid")
    order = group.orderBy(
        F.col("kind") == "assignment",
        F.desc("captured_at"),
        F.desc("knows_moves"),
        F.size("isr"),
        F.col("leader").isNotNull(),
        "source",
        "ordinal",
    )
    ranked = valid.withColumns(
        {
            "rank": F.row_number().over(order),
            "first_kind": F.first("kind").over(order),
            "first_source": F.first("source").over(order),
            "first_line": F.first("line").over(order),
            "first_replicas": F.first("replicas").over(order),
            "first_leader": F.first("leader").over(order),
            "first_isr": F.first("isr").over(order),
        }
    )
    same_kind = F.col("kind") == F.col("first_kind")
    differs = same_kind & (F.col("replicas") != F.col("first_replicas"))
    # In a conflict the first row names the next that differs; every other row names the first.
    next_other = F.min(F.when(differs, F.struct("rank", "source", "line", "replicas"))).over(group)
    first = F.struct(F.lit(1).alias("rank"), "first_source", "first_line", "first_replicas")
    other = F.when(differs, first.cast(_OTHER)).otherwise(next_other.cast(_OTHER))
    is_same = F.expr("leader <=> first_leader AND array_sort(isr) = array_sort(first_isr)")
    known = ranked.withColumns({"other": other, "is_same": is_same})
    known = known.withColumn("in_conflict", same_kind & F.col("other").isNotNull())
    rows = with_flags(known, rule_table.SNAPSHOTS, where=F.col("is_valid")).transform(compute_once)
    return Judged("bronze_records", (*readable, *rule_table.SNAPSHOTS), rows, is_ranked=True)


def judge_brokers(records: DataFrame) -> Judged:
    """Brokers from every list of brokers."""
    named = typed(records, "broker").withColumn("rack", F.nullif(F.trim("rack"), F.lit("")))
    racks = F.array_sort(F.collect_set("rack").over(Window.partitionBy(*BROKER)))
    return judge_rows("bronze_records", named.withColumn("racks", racks), rule_table.BROKERS)


def judge_log_dirs(records: DataFrame) -> Judged:
    """Log directories, object storage included; ``is_newest``: from the newest output about the broker."""
    newest = Window.partitionBy(*BROKER).orderBy(*newest_first())
    directories = typed(records, "log_dir").withColumn("is_newest", F.rank().over(newest) == 1)
    return judge_rows("bronze_records", directories, (*rule_table.LOG_DIRS, *cross_rules.LOG_DIRS))


def judge_sizes(records: DataFrame, placed: DataFrame) -> Judged:
    """Sizes of replicas on disks. For each replica, with its future copy, the newest output counts."""
    logs = typed(records, "log_dir_replica").where(f"NOT {rule_table.HAS_SCHEME}")
    flagged = with_flags(logs, rule_table.REPLICA_SIZES).withColumns(
        {
            "is_future": F.coalesce("is_future", F.lit(False)),
            "is_valid": is_usable(rule_table.REPLICA_SIZES),
            "bytes": F.expr(whole_number("size_bytes")),
        }
    )
    replica = Window.partitionBy(*PARTITION, "broker_id", "is_valid")
    newest = replica.orderBy(*newest_first())
    same = Window.partitionBy(*PARTITION, "broker_id", "is_valid", "is_future")
    order = same.orderBy(*newest_first(), F.desc("bytes"), "ordinal")
    lists = placed.select(*PARTITION, F.col("replicas").alias("placed_on"))
    known = flagged.join(lists, PARTITION, "left").withColumns(
        {
            "first_source": F.first("source").over(newest),
            "first_log_dir": F.first("log_dir").over(order),
            "rank": F.row_number().over(order),
            "is_placed": F.array_contains("placed_on", F.col("broker_id")),
        }
    )
    of_newest = F.col("source") == F.col("first_source")
    known = known.withColumn("rank", F.when(of_newest, F.col("rank")).otherwise(F.col("rank") + 1))
    known = known.transform(_with_moves_between_disks)
    placed_rules = (*rule_table.PLACED_SIZES, *cross_rules.LOGS)
    rows = with_flags(known, placed_rules, where=F.col("is_valid")).transform(compute_once)
    return Judged("bronze_records", (*rule_table.REPLICA_SIZES, *placed_rules), rows, is_ranked=True)


def _with_moves_between_disks(sizes: DataFrame) -> DataFrame:
    """Add the number of replicas of the cluster that move between disks of their broker, and their bytes."""
    replica = Window.partitionBy(*PARTITION, "broker_id", "is_valid")
    log_bytes = F.max(F.when(F.expr("NOT is_future AND rank = 1"), F.col("bytes"))).over(replica)
    sized = sizes.withColumn("log_bytes", F.greatest(F.coalesce(log_bytes, F.lit(0)), "bytes"))
    moving = sized.where("is_future AND is_valid AND rank = 1").groupBy("cluster_id")
    sums = moving.agg(F.count(F.lit(1)).alias("moving"), _sum(F.col("log_bytes")).alias("moving_bytes"))
    return sized.join(F.broadcast(sums), "cluster_id", "left")


def judge_capacities(records: DataFrame, brokers: DataFrame, log_dirs: DataFrame) -> Judged:
    """Capacities, compared with the known brokers and directories."""
    variants = F.collect_set(F.struct("disk_bytes", "in_bytes_per_s", "out_bytes_per_s"))
    paths = F.array_sort(F.collect_set("log_dir")).alias("directories")
    directories = log_dirs.groupBy(*BROKER).agg(paths)
    # The default may name directories of any broker, also of brokers that reported none.
    silent = F.coalesce(F.bool_or((F.col("state") != "dead") & F.col("answered_at").isNull()), F.lit(False))
    silent_in = brokers.groupBy("cluster_id").agg(silent.alias("some_silent")).where("some_silent")
    of_all = log_dirs.groupBy("cluster_id").agg(paths).join(silent_in, "cluster_id", "anti")
    directories = directories.unionByName(of_all.withColumn("broker_id", F.lit(-1)))
    ids = brokers.select(*BROKER, F.lit(True).alias("is_known"))
    given = typed(records, "capacity").withColumn(
        "variants", F.size(variants.over(Window.partitionBy(*BROKER, "log_dir")))
    )
    known = given.join(ids, BROKER, "left").join(directories, BROKER, "left")
    known_dir = "log_dir IS NULL OR directories IS NULL OR array_contains(directories, log_dir)"
    matched = F.expr(f"NOT {rule_table.HAS_SCHEME} AND ({known_dir})")
    return judge_rows("bronze_records", known.withColumn("is_matched", matched), rule_table.CAPACITIES)


def judge_topics(
    records: DataFrame, placed: DataFrame, configs: DataFrame, *, measured: DataFrame, settings: Settings
) -> Judged:
    """Headers of topics, compared with the partitions; also topics without a header, and topics with only configs.

    Parameters
    ----------
    records, placed, configs : DataFrame
    measured : DataFrame
        Partitions in metrics. Like logs and loads, they show what a description without headers lacks.
    settings : Settings
    """
    topic = ["cluster_id", "topic"]
    described = placed.groupBy(*topic).agg(F.count(F.lit(1)).alias("described"), F.max("partition").alias("highest"))
    described = described.join(_replication_factors(placed), topic, "left")
    headers = typed(records, "topic")
    same = Window.partitionBy(*topic)
    headers = headers.withColumns(
        {
            "most_partitions": F.max("partition_count").over(same),
            "topic_ids": F.array_sort(F.collect_set("topic_id").over(same)),
        }
    )
    configured = configs.where("entity_type = 'topics'").withColumnRenamed("entity_name", "topic")
    without_header = (_first_of(frame, topic) for frame in (placed.drop("highest"), configured))
    known = reduce(lambda rows, new: rows.unionByName(new.join(rows, topic, "anti"), True), without_header, headers)
    has_headers = F.max(F.col("kind") == "topic").over(Window.partitionBy("cluster_id"))
    known = known.join(described, topic, "left").fillna(0, ["described"]).withColumn("has_headers", has_headers)
    known = known.join(_named_elsewhere(records, measured), ["cluster_id"], "left")
    # Reported once for each cluster. Records without lines come from the Admin API and are complete.
    nth = F.row_number().over(Window.partitionBy("cluster_id", "kind").orderBy("source", "ordinal"))
    nth_of_topic = F.row_number().over(same.orderBy("source", "ordinal"))
    known = known.withColumns(
        {
            "is_complete_by_header": (F.col("kind") != "partition")
            | F.col("has_headers")
            | F.expr("line = 0")
            | (nth > 1),
            "is_named_elsewhere": F.col("is_named_elsewhere").isNotNull(),
            "nth_of_topic": nth_of_topic,
        }
    )
    return judge_rows("bronze_records", known, (*rule_table.TOPICS, *cross_rules.topics(settings)))


def _replication_factors(placed: DataFrame) -> DataFrame:
    """Numbers of partitions by number of replicas for each topic, the most common first; null if all are in flight."""
    topic = ["cluster_id", "topic"]
    settled = placed.where("size(adding) + size(removing) = 0")
    counted = settled.groupBy(*topic, F.size("replicas").alias("replicas")).agg(
        F.count(F.lit(1)).alias("partitions"), F.min("partition").alias("first")
    )
    each = F.struct((-F.col("partitions")).alias("rank"), "replicas", "partitions", "first")
    return counted.groupBy(*topic).agg(F.array_sort(F.collect_list(each)).alias("factors"))


def _named_elsewhere(records: DataFrame, measured: DataFrame) -> DataFrame:
    """Clusters in which logs, loads or metrics name partitions."""
    listed = records.where(F.col("kind").isin("log_dir_replica", "partition_load")).select("cluster_id")
    clusters = listed.unionByName(measured.select("cluster_id")).distinct()
    return clusters.withColumn("is_named_elsewhere", F.lit(True))


def _first_of(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """The first row of each key, with only its source columns."""
    order = Window.partitionBy(*key).orderBy("source", "ordinal")
    first = frame.withColumn("nth", F.row_number().over(order)).where("nth = 1")
    return first.select(*dict.fromkeys((*SOURCE_COLUMNS, *key)))


def judge_configs(records: DataFrame) -> Judged:
    """Configs. If one is in a file twice, a heading may be missing, so that it belongs to another entity."""
    same = Window.partitionBy("cluster_id", "source", "entity_type", "entity_name", "name")
    configs = typed(records, "config").withColumn("times", F.count(F.lit(1)).over(same))
    return judge_rows("bronze_records", configs, cross_rules.CONFIGS)


def judge_cluster_ids(records: DataFrame) -> Judged:
    """Kafka's ids of the cluster, from all sources that have one."""
    named = typed(records, "cluster_id").withColumn(
        "cluster_ids", F.array_sort(F.collect_set("kafka_cluster_id").over(Window.partitionBy("cluster_id")))
    )
    return judge_rows("bronze_records", named, cross_rules.CLUSTER_IDS)


def judge_held(brokers: DataFrame, replicas: DataFrame, load: DataFrame) -> Judged:
    """Bytes and rates on each broker, compared with its capacities.

    Parameters
    ----------
    brokers, replicas, load : DataFrame
        Rows of the tables ``brokers`` (with source and line), ``replicas``, ``partition_load``.
    """
    of_partition = load.select("run_id", *PARTITION, "size_bytes", "in_bytes_per_s", "out_bytes_per_s")
    each = replicas.drop("size_bytes").join(of_partition, ["run_id", *PARTITION])
    held = each.groupBy(*BROKER).agg(
        _sum(F.col("size_bytes")).alias("held_bytes"),
        _sum(F.col("in_bytes_per_s")).alias("held_in_bytes_per_s"),
        _sum(F.when(F.col("is_leader"), F.col("out_bytes_per_s"))).alias("held_out_bytes_per_s"),
    )
    known = brokers.join(held, BROKER, "left")
    names = ("held_bytes", "held_in_bytes_per_s", "held_out_bytes_per_s")
    return judge_rows("brokers", known.fillna(0, list(names)), cross_rules.CAPACITIES)


def judge_reassignments(records: DataFrame, placed: DataFrame) -> Judged:
    """Reassignments in flight."""
    return judge_rows("bronze_records", with_known(typed(records, "reassignment"), placed), rule_table.REASSIGNMENTS)


def judge_loads(records: DataFrame, placed: DataFrame) -> Judged:
    """Given loads of partitions."""
    variants = F.collect_set(F.struct("size_bytes", "in_bytes_per_s", "out_bytes_per_s"))
    given = typed(records, "partition_load").withColumn(
        "variants", F.size(variants.over(Window.partitionBy(*PARTITION)))
    )
    return judge_rows("bronze_records", with_known(given, placed), rule_table.LOADS)


def judge_offsets(records: DataFrame, placed: DataFrame) -> Judged:
    """Offsets of partitions: of each kind, and of each replica, those of the newest output."""
    newest = F.row_number().over(Window.partitionBy(*PARTITION, "time", "broker_id").orderBy(*newest_first()))
    given = typed(records, "offset").withColumns({"value": F.expr(whole_number("offset")), "rank": newest})
    same = Window.partitionBy(*PARTITION)
    at = {time: F.max(F.when(F.col("time") == time, F.col("value"))).over(same) for time in TIMES}
    known = with_known(given.where("rank = 1").withColumns(at), placed)
    return judge_rows("bronze_records", known, rule_table.OFFSETS)


def judge_coverage(loads: DataFrame, settings: Settings) -> Judged:
    """Loads of partitions. Lost partitions need neither size nor rates."""
    coverage = rule_table.coverage(settings)
    rows = with_flags(loads, coverage, where=~F.col("is_lost"))
    rules = (*coverage, *cross_rules.REPLICAS_WITH_LOGS)
    return Judged("partition_load", rules, with_flags(rows, cross_rules.REPLICAS_WITH_LOGS).transform(compute_once))


def judge_metrics(samples: DataFrame, rates: DataFrame, placed: DataFrame) -> Judged:
    """Partitions in metrics (rows of ``loads_in_window``); only unknown ones get source and line of a sample."""
    named = with_known(rates, placed).transform(compute_once)
    unknown = named.where("is_known IS NULL").select("run_id", *PARTITION)
    first = F.min(F.struct("source", F.col("line").cast("int").alias("line"), "metric")).alias("first")
    sources = (
        samples.join(F.broadcast(unknown), ["run_id", *PARTITION], "inner").groupBy("run_id", *PARTITION).agg(first)
    )
    rows = named.join(sources, ["run_id", *PARTITION], "left").select(
        *("cluster_id", "run_id", "topic", "partition", "samples", "is_known", "first.source", "first.line"),
        F.lit("metric").alias("kind"),
        F.to_json(F.struct("topic", "partition", "samples")).alias("payload"),
    )
    return judge_rows("bronze_metrics", rows, rule_table.METRICS)


def malformed(records: DataFrame) -> DataFrame:
    """Rows of ``quarantine`` for records that no parser could read; reason and remedy come from the parser."""
    return typed(records, "malformed").select(
        *("cluster_id", "run_id", "source", "line", "kind"),
        F.coalesce("rule", F.lit("readable")).alias("rule"),
        F.coalesce("severity", F.lit("error")).alias("severity"),
        F.concat(F.lit("expected "), F.coalesce("expected", F.lit("a record")), F.lit(": "), "reason").alias("reason"),
        F.coalesce("remedy", F.lit("correct the line, or leave it out")).alias("remedy"),
        "payload",
    )


def _sum(amount: Column) -> Column:
    """A sum that cannot overflow: amounts in a wrong unit must reach the rules."""
    return F.sum(amount.cast("decimal(38,0)"))


def with_known(frame: DataFrame, placed: DataFrame) -> DataFrame:
    """Add ``is_known``: true for partitions that are placed, null for others."""
    known = placed.select(*PARTITION, F.lit(True).alias("is_known"))
    return frame.join(known, PARTITION, "left")
