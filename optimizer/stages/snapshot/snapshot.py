"""Stage 3, snapshot: silver tables and policy -> instance, instance_brokers."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from optimizer.domain import PLACEMENT_RULE, Cause
from optimizer.errors import BallastError, ConfigError
from optimizer.settings import Settings
from optimizer.stages.shared.causes import first_cause
from optimizer.stages.shared.known_names import known_of_brokers, names_any, refuse_unknown
from optimizer.stages.shared.sql_words import plural
from optimizer.stages.snapshot.only_moves import emptied_now, with_only, without_drains
from optimizer.stages.snapshot.pinned_brokers import is_excluded, pinned_topics, with_pins
from optimizer.stages.snapshot.replication_factors import check_factors, refused_factor, with_requested_factor
from optimizer.stages.snapshot.topic_mosts import with_topic_most
from optimizer.stages.stage import Frames, Refusals, Run
from schemas.keys import RUN_BROKER, RUN_PARTITION
from schemas.planning import INSTANCE, INSTANCE_BROKERS
from schemas.spark import conform

_TOPIC_COLUMNS = (
    "cluster_id",
    "topic",
    "configs",
    "min_insync_replicas",
    "min_insync_source",
    "allows_unclean_election",
)


def build(inputs: Frames, run: Run) -> Frames:
    """Apply the policy to brokers and partitions."""
    brokers = plan_brokers(inputs["brokers"], inputs["replicas"], run.settings)
    brokers = with_log_dirs(brokers, inputs["log_dirs"])
    partitions = plan_partitions(inputs, brokers, run.settings)
    return {
        "instance": conform(partitions, INSTANCE),
        "instance_brokers": conform(brokers, INSTANCE_BROKERS),
    }


def gate(frames: Frames, run: Run) -> Refusals:
    """Clusters that can't meet their policy.

    A list or a pin names an unknown broker or rack, no broker may hold replicas, patterns request different replication
    factors for a topic, or ``only`` is "drain" but the policy drains no broker.
    """
    unknown = refuse_unknown(known_of_brokers(frames["brokers"]), run.settings) if names_any(run.settings) else {}
    conflicts = check_factors(frames["replicas"], run.settings)
    planned = frames["instance_brokers"]
    return conflicts | without_drains(planned, run.settings) | _without_open_brokers(planned) | unknown


def _without_open_brokers(brokers: DataFrame) -> dict[str, BallastError]:
    """Clusters without a broker that may hold replicas."""
    rows = brokers.groupBy("cluster_id").agg(F.bool_or("accepts_replicas").alias("is_open")).collect()
    closed = sorted(row.cluster_id for row in rows if not row.is_open)
    reason = "every broker is drained, excluded, cordoned, fenced, dead, or in trouble (table brokers, closed_cause)"
    remedy = "drain or exclude fewer brokers"
    return {
        cluster_id: ConfigError(f"no broker of {[cluster_id]} may hold replicas: {reason}; {remedy}")
        for cluster_id in closed
    }


def plan_brokers(brokers: DataFrame, replicas: DataFrame, settings: Settings) -> DataFrame:
    """Brokers with their state, and with what they accept under the policy.

    A live broker without replicas is new. A fenced broker may return, so its replicas stay unless the policy drains it.
    A dead broker is always emptied.
    """
    with_replicas = replicas.select(*RUN_BROKER, F.lit(True).alias("holds")).distinct()
    is_alive = F.col("state") == "alive"
    state = (
        F.when(is_alive & _listed(settings, "drain_brokers"), "draining")
        .when(is_alive & F.col("holds").isNull(), "new")
        .otherwise(F.col("state"))
    )
    may_hold = F.col("state").isin("alive", "new")
    # Earlier releases wrote only the reason in words, without its code.
    is_closed = F.coalesce("closed_cause", "closed_reason").isNotNull()
    rack = F.col("rack") if settings.policy.rack_policy == "spread" else F.lit(None).cast("string")
    planned = brokers.join(with_replicas, RUN_BROKER, "left").withColumn("state", state)
    return planned.withColumns(
        {
            "rack": rack,
            "pinned_topics": pinned_topics(settings),
            "accepts_replicas": may_hold & ~is_closed & ~_listed(settings, "exclude_brokers"),
            "accepts_leadership": may_hold & ~_listed(settings, "demote_brokers"),
            "must_empty": emptied_now(
                F.col("state").isin("draining", "dead") | _listed(settings, "drain_brokers"), settings
            ),
        }
    )


def with_log_dirs(brokers: DataFrame, log_dirs: DataFrame) -> DataFrame:
    """Brokers with their directories. A directory that has failed or is cordoned is not open.

    If a broker's only directory has no capacity of its own, it gets the broker's.
    """
    fields = (
        "log_dir AS path",
        "capacity_bytes",
        "used_bytes",
        "coalesce(logs, 0) AS logs",
        "error IS NULL AND NOT coalesce(is_cordoned, false) AS is_open",
    )
    entry = F.expr(f"struct({', '.join(fields)})")
    by_broker = log_dirs.groupBy(*RUN_BROKER).agg(F.array_sort(F.collect_list(entry)).alias("log_dirs"))
    broker_capacity = F.when(F.size("log_dirs") == 1, F.col("disk_capacity_bytes"))
    sized = F.transform(
        "log_dirs", lambda disk: disk.withField("capacity_bytes", F.coalesce(disk["capacity_bytes"], broker_capacity))
    )
    return brokers.join(by_broker, RUN_BROKER, "left").withColumn("log_dirs", sized)


def _listed(settings: Settings, name: str) -> Column:
    """Whether a broker is in this list of its cluster's policy."""
    lists = {cluster_id: policy.brokers(name) for cluster_id, policy in settings.cluster_policies().items()}
    conditions = [(F.col("cluster_id") == c) & F.col("broker_id").isin(*ids) for c, ids in lists.items() if ids]
    return reduce(Column.__or__, conditions, F.lit(False))


