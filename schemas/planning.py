"""The instance to plan, the solver's result, and its proof."""

from schemas.table import Table, column, keyed

INSTANCE = Table(
    name="instance",
    doc="One partition with its ordered replicas and the load that the plan uses.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column(
            "replicas",
            "array<int>",
            "ordered; the first is the preferred leader; for a partition in flight, the target",
        ),
        column("log_dirs", "array<string>", "directory of each replica, 'any' if unknown"),
        column("leader", "int", "current leader; null without a leader", nullable=True),
        column("isr", "array<int>", "in-sync replicas, ascending"),
        column("size_bytes", "bigint", "bytes of one replica"),
        column("in_bytes_per_s", "bigint", "produced bytes per second; load of each replica"),
        column("out_bytes_per_s", "bigint", "consumed bytes per second; load of the leader"),
        column(
            "replication_factor",
            "int",
            "planned replication factor: the length of replicas unless the policy changes it",
        ),
        column(
            "mobility",
            "string",
            "free; forced_only: moves only off brokers to empty; racks_only: moves only to repair racks; "
            "order_only: only the order of replicas may change; fixed: never moves",
        ),
        column("fixed_reason", "string", "why it is not free, as text", nullable=True),
        column(
            "factor_refused", "string", "why it keeps its replication factor against the policy, as text", nullable=True
        ),
        column(
            "min_insync_replicas",
            "int",
            "min.insync.replicas of its topic, else the default of its cluster or brokers; null if unknown",
            nullable=True,
        ),
        column(
            "pinned_brokers",
            "array<int>",
            "only these brokers may hold its replicas, ascending; null: any",
            nullable=True,
        ),
        column("topic_most_replicas", "int", "most replicas of its topic on one broker; null: no limit", nullable=True),
        column(
            "topic_most_leaders",
            "int",
            "most preferred leaders of its topic on one broker; null: no limit",
            nullable=True,
        ),
        column("fixed_cause", "string", "why it is not free, as a code: in_flight, topic_excluded, ...", nullable=True),
        column(
            "factor_cause",
            "string",
            "code of factor_refused: too_few_brokers or under_min_in_sync; null if not refused",
            nullable=True,
        ),
        column(
            "controller_replicas",
            "array<int>",
            "in flight: the controller's list, the target and what is removed; else null",
            nullable=True,
        ),
        column("adding_replicas", "array<int>", "in flight: what is added, ascending; else null", nullable=True),
        column("elr", "array<int>", "eligible leader replicas, ascending; null if unknown", nullable=True),
        column("allows_unclean_election", "boolean", "unclean.leader.election.enable; null if unknown", nullable=True),
        column(
            "min_insync_source",
            "string",
            "where min_insync_replicas is set: topic, cluster or broker; null if it is unknown: exposure assumes 1",
            nullable=True,
        ),
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
        column(
            "observers",
            "array<int>",
            "replicas that never lead (Confluent), ascending, also those being removed; null if unknown",
            nullable=True,
        ),
        column(
            "copy_bytes",
            "bigint",
            "bytes of one copy; less than size_bytes if the leader has fewer bytes on its disk. Null: size_bytes",
            nullable=True,
        ),
        column(
            "tiered_copy_bytes",
            "bigint",
            "the same to a broker that skips_tiered: what is not in tiered storage yet. Null: copy_bytes",
            nullable=True,
        ),
        column(
            "copy_source",
            "string",
            "where copy_bytes is from: size (the topic is not tiered), offsets, or upper_bound (offsets are unknown)",
            nullable=True,
        ),
        column("log_records", "bigint", "records on the leader's disk, by offsets; null if unknown", nullable=True),
        column("lag_brokers", "array<int>", "replicas whose ends are known, ascending; null if none is", nullable=True),
        column("lag_records", "array<bigint>", "records that each of them lacks; null if none is known", nullable=True),
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
    doc="One broker, as the plan uses it.",
    columns=keyed(
        column("broker_id", "int", "node id"),
        column("rack", "string", "rack; null if racks are not used", nullable=True),
        column("state", "string", "alive, new, draining, dead or fenced"),
        column("accepts_replicas", "boolean", "it may receive replicas"),
        column("accepts_leadership", "boolean", "it may become a preferred leader"),
        column("must_empty", "boolean", "every replica must leave it (draining, dead)"),
        column(
            "disk_capacity_bytes", "bigint", "disk capacity, a hard limit; headroom is not subtracted", nullable=True
        ),
        column("in_capacity_bytes_per_s", "bigint", "network capacity in; null if unknown", nullable=True),
        column("out_capacity_bytes_per_s", "bigint", "network capacity out; null if unknown", nullable=True),
        column("pinned_topics", "array<string>", "topic patterns of the pins that allow this broker"),
        column(
            "log_dirs",
            "array<struct<path:string,capacity_bytes:bigint,used_bytes:bigint,logs:int,is_open:boolean>>",
            "directories by path; logs: number, with future replicas; is_open: not failed or cordoned; null if unknown",
            nullable=True,
        ),
        column(
            "closed_reason", "string", "why it is alive but receives no replica, as text; null otherwise", nullable=True
        ),
        column(
            "skips_tiered",
            "boolean",
            "follower.fetch.last.tiered.offset.enable: a new replica skips what is in tiered storage; null: not set",
            nullable=True,
        ),
    ),
    key=("broker_id",),
    checks=(("state_known", "state IN ('alive', 'new', 'draining', 'dead', 'fenced')"),),
)

