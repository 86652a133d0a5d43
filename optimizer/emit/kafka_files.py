"""The documents that Kafka's tools execute: reassignments, rollbacks, topics to move, leader election."""

from collections.abc import Callable, Iterator, Sequence

from optimizer.domain import WHOLE_PLAN
from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.rows import PlanRow
from optimizer.kafka.reassignment_json import (
    ANY_DIR,
    format_leader_election,
    format_reassignment,
    format_topics_to_move,
)
from optimizer.kafka.size_limits import PARTITIONS_PER_REQUEST


def _directories(row: PlanRow, replicas: Sequence[int]) -> list[str]:
    """The log directory of each replica; ``any`` for a new copy or if it is unknown."""
    known = dict(zip(row.current_replicas, row.log_dirs, strict=True))
    return [known.get(broker, ANY_DIR) for broker in replicas]


def reassignment(plan: ClusterPlan, rows: Sequence[PlanRow], lists: Callable[[PlanRow], Sequence[int]]) -> str:
    """The reassignment JSON of the rows, with a line end; ``lists`` picks the replica list of a row."""
    return (
        format_reassignment(
            (
                row.topic,
                row.partition,
                lists(row),
                _directories(row, lists(row)) if plan.plan_log_dirs else None,
            )
            for row in rows
        )
        + "\n"
    )


def _proposed(row: PlanRow) -> Sequence[int]:
    return row.proposed_replicas


def _current(row: PlanRow) -> Sequence[int]:
    return row.current_replicas


def numbered(name: str, rows: Sequence[PlanRow]) -> list[tuple[str, Sequence[PlanRow]]]:
    """File names with their rows: ``name.json``, or numbered parts if there are too many rows for one request."""
    parts = [rows[i : i + PARTITIONS_PER_REQUEST] for i in range(0, len(rows), PARTITIONS_PER_REQUEST)]
    if len(parts) <= 1:
        return [(f"{name}.json", part) for part in parts]
    digits = max(2, len(str(len(parts))))
    return [(f"{name}-{number:0{digits}d}.json", part) for number, part in enumerate(parts, start=1)]


def _pair(plan: ClusterPlan, wave: int, folder: str) -> Iterator[Document]:
    rows = plan.changes_of_wave(wave)
    yield Document(f"{folder}/reassignment.json", "reassignment", wave, reassignment(plan, rows, _proposed))
    for name, reversible in numbered("rollback", [row for row in rows if plan.can_roll_back(row)]):
        yield Document(f"{folder}/{name}", "rollback", wave, reassignment(plan, reversible, _current))


def kafka_documents(plan: ClusterPlan) -> Iterator[Document]:
    """Every JSON document of the plan. A plan without changes has none, because Kafka refuses an empty list.

    Partitions that cannot be rolled back are in a document of their own.
    """
    if not plan.changed:
        return
    yield from _pair(plan, WHOLE_PLAN, plan.folder)
    for row in plan.waves:
        yield from _pair(plan, row.wave, f"{plan.folder}/{wave_folder(row.wave, len(plan.waves))}")
    for name, rows in numbered("rollback-not-possible", plan.not_reversible):
        content = reassignment(plan, rows, _current)
        yield Document(f"{plan.folder}/{name}", "rollback_not_possible", WHOLE_PLAN, content)
    topics = format_topics_to_move(row.topic for row in plan.changed) + "\n"
    yield Document(f"{plan.folder}/topics-to-move.json", "topics_to_move", WHOLE_PLAN, topics)
    for name, rows in numbered("leader-election", [row for row in plan.changed if needs_election(row)]):
        content = format_leader_election((row.topic, row.partition) for row in rows) + "\n"
        yield Document(f"{plan.folder}/{name}", "leader_election", WHOLE_PLAN, content)


def needs_election(row: PlanRow) -> bool:
    """Whether the plan's first replica needs an election to become leader after the copies.

    A leader that stays a replica keeps leading until an election. If it is removed, the first in-sync replica leads.
    """
    leader = row.leader
    return leader != row.proposed_replicas[0] and leader in row.proposed_replicas
