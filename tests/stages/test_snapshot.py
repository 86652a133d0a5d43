"""Snapshot: the policy applied to brokers and partitions."""

import math
import re
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from optimizer.domain import Cause
from optimizer.errors import ConfigError
from optimizer.settings import Policy
from optimizer.stages.snapshot import snapshot
from optimizer.stages.stage import Frames
from optimizer.topic_policy import Pin, TopicFactor
from tests.stages import bronze
from tests.stages.tables import table

BROKER = {"host": None, "port": None, "is_controller": False, "closed_cause": None, "closed_reason": None}
LIMITS = {"disk_capacity_bytes": 900, "in_capacity_bytes_per_s": None, "out_capacity_bytes_per_s": None}
# Broker 4 is fenced, 5 holds nothing, 9 is dead.
STATES = {1: "alive", 2: "alive", 3: "alive", 4: "fenced", 5: "alive", 9: "dead"}


def rows(spark: SparkSession, name: str, values: list[dict[str, Any]]) -> DataFrame:
    """Rows of a table of run r1, cluster c."""
    return table(spark, name, [{"cluster_id": "c", "run_id": "r1", **v} for v in values])


def replicas(topic: str, number: int, brokers: list[int], **more: Any) -> list[dict[str, Any]]:
    """Replicas of a partition; ``leader``, ``isr``, ``adding``, ``removing`` as lists of brokers."""
    leader, isr = more.get("leader", brokers[:1]), more.get("isr", brokers)
    return [
        {
            "topic": topic,
            "partition": number,
            "position": position,
            "broker_id": broker,
            "is_leader": broker in leader,
            "in_sync": broker in isr,
            "is_adding": broker in more.get("adding", []),
            "is_removing": broker in more.get("removing", []),
            "is_observer": broker in more["observers"] if "observers" in more else None,
            "log_dir": more.get("log_dir"),
            "size_bytes": None,
        }
        for position, broker in enumerate(brokers)
    ]


@pytest.fixture(scope="module")
def silver(spark: SparkSession) -> Frames:
    """Six brokers and a partition of every sort."""
    placed = [
        *replicas("orders", 0, [3, 1, 2], log_dir="/d"),
        *replicas("orders", 1, [4, 9, 1], leader=[1], adding=[4], removing=[1]),
        *replicas("orders", 2, [9], leader=[], isr=[]),
        *replicas("orders", 3, [2, 1], isr=[], observers=[2, 1]),
        *replicas("orders.keep", 0, [1, 2], observers=[]),
        *replicas("my.orders", 0, [1, 2]),
    ]
    keys = sorted({(row["topic"], row["partition"]) for row in placed})
    loads = [
        {"topic": t, "partition": p, "size_bytes": 7, "in_bytes_per_s": 1, "out_bytes_per_s": 2, "samples": 1}
        | {"size_source": "log_dirs", "rate_source": "metric"}
        for t, p in keys
    ]
    facts = {"topic_id": None, "partitions": 1, "replication_factor": 3, "is_internal": False, "configs": None}
    topics = [{"topic": t, "min_insync_replicas": 2, **facts} for t in ("orders", "my.orders")]
    dirs = [
        {"broker_id": 1, "log_dir": path, "used_bytes": 5, "capacity_bytes": 9, "error": None, "logs": 1}
        for path in "db"
    ]
    brokers = [{"broker_id": b, "rack": f"r{b}", "state": state, **BROKER, **LIMITS} for b, state in STATES.items()]
    return {
        "replicas": rows(spark, "replicas", placed),
        "partition_load": rows(spark, "partition_load", loads),
        "topics": rows(spark, "topics", topics),
        "brokers": rows(spark, "brokers", brokers),
        "log_dirs": rows(spark, "log_dirs", dirs),
    }


def built(spark: SparkSession, silver: Frames, **policy: Any) -> tuple[dict[Any, Any], dict[int, Any]]:
    """Rows of instance by topic and partition, and of instance_brokers by broker."""
    run = bronze.run_of(spark, bronze.settings_of(["c"], policy=Policy(**policy)))
    frames = snapshot.build(silver, run)
    instance = {(row.topic, row.partition): row for row in frames["instance"].collect()}
    return instance, {row.broker_id: row for row in frames["instance_brokers"].collect()}


