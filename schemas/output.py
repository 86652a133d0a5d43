"""The plan for readers, and the documents that are executed."""

from schemas.planning import FINDINGS
from schemas.table import Table, column, keyed

PLAN = Table(
    name="plan",
    doc="One partition: current, Kafka's default and proposed replicas, side by side.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("current_replicas", "array<int>", "replicas before the plan"),
        column("baseline_replicas", "array<int>", "replicas with Kafka's default; empty if Kafka refuses"),
        column("proposed_replicas", "array<int>", "replicas after the plan"),
        column("leader", "int", "current leader; null without a leader", nullable=True),
        column("adding_replicas", "array<int>", "brokers that receive a copy, ascending"),
        column("removing_replicas", "array<int>", "brokers that lose their replica, ascending"),
        column("size_bytes", "bigint", "bytes of one replica"),
        column("moved_bytes", "bigint", "bytes copied: size times added replicas"),
        column("is_changed", "boolean", "the partition is in the reassignment document"),
        column("leader_changed", "boolean", "the preferred leader changes"),
        column("reasons", "string", "reason_codes for readers, comma-separated; empty if unchanged"),
        column("wave", "int", "wave that executes it, from 1; null if unchanged", nullable=True),
        column(
            "reason_codes",
            "array<string>",
            "reasons of its moves, or 'leader' if only the order changes; empty if unchanged",
        ),
        column(
            "planned_log_dirs",
            "array<string>",
            "directory of each proposed replica: a path if it arrives at a broker with several directories, else "
            "'any'; null if no replica has a path",
            nullable=True,
        ),
    ),
    key=("topic", "partition"),
)

WAVES = Table(
    name="waves",
    doc="One step of the execution, valid as a plan of its own.",
    columns=keyed(
        column("wave", "int", "number of the wave, from 1"),
        column("partitions", "int", "partitions in the wave"),
        column("replicas_moved", "int", "replicas copied"),
        column("moved_bytes", "bigint", "bytes copied"),
        column("busiest_broker", "int", "broker with the most bytes in or out; null without copies", nullable=True),
        column("busiest_bytes", "bigint", "bytes in or out of that broker, whichever is larger"),
        column("throttle_bytes_per_s", "bigint", "throttle rate per broker and direction"),
        column("estimated_seconds", "bigint", "expected time at that rate, by Kafka's quota rules"),
        column("below_floor", "boolean", "the rate is below the lowest rate that Kafka's throttle can enforce"),
        column("peak_disk_bytes", "bigint", "most bytes on any broker while old and new replicas exist"),
        column("least_seconds", "bigint", "start of the interval of the time, by simulation"),
        column("most_seconds", "bigint", "end of the interval of the time, by simulation"),
        column(
            "least_total_bytes",
            "bigint",
            "proven minimum of the sum of busiest_bytes over so many waves; null for a wave inside brokers",
            nullable=True,
        ),
        column(
            "copy_bytes_per_s",
            "bigint",
            "rate of its copies per broker and direction: the requested one, or what network_left_bytes_per_s allows",
        ),
        column("requested_bytes_per_s", "bigint", "the requested rate, of its window or of all"),
        column(
            "network_broker",
            "int",
            "broker whose network has least left for copies of the plan; null if that is unknown",
            nullable=True,
        ),
        column(
            "network_left_bytes_per_s",
            "bigint",
            "what producers, consumers and replication leave of its capacity in the direction of the copies",
            nullable=True,
        ),
        column("starts_at", "timestamp", "planned start (UTC); null without [[schedule.windows]]", nullable=True),
        column("ends_at", "timestamp", "starts_at and most_seconds; null if it takes over 100 days", nullable=True),
        column("night_ends_at", "timestamp", "end of its window that night (UTC)", nullable=True),
        column("time_zone", "string", "time zone of its window", nullable=True),
        column("inside_brokers", "boolean", "its replicas move to other directories of their brokers (dir_moves)"),
    ),
    key=("wave",),
)

