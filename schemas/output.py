"""The plan that people read, and the documents that they execute."""

from schemas.table import Table, column, keyed

PLAN = Table(
    name="plan",
    doc="One partition: current, Kafka's default and proposed replicas, side by side.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("current_replicas", "array<int>", "before"),
        column("baseline_replicas", "array<int>", "Kafka's default; empty when Kafka refuses"),
        column("proposed_replicas", "array<int>", "after"),
        column("leader", "int", "current leader; null when leaderless", nullable=True),
        column("adding_replicas", "array<int>", "brokers that receive a copy, ascending"),
        column("removing_replicas", "array<int>", "brokers that give theirs up, ascending"),
        column("size_bytes", "bigint", "bytes of one replica"),
        column("moved_bytes", "bigint", "bytes copied: size times replicas added"),
        column("is_changed", "boolean", "the document names it"),
        column("leader_changed", "boolean", "the preferred leader changes"),
        column("reasons", "string", "reason_codes for readers, comma-separated; empty when unchanged"),
        column("wave", "int", "wave that executes it, from 1; null when unchanged", nullable=True),
        column(
            "reason_codes",
            "array<string>",
            "reasons of its moves, or 'leader' for a reorder; none when unchanged",
            nullable=True,
        ),
    ),
    key=("topic", "partition"),
)

WAVES = Table(
    name="waves",
    doc="One step of the execution: a valid plan by itself.",
    columns=keyed(
        column("wave", "int", "from 1"),
        column("partitions", "int", "partitions that it names"),
        column("replicas_moved", "int", "copies"),
        column("moved_bytes", "bigint", "bytes copied"),
        column("busiest_broker", "int", "broker with the most bytes in or out; null without copies", nullable=True),
        column("busiest_bytes", "bigint", "its bytes, the larger of in and out"),
        column("throttle_bytes_per_s", "bigint", "rate per broker and direction"),
        column("estimated_seconds", "bigint", "time at that rate, by Kafka's quota rules"),
        column("below_floor", "boolean", "the rate is under what Kafka's throttle can honour"),
        column("peak_disk_bytes", "bigint", "most bytes on one broker while both copies exist"),
    ),
    key=("wave",),
)

THROTTLES = Table(
    name="throttles",
    doc="One config entry of a throttle.",
    columns=keyed(
        column("wave", "int", "wave; 0 for the whole plan"),
        column(
            "style", "string", "kafka: what the tool sets; careful: replicas of what is copied alone, a rate per broker"
        ),
        column("entity_type", "string", "topics or brokers"),
        column("entity_name", "string", "topic or broker id"),
        column("config_name", "string", "Kafka's config"),
        column("config_value", "string", "value; may be empty"),
        column(
            "previous_value", "string", "value before the plan, which is put back; null: none was set", nullable=True
        ),
    ),
    key=("wave", "style", "entity_type", "entity_name", "config_name"),
    checks=(
        ("style_known", "style IN ('kafka', 'careful')"),
        ("entity_known", "entity_type IN ('topics', 'brokers')"),
    ),
)

BROKER_BALANCE = Table(
    name="broker_balance",
    doc="The load of one broker under one placement.",
    columns=keyed(
        column("broker_id", "int", "broker"),
        column("placement", "string", "before, baseline or after"),
        column("rack", "string", "rack", nullable=True),
        column("state", "string", "alive, new, draining, dead or fenced"),
        column("replicas", "bigint", "replicas"),
        column("leaders", "bigint", "preferred leaders"),
        column("disk_bytes", "bigint", "bytes of its replicas"),
        column("in_bytes_per_s", "bigint", "bytes in"),
        column("out_bytes_per_s", "bigint", "bytes out: consumers of what it leads, and followers of it"),
        column("disk_lower_bytes", "bigint", "lower end of the band of its disk"),
        column("disk_upper_bytes", "bigint", "upper end; -1: it has no band"),
        column(
            "in_band",
            "boolean",
            "inside its bands of replicas, disk and bytes in; those of leaders and bytes out: leader_bounds, findings",
        ),
    ),
    key=("broker_id", "placement"),
    checks=(("placement_known", "placement IN ('before', 'baseline', 'after')"),),
)

PLAN_SUMMARY = Table(
    name="plan_summary",
    doc="One figure about the plan of one cluster.",
    columns=keyed(
        column("position", "int", "order for reading"),
        column("figure", "string", "name with its unit, e.g. moved_bytes"),
        column("before", "double", "the cluster as it is", nullable=True),
        column("baseline", "double", "with Kafka's default assignment", nullable=True),
        column("after", "double", "with the plan", nullable=True),
        column("label", "string", "what people read"),
    ),
    key=("figure",),
)

DOCUMENTS = Table(
    name="documents",
    doc="One file that is handed over, stable to the byte.",
    columns=keyed(
        column("path", "string", "relative to the run's output folder"),
        column(
            "kind",
            "string",
            "reassignment, rollback, rollback_not_possible, topics_to_move, leader_election, throttle, runbook, "
            "report, summary, manifest",
        ),
        column("wave", "int", "wave; 0 for the whole plan"),
        column("content", "string", "text, UTF-8"),
        column("sha256", "string", "hex digest of the content"),
    ),
    key=("path",),
)

TABLES = (PLAN, WAVES, THROTTLES, BROKER_BALANCE, PLAN_SUMMARY, DOCUMENTS)
