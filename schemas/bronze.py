"""Bronze: the content of the sources, row by row, each with its source and line."""

from schemas.table import Table, column, keyed

BRONZE_RECORDS = Table(
    name="bronze_records",
    doc="One record that a parser read from a tool's output, a file or a live cluster.",
    columns=keyed(
        column("ordinal", "bigint", "position of the record in its source, from 0; with source it identifies the row"),
        column("kind", "string", "record kind, see sources/record.py; 'malformed' for unreadable input"),
        column("source", "string", "file (relative to the input folder), or kafka://bootstrap for a live cluster"),
        column("line", "int", "first line of the record in the source, from 1; 0 if the source has no lines"),
        column("captured_at", "timestamp", "when the source was captured (UTC)"),
        column("payload", "string", "the record's fields as one JSON object"),
        column("written_at", "timestamp", "when its file was last written (UTC), in whole seconds", nullable=True),
    ),
    key=("source", "ordinal"),
    volatile=("written_at",),
)

BRONZE_METRICS = Table(
    name="bronze_metrics",
    doc="One sample of one metric of one partition (or broker), as exported.",
    columns=keyed(
        column("source", "string", "file of the sample"),
        column("line", "bigint", "line in the source, from 1; for Parquet the row number"),
        column("metric", "string", "size_bytes, in_bytes_per_s, out_bytes_per_s, in_bytes_total, out_bytes_total"),
        column("topic", "string", "topic, spelled as by the exporter; null for a broker total", nullable=True),
        column("partition", "int", "partition; null for a topic or broker total", nullable=True),
        column("broker_id", "int", "broker that reported it; null if unknown", nullable=True),
        column("observed_at", "timestamp", "time of the sample; null for a scrape without a time", nullable=True),
        column("value", "double", "value, in the unit that the metric's name says", nullable=True),
        column(
            "instance", "string", "label that tells brokers apart if no broker is known; null without it", nullable=True
        ),
    ),
    key=("source", "line", "metric"),
)

QUARANTINE = Table(
    name="quarantine",
    doc="One row or line of the input that broke a rule, with the reason: no input is lost silently.",
    columns=keyed(
        column("source", "string", "file or cluster"),
        column("line", "bigint", "line in the source; 0 if the source has no lines"),
        column("kind", "string", "record kind"),
        column("rule", "string", "name of the broken rule"),
        column("severity", "string", "error: the row is not used; warning: the row is used, or is not needed"),
        column("reason", "string", "what is wrong, with the value"),
        column("remedy", "string", "what to fix"),
        column("payload", "string", "the original row"),
    ),
    key=("source", "line", "kind", "rule", "payload"),
    checks=(("severity_known", "severity IN ('error', 'warning')"),),
)

QUALITY_RESULTS = Table(
    name="quality_results",
    doc="The result of one Great Expectations expectation.",
    columns=keyed(
        column("table_name", "string", "checked table"),
        column("expectation", "string", "expectation type"),
        column("rule", "string", "name of the rule"),
        column("severity", "string", "critical: a failure stops the run; warning: a failure is reported"),
        column("success", "boolean", "true if the rule is satisfied"),
        column("observed", "string", "observed value, as text", nullable=True),
        column("threshold", "string", "required value, as text", nullable=True),
        column("unexpected_count", "bigint", "rows that broke the rule", nullable=True),
        column("remedy", "string", "what to fix"),
        column(
            "judged_rows",
            "bigint",
            "rows that were checked; 0: nothing to judge; null: a figure of the whole cluster that has a value",
            nullable=True,
        ),
        column(
            "least",
            "double",
            "smallest allowed share of rows that satisfy the rule, or smallest allowed figure; null: no limit",
            nullable=True,
        ),
        column(
            "most",
            "double",
            "largest allowed share of rows that break the rule, or largest allowed figure; null: no limit",
            nullable=True,
        ),
    ),
    key=("table_name", "rule"),
    checks=(("severity_known", "severity IN ('critical', 'warning')"),),
)

INPUT_FINDINGS = Table(
    name="input_findings",
    doc="One problem of the input that a reader of the plan must know: missing, contradictory or broken data.",
    columns=keyed(
        column("rule", "string", "rule in quarantine or quality_results that the finding summarises"),
        column(
            "standing", "string", "contradicts, left_out, broken: shown before all figures; noted: shown below them"
        ),
        column("subject", "string", "file and line of the first affected row, or the cluster"),
        column("detail", "string", "what is wrong, with the values of the first row"),
        column("remedy", "string", "what to do"),
        column("rows", "bigint", "number of affected rows"),
    ),
    key=("rule", "standing"),
    checks=(("standing_known", "standing IN ('contradicts', 'left_out', 'broken', 'noted')"),),
)

SOURCES = Table(
    name="sources",
    doc="One file or live cluster that was read, with its number of records.",
    columns=keyed(
        column("source", "string", "file (relative to the input folder), or kafka://bootstrap for a live cluster"),
        column("captured_at", "timestamp", "when it was captured (UTC); null for metric tables", nullable=True),
        column("records", "bigint", "number of records and samples in it"),
        column("has_state", "boolean", "whether brokers, replica lists or directories are in it: they age a plan"),
        column("kafka_cluster_id", "string", "Kafka's own id of the cluster, if the source has it", nullable=True),
    ),
    key=("source",),
)

TABLES = (BRONZE_RECORDS, BRONZE_METRICS, SOURCES, QUARANTINE, QUALITY_RESULTS, INPUT_FINDINGS)
