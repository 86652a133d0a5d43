"""Waves in a real Airflow, over real Kafka, when a broker, a task, the scheduler or a run dies in their middle."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.airflow.scene import WAVE, MakeScene, Scene
from tests.kafka.lab import BACK_AHEAD_BYTES

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.all_only]


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
    assert "broker 3 is not alive, copies wait for it" in log
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


def test_killed_tasks_are_done_again_and_a_killed_scheduler_goes_on(scene: MakeScene) -> None:
    """Tasks killed while throttles are set, while the copies are started, and in mid-wave; then the scheduler with all
    that it had started: executed once, never bare."""
    one = scene("killed", megabytes=80)
    one.wave()
    for step in ("throttle", "execute", "wait"):
        kill_task(one, step)
    assert one.lab.keeps_its_rate(3)
    one.airflow.kill("scheduler")
    assert one.lab.keeps_its_rate(3)
    assert len(one.lab.now().throttles) == 5
    one.airflow.start("scheduler")
    one.done()
    assert one.airflow.tries(one.waving, WAVE, "throttle") == 2


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
    assert "copies still run, so the throttles stay" in one.airflow.log(one.waving, WAVE, "off")
    assert len(one.lab.now().throttles) == 5
    assert one.lab.keeps_its_rate(3)
    again = one.airflow.ended(one.waving, "again")
    assert set(again.values()) == {"success", "skipped"}, again
    assert "has been started already" in one.airflow.log(one.waving, "again", "execute")
    assert (one.lab.lists(), one.lab.now().throttles) == ([(1, 3)], {})
