"""How each cluster of a run stands."""

from schemas.table import Table, column, keyed

STARTED, PLANNED, NOTHING_TO_DO = "started", "planned", "nothing_to_do"

VERDICTS = Table(
    name="verdicts",
    doc="How one cluster stands in one attempt at a run; only after `planned` are its rows in other tables a plan.",
    columns=keyed(
        column(
            "attempt", "int", "from 1; a job that begins with ingest is a new one, later stages go on with the last"
        ),
        column(
            "verdict",
            "string",
            "started; planned; nothing_to_do: no partition changes; refused, unreadable, failed: it has no plan",
        ),
        column("stage", "string", "stage that it was refused by, could not be read in or failed in", nullable=True),
        column("exit_code", "int", "what a run of this cluster alone ends with; null while started", nullable=True),
        column(
            "reason",
            "string",
            "why it has no plan, and the remedy; of a plan the wishes that it misses",
            nullable=True,
        ),
        column("manifest_sha256", "string", "of the plan's manifest.json: what is approved", nullable=True),
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
