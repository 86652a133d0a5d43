"""What moves if a member leaves a consumer group or some join: each assignor of classic groups."""

from collections.abc import Mapping
from typing import Any

import pytest

from optimizer.kafka.assignors import Key, Member
from optimizer.planning.rebalance import ASSIGNORS, Sharing, assignor_of, sharing_of

RATES: Mapping[str, Mapping[Key, int]] = {
    "a": {("a", number): 10 * (number + 1) for number in range(5)},
    "b": {("b", number): 1 for number in range(3)},
}
# What the assignors give three members: range five of a and three of b each by itself, the others in turn.
RANGE = {"m1": {"a": [0, 1], "b": [0]}, "m2": {"a": [2, 3], "b": [1]}, "m3": {"a": [4], "b": [2]}}
IN_TURN = {"m1": {"a": [0, 3], "b": [1]}, "m2": {"a": [1, 4], "b": [2]}, "m3": {"a": [2], "b": [0]}}
HELD = {"range": RANGE, "roundrobin": IN_TURN, "sticky": RANGE, "cooperative-sticky": RANGE}


def group(**more: Any) -> dict[str, Any]:
    """A row of a classic group of three members."""
    return {"group_id": "g", "protocol": "classic", "assignor": "range", "members": 3, "is_complete": True, **more}


def rows(held: Mapping[str, Mapping[str, list[int]] | None]) -> list[dict[str, Any]]:
    """A row for each member with what it holds."""
    return [
        {
            "member_id": name,
            "instance_id": None,
            "assigned": topics and [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()],
        }
        for name, topics in held.items()
    ]


def sharing(held: Mapping[str, Mapping[str, list[int]]]) -> Sharing:
    """The sharing of a group of which all is known."""
    found = sharing_of(group(members=len(held)), rows(held), lambda topic: RATES.get(topic, {}))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("assignor", "sizes", "left", "joined"),
    [
        ("range", [3, 5], 3, 2),  # a-2, a-3 and b-1; a-3 and a-4
        ("roundrobin", [4, 4], 5, 5),  # all but a-0, b-0 and b-1; all but a-0, a-2 and b-1 move up
        ("sticky", [4, 4], 3, 2),  # what m2 held; the share of a fourth member
        ("cooperative-sticky", [4, 4], 3, 2),  # the new member gets its share in the second step
    ],
)
def test_how_many_partitions_move(assignor: str, sizes: list[int], left: int, joined: int) -> None:
    """Sticky assignors move what the member held; Range and RoundRobin assign all again."""
    shared = sharing(HELD[assignor])
    assert shared.is_predicted(assignor)
    after = shared.assigned(assignor, [shared.members[0], shared.members[2]])
    assert (sorted(after), sorted(map(len, after.values()))) == (["m1", "m3"], sizes)
    more = shared.assigned(assignor, [*shared.members, Member("n", ("a", "b"))])
    assert sum(map(len, more.values())) == 8
    assert (shared.moved(after), shared.moved(more)) == (left, joined)


def test_the_busiest_member_leaves() -> None:
    """It is the one that reads most, not the one with most partitions; Range moves a-4, and a-2 to fill its gap."""
    shared = sharing({"m1": {"a": [0, 1], "b": [0, 1]}, "m2": {"a": [2, 3], "b": [2]}, "m3": {"a": [4]}})
    assert shared.busiest(shared.held) == "m2"
    assert sharing(RANGE).moved_if_busiest_leaves("range") == 3


@pytest.mark.parametrize(
    ("held", "assignor"),
    [
        (RANGE, ""),  # an assignor of a coordinator, or one of the application's own
        (IN_TURN, "range"),  # members subscribe to different topics, or have racks
        ({"m1": {"a": [0, 1, 2, 3, 4], "b": [0, 1, 2]}}, "range"),  # nobody would read
    ],
)
def test_what_moves_is_not_claimed(held: Mapping[str, Mapping[str, list[int]]], assignor: str) -> None:
    """Unless the assignor is known, gives what members hold, and somebody stays."""
    assert sharing(held).moved_if_busiest_leaves(assignor) is None


@pytest.mark.parametrize(
    ("stated", "held"),
    [
        ({"is_complete": False}, RANGE),
        ({"members": 4}, RANGE),  # one holds nothing, or its row is missing
        ({"members": None}, RANGE),
        ({}, {**RANGE, "m3": None}),
        ({}, {**RANGE, "m3": {"a": [4]}}),  # nobody holds b-2
        ({}, {**RANGE, "m3": {"a": [4], "b": [1, 2]}}),  # two hold b-1
        ({"members": 1}, {"m1": {"gone": [0]}}),
    ],
)
def test_a_group_about_which_nothing_is_claimed(
    stated: dict[str, Any], held: Mapping[str, Mapping[str, list[int]] | None]
) -> None:
    """All must be known, and each partition of the topics must have one holder."""
    assert sharing_of(group(**stated), rows(held), lambda topic: RATES.get(topic, {})) is None


def test_partitions_of_unknown_topics_are_left_out() -> None:
    """A topic without facts is not part of the group."""
    assert sharing({**RANGE, "m3": {"a": [4], "b": [2], "gone": [0]}}).held == sharing(RANGE).held


def test_which_assignors_are_reproduced() -> None:
    """Those of classic groups; a coordinator has a range of its own."""
    names = ["range", "RoundRobin", "uniform", None]
    assert [assignor_of(group(assignor=name)) for name in names] == ["range", "roundrobin", "", ""]
    assert assignor_of(group(protocol="consumer")) == ""
    assert [assignor_of(group(assignor=name, protocol=None)) for name in ASSIGNORS] == [*ASSIGNORS]
