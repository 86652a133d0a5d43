"""What a look at a running wave calls for: each decision alone, without a cluster."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from execution.actions import (
    READS,
    Course,
    End,
    How,
    Look,
    Memory,
    NoteReturned,
    Patience,
    React,
    RecordCopied,
    Restore,
    Say,
    SetRates,
    Start,
    next_actions,
    reaction,
)
from execution.guard import Guard
from execution.health import UNDER_REPLICATED, Baseline
from execution.journal import Hold, Phase, WaveId
from execution.observed import Observed, Stored, TopicPartition
from execution.progress import CopySize, Gauge
from execution.wanted import CANCEL, HOLD, SLOW, STOP, Wanted
from optimizer.kafka.throttle import FOLLOWER_RATE
from tests.execution.lab import MB, bare_wave, cluster_at

A, B = ("t", 0), ("t", 1)
BEFORE, AFTER = {A: (1, 2), B: (2, 1)}, {A: (1, 3), B: (2, 3)}
RATE = ("brokers", "3", FOLLOWER_RATE)
WAVE = bare_wave(BEFORE, AFTER, throttles={RATE: str(10 * MB)}, copy_bytes_per_s=10 * MB)
COURSE = Course(WAVE, "wave 1 of 1", "c", Patience(900.0, 2000.0), is_capped=False)
ROW: dict[str, Any] = {"event": "executed", "holder": "ann@host", "happened_at": datetime(2026, 1, 1, tzinfo=UTC)}
EXECUTED = Hold("c", "r", WaveId(1), ROW, ROW, Phase.COPYING, is_executed=True)
MEMORY = Memory(Guard(Baseline(frozenset(range(1, 10)), frozenset()), {}, SLOW), is_first=False)
MOVING = {A: (1, 3, 2), B: (2, 3, 1)}


def at(replicas: Mapping[TopicPartition, tuple[int, ...]], *moving: TopicPartition, rate: str = "") -> Observed:
    """The cluster with these lists; the wave's rate is as planned by default."""
    now = cluster_at(replicas, {partition: AFTER[partition] for partition in moving})
    return replace(now, throttles={RATE: rate or str(10 * MB)})


def look(now: Observed, *wanted: Wanted, hold: Hold = EXECUTED, at_seconds: float = 1000.0, idle: float = 0.0) -> Look:
    """What is observed, with the states that operators want and the seconds without progress."""
    hold = replace(hold, wanted=tuple(json.dumps(asdict(state)) for state in wanted))
    copies = {(*partition, 3): CopySize(100 * MB, 0) for partition in now.in_flight}
    gauge = Gauge().seen(at_seconds - idle, copies).seen(at_seconds, copies)
    return Look(at_seconds, now, hold, Stored({}, {}), copies, frozenset(), gauge, is_line_due=False)


COPYING, WAITING, DONE = at(MOVING, A, B), at(BEFORE), at(AFTER)
ONE_WAITS = at({**MOVING, B: BEFORE[B]}, A)


@pytest.mark.parametrize(
    ("seen", "memory", "kinds"),
    [
        (look(COPYING), MEMORY, []),
        (look(DONE), MEMORY, [RecordCopied, How.DONE]),
        # What waits is started; a partition that moved, or that all should have moved, is read again first.
        (look(ONE_WAITS), MEMORY, [Start]),
        (look(ONE_WAITS), replace(MEMORY, seen=frozenset({A, B})), []),
        (look(WAITING), MEMORY, []),
        (look(WAITING), replace(MEMORY, unexpected_reads=READS - 1), [How.UNFINISHED]),
        # A look whose actions failed does not hide it.
        (look(WAITING), replace(MEMORY, unexpected_reads=READS), [How.UNFINISHED]),
        # Nothing starts without throttles, and then what waits is expected.
        (look(replace(WAITING, throttles={})), MEMORY, [SetRates, Restore]),
        # What operators want.
        (look(ONE_WAITS, Wanted(is_paused=True)), MEMORY, [Say, SetRates]),
        (look(DONE, Wanted(is_paused=True)), MEMORY, [Say, SetRates]),  # resume ends it
        (look(ONE_WAITS, Wanted(ending=STOP)), MEMORY, [Say]),
        (look(WAITING, Wanted(ending=STOP)), MEMORY, [Say, How.STOPPED]),
        (look(COPYING, Wanted(ending=CANCEL)), MEMORY, [Say, How.CANCELLED]),
        (look(ONE_WAITS, Wanted(pressure=HOLD, because="worse")), MEMORY, []),
        (look(COPYING, Wanted(copy_bytes_per_s=5 * MB)), MEMORY, [Say, SetRates]),
        (look(COPYING, Wanted(copy_bytes_per_s=5 * MB)), replace(MEMORY, next_step_seconds=1001.0), [Say]),
        # Another's rate stays; brokers that are back are recorded.
        (look(at(MOVING, A, B, rate="77")), MEMORY, []),
        (look(COPYING, hold=replace(EXECUTED, never_set=frozenset({3}))), MEMORY, [NoteReturned]),
        # Time.
        (look(COPYING, idle=900.0), MEMORY, [How.STALLED]),
        (look(COPYING, idle=899.0), MEMORY, []),
        (look(COPYING, at_seconds=1999.0), MEMORY, [How.TIME_OVER]),
    ],
)
def test_a_look_calls_for_actions(seen: Look, memory: Memory, kinds: list[object]) -> None:
    """Of these kinds, in this order; the last one may end the watch."""
    actions, _ = next_actions(COURSE, memory, seen)
    assert [action.how if isinstance(action, End) else type(action) for action in actions] == kinds


def test_a_wave_that_was_held_back_begins_with_its_own_rates() -> None:
    """It starts as the step execute, which accepts the rates that commands have set."""
    seen = look(WAITING, Wanted(is_paused=True), Wanted(), hold=replace(EXECUTED, is_executed=False))
    actions, _ = next_actions(COURSE, replace(MEMORY, known_states=3), replace(seen, now=at(BEFORE, rate="1")))
    own = [action.own_rates[RATE] for action in actions if isinstance(action, Start) and action.own_rates]
    assert [{"1", str(10 * MB)} <= values for values in own] == [True]


def test_the_wave_reacts_when_two_looks_show_the_same() -> None:
    """The second look writes the reaction and says it; the first look of a new process says one that is there."""
    behind = replace(COPYING, in_sync={A: frozenset({1}), B: frozenset({2, 1})})
    first, memory = reaction(COURSE, MEMORY, look(behind))
    second, after = reaction(COURSE, memory, look(behind))
    assert first == []
    said, react, why = second
    assert isinstance(react, React)
    assert (react.wanted.pressure, UNDER_REPLICATED in react.wanted.because) == (SLOW, True)
    assert all(isinstance(action, Say) for action in (said, why))
    again, _ = reaction(COURSE, replace(after, is_first=True), look(behind, react.wanted))
    assert again == [why]
