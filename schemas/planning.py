"""The instance that is planned, what the solver found, and its proof."""

from pyspark.sql import types as T

from schemas.table import Table, column, keyed

S, I, L, D, B = T.StringType(), T.IntegerType(), T.LongType(), T.DoubleType(), T.BooleanType()
INTS = T.ArrayType(I, containsNull=False)
STRINGS = T.ArrayType(S, containsNull=False)

INSTANCE = Table(
    name="instance",
    doc="One partition with its ordered replicas and the load that the plan uses.",
    columns=keyed(
        column("topic", S, "topic"),
        column("partition", I, "partition"),
        column("replicas", INTS, "ordered; first is the preferred leader; of a partition in flight, its target"),
        column("log_dirs", STRINGS, "directory of each replica, 'any' where unknown"),
        column("leader", I, "current leader; null when leaderless", nullable=True),
        column("isr", INTS, "in-sync replicas, ascending"),
        column("size_bytes", L, "bytes of one replica"),
        column("in_bytes_per_s", L, "each replica carries it"),
        column("out_bytes_per_s", L, "the leader carries it"),
        column("replication_factor", I, "asked for; the length of replicas unless the policy changes it"),
        column("mobility", S, "free; forced_only: moves only off brokers to empty; fixed: never moves"),
        column("fixed_reason", S, "why it is not free", nullable=True),
    ),
    key=("topic", "partition"),
    checks=(
        ("mobility_known", "mobility IN ('free', 'forced_only', 'fixed')"),
        ("has_replicas", "size(replicas) > 0"),
        ("rf_positive", "replication_factor > 0"),
    ),
)

INSTANCE_BROKERS = Table(
    name="instance_brokers",
    doc="One broker as the plan sees it.",
    columns=keyed(
        column("broker_id", I, "node id"),
        column("rack", S, "rack, or null where racks are not used", nullable=True),
        column("state", S, "alive, new, draining, dead or fenced"),
        column("accepts_replicas", B, "a replica may be moved to it"),
        column("accepts_leadership", B, "it may become a preferred leader"),
        column("must_empty", B, "every replica must leave it (draining, dead)"),
        column("disk_capacity_bytes", L, "hard limit before headroom", nullable=True),
        column("in_capacity_bytes_per_s", L, "network in", nullable=True),
        column("out_capacity_bytes_per_s", L, "network out", nullable=True),
    ),
    key=("broker_id",),
    checks=(("state_known", "state IN ('alive', 'new', 'draining', 'dead', 'fenced')"),),
)

BASELINE = Table(
    name="baseline",
    doc="What Kafka's own algorithm would assign to one partition.",
    columns=keyed(
        column("topic", S, "topic"),
        column("partition", I, "partition"),
        column("algorithm", S, "striped or admin_utils"),
        column("replicas", INTS, "Kafka's default; empty when Kafka refuses"),
        column("added_replicas", I, "replicas that would be copied"),
        column("moved_bytes", L, "bytes that would be copied"),
        column("leader_changed", B, "the preferred leader would change"),
        column("error", S, "Kafka's message when it refuses the topic", nullable=True),
    ),
    key=("topic", "partition"),
    checks=(("algorithm_known", "algorithm IN ('striped', 'admin_utils')"),),
)

PROPOSAL = Table(
    name="proposal",
    doc="One partition whose replica list the plan changes.",
    columns=keyed(
        column("topic", S, "topic"),
        column("partition", I, "partition"),
        column("replicas", INTS, "proposed, ordered"),
    ),
    key=("topic", "partition"),
)

MOVES = Table(
    name="moves",
    doc="One replica that the plan copies to another broker (net, over all rounds).",
    columns=keyed(
        column("topic", S, "topic"),
        column("partition", I, "partition"),
        column("from_broker", I, "broker that gives the replica up; null when replication grows", nullable=True),
        column("to_broker", I, "broker that receives a copy; null when replication shrinks", nullable=True),
        column("size_bytes", L, "bytes copied: 0 when replication shrinks"),
        column("reason", S, "drain, dead, rack, replication or balance"),
    ),
    key=("topic", "partition", "from_broker", "to_broker"),
    checks=(("reason_known", "reason IN ('drain', 'dead', 'rack', 'replication', 'balance')"),),
)

LEADERS = Table(
    name="leaders",
    doc="One partition whose preferred leader changes.",
    columns=keyed(
        column("topic", S, "topic"),
        column("partition", I, "partition"),
        column("from_broker", I, "preferred leader before"),
        column("to_broker", I, "preferred leader after"),
        column("out_bytes_per_s", L, "consumed bytes that go along"),
    ),
    key=("topic", "partition"),
)

SHARD_RESULTS = Table(
    name="shard_results",
    doc="How one shard was solved in one round.",
    columns=keyed(
        column("round", I, "from 0"),
        column("shard_id", I, "from 0"),
        column("status", S, "OPTIMAL, FEASIBLE, UNCHANGED or FAILED"),
        column("message", S, "why it failed", nullable=True),
        column("brokers", I, "brokers of the shard"),
        column("partitions", I, "partitions with a replica in it"),
        column("candidates", I, "columns of its model"),
        column("moves", I, "replicas moved"),
        column("objective_bytes", L, "bytes moved by it"),
        column("bound_bytes", D, "lower bound of its own model; null without one", nullable=True),
        column("violation_before", D, "sum of band violations, in mean broker loads"),
        column("violation_after", D, "the same, after"),
        column("cpu_seconds", D, "process time of the solve"),
        column("peak_memory_bytes", L, "largest resident size of the worker so far"),
    ),
    key=("round", "shard_id"),
    checks=(("status_known", "status IN ('OPTIMAL', 'FEASIBLE', 'UNCHANGED', 'FAILED')"),),
    volatile=("cpu_seconds", "peak_memory_bytes"),
)

BOUNDS = Table(
    name="bounds",
    doc="One proven lower bound on the bytes that any plan within the bands must move.",
    columns=keyed(
        column("kind", S, "forced, flow or lagrangian"),
        column("bound_bytes", L, "no plan that meets the policy moves fewer bytes"),
        column("is_best", B, "the largest, and so the one that the gap is measured against"),
        column("detail", S, "how it came about"),
    ),
    key=("kind",),
)

FINDINGS = Table(
    name="findings",
    doc="What was broken before the plan, or can't be met by any plan; named, never hidden.",
    columns=keyed(
        column("rule", S, "rack_spread, dead_broker, leaderless, in_flight, capacity, band, no_racks, ..."),
        column("subject", S, "broker, partition, rack or topic"),
        column("when", S, "before, after or both"),
        column("detail", S, "what is wrong, by how much"),
        column("remedy", S, "what would make it possible"),
    ),
    key=("rule", "subject", "when"),
)

TABLES = (
    INSTANCE,
    INSTANCE_BROKERS,
    BASELINE,
    PROPOSAL,
    MOVES,
    LEADERS,
    SHARD_RESULTS,
    BOUNDS,
    FINDINGS,
)
