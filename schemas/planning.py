"""The instance that is planned, what the solver found, and its proof."""

from pyspark.sql import types as T

from schemas.table import Table, column, keyed

TEXT, INT, LONG, DOUBLE, BOOL = T.StringType(), T.IntegerType(), T.LongType(), T.DoubleType(), T.BooleanType()
INTS = T.ArrayType(INT)
STRINGS = T.ArrayType(TEXT)

INSTANCE = Table(
    name="instance",
    doc="One partition with its ordered replicas and the load that the plan uses.",
    columns=keyed(
        column("topic", TEXT, "topic"),
        column("partition", INT, "partition"),
        column("replicas", INTS, "ordered; first is the preferred leader; of a partition in flight, its target"),
        column("log_dirs", STRINGS, "directory of each replica, 'any' where unknown"),
        column("leader", INT, "current leader; null when leaderless", nullable=True),
        column("isr", INTS, "in-sync replicas, ascending"),
        column("size_bytes", LONG, "bytes of one replica"),
        column("in_bytes_per_s", LONG, "each replica carries it"),
        column("out_bytes_per_s", LONG, "the leader carries it"),
        column("replication_factor", INT, "asked for; the length of replicas unless the policy changes it"),
        column(
            "mobility",
            TEXT,
            "free; forced_only: moves only off brokers to empty; racks_only: moves only to mend racks; "
            "order_only: only its order may change; fixed: never moves",
        ),
        column("fixed_reason", TEXT, "why it is not free, in words", nullable=True),
        column("factor_refused", TEXT, "why it keeps its replication factor though another is asked", nullable=True),
        column("min_insync_replicas", INT, "of its topic, where the configs say so", nullable=True),
        column("pinned_brokers", INTS, "the only brokers that may hold it, ascending; null: any", nullable=True),
        column("topic_most_replicas", INT, "most of its topic's replicas on one broker; null: any", nullable=True),
        column("topic_most_leaders", INT, "most of its topic's preferred leaders on one; null: any", nullable=True),
        column("fixed_cause", TEXT, "why it is not free, as a code: in_flight, topic_excluded, ...", nullable=True),
        column("factor_cause", TEXT, "too_few_brokers or under_min_in_sync; null: no factor refused", nullable=True),
    ),
    key=("topic", "partition"),
    checks=(
        ("mobility_known", "mobility IN ('free', 'forced_only', 'racks_only', 'order_only', 'fixed')"),
        ("has_replicas", "size(replicas) > 0"),
        ("rf_positive", "replication_factor > 0"),
    ),
)

INSTANCE_BROKERS = Table(
    name="instance_brokers",
    doc="One broker as the plan sees it.",
    columns=keyed(
        column("broker_id", INT, "node id"),
        column("rack", TEXT, "rack, or null where racks are not used", nullable=True),
        column("state", TEXT, "alive, new, draining, dead or fenced"),
        column("accepts_replicas", BOOL, "a replica may be moved to it"),
        column("accepts_leadership", BOOL, "it may become a preferred leader"),
        column("must_empty", BOOL, "every replica must leave it (draining, dead)"),
        column("disk_capacity_bytes", LONG, "hard limit before headroom", nullable=True),
        column("in_capacity_bytes_per_s", LONG, "network in", nullable=True),
        column("out_capacity_bytes_per_s", LONG, "network out", nullable=True),
        column("pinned_topics", STRINGS, "patterns of the pins that let their topics sit on it"),
    ),
    key=("broker_id",),
    checks=(("state_known", "state IN ('alive', 'new', 'draining', 'dead', 'fenced')"),),
)

BASELINE = Table(
    name="baseline",
    doc="What Kafka's own algorithm would assign to one partition.",
    columns=keyed(
        column("topic", TEXT, "topic"),
        column("partition", INT, "partition"),
        column("algorithm", TEXT, "striped or admin_utils"),
        column("replicas", INTS, "Kafka's default; empty when Kafka refuses"),
        column("added_replicas", INT, "replicas that would be copied"),
        column("moved_bytes", LONG, "bytes that would be copied"),
        column("leader_changed", BOOL, "the preferred leader would change"),
        column("error", TEXT, "Kafka's message when it refuses the topic", nullable=True),
    ),
    key=("topic", "partition"),
    checks=(("algorithm_known", "algorithm IN ('striped', 'admin_utils')"),),
)

PROPOSAL = Table(
    name="proposal",
    doc="One partition whose replica list the plan changes.",
    columns=keyed(
        column("topic", TEXT, "topic"),
        column("partition", INT, "partition"),
        column("replicas", INTS, "proposed, ordered"),
    ),
    key=("topic", "partition"),
)

MOVES = Table(
    name="moves",
    doc="One replica that the plan copies to another broker, or gives up (net, over all rounds).",
    columns=keyed(
        column("topic", TEXT, "topic"),
        column("partition", INT, "partition"),
        column("from_broker", INT, "broker that gives the replica up; null when replication grows", nullable=True),
        column("to_broker", INT, "broker that receives a copy; null when replication shrinks", nullable=True),
        column("size_bytes", LONG, "bytes copied: 0 when replication shrinks"),
        column("reason", TEXT, "the most urgent that holds: dead, rack, drain, pin, replication, else balance"),
    ),
    key=("topic", "partition", "from_broker", "to_broker"),
    checks=(("reason_known", "reason IN ('drain', 'dead', 'pin', 'rack', 'replication', 'balance')"),),
)

