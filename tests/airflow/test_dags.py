"""The DAGs in a real Airflow, over real Kafka: what is asked and executed, and what happens when something dies."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from execution.observed import observe
from execution.tables import Warehouse
from setup.jars import is_ready
from setup.paths import HOME
from tests.airflow.producer import producing
from tests.airflow.server import Airflow, RefusedByAirflow, running
from tests.airflow.site import SETTINGS, of_site, summarise
from tests.execution.warehouse import CLUSTER, RUN, loaded, told
from tests.kafka import cluster as kafka_cluster
from tests.kafka.cluster import Cluster, write_tools
from tests.kafka.lab import BACK_AHEAD_BYTES, RACKS, TOOLS, TOPICS, Lab, disturbed, labs
from tests.pipeline.test_fleet import TORN, folder_of

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.slow]

ONE = [{0: ([1, 2], [1, 3])}]
WAVE = f"{RUN}__wave-001"
STEPS = ("preflight", "begin", "throttle", "execute", "wait", "off", "verify", "more")
# What each scene's site has of its own; it has a copy of the file, as a site has.
SCENES: Mapping[str, Mapping[str, object]] = {
    "approved": {"approvers": ("ann",)},
    "unanswered": {"answer_hours": 4 / 3600},
    "changed": {},
    "dead": {"wave_hours": 50 / 3600},
    "cancelled": {"wave_hours": 20 / 3600, "on_late_wave": "cancel"},
    "killed": {},
    "restarted": {},
    "stopped": {},
    "recreated": {},
    "nightly": {"clusters": ("shop", "torn", "gone"), "approvers": ("ann",), "retries": 0},
}

NIGHT = """\
[[clusters]]
id = "shop"
bootstrap_servers = "{servers}"
kafka_version = "4.3"
drain_brokers = [4]
[[clusters]]
id = "torn"
input = "{home}/torn"
[[clusters]]
id = "gone"
input = "{home}/nowhere"
[schedule]
waves = 3
throttle_mb_per_s = 1
[storage]
warehouse = "{home}/{scene}"
output = "{home}/out"
"""


@dataclass
class Scene:
    """A site: its cluster's plan, and its DAGs."""

    name: str
    airflow: Airflow
    lab: Lab

    @property
    def asking(self) -> str:
        """The DAG that asks."""
        return f"{self.name}_approval__{CLUSTER}"

    @property
    def waving(self) -> str:
        """The DAG that executes."""
        return f"{self.name}_wave__{CLUSTER}"

    def wave(self, number: int = 1, waves: int = 1) -> str:
        """Start a wave as if the plan had been approved before; returns the id of its run."""
        run_id = f"{RUN}__wave-{number:03d}"
        manifest = loaded(self.lab.warehouse).manifest_sha256
        conf = {"plan": RUN, "wave": str(number), "waves": str(waves), "manifest": manifest}
        self.airflow.trigger(self.waving, run_id, conf)
        return run_id

    def copying(self) -> None:
        """Wait until the copies of the wave run."""
        self.airflow.until(lambda: self.lab.copied_bytes(3) > 0, "a copy")

    def events(self) -> list[str]:
        """What was noted of the executions, in order."""
        rows = sorted(self.lab.warehouse.rows("executions"), key=lambda row: int(row["number"]))
        return [row["event"] for row in rows]

    def done(self, run_id: str = WAVE) -> None:
        """The wave ended as it should: all green, the lists the plan's, no throttle, executed once."""
        ended = self.airflow.ended(self.waving, run_id)
        assert ended == {"": "success", "next_wave": "skipped", "elect": "success", **dict.fromkeys(STEPS, "success")}
        assert (self.lab.lists(), self.lab.now().throttles) == ([(1, 3)], {})
        assert self.events().count("executed") == 1
        assert self.events()[-1] == "released"


MakeScene = Callable[..., Scene]


