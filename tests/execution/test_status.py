"""How far the wave is that holds a cluster."""

import json
from dataclasses import replace

import pytest

from execution import journal
from execution.status import Status, status
from execution.wanted import STOP, Wanted
from optimizer.kafka.throttle import FOLLOWER_RATE, LEADER_RATE
from tests.execution import rows
from tests.execution.lab import MB, RATE, SIZE, Build

STATUS = Status(
    cluster_id="c",
    run_id="r",
    wave=1,
    waves=2,
    since="2026-11-27 21:00 UTC",
    executed_by="ann on h, process 7",
    partitions={"in flight": 2},
    copied_bytes=30 * MB,
    left_bytes=90 * MB,
    unknown_copies=0,
    rate_bytes_per_s=1.5 * MB,
    rates_bytes_per_s={5: 0.5 * MB, 3: float(MB)},
    slowest=[("t", 0, 3, 60 * MB), ("t", 1, 5, 30 * MB)],
    state="wave 1: 2 partitions, 2 in flight",
    throttles="throttles set: 5 of 5",
    foreign=["brokers 9 leader.replication.throttled.rate=7"],
    held_back="broker 4 is not alive any more",
    wanted=Wanted(copy_bytes_per_s=2 * MB),
    throttles_bytes_per_s={3: 2 * MB, 4: MB},
    plan_waves=[(1, "runs", 120.0, 110.0, 720.0), (2, "waits", None, None, None)],
    left_seconds=60.0,
    cordoned=["broker 4 is cordoned by run r since 2026-11-27 21:00 UTC: ./ballast uncordon 4 --cluster c ends it"],
)
# Other programs read them: do not rename them.
KEYS = [
    *("cluster_id", "run_id", "wave", "waves", "since", "executed_by", "partitions", "copied_bytes", "left_bytes"),
    *("unknown_copies", "rate_bytes_per_s", "rates_bytes_per_s", "slowest", "state", "throttles", "foreign"),
    *("held_back", "wanted", "throttles_bytes_per_s", "plan_waves", "left_seconds", "cordoned"),
]


def test_the_text() -> None:
    """Brokers in order; the time left at the present rate."""
    assert list(STATUS.lines()) == [
        "cluster c: wave 1 of 2 of run r since 2026-11-27 21:00 UTC",
        "executed by: ann on h, process 7",
        "wave 1: 2 partitions, 2 in flight",
        "wanted: not held back; 2.00 MB/s of copies for each broker",
        "copied: 30.0 MB of 120 MB (25 %), 90.0 MB left",
        "rate: 1.50 MB/s, about 1 min more",
        "  broker 3 receives 1.00 MB/s of 2.00 MB/s",
        "  broker 5 receives 500 kB/s",
        "  t-0 to broker 3: 60.0 MB left",
        "  t-1 to broker 5: 30.0 MB left",
        "held back: broker 4 is not alive any more",
        "throttles set: 5 of 5",
        "not of this wave: brokers 9 leader.replication.throttled.rate=7",
        *STATUS.cordoned,
        "wave 1: runs, 110 s to 12 min predicted",
        "wave 2: waits",
    ]


def test_the_text_without_copies() -> None:
    """No rate, and no share of nothing."""
    empty = replace(STATUS, copied_bytes=0, left_bytes=0, rate_bytes_per_s=0.0, rates_bytes_per_s={}, slowest=[])
    usual = replace(empty, wanted=Wanted(), executed_by=None, foreign=[], held_back="", plan_waves=[], cordoned=[])
    assert list(usual.lines())[1:] == [
        "executed by: no process (./ballast run --run-id r --cluster c goes on)",
        "wave 1: 2 partitions, 2 in flight",
        "copied: 0 B of 0 B, 0 B left",
        "throttles set: 5 of 5",
    ]


def test_the_json_has_the_same_keys_in_every_release() -> None:
    """One line; without a rate the time left is null."""
    content = json.loads(STATUS.to_json())
    assert list(content) == KEYS
    assert content["left_seconds"] == 60.0
    assert content["wanted"] == {
        **{"copy_bytes_per_s": 2 * MB, "is_paused": False, "ending": "", "pressure": "", "because": ""},
    }
    assert content["rates_bytes_per_s"] == {"5": 500_000.0, "3": 1_000_000.0}
    assert content["slowest"] == [["t", 0, 3, 60 * MB], ["t", 1, 5, 30 * MB]]
    assert "\n" not in STATUS.to_json()


