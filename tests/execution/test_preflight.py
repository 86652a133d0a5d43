"""The progress of a wave, and problems before it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from execution import preflight
from execution.observed import Observed
from execution.wave import MoveState, Wave
from optimizer.kafka.throttle import LEADER_RATE, LEADER_REPLICAS
from tests.execution.warehouse import EARLIER, STAYS, load_wave, plan_of, usual_plan, write_plan

PARTITION = ("stays", 0)
BEFORE = Observed(
    alive=frozenset({1, 2, 3, 4}),
    silent=frozenset(),
    topic_ids={"stays": STAYS, "other": "o"},
    replicas={PARTITION: (1, 2), ("stays", 1): (2, 1), ("other", 0): (1, 2)},
    in_sync={PARTITION: frozenset({1, 2}), ("stays", 1): frozenset({1, 2}), ("other", 0): frozenset({1})},
    in_flight={},
    throttles={entry[:3]: entry[3] for entry in EARLIER},
)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Wave:
    """The first wave: stays-0 from [1, 2] to [1, 3]."""
    return load_wave(write_plan(tmp_path_factory.mktemp("first"), usual_plan()), 1)


def at(*replicas: int, towards: tuple[int, ...] | None = None) -> Observed:
    """The cluster with the wave's partition on these brokers."""
    moving = {} if towards is None else {PARTITION: towards}
    return replace(BEFORE, replicas={**BEFORE.replicas, PARTITION: replicas}, in_flight=moving)


STATES = {
    "not started": (BEFORE, MoveState.NOT_STARTED),
    "in flight": (at(1, 3, 2, towards=(1, 3)), MoveState.IN_FLIGHT),
    "in flight, its list is the planned list already": (at(1, 3, towards=(1, 3)), MoveState.IN_FLIGHT),
    "in flight back to where it was": (at(1, 2, towards=(1, 2)), MoveState.OTHER),
    "done": (at(1, 3), MoveState.DONE),
    "done, but in another order": (at(3, 1), MoveState.OTHER),
    "in flight to elsewhere": (at(1, 4, 2, towards=(1, 4)), MoveState.OTHER),
    "moved elsewhere": (at(1, 4), MoveState.OTHER),
    "deleted": (replace(BEFORE, replicas={}), MoveState.DELETED),
}


@pytest.mark.parametrize("case", STATES)
def test_the_state_of_a_partition(first: Wave, case: str) -> None:
    """It follows from the ordered replicas and the running reassignments."""
    now, state = STATES[case]
    assert first.state_of(PARTITION, now) == state


@dataclass(frozen=True)
class Case:
    """A state of the cluster and its expected problem; empty if the wave may start or continue."""

    now: Observed
    problem: str = ""
    topic_ids: Mapping[str, str | None] = field(default_factory=lambda: {"stays": STAYS})
    earlier: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)


def with_throttles(**changes: str) -> Observed:
    """The cluster with other rates of broker 1."""
    rates = {("brokers", "1", f"{name}.replication.throttled.rate"): value for name, value in changes.items()}
    return replace(BEFORE, throttles={**BEFORE.throttles, **rates})


def foreign_list(value: str) -> dict[tuple[str, str, str], str]:
    """A throttle of a topic that the plan does not name."""
    return {("topics", "z", LEADER_REPLICAS): value}


