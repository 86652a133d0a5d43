"""Pins in the snapshot: which brokers may hold a topic's replicas, and how many that leaves."""

from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from optimizer.domain import NOT_LIVE
from optimizer.settings import Policy, Settings
from optimizer.topic_policy import Pin


def pinned_topics(settings: Settings) -> Column:
    """Patterns of the pins that name a broker; uses the columns cluster_id, broker_id and rack."""
    named = [
        F.when((F.col("cluster_id") == cluster_id) & _names(pin), F.lit(pin.topics))
        for cluster_id, policy in settings.cluster_policies().items()
        for pin in policy.pins
    ]
    return F.array_sort(F.array_compact(F.array(*named))) if named else F.array().cast("array<string>")


def _names(pin: Pin) -> Column:
    if pin.brokers:
        return F.col("broker_id").isin(*pin.brokers)
    return F.coalesce(F.col("rack").isin(*pin.racks), F.lit(False))


def matches(patterns: Sequence[str]) -> Column:
    """Whether one of the patterns matches the topic's whole name."""
    if not patterns:
        return F.lit(False)
    return F.col("topic").rlike("^(?:" + "|".join(f"(?:{pattern})" for pattern in patterns) + ")$")


def is_excluded(policy: Policy) -> Column:
    """Whether the policy excludes the topic: ``topic_policy.is_excluded`` as a column."""
    excluded = matches(policy.exclude_topics)
    return excluded | ~matches(policy.topics) if policy.topics else excluded


def with_pins(partitions: DataFrame, brokers: DataFrame, settings: Settings) -> DataFrame:
    """Partitions with ``pinned_brokers`` and ``usable_brokers``: how many brokers may hold a replica after the plan.

    A list that gets shorter may keep live brokers that are to be emptied, unless it is pinned.

    Parameters
    ----------
    partitions : DataFrame
        With cluster_id, topic, ``replicas`` and ``requested_factor``.
    brokers : DataFrame
        Rows of ``instance_brokers``.

    Returns
    -------
    DataFrame
        ``usable_brokers`` is null if there is no pin and the replication factor stays.
    """
    if not any(policy.pins or policy.replication_factors for policy in settings.cluster_policies().values()):
        nothing = {"pinned_brokers": F.lit(None).cast("array<int>"), "usable_brokers": F.lit(None).cast("int")}
        return partitions.withColumns(nothing)
    columns = ("cluster_id", "broker_id", "state", "accepts_replicas", "must_empty", "pinned_topics")
    hosts: dict[str, list[Row]] = {}
    for row in brokers.select(*columns).orderBy("cluster_id", "broker_id").collect():
        hosts.setdefault(row.cluster_id, []).append(row)
    accepting = _by_cluster(hosts, lambda row: row.accepts_replicas)
    leaving = _by_cluster(hosts, lambda row: row.must_empty)
    not_live = _by_cluster(hosts, lambda row: row.state in NOT_LIVE)
    is_pinned = F.col("pinned_brokers").isNotNull()
    shrinks = ~is_pinned & (F.col("requested_factor") < F.size("replicas"))

    def allowed(ids: Column) -> Column:
        return F.when(is_pinned, F.array_intersect("pinned_brokers", ids)).otherwise(ids)

    staying = F.array_except(allowed(F.col("replicas")), F.when(shrinks, not_live).otherwise(leaving))
    usable = F.size(F.array_union(allowed(accepting), staying))
    pinned = partitions.withColumn("pinned_brokers", F.coalesce(*(_pinned(c, rows) for c, rows in hosts.items())))
    is_needed = is_pinned | (F.col("requested_factor") != F.size("replicas"))
    return pinned.withColumn("usable_brokers", F.when(is_needed, usable))


def _ids(rows: Sequence[Row]) -> Column:
    return F.array(*(F.lit(row.broker_id) for row in rows)).cast("array<int>")


def _by_cluster(hosts: dict[str, list[Row]], condition: Callable[[Row], bool]) -> Column:
    """Ids of the brokers of a row's cluster that meet the condition."""
    ids = {cluster_id: _ids([*filter(condition, rows)]) for cluster_id, rows in hosts.items()}
    return F.coalesce(*(F.when(F.col("cluster_id") == cluster_id, column) for cluster_id, column in ids.items()))


def _pinned(cluster_id: str, rows: Sequence[Row]) -> Column:
    """Brokers that every matching pin names; null if no pin matches, and for other clusters."""
    patterns = sorted({pattern for row in rows for pattern in row.pinned_topics})
    named = {p: [row.broker_id for row in rows if p in row.pinned_topics] for p in patterns}

    def allowed(broker: Column) -> Column:
        return reduce(Column.__and__, (~matches([p]) | broker.isin(*ids) for p, ids in named.items()), F.lit(True))

    return F.when((F.col("cluster_id") == cluster_id) & matches(patterns), F.filter(_ids(rows), allowed))
