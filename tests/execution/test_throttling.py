"""Throttles are set and removed, and every broker must know it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from execution import throttling
from execution.observed import Observed, Throttle
from execution.throttles import Entry, Setting
from execution.throttling import Left, remove_throttles, set_throttles
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE
from tests.execution.clock import without_waiting
from tests.execution.scene import FakeAdmin
from tests.execution.test_preflight import BEFORE

RATE_1, RATE_3 = ("brokers", "1", LEADER_RATE), ("brokers", "3", FOLLOWER_RATE)
LIST, GONE = ("topics", "stays", FOLLOWER_REPLICAS), ("topics", "gone", FOLLOWER_REPLICAS)
ENTRIES = {RATE_1: Entry(None, "5"), RATE_3: Entry("7", "5"), LIST: Entry(None, "0:3"), GONE: Entry(None, "0:3")}
BARE = replace(BEFORE, throttles={RATE_3: "7"})
PAUSES = [0.2, 0.5, 1.0, 2.0, 4.0, 8.0]


@dataclass
class SlowAdmin(FakeAdmin):
    """A cluster whose brokers know changes late.

    Parameters
    ----------
    late : mapping of broker to int
        How often a broker still shows no value.
    stale : mapping of broker to list
        The values that a broker shows first.
    """

    late: dict[int, int] = field(default_factory=dict)
    stale: dict[int, list[dict[Throttle, str]]] = field(default_factory=dict)
    asked: list[tuple[int, list[Throttle]]] = field(default_factory=list)

    def shown(self, broker_id: int, keys: Collection[Throttle]) -> Mapping[Throttle, str] | None:
        """Nothing while the broker is late."""
        self.asked.append((broker_id, sorted(keys)))
        if self.late.get(broker_id, 0) > 0:
            self.late[broker_id] -= 1
            return {}
        if self.stale.get(broker_id):
            return self.stale[broker_id].pop(0)
        return super().shown(broker_id, keys)


class LostAdmin(FakeAdmin):
    """A cluster that accepts changes and does not make them."""

    def alter(self, changes: Mapping[Throttle, Setting]) -> dict[Throttle, str]:
        """Accept and forget."""
        return {}


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that are waited."""
    return without_waiting(monkeypatch, throttling)


def test_throttles_are_set_when_every_broker_knows_them(slept: list[float]) -> None:
    """A rate only the broker itself; a broker that knows all is not asked again. Deleted topics are left out."""
    admin = SlowAdmin([], [BARE], late={2: 1, 3: 2})
    assert set_throttles(admin, ENTRIES, BARE) == []
    assert slept == PAUSES[:2]
    lists = [LIST]
    first = [(1, [RATE_1, LIST]), (2, lists), (3, [RATE_3, LIST]), (4, lists)]
    assert admin.asked == [*first, (2, lists), (3, [RATE_3, LIST]), (3, [RATE_3, LIST])]
    assert admin.altered == {RATE_1: "5", RATE_3: "5", LIST: "0:3"}


def test_throttles_that_are_set_already_are_not_asked_for(slept: list[float]) -> None:
    """Nothing changes, nothing is awaited."""
    there = replace(BEFORE, throttles={key: one.wanted for key, one in ENTRIES.items()})
    admin = SlowAdmin([], [there])
    assert (set_throttles(admin, ENTRIES, there), admin.calls, admin.asked, slept) == ([], [], [], [])


def test_a_silent_broker_is_not_waited_for(slept: list[float]) -> None:
    """It has died, and is not asked again; a dead broker is not asked at all."""
    admin = SlowAdmin([], [BARE], late={1: 2}, silent=frozenset({2}))
    now = replace(BARE, alive=frozenset({1, 2, 3}))
    assert set_throttles(admin, ENTRIES, now) == []
    assert [broker for broker, _ in admin.asked] == [1, 2, 3, 1, 1]


