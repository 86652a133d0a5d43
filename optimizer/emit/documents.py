"""All documents of one cluster."""

from optimizer.domain import WHOLE_PLAN
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.manifest import manifest
from optimizer.emit.report import report
from optimizer.emit.runbook import runbook
from optimizer.emit.summary import summary_text
from optimizer.emit.throttle_files import throttle_documents


def documents(plan: ClusterPlan) -> list[Document]:
    """Every file of the plan, sorted by path; equal plans give equal bytes."""
    written = [*kafka_documents(plan), *throttle_documents(plan)]
    written.append(Document(f"{plan.folder}/runbook.md", "runbook", WHOLE_PLAN, runbook(plan)))
    written.append(Document(f"{plan.folder}/report.html", "report", WHOLE_PLAN, report(plan, written)))
    written.append(Document(f"{plan.folder}/summary.txt", "summary", WHOLE_PLAN, summary_text(plan, written)))
    written.append(manifest(plan, written))
    return sorted(written, key=lambda document: document.path)
