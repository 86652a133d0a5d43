"""After the rounds of solve: plans that copy more than is allowed, or fill a disk, are cut, one task a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from optimizer.domain import Bands, Brokers, Floats
from optimizer.frames.cluster import replica_matrix, to_partitions
from optimizer.settings import Policy, Settings
from optimizer.solve.bands import DISK, disk_limit
from optimizer.solve.limit import changes_of
from optimizer.solve.limit_choice import keep_within
from optimizer.solve.limit_findings import Cut
from optimizer.wishes import MoveLimit

_KEY = ["cluster_id", "topic", "partition"]
_KEPT = "cluster_id string, topic string, partition int, kept boolean"


class Planned(Protocol):
    """What the limit needs of a solved cluster."""

    brokers: Brokers
    limits: Bands
    scale: Floats
    loads_before: Floats
    loads: Floats


def _filled(state: Planned, policy: Policy) -> bool:
    """Whether a plan fills a disk over its limit, or one that was over it further."""
    may = np.maximum(disk_limit(state.brokers, policy), state.loads_before[:, DISK])
    return bool((state.loads[:, DISK] > may).any())


def _cuts(placement: DataFrame, states: Mapping[str, Planned], settings: Settings) -> dict[str, Cut]:
    """The clusters whose plans copy more than they may, or fill a disk."""
    limits = {c: asked.move_limit for c, asked in settings.wishes().items() if c in states}
    filled = {c for c in limits if _filled(states[c], settings.policy)}
    asked = sorted(filled | {c for c, limit in limits.items() if limit != MoveLimit()})
    if not asked:
        return {}
    copies = F.size(F.array_except("current", "replicas"))
    wanted = placement.where(F.col("cluster_id").isin(*asked)).groupBy("cluster_id")
    sums = wanted.agg(F.sum(copies * F.col("size_bytes")).alias("moved_bytes"), F.sum(copies).alias("moves"))
    headroom = settings.policy.disk_headroom
    cuts = {
        row.cluster_id: Cut(
            limits[row.cluster_id],
            row.moved_bytes,
            row.moves,
            states[row.cluster_id].loads,
            disk_headroom=headroom if row.cluster_id in filled else None,
        )
        for row in sums.orderBy("cluster_id").collect()
    }
    return {c: cut for c, cut in cuts.items() if cut.names}


@dataclass(frozen=True)
class _Facts:
    """What a task needs of its cluster."""

    brokers: Brokers
    limits: Bands
    loads: Floats
    scale: Floats
    disk_limit: Floats
    allowed: MoveLimit


def _choose(frame: pd.DataFrame, facts: _Facts) -> pd.DataFrame:
    """Which of the changed partitions of one cluster keep their change; the others say what their topics hold."""
    ordered = frame.sort_values(["topic", "partition"], kind="stable")
    rows = ordered[ordered["differs"]]
    partitions = to_partitions(rows, facts.brokers.ids)
    changes = changes_of(
        facts.brokers,
        partitions,
        replica_matrix(rows["current"], facts.brokers.ids, width=partitions.replicas.shape[1]),
        unchanged=to_partitions(ordered[~ordered["differs"]], facts.brokers.ids),
        limits=facts.limits,
        loads=facts.loads,
        scale=facts.scale,
        disk_limit=facts.disk_limit,
        allowed=facts.allowed,
    )
    return rows[_KEY].assign(kept=keep_within(changes))


def within_limits(
    placement: DataFrame, states: Mapping[str, Planned], settings: Settings
) -> tuple[DataFrame, dict[str, Cut]]:
    """The placement with column ``held_back``: what the limits leave for a later run is where it was.

    Parameters
    ----------
    placement : DataFrame
        Rows of ``instance`` with ``current``, as the rounds end.

    Returns
    -------
    placement : DataFrame
    cuts : dict
        What the plan would have been, for each cluster whose plan was cut.
    """
    cuts = _cuts(placement, states, settings)
    if not cuts:
        return placement.withColumn("held_back", F.lit(False)), {}
    facts = {
        c: _Facts(s.brokers, s.limits, s.loads_before, s.scale, disk_limit(s.brokers, settings.policy), cuts[c].limit)
        for c, s in states.items()
        if c in cuts
    }

    def of_cluster(frame: pd.DataFrame) -> pd.DataFrame:
        return _choose(frame, facts[str(frame["cluster_id"].iloc[0])])

    differs = F.array_sort("current") != F.array_sort("replicas")
    cut = placement.where(F.col("cluster_id").isin(*cuts)).withColumn("differs", differs)
    kept = (
        cut.where("differs OR topic_most_replicas IS NOT NULL").groupBy("cluster_id").applyInPandas(of_cluster, _KEPT)
    )
    joined = placement.join(kept, on=_KEY, how="left").withColumn("held_back", ~F.coalesce("kept", F.lit(True)))
    current = F.when(F.col("held_back"), F.col("replicas")).otherwise(F.col("current"))
    return joined.withColumn("current", current).drop("kept").localCheckpoint(), cuts
