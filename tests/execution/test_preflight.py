"""The progress of a wave, and problems before it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from execution import preflight
from execution.observed import Observed, Stored, Throttle
from execution.wave import MoveState, Wave
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from tests.execution.warehouse import EARLIER, STAYS, load_wave, plan_of, usual_plan, write_plan

PARTITION = ("stays", 0)
BEFORE = Observed(
    alive=frozenset({1, 2, 3, 4}),
    silent=frozenset(),
    topic_ids={"stays": STAYS, "other": "o"},
    replicas={PARTITION: (1, 2), ("stays", 1): (2, 1), ("other", 0): (1, 2)},
    in_sync={PARTITION: frozenset({1, 2}), ("stays", 1): frozenset({1, 2}), ("other", 0): frozenset({1, 2})},
    leaders={PARTITION: 1, ("stays", 1): 2, ("other", 0): 1},
    in_flight={},
    throttles={entry[:3]: entry[3] for entry in EARLIER},
    min_isr={},
)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Wave:
    """The first wave: stays-0 from [1, 2] to [1, 3]."""
    return load_wave(write_plan(tmp_path_factory.mktemp("first"), usual_plan()), 1)


def at(*replicas: int, towards: tuple[int, ...] | None = None) -> Observed:
    """The cluster with the wave's partition on these brokers."""
    moving = {} if towards is None else {PARTITION: towards}
    in_sync = BEFORE.in_sync if moving else {**BEFORE.in_sync, PARTITION: frozenset(replicas)}
    return replace(BEFORE, replicas={**BEFORE.replicas, PARTITION: replicas}, in_sync=in_sync, in_flight=moving)


STATES = {
    "not started": (BEFORE, MoveState.NOT_STARTED),
    "in flight": (at(1, 3, 2, towards=(1, 3)), MoveState.IN_FLIGHT),
    "in flight, its list is the planned list already": (at(1, 3, towards=(1, 3)), MoveState.IN_FLIGHT),
    "in flight back to where it was": (at(1, 2, towards=(1, 2)), MoveState.OTHER),
    "done": (at(1, 3), MoveState.DONE),
    "done, but in another order": (at(3, 1), MoveState.OTHER),
    "not started, and in another order": (at(2, 1), MoveState.NOT_STARTED),
    "in flight to elsewhere": (at(1, 4, 2, towards=(1, 4)), MoveState.OTHER),
    "moved elsewhere": (at(1, 4), MoveState.OTHER),
    "deleted": (replace(BEFORE, replicas={}), MoveState.DELETED),
    "created again": (replace(BEFORE, topic_ids={"stays": "new"}), MoveState.RECREATED),
    "created again with its planned list": (replace(at(1, 3), topic_ids={"stays": "new"}), MoveState.RECREATED),
    "on a cluster without ids": (replace(BEFORE, topic_ids={"stays": None}), MoveState.NOT_STARTED),
}


@pytest.mark.parametrize("case", STATES)
def test_the_state_of_a_partition(first: Wave, case: str) -> None:
    """It follows from the ordered replicas and the running reassignments."""
    now, state = STATES[case]
    assert first.state_of(PARTITION, now) == state


@dataclass(frozen=True)
class Case:
    """A state of the cluster, the problem that stops the wave, and the partitions that it skips; empty without."""

    now: Observed
    problem: str = ""
    skip: str = ""
    topic_ids: Mapping[str, str | None] = field(default_factory=lambda: {"stays": STAYS})
    earlier: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)


def with_throttles(**changes: str) -> Observed:
    """The cluster with other rates of broker 1."""
    rates = {("brokers", "1", f"{name}.replication.throttled.rate"): value for name, value in changes.items()}
    return replace(BEFORE, throttles={**BEFORE.throttles, **rates})


