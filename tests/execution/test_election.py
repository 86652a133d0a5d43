"""Elections of the plan's leaders."""

from dataclasses import replace

import pytest

from execution import moves
from execution.moves import Elected, elect, not_led
from execution.observed import Observed, TopicPartition
from tests.execution.clock import without_waiting
from tests.execution.scene import DONE, FakeAdmin
from tests.execution.test_preflight import BEFORE, PARTITION, at

SECOND = ("stays", 1)
PLANNED = {PARTITION: (1, 3), SECOND: (2, 1), ("gone", 0): (1,)}
PAUSES = [0.2, 0.5, 1.0, 2.0, 4.0]


def led(first: int | None, second: int | None) -> Observed:
    """All waves are done, and these brokers lead."""
    return replace(DONE, leaders={**DONE.leaders, PARTITION: first, SECOND: second})


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that are waited."""
    return without_waiting(monkeypatch, moves)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (led(1, 2), []),
        (led(3, 2), [PARTITION]),
        (led(None, 1), [PARTITION, SECOND]),
        (replace(led(3, 1), replicas=BEFORE.replicas), [SECOND]),
        (replace(at(3, 1), leaders={**BEFORE.leaders, PARTITION: 3}), []),
    ],
    ids=["all lead", "one does not", "without a leader", "not moved yet", "in another order"],
)
def test_partitions_with_their_planned_list_may_be_elected(now: Observed, expected: list[TopicPartition]) -> None:
    """If their first replica does not lead."""
    assert not_led(PLANNED, now) == expected


def test_without_partitions_nothing_is_elected(slept: list[float]) -> None:
    """An empty election would elect leaders of the whole cluster."""
    admin = FakeAdmin([], [led(1, 2)])
    assert elect(admin, PLANNED, admin.observe) == Elected(0, {})
    assert (admin.calls, slept) == ([], [])


def test_leaders_are_awaited(slept: list[float]) -> None:
    """Brokers know of an election a moment later."""
    admin = FakeAdmin([], [led(3, 1), led(3, 1), led(1, 1), led(1, 2)])
    assert elect(admin, PLANNED, admin.observe) == Elected(2, {})
    assert admin.calls == [("elect", "stays-0", "stays-1")]
    assert slept == PAUSES[:2]


def test_a_refused_partition_is_not_awaited(slept: list[float]) -> None:
    """The others are."""
    admin = FakeAdmin([], [led(3, 1), led(3, 1), led(3, 2)], refuses={PARTITION: "it is offline"})
    assert elect(admin, PLANNED, admin.observe) == Elected(1, {PARTITION: "it is offline"})
    assert slept == PAUSES[:1]


def test_a_leader_that_does_not_come_is_named(slept: list[float]) -> None:
    """After a few seconds; a partition that lost its leader meanwhile was not elected and is not named."""
    admin = FakeAdmin([], [led(3, 2), led(3, None)])
    assert elect(admin, PLANNED, admin.observe) == Elected(0, {PARTITION: "another replica leads"})
    assert slept == PAUSES
