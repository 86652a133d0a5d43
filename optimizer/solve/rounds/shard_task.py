"""One shard of a round, from its partitions to its moves and status; a shard that fails says so and changes nothing."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import Bools, Ints, Partitions
from optimizer.solve.ortools.glop import OutOfTime
from optimizer.solve.rounds.cluster_round import ClusterRound
from optimizer.solve.rules.bands import outside
from optimizer.solve.rules.pins import disorder
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.assemble import assemble
from optimizer.solve.shard.shard_problem import ShardProblem
from optimizer.solve.shard.shard_solver import FAILED, OUT_OF_TIME, ShardSolution, mend_shard, solve_shard
from optimizer.solve.shard.shard_status import ShardStatus

Moves = TypeVar("Moves")
# Fields of a ShardStatus, but for those that ``with_status`` knows.
Told = dict[str, Any]


@dataclass(frozen=True)
class ShardMoves:
    """Moves of one shard: rows of its partitions, slots of their lists, and broker indices, (M,) each."""

    row: Ints
    slot: Ints
    target: Ints


@dataclass(frozen=True)
class ShardTask:
    """One shard of a round.

    Parameters
    ----------
    partitions : Partitions
        Those with a replica in it.
    current : (P, W) int64
        Broker indices now.
    owner : (P,) bool
        The shard owns the partition.
    """

    round: ClusterRound
    shard: int
    partitions: Partitions
    current: Ints
    owner: Bools

    def solved(self) -> tuple[ShardMoves, Told]:
        """Its moves, and what is to be told of it."""
        task, partitions = self.round, self.partitions
        members = np.flatnonzero(task.shard == self.shard)
        if task.mends:  # Not every partition of a topic takes part, so nobody knows its spread.
            partitions = replace(partitions, topic_most_replicas=np.full(len(partitions), NO_LIMIT))
        problem = assemble(task.frame, members, partitions, self.current, self.owner)
        solution = mend_shard(problem) if task.mends else solve_shard(problem, task.search)
        moves = ShardMoves(solution.partition, solution.slot, members[solution.target])
        placed = self.current.copy()
        placed[moves.row, moves.slot] = moves.target
        broken = disorder(task.frame.brokers, partitions, placed)[self.owner] > 0
        return moves, _told(task, solution, members, int(broken.sum()) + _overfull(problem, solution))


def with_status(
    cluster_id: str, task: ClusterRound, shard: int, *, partitions: int, attempt: Callable[[], tuple[Moves, Told]]
) -> tuple[Moves | None, ShardStatus]:
    """The moves that an attempt at a shard finds, and its status; none where it fails, and the status says so."""
    started = time.process_time()
    moves = None
    try:
        moves, told = attempt()
    except Exception as error:
        told = _failure(task, shard, error)
    status = ShardStatus(
        cluster_id=cluster_id,
        shard=shard,
        partitions=partitions,
        cpu_seconds=time.process_time() - started,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        **told,
    )
    return moves, status


def _overfull(problem: ShardProblem, solution: ShardSolution) -> int:
    """Members that hold too many replicas of a topic after the moves, summed over topics."""
    if problem.rows.spread is None:
        return 0
    each = problem.rows.one_each()
    hosts = each.hosts.copy()
    hosts[solution.partition, solution.slot] = solution.target
    spread = replace(each, hosts=hosts).spread
    return 0 if spread is None else int((spread.surplus[:, ~problem.members.must_empty] > 0).sum())


def _told(task: ClusterRound, solution: ShardSolution, members: Ints, left: int) -> Told:
    bytes_per_load = float(task.frame.scale[DISK])
    return {
        "status": solution.status,
        "message": None,
        "brokers": len(members),
        "candidates": solution.candidates,
        "moves": len(solution.partition),
        "objective_bytes": round(solution.cost * bytes_per_load),
        "bound_bytes": None if solution.bound is None else solution.bound * bytes_per_load,
        "search_bytes": solution.search_bytes,
        "violation_before": solution.violation_before,
        "violation_after": solution.violation_after,
        "disordered": left,
        "broker_ids": task.frame.brokers.ids[members].tolist(),
        "prices": solution.prices.ravel().tolist(),
        "curve": solution.curve,
    }


def _failure(task: ClusterRound, shard: int, error: Exception) -> Told:
    """A shard that fails, or is out of time, keeps its replicas where they are, and says so."""
    frame, members = task.frame, task.shard == shard
    left = float(outside(frame.loads, frame.bands, frame.scale)[members].sum())
    return {
        "status": OUT_OF_TIME if isinstance(error, OutOfTime) else FAILED,
        "message": f"{type(error).__name__}: {error}",
        "brokers": int(members.sum()),
        "candidates": 0,
        "moves": 0,
        "objective_bytes": 0,
        "bound_bytes": None,
        "search_bytes": None,
        "violation_before": left,
        "violation_after": left,
        "disordered": 0,
        "broker_ids": (),
        "prices": (),
        "curve": (),
    }
