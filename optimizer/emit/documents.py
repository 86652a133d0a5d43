"""All documents of one cluster."""

from optimizer.domain import WHOLE_PLAN
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.decision import decision_of
from optimizer.emit.decision_text import NAME, decision_json
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.manifest import manifest, sums
from optimizer.emit.moves_csv import moves_csv
from optimizer.emit.report.page import report, style
from optimizer.emit.runbook import runbook
from optimizer.emit.summary import summary_text
from optimizer.emit.throttle_files import throttle_documents


def documents(plan: ClusterPlan) -> list[Document]:
    """Every file of the plan, sorted by path; equal plans give equal bytes."""
    written = [*kafka_documents(plan), *throttle_documents(plan), *moves_csv(plan)]
    approved, decision, checked = manifest(plan, written), decision_of(plan), sums(plan, written)
    written.append(Document(f"{plan.folder}/runbook.md", "runbook", WHOLE_PLAN, runbook(plan, decision)))
    page = report(plan, decision, written, manifest_sha256=approved.sha256)
    written.append(Document(f"{plan.folder}/report.html", "report", WHOLE_PLAN, page))
    written.append(Document(f"{plan.folder}/report.css", "report", WHOLE_PLAN, style()))
    written.append(Document(f"{plan.folder}/summary.txt", "summary", WHOLE_PLAN, summary_text(plan, decision, written)))
    written.append(Document(f"{plan.folder}/{NAME}", "decision", WHOLE_PLAN, decision_json(plan, decision)))
    written += [approved, checked] if checked else [approved]
    return sorted(written, key=lambda document: document.path)
