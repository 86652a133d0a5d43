"""The audit trail: which versions a stage read and wrote."""

from schemas.table import Table, column

RUNS = Table(
    name="runs",
    doc="One stage of one run, and that the run has begun: with it a past plan can be recomputed and compared.",
    columns=(
        column("cluster_id", "string", "always '*': a run spans its clusters"),
        column("run_id", "string", "run"),
        column("stage", "string", "stage; `begin`: written before the run's first row in any other table"),
        column("code_version", "string", "version of the code"),
        column("config_hash", "string", "sha256 of the configuration"),
        column("config_json", "string", "the configuration, secrets left out"),
        column("reads", "map<string,bigint>", "Delta version of each table that was read"),
        column("writes", "map<string,bigint>", "Delta version of each table that was written"),
        column(
            "fingerprints",
            "map<string,string>",
            "rows and content hash of each table written",
        ),
    ),
    key=("stage",),
)
TABLES = (RUNS,)
