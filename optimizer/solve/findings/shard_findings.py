"""What people are told of shards that were not solved."""

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.domain import FindingCode
from optimizer.solve.findings.finding import Finding
from optimizer.solve.shard.shard_solver import FAILED, NOT_SOLVED, OUT_OF_TIME
from optimizer.solve.shard.shard_status import ShardStatus
from optimizer.units import plural

_TROUBLES = {
    FAILED: (
        FindingCode.SHARD_FAILED,
        "failed",
        "if its process was ended, lower solver.shard_brokers; else report it with the run's tables",
    ),
    OUT_OF_TIME: (
        FindingCode.SHARD_OUT_OF_TIME,
        "was out of time",
        "raise solver.lp_deterministic_time, or lower solver.shard_brokers",
    ),
}


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
            code, what, remedy = _TROUBLES[status.status]
            left = "where they are" if one.round == last[status.cluster_id] else "to the next round"
            detail = (
                f"a shard of {plural(status.brokers, 'broker')} {what} and left its replicas {left}: {status.message}"
            )
            finding = Finding(code, f"shard {one.shard_id} of round {one.round}", "after", detail, remedy)
            found.setdefault(status.cluster_id, []).append(finding)
    return found
