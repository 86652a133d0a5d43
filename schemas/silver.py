"""Silver: the cluster as clean typed tables."""

from pyspark.sql import types as T

from schemas.table import Table, column, keyed

S, I, L, B = T.StringType(), T.IntegerType(), T.LongType(), T.BooleanType()

BROKERS = Table(
    name="brokers",
    doc="One broker that is registered, or that a replica list names.",
    columns=keyed(
        column("broker_id", I, "node id"),
        column("host", S, "host", nullable=True),
        column("port", I, "port", nullable=True),
        column("rack", S, "rack; null where none is set", nullable=True),
        column("state", S, "alive: registered and unfenced; fenced: registered, not live; dead: only replica lists name it"),
        column("is_controller", B, "active controller, where the source says so"),
        column("disk_capacity_bytes", L, "sum over its log directories, or given", nullable=True),
        column("in_capacity_bytes_per_s", L, "network in, or null", nullable=True),
        column("out_capacity_bytes_per_s", L, "network out, or null", nullable=True),
    ),
    key=("broker_id",),
    checks=(
        ("broker_id_not_negative", "broker_id >= 0"),
        ("state_known", "state IN ('alive', 'fenced', 'dead')"),
        ("disk_capacity_positive", "disk_capacity_bytes IS NULL OR disk_capacity_bytes > 0"),
    ),
)

LOG_DIRS = Table(
    name="log_dirs",
    doc="One log directory of one broker.",
    columns=keyed(
        column("broker_id", I, "broker"),
        column("log_dir", S, "absolute path"),
        column("used_bytes", L, "sum of the replicas' sizes, future copies included"),
        column("capacity_bytes", L, "capacity, where known", nullable=True),
        column("error", S, "error that the broker reports", nullable=True),
    ),
    key=("broker_id", "log_dir"),
    checks=(("used_not_negative", "used_bytes >= 0"),),
)

TOPICS = Table(
    name="topics",
    doc="One topic.",
    columns=keyed(
        column("topic", S, "name"),
        column("topic_id", S, "base64 UUID", nullable=True),
        column("partitions", I, "partitions seen"),
        column("replication_factor", I, "largest over its partitions (it is per partition)"),
        column("is_internal", B, "Kafka's own topic"),
        column("configs", S, "the Configs field, opaque", nullable=True),
        column("min_insync_replicas", I, "where the configs say so", nullable=True),
    ),
    key=("topic",),
)

REPLICAS = Table(
    name="replicas",
    doc="One replica of one partition.",
    columns=keyed(
        column("topic", S, "topic"),
        column("partition", I, "partition"),
        column("position", I, "place in the replica list, 0 = preferred leader"),
        column("broker_id", I, "broker"),
        column("is_leader", B, "leads now"),
        column("in_sync", B, "in the ISR"),
        column("is_adding", B, "being added by a reassignment in flight"),
        column("is_removing", B, "being removed by a reassignment in flight"),
        column("log_dir", S, "directory, where known", nullable=True),
        column("size_bytes", L, "local size, where known", nullable=True),
    ),
    key=("topic", "partition", "broker_id"),
    checks=(
        ("broker_id_not_negative", "broker_id >= 0"),
        ("partition_not_negative", "partition >= 0"),
        ("size_not_negative", "size_bytes IS NULL OR size_bytes >= 0"),
    ),
)

PARTITION_LOAD = Table(
    name="partition_load",
    doc="The load of one partition: a percentile over the window for rates, the largest replica for size.",
    columns=keyed(
        column("topic", S, "topic"),
        column("partition", I, "partition"),
        column("size_bytes", L, "bytes of one replica (the largest)"),
        column("in_bytes_per_s", L, "produced bytes per second: every replica carries it"),
        column("out_bytes_per_s", L, "consumed bytes per second: the leader carries it (replication not included)"),
        column("size_source", S, "log_dirs, metric or missing"),
        column("rate_source", S, "metric, table or missing"),
        column("samples", L, "samples of the rates in the window"),
    ),
    key=("topic", "partition"),
    checks=(
        ("size_not_negative", "size_bytes >= 0"),
        ("in_not_negative", "in_bytes_per_s >= 0"),
        ("out_not_negative", "out_bytes_per_s >= 0"),
    ),
)

TABLES = (BROKERS, LOG_DIRS, TOPICS, REPLICAS, PARTITION_LOAD)
