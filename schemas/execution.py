"""What people and commands write beside the jobs: who approved a plan, and who executes it."""

from schemas.table import Table, column, keyed

APPROVALS = Table(
    name="approvals",
    doc="A person's yes to one plan, by the sha256 of its manifest.",
    columns=keyed(
        column("manifest_sha256", "string", "of the manifest.json that was approved"),
        column("approved_by", "string", "who"),
        column("approved_at", "timestamp", "when, UTC"),
        column("approved_from", "string", "the machine where it was said"),
    ),
    key=("manifest_sha256", "approved_by", "approved_at"),
)
EXECUTIONS = Table(
    name="executions",
    doc="What was done to execute a wave; a cluster is held from `held` until `released`.",
    columns=keyed(
        column("number", "int", "of the row among those of the cluster, from 1"),
        column("wave", "int", "wave that is executed"),
        column("event", "string", "held, throttled, executed, cancelled, released"),
        column("holder", "string", "user, machine and process"),
        column("happened_at", "timestamp", "when, UTC"),
    ),
    key=("number",),
)
TABLES = (APPROVALS, EXECUTIONS)
