"""All documents of one cluster."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter

from optimizer.domain import WHOLE_PLAN
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.decision import decision_of
from optimizer.emit.decision_text import NAME, decision_json
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.manifest import DECISION, manifest, sums
from optimizer.emit.report.page import report, style
from optimizer.emit.rows import DirMoveRow
from optimizer.emit.runbook import runbook
from optimizer.emit.summary import summary_text
from optimizer.emit.throttle_files import throttle_documents

MOVES_CSV, INSIDE = "moves.csv", "dir-moves.csv"
HEADER = ("topic", "partition", "from_broker", "to_broker", "size_bytes", "leader_read", "reason", "wave")
HEADER_INSIDE = ("topic", "partition", "broker", "from_log_dir", "to_log_dir", "size_bytes", "wave")


def moves_csv(plan: ClusterPlan) -> list[Document]:
    """The documents with a row for each copied replica; none without copies.

    ``moves.csv`` is sorted by wave, topic, partition and target. ``leader_read`` is the leader before the plan, which
    the new replica copies from. ``from_broker`` is empty if the replication factor grows, ``leader_read`` if the
    partition has no leader. ``dir-moves.csv`` has the replicas that move inside their brokers, so that sums of
    ``moves.csv`` stay those of the copies between brokers.
    """
    return list(_documents(plan))


def _documents(plan: ClusterPlan) -> Iterator[Document]:
    changed = {(row.topic, row.partition): row for row in plan.changed}
    copies = []
    for move in plan.moves:
        row = changed.get((move.topic, move.partition))
        if row is not None and move.to_broker is not None:
            key = (row.wave, move.topic, move.partition, move.to_broker)
            brokers = (move.topic, move.partition, move.from_broker, move.to_broker)
            copies.append((key, (*brokers, move.size_bytes, row.leader, move.reason, row.wave)))
    if copies:
        copies.sort(key=itemgetter(0))
        yield _document(plan, MOVES_CSV, HEADER, (cells for _, cells in copies))
    if plan.dir_moves:
        inside = sorted(plan.dir_moves, key=attrgetter("wave", "topic", "partition", "broker_id"))
        yield _document(plan, INSIDE, HEADER_INSIDE, map(_cells, inside))


def _cells(row: DirMoveRow) -> Sequence[object]:
    return (row.topic, row.partition, row.broker_id, row.from_log_dir, row.to_log_dir, row.size_bytes, row.wave)


def _document(plan: ClusterPlan, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Document:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return Document(f"{plan.folder}/{name}", "moves", WHOLE_PLAN, text.getvalue())


def documents(plan: ClusterPlan) -> list[Document]:
    """Every file of the plan, sorted by path; equal plans give equal bytes."""
    written = [*kafka_documents(plan), *throttle_documents(plan), *moves_csv(plan)]
    decision = decision_of(plan)
    written.append(Document(f"{plan.folder}/{NAME}", DECISION, WHOLE_PLAN, decision_json(plan, decision)))
    approved, checked = manifest(plan, written), sums(plan, written)
    written.append(Document(f"{plan.folder}/runbook.md", "runbook", WHOLE_PLAN, runbook(plan, decision)))
    page = report(plan, decision, written, manifest_sha256=approved.sha256)
    written.append(Document(f"{plan.folder}/report.html", "report", WHOLE_PLAN, page))
    written.append(Document(f"{plan.folder}/report.css", "report", WHOLE_PLAN, style()))
    written.append(Document(f"{plan.folder}/summary.txt", "summary", WHOLE_PLAN, summary_text(plan, decision, written)))
    written += [approved, checked] if checked else [approved]
    return sorted(written, key=lambda document: document.path)