RACK_FLOW = Table(
    name="rack_flow",
    doc="The copies of one wave from one rack to another, or inside one rack. Each copy is read from the partition's "
    "present leader. There are no rows if racks are unknown, or if the policy ignores them.",
    columns=keyed(
        column("wave", "int", "number of the wave, from 1"),
        column("from_rack", "string", "rack of the leaders"),
        column("to_rack", "string", "rack of the brokers that receive the copies"),
        column("copies", "bigint", "replicas copied"),
        column("copied_bytes", "bigint", "bytes copied"),
    ),
    key=("wave", "from_rack", "to_rack"),
)

BROKER_WAVES = Table(
    name="broker_waves",
    doc="What one broker does in one wave. Only brokers that send or receive a copy in it have a row.",
    columns=keyed(
        column("wave", "int", "number of the wave, from 1"),
        column("broker_id", "int", "broker"),
        column("out_bytes", "bigint", "bytes of the copies that it sends as leader"),
        column("in_bytes", "bigint", "bytes of the copies that it receives"),
        column("busy_seconds", "bigint", "bytes of its slower direction over its rate, by Kafka's quota rules"),
        column("peak_disk_bytes", "bigint", "bytes on it while old and new replicas exist"),
    ),
    key=("wave", "broker_id"),
)

DIR_BALANCE = Table(
    name="dir_balance",
    doc="One log directory of a broker that has several: what it holds before the plan, after it and at its fullest "
    "moment, as dealt and with the directories that Kafka would choose.",
    columns=keyed(
        column("broker_id", "int", "broker"),
        column("log_dir", "string", "absolute path"),
        column("is_open", "boolean", "it may get replicas: not failed and not cordoned"),
        column("capacity_bytes", "bigint", "null if unknown", nullable=True),
        column("limit_bytes", "bigint", "capacity less policy.disk_headroom; null if unknown", nullable=True),
        column("before_bytes", "bigint", "bytes before the plan, with future copies"),
        column(
            "default_bytes", "bigint", "bytes after the plan if Kafka chooses: where the fewest logs are (estimate)"
        ),
        column("default_peak_bytes", "bigint", "most bytes at any moment if Kafka chooses (estimate)"),
        column("after_bytes", "bigint", "bytes after the plan"),
        column("peak_bytes", "bigint", "most bytes at any moment: what leaves in a wave makes space in the next one"),
        column("peak_wave", "int", "wave in which it is fullest; null if that is before the plan", nullable=True),
        column("lower_bytes", "bigint", "band of policy.dir_band; null unless directories are balanced", nullable=True),
        column("upper_bytes", "bigint", "end of the band, or the limit if it is less", nullable=True),
    ),
    key=("broker_id", "log_dir"),
)

DIR_MOVES = Table(
    name="dir_moves",
    doc="One replica that moves to another log directory of its broker, in a wave after all others.",
    columns=keyed(
        column("topic", "string", "topic"),
        column("partition", "int", "partition"),
        column("broker_id", "int", "broker"),
        column("replicas", "array<int>", "brokers of the partition, in order; the plan does not change them"),
        column("from_log_dir", "string", "absolute path"),
        column("to_log_dir", "string", "absolute path"),
        column("size_bytes", "bigint", "bytes copied; both copies count on disk until it ends"),
        column("wave", "int", "number of the wave; a partition is in one wave only"),
    ),
    key=("topic", "partition", "broker_id"),
)

