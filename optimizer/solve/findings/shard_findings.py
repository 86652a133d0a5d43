"""Findings of shards that were not solved."""

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.domain import FindingCode
from optimizer.solve.findings.finding import Finding
from optimizer.solve.shard.shard_solver import FAILED, NOT_SOLVED, OUT_OF_TIME
from optimizer.solve.shard.shard_status import ShardStatus

_CODES = {FAILED: FindingCode.SHARD_FAILED, OUT_OF_TIME: FindingCode.SHARD_OUT_OF_TIME}


@dataclass(frozen=True)
class ShardResult:
    """One shard of a round: its number in its cluster, and what became of it."""

    round: int
    shard_id: int
    status: ShardStatus


def shard_findings(results: Sequence[ShardResult]) -> dict[str, list[Finding]]:
    """Of shards that failed or were out of time, by cluster."""
    last = {one.status.cluster_id: one.round for one in results}
    found: dict[str, list[Finding]] = {}
    for one in results:
        status = one.status
        if status.status in NOT_SOLVED:
            facts = {
                "shard": one.shard_id,
                "round": one.round,
                "brokers": status.brokers,
                "is_last_round": one.round == last[status.cluster_id],
                "message": status.message,
            }
            finding = Finding(_CODES[status.status], "after", facts=facts)
            found.setdefault(status.cluster_id, []).append(finding)
    return found
