"""The rules of a policy for one cluster: facts and settings become rows of ``instance`` and ``instance_brokers``."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from optimizer.domain import Cause
from optimizer.errors import ConfigError
from optimizer.planning.in_memory import records
from optimizer.planning.policy.all_rules import instance_of
from tests.asking.small_run import BROKERS, CLUSTER, Row, broker, make_facts, partition
from tests.planning.scalar_rules import Rules, host_of

RULE = '{"confluent.placement.constraints":"{}"}'
STUCK = "out of sync: Kafka would not end a reassignment that keeps"
FLIGHT: Mapping[str, Any] = {"controller_replicas": [1, 3, 2], "adding_replicas": [5]}


def _decide(
    brokers: Sequence[Row], partitions: Sequence[Row], **policy: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    facts = make_facts(brokers, partitions, policy=policy)
    instance, hosts = instance_of(facts.partitions, facts.brokers, facts.settings, CLUSTER)
    return records(instance), records(hosts)


def _states(**states: str) -> list[Row]:
    """The six brokers; some with another state, such as b5="dead"."""
    return [{**row, "state": states.get(f"b{row['broker_id']}", row["state"])} for row in BROKERS]


@pytest.mark.parametrize(
    ("facts", "policy", "expected"),
    [
        # state, accepts_replicas, accepts_leadership, must_empty
        ({}, {}, ("alive", True, True, False)),
        ({"holds": False}, {}, ("new", True, True, False)),
        ({}, {"drain_brokers": [1]}, ("draining", False, False, True)),
        ({"holds": False}, {"drain_brokers": [1]}, ("draining", False, False, True)),
        ({"state": "fenced"}, {}, ("fenced", False, False, False)),
        ({"state": "fenced"}, {"drain_brokers": [1]}, ("fenced", False, False, True)),
        ({"state": "dead"}, {}, ("dead", False, False, True)),
        ({}, {"exclude_brokers": [1]}, ("alive", False, True, False)),
        ({}, {"demote_brokers": [1]}, ("alive", True, False, False)),
        ({"closed_cause": "cordoned"}, {}, ("alive", False, True, False)),
        ({}, {"drain_brokers": [1], "only": "drain"}, ("draining", False, False, True)),
        ({}, {"drain_brokers": [1], "only": "racks"}, ("draining", False, False, False)),
        ({}, {"drain_brokers": [1], "only": "leaders"}, ("draining", False, False, False)),
        ({"state": "dead"}, {"only": "racks"}, ("dead", False, False, True)),
        ({"state": "dead"}, {"only": "leaders"}, ("dead", False, False, False)),
    ],
)
def test_brokers(facts: Row, policy: Mapping[str, Any], expected: tuple[Any, ...]) -> None:
    """What a broker accepts depends on its state, its trouble and the lists of the policy."""
    _, [host, *_] = _decide([{**BROKERS[0], **facts}, *BROKERS[1:]], [partition("t", 0, [3, 5])], **policy)
    names = ("state", "accepts_replicas", "accepts_leadership", "must_empty")
    assert tuple(host[name] for name in names) == expected


@pytest.mark.parametrize(
    ("states", "facts", "policy", "cause", "reason"),
    [
        ({}, {}, {}, None, None),
        ({}, {"controller_replicas": [1, 3, 2]}, {}, "in_flight", "its reassignment is still running"),
        ({"b5": "dead"}, FLIGHT, {}, "move_cannot_end", "its reassignment cannot end: broker 5 is dead"),
        (
            {"b5": "fenced"},
            {**FLIGHT, "leader": None},
            {},
            "move_cannot_end",
            "its reassignment cannot end: broker 5 is fenced",
        ),
        ({}, {**FLIGHT, "leader": None}, {}, "in_flight", "its reassignment is still running"),
        ({"b5": "fenced"}, {"adding_replicas": [5]}, {}, "on_fenced_broker", "a replica on fenced broker 5"),
        ({"b5": "fenced"}, {"leader": None, "isr": []}, {}, "leaderless", "leaderless"),
        ({"b5": "fenced"}, {"isr": []}, {}, "no_in_sync_replica", "no in-sync replica"),
        ({"b3": "fenced", "b5": "fenced"}, {"configs": RULE}, {}, "on_fenced_broker", "a replica on fenced broker 3"),
        ({"b5": "fenced"}, {}, {"drain_brokers": [5]}, None, None),
        ({"b5": "dead"}, {}, {}, None, None),
        (
            {},
            {"configs": RULE},
            {"pins": [{"topics": "t", "brokers": [1, 3]}]},
            "pin_too_small",
            "its pin allows only 2 brokers for 3 replicas",
        ),
        (
            {},
            {},
            {"pins": [{"topics": "t", "racks": ["a"]}, {"topics": "t.*", "brokers": [1, 3, 5]}]},
            "pin_too_small",
            "its pin allows only 1 broker for 3 replicas",
        ),
        (
            {},
            {"configs": RULE},
            {"exclude_topics": ["t"]},
            "own_placement_rule",
            "placed by its own rule confluent.placement.constraints",
        ),
        ({}, {"observers": [5]}, {}, "own_placement_rule", "it has observers, which Kafka's tools cannot name"),
        ({}, {"isr": [1, 3]}, {}, "out_of_sync", f"broker 5 is {STUCK} it"),
        ({}, {"isr": [1]}, {}, "out_of_sync", f"brokers 3, 5 are {STUCK} them"),
        ({}, {"isr": [1, 3]}, {"drain_brokers": [5]}, None, None),
        ({}, {"isr": [1, 3]}, {"drain_brokers": [1]}, "out_of_sync", f"broker 5 is {STUCK} it"),
        ({"b5": "dead"}, {"isr": [1, 3]}, {}, None, None),
        ({}, {"isr": [1, 3]}, {"pins": [{"topics": "t", "brokers": [1, 2, 3]}]}, None, None),
        ({}, {"isr": [1, 3]}, {"replication_factors": [{"topics": "t", "factor": 2}]}, None, None),
        (
            *({}, {"isr": [1]}, {"replication_factors": [{"topics": "t", "factor": 2}]}),
            *("out_of_sync", f"brokers 3, 5 are {STUCK} them"),
        ),
        ({}, {"isr": [1, 3]}, {"exclude_topics": ["t"]}, "topic_excluded", "topic excluded"),
        (
            *({}, {"isr": [1, 3]}, {"exclude_topics": ["t"], "drain_brokers": [1]}),
            *("out_of_sync", f"broker 5 is {STUCK} it"),
        ),
        ({}, {"isr": [1, 3]}, {"only": "leaders"}, "only", "excluded by only"),
        ({}, {}, {"exclude_topics": ["t"]}, "topic_excluded", "topic excluded"),
        ({}, {}, {"topics": ["tt"]}, "topic_excluded", "topic excluded"),
        ({}, {}, {"topics": ["t+"], "exclude_topics": ["tt"]}, None, None),
        ({}, {}, {"only": "leaders", "exclude_topics": ["t"]}, "topic_excluded", "topic excluded"),
        ({}, {}, {"only": "leaders"}, "only", "excluded by only"),
    ],
)
def test_causes(
    states: Mapping[str, str], facts: Row, policy: Mapping[str, Any], cause: str | None, reason: str | None
) -> None:
    """The first cause that is true says why a partition is not free."""
    [row], _ = _decide(_states(**states), [partition("t", 0, [1, 3, 5], **facts)], **policy)
    assert (row["fixed_cause"], row["fixed_reason"]) == (cause, reason)
    free = {None: "free", "topic_excluded": "fixed" if "only" in policy else "forced_only", "only": "order_only"}
    free |= {"out_of_sync": "fixed" if "exclude_topics" in policy else "order_only"}
    assert row["mobility"] == free.get(cause, "fixed")


@pytest.mark.parametrize(
    ("failed", "leader", "cause", "reason"),
    [
        ((1, 3), None, Cause.FAILED_DIRECTORY, "leaderless: failed directory /d/1 of broker 1"),
        ((3,), None, Cause.LEADERLESS, "leaderless"),
        ((5, 6), None, Cause.LEADERLESS, "leaderless"),
        ((1, 3), 1, None, None),
    ],
)
def test_a_partition_in_failed_directories_alone_names_one(
    failed: Sequence[int], leader: int | None, cause: Cause | None, reason: str | None
) -> None:
    """With path and broker. If a broker without a failed directory holds a replica, that broker may bring it back."""
    texts = {b: {"closed_cause": "failed_directory", "closed_reason": f"failed directory /d/{b}"} for b in failed}
    brokers = [{**row, **texts.get(row["broker_id"], {})} for row in BROKERS]
    [row], _ = _decide(brokers, [partition("t", 0, [3, 1], leader=leader)])
    assert (row["fixed_cause"], row["fixed_reason"]) == (cause, reason)


@pytest.mark.parametrize(
    ("factor", "facts", "policy", "expected"),
    [
        # replication_factor, factor_cause, factor_refused
        (3, {}, {}, (3, None, None)),
        (6, {}, {}, (6, None, None)),
        (1, {}, {}, (1, None, None)),
        (
            6,
            {},
            {"drain_brokers": [6]},
            (3, "too_few_brokers", "6 replicas requested, but only 5 brokers can hold them"),
        ),
        (6, {}, {"exclude_brokers": [1]}, (6, None, None)),
        (
            6,
            {},
            {"exclude_brokers": [2]},
            (3, "too_few_brokers", "6 replicas requested, but only 5 brokers can hold them"),
        ),
        (2, {"min_insync_replicas": 2}, {}, (2, None, None)),
        (
            1,
            {"min_insync_replicas": 2},
            {},
            (3, "under_min_in_sync", "1 replica requested, but min.insync.replicas is 2"),
        ),
        (4, {"min_insync_replicas": 5}, {}, (4, None, None)),
        # A list that gets shorter may keep living brokers that are to be emptied, unless it is pinned.
        (2, {}, {"drain_brokers": [1, 2, 3, 4, 5]}, (2, None, None)),
        (
            2,
            {},
            {"drain_brokers": [1, 3, 4, 5], "pins": [{"topics": "t", "brokers": [1, 2, 3]}]},
            (3, "too_few_brokers", "2 replicas requested, but only 1 broker can hold them"),
        ),
        (6, {}, {"exclude_topics": ["t"]}, (3, None, None)),
        (6, {"leader": None}, {}, (3, None, None)),
        (6, {}, {"only": "racks"}, (3, None, None)),
        (6, {}, {"only": "leaders", "exclude_brokers": [2]}, (3, None, None)),
    ],
)
def test_factors(factor: int, facts: Row, policy: Mapping[str, Any], expected: tuple[Any, ...]) -> None:
    """A requested factor is refused if too few brokers can hold it, or if it is below min.insync.replicas."""
    factors = [{"topics": "t", "factor": factor}, {"topics": "u.*", "factor": 9}]
    [row], _ = _decide(BROKERS, [partition("t", 0, [1, 3, 5], **facts)], **policy, replication_factors=factors)
    assert (row["replication_factor"], row["factor_cause"], row["factor_refused"]) == expected


ONLY = (  # list, and its mobility with only = racks, drain, leaders, demote (of broker 1)
    ([1, 3, 5], ("fixed", "forced_only", "order_only", "order_only")),
    ([3, 1, 5], ("fixed", "forced_only", "order_only", "fixed")),
    ([1, 2, 5], ("racks_only", "forced_only", "order_only", "order_only")),
    ([1, 2, 3, 5], ("fixed", "forced_only", "order_only", "order_only")),
    ([3, 4], ("racks_only", "forced_only", "order_only", "fixed")),
)


@pytest.mark.parametrize(("number", "only"), [*enumerate(("racks", "drain", "leaders", "demote"))])
def test_only(number: int, only: str) -> None:
    """Each kind lets only those partitions change that it is about, and only in its way."""
    rows = [partition("t", n, listed) for n, (listed, _) in enumerate(ONLY)]
    rows += [partition("excluded", 0, [1, 2]), partition("fixed", 0, [1, 2], leader=None)]
    policy = {"drain_brokers": [6], "demote_brokers": [1], "exclude_topics": ["excluded"]}
    decided, _ = _decide(BROKERS, rows, **policy, only=only)
    assert [row["mobility"] for row in decided] == [
        *(mobility[number] for _, mobility in ONLY),
        *("forced_only" if only == "drain" else "fixed", "fixed"),
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, [(None, None)] * 3),
        # Two partitions with three replicas each on six brokers: a fair share is 1.
        ({"topic_spread": 1.0}, [(1, None), (1, None), (None, None)]),
        ({"topic_spread": 1.5}, [(2, None), (2, None), (None, None)]),
        ({"topic_leader_spread": 1.0}, [(None, 1), (None, 1), (None, None)]),
        ({"topic_spread": 2.0, "topic_leader_spread": 4.0}, [(2, 2), (2, 2), (None, None)]),
        # One broker in rack a: it holds a replica of each partition.
        ({"topic_spread": 1.0, "exclude_brokers": [2]}, [(2, None), (2, None), (None, None)]),
        ({"topic_leader_spread": 1.0, "demote_brokers": [1, 2, 3, 4, 5, 6]}, [(None, None)] * 3),
    ],
)
def test_topic_limits(policy: Mapping[str, Any], expected: Sequence[tuple[int | None, int | None]]) -> None:
    """The limits are shares of the topic's replicas and leaders, rounded up; pinned topics have none."""
    rows = [partition("t", 0, [1, 3, 5]), partition("t", 1, [1, 3, 5]), partition("pinned", 0, [1, 3])]
    decided, _ = _decide(BROKERS, rows, **policy, pins=[{"topics": "pinned", "racks": ["a", "b"]}])
    assert [(row["topic_most_replicas"], row["topic_most_leaders"]) for row in decided] == expected


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            {"drain_brokers": [9, 1, 7]},
            "drain_brokers names [7, 9], which cluster orders does not have; known are [1, 2, 3",
        ),
        ({"exclude_brokers": [7]}, "exclude_brokers names [7], which cluster orders does not have"),
        ({"demote_brokers": [7]}, "demote_brokers names [7], which cluster orders does not have"),
        (
            {"pins": [{"topics": "t", "brokers": [1, 7]}]},
            "the pin of 't' names brokers [7], which cluster orders does not",
        ),
        (
            {"pins": [{"topics": "t", "racks": ["d"]}]},
            "the pin of 't' names racks ['d'], which cluster orders does not have; known are ['a', 'b', 'c']",
        ),
        (
            {"drain_brokers": [1, 2, 3, 4], "exclude_brokers": [5, 6]},
            "no broker of ['orders'] may hold replicas: every broker",
        ),
        ({"only": "drain"}, "only = 'drain': no broker of ['orders'] is dead or to be emptied: name some by --drain"),
        (
            {"replication_factors": [{"topics": "t", "factor": 2}, {"topics": ".*", "factor": 1}]},
            "patterns of replication_factors request different factors for the same topic: t of cluster orders: 2 by "
            "'t', 1 by '.*'; let only one pattern match the topic",
        ),
    ],
)
def test_refusals(policy: Mapping[str, Any], message: str) -> None:
    """A policy that no plan can meet is refused, with the remedy."""
    with pytest.raises(ConfigError) as error:
        _decide(BROKERS, [partition("t", 0, [1, 3, 5])], **policy)
    assert str(error.value).startswith(message)