BASELINE = Table(
    name="baseline",
    doc="The assignment of one partition by Kafka's own algorithm.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("algorithm", "string", "striped or admin_utils"),
        column("replicas", "array<int>", "replicas with Kafka's default; empty if Kafka refuses"),
        column("added_replicas", "int", "replicas that would be copied"),
        column("moved_bytes", "bigint", "bytes that would be copied"),
        column("leader_changed", "boolean", "the preferred leader would change"),
        column("error", "string", "Kafka's message if it refuses the topic", nullable=True),
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
        column("replicas", "array<int>", "proposed replicas, ordered"),
    ),
    key=("topic", "partition"),
)

MOVES = Table(
    name="moves",
    doc="One replica that the plan copies to another broker or removes (net, over all rounds).",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column(
            "from_broker", "int", "broker that loses the replica; null if the replication factor grows", nullable=True
        ),
        column(
            "to_broker",
            "int",
            "broker that receives the replica; null if the replication factor shrinks",
            nullable=True,
        ),
        column("size_bytes", "bigint", "bytes copied; 0 if the replication factor shrinks"),
        column(
            "reason", "string", "most urgent reason that applies: dead, rack, drain, pin, replication, else balance"
        ),
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
        column("out_bytes_per_s", "bigint", "consumed bytes per second that move with the leadership"),
    ),
    key=("topic", "partition"),
)

LEADER_BOUNDS = Table(
    name="leader_bounds",
    doc="One measure of the preferred leaders, with its proven minimum over all orders of the same replica lists.",
    columns=keyed(
        column(
            "measure", "string", "leaders_outside, out_outside_bytes_per_s (both: outside the bands) or leader_changes"
        ),
        column("planned", "bigint", "value of the plan"),
        column(
            "bound", "bigint", "proven minimum; for leader_changes, over orders that are as balanced on every broker"
        ),
        column("detail", "string", "how the bound was proven"),
    ),
    key=("measure",),
)

