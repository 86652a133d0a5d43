"""Records -> judged frames: every row with its ``ok_`` columns, and what the rules need to know beside the row."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.settings import Settings
from optimizer.stages.shared.records import SOURCE_COLUMNS, placements, typed, whole_number
from optimizer.stages.validate import cross_rules, rule_table
from optimizer.stages.validate.rule import Rule, is_usable, with_flags
from schemas.keys import BROKER, PARTITION

_OTHER = "struct<place: int, source: string, line: int, replicas: array<bigint>>"


@dataclass(frozen=True)
class Judged:
    """Rows with the ``ok_`` columns of their rules.

    Parameters
    ----------
    table : str
        Table that the rows come from, or are.
    rules : tuple of Rule
    rows : DataFrame
        Kept in memory: they are split, counted and used.
    is_ranked : bool
        Whether only rows of ``place`` 1 are used: the others are copies of them.
    """

    table: str
    rules: tuple[Rule, ...]
    rows: DataFrame
    is_ranked: bool = False

    @property
    def used(self) -> DataFrame:
        """Rows that keep every rule of severity error, each once."""
        usable = self.rows.where(is_usable(self.rules))
        return usable.where("place = 1") if self.is_ranked else usable


def kept(frame: DataFrame) -> DataFrame:
    """Compute a frame once and cut its plan off.

    Frames here feed several others, which feed others: a cached frame would still drag its whole plan through every
    analysis and every look-up in the cache, which took most of the time.
    """
    return frame.localCheckpoint(eager=True)


def judged(table: str, rows: DataFrame, rules: Sequence[Rule]) -> Judged:
    """Flag the rows."""
    return Judged(table, tuple(rules), with_flags(rows, rules).transform(kept))


def judge_placements(records: DataFrame) -> Judged:
    """Partitions, each described once: a description counts before an assignment document, the newest first.

    Of the same capture, one that tells what is in flight counts before one that does not, then the smaller ISR: a
    replica that was out of sync in one of them may be so still.
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
            "place": F.row_number().over(order),
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
    # The first row names the next that differs, every other row names the first.
    next_other = F.min(F.when(differs, F.struct("place", "source", "line", "replicas"))).over(group)
    first = F.struct(F.lit(1).alias("place"), "first_source", "first_line", "first_replicas")
    other = F.when(differs, first.cast(_OTHER)).otherwise(next_other.cast(_OTHER))
    is_alike = F.expr("leader <=> first_leader AND array_sort(isr) = array_sort(first_isr)")
    known = ranked.withColumns({"other": other, "is_alike": is_alike})
    known = known.withColumn("in_conflict", same_kind & F.col("other").isNotNull())
    rows = with_flags(known, rule_table.SNAPSHOTS, where=F.col("is_valid")).transform(kept)
    return Judged("bronze_records", (*readable, *rule_table.SNAPSHOTS), rows, is_ranked=True)


def judge_brokers(records: DataFrame) -> Judged:
    """Brokers as every source lists them."""
    named = typed(records, "broker").withColumn("rack", F.nullif(F.trim("rack"), F.lit("")))
    racks = F.array_sort(F.collect_set("rack").over(Window.partitionBy(*BROKER)))
    return judged("bronze_records", named.withColumn("racks", racks), rule_table.BROKERS)


def judge_log_dirs(records: DataFrame) -> Judged:
    """Log directories, also what is none (object storage); ``is_newest`` is of the newest output about the broker."""
    newest = Window.partitionBy(*BROKER).orderBy(F.desc("captured_at"))
    told = typed(records, "log_dir").withColumn("is_newest", F.rank().over(newest) == 1)
    return judged("bronze_records", told, (*rule_table.LOG_DIRS, *cross_rules.LOG_DIRS))


def judge_sizes(records: DataFrame, placed: DataFrame) -> Judged:
    """Sizes of replicas on disks; of several outputs the newest counts, for each replica, with its future copy."""
    told = typed(records, "log_dir_replica").where(f"NOT {rule_table.HAS_SCHEME}")
    flagged = with_flags(told, rule_table.REPLICA_SIZES).withColumns(
        {
            "is_future": F.coalesce("is_future", F.lit(False)),
            "is_valid": is_usable(rule_table.REPLICA_SIZES),
            "bytes": F.expr(whole_number("size_bytes")),
        }
    )
    replica = Window.partitionBy(*PARTITION, "broker_id", "is_valid")
    newest = replica.orderBy(F.desc("captured_at"), "source")
    same = Window.partitionBy(*PARTITION, "broker_id", "is_valid", "is_future")
    order = same.orderBy(F.desc("captured_at"), "source", F.desc("bytes"), "ordinal")
    lists = placed.select(*PARTITION, F.col("replicas").alias("placed_on"))
    known = flagged.join(lists, PARTITION, "left").withColumns(
        {
            "first_source": F.first("source").over(newest),
            "first_log_dir": F.first("log_dir").over(order),
            "place": F.row_number().over(order),
            "is_placed": F.array_contains("placed_on", F.col("broker_id")),
        }
    )
    of_newest = F.col("source") == F.col("first_source")
    known = known.withColumn("place", F.when(of_newest, F.col("place")).otherwise(F.col("place") + 1))
    known = known.transform(_with_moves_between_disks)
    placed_rules = (*rule_table.PLACED_SIZES, *cross_rules.LOGS)
    rows = with_flags(known, placed_rules, where=F.col("is_valid")).transform(kept)
    return Judged("bronze_records", (*rule_table.REPLICA_SIZES, *placed_rules), rows, is_ranked=True)


