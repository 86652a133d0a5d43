"""Moves inside brokers in the plan of one cluster: which replicas, in which waves, and what other tables say."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from benchmarks.rows import broker_row, partition_row
from optimizer.domain import Cause, FindingCode
from optimizer.planning.in_memory import plan_in_memory, records
from optimizer.settings import ClusterInput, Policy, Schedule, Settings
from optimizer.windows_setting import Window

WIDE = Policy(disk_band=9.0, replicas_band=9.0, in_band=9.0, leaders_band=9.0, out_band=9.0)  # nothing for balance
MB = 10**6


def log_dir(path: str, used: int, **changes: Any) -> dict[str, Any]:
    """A directory of 200 MB."""
    return {"path": path, "capacity_bytes": 200 * MB, "used_bytes": used * MB, "logs": 1, "is_open": True, **changes}


def planned(
    sizes: list[int],
    *,
    only: str = "",
    schedule: Schedule | None = None,
    dirs: list[dict[str, Any]] | None = None,
    host: dict[str, Any] | None = None,
    changes: dict[int, dict[str, Any]] | None = None,
    other: dict[str, Any] | None = None,
    start_at: float = 0.0,
) -> dict[str, list[dict[str, Any]]]:
    """Broker 0 has partitions of t, of these MB, all in /a, and nothing in /b; broker 1 is empty."""
    cluster = ClusterInput(id="c", input="/unused", only=only)
    policy = replace(WIDE, balance_dirs=not only, start_at=start_at, out_band=0.1 if start_at else 9.0)
    settings = Settings(clusters=(cluster,), policy=policy, schedule=schedule or Schedule(throttle_mb_per_s=1))
    dirs = dirs or [log_dir("/a", sum(sizes)), log_dir("/b", 0)]
    brokers = [
        {**broker_row(b, cluster_id="c", run_id="r", disk_capacity_bytes=400 * MB, log_dirs=dirs), **(host or {})}
        for b in (0, 1)
    ]
    brokers[1] |= {"log_dirs": [log_dir("/a", 0), log_dir("/b", 0)], "state": "alive", "must_empty": False}
    brokers[1] |= other or {}
    fixed = {"mobility": "fixed", "fixed_cause": "only"} if only else {}
    rows = [
        {**partition_row([0], topic="t", partition=number, size_bytes=size * MB, log_dirs=["/a"]), **fixed}
        | (changes or {}).get(number, {})
        for number, size in enumerate(sizes)
    ]
    instance = pd.DataFrame([{**row, "cluster_id": "c", "run_id": "r"} for row in rows])
    tables = plan_in_memory(instance, pd.DataFrame(brokers), settings).tables
    return {name: records(frame) for name, frame in tables.items()}


def moved(tables: dict[str, list[dict[str, Any]]]) -> list[tuple[int, str, int]]:
    """Partition, new directory and wave of each move."""
    return [(row["partition"], row["to_log_dir"], row["wave"]) for row in tables.get("dir_moves", [])]


def figure(tables: dict[str, list[dict[str, Any]]], name: str) -> tuple[float | None, float | None]:
    """A figure before and after the plan."""
    row = next(row for row in tables["plan_summary"] if row["figure"] == name)
    return row["before"], row["after"]


def test_replicas_move_until_each_directory_is_in_its_band() -> None:
    """Of 120 MB in /a, 54 to 66 belong to each; both copies count until the wave has ended."""
    tables = planned([60, 30, 20, 10])
    assert moved(tables) in ([(0, "/b", 1)], [(1, "/b", 1), (2, "/b", 1), (3, "/b", 1)])
    balance = {row["log_dir"]: row for row in tables["dir_balance"] if row["broker_id"] == 0}
    bytes_of = {path: [row[name] // MB for name in ("lower_bytes", "upper_bytes")] for path, row in balance.items()}
    assert bytes_of == {"/a": [54, 66], "/b": [54, 66]}
    names = ("before_bytes", "after_bytes", "peak_bytes", "peak_wave")
    assert [balance["/a"][name] for name in names] == [120 * MB, 60 * MB, 120 * MB, None]
    assert [balance["/b"][name] for name in names] == [0, 60 * MB, 60 * MB, 1]
    figures = ("dir_moved_bytes", "dir_bound_bytes", "dirs_outside_bands", "moved_bytes", "waves")
    assert [figure(tables, name) for name in figures] == [
        (None, 60 * MB), (None, 54 * MB), (2, 0), (None, 0), (None, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "start_at", "moves"),
    [([10] * 12, 0.0, True), ([10] * 12, 0.9, True), ([10] * 12, 1.5, False), ([16] * 12, 1.5, True)],
    ids=["every night", "outside the start width", "inside it", "over its limit"],
)
def test_directories_of_a_cluster_that_waits_start_for_themselves(
    sizes: list[int], start_at: float, moves: bool
) -> None:
    """/a has twice the mean of both directories. What starts is planned to ``dir_band``."""
    tables = planned(sizes, start_at=start_at)
    assert (FindingCode.WAITS_TO_START in {row["code"] for row in tables["findings"]}) == bool(start_at)
    assert bool(moved(tables)) == moves
    assert moved(tables) in ([], moved(planned(sizes)))


def test_the_wave_inside_brokers_has_its_time_and_its_rate() -> None:
    """60 MB at 1 MB/s; the interval has 15 % and the eleven seconds of Kafka's meter."""
    tables = planned([60, 30, 20, 10])
    [wave] = tables["waves"]
    names = ("wave", "moved_bytes", "busiest_broker", "busiest_bytes", "estimated_seconds", "inside_brokers")
    assert [wave[name] for name in names] == [1, 60 * MB, 0, 60 * MB, 60, True]
    assert (wave["least_seconds"], wave["most_seconds"], wave["least_total_bytes"]) == (40, 80, None)
    assert wave["peak_disk_bytes"] == 180 * MB
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"
    assert [(x["style"], x["entity_name"], x["config_name"], x["config_value"]) for x in tables["throttles"]] == [
        ("careful", "0", rate, "1000000"),
        ("kafka", "0", rate, "1000000"),
    ]


