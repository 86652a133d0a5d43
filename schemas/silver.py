"""Silver: the cluster as clean, typed tables."""

from schemas.table import Table, column, keyed

BROKERS = Table(
    name="brokers",
    doc="One broker that is registered or in a replica list.",
    columns=keyed(
        column("broker_id", "int", "node id"),
        column("host", "string", "host", nullable=True),
        column("port", "int", "port", nullable=True),
        column("rack", "string", "rack; null if none is set", nullable=True),
        column(
            "state",
            "string",
            "alive: registered and unfenced; fenced: registered, but not live; dead: only in replica lists",
        ),
        column("is_controller", "boolean", "true if a source names it as the active controller"),
        column(
            "closed_cause",
            "string",
            "why it receives no replicas although it is alive: failed_directory, in_sync_nowhere, cordoned, or "
            "only_listed: it has no replicas and reports no directories",
            nullable=True,
        ),
        column(
            "closed_reason",
            "string",
            "the same as text, with the failed directories",
            nullable=True,
        ),
        column(
            "disk_capacity_bytes",
            "bigint",
            "capacity given for the broker, or the sum over its log directories",
            nullable=True,
        ),
        column("in_capacity_bytes_per_s", "bigint", "network capacity in; null if unknown", nullable=True),
        column("out_capacity_bytes_per_s", "bigint", "network capacity out; null if unknown", nullable=True),
        column(
            "skips_tiered",
            "boolean",
            "follower.fetch.last.tiered.offset.enable of the broker or the cluster; null: not set",
            nullable=True,
        ),
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
        column("used_bytes", "bigint", "sum of the replicas' sizes, with future replicas"),
        column("capacity_bytes", "bigint", "capacity; null if unknown", nullable=True),
        column("error", "string", "error that the broker reports; null if none", nullable=True),
        column("logs", "int", "number of logs in it, with future replicas"),
        column("is_cordoned", "boolean", "it receives no replica: the broker or its config says so", nullable=True),
    ),
    key=("broker_id", "log_dir"),
    checks=(("used_not_negative", "used_bytes >= 0"),),
)

TOPICS = Table(
    name="topics",
    doc="One topic.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("topic_id", "string", "base64 UUID", nullable=True),
        column("partitions", "int", "number of partitions in the input"),
        column("replication_factor", "int", "largest over its partitions, which may differ"),
        column("is_internal", "boolean", "true for Kafka's internal topics"),
        column("configs", "string", "the field Configs of kafka-topics.sh, unparsed", nullable=True),
        column("min_insync_replicas", "int", "min.insync.replicas; null if unknown", nullable=True),
        column(
            "min_insync_source",
            "string",
            "where it is set: topic, cluster (default of all brokers), or broker (the largest value); null if unknown",
            nullable=True,
        ),
        column(
            "allows_unclean_election",
            "boolean",
            "unclean.leader.election.enable of the topic, the cluster, or any broker; null if unknown",
            nullable=True,
        ),
    ),
    key=("topic",),
)

REPLICAS = Table(
    name="replicas",
    doc="One replica of one partition.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("position", "int", "position in the replica list; 0 is the preferred leader"),
        column("broker_id", "int", "broker"),
        column("is_leader", "boolean", "current leader"),
        column("in_sync", "boolean", "in the ISR"),
        column("is_adding", "boolean", "being added by a reassignment in flight"),
        column("is_removing", "boolean", "being removed by a reassignment in flight"),
        column(
            "log_dir",
            "string",
            "directory; null if unknown or while the replica moves to another directory",
            nullable=True,
        ),
        column("size_bytes", "bigint", "size on this broker; null if unknown", nullable=True),
        column("in_elr", "boolean", "an eligible leader replica (KIP-966); null if unknown", nullable=True),
        column("is_observer", "boolean", "an observer (Confluent): it never leads; null if unknown", nullable=True),
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
    doc="The load of one partition: rates as a percentile over the window, size as that of the largest replica.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("size_bytes", "bigint", "bytes of one replica (the largest)"),
        column("in_bytes_per_s", "bigint", "produced bytes per second; load of every replica"),
        column("out_bytes_per_s", "bigint", "consumed bytes per second, without replication; load of the leader"),
        column("size_source", "string", "log_dirs, metric or missing"),
        column("rate_source", "string", "metric, table, topic (estimate: the topic's rate, spread by size) or missing"),
        column("samples", "bigint", "number of rate samples in the window"),
        column(
            "window_in_bytes_per_s",
            "bigint",
            "as in_bytes_per_s, but only of samples in the windows of the schedule; null without them",
            nullable=True,
        ),
        column(
            "window_out_bytes_per_s",
            "bigint",
            "as out_bytes_per_s, but only of samples in the windows of the schedule; null without them",
            nullable=True,
        ),
        column("leader_bytes", "bigint", "size on the leader's broker; null if unknown", nullable=True),
        column(
            "local_records",
            "bigint",
            "records from earliest-local to latest, by their offsets; null if unknown",
            nullable=True,
        ),
        column(
            "untiered_records",
            "bigint",
            "those of them that are not in tiered storage yet; null if unknown",
            nullable=True,
        ),
        column("log_records", "bigint", "records on the leader's disk, by offsets; null if unknown", nullable=True),
        column("lag_brokers", "array<int>", "replicas whose ends are known, ascending; null if none is", nullable=True),
        column("lag_records", "array<bigint>", "records that each of them lacks; null if none is known", nullable=True),
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
        column("entity_type", "string", "topics, brokers, or cluster (the default of all brokers)"),
        column("entity_name", "string", "topic name, broker id or <default>"),
        column("config_name", "string", "name of Kafka's config"),
        column("config_value", "string", "value; never empty"),
        column("is_static", "boolean", "set in the broker's file: it needs no restoring"),
        column("source", "string", "file or cluster that reports it"),
        column("line", "bigint", "line in the source, from 1"),
    ),
    key=("entity_type", "entity_name", "config_name"),
    checks=(("entity_known", "entity_type IN ('topics', 'brokers', 'cluster')"),),
)

TABLES = (BROKERS, LOG_DIRS, TOPICS, REPLICAS, PARTITION_LOAD, THROTTLES_FOUND)