def _random_brokers(draw: random.Random) -> list[Row]:
    racks = draw.choice(("abc", "ab", "aabc", [*"ab", None], [None]))
    states = draw.choices(("alive", "fenced", "dead"), (8, 1, 1), k=draw.randint(2, 8))
    closed = [draw.choice((None, None, None, None, "cordoned", "failed_directory")) for _ in states]
    return [
        broker(
            number, draw.choice(racks), state=state, closed_cause=cause, closed_reason=cause, holds=draw.random() < 0.8
        )
        for number, (state, cause) in enumerate(zip(states, closed, strict=True), start=1)
    ]


def _random_partition(draw: random.Random, topic: str, number: int, ids: Sequence[int], configs: str | None) -> Row:
    replicas = draw.sample(ids, draw.randint(1, min(4, len(ids))))
    values: dict[str, Any] = {
        "isr": sorted(draw.sample(replicas, draw.choice((len(replicas), draw.randint(0, len(replicas)))))),
        "leader": draw.choice((replicas[0], replicas[0], replicas[-1], None)),
        "min_insync_replicas": draw.choice((None, 1, 2, 3)),
    }
    if draw.random() < 0.1:
        values |= {"controller_replicas": draw.sample(ids, len(replicas))}
        values |= {"adding_replicas": draw.choice((None, [], draw.sample(replicas, 1), sorted(replicas)))}
    return partition(topic, number, replicas, configs=configs, **values)