def _with_moves_between_disks(sizes: DataFrame) -> DataFrame:
    """Add how many replicas of the cluster move to another disk of their broker, and how many bytes they have."""
    replica = Window.partitionBy(*PARTITION, "broker_id", "is_valid")
    log_bytes = F.max(F.when(F.expr("NOT is_future AND place = 1"), F.col("bytes"))).over(replica)
    sized = sizes.withColumn("log_bytes", F.greatest(F.coalesce(log_bytes, F.lit(0)), "bytes"))
    moving = sized.where("is_future AND is_valid AND place = 1").groupBy("cluster_id")
    sums = moving.agg(F.count(F.lit(1)).alias("moving"), _sum(F.col("log_bytes")).alias("moving_bytes"))
    return sized.join(F.broadcast(sums), "cluster_id", "left")


def judge_capacities(records: DataFrame, brokers: DataFrame, log_dirs: DataFrame) -> Judged:
    """Capacities, against the brokers and directories that there are."""
    variants = F.collect_set(F.struct("disk_bytes", "in_bytes_per_s", "out_bytes_per_s"))
    paths = F.array_sort(F.collect_set("log_dir")).alias("directories")
    directories = log_dirs.groupBy(*BROKER).agg(paths)
    # The default may name the directories of any broker, and of those that tell of none.
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
    return judged("bronze_records", known.withColumn("is_matched", matched), rule_table.CAPACITIES)


def judge_topics(
    records: DataFrame, placed: DataFrame, configs: DataFrame, *, measured: DataFrame, settings: Settings
) -> Judged:
    """Headers of topics against the partitions that were read; topics without a header, and those of configs alone.

    Parameters
    ----------
    records, placed, configs : DataFrame
    measured : DataFrame
        Partitions that metrics name: together with logs and loads they show what a description without headers lacks.
    settings : Settings
    """
    topic = ["cluster_id", "topic"]
    seen = placed.groupBy(*topic).agg(F.count(F.lit(1)).alias("seen"), F.max("partition").alias("highest"))
    seen = seen.join(_replication_factors(placed), topic, "left")
    headers = typed(records, "topic")
    same = Window.partitionBy(*topic)
    headers = headers.withColumns(
        {
            "most_partitions": F.max("partition_count").over(same),
            "topic_ids": F.array_sort(F.collect_set("topic_id").over(same)),
        }
    )
    configured = configs.where("entity_type = 'topics'").withColumnRenamed("entity_name", "topic")
    others = (_first_of(frame, topic) for frame in (placed.drop("highest"), configured))
    known = reduce(lambda one, more: one.unionByName(more.join(one, topic, "anti"), True), others, headers)
    has_headers = F.max(F.col("kind") == "topic").over(Window.partitionBy("cluster_id"))
    known = known.join(seen, topic, "left").fillna(0, ["seen"]).withColumn("has_headers", has_headers)
    known = known.join(_named_elsewhere(records, measured), ["cluster_id"], "left")
    # Once for each cluster. What has no lines (an API's answer) was not cut off.
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
    return judged("bronze_records", known, (*rule_table.TOPICS, *cross_rules.topics(settings)))


def _replication_factors(placed: DataFrame) -> DataFrame:
    """How many partitions of each topic have how many replicas, the most common first; null if all are being moved."""
    topic = ["cluster_id", "topic"]
    settled = placed.where("size(adding) + size(removing) = 0")
    counted = settled.groupBy(*topic, F.size("replicas").alias("replicas")).agg(
        F.count(F.lit(1)).alias("partitions"), F.min("partition").alias("first")
    )
    each = F.struct((-F.col("partitions")).alias("rank"), "replicas", "partitions", "first")
    return counted.groupBy(*topic).agg(F.array_sort(F.collect_list(each)).alias("factors"))


def _named_elsewhere(records: DataFrame, measured: DataFrame) -> DataFrame:
    """Clusters of which a source other than descriptions names partitions."""
    listed = records.where(F.col("kind").isin("log_dir_replica", "partition_load")).select("cluster_id")
    clusters = listed.unionByName(measured.select("cluster_id")).distinct()
    return clusters.withColumn("is_named_elsewhere", F.lit(True))