def foreign_list(value: str) -> dict[Throttle, str]:
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
        skip="1 topic does not exist any more: stays",
    ),
    "the topic was created again": Case(
        replace(BEFORE, topic_ids={"stays": "new"}),
        skip="1 topic was deleted and created again since the snapshot: stays",
    ),
    "the topic was created again, and its target is dead": Case(
        replace(BEFORE, topic_ids={"stays": "new"}, alive=frozenset({1, 2, 4})),
        skip="1 topic was deleted and created again since the snapshot: stays",
    ),
    "no ids were known": Case(BEFORE, topic_ids={"stays": None}),
    "the cluster has no ids": Case(replace(BEFORE, topic_ids={"stays": None})),
    "in another order, as after a cancel": Case(at(2, 1)),
    "elsewhere": Case(
        at(1, 4),
        skip="1 partition was moved by somebody else: stays-0; stays-0 has [1, 4], the plan expects [1, 2]",
    ),
    "on its way to elsewhere": Case(
        at(1, 2, 4, towards=(2, 4)),
        skip="1 partition was moved by somebody else: stays-0; stays-0 moves to [2, 4], the plan expects [1, 2]",
    ),
    "an earlier wave is done, or its topic deleted": Case(BEFORE, earlier={("other", 0): (1, 2), ("gone", 0): (1, 2)}),
    "an earlier wave is not done": Case(
        BEFORE,
        "earlier waves are not done: 1 partition lacks its planned replicas: other-0; execute those waves first",
        earlier={("other", 0): (2, 1)},
    ),
    "an earlier wave is in flight": Case(
        replace(BEFORE, in_flight={PARTITION: (1, 3), ("stays", 1): (1, 3)}),
        "1 other partition is being reassigned: stays-1; wait until it is done, or cancel it",
        earlier={("other", 0): (1, 2)},
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
    "its own list and the list before": Case(
        replace(BEFORE, throttles={**BEFORE.throttles, ("topics", "stays", LEADER_REPLICAS): "*,0:1"})
    ),
    "a part of its own list": Case(
        replace(BEFORE, throttles={**BEFORE.throttles, ("topics", "stays", LEADER_REPLICAS): "0:2"})
    ),
    "a list with a replica of somebody else": Case(
        replace(BEFORE, throttles={**BEFORE.throttles, ("topics", "stays", FOLLOWER_REPLICAS): "0:3,0:4"}),
        "1 throttle was set by somebody else since the snapshot: topics stays follower.replication.throttled.replicas="
        "0:3,0:4; remove it first",
    ),
    "what the plan had found": Case(with_throttles(follower="30000000")),
    "what it had found was changed": Case(
        with_throttles(follower="31"),
        "1 throttle was set by somebody else since the snapshot: brokers 1 follower.replication.throttled.rate=31; "
        "remove it first",
    ),
}


def without_commands(lines: Sequence[str]) -> list[str]:
    """Problems without the commands that remove a throttle."""
    return [re.sub(r"(, the first one)? with kafka-configs.sh .*", "", line) for line in lines]


def test_the_command_that_removes_a_foreign_throttle_can_be_typed(first: Wave) -> None:
    """With the connection that was given; of several throttles it removes the first."""
    configs = "kafka-configs.sh --bootstrap-server h:1 --command-config /c"
    (line,) = preflight.problems(first, with_throttles(leader="5"), earlier=(), strict=False, configs=configs)
    delete = "--alter --entity-type brokers --entity-name 1 --delete-config leader.replication.throttled.rate"
    assert line.endswith(f"remove it first with {configs} {delete}")


@pytest.mark.parametrize("case", CASES)
def test_what_is_in_the_way_is_named(first: Wave, case: str) -> None:
    """One line for each problem, none for differences that do not matter."""
    expected = CASES[case]
    wave = replace(first, topic_ids=expected.topic_ids)
    before = {partition: BEFORE.replicas.get(partition, (9,)) for partition in expected.earlier}
    earlier = [replace(first, before=before, after=expected.earlier)]
    problems = [expected.problem] if expected.problem else []
    skips = [expected.skip] if expected.skip else []
    assert without_commands(preflight.problems(wave, expected.now, earlier=earlier, strict=False)) == problems
    assert preflight.skips(wave, expected.now) == skips
    strict = without_commands(preflight.problems(wave, expected.now, earlier=earlier, strict=True))
    assert sorted(strict) == sorted([*problems, *(f"{line}; plan again" for line in skips)])