SHARD_RESULTS = Table(
    name="shard_results",
    doc="The result of one shard in one round.",
    columns=keyed(
        column("round", "int", "number of the round, from 0"),
        column("shard_id", "int", "number of the shard, from 0"),
        column("status", "string", "OPTIMAL, FEASIBLE, UNCHANGED, FAILED or OUT_OF_TIME"),
        column("message", "string", "why it failed", nullable=True),
        column("brokers", "int", "number of brokers of the shard"),
        column("partitions", "int", "number of partitions with a replica in the shard"),
        column("candidates", "int", "number of legal moves, all of them priced"),
        column("moves", "int", "number of replicas moved"),
        column("objective_bytes", "bigint", "bytes moved by the shard"),
        column("bound_bytes", "double", "lower bound of the shard's own model; null without a bound", nullable=True),
        column(
            "search_bytes",
            "bigint",
            "small clusters: the fewest bytes that any placement copies, by exhaustive search; else null",
            nullable=True,
        ),
        column("violation_before", "double", "sum of band violations before the solve, in mean broker loads"),
        column("violation_after", "double", "the same after the solve"),
        column("cpu_seconds", "double", "CPU time of the solve"),
        column("peak_memory_bytes", "bigint", "peak resident memory of the worker process so far"),
    ),
    key=("round", "shard_id"),
    checks=(("status_known", "status IN ('OPTIMAL', 'FEASIBLE', 'UNCHANGED', 'FAILED', 'OUT_OF_TIME')"),),
    volatile=("cpu_seconds", "peak_memory_bytes"),
)

BOUNDS = Table(
    name="bounds",
    doc="One proven lower bound on the bytes that any plan must move to balance every broker as well as this plan.",
    columns=keyed(
        column(
            "kind",
            "string",
            "forced, flow, lagrangian; for small clusters search, or exact if it equals the plan's bytes",
        ),
        column("bound_bytes", "bigint", "no valid plan that is as balanced moves fewer bytes"),
        column(
            "gap_percent",
            "double",
            "how much more the plan moves, in percent of the bound; null if the bound is 0",
            nullable=True,
        ),
        column("is_best", "boolean", "true for the largest bound"),
        column("detail", "string", "how the bound was proven"),
    ),
    key=("kind",),
)

CURVE = Table(
    name="curve",
    doc="One trade-off between moves and bytes: the first balancing round of the plan at one price per move. "
    "Later rounds add moves, because a partition moves once per round: so its bytes may be below table bounds.",
    columns=keyed(
        column("move_price", "double", "value of policy.move_price: price of one move, in mean replica sizes"),
        column("moves", "int", "replicas copied"),
        column("moved_bytes", "bigint", "bytes copied"),
        column(
            "violation", "double", "load that stays outside the bands, in mean broker loads; later rounds reduce it"
        ),
    ),
    key=("move_price",),
)

FINDINGS = Table(
    name="findings",
    doc="One problem that the cluster had before the plan, or still has after it.",
    columns=keyed(
        column("rule", "string", "name of the problem for readers; the same as code"),
        column("subject", "string", "broker, partition, rack or topic"),
        column("when", "string", "before, after or both; in wave_findings also during: while a wave runs"),
        column("detail", "string", "what is wrong, and by how much"),
        column("remedy", "string", "what to do about it"),
        column(
            "code",
            "string",
            "band, leader_band, rack_spread, not_emptied, not_free, pin, limited, dead_broker, no_disk_capacity, ...",
        ),
        column("cause", "string", "why, if known: in_flight, move_limit, large_partition, ...", nullable=True),
        column("topic", "string", "topic; null if the problem is not about a topic", nullable=True),
        column("partition", "int", "partition; null if the problem is not about a partition", nullable=True),
        column("broker_id", "int", "broker; null if the problem is not about a broker", nullable=True),
        column(
            "resource",
            "string",
            "replicas, disk, in, out or leaders; null if the problem is not about a resource",
            nullable=True,
        ),
        column("amount", "double", "actual value: a load in its unit, or a count", nullable=True),
        column("limit", "double", "largest or smallest allowed value", nullable=True),
    ),
    # The key has no typed fields: patterns, shards and racks have no column. A write checks the key; no code looks up a
    # row by it.
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