@dataclass
class Field:
    """One Kafka and one Airflow for all scenes."""

    home: Path
    kafka: Cluster
    tools: Path
    airflow: Airflow


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    """Four brokers, and an Airflow with a copy of the file for each scene."""
    if not all(is_ready(jars) for jars in TOOLS.values()):
        pytest.skip("Kafka's JARs are not there: run setup/kafka-jars.sh")
    home = tmp_path_factory.mktemp("field")
    tools = write_tools(home / "tools", TOOLS["4.3"])
    airflow = Airflow(home / "airflow")
    with kafka_cluster.running(home / "kafka", RACKS) as kafka:
        for scene, own in SCENES.items():
            config = home / f"{scene}.toml"
            text = NIGHT if scene == "nightly" else SETTINGS
            config.write_text(text.format(home=home, scene=scene, servers=kafka.bootstrap))
            usual = {
                "clusters": own.get("clusters", (CLUSTER,)),
                "home": str(HOME),
                "config": str(config),
                "kafka_bin": str(tools),
            }
            quick = {"poll_seconds": 5, "retry_seconds": 3, "off_minutes": 0.1, "plan_age_hours": 1e9, "schedule": None}
            (airflow.dags / f"{scene}.py").write_text(of_site(scene, **{**usual, **quick, **own}))
        with running(airflow):
            wanted = {f"{scene}_nightly" for scene in SCENES}
            airflow.until(lambda: wanted <= airflow.known(), "the files of DAGs", 60)
            yield Field(home, kafka, tools, airflow)


@pytest.fixture
def scene(field: Field) -> Iterator[MakeScene]:
    """Makes the topic and the plan of a scene; one that fails in its middle leaves the cluster as it was."""
    scenes: list[Scene] = []
    with labs(field.kafka, {"4.3": field.tools}, field.home) as make:

        def made(name: str, waves: Any = ONE, *, megabytes: int = 8, approved: bool = True) -> Scene:
            lab = make(name, waves, megabytes=megabytes, approved=approved)
            summarise(lab.warehouse, "1 move\n")
            scenes.append(Scene(name, field.airflow, lab))
            return scenes[-1]

        yield made
        if not field.kafka.is_running(3):
            field.kafka.start_broker(3)
        for one in scenes:
            if one.lab.now().throttles:
                one.lab.step("off", 1, "--on-failure", "cancel")


def test_a_plan_is_asked_for_and_executed_wave_by_wave(scene: MakeScene) -> None:
    """Who is named may answer, once; then each wave starts the next, and the last one elects the leaders."""
    two = scene("approved", [{0: ([1, 2], [1, 3])}, {1: ([2, 1], [4, 2])}], megabytes=16, approved=False)
    two.airflow.trigger(two.asking, RUN, {"plan": RUN})
    for stranger in ("vic", "bob"):
        with pytest.raises(RefusedByAirflow) as refused:
            two.airflow.answer(two.asking, RUN, "Approve", user=stranger)
        assert refused.value.status == 403
    two.airflow.answer(two.asking, RUN, "Approve", user="ann")
    asked = two.airflow.ended(two.asking, RUN)
    assert set(asked.values()) == {"success"}, asked
    two.copying()
    assert two.lab.keeps_its_rate(3)
    two.airflow.until(lambda: f"{RUN}__wave-002" in two.airflow.runs(two.waving), "the second wave")
    first, second = (two.airflow.ended(two.waving, f"{RUN}__wave-00{n}") for n in (1, 2))
    assert (first["next_wave"], first["elect"], first[""]) == ("success", "skipped", "success")
    assert (second["next_wave"], second["elect"], second[""]) == ("skipped", "success", "success")
    assert (two.lab.lists(), two.lab.now().throttles) == ([(1, 3), (4, 2)], {})
    described = two.lab.cluster.tool(TOPICS, "--describe", "--topic", "approved")
    assert re.findall(r"Leader: (\d)", described) == ["1", "4"]
    (approval,) = two.lab.warehouse.rows("approvals")
    assert (approval["approved_by"], approval["manifest_sha256"]) == ("ann", loaded(two.lab.warehouse).manifest_sha256)
    with pytest.raises(RefusedByAirflow) as again:
        two.airflow.trigger(two.asking, RUN, {"plan": RUN})
    assert again.value.status == 409
    two.airflow.clear(two.asking, RUN, task_ids=["first_wave"])
    assert two.airflow.ended(two.asking, RUN)["first_wave"] == "skipped"
    assert two.events().count("executed") == 2


