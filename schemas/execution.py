"""What people and commands write beside the jobs: who approved a plan, and who executes it."""

from pyspark.sql import types as T

from schemas.table import Table, column, keyed

TEXT, INT, TIME = T.StringType(), T.IntegerType(), T.TimestampType()

APPROVALS = Table(
    name="approvals",
    doc="A person's yes to one plan, by the sha256 of its manifest.",
    columns=keyed(
        column("manifest_sha256", TEXT, "of the manifest.json that was approved"),
        column("approved_by", TEXT, "who"),
        column("approved_at", TIME, "when, UTC"),
        column("approved_from", TEXT, "the machine where it was said"),
    ),
    key=("manifest_sha256", "approved_by", "approved_at"),
)
EXECUTIONS = Table(
    name="executions",
    doc="What was done to execute a wave; a cluster is held from `held` until `released`.",
    columns=keyed(
        column("number", INT, "of the row among those of the cluster, from 1"),
        column("wave", INT, "wave that is executed"),
        column("event", TEXT, "held, throttled, executed, cancelled, released"),
        column("holder", TEXT, "user, machine and process"),
        column("happened_at", TIME, "when, UTC"),
    ),
    key=("number",),
)
TABLES = (APPROVALS, EXECUTIONS)