def test_partitions_keep_their_order_and_say_why_they_are_fixed(spark: SparkSession, silver: Frames) -> None:
    """Order is kept, a reassignment in flight shows its target, and what can't be copied is fixed with its reason."""
    instance, _ = built(spark, silver, exclude_topics=("orders[.].*", "never"))
    shown = {key: (list(row.replicas), row.mobility, row.fixed_reason) for key, row in instance.items()}
    assert shown == {
        ("orders", 0): ([3, 1, 2], "free", None),
        ("orders", 1): ([4, 9], "fixed", "its reassignment cannot end: broker 4 is fenced"),
        ("orders", 2): ([9], "fixed", "leaderless"),
        ("orders", 3): ([2, 1], "fixed", "no in-sync replica"),
        ("orders.keep", 0): ([1, 2], "forced_only", "topic excluded"),
        ("my.orders", 0): ([1, 2], "free", None),
    }
    assert {key: row.fixed_cause for key, row in instance.items() if row.fixed_cause} == {
        ("orders", 1): Cause.MOVE_CANNOT_END,
        ("orders", 2): Cause.LEADERLESS,
        ("orders", 3): Cause.NO_IN_SYNC_REPLICA,
        ("orders.keep", 0): Cause.TOPIC_EXCLUDED,
    }
    first = instance["orders", 0]
    assert (first.leader, list(first.isr), list(first.log_dirs), first.replication_factor) == (
        3,
        [1, 2, 3],
        ["/d"] * 3,
        3,
    )
    assert (instance["orders", 1].leader, list(instance["orders", 3].log_dirs)) == (1, ["any", "any"])
    observers = {key: row.observers for key, row in instance.items() if row.observers is not None}
    assert observers == {("orders", 3): [1, 2], ("orders.keep", 0): []}
    assert (first.size_bytes, first.in_bytes_per_s, first.out_bytes_per_s) == (7, 1, 2)


def test_topics_that_are_not_named_count_as_excluded(spark: SparkSession, silver: Frames) -> None:
    """With ``topics``, every other topic only leaves brokers to empty; ``exclude_topics`` still wins; factors stay."""
    policy = {"topics": ("orders.*", "x"), "exclude_topics": ("orders[.].*",)}
    factors = (TopicFactor(topics="(my|orders)[.].*", factor=3), TopicFactor(topics="orders", factor=2))
    instance, _ = built(spark, silver, replication_factors=factors, **policy)
    free = {key: (row.mobility, row.fixed_cause, row.replication_factor) for key, row in instance.items()}
    assert free["orders", 0] == ("free", None, 2)
    assert free["orders.keep", 0] == ("forced_only", Cause.TOPIC_EXCLUDED, 2)
    assert free["my.orders", 0] == ("forced_only", Cause.TOPIC_EXCLUDED, 2)


def test_a_topic_that_is_placed_by_its_own_rule_stays(spark: SparkSession, silver: Frames) -> None:
    """Confluent's placement constraints are a rack rule that the plan does not know: the topic is left alone."""
    rule = F.lit('retention.ms=1,confluent.placement.constraints={"version":1}')
    topics = silver["topics"].withColumn("configs", F.when(F.col("topic") == "my.orders", rule))
    instance, _ = built(spark, {**silver, "topics": topics})
    fixed = {key: row.fixed_reason for key, row in instance.items() if row.mobility == "fixed" and key[0] != "orders"}
    assert fixed == {("my.orders", 0): "placed by its own rule confluent.placement.constraints"}
    assert instance["my.orders", 0].fixed_cause == Cause.OWN_PLACEMENT_RULE


def test_a_broker_in_trouble_receives_no_replica(spark: SparkSession, silver: Frames) -> None:
    """One that lives but is closed keeps its replicas and may lead."""
    brokers = silver["brokers"].withColumn("closed_cause", F.when(F.col("broker_id") == 2, F.lit("cordoned")))
    _, planned = built(spark, {**silver, "brokers": brokers})
    accepting = {b: (row.accepts_replicas, row.accepts_leadership, row.must_empty) for b, row in planned.items()}
    assert accepting[2] == (False, True, False)
    assert accepting[1] == (True, True, False)


