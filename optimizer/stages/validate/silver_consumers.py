"""Consumer groups: records -> judged frames -> the tables ``consumer_groups`` and ``consumer_members``."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from optimizer.stages.shared.records import SOURCE_COLUMNS, newest_first, typed
from optimizer.stages.stage import Frames
from optimizer.stages.validate.judge import Judged, judge_rows, with_known
from optimizer.stages.validate.rule import Rule, Severity, Standing, Stops
from schemas.consumers import CONSUMER_GROUPS, CONSUMER_MEMBERS
from schemas.keys import CLUSTER_RUN
from schemas.spark import compute_once, conform, schema_of, small_frame

_PARTITION = "concat(topic, '-', partition)"
_SAME_TIME = "run kafka-topics.sh --describe and kafka-consumer-groups.sh at the same time"

# For committed offsets.
OFFSETS = (
    Rule(
        name="offset_is_described",
        ok="topic IS NOT NULL AND partition IS NOT NULL AND group IS NOT NULL AND is_known IS NOT NULL",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat('group ', group, ' has an offset for ', {_PARTITION}, ', which no description names')",
        remedy=f"if the topic still exists, {_SAME_TIME}; offsets of deleted topics stay until they expire",
    ),
)

# For the partitions that members hold, one row each; a member without partitions has a row without topic.
HELD = (
    Rule(
        name="held_is_described",
        ok="NOT is_listed OR topic IS NULL OR partition IS NULL OR is_known IS NOT NULL",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat('a member of group ', group, ' holds ', {_PARTITION}, ', which no description names')",
        remedy=_SAME_TIME,
    ),
    Rule(
        name="held_by_one_member",
        ok="topic IS NULL OR partition IS NULL OR holders = 1",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=f"concat(holders, ' members of group ', group, ' hold ', {_PARTITION})",
        remedy="take the output again when the group does not rebalance",
        standing=Standing.CONTRADICTS,
    ),
)

# For groups.
GROUPS = (
    Rule(
        name="members_are_read",
        ok="is_complete OR has_members",
        severity=Severity.WARNING,
        stops=Stops.NEVER,
        reason=(
            "concat('the members of group ', group, ' could not be read', "
            "if(protocol = 'consumer', ': a live cluster does not show those of the consumer protocol (KIP-848)', ''))"
        ),
        remedy="put the output of kafka-consumer-groups.sh --describe --all-groups --members --verbose into the folder",
        standing=Standing.LEFT_OUT,
    ),
)


_TABLES = (CONSUMER_GROUPS, CONSUMER_MEMBERS)
_GROUP = (*CLUSTER_RUN, "group")
_MEMBER = (*_GROUP, "member_id")
# Fields of a member that its row has, besides those that identify it.
_ABOUT = ("client_id", "host", "instance_id", "protocol")
_STATED = ("protocol", "state", "assignor", "coordinator_id", "members", "epoch")
_ASSIGNED = "array<struct<topic:string,partitions:array<int>>>"
_ASSIGNED_BIG = "array<struct<topic:string,partitions:array<bigint>>>"  # as records have it


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
    offsets = judge_rows("bronze_records", _offsets(records, placed), OFFSETS)
    members = _members(records, offsets.rows).transform(compute_once)
    held = judge_rows("bronze_records", _held(members, placed), HELD)
    groups = judge_rows("bronze_records", _groups(records, members), GROUPS)
    tables = {
        "consumer_groups": conform(_group_rows(groups.rows, offsets.rows, members), CONSUMER_GROUPS),
        "consumer_members": conform(_member_rows(members, held.rows), CONSUMER_MEMBERS),
    }
    return Consumers(tables, (offsets, held, groups))


def _of_one_source(rows: DataFrame, key: Sequence[str], order: Sequence[Column]) -> DataFrame:
    """The rows of each group that are from its first source; the last of each key, if a file has several."""
    first = F.first("source").over(Window.partitionBy(*_GROUP).orderBy(*order))
    last = F.row_number().over(Window.partitionBy(*key).orderBy(F.desc("ordinal")))
    chosen = rows.withColumn("first_source", first).where("source = first_source").withColumn("nth", last)
    return chosen.where("nth = 1").drop("first_source", "nth")


def _offsets(records: DataFrame, placed: DataFrame) -> DataFrame:
    """The offsets of each group, from the newest source that has any of it."""
    offsets = typed(records, "consumer_offset")
    return with_known(_of_one_source(offsets, (*_GROUP, "topic", "partition"), newest_first()), placed)


def _members(records: DataFrame, offsets: DataFrame) -> DataFrame:
    """A row for each member with what it holds, null if no source has it.

    Members are those of the newest list of a group that prints what they hold, else of the newest list. Offsets name
    the holder of each partition. They give the members of groups without a list; and what a list does not print, if
    both have the same number of partitions.
    """
    members, held = typed(records, "consumer_member"), _held_by_offsets(offsets)
    listed = _of_one_source(members, _MEMBER, (F.col("assigned").isNull(), *newest_first()))
    named = listed.join(held.select(*_MEMBER, "held", "held_count"), [*_MEMBER], "left")
    nothing = F.when(F.expr("partitions = 0"), F.expr(f"CAST(array() AS {_ASSIGNED_BIG})"))
    by_offsets = F.when(F.expr("coalesce(partitions, held_count) = held_count"), F.col("held"))
    with_list = named.withColumns({"assigned": F.coalesce("assigned", nothing, by_offsets), "is_listed": F.lit(True)})
    without_list = held.join(listed.select(*_GROUP).distinct(), [*_GROUP], "left_anti").withColumns(
        {
            **{name: F.lit(None).cast("string") for name in ("instance_id", "protocol")},
            "partitions": F.col("held_count"),
            "assigned": F.col("held"),
            "is_listed": F.lit(False),
        }
    )
    names = (*SOURCE_COLUMNS[2:], *_MEMBER, *_ABOUT, "partitions", "assigned", "is_listed")
    return with_list.select(*names).unionByName(without_list.select(*names))


def _held_by_offsets(offsets: DataFrame) -> DataFrame:
    """The partitions that each member holds by the lines of its group's offsets; with the source of the first line."""
    lines = offsets.where("member_id IS NOT NULL")
    first = F.min(F.struct("ordinal", *(name for name in SOURCE_COLUMNS[2:] if name != "ordinal"))).alias("first")
    about = [F.max(name).alias(name) for name in ("client_id", "host")]
    of_topic = lines.groupBy(*_MEMBER, "topic").agg(first, *about, F.collect_set("partition").alias("numbers"))
    topics = F.collect_list(F.struct("topic", F.array_sort("numbers").alias("partitions")))
    of_member = of_topic.groupBy(*_MEMBER).agg(
        F.min("first").alias("first"),
        *about,
        F.array_sort(topics).alias("held"),
        F.sum(F.size("numbers")).alias("held_count"),
    )
    return of_member.select("*", "first.*").drop("first")