def test_earlier_waves_may_skip_partitions(first: Wave) -> None:
    """A partition that an earlier wave cannot move any more does not stop this wave."""
    gone = replace(first, before={("gone", 0): (1,)}, after={("gone", 0): (2,)})
    moved = replace(first, before={("other", 0): (3,)}, after={("other", 0): (4,)})
    assert preflight.problems(first, BEFORE, earlier=[gone, moved], strict=True) == []
    assert preflight.unfinished([gone, moved, first], BEFORE) == [PARTITION]
    assert preflight.unfinished([gone, first], at(1, 3, 2, towards=(1, 3))) == [PARTITION]


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
    assert preflight.problems(many, of_many(**changes), earlier=(), strict=True) == [problem]


def test_of_many_the_first_five_are_named(many: Wave) -> None:
    """Sorted by topic and partition, with the number of the rest; one of them is shown as an example."""
    now = of_many(replicas=dict.fromkeys(MANY, (4,)))
    lists = {("b", 2): (4,), ("a", 0): (4,)}
    earlier = replace(many, before=lists, after=dict.fromkeys(lists, (1,)))
    assert preflight.problems(many, now, earlier=[earlier], strict=True) == [
        "earlier waves are not done: 2 partitions lack their planned replicas: a-0, b-2; execute those waves first",
        "6 partitions were moved by somebody else: a-0, a-1, a-2, b-0, b-1 and 1 more; a-0 has [4], the plan expects "
        "[1, 2]; plan again",
    ]
    recreated = replace(many, topic_ids={"a": "old", "b": "old"})
    assert preflight.skips(recreated, now) == ["2 topics were deleted and created again since the snapshot: a, b"]
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
    throttles = {**BEFORE.throttles, ("brokers", "4", FOLLOWER_RATE): "5"}
    now = replace(CASES["another move"].now, alive=frozenset({1, 2}), throttles=throttles)
    assert len(preflight.problems(first, now, earlier=(), strict=True)) == 3


def test_unchecked_topics_are_reported(first: Wave) -> None:
    """Topics without an id may have been deleted and created again."""
    assert "the plan has no ids for: stays" in preflight.warnings(replace(first, topic_ids={"stays": None}))[0]
    assert "the plan has no ids for: stays" in preflight.warnings(replace(first, topic_ids={}))[0]
    assert preflight.warnings(first) == []


def test_throttles_that_nobody_can_set_are_not_missing(first: Wave) -> None:
    """Those of a dead broker and of a deleted topic; nor is a list of replicas where all replicas are throttled."""
    assert len(first.missing_throttles(BEFORE)) == 4
    assert len(first.missing_throttles(replace(BEFORE, throttles={}))) == 5
    alone = replace(BEFORE, alive=frozenset({1, 2}), topic_ids={})
    assert [line.split("=")[0] for line in first.missing_throttles(alone)] == [
        "brokers 1 leader.replication.throttled.rate",
        "brokers 2 leader.replication.throttled.rate",
    ]


def test_throttles_of_a_silent_broker_are_unknown(first: Wave) -> None:
    """They are not set again, but no wave starts either."""
    bare = replace(BEFORE, throttles={})
    dying = replace(bare, silent=frozenset({1}))
    of_1 = ("brokers", "1", LEADER_RATE)
    assert of_1 in first.absent_throttles(bare)
    assert first.absent_throttles(dying) == [key for key in first.absent_throttles(bare) if key != of_1]
    unknown = [f"{' '.join(of_1)}=300000 (unknown: the broker does not answer)"]
    assert [line for line in first.missing_throttles(dying) if line.startswith("brokers 1 ")] == unknown
    assert len(first.missing_throttles(dying)) == len(first.missing_throttles(bare))


