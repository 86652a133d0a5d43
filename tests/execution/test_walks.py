"""Random walks: commands, kills at any call, brokers that die and return, changes of others, two terminals."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from execution.planned import Plan
from execution.wave import Wave
from optimizer.kafka.throttle import LEADER_RATE
from tests.execution.fake_kafka import Killed
from tests.execution.lab import AFTER, BEFORE, MODULES, Lab
from tests.execution.terminal import PLAN, WHERE, Ended, Terminal

WALKS = 2000
FOREIGN = ("brokers", "5", LEADER_RATE)
COMMANDS = (
    *(f"run --for {minutes} {PLAN}" for minutes in (0.1, 0.3, 5)),
    *(f"run --waves {wave} --for 0.2 {PLAN}" for wave in (1, 2)),
    *(f"rollback {which} --by ann --for {minutes} {PLAN}" for which in ("--all", "--wave 1") for minutes in (0.2, 5)),
    f"run --forward --for 0.3 {PLAN}",
    *(f"wave {step} --wave {wave} {PLAN}" for step in ("throttle", "execute", "off") for wave in (1, 2)),
    f"wave off --wave 1 --on-failure cancel {PLAN}",
    f"wave wait --once --wave 1 {PLAN}",
    *(f"{name} --cluster c {WHERE}" for name in ("cancel", "pause", "resume", "stop", "rate 5", "rate 20", "status")),
    f"verify {PLAN}",
    f"run --dry-run {PLAN}",
)
EVENTS: dict[str, Callable[[Lab], object]] = {
    "time": lambda lab: lab.clock.sleep(7),
    "broker 3 dies": lambda lab: lab.kafka.dead.add(3),
    "broker 1 dies": lambda lab: lab.kafka.dead.add(1),
    "all return": lambda lab: lab.kafka.dead.clear(),
    "somebody sets a rate": lambda lab: lab.kafka.throttles.update({FOREIGN: "7"}),
    "somebody removes all throttles": lambda lab: lab.kafka.throttles.clear(),
    "somebody cancels": lambda lab: lab.kafka.reassign(dict.fromkeys(list(lab.kafka.moves))),
    "copies end": lambda lab: lab.kafka.finish(),
}
ACTIONS = st.one_of(
    st.sampled_from(COMMANDS).map(lambda line: ("type", line, -1, False)),
    st.tuples(st.just("type"), st.sampled_from(COMMANDS), st.integers(0, 60), st.booleans()),
    st.sampled_from(sorted(EVENTS)).map(lambda name: ("event", name, -1, False)),
    st.tuples(st.just("meanwhile"), st.sampled_from(COMMANDS), st.integers(1, 20), st.just(False)),
)


def act(terminal: Terminal, action: tuple[str, str, int, bool]) -> Ended | None:
    """Type a command, which may be killed at a call, or let something happen, now or while a later command sleeps."""
    kind, what, at, is_after = action
    lab = terminal.lab
    if kind == "event":
        EVENTS[what](lab)
        return None
    if kind == "meanwhile":  # in another terminal, after some seconds
        lab.events.append((lab.clock.seconds - lab.begun + at, lambda: type_or_die(terminal, what)))
        return None
    lab.kills.at = len(lab.kills.calls) + at if at >= 0 else -1
    lab.kills.is_after = is_after
    return type_or_die(terminal, what)


def type_or_die(terminal: Terminal, what: str) -> Ended | None:
    """Type a command; None if it is killed."""
    with suppress(Killed):
        return terminal.type(f"./ballast {what}")
    return None


def check(ended: Ended | None, line: str) -> None:
    """No command of the plan is refused by a hold of the plan that it could go on with; errors say what is left."""
    if ended is None or ended.code == 0:
        return
    if line.startswith("run"):
        assert "is held by" not in ended.error, (line, ended)
    for command in re.findall(r"to go on: (\./ballast [^;]+);", " ".join(ended.left)):
        assert command.startswith(("./ballast run", "./ballast rollback")), ended


def end_all(terminal: Terminal) -> list[str]:
    """Everything is well again: type what is printed until the cluster is free; returns the lines."""
    lab = terminal.lab
    lab.kills.at = -1
    lab.events.clear()
    lab.kafka.dead.clear()
    lab.kafka.throttles.pop(FOREIGN, None)
    typed = []
    for _ in range(6):
        hold = terminal.journal.look().holder
        if hold is None:
            break
        command = terminal.journal.look().going_on("c", hold.run_id)
        terminal.type(f"./ballast resume --cluster c {WHERE}")  # a paused wave would wait for ever
        ended = terminal.type(f"{command} --for 60 {WHERE}")
        typed.append(f"{command}: {ended.code} {ended.error}")
    if not terminal.is_free():
        typed.append(str(terminal.type(f"./ballast cancel --cluster c {WHERE}")))
    return typed


@settings(max_examples=WALKS, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.lists(ACTIONS, min_size=1, max_size=7))
@pytest.mark.all_only
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_a_walk_ends_free_with_nothing_left(
    two_waves: tuple[Plan, tuple[Wave, Wave]], tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    """Whatever was typed and killed, the printed commands end it: no throttle of the plan, no copy, no hold."""
    with pytest.MonkeyPatch.context() as patch:
        lab = Lab(*two_waves, FOLDERS.setdefault("walk", tmp_path_factory.mktemp("walk")))
        lab.clock.use(patch, *MODULES)
        terminal = Terminal(lab, patch)
        for action in data:
            check(act(terminal, action), action[1])
        typed = end_all(terminal)
        assert terminal.is_free(), typed
        assert lab.kafka.moves == {}, typed
        assert lab.kafka.throttles == {}, (typed, lab.kafka.throttles)
        lists = lab.kafka.replicas
        wrong = {p for p in BEFORE if sorted(lists[p]) not in (sorted(BEFORE[p]), sorted(AFTER[p]))}
        assert wrong == set()


FOLDERS: dict[str, Any] = {}
