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
    shown = [ended[name] for name in ("begin", "run", "off", "verify", "next_wave", "elect", "")]
    assert shown == ["success", "failed", "failed", "upstream_failed", "upstream_failed", "upstream_failed", "failed"]
    log = scene.airflow.log(scene.waving, WAVE, "run")
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
    assert [ended[name] for name in ("run", "off", "verify", "")] == ["failed", "failed", "upstream_failed", "failed"]
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


def command_of(scene: Scene) -> int:
    """The process of the scene's command ``run``, when it runs."""
    pids: list[int] = []

    def is_running() -> bool:
        pids[:] = pids_of("-m execution run", f"{scene.name}.toml")
        return bool(pids)

    scene.airflow.until(is_running, "a process of run")
    return pids[0]


def test_killed_tasks_run_again_and_a_killed_scheduler_continues(make_scene: MakeScene) -> None:
    """A worker is killed while its command starts the wave, then a command while it watches, then the scheduler with
    all its processes. Each next command goes on; copies start once, and always with throttles."""
    scene = make_scene("killed", megabytes=60)
    scene.wave()
    os.kill(parent_of(command_of(scene)), signal.SIGKILL)
    assert scene.lab.keeps_its_rate(3)
    os.kill(command_of(scene), signal.SIGKILL)
    scene.airflow.until(lambda: scene.airflow.log(scene.waving, WAVE, "run").count("goes on") == 2, "a next command")
    scene.airflow.kill("scheduler")
    assert scene.lab.keeps_its_rate(3)
    assert len(scene.lab.now().throttles) == 5
    scene.airflow.start("scheduler")
    scene.done()
    assert scene.airflow.tries(scene.waving, WAVE, "run") >= 2  # an exit code of a killed command is no new try


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
    assert pids_of("-m execution run", f"{scene.name}.toml") == []
    assert "copies still run, so the throttles stay" in scene.airflow.log(scene.waving, WAVE, "off")
    assert len(scene.lab.now().throttles) == 5
    assert scene.lab.keeps_its_rate(3)
    again = scene.airflow.ended(scene.waving, "again")
    assert set(again.values()) == {"success", "skipped"}, again
    assert " goes on" in scene.airflow.log(scene.waving, "again", "run")
    assert (scene.lab.lists(), scene.lab.now().throttles) == ([(1, 3)], {})
