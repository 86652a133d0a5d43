"""Brokers that a plan empties are cordoned: before the first copy, until a rollback or a person ends it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from execution import cordons, journal, moves, steps, throttling
from execution.journal import Journal
from execution.observed import Throttle
from execution.planned import Plan
from execution.preflight import problems
from execution.run import say_changes
from execution.steps import Execution, Owed
from execution.throttles import Setting
from execution.wave import NO_WAVE, Wave, rollback_of
from optimizer.kafka.cordon import CORDON
from stored.cordons import Cordon
from stored.verdicts import Refused
from tests.execution.clock import without_waiting
from tests.execution.fake_kafka import FakeKafka, Killed, Kills, MemoryWarehouse
from tests.execution.scene import FakeTools
from tests.execution.warehouse import CLUSTER, RUN, load_plan, load_wave, plan_of, write_plan

DRAINED = 4
KEY = ("brokers", str(DRAINED), CORDON)
CHANGES = {("t", 0): ([1, 4], [1, 2]), ("t", 1): ([4, 2], [3, 2])}
LISTS = [{"topic": t, "partition": p, "replicas": after} for (t, p), (_, after) in CHANGES.items()]
REASSIGNMENT = json.dumps({"version": 1, "partitions": LISTS})
RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b"}
# None, a directory, all directories, and an empty value, which is not None: it overrides the broker's own file.
BEFORE = (None, "/d0", "*", "")


@dataclass
class Drain:
    """A plan that empties broker 4 in one wave; every step is a new process."""

    plan: Plan
    wave: Wave
    folder: Path
    before: str | None = None
    cordon: bool = True
    anyway: bool = False
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kills = Kills()
        found: dict[Throttle, str] = {} if self.before is None else {KEY: self.before}
        replicas = {partition: tuple(before) for partition, (before, _) in CHANGES.items()}
        self.kafka = FakeKafka(replicas, found, self.wave.throttles, self.kills, 2, racks=dict(RACKS))
        self.warehouse = MemoryWarehouse(self.folder, self.kills)
        whole = {"kind": "reassignment", "wave": 0, "path": f"{CLUSTER}/reassignment.json", "content": REASSIGNMENT}
        self.warehouse.documents = [{"cluster_id": CLUSTER, "run_id": RUN, **whole}]

    def process(self, wave: Wave | None = None) -> Execution:
        """The steps of the wave, or of another one."""
        warehouse: Any = self.warehouse
        tools: Any = FakeTools([], is_there=False)
        client = {"bootstrap_servers": "h:1"}
        of_wave = (warehouse, self.plan, wave or self.wave, (), tools, self.kafka, client, self.lines.append)
        return Execution(*of_wave, cordons_drained=self.cordon, cordons_anyway=self.anyway)

    def run(self, wave: Wave | None = None) -> None:
        """All steps of the wave, or of its rollback."""
        self.process(wave).throttle()
        self.process(wave).execute()
        self.process(wave).wait(every_seconds=0, once=False)
        self.process(wave).off(cancel=False, accept_owed=False)
        if wave is None:
            self.process().elect()

    def last(self) -> Cordon:
        """The cordon in the journal."""
        warehouse: Any = self.warehouse
        return Journal(warehouse, self.plan.cluster_id).look().last_cordons[DRAINED]

    @property
    def value(self) -> str | None:
        """The config of the broker."""
        return self.kafka.throttles.get(KEY)

    def events(self) -> list[str]:
        """The events of the journal in order."""
        return [row["event"] for row in self.warehouse.stored]


Start = Callable[..., Drain]


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Wave]:
    """The plan and its wave."""
    warehouse = write_plan(tmp_path_factory.mktemp("plan"), plan_of([CHANGES], topic_ids={}))
    plan = load_plan(warehouse)
    digests = {"reassignment.json": hashlib.sha256(REASSIGNMENT.encode()).hexdigest()}
    manifest = {**plan.manifest, "drain_brokers": [DRAINED], "sha256": digests}
    return replace(plan, manifest=manifest), load_wave(warehouse, 1)


@pytest.fixture
def start(planned: tuple[Plan, Wave], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Builds a drain."""
    without_waiting(monkeypatch, cordons, steps, journal, throttling, moves)

    def build(**options: Any) -> Drain:
        return Drain(*planned, tmp_path, **options)

    return build