def test_a_removed_throttle_is_absent_and_a_changed_rate_is_not(first: Wave) -> None:
    """A list without some of the wave's replicas counts as removed."""
    rate, leaders = ("brokers", "1", LEADER_RATE), ("topics", "stays", LEADER_REPLICAS)
    for key, value, is_absent in [
        (rate, "9", False),
        (leaders, "*", False),
        (leaders, "0:1,0:2,5:5", False),
        (leaders, "0:1", True),
        (leaders, "", True),
    ]:
        now = replace(BEFORE, throttles={**first.throttles, key: value})
        assert first.absent_throttles(now) == ([key] if is_absent else [])


def test_a_wave_keeps_the_values_before_it(first: Wave) -> None:
    """Those of the cluster; those of the plan if the cluster has the wave's values already."""
    keys = {key: BEFORE.throttles.get(key) for key in first.throttles}
    throttled = replace(BEFORE, throttles=first.throttles)
    raised = replace(BEFORE, throttles={**BEFORE.throttles, ("brokers", "2", LEADER_RATE): "7"})
    assert {key: one.before for key, one in first.entries(BEFORE).items()} == keys
    assert {key: one.before for key, one in first.entries(throttled).items()} == keys
    assert first.entries(raised)["brokers", "2", LEADER_RATE].before == "7"
    assert {key: one.wanted for key, one in first.entries(raised).items()} == first.throttles


RISKS: Mapping[str, tuple[dict[str, Any], list[str]]] = {
    "all is well": ({}, []),
    "a replica is not in sync": (
        {"in_sync": {**BEFORE.in_sync, ("stays", 1): frozenset({2})}},
        ["1 partition is under-replicated: stays-1"],
    ),
    "it is not in sync, and the plan removes it": (
        {"in_sync": {**BEFORE.in_sync, PARTITION: frozenset({1})}},
        [],
    ),
    "it is not in sync, the plan removes it, and writes need it": (
        {"in_sync": {**BEFORE.in_sync, PARTITION: frozenset({1})}, "min_isr": {"stays": 2}},
        [],
    ),
    "another one is not in sync than the plan removes": (
        {"in_sync": {**BEFORE.in_sync, PARTITION: frozenset({2})}},
        ["1 partition is under-replicated: stays-0"],
    ),
    "none is in sync, and the plan removes one": (
        {"in_sync": {**BEFORE.in_sync, PARTITION: frozenset()}},
        ["1 partition is under min.insync.replicas: stays-0"],
    ),
    "a partition has no leader": (
        {"leaders": {**BEFORE.leaders, ("stays", 1): None}},
        ["1 partition is offline: stays-1"],
    ),
    "fewer replicas are in sync than writes need": (
        {"in_sync": {**BEFORE.in_sync, ("stays", 1): frozenset({2})}, "min_isr": {"stays": 2}},
        ["1 partition is under min.insync.replicas: stays-1"],
    ),
    "a replica is being added": (
        {
            "replicas": {**BEFORE.replicas, ("other", 0): (3, 2, 1)},
            "in_flight": {("other", 0): (3, 2)},
            "adding": {("other", 0): frozenset({3})},
        },
        [],
    ),
    "a replica that stays is not in sync while another is added": (
        {
            "replicas": {**BEFORE.replicas, ("other", 0): (3, 2, 1)},
            "in_sync": {**BEFORE.in_sync, ("other", 0): frozenset({1})},
            "in_flight": {("other", 0): (3, 2)},
            "adding": {("other", 0): frozenset({3})},
        },
        ["1 partition is under-replicated: other-0"],
    ),
}


@pytest.mark.parametrize("case", RISKS)
def test_partitions_that_another_failure_may_stop_are_named(case: str) -> None:
    """Of the whole cluster, except where the plan removes the replica that is out of sync: stays-0 goes to [1, 3]."""
    changes, problems = RISKS[case]
    assert preflight.at_risk(replace(BEFORE, **changes), {PARTITION: [1, 3]}) == problems


def test_a_replica_out_of_sync_that_no_list_removes_is_named() -> None:
    """Also if its partition is in the plan of another run."""
    now = replace(BEFORE, in_sync={**BEFORE.in_sync, PARTITION: frozenset({1})})
    assert preflight.at_risk(now, {("other", 0): [1, 3]}) == ["1 partition is under-replicated: stays-0"]


