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
    """One shard of a round: its number in its cluster, and its status."""

    round: int
    shard_id: int
    status: ShardStatus


def shard_findings(results: Sequence[ShardResult]) -> dict[str, list[Finding]]:
    """Findings of shards that failed or ran out of time, by cluster."""
    last_round = {result.status.cluster_id: result.round for result in results}
    findings: dict[str, list[Finding]] = {}
    for result in results:
        status = result.status
        if status.status in NOT_SOLVED:
            facts = {
                "shard": result.shard_id,
                "round": result.round,
                "brokers": status.brokers,
                "is_last_round": result.round == last_round[status.cluster_id],
                "message": status.message,
            }
            finding = Finding(_CODES[status.status], "after", facts=facts)
            findings.setdefault(status.cluster_id, []).append(finding)
    return findings