@pytest.mark.parametrize("before", BEFORE)
def test_a_drained_broker_is_cordoned_until_a_rollback(start: Start, before: str | None) -> None:
    """It stays after the last wave; a rollback gives the broker its old value before anything is copied there."""
    drain = start(before=before)
    drain.run()
    assert drain.value == "*"
    if before != "*":  # somebody else's cordon is nobody's to end
        assert drain.events().index("cordoned") < drain.events().index("starting")
        assert drain.last() == replace(drain.last(), before=before, is_set=True, is_in_force=True)
        assert any("broker 4 is empty and cordoned" in line and "controller:9093" in line for line in drain.lines)
    back = rollback_of(drain.wave)
    problem = "broker 4 is cordoned"
    assert any(line.startswith(problem) for line in drain.process(back).problems(drain.kafka.observe(), ())) == (
        before == "*"
    )
    if before != "*":
        drain.run(back)
        assert (drain.value, "broker 4 may get replicas again" in drain.lines) == (before, True)
        moves = [number for number, (name, _) in enumerate(drain.kills.calls) if name.startswith("move")]
        assert drain.kills.calls.index(("append uncordoned", False)) < moves[-2]
        drain.run()  # forward again: the plan cordons it again
        assert drain.value == "*"


@pytest.mark.parametrize("before", [None, "/d0", ""])
@pytest.mark.parametrize("is_after", [False, True])
def test_a_killed_throttle_step_is_finished_by_the_next(start: Start, before: str | None, *, is_after: bool) -> None:
    """At every call between the row ``cordoning`` and ``cordoned``: the value from before is still known."""
    whole = start(before=before)
    whole.process().throttle()
    calls = len(whole.kills.calls)
    for number in range(calls):
        drain = start(before=before)
        drain.kills.at, drain.kills.is_after = number, is_after
        with pytest.raises(Killed):
            drain.process().throttle()
        drain.kills.at = -1
        drain.run()
        assert (drain.value, drain.last().before, drain.last().is_set) == ("*", before, True), number
        drain.process(NO_WAVE).uncordon([DRAINED])
        assert (drain.value, drain.last().is_in_force) == (before, False), number


def test_a_killed_removal_is_finished_by_the_next(start: Start) -> None:
    """At every call of ``uncordon``."""
    whole = start()
    whole.run()
    first = len(whole.kills.calls)
    whole.process(NO_WAVE).uncordon([DRAINED])
    for number in range(first, len(whole.kills.calls)):
        drain = start()
        drain.kills.at, drain.kills.is_after = number, True
        drain.run()
        with pytest.raises(Killed):
            drain.process(NO_WAVE).uncordon([DRAINED])
        if drain.last().is_in_force:
            drain.process(NO_WAVE).uncordon([DRAINED])
        assert (drain.value, drain.last().is_in_force) == (None, False), number


def test_what_somebody_else_has_changed_stays(start: Start) -> None:
    """Neither set again nor removed, and said."""
    drain = start()
    drain.process().throttle()
    drain.kafka.throttles[KEY] = "/d1"
    drain.process().throttle()
    assert drain.value == "/d1"
    assert "left: somebody else has changed the cordon of broker 4: cordoned.log.dirs is /d1" in drain.lines
    drain.process(NO_WAVE).uncordon([DRAINED])
    assert drain.value == "/d1"
    assert "left: brokers 4 cordoned.log.dirs=/d1 was set by somebody else and stays" in drain.lines


def test_a_person_ends_it_for_this_plan(start: Start) -> None:
    """After ``uncordon`` by hand the plan does not cordon the broker again."""
    drain = start()
    drain.process().throttle()
    drain.process(NO_WAVE).uncordon([DRAINED], by="ann")
    drain.run()
    assert drain.value is None


def test_a_later_plan_takes_the_cordon_over(start: Start) -> None:
    """With the value from before the first plan, so that its rollback restores that."""
    drain = start(before="/d0")
    drain.run()
    drain.plan = replace(drain.plan, run_id="next")
    drain.warehouse.documents[0]["run_id"] = "next"
    drain.process()._cordon(drain.kafka.observe())
    assert (drain.last().run_id, drain.last().before, drain.last().is_set) == ("next", "/d0", True)
    drain.process(NO_WAVE).uncordon([DRAINED])
    assert drain.value == "/d0"