def test_brokers_follow_the_policy(spark: SparkSession, silver: Frames) -> None:
    """States, and who accepts what: drained and dead brokers must empty, excluded ones may still lead."""
    _, brokers = built(spark, silver, drain_brokers=(3,), exclude_brokers=(2,), demote_brokers=(1,))
    shown = {b: (row.state, row.accepts_replicas, row.accepts_leadership, row.must_empty) for b, row in brokers.items()}
    assert shown == {
        1: ("alive", True, False, False),
        2: ("alive", False, True, False),
        3: ("draining", False, False, True),
        4: ("fenced", False, False, False),
        5: ("new", True, True, False),
        9: ("dead", False, False, True),
    }
    assert {row.rack for row in brokers.values()} == {f"r{b}" for b in STATES}


def test_topics_are_given_their_most_by_broker(spark: SparkSession, silver: Frames) -> None:
    """Shares of the brokers that may hold replicas, times the spread, rounded up; a pinned topic has none."""
    pins = (Pin(topics="my.*", brokers=(1, 2, 3)),)
    instance, _ = built(spark, silver, topic_spread=1.2, pins=pins)
    shown = {key[0]: row.topic_most_replicas for key, row in instance.items()}
    # Brokers 1, 2, 3 and 5 are left, in racks of their own: orders has 3 + 2 + 1 + 2 replicas, 1.2 times 2 a broker.
    assert shown == {"orders": 3, "orders.keep": 1, "my.orders": None}
    factors = (TopicFactor(topics="orders", factor=4),)
    instance, _ = built(spark, silver, topic_spread=1.0, replication_factors=factors, drain_brokers=(5,))
    assert instance["orders", 0].topic_most_replicas == 3  # 4 brokers are too few for 4: it keeps 3 + 2 + 1 + 2 on 3
    assert {row.topic_most_replicas for row in built(spark, silver)[0].values()} == {None}


def test_topics_are_given_their_most_leaders_by_broker(spark: SparkSession, silver: Frames) -> None:
    """Partitions over the brokers that may lead, times the spread, rounded up; no spread of replicas is set."""
    pins = (Pin(topics="my.*", brokers=(1, 2, 3)),)
    instance, _ = built(spark, silver, topic_leader_spread=1.5, demote_brokers=(5,), pins=pins)
    count = sum(key[0] == "orders" for key in instance)
    assert {key[0]: row.topic_most_leaders for key, row in instance.items()} == {
        "orders": math.ceil(1.5 * count / 3),
        "orders.keep": 1,
        "my.orders": None,
    }
    assert {row.topic_most_replicas for row in instance.values()} == {None}


@pytest.mark.parametrize(
    ("adding", "removing", "cause", "reason"),
    [
        (3, 1, Cause.IN_FLIGHT, "its reassignment is still running"),
        (4, 1, Cause.MOVE_CANNOT_END, "its reassignment cannot end: broker 4 is fenced"),
        (9, 1, Cause.MOVE_CANNOT_END, "its reassignment cannot end: broker 9 is dead"),
        (3, 9, Cause.IN_FLIGHT, "its reassignment is still running"),
    ],
)
def test_a_move_to_a_broker_that_is_down_has_a_cause_of_its_own(
    spark: SparkSession, silver: Frames, adding: int, removing: int, cause: Cause, reason: str
) -> None:
    """No waiting ends it; one away from a broker that is down does end."""
    moving = replicas("orders", 0, [adding, 2, removing], leader=[2], isr=[2], adding=[adding], removing=[removing])
    instance, _ = built(spark, {**silver, "replicas": rows(spark, "replicas", moving)}, drain_brokers=(4,))
    assert (instance["orders", 0].fixed_cause, instance["orders", 0].fixed_reason) == (cause, reason)


@pytest.mark.parametrize(
    ("drained", "mobility", "reason", "must_empty"),
    [((), "fixed", "a replica on fenced broker 4", False), ((4,), "free", None, True)],
)
def test_a_fenced_broker_keeps_its_replicas_unless_it_is_drained(
    spark: SparkSession, silver: Frames, drained: tuple[int, ...], mobility: str, reason: str | None, must_empty: bool
) -> None:
    """Kafka refuses lists that name a broker which is not live: its partitions stay, or leave it when it is drained."""
    placed = rows(spark, "replicas", replicas("my.orders", 0, [1, 4, 2], isr=[1, 2]))
    instance, brokers = built(spark, {**silver, "replicas": placed}, drain_brokers=drained)
    assert (instance["my.orders", 0].mobility, instance["my.orders", 0].fixed_reason) == (mobility, reason)
    assert instance["my.orders", 0].fixed_cause == (reason and Cause.ON_FENCED_BROKER)
    assert (brokers[4].state, brokers[4].accepts_replicas, brokers[4].must_empty) == ("fenced", False, must_empty)