def plan_partitions(inputs: Frames, brokers: DataFrame, settings: Settings) -> DataFrame:
    """Partitions with ordered replicas, and whether they may move.

    A partition in flight is fixed: the plan uses the replicas that its reassignment ends with. ``_fixed`` lists the
    other reasons. Without a leader or an in-sync replica Kafka can copy nothing, and its tool refuses a list that names
    a fenced broker.

    Fixed and excluded partitions keep their replication factor. A partition also keeps it if too few brokers can hold
    the requested replicas, or if the requested factor is below min.insync.replicas.

    Parameters
    ----------
    inputs : mapping
        ``replicas``, ``topics`` and ``partition_load``.
    brokers : DataFrame
        Rows of ``instance_brokers``.
    """
    is_fenced = F.expr("state = 'fenced' AND NOT must_empty").alias("is_fenced")
    down = brokers.where("state IN ('fenced', 'dead')").select(*RUN_BROKER, "state", is_fenced)
    with_states = inputs["replicas"].join(F.broadcast(down), RUN_BROKER, "left")
    entry = F.struct("position", "broker_id", F.coalesce("log_dir", F.lit("any")).alias("log_dir"))
    target = F.array_sort(F.collect_list(F.when(~F.col("is_removing"), entry)))
    gathered = with_states.groupBy(*RUN_PARTITION).agg(
        target.alias("target"),
        F.max(F.when(F.col("is_leader"), F.col("broker_id"))).alias("leader"),
        F.array_sort(F.collect_list(F.when(F.col("in_sync"), F.col("broker_id")))).alias("isr"),
        F.max(F.col("is_adding") | F.col("is_removing")).alias("in_flight"),
        F.array_sort(F.collect_list(entry)).alias("whole_list"),
        F.array_sort(F.collect_list(F.when(F.col("is_adding"), F.col("broker_id")))).alias("added"),
        F.when(
            F.max("in_elr").isNotNull(), F.array_sort(F.collect_list(F.when(F.col("in_elr"), F.col("broker_id"))))
        ).alias("elr"),
        F.min(F.when(F.col("is_fenced") & ~F.col("is_removing"), F.col("broker_id"))).alias("fenced_on"),
        F.min(F.expr("IF(is_adding AND state IS NOT NULL, struct(broker_id, state), NULL)")).alias("moving_to"),
    )
    mobility = F.when(F.col("fixed_cause").isNull(), "free").when(
        F.col("fixed_cause") == Cause.TOPIC_EXCLUDED.value, "forced_only"
    )
    targets = {
        "replicas": F.col("target.broker_id"),
        "log_dirs": F.col("target.log_dir"),
        "controller_replicas": F.when(F.col("in_flight"), F.col("whole_list.broker_id")),
        "adding_replicas": F.when(F.col("in_flight"), F.col("added")),
    }
    factor, current = F.col("replication_factor"), F.size("replicas")
    planned = (
        gathered.withColumns(targets)
        .transform(with_requested_factor, inputs["topics"], settings)
        .transform(with_pins, brokers, settings)
        .join(inputs["partition_load"], RUN_PARTITION, "left")
        .join(inputs["topics"].select(*_TOPIC_COLUMNS), ["cluster_id", "topic"], "left")
        .withColumns(refused_factor())
        .withColumn(
            "replication_factor", F.when(F.col("factor_cause").isNull(), F.col("requested_factor")).otherwise(current)
        )
        .withColumn("fixed", _fixed(settings))
        .withColumns({"fixed_cause": F.col("fixed.cause"), "fixed_reason": F.col("fixed.reason")})
        .withColumn("mobility", mobility.otherwise("fixed"))
        .transform(with_only, brokers, settings)
        .withColumn("replication_factor", F.when(F.col("mobility") == "free", factor).otherwise(current))
    )
    return with_topic_most(planned, brokers, settings)


def _fixed(settings: Settings) -> Column:
    """``cause`` (code) and ``reason`` (words) of the first cause why a partition is not free; null if it is free."""
    is_short = F.col("pinned_brokers").isNotNull() & (F.col("usable_brokers") < F.col("replication_factor"))
    usable, needed = plural("usable_brokers", "broker"), plural("replication_factor", "replica")
    pin_allows = F.expr(f"concat('its pin allows only ', {usable} , ' for ', {needed})")
    on_fenced = F.format_string("a replica on fenced broker %d", "fenced_on")
    cannot_end = F.expr(
        "format_string('its reassignment cannot end: broker %d is %s', moving_to.broker_id, moving_to.state)"
    )
    own_rule = F.lit(f"placed by its own rule {PLACEMENT_RULE}")
    return first_cause(
        (
            (F.col("in_flight") & F.col("moving_to").isNotNull(), Cause.MOVE_CANNOT_END, cannot_end),
            (F.col("in_flight"), Cause.IN_FLIGHT, F.lit("its reassignment is still running")),
            (F.col("leader").isNull(), Cause.LEADERLESS, F.lit("leaderless")),
            (F.size("isr") == 0, Cause.NO_IN_SYNC_REPLICA, F.lit("no in-sync replica")),
            (F.col("fenced_on").isNotNull(), Cause.ON_FENCED_BROKER, on_fenced),
            (is_short, Cause.PIN_TOO_SMALL, pin_allows),
            (F.col("configs").contains(PLACEMENT_RULE), Cause.OWN_PLACEMENT_RULE, own_rule),
            (is_excluded(settings.policy), Cause.TOPIC_EXCLUDED, F.lit("topic excluded")),
        )
    )