LEADERS = Table(
    name="leaders",
    doc="One partition whose preferred leader changes.",
    columns=keyed(
        column("topic", TEXT, "topic"),
        column("partition", INT, "partition"),
        column("from_broker", INT, "preferred leader before"),
        column("to_broker", INT, "preferred leader after"),
        column("out_bytes_per_s", LONG, "consumed bytes that go along"),
    ),
    key=("topic", "partition"),
)

LEADER_BOUNDS = Table(
    name="leader_bounds",
    doc="One measure of the preferred leaders, with the least that any order of the same replica lists has.",
    columns=keyed(
        column("measure", TEXT, "leaders_outside, out_outside_bytes_per_s (both: their bands) or leader_changes"),
        column("planned", LONG, "of the plan"),
        column("bound", LONG, "proven least; of changes, for orders that are as balanced, broker by broker"),
        column("detail", TEXT, "how it came about"),
    ),
    key=("measure",),
)

SHARD_RESULTS = Table(
    name="shard_results",
    doc="How one shard was solved in one round.",
    columns=keyed(
        column("round", INT, "from 0"),
        column("shard_id", INT, "from 0"),
        column("status", TEXT, "OPTIMAL, FEASIBLE, UNCHANGED, FAILED or OUT_OF_TIME"),
        column("message", TEXT, "why it failed", nullable=True),
        column("brokers", INT, "brokers of the shard"),
        column("partitions", INT, "partitions with a replica in it"),
        column("candidates", INT, "legal moves, all of them priced"),
        column("moves", INT, "replicas moved"),
        column("objective_bytes", LONG, "bytes moved by it"),
        column("bound_bytes", DOUBLE, "lower bound of its own model; null without one", nullable=True),
        column(
            "search_bytes",
            LONG,
            "of a small cluster: what any placement copies at least, by search over them all; else null",
            nullable=True,
        ),
        column("violation_before", DOUBLE, "sum of band violations, in mean broker loads"),
        column("violation_after", DOUBLE, "the same, after"),
        column("cpu_seconds", DOUBLE, "process time of the solve"),
        column("peak_memory_bytes", LONG, "largest resident size of the worker so far"),
    ),
    key=("round", "shard_id"),
    checks=(("status_known", "status IN ('OPTIMAL', 'FEASIBLE', 'UNCHANGED', 'FAILED', 'OUT_OF_TIME')"),),
    volatile=("cpu_seconds", "peak_memory_bytes"),
)

BOUNDS = Table(
    name="bounds",
    doc="One proven lower bound on the bytes that any plan as balanced as this one must move, broker by broker.",
    columns=keyed(
        column("kind", TEXT, "forced, flow, lagrangian; of a small cluster search, or exact if it is the plan's bytes"),
        column("bound_bytes", LONG, "no plan that keeps the rules and is as balanced moves fewer bytes"),
        column("gap_percent", DOUBLE, "how much more the plan moves; null over a bound of 0", nullable=True),
        column("is_best", BOOL, "the largest, and so the one that the gap is measured against"),
        column("detail", TEXT, "how it came about"),
    ),
    key=("kind",),
)

CURVE = Table(
    name="curve",
    doc="One trade of moves against bytes: what the first balancing round of the plan would do at a price on moves. "
    "Later rounds add to it: a partition makes one move a round. So its bytes may lie below those of table bounds.",
    columns=keyed(
        column("move_price", DOUBLE, "policy.move_price that gives it: price of one move, in mean replica sizes"),
        column("moves", INT, "replicas copied"),
        column("moved_bytes", LONG, "bytes copied"),
        column("violation", DOUBLE, "load left outside the bands, in mean broker loads: later rounds mend it"),
    ),
    key=("move_price",),
)

FINDINGS = Table(
    name="findings",
    doc="What was broken before the plan, or what the plan leaves so; named, never hidden.",
    columns=keyed(
        column("rule", TEXT, "what it says, for readers: the same as code"),
        column("subject", TEXT, "broker, partition, rack or topic"),
        column("when", TEXT, "before, after or both"),
        column("detail", TEXT, "what is wrong, by how much"),
        column("remedy", TEXT, "what would make it possible"),
        column(
            "code",
            TEXT,
            "band, leader_band, rack_spread, not_emptied, not_free, pin, limited, dead_broker, no_disk_capacity, ...",
            nullable=True,
        ),
        column("cause", TEXT, "why, where that is known: in_flight, move_limit, large_partition, ...", nullable=True),
        column("topic", TEXT, "topic; null: not of one", nullable=True),
        column("partition", INT, "partition; null: not of one", nullable=True),
        column("broker_id", INT, "broker; null: not of one", nullable=True),
        column("resource", TEXT, "replicas, disk, in, out or leaders; null: not of one", nullable=True),
        column("amount", DOUBLE, "how much there is: a load in its unit, or a count", nullable=True),
        column("limit", DOUBLE, "how much there may be at most, or must be at least", nullable=True),
    ),
    # Of words, and no typed fields: patterns, shards and racks have no column, and rows of before have null in all of
    # them. A write checks the key; no code finds a row by it.
    key=("rule", "subject", "when"),
)

TABLES = (
    INSTANCE,
    INSTANCE_BROKERS,
    BASELINE,
    PROPOSAL,
    MOVES,
    LEADERS,
    LEADER_BOUNDS,
    SHARD_RESULTS,
    BOUNDS,
    CURVE,
    FINDINGS,
)
