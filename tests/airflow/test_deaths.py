"""Waves in a real Airflow with a real Kafka, when a broker, a task, the scheduler or a run dies during the wave."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.airflow.scene import WAVE, MakeScene, Scene
from tests.kafka.lab import BACK_AHEAD_BYTES

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.all_only]


def test_a_wave_with_a_dead_target_fails_and_continues_when_cleared(make_scene: MakeScene) -> None:
    """The log says what the wave waits for and what to do. A broker that is back copies at its rate. Once cleared, the
    wave ends."""
    scene = make_scene("dead", megabytes=24)
    scene.wave()
    scene.copying()
    scene.lab.cluster.stop_broker(3, signal.SIGKILL)
    ended = scene.airflow.ended(scene.waving, WAVE)
    shown = [ended[name] for name in ("execute", "wait", "off", "verify", "next_wave", "elect", "")]
    assert shown == ["success", "failed", "failed", "upstream_failed", "upstream_failed", "upstream_failed", "failed"]
    log = scene.airflow.log(scene.waving, WAVE, "wait")
    assert "broker 3 is not alive, copies wait for it" in log
    assert "wave off --on-failure cancel" in log
    assert len([key for key in scene.lab.now().throttles if key[0] == "topics"]) == 2
    had, back = scene.lab.stored_bytes(3), time.monotonic()
    scene.lab.cluster.start_broker(3)
    assert scene.lab.ahead_bytes(3, back, had) <= BACK_AHEAD_BYTES
    assert scene.lab.now().in_flight
    scene.airflow.clear(scene.waving, WAVE, only_failed=True)
    scene.done()


def test_a_late_wave_is_cancelled_if_the_site_says_so(make_scene: MakeScene) -> None:
    """It gets its old lists; the dead broker keeps its rate, which is removed when the broker is back."""
    scene = make_scene("cancelled", megabytes=24)
    scene.wave()
    scene.copying()
    scene.lab.cluster.stop_broker(3, signal.SIGKILL)
    ended = scene.airflow.ended(scene.waving, WAVE)
    assert [ended[name] for name in ("wait", "off", "verify", "")] == ["failed", "failed", "upstream_failed", "failed"]
    assert "owed: brokers 3 follower.replication.throttled.rate" in scene.airflow.log(scene.waving, WAVE, "off")
    assert (scene.lab.lists(), scene.lab.now().in_flight) == ([(1, 2)], {})
    scene.lab.cluster.start_broker(3)
    scene.airflow.clear(scene.waving, WAVE, task_ids=["off"])
    assert scene.airflow.ended(scene.waving, WAVE)["off"] == "success"
    assert (scene.lab.now().throttles, scene.events()[-1]) == ({}, "released")


def pids_of(*words: str) -> list[int]:
    """Processes whose command line has all these words."""
    pids = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if all(word in line for word in words):
                pids.append(int(folder.name))
    return pids


def parent_of(pid: int) -> int:
    """The process that started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_task(scene: Scene, step: str) -> None:
    """Kill the process of a task while its command runs; the command continues."""
    command = ("wave", step, f"{scene.name}.toml", "--run-id")

    def is_running() -> bool:
        for pid in pids_of("bash", "-c", *command) or pids_of("-m execution", *command):
            with suppress(OSError):
                os.kill(parent_of(pid), signal.SIGKILL)
                return True
        return False

    scene.airflow.until(is_running, f"a process of {step}")


def test_killed_tasks_run_again_and_a_killed_scheduler_continues(make_scene: MakeScene) -> None:
    """Tasks are killed while they set throttles, start the copies, and wait; then the scheduler with all its processes.
    The wave is executed once, and always with throttles."""
    scene = make_scene("killed", megabytes=80)
    scene.wave()
    for step in ("throttle", "execute", "wait"):
        kill_task(scene, step)
    assert scene.lab.keeps_its_rate(3)
    scene.airflow.kill("scheduler")
    assert scene.lab.keeps_its_rate(3)
    assert len(scene.lab.now().throttles) == 5
    scene.airflow.start("scheduler")
    scene.done()
    assert scene.airflow.tries(scene.waving, WAVE, "throttle") == 2


def test_stopping_or_repeating_a_run_by_hand_does_no_harm(make_scene: MakeScene) -> None:
    """A second run waits for the first. If the first is marked failed during the wave, its throttles stay, and the
    second run ends the wave."""
    scene = make_scene("stopped", megabytes=40)
    scene.wave()
    scene.copying()
    path = f"/api/v2/dags/{scene.waving}/dagRuns/{WAVE}"
    scene.airflow.trigger(scene.waving, "again", scene.airflow.call("GET", path)["conf"])
    assert scene.airflow.runs(scene.waving) == {WAVE: "running", "again": "queued"}
    scene.airflow.call("PATCH", path, {"state": "failed"})
    assert scene.airflow.ended(scene.waving, WAVE)["off"] == "failed"
    assert "copies still run, so the throttles stay" in scene.airflow.log(scene.waving, WAVE, "off")
    assert len(scene.lab.now().throttles) == 5
    assert scene.lab.keeps_its_rate(3)
    again = scene.airflow.ended(scene.waving, "again")
    assert set(again.values()) == {"success", "skipped"}, again
    assert "was already started" in scene.airflow.log(scene.waving, "again", "execute")
    assert (scene.lab.lists(), scene.lab.now().throttles) == ([(1, 3)], {})