CASES = {
    "as planned": Case(BEFORE),
    "started already": Case(at(1, 3, 2, towards=(1, 3))),
    "started already, its target dead": Case(replace(at(1, 3, 2, towards=(1, 3)), alive=frozenset({1, 2, 4}))),
    "done, but still listed as in flight": Case(at(1, 3, towards=(1, 3))),
    "done already": Case(at(1, 3)),
    "a source broker is dead": Case(replace(BEFORE, alive=frozenset({1, 3, 4}))),
    "a target is dead": Case(
        replace(BEFORE, alive=frozenset({1, 2, 4})),
        "broker 3 is in planned replica lists but not alive: start it, or plan again",
    ),
    "two targets are dead": Case(
        replace(BEFORE, alive=frozenset({2, 4})),
        "brokers 1, 3 are in planned replica lists but not alive: start them, or plan again",
    ),
    "done already, its target dead": Case(
        replace(at(1, 3), alive=frozenset({1, 2, 4})),
        "broker 3 is in planned replica lists but not alive: start it, or plan again",
    ),
    "a target does not answer": Case(
        replace(BEFORE, silent=frozenset({3})),
        "broker 3 does not answer, so its throttles are unknown: start it, or allow DESCRIBE_CONFIGS on the cluster",
    ),
    "two of its brokers do not answer": Case(
        replace(BEFORE, silent=frozenset({1, 2})),
        "brokers 1, 2 do not answer, so their throttles are unknown: start them, or allow DESCRIBE_CONFIGS on the "
        "cluster",
    ),
    "started already, its target does not answer": Case(
        replace(at(1, 3, 2, towards=(1, 3)), silent=frozenset({3})),
    ),
    "a broker of other waves does not answer": Case(replace(BEFORE, silent=frozenset({4}))),
    "no in-sync replica is alive": Case(
        replace(BEFORE, alive=frozenset({1, 3, 4}), in_sync={**BEFORE.in_sync, PARTITION: frozenset({2})}),
        "no alive broker has an in-sync replica of stays-0: start the brokers that have one",
    ),
    "the topic is deleted": Case(
        replace(BEFORE, topic_ids={"other": "o"}, replicas={("other", 0): (1, 2)}),
        "1 topic does not exist any more: stays; plan again",
    ),
    "the topic was created again": Case(
        replace(BEFORE, topic_ids={"stays": "new"}),
        "1 topic was deleted and created again since the snapshot: stays; plan again",
    ),
    "no ids were known": Case(BEFORE, topic_ids={"stays": None}),
    "the cluster has no ids": Case(replace(BEFORE, topic_ids={"stays": None})),
    "elsewhere": Case(
        at(2, 1),
        "1 partition does not have the replicas that the plan expects: stays-0; stays-0 has [2, 1], not [1, 2]; "
        "execute all earlier waves first; if they are done, plan again",
    ),
    "an earlier wave is done, or its topic deleted": Case(BEFORE, earlier={("other", 0): (1, 2), ("gone", 0): (1, 2)}),
    "an earlier wave is not done": Case(
        BEFORE,
        "earlier waves are not done: 1 partition lacks its planned replicas: other-0; execute those waves first",
        earlier={("other", 0): (2, 1)},
    ),
    "another move": Case(
        replace(BEFORE, in_flight={("other", 0): (2,)}),
        "1 other partition is being reassigned: other-0; wait until it is done, or cancel it",
    ),
    "a foreign rate": Case(
        with_throttles(leader="5"),
        "1 throttle was set by somebody else since the snapshot: brokers 1 leader.replication.throttled.rate=5; "
        "remove it first",
    ),
    "a foreign rate of a broker of other waves": Case(
        replace(BEFORE, throttles={**BEFORE.throttles, ("brokers", "4", LEADER_RATE): "5"}),
        "1 throttle was set by somebody else since the snapshot: brokers 4 leader.replication.throttled.rate=5; "
        "remove it first",
    ),
    "two foreign lists, one of them long": Case(
        replace(BEFORE, throttles={("topics", "a", LEADER_REPLICAS): "0:1," * 10, **foreign_list("0:1," * 11)}),
        "2 throttles were set by somebody else since the snapshot: topics a leader.replication.throttled.replicas="
        f"{'0:1,' * 10}, topics z leader.replication.throttled.replicas={'0:1,' * 9}0...; remove them first",
    ),
    "its own throttles": Case(with_throttles(leader="300000")),
    "what the plan had found": Case(with_throttles(follower="30000000")),
    "what it had found was changed": Case(
        with_throttles(follower="31"),
        "1 throttle was set by somebody else since the snapshot: brokers 1 follower.replication.throttled.rate=31; "
        "remove it first",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_in_the_way_is_named(first: Wave, case: str) -> None:
    """One line for each problem, none for differences that do not matter."""
    expected = CASES[case]
    problems = preflight.problems(first, expected.now, topic_ids=expected.topic_ids, earlier=expected.earlier)
    assert problems == ([expected.problem] if expected.problem else [])


MANY = [(topic, number) for topic in ("a", "b") for number in range(3)]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Wave:
    """A wave of six partitions of two topics, each from [1, 2] to [1, 3]."""
    plan = plan_of([dict.fromkeys(MANY, ([1, 2], [1, 3]))], topic_ids={})
    return load_wave(write_plan(tmp_path_factory.mktemp("many"), plan), 1)


def of_many(**changes: Any) -> Observed:
    """The cluster of these partitions, with changes."""
    lists, in_sync = dict.fromkeys(MANY, (1, 2)), dict.fromkeys(MANY, frozenset({1}))
    topics = {"a": "new", "b": "new"}
    return replace(BEFORE, **{"topic_ids": topics, "replicas": lists, "in_sync": in_sync, "throttles": {}, **changes})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"topic_ids": {}, "replicas": {}}, "2 topics do not exist any more: a, b; plan again"),
        (
            {"in_flight": {("x", 1): (1,), ("x", 0): (1,)}},
            "2 other partitions are being reassigned: x-0, x-1; wait until they are done, or cancel them",
        ),
        (
            {"in_sync": dict.fromkeys(MANY, frozenset({9}))},
            "no alive broker has an in-sync replica of a-0, a-1, a-2, b-0, b-1 and 1 more: start the brokers that "
            "have one",
        ),
    ],
    ids=["topics", "moves", "in sync"],
)
def test_several_of_a_kind_are_one_line(many: Wave, changes: dict[str, Any], problem: str) -> None:
    """The message uses the plural."""
    assert preflight.problems(many, of_many(**changes), topic_ids={}, earlier={}) == [problem]