def _held(members: DataFrame, placed: DataFrame) -> DataFrame:
    """A row for each partition that a member holds; one without a topic for a member without any."""
    topics = members.select("*", F.explode_outer("assigned").alias("topic_held"))
    each = topics.select("*", F.explode_outer("topic_held.partitions").alias("partition"), "topic_held.topic")
    same = Window.partitionBy(*_GROUP, "topic", "partition")
    rows = each.drop("topic_held").withColumn("holders", F.count(F.lit(1)).over(same))
    return with_known(rows, placed)


def _groups(records: DataFrame, members: DataFrame) -> DataFrame:
    """What sources state about each group; ``has_members``: a source says who its members are."""
    named = members.select(*_GROUP).distinct().withColumn("has_members", F.lit(True))
    stated = typed(records, "consumer_group").join(named, [*_GROUP], "left")
    return stated.fillna(value=False, subset=["has_members", "is_complete"])


def _group_rows(stated: DataFrame, offsets: DataFrame, members: DataFrame) -> DataFrame:
    newest = Window.partitionBy(*_GROUP).orderBy(*newest_first(), F.desc("ordinal"))
    whole = newest.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    latest = {name: F.first(name, ignorenulls=True).over(whole) for name in _STATED}
    about = stated.withColumns(latest).withColumn("nth", F.row_number().over(newest)).where("nth = 1")
    about = about.select(*_GROUP, *(F.col(name).alias(f"stated_{name}") for name in _STATED))
    of_offsets = offsets.groupBy(*_GROUP).agg(
        F.sum(F.col("lag").cast("decimal(38,0)")).alias("lag"), F.collect_set("topic").alias("offset_topics")
    )
    topics = F.array_distinct(F.flatten(F.collect_list(F.transform("assigned", lambda each: each["topic"]))))
    of_members = members.groupBy(*_GROUP).agg(
        F.count(F.lit(1)).alias("named"),
        F.bool_or("is_listed").alias("is_listed"),
        F.max("protocol").alias("protocol"),
        topics.alias("held_topics"),
    )
    rows = about.join(of_offsets, [*_GROUP], "full").join(of_members, [*_GROUP], "full")
    return rows.select(
        *CLUSTER_RUN,
        F.col("group").alias("group_id"),
        F.coalesce("stated_protocol", "protocol").alias("protocol"),
        *(F.col(f"stated_{name}").alias(name) for name in ("state", "assignor", "coordinator_id", "epoch")),
        _member_count().alias("members"),
        F.array_sort(F.array_union(*(_or_empty(name) for name in ("offset_topics", "held_topics")))).alias("topics"),
        F.expr("try_cast(lag AS BIGINT)").alias("lag_messages"),
        _is_complete().alias("is_complete"),
    )


