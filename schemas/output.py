"""The plan that people read, and the documents that they execute."""

from pyspark.sql import types as T

from schemas.planning import INTS, STRINGS
from schemas.table import Table, column, keyed

TEXT, INT, LONG, DOUBLE, BOOL = T.StringType(), T.IntegerType(), T.LongType(), T.DoubleType(), T.BooleanType()

PLAN = Table(
    name="plan",
    doc="One partition: current, Kafka's default and proposed replicas, side by side.",
    columns=keyed(
        column("topic", TEXT, "topic"),
        column("partition", INT, "partition"),
        column("current_replicas", INTS, "before"),
        column("baseline_replicas", INTS, "Kafka's default; empty when Kafka refuses"),
        column("proposed_replicas", INTS, "after"),
        column("leader", INT, "current leader; null when leaderless", nullable=True),
        column("adding_replicas", INTS, "brokers that receive a copy, ascending"),
        column("removing_replicas", INTS, "brokers that give theirs up, ascending"),
        column("size_bytes", LONG, "bytes of one replica"),
        column("moved_bytes", LONG, "bytes copied: size times replicas added"),
        column("is_changed", BOOL, "the document names it"),
        column("leader_changed", BOOL, "the preferred leader changes"),
        column("reasons", TEXT, "reason_codes for readers, comma-separated; empty when unchanged"),
        column("wave", INT, "wave that executes it, from 1; null when unchanged", nullable=True),
        column(
            "reason_codes",
            STRINGS,
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
        column("wave", INT, "from 1"),
        column("partitions", INT, "partitions that it names"),
        column("replicas_moved", INT, "copies"),
        column("moved_bytes", LONG, "bytes copied"),
        column("busiest_broker", INT, "broker with the most bytes in or out; null without copies", nullable=True),
        column("busiest_bytes", LONG, "its bytes, the larger of in and out"),
        column("throttle_bytes_per_s", LONG, "rate per broker and direction"),
        column("estimated_seconds", LONG, "time at that rate, by Kafka's quota rules"),
        column("below_floor", BOOL, "the rate is under what Kafka's throttle can honour"),
        column("peak_disk_bytes", LONG, "most bytes on one broker while both copies exist"),
    ),
    key=("wave",),
)

THROTTLES = Table(
    name="throttles",
    doc="One config entry of a throttle.",
    columns=keyed(
        column("wave", INT, "wave; 0 for the whole plan"),
        column(
            "style", TEXT, "kafka: what the tool sets; careful: replicas of what is copied alone, a rate per broker"
        ),
        column("entity_type", TEXT, "topics or brokers"),
        column("entity_name", TEXT, "topic or broker id"),
        column("config_name", TEXT, "Kafka's config"),
        column("config_value", TEXT, "value; may be empty"),
        column("previous_value", TEXT, "value before the plan, which is put back; null: none was set", nullable=True),
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
        column("broker_id", INT, "broker"),
        column("placement", TEXT, "before, baseline or after"),
        column("rack", TEXT, "rack", nullable=True),
        column("state", TEXT, "alive, new, draining, dead or fenced"),
        column("replicas", LONG, "replicas"),
        column("leaders", LONG, "preferred leaders"),
        column("disk_bytes", LONG, "bytes of its replicas"),
        column("in_bytes_per_s", LONG, "bytes in"),
        column("out_bytes_per_s", LONG, "bytes out: consumers of what it leads, and followers of it"),
        column("disk_lower_bytes", LONG, "lower end of the band of its disk"),
        column("disk_upper_bytes", LONG, "upper end; -1: it has no band"),
        column(
            "in_band",
            BOOL,
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
        column("position", INT, "order for reading"),
        column("figure", TEXT, "name with its unit, e.g. moved_bytes"),
        column("before", DOUBLE, "the cluster as it is", nullable=True),
        column("baseline", DOUBLE, "with Kafka's default assignment", nullable=True),
        column("after", DOUBLE, "with the plan", nullable=True),
        column("label", TEXT, "what people read"),
    ),
    key=("figure",),
)

DOCUMENTS = Table(
    name="documents",
    doc="One file that is handed over, stable to the byte.",
    columns=keyed(
        column("path", TEXT, "relative to the run's output folder"),
        column(
            "kind",
            TEXT,
            "reassignment, rollback, rollback_not_possible, topics_to_move, leader_election, throttle, runbook, "
            "report, summary, manifest",
        ),
        column("wave", INT, "wave; 0 for the whole plan"),
        column("content", TEXT, "text, UTF-8"),
        column("sha256", TEXT, "hex digest of the content"),
    ),
    key=("path",),
)

TABLES = (PLAN, WAVES, THROTTLES, BROKER_BALANCE, PLAN_SUMMARY, DOCUMENTS)
