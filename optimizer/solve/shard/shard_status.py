"""What became of one shard of a round."""

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.solve.shard.search import CurvePoint


@dataclass(frozen=True)
class ShardStatus:
    """A row of ``shard_results``, and what the next round has to know.

    Parameters
    ----------
    shard : int
        Numbered over the fleet.
    status, message : str
        OPTIMAL, FEASIBLE, UNCHANGED, FAILED or OUT_OF_TIME; why it failed.
    brokers, partitions, candidates, moves : int
    objective_bytes, bound_bytes, search_bytes : bytes
        Copied, what its own model proves to be the least, and what a search over all placements does.
    violation_before, violation_after : float
        Load outside the bands, in mean broker loads.
    disordered : int
        Partitions that it owns and members of topics that still break a rule.
    broker_ids, prices : sequence
        Its brokers, and D prices for each: bytes per mean broker load.
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
