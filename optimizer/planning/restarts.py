"""Restart batches of one cluster before and after its plan: rows of ``restart_batches``, and figures of the plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optimizer.domain import Bools, Ints
from optimizer.planning.arrays import to_brokers
from optimizer.planning.restart_placement import Placement, limits, placement_of
from optimizer.solve.restart_batches import Batches, fewest_batches
from optimizer.units import SECONDS_PER_MINUTE

BEFORE, AFTER = "before", "after"
MINUTES = 5  # that a broker is down, unless a question says how long
JOB_TIME = 1.0  # deterministic: a run has it every night, and a question may take longer
# Columns of the partitions.
COLUMNS = (
    *("topic", "partition", "current_replicas", "proposed_replicas", "isr", "observers", "leader"),
    *("min_insync_replicas", "in_bytes_per_s", "out_bytes_per_s"),
)


@dataclass(frozen=True)
class Restarts:
    """The batches of both placements.

    Parameters
    ----------
    partitions : DataFrame
        topic and partition of each row of the placements.
    ids : (B,) int64
    racks : sequence of str
        The rack of each broker; "" without one.
    placements, found : mapping
        By name: before and after the plan.
    """

    partitions: pd.DataFrame
    ids: Ints
    racks: Sequence[str]
    placements: Mapping[str, Placement]
    found: Mapping[str, Batches]

    @property
    def blocks(self) -> Bools:
        """Partitions that the batches after the plan would stop before it, (P,); none if the plan saves no batch."""
        before, after = (self.found[name].batches for name in (BEFORE, AFTER))
        return self.placements[BEFORE].blocks(after if len(after) < len(before) else ())

    def rows(self) -> list[dict[str, Any]]:
        """Rows of ``restart_batches``."""
        return [
            {
                "placement": name,
                "batch": number,
                "brokers": self.ids[list(batch)].tolist(),
                "racks": sorted({self.racks[b] for b in batch if self.racks[b]}),
                **placement.effects(batch),
            }
            for name, placement in self.placements.items()
            for number, batch in enumerate(self.found[name].batches, start=1)
        ]

    def figures(self) -> list[dict[str, Any]]:
        """Rows of ``plan_summary``."""
        before, after = (self.found[name] for name in (BEFORE, AFTER))
        topics = self.partitions["topic"][self.blocks]
        values = {
            "restart_batches": (len(before.batches), len(after.batches)),
            "restart_batches_bound": (before.bound, after.bound),
            "restart_blockers": (len(topics), None),
            "restart_blocking_topics": (topics.nunique(), None),
        }
        sides = {"baseline": None, "worst_moment": None}
        return [{"figure": name, BEFORE: x, AFTER: y, **sides} for name, (x, y) in values.items()]


def restarts_of(
    rows: pd.DataFrame,
    hosts: pd.DataFrame,
    *,
    spare: int = 0,
    most: int = 0,
    most_load: float = 1.0,
    minutes: int = MINUTES,
    voters: Sequence[int] = (),
    throttles: Iterable[Mapping[str, Any]] = (),
    deterministic_time: float = JOB_TIME,
) -> Restarts:
    """The fewest restart batches before and after the plan of one cluster.

    Parameters
    ----------
    rows : DataFrame
        All partitions, with ``COLUMNS``.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    spare : int
        Replicas above min.insync.replicas that stay up where there are so many.
    most : int
        The most brokers in a batch; 0: any number.
    most_load : float
        The largest share of the clients' bytes that the leaders of a batch may have, if it is more than one broker.
    minutes : int
        How long a broker is down.
    voters : sequence of int
        Ids of brokers that are never in one batch.
    throttles : iterable of mapping
        Rows of ``throttles_found``.
    deterministic_time : float
        As for ``fewest_batches``.
    """
    brokers, hosts = to_brokers(hosts), hosts.sort_values("broker_id")
    rows = rows[list(COLUMNS)].sort_values(["topic", "partition"]).reset_index(drop=True)
    may_restart = brokers.is_live & ~brokers.must_empty
    own = {
        "may_restart": may_restart,
        "spare": spare,
        "limit": limits(hosts, throttles),
        "seconds": minutes * SECONDS_PER_MINUTE,
    }
    placements = {name: placement_of(rows, brokers, is_now=name == BEFORE, **own) for name in (BEFORE, AFTER)}
    found = {
        name: fewest_batches(
            each.in_sync,
            each.may_be_down,
            may_restart,
            apart=np.flatnonzero(np.isin(brokers.ids, voters)),
            caps=[
                *([(np.ones(len(brokers), dtype=np.int64), most)] if most else []),
                *([(each.served, max(int(most_load * each.served.sum()), 1))] if most_load < 1 else []),
            ],
            groups=brokers.rack if brokers.racks_matter else None,
            deterministic_time=deterministic_time,
        )
        for name, each in placements.items()
    }
    racks = [rack if isinstance(rack, str) else "" for rack in hosts["rack"]]
    return Restarts(rows[["topic", "partition"]], brokers.ids, racks, placements, found)
