"""``policy.only`` in the snapshot: which brokers are emptied, and what may happen to each partition."""

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
    """Whether a broker is emptied by this plan.

    Where racks are mended, dead brokers still are: Kafka refuses a list that names one.
    """
    now = must_empty
    for cluster_id, only in _asked(settings).items():
        if only != DRAIN:
            dead = F.col("state") == "dead" if only == RACKS else F.lit(False)
            now = F.when(F.col("cluster_id") == cluster_id, dead).otherwise(now)
    return now


def without_drains(brokers: DataFrame, settings: Settings) -> dict[str, BallastError]:
    """Clusters in which brokers are to be emptied and nothing else, but none is: most likely the list was forgotten."""
    draining = [c for c, only in _asked(settings).items() if only == DRAIN]
    if not draining:
        return {}
    rows = brokers.where("must_empty").select("cluster_id").distinct().collect()
    told = "is dead or to be emptied: name some by --drain or drain_brokers"
    nothing = sorted(set(draining) - {row.cluster_id for row in rows})
    return {one: ConfigError(f"only = 'drain': no broker of {[one]} {told}") for one in nothing}


def with_only(partitions: DataFrame, brokers: DataFrame, settings: Settings) -> DataFrame:
    """Partitions with the ``mobility`` that ``only`` leaves them; those that were free say so in ``fixed_cause``. No
    replication factor is asked for now, so none is refused.

    Parameters
    ----------
    partitions : DataFrame
        With cluster_id, topic, ``replicas``, ``mobility``, ``fixed_cause``, ``fixed_reason``, ``factor_cause`` and
        ``factor_refused``.
    brokers : DataFrame
        Rows of ``instance_brokers``.
    """
    asked = _asked(settings)
    if not asked:
        return partitions
    if RACKS in asked.values():
        partitions = partitions.join(_breaking_racks(partitions, brokers), PARTITION, "left")
    was_free, mobility = F.col("mobility") == "free", F.col("mobility")
    left = F.lit(False)
    for cluster_id, only in asked.items():
        here = F.col("cluster_id") == cluster_id
        mobility = F.when(here, _mobility(only, settings.cluster_policies()[cluster_id].demote_brokers)).otherwise(
            mobility
        )
        left = left | here
    told = {"fixed_cause": Cause.ONLY.value, "fixed_reason": "left by only"}
    planned = {name: F.when(left & was_free, F.lit(text)).otherwise(F.col(name)) for name, text in told.items()}
    planned |= {name: F.when(~left, F.col(name)) for name in ("factor_cause", "factor_refused")}
    return partitions.withColumns({"mobility": mobility, **planned}).drop("breaks_racks")


def _asked(settings: Settings) -> dict[str, str]:
    return {cluster_id: asked.only for cluster_id, asked in settings.cluster_policies().items() if asked.only}


def _mobility(only: str, demoted: tuple[int, ...]) -> Column:
    """What may happen to a partition of a cluster; excluded topics leave brokers that are drained, and are left alone
    otherwise."""
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
    hosts = {str(cluster_id): to_brokers(rows) for cluster_id, rows in frame.groupby("cluster_id", sort=True)}

    def breaking(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for batch in batches:
            for cluster_id, rows in batch.groupby("cluster_id", sort=True):
                yield rows[_break_racks(rows, hosts[str(cluster_id)])][PARTITION]

    keys = partitions.select(*PARTITION, "replicas").mapInPandas(breaking, _KEYS)
    return keys.withColumn("breaks_racks", F.lit(True))


def _break_racks(rows: pd.DataFrame, brokers: Brokers) -> Bools:
    """Whether partitions of one cluster break the rack rule, within their pins."""
    placed = replica_matrix(rows["replicas"], brokers.ids)
    groups = group_by_pins(brokers, rows["topic"].to_numpy(dtype=object))
    rule = rack_rule(brokers, groups, (placed >= 0).sum(axis=1))
    return disorder_by_group(rack_histogram(placed, brokers.rack, len(brokers.rack_names)), rule, groups.of) > 0
