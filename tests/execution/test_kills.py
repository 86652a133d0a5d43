"""A process that is killed at any call: the next one finishes or undoes the wave, and leaves nothing behind."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from execution import journal, moves, steps, throttling
from execution.held import wave_of
from execution.journal import WaveId
from execution.observed import Throttle
from execution.planned import Plan
from execution.steps import Execution, StillMoving
from execution.wanted import Wanted
from execution.wave import Wave
from optimizer.kafka.throttle import FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from tests.execution import lab, rows
from tests.execution.clock import without_waiting
from tests.execution.fake_kafka import FakeKafka, Killed, Kills, MemoryWarehouse
from tests.execution.scene import FakeTools
from tests.execution.warehouse import load_plan, load_wave, plan_of, write_plan

# A cancel of the first and of the last brings the replicas back in another order; the second gets another first one.
CHANGES = {("t", 0): ([1, 2], [2, 3]), ("t", 1): ([1, 2], [3, 1]), ("u", 0): ([4, 1, 2], [2, 5, 4])}
BEFORE = {partition: tuple(before) for partition, (before, _) in CHANGES.items()}
AFTER = {partition: tuple(after) for partition, (_, after) in CHANGES.items()}
OTHER = {("other", 0): (2, 1)}
# A rate, a list of other replicas, a list with some of the wave's replicas, a list of all replicas, and an entry that
# the wave does not need.
THROTTLES: dict[Throttle, str] = {
    ("brokers", "1", LEADER_RATE): "20000000",
    ("topics", "t", LEADER_REPLICAS): "9:9,0:1",
    ("topics", "t", FOLLOWER_REPLICAS): "9:9",
    ("topics", "u", LEADER_REPLICAS): "*",
    ("topics", "other", LEADER_REPLICAS): "0:2",
}


# Directories of replicas that arrive.
PLANNED = {("t", 0, 3): "/a", ("t", 1, 3): "/b", ("u", 0, 5): "/c"}


@dataclass
class Scenario:
    """A wave on a cluster with state; every step is a new process."""

    plan: Plan
    wave: Wave
    folder: Path
    reads: int | None = None

    def __post_init__(self) -> None:
        self.lines: list[str] = []
        self.kills = Kills()
        self.kafka = FakeKafka({**BEFORE, **OTHER}, dict(THROTTLES), self.wave.throttles, self.kills, self.reads)
        self.warehouse = MemoryWarehouse(self.folder, self.kills)

    def process(self, step: str) -> Execution:
        """What ``run_step`` builds; the step off has only the journal."""
        warehouse: Any = self.warehouse
        wave = self.wave
        if step == "off" and any(row["event"] == "held" for row in self.warehouse.stored):
            wave = wave_of(WaveId(1), rows.changes(warehouse, self.plan, 1))
        tools: Any = FakeTools([], is_there=False)
        client = {"bootstrap_servers": "h:1"}
        return Execution(warehouse, self.plan, wave, (), tools, self.kafka, client, self.lines.append)

    def run(self, step: str, *, cancel: bool = False) -> None:
        """Run a step in a new process."""
        process = self.process(step)
        options: dict[str, dict[str, Any]] = {
            "wait": {"every_seconds": 0, "once": False},
            "off": {"cancel": cancel, "accept_owed": False},
        }
        getattr(process, step)(**options.get(step, {}))

    def kill_at(self, number: int, *, is_after: bool) -> None:
        """Kill the process at this call, counted from now; -1 for never."""
        self.kills.calls.clear()
        self.kills.at, self.kills.is_after = number, is_after

    def check_is_clean(self) -> None:
        """The throttles are those from before, the cluster is free, and nothing was copied without throttles."""
        warehouse: Any = self.warehouse
        assert self.kafka.throttles == THROTTLES
        assert self.kafka.moves == {}
        assert rows.holder(warehouse, self.plan.cluster_id) is None
        assert self.kafka.unthrottled == []
        assert self.kafka.moved_inside == []

    def lists(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """The replica lists of the wave; no other partition has changed."""
        lists = dict(self.kafka.replicas)
        assert lists.pop(("other", 0)) == OTHER["other", 0]
        return lists


Start = Callable[..., Scenario]


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Wave]:
    """A plan of one wave, and the throttles that it has found."""
    warehouse = write_plan(tmp_path_factory.mktemp("plan"), plan_of([CHANGES], topic_ids={}))
    return load_plan(warehouse), replace(load_wave(warehouse, 1), previous_throttles=THROTTLES, log_dirs=PLANNED)


@pytest.fixture
def start(planned: tuple[Plan, Wave], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Builds a scenario."""
    without_waiting(monkeypatch, steps, journal, throttling, moves)

    def build(**options: Any) -> Scenario:
        return Scenario(*planned, tmp_path, **options)

    return build


