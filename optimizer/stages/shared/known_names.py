"""Brokers and racks that the policy names must be known: refused after ingest where that is certain, or in snapshot."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.cluster_policy import BROKER_LISTS
from optimizer.errors import BallastError, ConfigError
from optimizer.settings import Settings
from optimizer.stages.shared.records import typed

_Name = TypeVar("_Name", int, str)
_NAMING = "broker_id BIGINT, rack STRING, replicas ARRAY<BIGINT>"
_KINDS = ("broker", "partition", "assignment", "log_dir")


@dataclass(frozen=True)
class Known:
    """Brokers and racks of one cluster, ascending."""

    brokers: tuple[int, ...]
    racks: tuple[str, ...]


def names_any(settings: Settings) -> bool:
    """Whether a broker or a rack is named."""
    return any(asked.pins or any(map(asked.brokers, BROKER_LISTS)) for asked in settings.cluster_policies().values())


def known_of_brokers(brokers: DataFrame) -> dict[str, Known]:
    """What the rows of ``brokers`` name, by cluster."""
    return _known(brokers.select("cluster_id", "broker_id", "rack"))


def known_of_records(records: DataFrame) -> dict[str, Known]:
    """What records name, by cluster; clusters of which something could not be read are left out.

    What is missing may be what was not read: the quality gate tells that. Metric tables name no broker of their own.
    """
    fields = F.from_json("payload", _NAMING)
    parsed = records.where(F.col("kind").isin(*_KINDS)).select("cluster_id", "kind", fields.alias("fields"))
    ids = F.concat(F.array("fields.broker_id"), F.coalesce("fields.replicas", F.array().cast("array<bigint>")))
    rack = F.when(F.col("kind") == "broker", F.nullif(F.trim("fields.rack"), F.lit(""))).alias("rack")
    of_state = (F.coalesce("severity", F.lit("error")) == "error") & F.col("is_sample").isNull()
    unread = typed(records, "malformed").where(of_state)
    left_out = {row.cluster_id for row in unread.select("cluster_id").distinct().collect()}
    known = _known(parsed.select("cluster_id", F.explode(ids).alias("broker_id"), rack))
    return {cluster_id: one for cluster_id, one in known.items() if cluster_id not in left_out}


def _known(named: DataFrame) -> dict[str, Known]:
    """Of columns cluster_id, broker_id and rack, each null where there is none."""
    sets = (F.array_sort(F.collect_set(name)).alias(name) for name in ("broker_id", "rack"))
    rows = named.groupBy("cluster_id").agg(*sets).orderBy("cluster_id").collect()
    return {row.cluster_id: Known(tuple(row.broker_id), tuple(row.rack)) for row in rows}


def refuse_unknown(known: Mapping[str, Known], settings: Settings) -> dict[str, BallastError]:
    """Clusters whose lists of brokers or pins name what they do not have: the list or the pin, and what is known."""
    told = {cluster_id: tuple(_unknown(cluster_id, one, settings)) for cluster_id, one in known.items()}
    return {cluster_id: ConfigError(*problems) for cluster_id, problems in told.items() if problems}


def _unknown(cluster_id: str, known: Known, settings: Settings) -> Iterator[str]:
    asked = settings.cluster_policies()[cluster_id]
    for name in BROKER_LISTS:
        yield from _told(name, asked.brokers(name), known.brokers, cluster_id)
    for pin in asked.pins:
        yield from _told(f"the pin of {pin.topics!r}", pin.brokers, known.brokers, cluster_id, kind="brokers ")
        yield from _told(f"the pin of {pin.topics!r}", pin.racks, known.racks, cluster_id, kind="racks ")


def _told(
    who: str, wanted: tuple[_Name, ...], known: tuple[_Name, ...], cluster_id: str, *, kind: str = ""
) -> Iterator[str]:
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        yield f"{who} names {kind}{unknown}, which cluster {cluster_id} does not have; known are {list(known)}"
