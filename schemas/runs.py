"""The audit trail: which versions a stage read and wrote."""

from pyspark.sql import types as T

from schemas.table import Table, column

TEXT, LONG = T.StringType(), T.LongType()
VERSIONS = T.MapType(TEXT, LONG, valueContainsNull=False)

RUNS = Table(
    name="runs",
    doc="One stage of one run, and that the run has begun: with it a past plan can be recomputed and compared.",
    columns=(
        column("cluster_id", TEXT, "always '*': a run spans its clusters"),
        column("run_id", TEXT, "run"),
        column("stage", TEXT, "stage; `begin`: written before the run's first row in any other table"),
        column("code_version", TEXT, "version of the code"),
        column("config_hash", TEXT, "sha256 of the configuration"),
        column("config_json", TEXT, "the configuration, secrets left out"),
        column("reads", VERSIONS, "Delta version of each table that was read"),
        column("writes", VERSIONS, "Delta version of each table that was written"),
        column(
            "fingerprints",
            T.MapType(TEXT, TEXT, valueContainsNull=False),
            "rows and content hash of each table written",
        ),
    ),
    key=("stage",),
)
TABLES = (RUNS,)