def test_without_a_yes_nothing_is_touched(scene: MakeScene) -> None:
    """No answer ends clean, a plan that was refused fails at once; no wave is started."""
    one = scene("unanswered", megabytes=1, approved=False)
    one.airflow.trigger(one.asking, "late", {"plan": RUN})
    assert one.airflow.ended(one.asking, "late") == {
        "": "success", "look": "success", "facts": "success", "question": "success",
        "approve": "skipped", "first_wave": "skipped",
    }  # fmt: skip
    told(one.lab.warehouse, None, verdict="refused", attempt=2, exit_code=3)
    one.airflow.trigger(one.asking, "refused", {"plan": RUN})
    refused = one.airflow.ended(one.asking, "refused")
    assert (refused["look"], refused["question"], refused[""]) == ("failed", "upstream_failed", "failed")
    assert one.airflow.tries(one.asking, "refused", "look") == 1
    assert "run 'r' has no plan for cluster 'c': it is refused" in one.airflow.log(one.asking, "refused", "look")
    for wrong in ("a; rm -rf /", "--conf=x y"):
        with pytest.raises(RefusedByAirflow) as param:
            one.airflow.trigger(one.asking, "wrong", {"plan": wrong})
        assert param.value.status == 400
    assert one.airflow.runs(one.waving) == {}
    assert (one.lab.lists(), one.lab.warehouse.rows("approvals")) == ([(1, 2)], [])


def test_a_document_that_was_changed_is_not_executed(scene: MakeScene) -> None:
    """The wave ends at its first look with the file's name, and is not tried again."""
    one = scene("changed", megabytes=1)
    documents = DeltaTable(f"{one.lab.warehouse.path}/documents")
    documents.update(updates={"content": "content || ' '"}, predicate="path = 'c/wave-01/reassignment.json'")
    ended = one.airflow.ended(one.waving, one.wave())
    assert (ended["preflight"], ended["begin"], ended["off"]) == ("failed", "upstream_failed", "upstream_failed")
    assert one.airflow.tries(one.waving, WAVE, "preflight") == 1
    log = one.airflow.log(one.waving, WAVE, "preflight")
    assert "wave-01/reassignment.json is not what the manifest names: it was changed after the run" in log
    assert (one.lab.lists(), one.events(), one.lab.now().throttles) == ([(1, 2)], [], {})


def test_a_dead_target_ends_red_under_throttles_and_goes_on_when_cleared(scene: MakeScene) -> None:
    """The log says what it waits for and what to do; a broker that is back copies at its rate; cleared, it ends."""
    one = scene("dead", megabytes=24)
    one.wave()
    one.copying()
    one.lab.cluster.stop_broker(3, signal.SIGKILL)
    ended = one.airflow.ended(one.waving, WAVE)
    shown = [ended[name] for name in ("execute", "wait", "off", "verify", "next_wave", "elect", "")]
    assert shown == ["success", "failed", "failed", "upstream_failed", "upstream_failed", "upstream_failed", "failed"]
    log = one.airflow.log(one.waving, WAVE, "wait")
    assert "brokers 3 are not alive, copies wait for them" in log
    assert "wave off --on-failure cancel" in log
    assert len([key for key in one.lab.now().throttles if key[0] == "topics"]) == 2
    had, back = one.lab.stored_bytes(3), time.monotonic()
    one.lab.cluster.start_broker(3)
    assert one.lab.ahead_bytes(3, back, had) <= BACK_AHEAD_BYTES
    assert one.lab.now().in_flight
    one.airflow.clear(one.waving, WAVE, only_failed=True)
    one.done()


def test_a_late_wave_is_cancelled_where_the_site_says_so(scene: MakeScene) -> None:
    """Its lists are those of before; the rate of the dead broker is owed, and taken off when it is back."""
    one = scene("cancelled", megabytes=24)
    one.wave()
    one.copying()
    one.lab.cluster.stop_broker(3, signal.SIGKILL)
    ended = one.airflow.ended(one.waving, WAVE)
    assert [ended[name] for name in ("wait", "off", "verify", "")] == ["failed", "failed", "upstream_failed", "failed"]
    assert "owed: brokers 3 follower.replication.throttled.rate" in one.airflow.log(one.waving, WAVE, "off")
    assert (one.lab.lists(), one.lab.now().in_flight) == ([(1, 2)], {})
    one.lab.cluster.start_broker(3)
    one.airflow.clear(one.waving, WAVE, task_ids=["off"])
    assert one.airflow.ended(one.waving, WAVE)["off"] == "success"
    assert (one.lab.now().throttles, one.events()[-1]) == ({}, "released")


