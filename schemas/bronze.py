"""Bronze: what the sources said, row by row, with where it stood."""

from schemas.table import Table, column, keyed

BRONZE_RECORDS = Table(
    name="bronze_records",
    doc="One record that a parser read from a tool's output, a file or a live cluster (kinds: sources/record.py).",
    columns=keyed(
        column("ordinal", "bigint", "position of the record in its source, from 0: with source it identifies the row"),
        column("kind", "string", "record kind, see sources/record.py; 'malformed' for what could not be parsed"),
        column("source", "string", "file (relative to the input folder), or kafka://bootstrap for a live cluster"),
        column("line", "int", "first line of the record in the source, from 1; 0 where lines mean nothing"),
        column("captured_at", "timestamp", "when the source was captured (UTC)"),
        column("payload", "string", "the record's fields as one JSON object"),
    ),
    key=("source", "ordinal"),
)

BRONZE_METRICS = Table(
    name="bronze_metrics",
    doc="One sample of one metric of one partition (or broker), as exported.",
    columns=keyed(
        column("source", "string", "file of the sample"),
        column("line", "bigint", "line in the source, from 1; row number for Parquet"),
        column("metric", "string", "size_bytes, in_bytes_per_s, out_bytes_per_s, in_bytes_total, out_bytes_total"),
        column("topic", "string", "topic as the exporter spelled it; null for a broker total", nullable=True),
        column("partition", "int", "partition; null for a topic or broker total", nullable=True),
        column("broker_id", "int", "broker that reported it, where known", nullable=True),
        column("observed_at", "timestamp", "time of the sample; null for a scrape without time", nullable=True),
        column("value", "double", "value in the unit of the metric's name", nullable=True),
    ),
    key=("source", "line", "metric"),
)

QUARANTINE = Table(
    name="quarantine",
    doc="One row of the input that was set aside, with the reason: nothing is lost.",
    columns=keyed(
        column("source", "string", "file or cluster"),
        column("line", "bigint", "line in the source; 0 where lines mean nothing"),
        column("kind", "string", "record kind"),
        column("rule", "string", "name of the rule that it broke"),
        column("severity", "string", "error: the row is not used; warning: used, or harmlessly left out"),
        column("reason", "string", "what is wrong, with the value"),
        column("remedy", "string", "what to mend"),
        column("payload", "string", "the row as it came"),
    ),
    key=("source", "line", "kind", "rule", "payload"),
    checks=(("severity_known", "severity IN ('error', 'warning')"),),
)

QUALITY_RESULTS = Table(
    name="quality_results",
    doc="The result of one Great Expectations expectation.",
    columns=keyed(
        column("table_name", "string", "table that was checked"),
        column("expectation", "string", "expectation type"),
        column("rule", "string", "our name of the rule"),
        column("severity", "string", "critical stops the run, warning is reported"),
        column("success", "boolean", "whether it held"),
        column("observed", "string", "observed value, as text", nullable=True),
        column("threshold", "string", "what was asked for", nullable=True),
        column("unexpected_count", "bigint", "rows that broke it", nullable=True),
        column("remedy", "string", "what to mend"),
        column(
            "judged_rows", "bigint", "rows that it was asked of; null of a figure of the whole cluster", nullable=True
        ),
        column(
            "least", "double", "share of rows that must keep it, or a figure's least; null: none asked", nullable=True
        ),
        column(
            "most", "double", "share of rows that may break it, or a figure's most; null: none asked", nullable=True
        ),
    ),
    key=("table_name", "rule"),
    checks=(("severity_known", "severity IN ('critical', 'warning')"),),
)

INPUT_FINDINGS = Table(
    name="input_findings",
    doc="What a person must know about the input before the plan: what was left out, contradicts, or is broken.",
    columns=keyed(
        column("rule", "string", "rule of quarantine or quality_results that it sums up"),
        column("standing", "string", "contradicts, left_out, broken: told before any figure; noted: told below"),
        column("subject", "string", "what it is about: file and line of its first row, or the cluster"),
        column("detail", "string", "what is so, with the values of the first row"),
        column("remedy", "string", "what helps"),
        column("rows", "bigint", "rows that it stands for"),
    ),
    key=("rule", "standing"),
    checks=(("standing_known", "standing IN ('contradicts', 'left_out', 'broken', 'noted')"),),
)

SOURCES = Table(
    name="sources",
    doc="One file or live cluster that was read, and how much of it.",
    columns=keyed(
        column("source", "string", "file (relative to the input folder), or kafka://bootstrap for a live cluster"),
        column("captured_at", "timestamp", "when it was captured (UTC); null of metric tables", nullable=True),
        column("records", "bigint", "records and samples in it"),
    ),
    key=("source",),
)

TABLES = (BRONZE_RECORDS, BRONZE_METRICS, SOURCES, QUARANTINE, QUALITY_RESULTS, INPUT_FINDINGS)
