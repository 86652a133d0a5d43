"""The audit trail: the table versions that each stage read and wrote."""

from schemas.table import Table, column

# Stage name of the row that a run adds before it writes any other table; the only row of a run that was removed.
BEGIN = "begin"
REMOVED = "was removed by tidy: only its verdicts, approvals, executions, waves, bounds and figures remain"
RUNS = Table(
    name="runs",
    doc="One stage of one run, or the start of the run. With it a past plan can be recomputed and compared.",
    columns=(
        column("cluster_id", "string", "always '*': a run spans its clusters"),
        column("run_id", "string", "run"),
        column("stage", "string", "stage, or `begin`: written before the run's first row in any other table"),
        column("code_version", "string", "version of the code"),
        column("config_hash", "string", "sha256 of the configuration"),
        column("config_json", "string", "the configuration without secrets"),
        column("reads", "map<string,bigint>", "Delta version of each table that was read"),
        column("writes", "map<string,bigint>", "Delta version of each table that was written"),
        column(
            "fingerprints",
            "map<string,string>",
            "row count and content hash of each table that was written",
        ),
    ),
    key=("stage",),
)
TABLES = (RUNS,)
