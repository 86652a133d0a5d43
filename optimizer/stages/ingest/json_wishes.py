"""Reassignment JSON that is no state: a wish that may not have been carried out, and what was current before a move.

``--generate`` prints the current assignment under a heading, with its proposal below: that is a state. JSON alone may
be a plan, a saved rollback, or the first half of what ``--execute`` prints. What ``--execute`` prints was current when
a move was begun, and doesn't name where the partitions are going: it is left out where descriptions show that they
were taken since, and is refused where nothing does.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from optimizer.stages.shared.sql_words import agree, plural
from schemas.bronze import BRONZE_RECORDS
from schemas.spark import conform
from sources.record import NOT_STATE

_SOURCE = ("cluster_id", "run_id", "source", "captured_at", "begun")
_PARTITION = ("topic", "partition")
_FIELDS = "topic STRING, partition STRING, replicas ARRAY<STRING>, adding ARRAY<STRING>, bare BOOLEAN, begun BOOLEAN"
# SQL of what is so with so many replica lists.
_BEGUN = agree("lists", "was", "were") + ", ' current when a move was begun: its target is not named'"
_NOT_USED = (
    "'of reassignment JSON alone ', " + agree("lists", "is", "are") + ", ' not used, because partitions are described'"
)
_MAY_BE_A_WISH = "'of reassignment JSON alone may be a wish that was not carried out, or what was before a move'"
_UNUSED = "descriptions count; leave documents of plans out of the folder"
_ALLOW = "give kafka-topics.sh --describe; or say by [quality] assignment_is_state = true that this is the state"
_COLLECT = "give kafka-topics.sh --describe and kafka-reassign-partitions.sh --list, taken now, and leave this out"


def without_wishes(records: DataFrame, *, are_state: bool) -> DataFrame:
    """The records of one cluster, with one of kind ``malformed`` for each source in place of its wishes.

    Parameters
    ----------
    records : DataFrame
        Rows of bronze_records from all sources of the cluster.
    are_state : bool
        Whether bare documents are read as the state.
    """
    known = records.localCheckpoint(eager=True)
    parsed = known.withColumn("fields", F.from_json("payload", _FIELDS)).select("*", "fields.*").drop("fields")
    flags = {name: F.coalesce(name, F.lit(False)) for name in ("begun", "bare")}
    flagged = parsed.withColumns(flags).withColumn("is_assignment", F.col("kind") == "assignment")
    is_wish = F.col("is_assignment") & (F.col("begun") | (F.col("bare") & F.lit(not are_state)))
    described = parsed.where("kind = 'partition'").limit(1).count() > 0
    kept = flagged.where(~is_wish).select(known.columns)
    return kept.unionByName(_told(flagged.where(is_wish), parsed, described=described))


def _told(wishes: DataFrame, parsed: DataFrame, *, described: bool) -> DataFrame:
    """One malformed record for each source of wishes: a warning where the state is known without them."""
    now = parsed.where("kind IN ('partition', 'reassignment')").select(
        *_PARTITION,
        F.col("replicas").alias("now_on"),
        ((F.col("kind") == "reassignment") | (F.size("adding") > 0)).alias("in_flight"),
    )
    moved = F.coalesce((F.col("now_on") != F.col("replicas")) | F.col("in_flight"), F.lit(False))
    of_source = (
        wishes.join(now, list(_PARTITION), "left")
        .groupBy(*_SOURCE)
        .agg(
            F.min(F.struct("ordinal", "line")).alias("first"),
            F.count_distinct("ordinal").alias("lists"),
            F.max(moved).alias("is_moved"),
        )
    )
    harmless = F.when(F.col("begun"), F.col("is_moved")).otherwise(F.lit(described))
    return conform(
        of_source.select(
            *_SOURCE[:-1],
            "first.*",
            F.lit("malformed").alias("kind"),
            _payload(harmless).alias("payload"),
        ),
        BRONZE_RECORDS,
    )


def _payload(harmless: Column) -> Column:
    lists, told = plural("lists", "replica list"), (_BEGUN, _NOT_USED, _MAY_BE_A_WISH)
    begun, not_used, may_be = (F.expr(f"concat({lists}, ' ', {words})") for words in told)
    reason = F.when(F.col("begun"), begun).when(harmless, not_used).otherwise(may_be)
    remedy = F.when(harmless, F.lit(_UNUSED)).when(F.col("begun"), F.lit(_COLLECT)).otherwise(F.lit(_ALLOW))
    fields = {
        "expected": F.lit("the state of the cluster"),
        "reason": reason,
        "remedy": remedy,
        "rule": F.lit(NOT_STATE),
        "severity": F.when(harmless, F.lit("warning")).otherwise(F.lit("error")),
        "text": F.lit(""),
    }
    return F.to_json(F.struct(*(value.alias(name) for name, value in fields.items())))
