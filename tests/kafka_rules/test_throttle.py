"""Throttles in two forms: the tool's and the careful one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import KafkaError
from optimizer.kafka.partition_state import start
from optimizer.kafka.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Throttles,
    careful_throttles,
    config_entries,
    tool_throttles,
)

KEY = ("t", 0)
WORKED = [
    ([0, 1, 2], [2, 0, 1], "", ""),
    ([0], [0, 1, 2], "0:0", "0:1,0:2"),
    ([2, 0], [0, 1, 2], "0:2,0:0", "0:1"),
    ([0, 1, 2], [0, 1], "", ""),
    ([0, 1], [2, 3], "0:0,0:1", "0:2,0:3"),
]


@pytest.mark.parametrize(("current", "target", "leader", "follower"), WORKED)
def test_rule(current: list[int], target: list[int], leader: str, follower: str) -> None:
    """All replicas before the move may send, added ones receive; if nothing is added, both lists are empty."""
    got = careful_throttles({KEY: target}, {KEY: current})
    assert (got.leader, got.follower) == ({"t": leader}, {"t": follower})


@pytest.mark.parametrize(
    ("current", "target", "leader", "follower", "brokers"),
    [
        ([0, 1, 2], [2, 0, 1], "0:0,0:1,0:2", "", (0, 1, 2)),
        ([2, 0], [0, 1, 2], "0:0,0:2", "0:1", (0, 1, 2)),
        ([10, 2], [2, 3], "0:10,0:2", "0:3", (2, 3, 10)),
    ],
)
def test_tool(current: list[int], target: list[int], leader: str, follower: str, brokers: tuple[int, ...]) -> None:
    """The tool also lists the sources of a new order, sorts as strings, and gives all brokers both rates."""
    got = tool_throttles({KEY: target}, {KEY: current})
    assert got == Throttles({"t": leader}, {"t": follower}, brokers, brokers)


def test_tool_sorts_partitions_as_strings() -> None:
    """Partition 10 comes before partition 2, in both lists."""
    got = tool_throttles({("t", 2): [4], ("t", 10): [5]}, {("t", 2): [3], ("t", 10): [1]})
    assert got.leader == {"t": "10:1,2:3"}
    assert got.follower == {"t": "10:5,2:4"}


def test_tool_keeps_what_is_in_flight() -> None:
    """Partitions in flight keep their entries and their old sources."""
    running = {("t", 0): start([0, 1], [0, 2]), ("u", 0): start([3], [4])}
    got = tool_throttles({("t", 0): [0, 5]}, {("t", 0): [0, 2, 1]}, in_flight=running)
    assert got.leader == {"t": "0:0,0:1", "u": "0:3"}
    assert got.follower == {"t": "0:5", "u": "0:4"}


def test_tool_refuses_unknown_partitions() -> None:
    """A partition without current replicas raises Kafka's error."""
    with pytest.raises(KafkaError, match="Trying to reassign a topic partition t-0 with 0 replicas"):
        tool_throttles({KEY: [1]}, {})


def test_a_new_leader_is_throttled_too() -> None:
    """The list names every replica that may become leader; partitions without copies are in no list."""
    got = careful_throttles({KEY: [0, 2], ("u", 1): [3, 4]}, {KEY: [0, 1], ("u", 1): [4, 3]})
    assert got == Throttles({"t": "0:0,0:1", "u": ""}, {"t": "0:2", "u": ""}, (0, 1), (2,))


def test_brokers_ascend() -> None:
    """Brokers of either direction are in order, independent of Python's set order."""
    got = careful_throttles({KEY: [16, 8, 24]}, {KEY: [33, 1]})
    assert (got.leader_brokers, got.follower_brokers, got.brokers) == ((1, 33), (8, 16, 24), (1, 8, 16, 24, 33))


def test_lists_keep_the_order_of_partitions() -> None:
    """Careful lists are ordered by partition number."""
    proposed = {("t", 10): [5], ("t", 2): [4]}
    got = careful_throttles(proposed, {("t", 2): [3], ("t", 10): [1]})
    assert got.leader == {"t": "2:3,10:1"}


def test_config_entries() -> None:
    """Topics come first, then brokers; each broker has a rate for each direction in which it copies."""
    throttles = careful_throttles({KEY: [0, 2]}, {KEY: [0, 1]})
    assert config_entries(throttles, {0: 100, 1: 70}, 50) == [
        ("topics", "t", LEADER_REPLICAS, "0:0,0:1"),
        ("topics", "t", FOLLOWER_REPLICAS, "0:2"),
        ("brokers", "0", LEADER_RATE, "100"),
        ("brokers", "1", LEADER_RATE, "70"),
        ("brokers", "2", FOLLOWER_RATE, "50"),
    ]


LISTS = st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True)
MOVES = st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 20)), st.tuples(LISTS, LISTS), max_size=8)


@given(MOVES)
def test_the_forms_agree(moves: dict[tuple[str, int], tuple[list[int], list[int]]]) -> None:
    """Both forms throttle the same followers; the careful leaders are among the tool's."""
    current = {key: before for key, (before, _) in moves.items()}
    proposed = {key: after for key, (_, after) in moves.items()}
    forms = (careful_throttles(proposed, current), tool_throttles(proposed, current))
    for topic in {topic for topic, _ in moves}:
        followers = [set(form.follower[topic].split(",")) for form in forms]
        assert followers[0] == followers[1]
        senders = [set(filter(None, form.leader[topic].split(","))) for form in forms]
        assert senders[0] <= senders[1]
        assert all(re.fullmatch(r"(\d+:\d+(,\d+:\d+)*)?", form.leader[topic]) for form in forms)