def kills(calls: Sequence[tuple[str, bool]]) -> Iterator[tuple[int, bool]]:
    """Each call, before and after its effect; a read has no effect."""
    for number, (_, is_read) in enumerate(calls):
        yield number, False
        if not is_read:
            yield number, True


WHOLE = ("throttle", "execute", "wait", "off", "verify", "elect")


def run_whole(scenario: Scenario) -> None:
    """Run all steps; a step whose process is killed is run again."""
    for step in WHOLE:
        with suppress(Killed):
            scenario.run(step)
            continue
        scenario.run(step)


@pytest.mark.parametrize("reads", [1, 4, 9])
def test_a_wave_is_finished_after_a_kill_at_any_call(start: Start, reads: int) -> None:
    """Copies end early, in the middle of the step execute, or late."""
    whole = start(reads=reads)
    run_whole(whole)
    calls = list(whole.kills.calls)
    names = {name for name, _ in calls}
    assert {
        "observe",
        "append held",
        "append released",
        "alter topics t",
        "announce to 3",
        "move ('t', 0)",
        "elect",
    } <= names
    for number, is_after in kills(calls):
        scenario = start(reads=reads)
        scenario.kill_at(number, is_after=is_after)
        run_whole(scenario)
        assert scenario.kills.at < len(scenario.kills.calls)
        assert scenario.lists() == AFTER, (number, is_after, calls[number])
        assert scenario.kafka.log_dirs == PLANNED, (number, is_after, calls[number])
        scenario.check_is_clean()
        assert all(scenario.kafka.leaders[partition] == brokers[0] for partition, brokers in AFTER.items())


def test_a_wave_is_finished_after_two_kills(start: Start) -> None:
    """The process that finishes the work of a killed one is killed, too."""
    whole = start(reads=4)
    run_whole(whole)
    for number, is_after in list(kills(whole.kills.calls))[::3]:
        for second in range(0, 24, 4):
            scenario = start(reads=4)
            scenario.kill_at(number, is_after=is_after)
            for step in WHOLE:
                with suppress(Killed):
                    scenario.run(step)
                    continue
                if scenario.kills.at == number:
                    scenario.kill_at(second, is_after=not is_after)
                with suppress(Killed):
                    scenario.run(step)
                    continue
                scenario.kill_at(-1, is_after=False)
                scenario.run(step)
            assert scenario.lists() == AFTER, (number, is_after, second)
            scenario.check_is_clean()


@pytest.mark.parametrize("cancel", [False, True])
def test_a_wave_is_given_up_after_a_kill_at_any_call(start: Start, cancel: bool) -> None:
    """By the step off instead of the killed step; copies that run end first, or are cancelled."""
    whole = start()
    for step in WHOLE[:2]:
        whole.run(step)
    calls = list(whole.kills.calls)
    for number, is_after in kills(calls):
        scenario = start()
        scenario.kill_at(number, is_after=is_after)
        with pytest.raises(Killed):
            for step in WHOLE[:2]:
                scenario.run(step)
        if scenario.kafka.moves and not cancel:
            with pytest.raises(StillMoving):
                scenario.run("off")
            scenario.kafka.finish()
        scenario.run("off", cancel=cancel)
        possible = (BEFORE,) if cancel else (BEFORE, AFTER)
        lists = scenario.lists()
        assert all(lists[p] in [each[p] for each in possible] for p in BEFORE), (number, is_after, calls[number])
        scenario.check_is_clean()


def started(start: Start) -> Scenario:
    """A wave that copies: one partition is done, the others move until they are told to end."""
    scenario = start()
    scenario.run("throttle")
    scenario.run("execute")
    scenario.kafka.finish(("t", 1))
    scenario.kill_at(-1, is_after=False)
    return scenario


CANCELLED = {**BEFORE, ("t", 1): AFTER["t", 1]}


def cancel_calls(start: Start) -> list[tuple[str, bool]]:
    """The calls of a cancel."""
    scenario = started(start)
    scenario.run("off", cancel=True)
    assert scenario.lists() == CANCELLED
    scenario.check_is_clean()
    names = {name for name, _ in scenario.kills.calls}
    assert {"append cancelling", "cancel ('u', 0)", "move ('u', 0)", "append cancelled", "append removing"} <= names
    return scenario.kills.calls


