"""One cluster in one round: its shards, and what is looked for in them."""

from dataclasses import dataclass

import numpy as np

from optimizer.domain import Ints
from optimizer.solve.rounds.ownership import owner_slots
from optimizer.solve.rules.bands import fullness
from optimizer.solve.rules.racks import hosting_rack_sizes, live_rack_sizes, rack_caps
from optimizer.solve.shard.assemble import ClusterFrame
from optimizer.solve.shard.search import Search


@dataclass(frozen=True)
class ClusterRound:
    """One cluster in one round.

    Parameters
    ----------
    frame : ClusterFrame
        Brokers, bands, loads now, scale.
    shard : (B,) int64
        Shard of each broker, numbered over the fleet; -1 where its shard has nothing to do.
    round : int
    within_racks : bool
        Each shard has brokers of one rack.
    mends : bool
        Only partitions that must change racks take part; nothing is balanced.
    search : Search
    gap : float
        Share of the bytes copied that shards may lie above their own bounds without another round.
    """

    frame: ClusterFrame
    shard: Ints
    round: int
    within_racks: bool
    mends: bool
    search: Search
    gap: float

    @property
    def first(self) -> int:
        """The lowest number of its shards."""
        return int(self.shard[self.shard >= 0].min())

    def shards_of(self, current: Ints, replication_factor: Ints, tie: Ints) -> tuple[Ints, Ints]:
        """Shard of each replica, (P, W), -1 behind the list, and the shard that owns each partition, (P,).

        Parameters
        ----------
        tie : (P,) int64
            A number for each partition that does not depend on the others.
        """
        brokers = self.frame.brokers
        caps = rack_caps(replication_factor, live_rack_sizes(brokers), hosting_rack_sizes(brokers))
        full = fullness(self.frame.loads, self.frame.bands)
        if not self.frame.tuning.owners_by_fullness:
            full = np.zeros_like(full)
        slot = owner_slots(brokers, current, caps, tie + self.round, full)
        shard = np.where(current >= 0, self.shard[np.maximum(current, 0)], -1)
        return shard, shard[np.arange(len(shard)), slot]