def test_pins_are_kept_with_partitions_and_brokers(spark: SparkSession, silver: Frames) -> None:
    """Each partition has the brokers that all its pins name, also where racks are ignored; too few of them fix it."""
    pins = (Pin(topics=".*orders", racks=("r1", "r2", "r3", "r9")), Pin(topics="my.*", brokers=(2, 3, 4)))
    instance, brokers = built(spark, silver, pins=pins, rack_policy="none", exclude_brokers=(2,), drain_brokers=(1,))
    assert {b: list(row.pinned_topics) for b, row in brokers.items()} == {
        1: [".*orders"], 2: [".*orders", "my.*"], 3: [".*orders", "my.*"], 4: ["my.*"], 5: [], 9: [".*orders"]
    }  # fmt: skip
    shown = {key: (row.pinned_brokers, row.mobility, row.fixed_reason) for key, row in instance.items()}

    assert instance["orders", 0].fixed_cause == Cause.PIN_TOO_SMALL
    assert shown["my.orders", 0] == ([2, 3], "free", None)
    assert shown["orders", 0] == ([1, 2, 3, 9], "fixed", "its pin allows only 2 brokers for 3 replicas")
    assert shown["orders", 1] == ([1, 2, 3, 9], "fixed", "its reassignment cannot end: broker 4 is fenced")
    assert shown["orders.keep", 0] == (None, "free", None)


def test_replication_factors_are_requested_by_topic(spark: SparkSession, silver: Frames) -> None:
    """Free partitions get the factor of their pattern; fixed and excluded ones, and what can't have it, keep theirs."""
    factors = (TopicFactor(topics="orders", factor=2), TopicFactor(topics="(my[.].*|orders[.]keep)", factor=3))
    shown = {
        key: (row.replication_factor, row.mobility, row.fixed_reason)
        for key, row in built(spark, silver, replication_factors=factors, exclude_topics=("orders[.]keep",))[0].items()
    }
    assert shown == {
        ("orders", 0): (2, "free", None),
        ("orders", 1): (2, "fixed", "its reassignment cannot end: broker 4 is fenced"),
        ("orders", 2): (1, "fixed", "leaderless"),
        ("orders", 3): (2, "fixed", "no in-sync replica"),
        ("orders.keep", 0): (2, "forced_only", "topic excluded"),
        ("my.orders", 0): (3, "free", None),
    }


@pytest.mark.parametrize(
    ("topic", "factor", "policy", "reason"),
    [
        ("orders", 1, {}, "1 replica requested, but min.insync.replicas is 2"),
        ("orders", 4, {}, None),
        ("orders", 5, {}, "5 replicas requested, but only 4 brokers can hold them"),
        ("orders", 4, {"exclude_brokers": (2,)}, None),
        ("orders", 4, {"exclude_brokers": (5,)}, "4 replicas requested, but only 3 brokers can hold them"),
        ("orders", 2, {"drain_brokers": (1, 2, 5)}, None),
        ("orders", 4, {"pins": (Pin(topics="orders", brokers=(1, 2, 3, 4)),)}, "4 .* only 3 brokers can hold them"),
        ("my.orders", 3, {"pins": (Pin(topics="my.*", brokers=(1, 2)),)}, "3 .* only 2 brokers can hold them"),
        ("orders.keep", 1, {}, None),
    ],
)
def test_a_factor_that_cannot_be_had_leaves_the_partitions_theirs(
    spark: SparkSession, silver: Frames, topic: str, factor: int, policy: dict[str, Any], reason: str | None
) -> None:
    """Too few brokers, or fewer replicas than must be in sync: the list keeps its length and says why; it may move."""
    factors = (TopicFactor(topics=topic, factor=factor),)
    row = built(spark, silver, replication_factors=factors, **policy)[0][topic, 0]
    assert row.mobility == "free"
    assert row.replication_factor == (factor if reason is None else len(row.replicas))
    assert re.fullmatch(reason or "None", str(row.factor_refused))
    cause = "under_min_in_sync" if "min.insync" in (reason or "") else "too_few_brokers"
    assert row.factor_cause == (None if reason is None else cause)


