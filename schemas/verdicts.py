"""The result of each cluster in a run."""

from schemas.table import Table, column, keyed

STARTED, PLANNED, NOTHING_TO_DO = "started", "planned", "nothing_to_do"
WITH_PLAN = (PLANNED, NOTHING_TO_DO)  # verdicts of clusters that have documents
# Never stored: a later attempt at the run, without this cluster, has deleted the plan of an earlier one.
REPLACED = "replaced"
REPLACED_REASON = "a later attempt at this run, without this cluster, has deleted its plan: plan again"

VERDICTS = Table(
    name="verdicts",
    doc="The state of one cluster in one attempt of a run. Its rows in other tables are a plan only after `planned`.",
    columns=keyed(
        column(
            "attempt",
            "int",
            "from 1; a job that starts with ingest starts an attempt, later stages continue the last one",
        ),
        column(
            "verdict",
            "string",
            "started; planned; nothing_to_do: no partition changes; refused, unreadable, failed: no plan",
        ),
        column("stage", "string", "stage in which it was refused, was unreadable or failed", nullable=True),
        column("exit_code", "int", "exit code of a run of this cluster alone; null while started", nullable=True),
        column(
            "reason",
            "string",
            "why there is no plan, with the remedy; for a plan, the requests that it does not meet",
            nullable=True,
        ),
        column(
            "manifest_sha256",
            "string",
            "sha256 of the plan's manifest.json, which identifies the plan in an approval",
            nullable=True,
        ),
        column("moved_bytes", "bigint", "bytes that the plan copies; null without a plan", nullable=True),
        column(
            "valid_until",
            "timestamp",
            "when the plan expires (UTC); null without a plan, or if no source has a capture time",
            nullable=True,
        ),
    ),
    key=("attempt",),
    checks=(
        (
            "verdict_known",
            "verdict IN ('started', 'planned', 'nothing_to_do', 'refused', 'unreadable', 'failed')",
        ),
    ),
)
TABLES = (VERDICTS,)