def test_a_wave_without_spare_replicas_is_a_warning(first: Wave) -> None:
    """As many replicas as min.insync.replicas: a failure stops its writes."""
    assert preflight.without_spare(first, replace(BEFORE, min_isr={"stays": 2})) == [
        "warning: stays-0 has no more replicas than min.insync.replicas: if a broker fails, writes stop"
    ]
    assert preflight.without_spare(first, BEFORE) == []


def test_a_dead_broker_with_a_finished_partition_stops_no_other(first: Wave) -> None:
    """The partition has its copy; only copies that would still start need their target."""
    assert preflight.problems(first, replace(at(1, 3), alive=frozenset({1, 2, 4})), earlier=(), strict=False) == []


@pytest.mark.parametrize(
    ("now", "usable", "problem"),
    [
        (BEFORE, {3: 100}, ""),
        (
            BEFORE,
            {3: 99},
            "broker 3 has room for 99 B, but the wave brings 100 B: free disk space there, or plan again",
        ),
        (BEFORE, {}, ""),  # before Kafka 3.3 a broker does not tell its room
        (at(1, 3, 2, towards=(1, 3)), {3: 0}, ""),  # it has begun, so its bytes are in the free space already
        (at(1, 3), {3: 0}, ""),
        (at(1, 4), {3: 0}, ""),
    ],
)
def test_a_wave_needs_room_for_what_waits(first: Wave, now: Observed, usable: dict[int, int], problem: str) -> None:
    """Partitions that were skipped leave bytes behind, so the plan's proof does not hold any more."""
    stored = Stored({(*PARTITION, 1): 100}, usable)
    assert preflight.without_room(first, now, stored) == ([problem] if problem else [])


def test_the_room_of_each_broker_counts(first: Wave) -> None:
    """All partitions together; a size that is unknown counts as nothing."""
    lists = {PARTITION: (1, 2), ("stays", 1): (2, 1)}
    wave = replace(first, before=lists, after={PARTITION: (1, 3), ("stays", 1): (3, 4)})
    stored = Stored({(*PARTITION, 1): 100, ("stays", 1, 2): 50}, {3: 149, 4: 49})
    assert [line.split(":")[0] for line in preflight.without_room(wave, BEFORE, stored)] == [
        "broker 3 has room for 149 B, but the wave brings 150 B",
        "broker 4 has room for 49 B, but the wave brings 50 B",
    ]
    assert preflight.without_room(wave, BEFORE, Stored({}, {3: 0, 4: 0})) == []


def test_the_room_of_each_planned_directory_counts(first: Wave) -> None:
    """In addition to that of the broker; a directory of unknown size counts as large enough."""
    lists = {PARTITION: (1, 2), ("stays", 1): (2, 1)}
    paths = {(*PARTITION, 3): "/x", ("stays", 1, 3): "/x", ("stays", 1, 4): "/z"}
    wave = replace(first, before=lists, after={PARTITION: (1, 3), ("stays", 1): (3, 4)}, log_dirs=paths)
    sizes = {(*PARTITION, 1): 100, ("stays", 1, 2): 50}
    for usable, lines in [(149, ["directory /x of broker 3 has room for 149 B, but the wave brings 150 B"]), (150, [])]:
        stored = Stored(sizes, {3: 150, 4: 50}, {(3, "/x"): (1000, usable), (3, "/y"): (1000, 0)})
        assert [line.split(":")[0] for line in preflight.without_room(wave, BEFORE, stored)] == lines
    stored = Stored(sizes, {3: 149}, {(3, "/x"): (1000, 9), (4, "/z"): (1000, 9)})
    assert [line.split(" has")[0] for line in preflight.without_room(wave, BEFORE, stored)] == [
        *("broker 3", "directory /x of broker 3", "directory /z of broker 4"),
    ]
    wave = replace(wave, after={PARTITION: (1, 4), ("stays", 1): (2, 3)})
    lines = preflight.without_room(wave, BEFORE, Stored(sizes, {3: 0, 4: 0}))
    assert [line[:8] for line in lines] == ["broker 3", "broker 4"]