@pytest.mark.parametrize(
    ("brokers", "drained", "reason"),
    [
        ([1, 9, 2], (2, 3, 5), None),
        ([1, 9, 4], (2, 3, 4, 5), "2 replicas requested, but only 1 broker can hold them"),
        ([1, 9, 4], (2, 3, 4), None),
    ],
)
def test_a_shorter_list_needs_brokers_that_live(
    spark: SparkSession, silver: Frames, brokers: list[int], drained: tuple[int, ...], reason: str | None
) -> None:
    """It may keep a broker that is to be emptied, but not one that is dead or fenced: Kafka's tool would refuse it."""
    silver = {**silver, "replicas": rows(spark, "replicas", replicas("my.orders", 0, brokers))}
    factors = (TopicFactor(topics="my.orders", factor=2),)
    row = built(spark, silver, replication_factors=factors, drain_brokers=drained)[0]["my.orders", 0]
    assert (row.mobility, row.factor_refused) == ("free", reason)
    assert row.replication_factor == (2 if reason is None else 3)


@pytest.mark.parametrize(("factor", "needed"), [(3, 3), (2, 3), (1, None)])
def test_a_pin_that_leaves_too_few_brokers_for_the_factor(
    spark: SparkSession, silver: Frames, factor: int, needed: int | None
) -> None:
    """A pin with too few brokers for the requested factor fixes the topic; with a smaller factor it moves inside."""
    pins, factors = (Pin(topics="my.*", brokers=(3, 4)),), (TopicFactor(topics="my.*", factor=factor),)
    silver = {
        **silver,
        "replicas": rows(spark, "replicas", replicas("my.orders", 0, [1, 2, 5])),
        "topics": silver["topics"].limit(0),
    }
    row = built(spark, silver, pins=pins, replication_factors=factors)[0]["my.orders", 0]
    reason = None if needed is None else f"its pin allows only 1 broker for {needed} replicas"
    assert (row.fixed_reason, row.replication_factor) == (reason, needed or factor)


# Under each ``only``: mobility of (1, 2, 3) in three racks, of (1, 9) with a dead broker, of (1, 6) in one rack, of an
# excluded topic, and of what is in flight; then who must empty.
ONLY = [
    ("drain", ["forced_only", "forced_only", "forced_only", "forced_only", "fixed"], {2, 9}),
    ("racks", ["fixed", "fixed", "racks_only", "fixed", "fixed"], {9}),
    ("leaders", ["order_only", "order_only", "order_only", "fixed", "fixed"], set()),
    ("demote", ["fixed", "order_only", "order_only", "fixed", "fixed"], set()),
]


@pytest.mark.parametrize(("only", "mobility", "must_empty"), ONLY)
def test_only_decides_what_may_happen_to_a_partition(
    spark: SparkSession, silver: Frames, only: str, mobility: list[str], must_empty: set[int]
) -> None:
    """A drain moves replicas off brokers to empty, racks what breaks their rule, the others only the order, a demotion
    that of the broker's own; brokers that are not emptied now take nothing all the same, and factors wait."""
    placed = [
        *replicas("orders", 0, [3, 1, 2]),
        *replicas("orders", 1, [1, 9], leader=[1], isr=[1]),
        *replicas("orders", 2, [1, 6]),
        *replicas("orders.keep", 0, [1, 6]),
        *replicas("orders", 3, [1, 2], adding=[2]),
    ]
    six = {"broker_id": 6, "rack": "r1", "state": "alive", **BROKER, **LIMITS}
    loads = [row.asDict() | {"topic": t, "partition": p} for (t, p), row in zip(
        [("orders", 0), ("orders", 1), ("orders", 2), ("orders.keep", 0), ("orders", 3)],
        silver["partition_load"].collect(), strict=False)]  # fmt: skip
    cluster = {
        **silver,
        "replicas": rows(spark, "replicas", placed),
        "brokers": silver["brokers"].unionByName(rows(spark, "brokers", [six])),
        "partition_load": rows(spark, "partition_load", loads),
    }
    factors = (TopicFactor(topics="orders", factor=1),)  # fewer than must be in sync
    policy = {"drain_brokers": (2,), "demote_brokers": (1,), "exclude_topics": ("orders[.]keep",)}
    instance, brokers = built(spark, cluster, only=only, replication_factors=factors, **policy)
    keys = [("orders", 0), ("orders", 1), ("orders", 2), ("orders.keep", 0), ("orders", 3)]
    assert [instance[key].mobility for key in keys] == mobility
    assert {b for b, row in brokers.items() if row.must_empty} == must_empty
    assert not brokers[2].accepts_replicas
    assert not brokers[2].accepts_leadership
    reasons = [instance[key].fixed_reason for key in keys]
    assert reasons == ["excluded by only"] * 3 + ["topic excluded", "its reassignment is still running"]
    assert [instance[key].fixed_cause for key in keys] == ["only"] * 3 + ["topic_excluded", "in_flight"]
    assert all(row.replication_factor == len(row.replicas) for row in instance.values())
    assert {(row.factor_cause, row.factor_refused) for row in instance.values()} == {(None, None)}


