"""The plan that people read, and the documents that they execute."""

from pyspark.sql import types as T

from schemas.planning import INTS
from schemas.table import Table, column, keyed

S, I, L, D, B = T.StringType(), T.IntegerType(), T.LongType(), T.DoubleType(), T.BooleanType()

PLAN = Table(
    name="plan",
    doc="One partition: current, Kafka's default and proposed replicas, side by side.",
    columns=keyed(
        column("topic", S, "topic"),
        column("partition", I, "partition"),
        column("current_replicas", INTS, "before"),
        column("baseline_replicas", INTS, "Kafka's default; empty when Kafka refuses"),
        column("proposed_replicas", INTS, "after"),
        column("leader", I, "current leader; null when leaderless", nullable=True),
        column("adding_replicas", INTS, "brokers that receive a copy, ascending"),
        column("removing_replicas", INTS, "brokers that give theirs up, ascending"),
        column("size_bytes", L, "bytes of one replica"),
        column("moved_bytes", L, "bytes copied: size times replicas added"),
        column("is_changed", B, "the document names it"),
        column("leader_changed", B, "the preferred leader changes"),
        column("reasons", S, "comma-separated reasons of its moves, 'leader' for a reorder; empty when unchanged"),
        column("wave", I, "wave that executes it, from 1; null when unchanged", nullable=True),
    ),
    key=("topic", "partition"),
)

WAVES = Table(
    name="waves",
    doc="One step of the execution: a valid plan by itself.",
    columns=keyed(
        column("wave", I, "from 1"),
        column("partitions", I, "partitions that it names"),
        column("replicas_moved", I, "copies"),
        column("moved_bytes", L, "bytes copied"),
        column("busiest_broker", I, "broker with the most bytes in or out; null without copies", nullable=True),
        column("busiest_bytes", L, "its bytes, the larger of in and out"),
        column("throttle_bytes_per_s", L, "rate per broker and direction"),
        column("estimated_seconds", L, "time at that rate, by Kafka's quota rules"),
        column("below_floor", B, "the rate is under what Kafka's throttle can honour"),
        column("peak_disk_bytes", L, "most bytes on one broker while both copies exist"),
    ),
    key=("wave",),
)

THROTTLES = Table(
    name="throttles",
    doc="One config entry of a throttle.",
    columns=keyed(
        column("wave", I, "wave; 0 for the whole plan"),
        column("style", S, "kafka: what the tool sets; careful: real leader and added replicas, a rate per broker"),
        column("entity_type", S, "topics or brokers"),
        column("entity_name", S, "topic or broker id"),
        column("config_name", S, "Kafka's config"),
        column("config_value", S, "value; may be empty"),
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
        column("broker_id", I, "broker"),
        column("placement", S, "before, baseline or after"),
        column("rack", S, "rack", nullable=True),
        column("state", S, "alive, new, draining, dead or fenced"),
        column("replicas", L, "replicas"),
        column("leaders", L, "preferred leaders"),
        column("disk_bytes", L, "bytes of its replicas"),
        column("in_bytes_per_s", L, "bytes in"),
        column("out_bytes_per_s", L, "bytes out: consumers of what it leads, and followers of it"),
        column("disk_lower_bytes", L, "band"),
        column("disk_upper_bytes", L, "band"),
        column("in_band", B, "inside every band"),
    ),
    key=("broker_id", "placement"),
    checks=(("placement_known", "placement IN ('before', 'baseline', 'after')"),),
)

PLAN_SUMMARY = Table(
    name="plan_summary",
    doc="One figure about the plan of one cluster.",
    columns=keyed(
        column("position", I, "order for reading"),
        column("figure", S, "name with its unit, e.g. moved_bytes"),
        column("before", D, "the cluster as it is", nullable=True),
        column("baseline", D, "with Kafka's default assignment", nullable=True),
        column("after", D, "with the plan", nullable=True),
        column("label", S, "what people read"),
    ),
    key=("figure",),
)

DOCUMENTS = Table(
    name="documents",
    doc="One file that is handed over, stable to the byte.",
    columns=keyed(
        column("path", S, "relative to the run's output folder"),
        column("kind", S, "reassignment, rollback, topics_to_move, leader_election, throttle, runbook, report"),
        column("wave", I, "wave; 0 for the whole plan"),
        column("content", S, "text, UTF-8"),
        column("sha256", S, "hex digest of the content"),
    ),
    key=("path",),
)

TABLES = (PLAN, WAVES, THROTTLES, BROKER_BALANCE, PLAN_SUMMARY, DOCUMENTS)
