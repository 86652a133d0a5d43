"""The documents that Kafka's tools execute: reassignments, rollbacks, topics to move, leader election."""

from collections.abc import Iterable, Iterator, Sequence

from optimizer.domain import WHOLE_PLAN
from optimizer.emit.cluster_plan import ClusterPlan, Document, wave_folder
from optimizer.emit.dir_move_files import dir_move_documents
from optimizer.emit.log_dir_files import Directories, arriving, log_dir_documents, returning
from optimizer.emit.rows import PlanRow
from optimizer.kafka.reassignment_json import (
    ANY_DIR,
    format_leader_election,
    format_reassignment,
    format_topics_to_move,
)
from optimizer.kafka.size_limits import PARTITIONS_PER_REQUEST


def forward(plan: ClusterPlan, rows: Sequence[PlanRow]) -> str:
    """The reassignment JSON of the rows, with a line end."""
    return _reassignment(plan, ((row, row.proposed_replicas, arriving(row)) for row in rows))


def back(plan: ClusterPlan, rows: Sequence[PlanRow]) -> str:
    """The reassignment JSON that restores the old lists of the rows, with a line end."""
    return _reassignment(plan, ((row, row.current_replicas, returning(plan, row)) for row in rows))


def _reassignment(plan: ClusterPlan, entries: Iterable[tuple[PlanRow, Sequence[int], Directories]]) -> str:
    """Names directories of replicas that arrive, if the plan does: the name of one that stays might be old."""
    return (
        format_reassignment(
            (
                row.topic,
                row.partition,
                replicas,
                [named.get(broker, ANY_DIR) for broker in replicas] if plan.plan_log_dirs else None,
            )
            for row, replicas, named in entries
        )
        + "\n"
    )


def numbered(name: str, rows: Sequence[PlanRow]) -> list[tuple[str, Sequence[PlanRow]]]:
    """File names with their rows: ``name.json``, or numbered parts if there are too many rows for one request."""
    parts = [rows[i : i + PARTITIONS_PER_REQUEST] for i in range(0, len(rows), PARTITIONS_PER_REQUEST)]
    if len(parts) <= 1:
        return [(f"{name}.json", part) for part in parts]
    digits = max(2, len(str(len(parts))))
    return [(f"{name}-{number:0{digits}d}.json", part) for number, part in enumerate(parts, start=1)]


def _pair(plan: ClusterPlan, wave: int, folder: str) -> Iterator[Document]:
    rows = plan.changes_of_wave(wave)
    yield Document(f"{folder}/reassignment.json", "reassignment", wave, forward(plan, rows))
    for name, reversible in numbered("rollback", [row for row in rows if plan.can_roll_back(row)]):
        yield Document(f"{folder}/{name}", "rollback", wave, back(plan, reversible))


def kafka_documents(plan: ClusterPlan) -> Iterator[Document]:
    """Every JSON document of the plan. A plan without changes has none, because Kafka refuses an empty list.

    Partitions that cannot be rolled back are in a document of their own.
    """
    yield from dir_move_documents(plan)
    if not plan.changed:
        return
    yield from _pair(plan, WHOLE_PLAN, plan.folder)
    for row in plan.waves:
        if not row.inside_brokers:
            yield from _pair(plan, row.wave, f"{plan.folder}/{wave_folder(row.wave, len(plan.waves))}")
    yield from log_dir_documents(plan)
    for name, rows in numbered("rollback-not-possible", plan.not_reversible):
        content = back(plan, rows)
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
