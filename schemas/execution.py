"""Tables that commands write, not jobs: who approved a plan or revoked that, and who executes it."""

from schemas.table import Table, column, keyed

APPROVALS = Table(
    name="approvals",
    doc=(
        "The approval of one plan by a person or by rules, or its revocation. The sha256 of the manifest identifies "
        "the plan. Only the approvals after a plan's last revocation are in force."
    ),
    columns=keyed(
        column("manifest_sha256", "string", "sha256 of the plan's manifest.json"),
        column(
            "approved_by",
            "string",
            "person who approved or revoked; of an approval by rules: rules and 8 characters of their sha256",
        ),
        column("approved_at", "timestamp", "time of the row (UTC); always after the earlier rows of the plan"),
        column("approved_from", "string", "machine where the command ran"),
        column("is_revocation", "boolean", "whether the row revokes the approvals before it"),
        column(
            "rules",
            "string",
            "of an approval by rules: the rules and the figures of their limits, as JSON",
            nullable=True,
        ),
    ),
    key=("manifest_sha256", "approved_by", "approved_at"),
)
EXECUTIONS = Table(
    name="executions",
    doc="One event in the execution of a wave. From `held` to `released` only its holder may work on the cluster.",
    columns=keyed(
        column("number", "int", "number of the event in its cluster, from 1"),
        column("wave", "int", "wave; 0 for running and ended"),
        column(
            "event",
            "string",
            "held, throttled, starting, executed, copied, cancelling, cancelled, removing, released; electing, "
            "elected; fixing, fixed; wanted; rollback; cordoning, cordoned, uncordoned; of a process: running, ended",
        ),
        column("holder", "string", "user, machine and process"),
        column("happened_at", "timestamp", "time of the event (UTC)"),
        column(
            "changes",
            "string",
            "of held: what the wave is about to change, as JSON: throttles with their values before and wanted, and "
            "replica lists before and after, and directories of replicas that move inside brokers",
            nullable=True,
        ),
        column(
            "result",
            "string",
            "what was refused, left because it is somebody else's, or accepted; of wanted: the state; of fixing and "
            "fixed: which replicas move, and how many have; of running and ended: the host",
            nullable=True,
        ),
    ),
    key=("number",),
)
TABLES = (APPROVALS, EXECUTIONS)