def _member_count() -> Column:
    """The number of members: of a list, or as stated. Offsets do not name members without partitions."""
    listed = F.when(F.col("is_listed"), F.col("named"))
    by_state = F.when(F.expr("stated_state IN ('Empty', 'Dead')"), F.lit(0))
    return F.coalesce(F.greatest(listed, "stated_members"), by_state)


def _is_complete() -> Column:
    """Whether all members that may hold partitions are named, or a source says that there are none."""
    all_listed = F.expr("is_listed AND named >= coalesce(stated_members, 0)")
    holders_named = F.expr("NOT is_listed")
    none = F.expr("named IS NULL AND (stated_members = 0 OR stated_state IN ('Empty', 'Dead'))")
    return F.coalesce(all_listed | holders_named, F.lit(False)) | F.coalesce(none, F.lit(False))


def _or_empty(name: str) -> Column:
    return F.coalesce(name, F.expr("CAST(array() AS ARRAY<STRING>)"))


def _member_rows(members: DataFrame, held: DataFrame) -> DataFrame:
    """A row for each member, with the described partitions that it holds in the order of topics and numbers."""
    described = held.where("topic IS NOT NULL AND partition IS NOT NULL AND is_known")
    numbers = F.array_sort(F.collect_set(F.col("partition").cast("int"))).alias("partitions")
    of_topic = described.groupBy(*_MEMBER, "topic").agg(numbers)
    topics = F.array_sort(F.collect_list(F.struct("topic", "partitions"))).alias("described")
    rows = members.join(of_topic.groupBy(*_MEMBER).agg(topics), [*_MEMBER], "left")
    described_or_none = F.coalesce("described", F.expr(f"CAST(array() AS {_ASSIGNED})"))
    return rows.withColumns(
        {
            "group_id": F.col("group"),
            "assigned": F.when(F.col("assigned").isNotNull(), described_or_none),
        }
    )