def _random_policy(draw: random.Random, brokers: Sequence[Row]) -> dict[str, Any]:
    ids = [row["broker_id"] for row in brokers]
    racks = sorted({row["rack"] for row in brokers if row["rack"]})

    def some(most: int = 2) -> list[int]:
        return draw.sample(ids, draw.choice((0, 0, draw.randint(0, min(most, len(ids))))))

    pins: list[dict[str, Any]] = []
    for topics in draw.sample(("t", "t.*", "u", "[tu]+"), draw.choice((0, 0, 1, 2))):
        if racks and draw.random() < 0.5:
            pins.append({"topics": topics, "racks": draw.sample(racks, draw.randint(1, len(racks)))})
        else:
            pins.append({"topics": topics, "brokers": draw.sample(ids, draw.randint(1, len(ids)))})
    factor = draw.randint(1, 6)
    return {
        **{"drain_brokers": some(), "exclude_brokers": some(), "demote_brokers": some(len(ids)), "pins": pins},
        "replication_factors": draw.choice(
            ([], [{"topics": "t", "factor": factor}], [{"topics": t, "factor": factor} for t in ("t.*", "u")])
        ),
        "only": draw.choice(("", "", "", "racks", "drain", "leaders", "demote")),
        "exclude_topics": draw.choice(([], [], ["t"], ["t.+", "v"])),
        "topics": draw.choice(([], [], ["t.*"], ["u", "v"])),
        "rack_policy": draw.choice(("spread", "spread", "spread", "none")),
        "topic_spread": draw.choice((0.0, 1.0, 1.5, 2.25)),
        "topic_leader_spread": draw.choice((0.0, 1.0, 1.3)),
    }


