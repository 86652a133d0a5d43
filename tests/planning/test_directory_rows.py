"""Directories in the plan of one cluster: who waits for whom, and the rows of ``dir_balance``."""

from typing import Any

import pandas as pd

from benchmarks.rows import broker_row, partition_row
from optimizer.domain import Cause, FindingCode
from optimizer.emit.figure_table import BY_NAME
from optimizer.planning.in_memory import plan_in_memory, records
from optimizer.settings import ClusterInput, Policy, Schedule, Settings

WIDE = Policy(disk_band=9.0, replicas_band=9.0, in_band=9.0, leaders_band=9.0, out_band=9.0)  # nothing for balance


def log_dir(path: str, used: int, capacity: int | None = 100) -> dict[str, Any]:
    """A directory with bytes in one log."""
    return {"path": path, "capacity_bytes": capacity, "used_bytes": used, "logs": 1, "is_open": True}


def planned(waves: int = 0, capacity: int | None = 100) -> dict[str, pd.DataFrame]:
    """Broker 0 is drained of x to broker 1, which has space for it when y has left for broker 2."""
    settings = Settings(clusters=(ClusterInput(id="c", input="/unused"),), policy=WIDE, schedule=Schedule(waves=waves))
    dirs = {0: [log_dir("/a", 30)], 1: [log_dir("/a", 80, capacity), log_dir("/b", 80, capacity)]}
    dirs[2] = [log_dir("/a", 0, capacity), log_dir("/b", 0, capacity)]
    pins = {0: [], 1: ["x"], 2: ["y"]}
    brokers = [
        broker_row(
            b, cluster_id="c", run_id="r", state="draining" if b == 0 else "alive", disk_capacity_bytes=200,
            pinned_topics=pins[b], log_dirs=dirs[b],
        )
        for b in dirs
    ]  # fmt: skip
    rows = [
        partition_row([0], topic="x", partition=0, size_bytes=30, pinned_brokers=[1], log_dirs=["/a"]),
        partition_row([1], topic="y", partition=0, size_bytes=60, pinned_brokers=[2], log_dirs=["/b"]),
    ]
    instance = pd.DataFrame([{**row, "cluster_id": "c", "run_id": "r"} for row in rows])
    return dict(plan_in_memory(instance, pd.DataFrame(brokers), settings).tables)


def test_a_replica_waits_until_another_has_left_its_directory() -> None:
    """y leaves /b in the first wave, x arrives there in the second; broker 0 has one directory and no row."""
    tables = planned()
    plan = tables["compared"].set_index("topic")
    assert plan["wave"].to_dict() == {"x": 2, "y": 1}
    assert plan["planned_log_dirs"].to_dict() == {"x": ["/b"], "y": ["/a"]}
    columns = ("broker_id", "log_dir", "before_bytes", "after_bytes", "peak_bytes", "peak_wave", "default_peak_bytes")
    assert [tuple(row[name] for name in columns) for row in records(tables["dir_balance"])] == [
        (1, "/a", 80, 80, 80, None, 80),
        (1, "/b", 80, 50, 80, None, 80),
        (2, "/a", 0, 60, 60, 1, 60),
        (2, "/b", 0, 0, 0, None, 0),
    ]
    assert set(tables["dir_balance"]["limit_bytes"]) == {90}
    figures = tables["plan_summary"].set_index("figure").loc["fullest_directory_percent"]
    assert (figures["before"], figures["after"], figures["worst_moment"]) == (80, 80, 80)
    assert {*tables["plan_summary"]["figure"]} <= BY_NAME.keys()


def test_a_fixed_number_of_waves_leaves_what_would_need_more() -> None:
    """In one wave y makes no space in time: x stays, and its finding names broker 1."""
    tables = planned(waves=1)
    assert tables["compared"].set_index("topic")["wave"].isna().to_dict() == {"x": True, "y": False}
    (finding,) = tables["findings"][tables["findings"]["code"] == FindingCode.LEFT_FOR_DISK].itertuples()
    assert (finding.topic, finding.cause) == ("x", Cause.NO_DIRECTORY_ROOM)
    assert "broker 1 (/a, /b), set [schedule] waves = 0" in str(finding.remedy)
    assert planned(waves=2)["compared"].set_index("topic")["wave"].to_dict() == {"x": 2, "y": 1}


def test_without_capacities_nothing_waits() -> None:
    """One finding says that directories have no limit."""
    tables = planned(capacity=None)
    assert tables["compared"]["wave"].tolist() == [1, 1]
    codes = tables["findings"]["code"].tolist()
    assert codes.count(FindingCode.NO_LOG_DIR_CAPACITY) == 1
    assert "fullest_directory_percent" not in set(tables["plan_summary"].dropna(subset="after")["figure"])
