"""The audit trail: which versions a stage read and wrote."""

from pyspark.sql import types as T

from schemas.table import Table, column

S, L = T.StringType(), T.LongType()
VERSIONS = T.MapType(S, L, valueContainsNull=False)

RUNS = Table(
    name="runs",
    doc="One stage of one run: with it any past plan can be recomputed and compared.",
    columns=(
        column("cluster_id", S, "always '*': a run spans its clusters"),
        column("run_id", S, "run"),
        column("stage", S, "stage"),
        column("code_version", S, "version of the code"),
        column("config_hash", S, "sha256 of the configuration"),
        column("config_json", S, "the configuration, secrets left out"),
        column("reads", VERSIONS, "Delta version of each table that was read"),
        column("writes", VERSIONS, "Delta version of each table that was written"),
        column("fingerprints", T.MapType(S, S, valueContainsNull=False), "rows and content hash of each table written"),
    ),
    key=("stage",),
)
TABLES = (RUNS,)
