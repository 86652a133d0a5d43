"""What an operator wants of a running wave, and the way of each rate to it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.journal import Hold, WaveId
from execution.wanted import CANCEL, HOLD, STOP, Wanted, describe_wanted, history, next_rate, own_rates, path, rates
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE
from tests.execution.lab import bare_wave

LEADER, FOLLOWER = ("brokers", "1", LEADER_RATE), ("brokers", "2", FOLLOWER_RATE)
LIST = ("topics", "t", FOLLOWER_REPLICAS)
# Broker 1 has 50 for live replication in addition to the 100 of copies.
WAVE = bare_wave({}, {}, throttles={LEADER: "150", FOLLOWER: "100", LIST: "0:2"}, copy_bytes_per_s=100)
PLAN, PAUSED = Wanted(), Wanted(is_paused=True)
FAST, SLOW = Wanted(copy_bytes_per_s=200), Wanted(copy_bytes_per_s=40)


@pytest.mark.parametrize(
    ("wanted", "leader", "follower"),
    [
        (PLAN, 150, 100),
        (FAST, 250, 200),
        (SLOW, 90, 40),
        (PAUSED, 150, 1),
        (Wanted(copy_bytes_per_s=200, is_paused=True), 250, 1),
        (Wanted(ending=STOP), 150, 100),
    ],
)
def test_rates_keep_the_part_of_live_replication(wanted: Wanted, leader: int, follower: int) -> None:
    """A pause only stops followers; lists have no rate."""
    assert rates(WAVE, wanted) == {LEADER: leader, FOLLOWER: follower}


UP = list(range(110, 201, 10))
RESUMED = [1 + 99 * step // 10 for step in range(1, 11)]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (PLAN, "not held back; the plan's rate of copies"),
        (Wanted(20_000_000), "not held back; 20.0 MB/s of copies for each broker"),
        (
            Wanted(20_000_000, is_paused=True),
            "paused (nothing is started, followers get 1 byte/s); later 20.0 MB/s of copies for each broker",
        ),
        (
            Wanted(ending=STOP),
            "stopped (nothing more is started, the wave ends after its running copies); the plan's rate of copies",
        ),
        (Wanted(ending=CANCEL), "cancelled; the plan's rate of copies"),
        (
            Wanted(pressure="slow", because="x"),
            "held back (nothing is started, followers copy at half the rate); the plan's rate of copies",
        ),
        (Wanted(pressure=HOLD, because="x"), "held back (nothing is started); the plan's rate of copies"),
    ],
)
def test_what_is_wanted_is_said_in_words(wanted: Wanted, text: str) -> None:
    """Each field; a paused wave has its rate when it goes on."""
    assert describe_wanted(wanted) == text


@pytest.mark.parametrize(
    ("states", "values"),
    [
        ([PLAN], [100]),
        ([PLAN, SLOW], [100, 40]),
        ([PLAN, FAST], [100, *UP]),
        ([PLAN, PAUSED], [100, 1]),
        ([PLAN, PAUSED, PLAN], [100, 1, *RESUMED]),
        ([PLAN, FAST, SLOW, FAST], [100, *UP, 40, *range(56, 201, 16)]),
    ],
)
def test_a_rate_rises_in_ten_steps_and_falls_in_one(states: Sequence[Wanted], values: list[int]) -> None:
    """The ten steps begin at the lowest rate so far."""
    assert path(WAVE, states, FOLLOWER) == values
    assert own_rates(WAVE, states)[FOLLOWER] == frozenset(map(str, values))


@pytest.mark.parametrize(
    ("states", "value", "following"),
    [
        ([PLAN], "100", None),
        ([PLAN, FAST], "100", 110),
        ([PLAN, FAST], "190", 200),
        ([PLAN, FAST], "200", None),
        ([PLAN, SLOW], "100", 40),
        ([PLAN, PAUSED], "100", 1),
        ([PLAN, PAUSED, PLAN], "1", 10),
        # A command while the rate still rises.
        ([PLAN, FAST, SLOW], "150", 40),
        ([PLAN, FAST, Wanted(copy_bytes_per_s=300)], "110", 120),
        ([PLAN, PAUSED, PLAN, FAST], "1", 20),
        # Somebody else has set or removed it.
        ([PLAN, FAST], "111", None),
        ([PLAN, FAST], "", None),
        ([PLAN, FAST], None, 100),
    ],
)
def test_the_next_rate(states: Sequence[Wanted], value: str | None, following: int | None) -> None:
    """None if it is there, or if it is not the wave's own; a removed one begins with the lowest value."""
    assert next_rate(WAVE, states, FOLLOWER, value) == following


WANTED = st.builds(Wanted, copy_bytes_per_s=st.none() | st.integers(1, 10**9), is_paused=st.booleans())


@given(st.lists(WANTED, max_size=4), st.data())
def test_a_rate_gets_to_its_target_from_anywhere(commands: list[Wanted], data: st.DataObject) -> None:
    """In at most eleven steps, each an own value; a step up is at most a tenth of the target, rounded up."""
    states = [PLAN, *commands]
    for key in (LEADER, FOLLOWER):
        target = rates(WAVE, states[-1])[key]
        value = data.draw(st.sampled_from(path(WAVE, states, key)))
        steps = 0
        while (following := next_rate(WAVE, states, key, str(value))) is not None:
            assert str(following) in own_rates(WAVE, states)[key]
            assert following - value <= target / 10 + 1
            value, steps = following, steps + 1
        assert value == target
        assert steps <= 11


def test_wanted_states_are_kept_as_text() -> None:
    """The first state of a hold is the plan's."""
    hold = Hold("c", "r", WaveId(1), {}, {}, wanted=(FAST.to_json(), PAUSED.to_json()))
    assert (history(hold), history(None)) == ([PLAN, FAST, PAUSED], [PLAN])


@pytest.mark.parametrize(
    ("wanted", "holds_back"),
    [(PLAN, False), (FAST, False), (PAUSED, True), (Wanted(ending=STOP), True), (Wanted(ending="cancel"), True)],
)
def test_nothing_starts_in_a_pause_or_before_an_end(wanted: Wanted, holds_back: bool) -> None:
    """Another rate does not matter."""
    assert wanted.holds_back is holds_back