@pytest.mark.parametrize(("state", "refused"), [("state", set()), ("'alive'", {"c"})])
def test_a_drain_alone_needs_a_broker_to_empty(
    spark: SparkSession, silver: Frames, state: str, refused: set[str]
) -> None:
    """Where nothing is drained or dead the list was most likely forgotten; one dead broker is enough."""
    run = bronze.run_of(spark, bronze.settings_of(["c"], policy=Policy(only="drain")))
    inputs = {**silver, "brokers": silver["brokers"].withColumn("state", F.expr(state))}
    errors = snapshot.gate({**inputs, **snapshot.build(inputs, run)}, run)
    assert set(errors) == refused
    assert all("is dead or to be emptied: name some by --drain" in str(error) for error in errors.values())


def test_racks_that_are_ignored_are_left_out(spark: SparkSession, silver: Frames) -> None:
    """Under rack_policy none no broker has a rack."""
    _, brokers = built(spark, silver, rack_policy="none")
    assert {row.rack for row in brokers.values()} == {None}


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            {"drain_brokers": (1, 77)},
            r"drain_brokers names \[77\], which cluster c does not have; known are \[1, 2, 3, 4, 5, 9\]",
        ),
        ({"exclude_brokers": (-1,)}, r"exclude_brokers names \[-1\]"),
        ({"demote_brokers": (6,)}, r"demote_brokers names \[6\]"),
        (
            {"pins": (Pin(topics="orders", brokers=(1, 8)),)},
            r"the pin of 'orders' names brokers \[8\], which cluster c does not have; known are \[1, 2, 3, 4, 5, 9\]",
        ),
        (
            {"pins": (Pin(topics="orders", racks=("r1", "R2")),)},
            r"the pin of 'orders' names racks \['R2'\], which cluster c does not have; known are \['r1', 'r2', .*\]",
        ),
        (
            {"replication_factors": (TopicFactor(topics="orders.*", factor=2), TopicFactor(topics=".*keep", factor=3))},
            r"orders.keep of cluster c: 2 by 'orders\.\*', 3 by '\.\*keep'; let only one pattern match the topic",
        ),
        ({"drain_brokers": (1, 2), "exclude_brokers": (3, 5)}, r"no broker of \['c'\] may hold replicas"),
    ],
)
def test_a_policy_that_cannot_be_met_is_refused(
    spark: SparkSession, silver: Frames, policy: dict[str, Any], message: str
) -> None:
    """Unknown brokers are named with the known ones, and a cluster keeps a broker that may hold replicas."""
    run = bronze.run_of(spark, bronze.settings_of(["c"], policy=Policy(**policy)))
    refused = snapshot.gate({**silver, **snapshot.build(silver, run)}, run)
    assert {name: type(error) for name, error in refused.items()} == {"c": ConfigError}
    assert re.search(message, str(refused["c"]))


def test_a_policy_that_can_be_met_is_let_through(spark: SparkSession, silver: Frames) -> None:
    """Lists, pins and factors that name what the cluster has refuse nobody."""
    factors = (TopicFactor(topics="orders.*", factor=2),)
    policy = Policy(drain_brokers=(1,), pins=(Pin(topics="orders", brokers=(2, 3)),), replication_factors=factors)
    run = bronze.run_of(spark, bronze.settings_of(["c"], policy=policy))
    assert snapshot.gate({**silver, **snapshot.build(silver, run)}, run) == {}