def test_waves_are_as_long_as_the_window() -> None:
    """A window of 72 seconds has time for 53 MB, so 60 MB in two replicas are two waves; a fixed number is kept."""
    schedule = Schedule(throttle_mb_per_s=1, window_hours=0.02)
    sizes = [30, 30, 31, 31]
    assert sorted(wave for *_, wave in moved(planned(sizes, schedule=schedule))) == [1, 2]
    assert {wave for *_, wave in moved(planned(sizes, schedule=replace(schedule, waves=3)))} == {1}
    assert sorted(wave for *_, wave in moved(planned(sizes, schedule=Schedule(max_moves_per_wave=1)))) == [1, 2]


def test_waves_inside_brokers_have_a_place_in_the_windows() -> None:
    """The first night."""
    window = Window(days=("fri",), start="22:00", end="23:00", time_zone="UTC")
    schedule = Schedule(throttle_mb_per_s=1, windows=(window,), first_night="2026-11-27")
    [wave] = planned([60, 60], schedule=schedule)["waves"]
    assert (str(wave["starts_at"]), str(wave["ends_at"])) == ("2026-11-27 22:00:00", "2026-11-27 22:01:20")
    assert (str(wave["night_ends_at"]), wave["time_zone"]) == ("2026-11-27 23:00:00", "UTC")


def test_only_dirs_moves_what_is_fixed_for_that_reason_alone() -> None:
    """An excluded topic and a leaderless partition stay."""
    others: dict[int, dict[str, Any]] = {
        0: {"fixed_cause": "topic_excluded", "mobility": "forced_only"},
        1: {"fixed_cause": "leaderless"},
    }
    assert {number for number, *_ in moved(planned([60, 30, 30], only="dirs", changes=others))} == {2}
    assert moved(planned([60, 60], only="leaders")) == []


def test_without_only_fixed_partitions_stay() -> None:
    """Whatever the reason is."""
    fixed: dict[int, dict[str, Any]] = {0: {"fixed_cause": "in_flight", "mobility": "fixed"}, 1: {"log_dirs": ["any"]}}
    assert {number for number, *_ in moved(planned([60, 60, 60], changes=fixed))} == {2}


@pytest.mark.parametrize(
    ("dirs", "host"),
    [
        ([log_dir("/a", 120), log_dir("/b", 0), log_dir("/c", 0, is_open=False)], {}),
        (None, {"state": "draining", "must_empty": True, "accepts_replicas": False}),
    ],
    ids=["failed", "drained"],
)
def test_some_brokers_keep_their_directories(dirs: list[dict[str, Any]] | None, host: dict[str, Any]) -> None:
    """Kafka moves nothing inside a broker with a failed directory; a drained broker loses its replicas anyway."""
    tables = planned([60, 60], dirs=dirs, host=host)
    assert moved(tables) == []
    found = [row["broker_id"] for row in tables["wave_findings"] if row["code"] == FindingCode.DIRS_NOT_BALANCED]
    assert found == ([] if dirs is None else [0])
    assert all(row["lower_bytes"] is None for row in tables["dir_balance"] if row["broker_id"] == 0)


