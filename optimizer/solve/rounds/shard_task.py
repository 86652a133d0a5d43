"""Solve one shard of a round; a shard that fails changes nothing and reports the error in its status."""

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
from optimizer.solve.rules.bands import broker_violations
from optimizer.solve.rules.pins import disorder
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.assemble import assemble
from optimizer.solve.shard.shard_problem import ShardProblem
from optimizer.solve.shard.shard_solver import FAILED, OUT_OF_TIME, ShardSolution, repair_shard, solve_shard
from optimizer.solve.shard.shard_status import ShardStatus

Moves = TypeVar("Moves")
# Fields of a ShardStatus, except those that ``with_status`` adds.
StatusFields = dict[str, Any]


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
        Partitions with a replica in the shard.
    current : (P, W) int64
        Current broker indices.
    owner : (P,) bool
        The shard owns the partition.
    """

    round: ClusterRound
    shard: int
    partitions: Partitions
    current: Ints
    owner: Bools

    def solve(self) -> tuple[ShardMoves, StatusFields]:
        """The shard's moves, and the fields of its status."""
        task, partitions = self.round, self.partitions
        members = np.flatnonzero(task.shard == self.shard)
        if task.ignores_topics:
            partitions = replace(partitions, topic_most_replicas=np.full(len(partitions), NO_LIMIT))
        problem = assemble(task.frame, members, partitions, self.current, self.owner)
        solution = repair_shard(problem) if task.repairs_racks else solve_shard(problem, task.search)
        moves = ShardMoves(solution.partition, solution.slot, members[solution.target])
        placed = self.current.copy()
        placed[moves.row, moves.slot] = moves.target
        broken = disorder(task.frame.brokers, partitions, placed)[self.owner] > 0
        return moves, _status_fields(task, solution, members, int(broken.sum()) + _crowded_members(problem, solution))


def with_status(
    cluster_id: str,
    task: ClusterRound,
    shard: int,
    *,
    partitions: int,
    attempt: Callable[[], tuple[Moves, StatusFields]],
) -> tuple[Moves | None, ShardStatus]:
    """Solve a shard by ``attempt``; if that raises, there are no moves, and the status has the error."""
    started = time.process_time()
    moves = None
    try:
        moves, fields = attempt()
    except Exception as error:
        fields = _failure_fields(task, shard, error)
    status = ShardStatus(
        cluster_id=cluster_id,
        shard=shard,
        partitions=partitions,
        cpu_seconds=time.process_time() - started,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        **fields,
    )
    return moves, status


def _crowded_members(problem: ShardProblem, solution: ShardSolution) -> int:
    """Members with too many replicas of a topic after the moves, summed over topics."""
    if problem.rows.spread is None:
        return 0
    rows = problem.rows.one_per_partition()
    hosts = rows.hosts.copy()
    hosts[solution.partition, solution.slot] = solution.target
    spread = replace(rows, hosts=hosts).spread
    return 0 if spread is None else int((spread.surplus[:, ~problem.members.must_empty] > 0).sum())


def _status_fields(task: ClusterRound, solution: ShardSolution, members: Ints, disordered: int) -> StatusFields:
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
        "disordered": disordered,
        "broker_ids": task.frame.brokers.ids[members].tolist(),
        "prices": solution.prices.ravel().tolist(),
        "curve": solution.curve,
    }


def _failure_fields(task: ClusterRound, shard: int, error: Exception) -> StatusFields:
    frame, members = task.frame, task.shard == shard
    violation = float(broker_violations(frame.loads, frame.bands, frame.scale)[members].sum())
    return {
        "status": OUT_OF_TIME if isinstance(error, OutOfTime) else FAILED,
        "message": f"{type(error).__name__}: {error}",
        "brokers": int(members.sum()),
        "candidates": 0,
        "moves": 0,
        "objective_bytes": 0,
        "bound_bytes": None,
        "search_bytes": None,
        "violation_before": violation,
        "violation_after": violation,
        "disordered": 0,
        "broker_ids": (),
        "prices": (),
        "curve": (),
    }
