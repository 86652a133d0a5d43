"""``policy.only`` in the snapshot: which brokers this plan empties, and how each partition may change."""

from collections.abc import Iterable

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from optimizer.cluster_policy import DRAIN, LEADERS, RACKS
from optimizer.domain import Bools, Brokers, Cause
from optimizer.errors import BallastError, ConfigError
from optimizer.planning.arrays import replica_matrix, to_brokers
from optimizer.settings import Settings
from optimizer.solve.rules.pins import disorder_by_group, group_by_pins, rack_rule
from optimizer.solve.rules.racks import rack_histogram
from schemas.keys import PARTITION

_KEYS = "cluster_id string, topic string, partition int"


def emptied_now(must_empty: Column, settings: Settings) -> Column:
    """Whether this plan empties a broker.

    With ``only = "racks"`` dead brokers are still emptied: Kafka refuses a list that names one.
    """
    emptied = must_empty
    for cluster_id, only in _only_by_cluster(settings).items():
        if only != DRAIN:
            dead = F.col("state") == "dead" if only == RACKS else F.lit(False)
            emptied = F.when(F.col("cluster_id") == cluster_id, dead).otherwise(emptied)
    return emptied


def without_drains(brokers: DataFrame, settings: Settings) -> dict[str, BallastError]:
    """Clusters with ``only = "drain"`` and no broker to drain: most likely the list of brokers was forgotten."""
    draining = [cluster_id for cluster_id, only in _only_by_cluster(settings).items() if only == DRAIN]
    if not draining:
        return {}
    rows = brokers.where("must_empty").select("cluster_id").distinct().collect()
    problem = "is dead or to be emptied: name some by --drain or drain_brokers"
    without = sorted(set(draining) - {row.cluster_id for row in rows})
    return {cluster_id: ConfigError(f"only = 'drain': no broker of {[cluster_id]} {problem}") for cluster_id in without}


def with_only(partitions: DataFrame, brokers: DataFrame, settings: Settings) -> DataFrame:
    """Partitions with the ``mobility`` that ``only`` allows; partitions that were free get its ``fixed_cause``.

    Under ``only`` no replication factor changes, so none is refused.

    Parameters
    ----------
    partitions : DataFrame
        With cluster_id, topic, ``replicas``, ``mobility``, ``fixed_cause``, ``fixed_reason``, ``factor_cause`` and
        ``factor_refused``.
    brokers : DataFrame
        Rows of ``instance_brokers``.
    """
    only_by_cluster = _only_by_cluster(settings)
    if not only_by_cluster:
        return partitions
    if RACKS in only_by_cluster.values():
        partitions = partitions.join(_breaking_racks(partitions, brokers), PARTITION, "left")
    was_free, mobility = F.col("mobility") == "free", F.col("mobility")
    has_only = F.lit(False)
    for cluster_id, only in only_by_cluster.items():
        is_cluster = F.col("cluster_id") == cluster_id
        demoted = settings.cluster_policies()[cluster_id].demote_brokers
        mobility = F.when(is_cluster, _mobility(only, demoted)).otherwise(mobility)
        has_only = has_only | is_cluster
    fixed = {"fixed_cause": Cause.ONLY.value, "fixed_reason": "excluded by only"}
    planned = {name: F.when(has_only & was_free, F.lit(text)).otherwise(F.col(name)) for name, text in fixed.items()}
    planned |= {name: F.when(~has_only, F.col(name)) for name in ("factor_cause", "factor_refused")}
    return partitions.withColumns({"mobility": mobility, **planned}).drop("breaks_racks")


def _only_by_cluster(settings: Settings) -> dict[str, str]:
    return {cluster_id: policy.only for cluster_id, policy in settings.cluster_policies().items() if policy.only}


def _mobility(only: str, demoted: tuple[int, ...]) -> Column:
    """How a partition of a cluster may change. Excluded topics leave drained brokers and are not changed otherwise."""
    was_free = F.col("mobility") == "free"
    if only == DRAIN:
        return F.when(was_free, "forced_only").otherwise(F.col("mobility"))
    if only == RACKS:
        return F.when(was_free & F.col("breaks_racks").isNotNull(), "racks_only").otherwise("fixed")
    if only == LEADERS:
        return F.when(was_free, "order_only").otherwise("fixed")
    return F.when(was_free & F.col("replicas")[0].isin(*demoted), "order_only").otherwise("fixed")


def _breaking_racks(partitions: DataFrame, brokers: DataFrame) -> DataFrame:
    """Keys of the partitions that break the rack rule, with ``breaks_racks``."""
    frame = brokers.toPandas()
    brokers_of = {str(cluster_id): to_brokers(rows) for cluster_id, rows in frame.groupby("cluster_id", sort=True)}

    def breaking(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for batch in batches:
            for cluster_id, rows in batch.groupby("cluster_id", sort=True):
                yield rows[_break_racks(rows, brokers_of[str(cluster_id)])][PARTITION]

    keys = partitions.select(*PARTITION, "replicas").mapInPandas(breaking, _KEYS)
    return keys.withColumn("breaks_racks", F.lit(True))


def _break_racks(rows: pd.DataFrame, brokers: Brokers) -> Bools:
    """Whether partitions of one cluster break the rack rule, within their pins."""
    placed = replica_matrix(rows["replicas"], brokers.ids)
    groups = group_by_pins(brokers, rows["topic"].to_numpy(dtype=object))
    rule = rack_rule(brokers, groups, (placed >= 0).sum(axis=1))
    return disorder_by_group(rack_histogram(placed, brokers.rack, len(brokers.rack_names)), rule, groups.of) > 0