def pids_of(*words: str) -> list[int]:
    """Processes whose command line has all these words."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if all(word in line for word in words):
                found.append(int(folder.name))
    return found


def parent_of(pid: int) -> int:
    """The process that started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_task(one: Scene, step: str) -> None:
    """Kill the process of a task while its command runs; the command goes on."""
    ours = ("wave", step, f"{one.name}.toml", "--run-id")

    def is_running() -> bool:
        for pid in pids_of("bash", "-c", *ours) or pids_of("-m execution", *ours):
            with suppress(OSError):
                os.kill(parent_of(pid), signal.SIGKILL)
                return True
        return False

    one.airflow.until(is_running, f"a process of {step}")


def test_killed_tasks_are_done_again(scene: MakeScene) -> None:
    """Killed while throttles are set, while the copies are started, and in mid-wave: executed once, never bare."""
    one = scene("killed", megabytes=30)
    one.wave()
    for step in ("throttle", "execute", "wait"):
        kill_task(one, step)
    assert one.lab.keeps_its_rate(3)
    one.done()
    assert one.airflow.tries(one.waving, WAVE, "throttle") == 2


def test_a_scheduler_that_is_killed_in_mid_wave_goes_on(scene: MakeScene) -> None:
    """With all tasks that it had started; started again it brings the wave to its end, executed once."""
    one = scene("restarted", megabytes=30)
    one.wave()
    one.copying()
    one.airflow.kill("scheduler")
    assert one.lab.keeps_its_rate(3)
    assert len(one.lab.now().throttles) == 5
    one.airflow.start("scheduler")
    one.done()


def test_runs_that_are_stopped_or_doubled_by_hand_do_no_harm(scene: MakeScene) -> None:
    """A second run waits for the first; marked failed in mid-wave that leaves its throttles, and the second ends it."""
    one = scene("stopped", megabytes=40)
    one.wave()
    one.copying()
    path = f"/api/v2/dags/{one.waving}/dagRuns/{WAVE}"
    one.airflow.trigger(one.waving, "again", one.airflow.call("GET", path)["conf"])
    assert one.airflow.runs(one.waving) == {WAVE: "running", "again": "queued"}
    one.airflow.call("PATCH", path, {"state": "failed"})
    assert one.airflow.ended(one.waving, WAVE)["off"] == "failed"
    assert "still moving, throttles stay" in one.airflow.log(one.waving, WAVE, "off")
    assert len(one.lab.now().throttles) == 5
    assert one.lab.keeps_its_rate(3)
    again = one.airflow.ended(one.waving, "again")
    assert set(again.values()) == {"success", "skipped"}, again
    assert "has been started already" in one.airflow.log(one.waving, "again", "execute")
    assert (one.lab.lists(), one.lab.now().throttles) == ([(1, 3)], {})


def test_what_others_did_stops_a_wave_before_it_starts(scene: MakeScene) -> None:
    """A foreign move, a foreign throttle and a topic made anew are told, and nothing is touched; nor after a no."""
    one = scene("recreated", megabytes=1)
    one.airflow.trigger(one.asking, RUN, {"plan": RUN})
    one.airflow.answer(one.asking, RUN, "Reject", user="ann")
    refused = one.airflow.ended(one.asking, RUN)
    assert (refused["question"], refused["approve"], refused["first_wave"]) == ("success", "skipped", "skipped")
    with disturbed(one.lab):
        ended = one.airflow.ended(one.waving, one.wave())
        assert (ended["preflight"], ended["execute"], ended["off"]) == ("failed", "upstream_failed", "upstream_failed")
        assert one.airflow.tries(one.waving, WAVE, "preflight") == 1
        log = one.airflow.log(one.waving, WAVE, "preflight")
        assert "deleted and made anew since the plan: recreated" in log
        assert "1 other partitions are being reassigned: foreign-0" in log
        assert "set by others since the plan: brokers 4 leader.replication.throttled.rate=200000" in log
        assert (one.lab.lists(), one.events()) == ([(1, 2)], [])


