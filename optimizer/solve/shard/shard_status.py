"""The status of one shard of a round."""

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.solve.shard.search import CurvePoint


@dataclass(frozen=True)
class ShardStatus:
    """A row of ``shard_results``, plus data for the next round.

    Parameters
    ----------
    shard : int
        Numbered across the fleet.
    status, message : str
        OPTIMAL, FEASIBLE, UNCHANGED, FAILED or OUT_OF_TIME; the error if it failed.
    brokers, partitions, candidates, moves : int
    objective_bytes, bound_bytes, search_bytes : bytes
        Bytes copied; the lower bound of the shard's own model; the bound of a search over all placements.
    violation_before, violation_after : float
        Load outside the bands, in mean broker loads.
    disordered : int
        Owned partitions that still break a rule, plus (topic, member) pairs above their limit.
    broker_ids, prices : sequence
        Brokers of the shard, and D prices for each: bytes per mean broker load.
    curve : sequence of CurvePoint
        ``cost`` in mean broker loads.
    """

    cluster_id: str
    shard: int
    status: str
    message: str | None
    brokers: int
    partitions: int
    candidates: int
    moves: int
    objective_bytes: int
    bound_bytes: float | None
    search_bytes: int | None
    violation_before: float
    violation_after: float
    disordered: int
    cpu_seconds: float
    peak_memory_bytes: int
    broker_ids: Sequence[int]
    prices: Sequence[float]
    curve: Sequence[CurvePoint]
