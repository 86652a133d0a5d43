"""Which partitions of a wave start, and how."""

from collections.abc import Collection
from typing import Any

import pytest

from execution.moves import next_moves, start
from execution.observed import TopicPartition
from optimizer.errors import BallastError
from tests.execution.lab import bare_wave, cluster_at
from tests.execution.scene import FakeAdmin, FakeTools

B, A, C, D, E = ("b", 0), ("a", 0), ("c", 0), ("d", 0), ("e", 0)
# In the order of the document, which is not the order of names; E gets another order only.
BEFORE = {B: (1, 2), A: (1, 2), C: (4, 5), D: (2, 1), E: (1, 2)}
AFTER = {B: (1, 3), A: (1, 6), C: (4, 3), D: (2, 7), E: (2, 1)}
WAVE = bare_wave(BEFORE, AFTER, documents={"reassignment.json": "the document"})
MOVING = {partition: (*AFTER[partition], BEFORE[partition][1]) for partition in (B, A, C, D)}


@pytest.mark.parametrize(
    ("cap", "moving", "done", "moves"),
    [
        (0, (), (), [B, A, C, D, E]),
        (0, (A,), (C,), [B, D, E]),
        # B sends from 1 to 3, so 1 has no room for A and 3 none for C; D sends from 2 to 7.
        (1, (), (), [B, D, E]),
        (1, (B, D), (), [E]),
        (1, (B,), (D,), [E]),
        (1, (), (B,), [A, C, D, E]),
        (1, (A, C), (), [D, E]),
        (2, (), (), [B, A, C, D, E]),
        (2, (B, A), (), [C, D, E]),
        (1, (), (B, A, C, D, E), []),
    ],
)
def test_the_next_moves_have_room(
    cap: int, moving: Collection[TopicPartition], done: Collection[TopicPartition], moves: list[TopicPartition]
) -> None:
    """A broker sends or receives at most ``cap`` moves; a new order needs no room."""
    lists = {p: AFTER[p] if p in done else MOVING[p] if p in moving else BEFORE[p] for p in AFTER}
    now = cluster_at(lists, {partition: AFTER[partition] for partition in moving})
    assert next_moves(WAVE, now, cap) == moves


def test_a_broker_that_sends_two_copies_of_a_partition_counts_once() -> None:
    """The limit is one of moves, not of bytes."""
    wave = bare_wave({A: (1, 2), B: (1, 2)}, {A: (3, 4), B: (5, 6)})
    now = cluster_at(wave.before)
    assert next_moves(wave, now, 1) == [A]
    assert next_moves(wave, now, 2) == [A, B]


STARTED = "Successfully started partition reassignments for b-0"


def started(partitions: Collection[TopicPartition], *, tool: bool, output: str = STARTED, **refuses: str) -> list[Any]:
    """The calls that start partitions."""
    calls: list[Any] = []
    tools: Any = FakeTools(calls, started=output)
    admin = FakeAdmin(calls, [], refuses={(topic, 0): reason for topic, reason in refuses.items()})
    try:
        start(WAVE, partitions, tools if tool else None, admin)
    except BallastError as error:
        calls.append(str(error))
    return calls


@pytest.mark.parametrize(
    ("partitions", "tool", "call"),
    [
        ([B, A, C, D, E], True, ("the document", "--execute")),
        ([B, C], True, ("b-0:1,3", "c-0:4,3", "--execute", "--additional")),
        ([B, C], False, ("reassign", "b-0:1,3", "c-0:4,3")),
        ([B, A, C, D, E], False, ("reassign", "a-0:1,6", "b-0:1,3", "c-0:4,3", "d-0:2,7", "e-0:2,1")),
    ],
)
def test_copies_are_started(partitions: list[TopicPartition], tool: bool, call: tuple[str, ...]) -> None:
    """The tool gets the approved document if the whole wave starts, or else only these lists."""
    assert started(partitions, tool=tool) == [call]


def test_a_refusal_of_the_admin_api_names_each_partition() -> None:
    """With the reason."""
    (_, message) = started([B, C], tool=False, c="InvalidReplicaAssignmentError", b="no")
    assert message == "not started, try again:\n- b-0: no\n- c-0: InvalidReplicaAssignmentError"


@pytest.mark.parametrize("partitions", [[B], list(AFTER)])
def test_a_refusal_of_the_tool_has_its_output(partitions: list[TopicPartition]) -> None:
    """Its exit code alone is not enough."""
    (_, message) = started(partitions, tool=True, output=" There is an existing assignment running\n")
    expected = "did not print 'Successfully started': There is an existing assignment running"
    assert message == f"kafka-reassign-partitions.sh --execute {expected}"
