"""Consumer groups: records -> judged frames -> the tables ``consumer_groups`` and ``consumer_members``."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.stages.shared.records import newest_first, typed
from optimizer.stages.stage import Frames
from optimizer.stages.validate import consumer_rules
from optimizer.stages.validate.judge import Judged, compute_once, judge_rows
from schemas.consumers import CONSUMER_GROUPS, CONSUMER_MEMBERS
from schemas.keys import CLUSTER_RUN, PARTITION
from schemas.spark import conform, schema_of, small_frame

_GROUP = (*CLUSTER_RUN, "group")
_MEMBER = (*_GROUP, "member_id")
_HELD = (*_MEMBER, "topic", "partition")
# Fields of a member that its row has, besides those that identify it.
_ABOUT = ("client_id", "host", "instance_id", "protocol")
_STATED = ("protocol", "state", "assignor", "coordinator_id", "members", "epoch")
_ASSIGNED = "array<struct<topic:string,partitions:array<int>>>"


@dataclass(frozen=True)
class Consumers:
    """Both tables by name, and the judged frames that they come from: none if no source is about consumers."""

    tables: Frames
    judged: tuple[Judged, ...] = ()


def consumers(records: DataFrame, placed: DataFrame) -> Consumers:
    """The consumer groups of all clusters.

    Parameters
    ----------
    records : DataFrame
        Rows of ``bronze_records``.
    placed : DataFrame
        The partitions that are used.
    """
    if records.where("kind LIKE 'consumer\\\\_%'").isEmpty():
        empty = {table.name: small_frame(records.sparkSession, [], schema_of(table)) for table in _TABLES}
        return Consumers(empty)
    offsets = judge_rows("bronze_records", _offsets(records, placed), consumer_rules.OFFSETS)
    listed = judge_rows("bronze_records", _held(records, placed), consumer_rules.HELD)
    held = _of_all_groups(listed.rows, offsets.rows).transform(compute_once)
    groups = judge_rows("bronze_records", _groups(records, held), consumer_rules.GROUPS)
    tables = {
        "consumer_groups": conform(_group_rows(groups.rows, offsets.rows, held), CONSUMER_GROUPS),
        "consumer_members": conform(_member_rows(held), CONSUMER_MEMBERS),
    }
    return Consumers(tables, (offsets, listed, groups))


_TABLES = (CONSUMER_GROUPS, CONSUMER_MEMBERS)


def _with_known(rows: DataFrame, placed: DataFrame) -> DataFrame:
    return rows.join(placed.select(*PARTITION, F.lit(True).alias("is_known")), PARTITION, "left")


def _offsets(records: DataFrame, placed: DataFrame) -> DataFrame:
    """The newest offset of each group and partition."""
    newest = Window.partitionBy(*_GROUP, "topic", "partition").orderBy(*newest_first(), F.desc("ordinal"))
    ranked = typed(records, "consumer_offset").withColumn("rank", F.row_number().over(newest))
    return _with_known(ranked.where("rank = 1"), placed)


def _held(records: DataFrame, placed: DataFrame) -> DataFrame:
    """A row for each partition that a member holds, from one source for each group.

    That source is the newest one that prints partitions, else the newest one.
    """
    best = Window.partitionBy(*_GROUP).orderBy(F.col("assigned").isNull(), *newest_first())
    members = typed(records, "consumer_member")
    prints = F.max(F.col("assigned").isNotNull()).over(Window.partitionBy(*_GROUP, "source"))
    chosen = members.withColumn("prints", prints).withColumn("first_source", F.first("source").over(best))
    last = Window.partitionBy(*_MEMBER).orderBy(F.desc("ordinal"))
    chosen = chosen.where("source = first_source").withColumn("rank", F.row_number().over(last)).where("rank = 1")
    topics = chosen.select("*", F.explode_outer("assigned").alias("topic_held"))
    each = topics.select("*", F.explode_outer("topic_held.partitions").alias("partition"), "topic_held.topic")
    same = Window.partitionBy(*_GROUP, "topic", "partition")
    rows = each.drop("topic_held", "first_source", "rank").withColumn("holders", F.count(F.lit(1)).over(same))
    return _with_known(rows, placed)


def _of_all_groups(listed: DataFrame, offsets: DataFrame) -> DataFrame:
    """What members hold: from lists of members, and for groups without one from the lines of offsets."""
    names = (*_HELD, *_ABOUT, "partitions", "prints", "is_known")
    with_list = listed.select(*_GROUP).distinct()
    from_offsets = offsets.where("member_id IS NOT NULL").join(with_list, [*_GROUP], "left_anti")
    unknown = {name: F.lit(None).cast("string") for name in ("instance_id", "protocol")}
    of_member = F.count(F.lit(1)).over(Window.partitionBy(*_MEMBER))
    completed = from_offsets.withColumns({**unknown, "partitions": of_member, "prints": F.lit(True)})
    return listed.select(*names).unionByName(completed.select(*names))


def _groups(records: DataFrame, held: DataFrame) -> DataFrame:
    """What sources state about each group; ``is_listed``: a source says who its members are."""
    listed = held.select(*_GROUP).distinct().withColumn("is_listed", F.lit(True))
    stated = typed(records, "consumer_group").join(listed, [*_GROUP], "left")
    return stated.fillna(value=False, subset=["is_listed", "is_complete"])


def _group_rows(stated: DataFrame, offsets: DataFrame, held: DataFrame) -> DataFrame:
    newest = Window.partitionBy(*_GROUP).orderBy(*newest_first(), F.desc("ordinal"))
    whole = newest.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    latest = {name: F.first(name, ignorenulls=True).over(whole) for name in _STATED}
    # Only a stated state, or a number of members, shows that a group without listed members has none.
    about = stated.withColumns(latest).withColumn("nth", F.row_number().over(newest)).where("nth = 1")
    about = about.select(*_GROUP, *(F.col(name).alias(f"stated_{name}") for name in _STATED), "is_complete")
    of_offsets = offsets.groupBy(*_GROUP).agg(
        F.sum("lag").alias("lag_messages"), F.collect_set("topic").alias("offset_topics")
    )
    of_members = held.groupBy(*_GROUP).agg(
        F.count_distinct("member_id").alias("listed_members"),
        F.max("protocol").alias("protocol"),
        F.collect_set("topic").alias("held_topics"),
    )
    rows = about.join(of_offsets, [*_GROUP], "full").join(of_members, [*_GROUP], "full")
    return rows.select(
        *CLUSTER_RUN,
        F.col("group").alias("group_id"),
        F.coalesce("stated_protocol", "protocol").alias("protocol"),
        *(F.col(f"stated_{name}").alias(name) for name in ("state", "assignor", "coordinator_id", "epoch")),
        F.coalesce("listed_members", "stated_members", _none_if_idle()).alias("members"),
        F.array_sort(F.array_union(*(_or_empty(name) for name in ("offset_topics", "held_topics")))).alias("topics"),
        "lag_messages",
        (F.col("listed_members").isNotNull() | _is_without_members()).alias("is_complete"),
    )


def _or_empty(name: str) -> Column:
    return F.coalesce(name, F.expr("CAST(array() AS ARRAY<STRING>)"))


def _is_without_members() -> Column:
    """Whether a group without listed members has none: a source says so, or prints offsets without members."""
    says = F.coalesce(F.expr("stated_members = 0 OR stated_state IN ('Empty', 'Dead')"), F.lit(False))
    has_offsets = F.col("offset_topics").isNotNull()
    is_silent = (
        F.col("stated_state").isNull() & F.col("stated_members").isNull() & F.coalesce("is_complete", F.lit(True))
    )
    return says | (has_offsets & is_silent)


def _none_if_idle() -> Column:
    return F.when(_is_without_members(), F.lit(0))


def _member_rows(held: DataFrame) -> DataFrame:
    """A row for each member, with what it holds in the order of topics and partitions."""
    is_described = "topic IS NOT NULL AND partition IS NOT NULL AND is_known"
    numbers = F.array_sort(F.collect_set(F.when(F.expr(is_described), F.col("partition").cast("int"))))
    of_topic = held.groupBy(*_MEMBER, "topic").agg(
        *(F.max(name).alias(name) for name in (*_ABOUT, "partitions", "prints")), numbers.alias("numbers")
    )
    some = F.when(F.size("numbers") > 0, F.struct("topic", F.col("numbers").alias("partitions")))
    assigned = F.array_sort(F.collect_list(some)).cast(_ASSIGNED)
    of_member = of_topic.groupBy(*_MEMBER).agg(
        *(F.max(name).alias(name) for name in (*_ABOUT, "partitions", "prints")), assigned.alias("assigned")
    )
    return of_member.withColumns({"group_id": F.col("group"), "assigned": F.when(F.col("prints"), F.col("assigned"))})
