"""The instance that is planned, what the solver found, and its proof."""

from schemas.table import Table, column, keyed

INSTANCE = Table(
    name="instance",
    doc="One partition with its ordered replicas and the load that the plan uses.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column(
            "replicas", "array<int>", "ordered; first is the preferred leader; of a partition in flight, its target"
        ),
        column("log_dirs", "array<string>", "directory of each replica, 'any' where unknown"),
        column("leader", "int", "current leader; null when leaderless", nullable=True),
        column("isr", "array<int>", "in-sync replicas, ascending"),
        column("size_bytes", "bigint", "bytes of one replica"),
        column("in_bytes_per_s", "bigint", "each replica carries it"),
        column("out_bytes_per_s", "bigint", "the leader carries it"),
        column("replication_factor", "int", "asked for; the length of replicas unless the policy changes it"),
        column(
            "mobility",
            "string",
            "free; forced_only: moves only off brokers to empty; racks_only: moves only to mend racks; "
            "order_only: only its order may change; fixed: never moves",
        ),
        column("fixed_reason", "string", "why it is not free, in words", nullable=True),
        column(
            "factor_refused", "string", "why it keeps its replication factor though another is asked", nullable=True
        ),
        column("min_insync_replicas", "int", "of its topic, where the configs say so", nullable=True),
        column(
            "pinned_brokers", "array<int>", "the only brokers that may hold it, ascending; null: any", nullable=True
        ),
        column("topic_most_replicas", "int", "most of its topic's replicas on one broker; null: any", nullable=True),
        column("topic_most_leaders", "int", "most of its topic's preferred leaders on one; null: any", nullable=True),
        column("fixed_cause", "string", "why it is not free, as a code: in_flight, topic_excluded, ...", nullable=True),
        column(
            "factor_cause", "string", "too_few_brokers or under_min_in_sync; null: no factor refused", nullable=True
        ),
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
        column("broker_id", "int", "node id"),
        column("rack", "string", "rack, or null where racks are not used", nullable=True),
        column("state", "string", "alive, new, draining, dead or fenced"),
        column("accepts_replicas", "boolean", "a replica may be moved to it"),
        column("accepts_leadership", "boolean", "it may become a preferred leader"),
        column("must_empty", "boolean", "every replica must leave it (draining, dead)"),
        column("disk_capacity_bytes", "bigint", "hard limit before headroom", nullable=True),
        column("in_capacity_bytes_per_s", "bigint", "network in", nullable=True),
        column("out_capacity_bytes_per_s", "bigint", "network out", nullable=True),
        column("pinned_topics", "array<string>", "patterns of the pins that let their topics sit on it"),
        column(
            "log_dirs",
            "array<struct<path:string,capacity_bytes:bigint,used_bytes:bigint,logs:int,is_open:boolean>>",
            "directories by path; logs: of known partitions; is_open: it has not failed; null where none is known",
            nullable=True,
        ),
    ),
    key=("broker_id",),
    checks=(("state_known", "state IN ('alive', 'new', 'draining', 'dead', 'fenced')"),),
)

BASELINE = Table(
    name="baseline",
    doc="What Kafka's own algorithm would assign to one partition.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("algorithm", "string", "striped or admin_utils"),
        column("replicas", "array<int>", "Kafka's default; empty when Kafka refuses"),
        column("added_replicas", "int", "replicas that would be copied"),
        column("moved_bytes", "bigint", "bytes that would be copied"),
        column("leader_changed", "boolean", "the preferred leader would change"),
        column("error", "string", "Kafka's message when it refuses the topic", nullable=True),
    ),
    key=("topic", "partition"),
    checks=(("algorithm_known", "algorithm IN ('striped', 'admin_utils')"),),
)

PROPOSAL = Table(
    name="proposal",
    doc="One partition whose replica list the plan changes.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("replicas", "array<int>", "proposed, ordered"),
    ),
    key=("topic", "partition"),
)

MOVES = Table(
    name="moves",
    doc="One replica that the plan copies to another broker, or gives up (net, over all rounds).",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("from_broker", "int", "broker that gives the replica up; null when replication grows", nullable=True),
        column("to_broker", "int", "broker that receives a copy; null when replication shrinks", nullable=True),
        column("size_bytes", "bigint", "bytes copied: 0 when replication shrinks"),
        column("reason", "string", "the most urgent that holds: dead, rack, drain, pin, replication, else balance"),
    ),
    key=("topic", "partition", "from_broker", "to_broker"),
    checks=(("reason_known", "reason IN ('drain', 'dead', 'pin', 'rack', 'replication', 'balance')"),),
)