@pytest.mark.parametrize(("copies", "name"), [(1, "size of 1 copy"), (2, "sizes of 2 copies")])
def test_copies_of_unknown_size_are_counted(copies: int, name: str) -> None:
    """Then there is no share, and nobody knows the time left."""
    partly = replace(STATUS, unknown_copies=copies, left_seconds=None)
    assert list(partly.lines())[4:6] == [f"copied: 30.0 MB, 90.0 MB left; {name} unknown", "rate: 1.50 MB/s"]
    assert json.loads(partly.to_json())["left_seconds"] is None


def test_a_target_that_does_not_answer_leaves_sizes_unknown(build: Build) -> None:
    """Of running copies and of those that are done; without an answering leader of waiting copies too."""
    lab = build(cap=1)
    lab.sizes["t", 0, 1] = 20 * MB
    step = lab.start()
    lab.clock.sleep(2)
    step.start_next(step.observe())
    assert status(lab.process()).unknown_copies == 0
    lab.kafka.mute = {3}
    now = status(lab.process())
    assert (now.copied_bytes, now.left_bytes, now.unknown_copies) == (0, 0, 2)
    assert "copied: 0 B, 0 B left; sizes of 2 copies unknown" in now.lines()
    waiting = build()
    waiting.process().throttle()
    waiting.kafka.mute = {1}
    now = status(waiting.process())
    assert (now.left_bytes, now.unknown_copies) == (SIZE, 1)


def test_what_operators_want_is_shown(build: Build) -> None:
    """Also if nothing has changed in the cluster yet."""
    lab = build()
    lab.start()
    lab.want(copy_bytes_per_s=20 * MB, ending=STOP)
    now = status(lab.process())
    assert now.wanted == Wanted(20 * MB, ending=STOP)
    assert [line for line in now.lines() if line.startswith("wanted: stopped (")]


def test_running_copies_are_read_twice(build: Build) -> None:
    """Five seconds apart; what is done, running and waiting counts."""
    lab = build(cap=1)
    lab.sizes["t", 0, 1] = 20 * MB
    step = lab.start()
    lab.clock.sleep(2)
    step.start_next(step.observe())
    lab.sizes["t", 1, 2] = 200 * MB
    lab.clock.slept.clear()
    now = status(lab.process())
    assert lab.clock.slept == [5.0]
    assert now.partitions == {"in flight": 1, "done": 1}
    assert (now.copied_bytes, now.left_bytes) == (20 * MB + 5 * RATE, 200 * MB - 5 * RATE)
    assert (now.rate_bytes_per_s, now.rates_bytes_per_s) == (RATE, {3: RATE})
    assert now.slowest == [("t", 1, 3, 150 * MB)]
    assert now.left_seconds == 15.0
    assert now.state == "wave 1: 2 partitions, 1 in flight, 1 done"
    assert now.throttles == "throttles set: 5 of 5"
    assert now.since.endswith(" UTC")
    assert now.throttles_bytes_per_s == {3: RATE}
    assert now.plan_waves == [(1, "runs", 30.0, 25.0, 40.0), (2, "waits", 30.0, 25.0, 40.0)]


def test_waiting_partitions_are_left(build: Build) -> None:
    """Without running copies the cluster is read once."""
    lab = build()
    lab.process().throttle()
    now = status(lab.process())
    assert lab.clock.slept == []
    assert (now.copied_bytes, now.left_bytes, now.rate_bytes_per_s) == (0, 2 * SIZE, 0.0)
    assert (now.partitions, now.slowest, now.executed_by) == ({"not started": 2}, [], None)


def test_the_copies_with_most_left_are_listed(build: Build) -> None:
    """Largest first."""
    lab = build(rate_bytes_per_s=MB)
    lab.sizes["t", 1, 2] = 2 * SIZE
    lab.start()
    assert status(lab.process()).slowest == [("t", 1, 3, 195 * MB), ("t", 0, 3, 95 * MB)]


@pytest.mark.parametrize("host", ["another", ""])
def test_the_process_that_executes_is_named(build: Build, host: str) -> None:
    """If it lives."""
    lab = build()
    lab.start()
    if host:
        rows.record_of_run(lab.warehouse, lab.plan, journal.RUNNING, host)
    assert status(lab.process()).executed_by == (f"{journal.process_name()}, if that still runs" if host else None)


def test_other_throttles_are_named_and_steered_rates_are_the_waves_own(build: Build) -> None:
    """A rate that an operator has wanted counts as set."""
    lab = build()
    lab.start()
    lab.want(copy_bytes_per_s=MB)
    lab.kafka.throttles["brokers", "3", FOLLOWER_RATE] = str(MB)
    lab.kafka.throttles["brokers", "9", LEADER_RATE] = "7"
    now = status(lab.process())
    assert now.foreign == ["brokers 9 leader.replication.throttled.rate=7"]
    assert now.throttles == "throttles set: 5 of 5"