SHOP = {0: [4, 1], 1: [1, 2], 2: [2, 4], 3: [4, 3], 4: [3, 2], 5: [4, 2]}
NIGHT_ID = "20261102T010000"


def test_a_fleet_is_planned_at_night_and_who_has_a_plan_is_moved(field: Field) -> None:
    """One cluster is refused, one can't be read; the third is asked for, emptied wave by wave, and loses nothing."""
    kafka, airflow = field.kafka, field.airflow
    assignment = ",".join(":".join(map(str, replicas)) for replicas in SHOP.values())
    kafka.tool(TOPICS, "--create", "--topic", "shop", "--replica-assignment", assignment)
    lines = b"".join(b"%d:%s\n" % (number % 100, b"x" * 9_990) for number in range(2_400))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    kafka.tool("org.apache.kafka.tools.ConsoleProducer", "--topic", "shop", *keyed, stdin=lines)
    folder_of(field.home, "torn", describe=TORN)
    night, logical = "night", "2026-11-02T01:00:00Z"
    with producing(kafka.bootstrap, "shop") as sent:
        airflow.command("dags", "unpause", "nightly_nightly")
        airflow.trigger("nightly_nightly", night, logical_date=logical)
        planned = airflow.ended("nightly_nightly", night)
        assert planned == {
            "": "failed", "plan": "failed",
            "shop.gate": "success", "shop.summary": "success", "shop.ask": "success",
            "torn.gate": "failed", "torn.summary": "upstream_failed", "torn.ask": "upstream_failed",
            "gone.gate": "failed", "gone.summary": "upstream_failed", "gone.ask": "upstream_failed",
        }, airflow.log("nightly_nightly", night, "plan")[-3000:]  # fmt: skip
        assert "replicas [2,2] name a broker twice" in airflow.log("nightly_nightly", night, "torn.gate")
        assert f"there is no folder {field.home}/nowhere" in airflow.log("nightly_nightly", night, "gone.gate")
        with pytest.raises(RefusedByAirflow) as again:
            airflow.trigger("nightly_nightly", "again", logical_date=logical)
        assert again.value.status == 409
        airflow.answer("nightly_approval__shop", NIGHT_ID, "Approve", user="ann")
        waves = [f"{NIGHT_ID}__wave-00{number}" for number in (1, 2, 3)]
        for number, run_id in enumerate(waves, start=1):
            airflow.until(lambda run_id=run_id: run_id in airflow.runs("nightly_wave__shop"), run_id)
            wave = airflow.ended("nightly_wave__shop", run_id)
            after, other = ("next_wave", "elect") if number < 3 else ("elect", "next_wave")
            assert wave == {**dict.fromkeys(("", *STEPS, after), "success"), other: "skipped"}, run_id
    warehouse = Warehouse(str(field.home / "nightly"))
    wanted = {row["partition"]: tuple(row["proposed_replicas"]) for row in warehouse.rows("plan", cluster_id="shop")}
    now = observe({"bootstrap_servers": kafka.bootstrap})
    assert {number: now.replicas["shop", number] for number in SHOP} == wanted
    assert all(4 not in replicas for replicas in wanted.values())
    assert now.throttles == {}
    described = kafka.tool(TOPICS, "--describe", "--topic", "shop")
    assert [int(one) for one in re.findall(r"Leader: (\d)", described)] == [wanted[number][0] for number in SHOP]
    assert len(sent.numbers) > 100
    assert (sent.failed, sent.lost()) == (0, set())
    airflow.clear("nightly_nightly", night, task_ids=["plan"])
    airflow.until(lambda: airflow.tries("nightly_nightly", night, "plan") == 2, "the second try")
    assert airflow.ended("nightly_nightly", night)["plan"] == "failed"
    assert "cluster shop was approved by ann" in airflow.log("nightly_nightly", night, "plan")
    kafka.tool(TOPICS, "--delete", "--topic", "shop")
