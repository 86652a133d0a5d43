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
    """Every file that is handed over, by path; equal plans give equal bytes."""
    made = [*kafka_documents(plan), *throttle_documents(plan)]
    made.append(Document(f"{plan.folder}/runbook.md", "runbook", WHOLE_PLAN, runbook(plan)))
    made.append(Document(f"{plan.folder}/report.html", "report", WHOLE_PLAN, report(plan, made)))
    made.append(Document(f"{plan.folder}/summary.txt", "summary", WHOLE_PLAN, summary_text(plan, made)))
    made.append(manifest(plan, made))
    return sorted(made, key=lambda document: document.path)