@pytest.mark.parametrize("cancel", [False, True])
def test_a_cancel_is_finished_after_a_kill_at_any_call(start: Start, cancel: bool) -> None:
    """By a plain step off too; if the cancel had not begun, the copies still run under their throttles."""
    calls = cancel_calls(start)
    begins = [name for name, _ in calls].index("append cancelling")
    for number, is_after in kills(calls):
        scenario = started(start)
        scenario.kill_at(number, is_after=is_after)
        with pytest.raises(Killed):
            scenario.run("off", cancel=True)
        expected = CANCELLED
        if not cancel and (number, is_after) < (begins, True):
            with pytest.raises(StillMoving):
                scenario.run("off")
            scenario.kafka.finish()
            expected = AFTER
        scenario.run("off", cancel=cancel)
        assert scenario.lists() == expected, (number, is_after, calls[number])
        scenario.check_is_clean()
        warehouse: Any = scenario.warehouse
        executed = journal.waves_executed(journal.events(warehouse))
        assert bool(executed) is (expected == AFTER), (number, is_after, calls[number])


def test_copies_that_end_between_a_killed_cancel_and_the_next_step_stay(start: Start) -> None:
    """Each partition has its old or its planned list."""
    for number, is_after in kills(cancel_calls(start)):
        scenario = started(start)
        scenario.kill_at(number, is_after=is_after)
        with pytest.raises(Killed):
            scenario.run("off", cancel=True)
        scenario.kafka.finish()
        scenario.run("off")
        assert all(brokers in (BEFORE[p], AFTER[p]) for p, brokers in scenario.lists().items()), (number, is_after)
        scenario.check_is_clean()


def test_a_cancelled_wave_runs_again_after_a_kill_at_any_call(start: Start) -> None:
    """The partitions that were cancelled are copied by a second start."""
    for number, is_after in kills(cancel_calls(start)):
        scenario = started(start)
        scenario.kill_at(number, is_after=is_after)
        with pytest.raises(Killed):
            scenario.run("off", cancel=True)
        scenario.run("off", cancel=True)
        scenario.kafka.reads = 2
        run_whole(scenario)
        assert scenario.lists() == AFTER, (number, is_after)
        assert scenario.kafka.log_dirs == PLANNED, (number, is_after)
        scenario.check_is_clean()


# Throttles of other people on the entries of both waves: a rate, a list of other replicas, and a list of all replicas.
OTHERS: dict[Throttle, str] = {
    ("brokers", "1", LEADER_RATE): "20000000",
    ("topics", "t", LEADER_REPLICAS): "9:9",
    ("topics", "u", LEADER_REPLICAS): "*",
    ("topics", "other", LEADER_REPLICAS): "0:2",
}


@pytest.mark.parametrize("wanted", [None, Wanted(copy_bytes_per_s=2 * lab.RATE)])
def test_a_run_of_two_waves_is_finished_after_a_kill_at_any_call(build: lab.Build, wanted: Wanted | None) -> None:
    """The same command goes on: planned lists, the throttles from before, a free cluster; also after another rate."""

    def scenario() -> lab.Lab:
        result = build(throttles_before=OTHERS, rate_bytes_per_s=lab.SIZE / 4)
        result.waves = (replace(result.waves[0], previous_throttles=OTHERS), result.waves[1])
        result.waves = (result.waves[0], replace(result.waves[1], previous_throttles=OTHERS))
        if wanted:
            result.events.append((2, lambda: result.want(copy_bytes_per_s=wanted.copy_bytes_per_s)))
        return result

    whole = scenario()
    whole.run()
    calls = list(whole.kills.calls)
    names = {name for name, _ in calls}
    assert {"append running", "append held", "append ended", "move ('u', 0)", "alter brokers 5", "stored"} <= names
    for number, is_after in kills(calls):
        after = scenario()
        after.kills.at, after.kills.is_after = number, is_after
        with pytest.raises(Killed):
            after.run()
        after.run()
        assert after.kafka.replicas == lab.AFTER, (number, is_after, calls[number])
        assert after.kafka.throttles == OTHERS, (number, is_after, calls[number])
        assert after.kafka.moves == {}
        assert rows.holder(after.warehouse, after.plan.cluster_id) is None
        assert after.journal()[-1] == journal.ENDED
        assert {wave for *_, wave in journal.waves_executed(journal.events(after.warehouse))} == {1, 2}