def test_an_old_kafka_is_not_asked_to_cordon(start: Start) -> None:
    """One line, and the drain goes on."""
    drain = start()
    drain.kafka.level = 29
    drain.run()
    assert drain.value is None
    line = "not cordoned: Kafka too old (metadata.version below 4.3), so new topics may come to broker 4"
    assert drain.lines.count(line) == 1
    assert "cordoning" not in drain.events()


def test_nothing_is_cordoned_if_the_configuration_says_so(start: Start) -> None:
    """``[execution] cordon = "off"``."""
    drain = start(cordon=False)
    drain.run()
    assert (drain.value, "cordoning" in drain.events()) == (None, False)


def test_a_dead_broker_is_cordoned_when_it_is_back(start: Start) -> None:
    """At a look of the watch, at most once a minute; when it answers, and if it is not the last one of its rack."""
    drain = start()
    drain.kafka.dead.add(DRAINED)
    step = replace(drain.process(), accepts_risk=True)
    step.throttle()
    drain.kafka.dead.clear()
    drain.kafka.quiet.add(DRAINED)
    step.cordon_returned(drain.kafka.observe(), 0.0)
    drain.kafka.quiet.clear()
    step.cordon_returned(drain.kafka.observe(), 59.0)
    assert "cordoning" not in drain.events()
    drain.kafka.racks[DRAINED] = "d"
    step.cordon_returned(drain.kafka.observe(), 60.0)
    assert ("cordoning" in drain.events(), "rack d has no broker" in drain.lines[-1]) == (False, True)
    drain.kafka.racks[DRAINED] = "a"
    step.cordon_returned(drain.kafka.observe(), 120.0)
    assert (drain.value, drain.last().is_set) == ("*", True)


@pytest.mark.parametrize("before", [None, "/d0"])
def test_a_broker_that_dies_with_its_new_cordon_keeps_its_old_value(start: Start, before: str | None) -> None:
    """Nobody has seen the config, and it is there: the next step finds it, and the value from before is known."""
    drain = start(before=before)
    alter = drain.kafka.alter

    def dies(changes: Mapping[Throttle, Setting]) -> dict[Throttle, str]:
        refused = alter(changes)
        drain.kafka.quiet.update({DRAINED} if KEY in changes else ())
        return refused

    drain.kafka.alter = dies  # type: ignore[method-assign]
    drain.process().throttle()
    assert (drain.last().is_in_force, drain.last().is_set) == (True, False)
    assert any("broker 4 does not answer any more" in line for line in drain.lines)
    drain.kafka.quiet.clear()
    drain.kafka.alter = alter  # type: ignore[method-assign]
    drain.run()
    assert (drain.last().is_set, drain.last().before) == (True, before)
    drain.process(NO_WAVE).uncordon([DRAINED])
    assert drain.value == before


def test_what_kafka_refuses_is_not_in_force(start: Start) -> None:
    """The wave goes on without a cordon, and a later step tries again."""
    drain = start()
    drain.kafka.alter = lambda changes: dict.fromkeys(changes, "no")  # type: ignore[method-assign]
    drain.process()._cordon(drain.kafka.observe())
    assert f"not cordoned: brokers {DRAINED} cordoned.log.dirs=*: no" in drain.lines
    assert (drain.last().is_in_force, drain.events()[-1]) == (False, "uncordoned")


def test_a_controller_that_does_not_know_it_is_said(start: Start) -> None:
    """Another broker that is dead does not count: Kafka counts those that are registered."""
    for knows, said in ((True, False), (False, True)):
        drain = start()
        drain.kafka.dead.add(5)
        if not knows:
            drain.kafka.lacks_brokers = lambda count: False  # type: ignore[method-assign]
        drain.process()._cordon(drain.kafka.observe())
        assert any("the controller has not confirmed it" in line for line in drain.lines) == said


def test_a_value_that_somebody_has_set_after_a_rollback_stays(start: Start) -> None:
    """It is not the plan's, also if the plan goes forward again."""
    drain = start()
    drain.run()
    drain.run(rollback_of(drain.wave))
    drain.kafka.throttles[KEY] = "*"
    drain.run()
    assert not drain.last().is_in_force


def test_an_empty_value_that_somebody_has_deleted_is_said(start: Start) -> None:
    """An absent value and an empty one differ: the empty one overrides the broker's file."""
    drain = start(before="")
    drain.process().throttle()
    del drain.kafka.throttles[KEY]
    drain.process(NO_WAVE).uncordon([DRAINED])
    assert any("was removed by somebody else and is not set again" in line for line in drain.lines)
    assert not any("may get replicas again" in line for line in drain.lines)