def test_directories_over_their_limits_are_relieved_first() -> None:
    """/a holds 190 MB, 180 are its limit; /c is only outside its band, and larger replicas leave it later."""
    dirs = [log_dir("/a", 190), log_dir("/b", 0), log_dir("/c", 240, capacity_bytes=400 * MB), log_dir("/d", 0)]
    in_c = {number: {"log_dirs": ["/c"]} for number in (4, 5)}
    schedule = Schedule(throttle_mb_per_s=1, max_moves_per_wave=1)
    host = {"disk_capacity_bytes": 1000 * MB}
    tables = planned([40, 50, 50, 50, 120, 120], schedule=schedule, dirs=dirs, changes=in_c, host=host)
    sources = [source for _, source in sorted((row["wave"], row["from_log_dir"]) for row in tables["dir_moves"])]
    assert {*sources} == {"/a", "/c"}
    assert sources == sorted(sources)


@pytest.mark.parametrize("only", ["", "dirs"])
@pytest.mark.parametrize("state", ["dead", "fenced"])
def test_partitions_with_a_replica_on_a_broker_that_is_down_stay(only: str, state: str) -> None:
    """Kafka's tool refuses a document that names the broker."""
    cause = "only" if only else "topic_excluded"
    changes = {0: {"replicas": [0, 1], "log_dirs": ["/a", "any"], "mobility": "fixed", "fixed_cause": cause}}
    down = {"state": state, "accepts_replicas": False, "accepts_leadership": False}
    assert {number for number, *_ in moved(planned([60, 60], only=only, changes=changes, other=down))} == {1}


def test_a_broker_that_is_to_be_drained_keeps_its_directories() -> None:
    """Also if only directories are balanced now: its replicas leave with another plan. Nothing says that it has to."""
    dirs = [log_dir("/a", 120), log_dir("/b", 0), log_dir("/c", 0, is_open=False)]
    for of_broker in (None, dirs):
        tables = planned([60, 60], only="dirs", dirs=of_broker, host={"state": "draining", "accepts_replicas": False})
        assert moved(tables) == []
        assert FindingCode.DIRS_NOT_BALANCED not in [row["code"] for row in tables["wave_findings"]]


def test_without_balance_dirs_nothing_moves_and_no_figure_says_so() -> None:
    """The tables have no such rows."""
    cluster = ClusterInput(id="c", input="/unused")
    host = broker_row(
        0, cluster_id="c", run_id="r", disk_capacity_bytes=400 * MB, log_dirs=[log_dir("/a", 120), log_dir("/b", 0)]
    )
    row = partition_row([0], topic="t", partition=0, size_bytes=120 * MB, log_dirs=["/a"])
    instance = pd.DataFrame([{**row, "cluster_id": "c", "run_id": "r"}])
    tables = plan_in_memory(instance, pd.DataFrame([host]), Settings(clusters=(cluster,), policy=WIDE)).tables
    assert "dir_moves" not in tables
    assert not {"dir_moves", "dirs_outside_bands"} & {*tables["plan_summary"]["figure"]}


FIXED = {"mobility": "fixed", "fixed_cause": "leaderless"}


@pytest.mark.parametrize(
    ("sizes", "changes", "causes"),
    [
        ([120], {}, [Cause.STEPS_TOO_LARGE, Cause.STEPS_TOO_LARGE]),
        ([195, 195], {}, [Cause.NO_DIRECTORY_ROOM, Cause.STEPS_TOO_LARGE]),
        ([60, 60], {0: FIXED, 1: FIXED}, [Cause.MAY_NOT_LEAVE, Cause.MAY_NOT_COME]),
    ],
    ids=["cannot be divided", "fits nowhere", "may not move"],
)
def test_directories_that_stay_outside_their_bands_are_findings(
    sizes: list[int], changes: dict[int, dict[str, Any]], causes: list[Cause]
) -> None:
    """Of both directories, with the cause; they have no part in the bound."""
    tables = planned(sizes, changes=changes)
    found = {row["subject"]: row for row in tables["wave_findings"] if row["code"] == FindingCode.DIR_BAND}
    assert [found[f"broker 0 {path}"]["cause"] for path in ("/a", "/b")] == causes
    assert found["broker 0 /a"]["limit"] == min(round(1.1 * sum(sizes) / 2), 180) * MB
    assert figure(tables, "dirs_outside_bands") == (2, 2)
    assert figure(tables, "dir_bound_bytes") == (None, 0)
