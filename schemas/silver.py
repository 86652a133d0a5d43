"""Silver: the cluster as clean typed tables."""

from schemas.table import Table, column, keyed

BROKERS = Table(
    name="brokers",
    doc="One broker that is registered, or that a replica list names.",
    columns=keyed(
        column("broker_id", "int", "node id"),
        column("host", "string", "host", nullable=True),
        column("port", "int", "port", nullable=True),
        column("rack", "string", "rack; null where none is set", nullable=True),
        column(
            "state",
            "string",
            "alive: registered and unfenced; fenced: registered, not live; dead: only replica lists name it",
        ),
        column("is_controller", "boolean", "active controller, where the source says so"),
        column(
            "closed_cause",
            "string",
            "why it receives no replica though it lives: failed_directory, in_sync_nowhere, cordoned, or only_listed: "
            "it holds none and tells of no directory",
            nullable=True,
        ),
        column(
            "closed_reason",
            "string",
            "the same in words, with the directories that failed",
            nullable=True,
        ),
        column("disk_capacity_bytes", "bigint", "sum over its log directories, or given", nullable=True),
        column("in_capacity_bytes_per_s", "bigint", "network in, or null", nullable=True),
        column("out_capacity_bytes_per_s", "bigint", "network out, or null", nullable=True),
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
        column("broker_id", "int", "broker"),
        column("log_dir", "string", "absolute path"),
        column("used_bytes", "bigint", "sum of the replicas' sizes, future copies included"),
        column("capacity_bytes", "bigint", "capacity, where known", nullable=True),
        column("error", "string", "error that the broker reports", nullable=True),
    ),
    key=("broker_id", "log_dir"),
    checks=(("used_not_negative", "used_bytes >= 0"),),
)

TOPICS = Table(
    name="topics",
    doc="One topic.",
    columns=keyed(
        column("topic", "string", "name"),
        column("topic_id", "string", "base64 UUID", nullable=True),
        column("partitions", "int", "partitions seen"),
        column("replication_factor", "int", "largest over its partitions (it is per partition)"),
        column("is_internal", "boolean", "Kafka's own topic"),
        column("configs", "string", "the Configs field, opaque", nullable=True),
        column("min_insync_replicas", "int", "where the configs say so", nullable=True),
    ),
    key=("topic",),
)

REPLICAS = Table(
    name="replicas",
    doc="One replica of one partition.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("position", "int", "place in the replica list, 0 = preferred leader"),
        column("broker_id", "int", "broker"),
        column("is_leader", "boolean", "leads now"),
        column("in_sync", "boolean", "in the ISR"),
        column("is_adding", "boolean", "being added by a reassignment in flight"),
        column("is_removing", "boolean", "being removed by a reassignment in flight"),
        column("log_dir", "string", "directory, where known; null while it moves to another", nullable=True),
        column("size_bytes", "bigint", "local size, where known", nullable=True),
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
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("size_bytes", "bigint", "bytes of one replica (the largest)"),
        column("in_bytes_per_s", "bigint", "produced bytes per second: every replica carries it"),
        column(
            "out_bytes_per_s", "bigint", "consumed bytes per second: the leader carries it (replication not included)"
        ),
        column("size_source", "string", "log_dirs, metric or missing"),
        column(
            "rate_source", "string", "metric, table, topic (an estimate: the topic's rate spread by size) or missing"
        ),
        column("samples", "bigint", "samples of the rates in the window"),
    ),
    key=("topic", "partition"),
    checks=(
        ("size_not_negative", "size_bytes >= 0"),
        ("in_not_negative", "in_bytes_per_s >= 0"),
        ("out_not_negative", "out_bytes_per_s >= 0"),
    ),
)

THROTTLES_FOUND = Table(
    name="throttles_found",
    doc="One replication throttle that was set before the plan, by an operator or an earlier wave.",
    columns=keyed(
        column("entity_type", "string", "topics, brokers, or cluster: the default of every broker"),
        column("entity_name", "string", "topic, broker id or <default>"),
        column("config_name", "string", "Kafka's config"),
        column("config_value", "string", "value; never empty"),
        column("is_static", "boolean", "from the broker's file: nobody has to put it back"),
        column("source", "string", "file or cluster that says so"),
        column("line", "bigint", "line of the source, from 1"),
    ),
    key=("entity_type", "entity_name", "config_name"),
    checks=(("entity_known", "entity_type IN ('topics', 'brokers', 'cluster')"),),
)

TABLES = (BROKERS, LOG_DIRS, TOPICS, REPLICAS, PARTITION_LOAD, THROTTLES_FOUND)