def _first_of(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """The first row of each key, with its place alone."""
    order = Window.partitionBy(*key).orderBy("source", "ordinal")
    first = frame.withColumn("nth", F.row_number().over(order)).where("nth = 1")
    return first.select(*dict.fromkeys((*SOURCE_COLUMNS, *key)))


def judge_configs(records: DataFrame) -> Judged:
    """Configs, each told once in a file: else those of two entities may stand under one heading."""
    same = Window.partitionBy("cluster_id", "source", "entity_type", "entity_name", "name")
    told = typed(records, "config").withColumn("times", F.count(F.lit(1)).over(same))
    return judged("bronze_records", told, cross_rules.CONFIGS)


def judge_cluster_ids(records: DataFrame) -> Judged:
    """Kafka's own ids of the cluster, where a source tells one."""
    named = typed(records, "cluster_id").withColumn(
        "cluster_ids", F.array_sort(F.collect_set("kafka_cluster_id").over(Window.partitionBy("cluster_id")))
    )
    return judged("bronze_records", named, cross_rules.CLUSTER_IDS)


def judge_held(brokers: DataFrame, replicas: DataFrame, load: DataFrame) -> Judged:
    """What brokers hold and carry, against their capacities.

    Parameters
    ----------
    brokers, replicas, load : DataFrame
        Rows of the tables ``brokers`` (with a place of their own), ``replicas``, ``partition_load``.
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
    return judged("brokers", known.fillna(0, list(names)), cross_rules.CAPACITIES)


def judge_reassignments(records: DataFrame, placed: DataFrame) -> Judged:
    """Reassignments in flight."""
    return judged("bronze_records", _with_known(typed(records, "reassignment"), placed), rule_table.REASSIGNMENTS)


def judge_loads(records: DataFrame, placed: DataFrame) -> Judged:
    """Finished loads of partitions."""
    variants = F.collect_set(F.struct("size_bytes", "in_bytes_per_s", "out_bytes_per_s"))
    given = typed(records, "partition_load").withColumn(
        "variants", F.size(variants.over(Window.partitionBy(*PARTITION)))
    )
    return judged("bronze_records", _with_known(given, placed), rule_table.LOADS)


def judge_coverage(loads: DataFrame, settings: Settings) -> Judged:
    """Loads of partitions; of those that are lost nobody can ask for a size or rates."""
    coverage = rule_table.coverage(settings)
    rows = with_flags(loads, coverage, where=~F.col("is_lost"))
    rules = (*coverage, *cross_rules.REPLICAS_WITH_LOGS)
    return Judged("partition_load", rules, with_flags(rows, cross_rules.REPLICAS_WITH_LOGS).transform(kept))


def judge_metrics(samples: DataFrame, rates: DataFrame, placed: DataFrame) -> Judged:
    """Partitions that metrics name (rows of ``loads_in_window``); only unknown ones are looked up in the samples."""
    named = _with_known(rates, placed).transform(kept)
    unknown = named.where("is_known IS NULL").select("run_id", *PARTITION)
    first = F.min(F.struct("source", F.col("line").cast("int").alias("line"), "metric")).alias("first")
    places = (
        samples.join(F.broadcast(unknown), ["run_id", *PARTITION], "inner").groupBy("run_id", *PARTITION).agg(first)
    )
    rows = named.join(places, ["run_id", *PARTITION], "left").select(
        *("cluster_id", "run_id", "topic", "partition", "samples", "is_known", "first.source", "first.line"),
        F.lit("metric").alias("kind"),
        F.to_json(F.struct("topic", "partition", "samples")).alias("payload"),
    )
    return judged("bronze_metrics", rows, rule_table.METRICS)


def malformed(records: DataFrame) -> DataFrame:
    """Rows of ``quarantine`` for what no parser could read; the parser named reason and remedy."""
    return typed(records, "malformed").select(
        *("cluster_id", "run_id", "source", "line", "kind"),
        F.coalesce("rule", F.lit("readable")).alias("rule"),
        F.coalesce("severity", F.lit("error")).alias("severity"),
        F.concat(F.lit("expected "), F.coalesce("expected", F.lit("a record")), F.lit(": "), "reason").alias("reason"),
        F.coalesce("remedy", F.lit("mend the line, or leave it out")).alias("remedy"),
        "payload",
    )


def _sum(amount: Column) -> Column:
    """A sum that no unit makes too large: it is judged here, so it must not fail before."""
    return F.sum(amount.cast("decimal(38,0)"))


def _with_known(frame: DataFrame, placed: DataFrame) -> DataFrame:
    known = placed.select(*PARTITION, F.lit(True).alias("is_known"))
    return frame.join(known, PARTITION, "left")