def test_of_many_the_first_five_are_named(many: Wave) -> None:
    """Sorted by topic and partition, with the number of the rest; one of them is shown as an example."""
    now = of_many(replicas=dict.fromkeys(MANY, (4,)))
    problems = preflight.problems(
        many, now, topic_ids={"a": "old", "b": "old"}, earlier={("b", 2): (1,), ("a", 0): (1,)}
    )
    assert problems == [
        "earlier waves are not done: 2 partitions lack their planned replicas: a-0, b-2; execute those waves first",
        "2 topics were deleted and created again since the snapshot: a, b; plan again",
        "6 partitions do not have the replicas that the plan expects: a-0, a-1, a-2, b-0, b-1 and 1 more; a-0 has [4], "
        "not [1, 2]; execute all earlier waves first; if they are done, plan again",
    ]
    assert preflight.partition_names([("a", 10), ("a", 9), ("b", 1), ("b", 0), ("c", 0)]) == "a-9, a-10, b-0, b-1, c-0"


@pytest.mark.parametrize(("silent", "affected"), [({3}, {3}), ({2}, {2}), ({4}, set()), ({3, 4}, {3})])
def test_silent_brokers_matter_where_they_hold_replicas_or_throttles(
    first: Wave, silent: set[int], affected: set[int]
) -> None:
    """Broker 2 loses its replica and is throttled; broker 3 gets a replica, which counts even without throttles."""
    assert first.silent_brokers(replace(BEFORE, silent=frozenset(silent))) == affected
    assert replace(first, throttles={}).silent_brokers(replace(BEFORE, silent=frozenset(silent))) == affected - {2}


@pytest.mark.parametrize(
    ("after", "copies"), [((2, 1), False), ((1,), False), ((1, 3), True), ((1, 2, 3), True)], ids=str
)
def test_a_wave_copies_if_a_partition_gets_a_broker(first: Wave, after: tuple[int, ...], copies: bool) -> None:
    """It does not copy if lists only change their order or get shorter."""
    before = {PARTITION: (1, 2), ("stays", 1): (1, 2)}
    assert replace(first, before=before, after={PARTITION: (2, 1), ("stays", 1): after}).copies is copies


def test_all_problems_are_reported_at_once(first: Wave) -> None:
    """Not only the first problem."""
    now = replace(CASES["another move"].now, alive=frozenset({1, 2}), topic_ids={"stays": "new"})
    assert len(preflight.problems(first, now, topic_ids={"stays": STAYS}, earlier={})) == 3


def test_unchecked_topics_are_reported(first: Wave) -> None:
    """Topics without an id may have been deleted and created again."""
    assert "the plan has no ids for: stays" in preflight.warnings(first, {"stays": None})[0]
    assert preflight.warnings(first, {"stays": STAYS}) == []


def test_throttles_that_nobody_can_set_are_not_missing(first: Wave) -> None:
    """Those of a dead broker and of a deleted topic."""
    assert len(first.missing_throttles(BEFORE)) == 5
    alone = replace(BEFORE, alive=frozenset({1, 2}), topic_ids={})
    assert [line.split("=")[0] for line in first.missing_throttles(alone)] == [
        "brokers 1 leader.replication.throttled.rate",
        "brokers 2 leader.replication.throttled.rate",
    ]


def test_throttles_of_a_silent_broker_are_unknown(first: Wave) -> None:
    """They are not set again, but no wave starts either."""
    bare = replace(BEFORE, throttles={})
    dying = replace(bare, silent=frozenset({1}))
    of_1 = [line for line in first.absent_throttles(bare) if line.startswith("brokers 1 ")]
    assert len(of_1) == 1
    assert first.absent_throttles(dying) == [line for line in first.absent_throttles(bare) if line not in of_1]
    unknown = [f"{line} (unknown: the broker does not answer)" for line in of_1]
    assert [line for line in first.missing_throttles(dying) if line.startswith("brokers 1 ")] == unknown
    assert len(first.missing_throttles(dying)) == len(first.missing_throttles(bare))