def test_a_dead_broker_owes_its_cordon(start: Start) -> None:
    """The message has the command for the controllers; with ``--accept-owed`` the journal forgets it."""
    drain = start()
    drain.run()
    drain.kafka.dead.add(DRAINED)
    command = r"--bootstrap-controller controller:9093 --alter .* --entity-name 4 --delete-config cordoned.log.dirs"
    with pytest.raises(Owed, match=command):
        drain.process(NO_WAVE).uncordon([DRAINED])
    assert drain.last().is_in_force
    drain.process(NO_WAVE).uncordon([DRAINED], accept_owed=True)
    assert not drain.last().is_in_force
    assert not any("may get replicas again" in line for line in drain.lines)


@pytest.mark.parametrize(
    ("racks", "dead", "factor", "expected"),
    [
        pytest.param(
            {**RACKS, 4: "d"}, (), 2, ["rack d has no broker for replicas of new topics"], id="last of a rack"
        ),
        pytest.param(RACKS, (5,), 4, ["3 brokers would be open, but topic wide has 4 replicas"], id="factor"),
        pytest.param(dict.fromkeys(RACKS), (), 2, [], id="no racks"),
        pytest.param(RACKS, (), 4, [], id="enough"),
    ],
)
def test_a_cordon_that_would_hurt_is_refused(
    start: Start, racks: Mapping[int, str | None], dead: tuple[int, ...], factor: int, expected: list[str]
) -> None:
    """Before anything is changed, unless ``--cordon-anyway`` accepts it."""
    drain = start()
    drain.kafka.racks, drain.kafka.dead = dict(racks), {*dead}
    drain.kafka.replicas["wide", 0] = (1, 2, 3, 4)[:factor]
    drain.kafka.leaders["wide", 0] = 1
    found = drain.process().problems(drain.kafka.observe(), ())
    assert [line.split(", ", 1)[1].split(";")[0].split(":")[0] for line in found] == expected
    if expected:
        with pytest.raises(Refused, match="--cordon-anyway"):
            drain.process().throttle()
        assert (drain.value, drain.events()) == (None, [])
    drain.anyway = True
    drain.process().throttle()
    assert drain.value == "*"


def test_partitions_in_no_wave_are_named(start: Start) -> None:
    """A topic that was made since the snapshot: at the cordon, and when the plan has ended."""
    drain = start()
    drain.kafka.replicas["new", 0] = (1, DRAINED)
    drain.kafka.leaders["new", 0] = 1
    drain.process()._cordon(drain.kafka.observe())
    assert "broker 4 keeps new-0: no wave of this plan moves it; plan again after it" in drain.lines
    drain.run()
    assert "broker 4 is not empty, it has new-0: plan again" in drain.lines


def test_a_target_that_somebody_has_cordoned_stops_the_wave(start: Start) -> None:
    """Kafka would accept the copies; for a rollback the plan's own cordon does not count."""
    drain = start()
    drain.kafka.throttles["brokers", "2", CORDON] = "*"
    now = drain.kafka.observe()
    (line,) = problems(drain.wave, now, earlier=(), strict=False, configs="kafka-configs.sh")
    assert line.startswith("broker 2 is cordoned, so nothing is copied there; plan again")
    assert line.endswith("--entity-type brokers --entity-name 2 --delete-config cordoned.log.dirs")
    (line,) = problems(drain.wave, now, earlier=(), strict=False, uncordon={2: "./ballast uncordon 2"})
    assert line.endswith("./ballast uncordon 2")  # of another plan


def test_a_dry_run_names_what_would_be_set(start: Start) -> None:
    """Also why it would be refused, and that Kafka is too old."""
    drain = start()
    say_changes(drain.process(), drain.kafka.observe(), [], is_first=True)
    assert f"would set brokers {DRAINED} cordoned.log.dirs=*" in drain.lines
    drain.kafka.level = 29
    say_changes(drain.process(), drain.kafka.observe(), [], is_first=True)
    assert any(line.startswith("not cordoned: Kafka too old") for line in drain.lines)
    drain.kafka.racks[DRAINED], drain.kafka.level = "d", 30
    say_changes(drain.process(), drain.kafka.observe(), [], is_first=True)
    assert any(line.startswith("problem: with broker 4 cordoned, rack d has no broker") for line in drain.lines)
    assert (drain.value, drain.events()) == (None, [])