THROTTLES = Table(
    name="throttles",
    doc="One config entry of a throttle.",
    columns=keyed(
        column("wave", "int", "wave; 0 for the whole plan"),
        column(
            "style",
            "string",
            "kafka: as Kafka's tool sets it; careful: only replicas that are copied, one rate per broker",
        ),
        column("entity_type", "string", "topics or brokers"),
        column("entity_name", "string", "topic name or broker id"),
        column("config_name", "string", "name of Kafka's config"),
        column("config_value", "string", "value; may be empty"),
        column(
            "previous_value", "string", "value before the plan, restored afterwards; null: none was set", nullable=True
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
    doc="The load of one broker in one placement.",
    columns=keyed(
        column("broker_id", "int", "broker"),
        column("placement", "string", "before, baseline or after"),
        column("rack", "string", "rack; null if unknown", nullable=True),
        column("state", "string", "alive, new, draining, dead or fenced"),
        column("replicas", "bigint", "number of replicas"),
        column("leaders", "bigint", "partitions with this broker as preferred leader"),
        column("disk_bytes", "bigint", "bytes of its replicas"),
        column("in_bytes_per_s", "bigint", "bytes in per second"),
        column(
            "out_bytes_per_s",
            "bigint",
            "bytes out per second, to consumers and followers of the partitions that it leads",
        ),
        column("disk_lower_bytes", "bigint", "lower end of its disk band"),
        column("disk_upper_bytes", "bigint", "upper end of its disk band; -1: no band"),
        column(
            "in_band",
            "boolean",
            "inside its bands for replicas, disk and bytes in (leaders and bytes out: see leader_bounds and findings)",
        ),
    ),
    key=("broker_id", "placement"),
    checks=(("placement_known", "placement IN ('before', 'baseline', 'after')"),),
)

PLAN_SUMMARY = Table(
    name="plan_summary",
    doc="One figure about the plan of one cluster.",
    columns=keyed(
        column("position", "int", "order for readers"),
        column("figure", "string", "name with its unit, such as moved_bytes"),
        column("before", "double", "value before the plan", nullable=True),
        column("baseline", "double", "value with Kafka's default assignment", nullable=True),
        column("after", "double", "value after the plan", nullable=True),
        column("label", "string", "name of the figure for readers"),
        column(
            "worst_moment", "double", "largest value at any moment, before and after the plan included", nullable=True
        ),
    ),
    key=("figure",),
)

EXPOSURE = Table(
    name="exposure",
    doc="What the loss of one broker or rack would do at one moment of the plan. Before and after it: each loss; else "
    "the worst broker and the worst rack. Writes are those with acks=all.",
    columns=keyed(
        column("position", "int", "order of the moments, from 0"),
        column("moment", "string", "before, while_moving, between_waves or after"),
        column("wave", "int", "the wave that runs, or the last that has ended; 0 before and after the plan"),
        column(
            "loss",
            "string",
            "broker, rack, some_broker, some_rack, two_brokers (the worst two, one after the other), or none: the "
            "state without a loss",
        ),
        column(
            "lost",
            "string",
            "broker id or rack; two ids in the order of the losses, with a comma; empty for some_broker, some_rack "
            "and none",
        ),
        column(
            "writes_stopped",
            "int",
            "partitions that take no writes because of the loss; some_broker and some_rack: of one or another",
        ),
        column("offline", "int", "of them, partitions without a leader", nullable=True),
        column("under_replicated", "int", "partitions that lose an in-sync replica", nullable=True),
        column("leaders_moved", "int", "partitions that lose their leader", nullable=True),
        column(
            "busiest_over_mean",
            "double",
            "the busiest leader's bytes out over the mean of the remaining brokers; null if they send nothing",
            nullable=True,
        ),
        column(
            "near_leader_busiest_over_mean",
            "double",
            "while a wave runs, without a loss: `busiest_over_mean` if leaving replicas in the targets' racks led its "
            "partitions; null if this saves no bytes between racks",
            nullable=True,
        ),
        column(
            "lost_bytes",
            "bigint",
            "acknowledged bytes that are gone once another replica leads, by the mean record; some_broker and "
            "some_rack: of the loss that loses most; two_brokers: of the pair that stops most writes",
            nullable=True,
        ),
        column("lost_records", "bigint", "records in lost_bytes; null if offsets are unknown", nullable=True),
        column(
            "sole_bytes",
            "bigint",
            "bytes that no other living replica has: gone if the disks do not come back; some_broker and "
            "some_rack: of the loss that has most",
            nullable=True,
        ),
    ),
    key=("position", "loss", "lost"),
    checks=(
        ("moment_known", "moment IN ('before', 'while_moving', 'between_waves', 'after')"),
        ("loss_known", "loss IN ('none', 'broker', 'rack', 'some_broker', 'some_rack', 'two_brokers')"),
    ),
)

RESTART_BATCHES = Table(
    name="restart_batches",
    doc="Brokers that may restart together, so that no partition that can avoid it falls below min.insync.replicas; "
    "before and after the plan. Brokers that are not alive or must be empty are in none. plan_summary says how many "
    "batches are needed at least.",
    columns=keyed(
        column("placement", "string", "before or after the plan"),
        column("batch", "int", "number of the batch, from 1"),
        column("brokers", "array<int>", "its brokers, ascending"),
        column("racks", "array<string>", "their racks, ascending"),
        column("partitions_at_min_isr", "int", "partitions that are at min.insync.replicas while it is down"),
        column("partitions_stopped", "int", "partitions that then take no writes, in any order of the brokers"),
        column("leaders_to_move", "int", "partitions that get another leader"),
        column(
            "others_load_ratio",
            "double",
            "clients' bytes of the leaders on all other brokers, over those when all are up; null if they have none",
            nullable=True,
        ),
        column(
            "missed_bytes",
            "bigint",
            "written to its replicas while it is down for five minutes; null if no rates are known",
            nullable=True,
        ),
        column(
            "in_sync_seconds",
            "bigint",
            "from its start until they are in sync, at the network's rate or a throttle's; null if that is unknown; "
            "-1: never, because more is written",
            nullable=True,
        ),
    ),
    key=("placement", "batch"),
    checks=(("placement_known", "placement IN ('before', 'after')"),),
)

WAVE_FINDINGS = Table(
    name="wave_findings",
    doc="One problem that the execution of the plan causes, or that its losses would cause.",
    columns=FINDINGS.columns,
    key=FINDINGS.key,
)

ALTERNATIVES = Table(
    name="alternatives",
    doc="One figure of another plan for one cluster, made with other bands or limits; for clusters of at most "
    "`[solver] alternatives_brokers` brokers. The figures of the plan itself are in plan_summary. "
    "brokers_outside_bands counts by the bands of the run.",
    columns=keyed(
        column("position", "int", "order of the alternatives, from 1"),
        column("alternative", "string", "bands x 2, only urgent, half the bytes, or no limit"),
        column("knobs", "string", "knobs of [policy] that differ from the run's"),
        column("figure", "string", "name as in plan_summary; hours, offline partitions and the fullest disk too"),
        column("value", "double", "value after the plan", nullable=True),
    ),
    key=("alternative", "figure"),
)

DOCUMENTS = Table(
    name="documents",
    doc="One output file; equal inputs give the same bytes.",
    columns=keyed(
        column("path", "string", "path below the run's output folder"),
        column(
            "kind",
            "string",
            "reassignment, rollback, rollback_not_possible, topics_to_move, leader_election, throttle, runbook, "
            "report, summary, moves, manifest, sums, log_dirs, dir_moves, rollback_dir_moves",
        ),
        column("wave", "int", "wave; 0 for the whole plan"),
        column("content", "string", "text of the file (UTF-8)"),
        column("sha256", "string", "hex digest of the content"),
    ),
    key=("path",),
)

TABLES = (
    *(PLAN, WAVES, RACK_FLOW, BROKER_WAVES, DIR_BALANCE, DIR_MOVES, THROTTLES, BROKER_BALANCE, PLAN_SUMMARY),
    EXPOSURE,
    RESTART_BATCHES,
    WAVE_FINDINGS,
    ALTERNATIVES,
    DOCUMENTS,
)