LEADERS = Table(
    name="leaders",
    doc="One partition whose preferred leader changes.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("from_broker", "int", "preferred leader before"),
        column("to_broker", "int", "preferred leader after"),
        column("out_bytes_per_s", "bigint", "consumed bytes that go along"),
    ),
    key=("topic", "partition"),
)

LEADER_BOUNDS = Table(
    name="leader_bounds",
    doc="One measure of the preferred leaders, with the least that any order of the same replica lists has.",
    columns=keyed(
        column("measure", "string", "leaders_outside, out_outside_bytes_per_s (both: their bands) or leader_changes"),
        column("planned", "bigint", "of the plan"),
        column("bound", "bigint", "proven least; of changes, for orders that are as balanced, broker by broker"),
        column("detail", "string", "how it came about"),
    ),
    key=("measure",),
)

SHARD_RESULTS = Table(
    name="shard_results",
    doc="How one shard was solved in one round.",
    columns=keyed(
        column("round", "int", "from 0"),
        column("shard_id", "int", "from 0"),
        column("status", "string", "OPTIMAL, FEASIBLE, UNCHANGED, FAILED or OUT_OF_TIME"),
        column("message", "string", "why it failed", nullable=True),
        column("brokers", "int", "brokers of the shard"),
        column("partitions", "int", "partitions with a replica in it"),
        column("candidates", "int", "legal moves, all of them priced"),
        column("moves", "int", "replicas moved"),
        column("objective_bytes", "bigint", "bytes moved by it"),
        column("bound_bytes", "double", "lower bound of its own model; null without one", nullable=True),
        column(
            "search_bytes",
            "bigint",
            "of a small cluster: what any placement copies at least, by search over them all; else null",
            nullable=True,
        ),
        column("violation_before", "double", "sum of band violations, in mean broker loads"),
        column("violation_after", "double", "the same, after"),
        column("cpu_seconds", "double", "process time of the solve"),
        column("peak_memory_bytes", "bigint", "largest resident size of the worker so far"),
    ),
    key=("round", "shard_id"),
    checks=(("status_known", "status IN ('OPTIMAL', 'FEASIBLE', 'UNCHANGED', 'FAILED', 'OUT_OF_TIME')"),),
    volatile=("cpu_seconds", "peak_memory_bytes"),
)

BOUNDS = Table(
    name="bounds",
    doc="One proven lower bound on the bytes that any plan as balanced as this one must move, broker by broker.",
    columns=keyed(
        column(
            "kind", "string", "forced, flow, lagrangian; of a small cluster search, or exact if it is the plan's bytes"
        ),
        column("bound_bytes", "bigint", "no plan that keeps the rules and is as balanced moves fewer bytes"),
        column("gap_percent", "double", "how much more the plan moves; null over a bound of 0", nullable=True),
        column("is_best", "boolean", "the largest, and so the one that the gap is measured against"),
        column("detail", "string", "how it came about"),
    ),
    key=("kind",),
)

CURVE = Table(
    name="curve",
    doc="One trade of moves against bytes: what the first balancing round of the plan would do at a price on moves. "
    "Later rounds add to it: a partition makes one move a round. So its bytes may lie below those of table bounds.",
    columns=keyed(
        column("move_price", "double", "policy.move_price that gives it: price of one move, in mean replica sizes"),
        column("moves", "int", "replicas copied"),
        column("moved_bytes", "bigint", "bytes copied"),
        column("violation", "double", "load left outside the bands, in mean broker loads: later rounds mend it"),
    ),
    key=("move_price",),
)

FINDINGS = Table(
    name="findings",
    doc="What was broken before the plan, or what the plan leaves so; named, never hidden.",
    columns=keyed(
        column("rule", "string", "what it says, for readers: the same as code"),
        column("subject", "string", "broker, partition, rack or topic"),
        column("when", "string", "before, after or both"),
        column("detail", "string", "what is wrong, by how much"),
        column("remedy", "string", "what would make it possible"),
        column(
            "code",
            "string",
            "band, leader_band, rack_spread, not_emptied, not_free, pin, limited, dead_broker, no_disk_capacity, ...",
            nullable=True,
        ),
        column(
            "cause", "string", "why, where that is known: in_flight, move_limit, large_partition, ...", nullable=True
        ),
        column("topic", "string", "topic; null: not of one", nullable=True),
        column("partition", "int", "partition; null: not of one", nullable=True),
        column("broker_id", "int", "broker; null: not of one", nullable=True),
        column("resource", "string", "replicas, disk, in, out or leaders; null: not of one", nullable=True),
        column("amount", "double", "how much there is: a load in its unit, or a count", nullable=True),
        column("limit", "double", "how much there may be at most, or must be at least", nullable=True),
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
