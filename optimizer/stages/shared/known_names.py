"""Refuses a policy that names unknown brokers or racks: after ingest if that is certain, else in snapshot."""

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
    """Whether the policy of a cluster names a broker or a rack."""
    policies = settings.cluster_policies().values()
    return any(policy.pins or any(map(policy.brokers, BROKER_LISTS)) for policy in policies)


def known_of_brokers(brokers: DataFrame) -> dict[str, Known]:
    """Brokers and racks in the table ``brokers``, by cluster."""
    return _known(brokers.select("cluster_id", "broker_id", "rack"))


def known_of_records(records: DataFrame) -> dict[str, Known]:
    """Brokers and racks in the records, by cluster; without clusters that have unreadable input.

    There a name may be missing because its file was not read: the quality gate reports that. Metric tables are not
    searched: they add no broker.
    """
    fields = F.from_json("payload", _NAMING)
    parsed = records.where(F.col("kind").isin(*_KINDS)).select("cluster_id", "kind", fields.alias("fields"))
    ids = F.concat(F.array("fields.broker_id"), F.coalesce("fields.replicas", F.array().cast("array<bigint>")))
    rack = F.when(F.col("kind") == "broker", F.nullif(F.trim("fields.rack"), F.lit(""))).alias("rack")
    of_state = (F.coalesce("severity", F.lit("error")) == "error") & F.col("is_sample").isNull()
    unread = typed(records, "malformed").where(of_state)
    left_out = {row.cluster_id for row in unread.select("cluster_id").distinct().collect()}
    known = _known(parsed.select("cluster_id", F.explode(ids).alias("broker_id"), rack))
    return {cluster_id: names for cluster_id, names in known.items() if cluster_id not in left_out}


def _known(named: DataFrame) -> dict[str, Known]:
    """From columns cluster_id, broker_id and rack, which may be null."""
    sets = (F.array_sort(F.collect_set(name)).alias(name) for name in ("broker_id", "rack"))
    rows = named.groupBy("cluster_id").agg(*sets).orderBy("cluster_id").collect()
    return {row.cluster_id: Known(tuple(row.broker_id), tuple(row.rack)) for row in rows}


def refuse_unknown(known: Mapping[str, Known], settings: Settings) -> dict[str, BallastError]:
    """Errors of the clusters that lack a broker or rack of their lists or pins; each names the list or pin."""
    problems = {cluster_id: tuple(_problems(cluster_id, names, settings)) for cluster_id, names in known.items()}
    return {cluster_id: ConfigError(*texts) for cluster_id, texts in problems.items() if texts}


def _problems(cluster_id: str, known: Known, settings: Settings) -> Iterator[str]:
    policy = settings.cluster_policies()[cluster_id]
    for name in BROKER_LISTS:
        yield from _unknown(name, policy.brokers(name), known.brokers, cluster_id)
    for pin in policy.pins:
        yield from _unknown(f"the pin of {pin.topics!r}", pin.brokers, known.brokers, cluster_id, kind="brokers ")
        yield from _unknown(f"the pin of {pin.topics!r}", pin.racks, known.racks, cluster_id, kind="racks ")


def _unknown(
    setting: str, names: tuple[_Name, ...], known: tuple[_Name, ...], cluster_id: str, *, kind: str = ""
) -> Iterator[str]:
    unknown = sorted(set(names) - set(known))
    if unknown:
        yield f"{setting} names {kind}{unknown}, which cluster {cluster_id} does not have; known are {list(known)}"
