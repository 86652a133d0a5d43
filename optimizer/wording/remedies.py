"""Remedies by cause, and the words of a cause."""

from collections.abc import Mapping

from optimizer.domain import PLACEMENT_RULE, Cause
from optimizer.solve.findings.finding import Finding

# For a partition that may move but did not.
RUN_AGAIN = "execute the plan and run again, or raise solver.shard_brokers or solver.rounds"
EXECUTE = "execute the plan"

_START = "start a broker that holds a replica, then plan again"
# Why a partition is not free (a sentence about it), and the remedy.
_NOT_FREE: Mapping[Cause | None, tuple[str, str]] = {
    Cause.IN_FLIGHT: (
        "it is being reassigned",
        "no wave starts before that is done; to include the partition, plan again then",
    ),
    Cause.MOVE_CANNOT_END: (
        "it is being reassigned to a broker that is down",
        "start that broker, or cancel the reassignment (kafka-reassign-partitions.sh --cancel); then plan again",
    ),
    Cause.LEADERLESS: ("it has no leader", _START),
    Cause.FAILED_DIRECTORY: (
        "it has no leader, because a directory has failed",
        "repair the disk and start the broker again, or delete the topic; then plan again",
    ),
    Cause.NO_IN_SYNC_REPLICA: ("none of its replicas is in sync", _START),
    Cause.OUT_OF_SYNC: (
        "a replica that stays is out of sync, and Kafka would not end its reassignment",
        "wait until the replica is in sync, or drain its broker; then plan again",
    ),
    Cause.ON_FENCED_BROKER: ("one of its replicas is on a fenced broker", "start that broker, or drain it"),
    Cause.PIN_TOO_SMALL: ("its pin allows too few brokers", "let the pin allow more brokers"),
    Cause.OWN_PLACEMENT_RULE: (
        f"its topic has {PLACEMENT_RULE}",
        f"remove {PLACEMENT_RULE} from the topic, or move the topic with Confluent's tools",
    ),
    Cause.TOPIC_EXCLUDED: ("its topic is excluded", "remove it from exclude_topics, or add it to topics"),
    Cause.ONLY: ("policy.only limits this plan to other changes", "execute the plan and run again without only"),
}
_FACTORS: Mapping[Cause | None, str] = {
    Cause.TOO_FEW_BROKERS: "request fewer replicas, or let more brokers accept replicas",
    Cause.UNDER_MIN_IN_SYNC: "request more replicas, or lower min.insync.replicas first",
}

WHY_LEFT = {
    Cause.OUT_OF_SYNC: _NOT_FREE[Cause.OUT_OF_SYNC][0],
    Cause.MOVE_LIMIT: "the limit leaves it for a later run",
    Cause.NO_DISK_ROOM: "the disks have no room",
    Cause.NO_ORDER_OF_COPIES: "no order of the copies leaves room on the disks for its old and new copies at once",
    Cause.NO_DIRECTORY_ROOM: "no log directory of a broker that it needs has room for it",
}


def remedy_if_fixed(cause: Cause | None) -> str:
    """The remedy for a partition that is not free, or for a topic that keeps its replication factor."""
    return _FACTORS[cause] if cause in _FACTORS else _NOT_FREE[cause][1]


def why_fixed(finding: Finding) -> str:
    """Why the partition of a finding is not free."""
    return _NOT_FREE[finding.facts["fixed_cause"]][0]


def remedy_if_left(finding: Finding) -> str:
    """The remedy if a limit, the disks, or replicas out of sync prevent a change."""
    if finding.cause == Cause.OUT_OF_SYNC:
        return _NOT_FREE[finding.cause][1]
    if finding.cause == Cause.NO_ORDER_OF_COPIES:
        waves = " set [schedule] waves = 0," if finding.facts["waves"] else ""
        lower = f"lower [policy] disk_headroom (now {finding.facts['disk_headroom']:g}),{waves} or add disk"
        return f"execute this plan and run again; or {lower}"
    if finding.cause == Cause.NO_DIRECTORY_ROOM:
        broker, paths = finding.facts["full_broker"], ", ".join(finding.facts["log_dirs"])
        waves = "set [schedule] waves = 0, " if finding.facts["waves"] else ""
        lower = f"{waves}lower [policy] disk_headroom (now {finding.facts['disk_headroom']:g})"
        return f"free space in a directory of broker {broker} ({paths}), {lower}, or add disk"
    return remedy_for_limits(finding)


def remedy_for_limits(finding: Finding) -> str:
    """The remedy for the limits that the whole plan exceeds."""
    exceeded = finding.facts["exceeded"]
    limit, disk = exceeded.keys() & {"max_moved_bytes", "max_moves"}, "disk_headroom" in exceeded
    remedies = (
        "execute this plan and run again, or raise the limit" if limit else "",
        "add disk, let more brokers accept replicas, or lower disk_headroom" if disk else "",
    )
    return "; ".join(filter(None, remedies))
