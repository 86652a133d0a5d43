"""Tables that commands write, not jobs: who approved a plan, and who executes it."""

from schemas.table import Table, column, keyed

APPROVALS = Table(
    name="approvals",
    doc="The approval of one plan by one person, identified by the sha256 of the plan's manifest.",
    columns=keyed(
        column("manifest_sha256", "string", "sha256 of the approved manifest.json"),
        column("approved_by", "string", "person who approved"),
        column("approved_at", "timestamp", "time of the approval (UTC)"),
        column("approved_from", "string", "machine where the command ran"),
    ),
    key=("manifest_sha256", "approved_by", "approved_at"),
)
EXECUTIONS = Table(
    name="executions",
    doc="One event in the execution of a wave. From `held` to `released` only its holder may work on the cluster.",
    columns=keyed(
        column("number", "int", "number of the event in its cluster, from 1"),
        column("wave", "int", "wave"),
        column("event", "string", "held, throttled, executed, copied, cancelled, released"),
        column("holder", "string", "user, machine and process"),
        column("happened_at", "timestamp", "time of the event (UTC)"),
    ),
    key=("number",),
)
TABLES = (APPROVALS, EXECUTIONS)
