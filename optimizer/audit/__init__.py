"""The audit of a plan. It shares no code with the solver and recomputes everything from the documents."""

from optimizer.audit.checker import audit_plan
from optimizer.audit.claims import (
    LEFT_AGAIN,
    REPORT_BUG,
    AuditBroker,
    AuditClaims,
    AuditFile,
    AuditLimits,
    AuditLogDir,
    AuditPartition,
    AuditReport,
    Excess,
    Violation,
    brokers_from_rows,
    partitions_from_rows,
)
from optimizer.audit.excuses import unexplained
from optimizer.audit.other_documents import audit_files

__all__ = [
    "LEFT_AGAIN",
    "REPORT_BUG",
    "AuditBroker",
    "AuditClaims",
    "AuditFile",
    "AuditLimits",
    "AuditLogDir",
    "AuditPartition",
    "AuditReport",
    "Excess",
    "Violation",
    "audit_files",
    "audit_plan",
    "brokers_from_rows",
    "partitions_from_rows",
    "unexplained",
]
