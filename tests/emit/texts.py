"""The pages of a plan as text, without the other documents."""

from collections.abc import Sequence

from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.decision import decision_of
from optimizer.emit.report.page import report
from optimizer.emit.runbook import runbook
from optimizer.emit.summary import summary_text


def summary_of(plan: ClusterPlan) -> str:
    """``summary.txt``."""
    return summary_text(plan, decision_of(plan), [])


def runbook_of(plan: ClusterPlan) -> str:
    """``runbook.md``."""
    return runbook(plan, decision_of(plan))


def report_of(plan: ClusterPlan, written: Sequence[Document] = ()) -> str:
    """``report.html``."""
    return report(plan, decision_of(plan), written, manifest_sha256="f" * 64)