@pytest.mark.parametrize("chunk", range(10))
def test_the_rules_decide_as_one_partition_at_a_time(chunk: int) -> None:
    """Three hundred random clusters and policies: a second, scalar implementation decides the same."""
    draw, decided_clusters = random.Random(chunk), 0
    while decided_clusters < 30:
        brokers = _random_brokers(draw)
        configs = {topic: draw.choice((None, None, "{}", RULE)) for topic in ("t", "tt", "u", "v")}
        ids = [row["broker_id"] for row in brokers]
        rows = [
            _random_partition(draw, topic, n, ids, configs[topic])
            for topic in configs
            for n in range(draw.randint(0, 4))
        ]  # fmt: skip
        policy, version = _random_policy(draw, brokers), draw.choice(("", "3.9", "4.3"))
        try:
            facts = make_facts(
                brokers, rows or [partition("t", 0, ids[:1])], policy=policy, cluster={"kafka_version": version}
            )
            instance, hosts = instance_of(facts.partitions, facts.brokers, facts.settings, CLUSTER)
        except ConfigError:
            continue
        decided_clusters += 1
        _check(facts.settings, records(facts.brokers), records(facts.partitions), hosts, instance)


def _check(settings: Any, brokers: Sequence[Row], rows: Sequence[Row], hosts: pd.DataFrame, instance: Any) -> None:
    requests = settings.cluster_policies()[CLUSTER]
    expected = [host_of(row, requests, settings.policy.rack_policy) for row in brokers]
    names = ("rack", "state", "accepts_replicas", "accepts_leadership", "must_empty", "pinned_topics")
    assert [tuple(row[name] for name in names) for row in records(hosts)] == [
        (host.rack, host.state, host.accepts, host.leads, host.empties, host.pins) for host in expected
    ]
    rules = Rules(expected, settings, requests)
    wanted = [rules.decide(row) for row in rows]
    free = {topic: [] for topic in {row["topic"] for row in rows}}  # type: dict[str, list[int]]
    for row, decided in zip(rows, wanted, strict=True):
        if decided["pinned_brokers"] is None:
            free[row["topic"]].append(decided["replication_factor"])
    for row, decided, actual in zip(rows, wanted, records(instance), strict=True):
        mosts = rules.mosts(free[row["topic"]]) if decided["pinned_brokers"] is None else (None, None)
        full = {**decided, "topic_most_replicas": mosts[0], "topic_most_leaders": mosts[1]}
        assert {name: actual[name] for name in full} == full, (row, settings.policy)
        assert (actual["topic"], actual["partition"]) == (row["topic"], row["partition"])