def test_a_throttle_that_is_not_set_is_named(slept: list[float]) -> None:
    """With Kafka's reason, or because some broker does not know it in time; all others are set."""
    admin = SlowAdmin([], [BARE], late={3: 99}, refuses={RATE_1: "no"})
    assert set_throttles(admin, ENTRIES, BARE) == [
        "brokers 1 leader.replication.throttled.rate=5: no",
        "brokers 3 follower.replication.throttled.rate=5: not visible on every broker",
        "topics stays follower.replication.throttled.replicas=0:3: not visible on every broker",
    ]
    assert slept == PAUSES
    assert admin.altered == {RATE_3: "5", LIST: "0:3"}


THROTTLED = replace(BARE, throttles={RATE_1: "5", RATE_3: "5", LIST: "0:3"})


def test_throttles_are_removed_when_every_broker_knows_it(slept: list[float]) -> None:
    """The value before, or none."""
    stale = [{RATE_3: "5", LIST: "0:3"}, {RATE_3: "7", LIST: "0:3"}, {RATE_3: "7"}]
    admin = SlowAdmin([], [THROTTLED], stale={3: stale})
    assert remove_throttles(admin, ENTRIES, admin.observe) == Left()
    assert admin.observe() == BARE
    assert slept == PAUSES[:2]


@pytest.mark.parametrize(
    ("now", "owed"),
    [
        (replace(THROTTLED, alive=frozenset({1, 2, 4}), throttles={RATE_1: "5", LIST: "0:3"}), ["3"]),
        (replace(THROTTLED, silent=frozenset({3}), throttles={RATE_1: "5", LIST: "0:3"}), ["3"]),
        (replace(THROTTLED, alive=frozenset({2}), silent=frozenset(), throttles={LIST: "0:3"}), ["1", "3"]),
    ],
    ids=["dead", "silent", "two are dead"],
)
def test_rates_of_brokers_without_an_answer_are_owed(slept: list[float], now: Observed, owed: list[str]) -> None:
    """They keep them when they come back; everything else is removed."""
    admin = FakeAdmin([], [now])
    left = remove_throttles(admin, ENTRIES, admin.observe)
    assert [line.split()[1] for line in left.owed] == owed
    assert all(line.endswith(": the broker does not answer") for line in left.owed)
    assert (left.foreign, left.refused) == ((), ())
    assert admin.observe().throttles == {}


def test_rates_that_were_never_set_are_not_owed(slept: list[float]) -> None:
    """Their brokers were dead when the wave began."""
    admin = FakeAdmin([], [replace(THROTTLED, alive=frozenset({1, 2}), throttles={RATE_1: "5", LIST: "0:3"})])
    assert remove_throttles(admin, ENTRIES, admin.observe, never_set={3}) == Left()


def test_a_broker_that_comes_back_loses_its_rate_too(slept: list[float]) -> None:
    """It did not answer at the first look, and has its old rate at the next one."""
    without_3 = replace(THROTTLED, silent=frozenset({3}), throttles={RATE_1: "5", LIST: "0:3"})
    admin = FakeAdmin([], [without_3, THROTTLED])
    assert remove_throttles(admin, ENTRIES, admin.observe) == Left()
    assert admin.observe().throttles == {RATE_3: "7"}


def test_a_refused_removal_is_named(slept: list[float]) -> None:
    """With Kafka's reason; an entry that Kafka has accepted but still shows is named, too."""
    admin = FakeAdmin([], [THROTTLED], refuses={RATE_3: "no"})
    left = remove_throttles(admin, ENTRIES, admin.observe)
    assert left == Left(refused=("brokers 3 follower.replication.throttled.rate: no",))
    assert (admin.observe().throttles, slept) == ({RATE_3: "5"}, [])
    lost = LostAdmin([], [THROTTLED])
    left = remove_throttles(lost, ENTRIES, lost.observe)
    assert len(left.refused) == 3
    assert all(line.endswith(": it is still set") for line in left.refused)
    assert slept == PAUSES


def test_what_others_have_changed_stays(slept: list[float]) -> None:
    """It is named and not awaited."""
    admin = FakeAdmin([], [replace(THROTTLED, throttles={RATE_1: "5", RATE_3: "5", LIST: "*"})])
    line = "topics stays follower.replication.throttled.replicas=* was set by somebody else and stays"
    assert remove_throttles(admin, ENTRIES, admin.observe) == Left(foreign=(line,))
    assert admin.observe().throttles == {RATE_3: "7", LIST: "*"}
    assert slept == []
