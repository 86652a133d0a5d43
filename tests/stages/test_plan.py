"""PLAN on a small cluster by hand."""

import os
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Column, DataFrame, SparkSession

import schemas
from optimizer.declared import DECLARED
from optimizer.domain import FindingCode
from optimizer.errors import AuditFailed
from optimizer.planning.compared_lists import TIMES
from optimizer.planning.wave_rows import schedule_cluster, wave_rows
from optimizer.settings import Metrics, Schedule
from optimizer.stages.plan import plan
from optimizer.stages.plan.cluster_tables import computed
from optimizer.stages.snapshot import snapshot
from optimizer.stages.validate import validate
from optimizer.windows_setting import Window
from schemas.spark import schema_of
from sources.record import Record
from tests.stages import bronze, small_plan
from tests.stages.tables import table

GB = small_plan.GB
MB = 10**6
Tables = dict[str, list[dict[str, Any]]]


def collect(frames: dict[str, DataFrame]) -> Tables:
    """Rows of every table as dicts."""
    return {name: [row.asDict() for row in frame.collect()] for name, frame in frames.items()}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[Tables]:
    """The tables of the small plan."""
    yield collect(dict(plan.build(small_plan.inputs(spark), small_plan.run(spark))))
    spark.catalog.clearCache()


def by(rows: list[dict[str, Any]], *names: str) -> dict[Any, dict[str, Any]]:
    """Rows by a key."""
    return {tuple(row[n] for n in names) if len(names) > 1 else row[names[0]]: row for row in rows}


def test_every_partition_has_its_three_lists(tables: Tables) -> None:
    """The plan shows all partitions, with what is added, removed and why."""
    rows = by(tables["plan"], "topic", "partition")
    assert len(rows) == len(small_plan.PARTITIONS)
    row = rows["orders.v1", 0]
    assert row["current_replicas"] == [1, 2, 5]
    assert row["proposed_replicas"] == [1, 7, 5]
    assert row["baseline_replicas"] == [5, 1, 3]
    assert (row["adding_replicas"], row["removing_replicas"]) == ([7], [2])
    assert (row["moved_bytes"], row["reasons"], row["is_changed"]) == (10 * GB, "drain,rack", True)
    assert rows["clicks", 0]["wave"] is None
    assert row["reason_codes"] == ["drain", "rack"]
    assert (rows["clicks", 10]["reasons"], rows["clicks", 10]["reason_codes"]) == ("leader", ["leader"])
    assert (rows["clicks", 0]["reasons"], rows["clicks", 0]["reason_codes"]) == ("", [])
    assert rows["clicks", 10]["leader_changed"]


def test_waves_add_up_to_the_plan(tables: Tables) -> None:
    """Waves have no gaps, hold every changed partition, and their bytes sum to the plan's."""
    changed = [row for row in tables["plan"] if row["is_changed"]]
    waves = sorted(tables["waves"], key=lambda w: w["wave"])
    assert [w["wave"] for w in waves] == [1, 2]
    assert sum(w["partitions"] for w in waves) == len(changed) == 5
    assert sum(w["moved_bytes"] for w in waves) == sum(row["moved_bytes"] for row in changed) == 140 * GB
    assert all(w["replicas_moved"] <= 2 for w in waves)


def test_the_dead_brokers_replica_is_copied_first(tables: Tables) -> None:
    """The partition that lost a broker is in wave 1 and the reorder in the last."""
    rows = by(tables["plan"], "topic", "partition")
    assert rows["clicks", 2]["wave"] == 1
    assert rows["clicks", 10]["wave"] == 2


def test_estimates_follow_the_busiest_end(tables: Tables) -> None:
    """60 GB from one leader at 50 MB/s take 1200 s, 0.8 % more for cut-off batches, and a second; the throttle adds the
    neediest broker's live traffic."""
    first = by(tables["waves"], "wave")[1]
    assert first["busiest_bytes"] == 60 * GB
    assert first["estimated_seconds"] == 1211
    assert 1070 < first["least_seconds"] < 1211 * 0.91 < 1211 * 1.09 < first["most_seconds"] < 1500
    assert first["throttle_bytes_per_s"] == 53_000_000
    assert not first["below_floor"]


def test_the_waves_have_a_bound(tables: Tables) -> None:
    """Every wave has the bound of the whole plan, and the summary compares it with the sum of the waves."""
    (least,) = {row["least_total_bytes"] for row in tables["waves"]}
    rows, total = by(tables["plan_summary"], "figure"), sum(row["busiest_bytes"] for row in tables["waves"])
    assert 60 * GB <= least <= total
    assert rows["waves_bound_bytes"]["after"] == least
    assert rows["waves_over_bound"]["after"] == pytest.approx(total / least)


def test_both_throttle_forms_are_there(tables: Tables) -> None:
    """Both forms list all current replicas; the careful one has rates of its own, and none for the dead broker."""
    rows = by(tables["throttles"], "wave", "style", "entity_type", "entity_name", "config_name")
    lists = "leader.replication.throttled.replicas"
    assert "2:4" in rows[1, "kafka", "topics", "clicks", lists]["config_value"].split(",")
    assert {"2:1", "2:4", "2:5"} <= set(rows[1, "careful", "topics", "clicks", lists]["config_value"].split(","))
    brokers = {key[3] for key in rows if key[1] == "careful" and key[2] == "brokers"}
    assert "4" not in brokers
    assert rows[1, "careful", "brokers", "1", "leader.replication.throttled.rate"]["config_value"] == "52000000"
    assert rows[1, "careful", "brokers", "5", "leader.replication.throttled.rate"]["config_value"] == "50000000"
    assert rows[2, "careful", "topics", "orders.v1", lists]["previous_value"] == "*"
    assert rows[2, "careful", "brokers", "3", "leader.replication.throttled.rate"]["previous_value"] == "20000000"
    assert rows[1, "careful", "topics", "clicks", lists]["previous_value"] is None
    assert {key[0] for key in rows} == {0, 1, 2}


def test_the_network_with_least_room_sets_the_rate(spark: SparkSession) -> None:
    """Broker 1 sends 15 MB/s to consumers and followers, and 2 MB/s more to the new followers: 13 of 30 are left.

    The waves take longer, and every throttle is lower by as much. No other broker's network has so little room.
    """
    brokers = [
        row
        | {
            "in_capacity_bytes_per_s": 10**9,
            "out_capacity_bytes_per_s": 30_000_000 if row["broker_id"] == 1 else 10**9,
        }
        for row in small_plan.instance_brokers()
    ]
    made = collect(dict(plan.build(small_plan.inputs(spark, instance_brokers=brokers), small_plan.run(spark))))
    for row in made["waves"]:
        assert row["copy_bytes_per_s"] == row["network_left_bytes_per_s"] == 13_000_000
        assert row["network_broker"] == 1
    first = by(made["waves"], "wave")[1]
    assert first["estimated_seconds"] > first["busiest_bytes"] / 13_000_000
    assert first["throttle_bytes_per_s"] < 20_000_000
    rates = [int(row["config_value"]) for row in made["throttles"] if row["config_name"].endswith("rate")]
    assert 13_000_000 <= min(rates) < max(rates) < 20_000_000
    spark.catalog.clearCache()


def test_the_networks_use_is_that_of_the_windows_hours(spark: SparkSession) -> None:
    """Where samples are in the windows, and of each direction on its own; what the copies need is that of all hours.

    Broker 1 leads clicks-0, clicks-2 and orders.v1-0: 3 consumed + 2 followers x 1 = 5 MB/s each, 15 in total. At night
    clicks-0 has 1 + 2 x 0.5 = 2, clicks-2 has 3 + 2 x 0.25 = 3.5, and orders.v1-0 has 2 + 2 x 1 = 4: 9.5 in total. With
    2 for the new followers 18.5 of 30 are left.
    """
    at_night = {
        ("clicks", 0): {"window_in_bytes_per_s": 500_000, "window_out_bytes_per_s": 1_000_000},
        ("clicks", 2): {"window_in_bytes_per_s": 250_000},
        ("orders.v1", 0): {"window_out_bytes_per_s": 2_000_000},
    }
    rows = [row | at_night.get((row["topic"], row["partition"]), {}) for row in small_plan.instance()]
    brokers = [
        row | {f"{way}_capacity_bytes_per_s": 30_000_000 if row["broker_id"] == 1 else 10**9 for way in ("in", "out")}
        for row in small_plan.instance_brokers()
    ]
    inputs = small_plan.inputs(spark, instance=rows, instance_brokers=brokers)
    made = collect(dict(plan.build(inputs, small_plan.run(spark))))
    for row in made["waves"]:
        assert row["copy_bytes_per_s"] == row["network_left_bytes_per_s"] == 18_500_000
        assert row["network_broker"] == 1
    spark.catalog.clearCache()


def test_metrics_in_the_windows_set_the_rate_of_copies(spark: SparkSession) -> None:
    """From samples to waves. Partition t-0 leaves broker 2 for broker 3; the leader, broker 1, sends 50 MB/s at most.

    By day it receives 20 MB/s, at night 2. The new follower needs 20 in both cases, so 50 - 2 - 20 are left at night.
    Without a sample at night 50 - 20 - 20 are left.
    """
    at_night, at_noon = bronze.CAPTURED_AT, bronze.CAPTURED_AT - timedelta(hours=14)
    by_day: list[tuple[str, str, int | None, float]] = [("both", "t", 0, 20.0 * MB), ("day", "t", 0, 20.0 * MB)]
    samples = bronze.metrics(spark, [("both", "t", 0, 2.0 * MB)], observed_at=at_night)
    samples = samples.unionByName(bronze.metrics(spark, by_day, observed_at=at_noon))
    night = Window(days=("fri",), start="22:00", end="06:00", time_zone="UTC")
    assert rates_of_copies(spark, samples, night) == {"both": 28 * MB, "day": 10 * MB}


def rates_of_copies(spark: SparkSession, samples: DataFrame, window: Window) -> dict[str, int]:
    """The rate of copies of each cluster, from the stages validate, snapshot and plan."""
    lists, clusters = {0: [1, 2]}, ["both", "day"]
    network = {"in_bytes_per_s": 50 * MB, "out_bytes_per_s": 50 * MB}
    limits = Record("capacity", 4, {"broker_id": -1, "log_dir": None, "disk_bytes": 10_000, **network})
    records = [*bronze.brokers(), *bronze.partitions(lists), *bronze.sizes(lists), limits]
    schedule = Schedule(windows=(window,), first_night="2026-02-06")
    run = bronze.run_of(spark, bronze.settings_of(clusters, metrics=Metrics(rate_percentile=100), schedule=schedule))
    known = {"bronze_records": bronze.bronze(spark, dict.fromkeys(clusters, records)), "bronze_metrics": samples}
    known |= validate.build(known, run.for_stage(DECLARED["validate"]))
    known |= snapshot.build(known, run.for_stage(DECLARED["snapshot"]))
    for name in ("baseline", "moves", "leader_bounds", "bounds", "findings"):
        known[name] = spark.createDataFrame([], schema_of(schemas.ALL[name]))
    moved = [{"cluster_id": c, "run_id": "r1", "topic": "t", "partition": 0, "replicas": [1, 3]} for c in clusters]
    known["proposal"] = table(spark, "proposal", moved)
    waves = plan.build(known, run.for_stage(DECLARED["plan"]))["waves"].collect()
    spark.catalog.clearCache()
    return {row.cluster_id: row.copy_bytes_per_s for row in waves}


def test_waves_have_nights_in_their_windows(spark: SparkSession) -> None:
    """The snapshot is of Monday, 02:00 UTC. The windows are Mondays and Tuesdays, ten minutes each.

    No wave fits: each has a night of its own, and a finding with its hours.
    """
    window = Window(days=("mon", "tue"), start="22:00", end="22:10", time_zone="Europe/Dublin")
    made = collect(dict(plan.build(small_plan.inputs(spark), small_plan.run(spark, windows=(window,)))))
    first, second, *_ = made["waves"]
    assert first["starts_at"] == datetime(2026, 10, 5, 21)
    assert first["ends_at"] == first["starts_at"] + timedelta(seconds=first["most_seconds"])
    assert first["night_ends_at"] == datetime(2026, 10, 5, 21, 10)
    assert second["starts_at"] == datetime(2026, 10, 6, 21)
    assert {row["time_zone"] for row in made["waves"]} == {"Europe/Dublin"}
    late = [row for row in made["wave_findings"] if row["code"] == FindingCode.WAVE_TOO_LONG]
    lengths = {row["wave"]: row["most_seconds"] for row in made["waves"] if row["most_seconds"] > 600}
    assert [(row["subject"], row["amount"], row["limit"]) for row in late] == [
        (f"wave {wave}", seconds, 600) for wave, seconds in lengths.items()
    ]
    assert lengths
    spark.catalog.clearCache()


def test_without_a_capture_time_the_first_night_must_be_given(spark: SparkSession) -> None:
    """Nobody knows when the calendar begins: the cluster is refused, with the remedy."""
    window = Window(days=("mon",), start="22:00", end="06:00", time_zone="UTC")
    unknown = [{**row, "captured_at": None} for row in small_plan.SOURCES]
    run = small_plan.run(spark, windows=(window,))
    inputs = small_plan.inputs(spark, sources=unknown)
    (refused,) = plan.gate({**inputs, **plan.build(inputs, run)}, run).values()
    assert 'set [schedule] first_night to a date, such as "2026-11-27"' in str(refused)
    spark.catalog.clearCache()


def test_balance_shows_three_placements(tables: Tables) -> None:
    """Every broker has its load before, with the default, and after."""
    rows = by(tables["broker_balance"], "broker_id", "placement")
    assert len(rows) == 3 * len(small_plan.BROKERS)
    assert rows[2, "before"]["replicas"] == 2
    assert rows[2, "after"]["replicas"] == 0
    assert rows[7, "after"]["disk_bytes"] == 100 * GB
    assert rows[1, "after"]["leaders"] == 4
    assert rows[5, "before"]["out_bytes_per_s"] == 3_000_000 + 2 * 1_000_000


def test_the_summary_compares(tables: Tables) -> None:
    """Bytes, bounds, gap, the default's cost and broken racks are figures of the summary, each labelled."""
    rows = by(tables["plan_summary"], "figure")
    assert rows["moved_bytes"]["after"] == 140 * GB
    assert rows["moved_bytes"]["baseline"] == sum(row["moved_bytes"] for row in small_plan.baseline())
    assert rows["bound_bytes"]["after"] == 130 * GB
    assert rows["gap_percent"]["after"] == pytest.approx(100 * (140 / 130 - 1))
    assert (rows["rack_violations"]["before"], rows["rack_violations"]["after"]) == (1, 0)
    assert (rows["replicas_on_leaving_brokers"]["before"], rows["replicas_on_leaving_brokers"]["after"]) == (3, 0)
    assert (rows["leader_changes"]["after"], rows["leader_changes_bound"]["after"]) == (2, 1)
    assert (rows["leaders_outside"]["after"], rows["leaders_outside_bound"]["after"]) == (2, 1)
    outside = ("out_outside_bytes_per_s", "out_outside_bytes_per_s_bound")
    assert [rows[name]["after"] for name in outside] == [3_000_000, 1_000_000]
    assert all(row["label"] and row["position"] > 0 for row in rows.values())


def test_copies_flow_between_racks(tables: Tables) -> None:
    """Rows of racks and of brokers add up to the waves; the summary has what crosses racks and could stay inside."""
    flow = tables["rack_flow"]
    assert sum(row["copied_bytes"] for row in flow) == 140 * GB
    crossing = {(row["from_rack"], row["to_rack"]): 0 for row in flow}
    for row in flow:
        crossing[row["from_rack"], row["to_rack"]] += row["copied_bytes"]
    assert crossing == {("a", "a"): 40 * GB, ("a", "b"): 70 * GB, ("c", "b"): 30 * GB}
    for wave, row in by(tables["waves"], "wave").items():
        brokers = [broker for broker in tables["broker_waves"] if broker["wave"] == wave]
        assert sum(broker["out_bytes"] for broker in brokers) == row["moved_bytes"]
        assert sum(broker["in_bytes"] for broker in brokers) == row["moved_bytes"]
    assert max(broker["busy_seconds"] for broker in tables["broker_waves"] if broker["wave"] == 1) == 1200
    figures = by(tables["plan_summary"], "figure")
    values = ("before", "baseline", "after")
    assert [figures["cross_rack_bytes"][side] for side in values] == [None, 140 * GB, 100 * GB]
    assert [figures["cross_rack_percent"][side] for side in values] == [None, 50, pytest.approx(100 * 100 / 140)]
    assert [figures["near_leader_bytes"][side] for side in values] == [None, None, 30 * GB]
    assert [figures["near_leader_partitions"][side] for side in values] == [None, None, 1]
    (busiest,) = {row["near_leader_busiest_over_mean"] for row in tables["exposure"]} - {None}
    assert [figures["near_leader_busiest_over_mean"][side] for side in values] == [None, None, busiest]


def test_tables_keep_their_contracts(tables: Tables) -> None:
    """No NOT NULL column holds a null and keys are unique; only findings about waves, and what the small plan does not
    have, may have no rows: alternatives, brokers with several directories, and consumers."""
    may_be_empty = {"wave_findings", "alternatives", "dir_balance", "dir_moves", "consumer_load", "consumer_impact"}
    assert {name for name, rows in tables.items() if not rows} <= may_be_empty
    for name, rows in tables.items():
        table = schemas.ALL[name]
        assert all(list(row) == [c.name for c in table.columns] for row in rows)
        assert not [c.name for c in table.columns if not c.nullable and any(row[c.name] is None for row in rows)]
        keys = [tuple(row[c] for c in table.full_key) for row in rows]
        assert len(set(keys)) == len(keys)


def test_an_empty_plan_is_a_plan(spark: SparkSession) -> None:
    """Without a proposal there are no waves and no throttles, and the figures say 0."""
    run = small_plan.run(spark)
    tables = collect(dict(plan.build(small_plan.inputs(spark, proposal=[], moves=[]), run)))
    assert (tables["waves"], tables["throttles"]) == ([], [])
    assert (tables["rack_flow"], tables["broker_waves"]) == ([], [])
    figures = by(tables["plan_summary"], "figure")
    assert figures["moved_bytes"]["after"] == figures["waves"]["after"] == 0
    assert not any(row["is_changed"] for row in tables["plan"])
    spark.catalog.clearCache()


def test_copies_without_room_get_no_wave() -> None:
    """Where a disk has no room for both copies in any order, the partition has no wave."""
    row = {
        "topic": "t", "partition": 0, "leader": 1.0, "adding_replicas": [2], "removing_replicas": [1],
        "current_replicas": [1], "proposed_replicas": [2], "copy_bytes": None, "tiered_copy_bytes": None,
        "size_bytes": 60, "in_bytes_per_s": 0, "in_sync_followers": 0, "reason_codes": ["balance"],
    }  # fmt: skip
    hosts = pd.DataFrame({"broker_id": [1, 2], "disk_capacity_bytes": [100.0, 100.0], "disk_used_bytes": [60, 31]})
    hosts = small_plan.without_network(hosts)
    settings = small_plan.settings()
    assert schedule_cluster(pd.DataFrame([row]), hosts, settings=settings)["wave"].isna().all()
    roomy = hosts.assign(disk_used_bytes=[60, 30])
    assert schedule_cluster(pd.DataFrame([row]), roomy, settings=settings)["wave"].tolist() == [1]


def test_a_disk_is_fullest_with_what_earlier_waves_brought() -> None:
    """And without what they took away: of each wave the fullest broker while both copies are there."""
    moves = [(1, 60, 1, 3), (2, 40, 2, 1), (3, 50, 2, 3)]
    rows = [
        {
            "topic": "t", "partition": number, "leader": float(before), "size_bytes": size, "in_bytes_per_s": 0,
            "in_sync_followers": 0, "reason_codes": ["balance"], "current_replicas": [before],
            "proposed_replicas": [after], "wave": number, **dict.fromkeys(TIMES), "copy_bytes_per_s": 10**7,
            "copy_bytes": None, "tiered_copy_bytes": None,
        }
        for number, size, before, after in moves
    ]  # fmt: skip
    hosts = pd.DataFrame({"cluster_id": "c", "run_id": "r", "broker_id": [3, 1, 2], "disk_used_bytes": [0, 60, 90]})
    hosts = small_plan.without_network(hosts)
    waves = wave_rows(pd.DataFrame(rows), hosts, settings=small_plan.settings())
    assert waves["peak_disk_bytes"].tolist() == [90, 90, 110]
    assert waves["busiest_broker"].tolist() == [1, 1, 2]


def test_a_plan_without_room_is_refused(spark: SparkSession, tables: Tables) -> None:
    """A changed partition without a wave stops its cluster, with its name and a remedy; else the run continues."""
    run = small_plan.run(spark)
    stuck = [{**row, "wave": None} if row["partition"] == 1 else row for row in tables["plan"]]
    ids = spark.createDataFrame([("orders",)], "cluster_id string")
    known = {"instance_brokers": ids, "broker_balance": ids}
    schema = schema_of(schemas.ALL["plan"])
    refused = plan.gate({**known, "plan": spark.createDataFrame(stuck, schema)}, run)
    assert list(refused) == ["orders"]
    assert isinstance(refused["orders"], AuditFailed)
    message = r"orders: clicks-1, orders: orders\.v1-1; lower .*disk_headroom \(now 0\.1\)"
    assert re.search(message, str(refused["orders"]))
    planned = {**known, "plan": spark.createDataFrame(tables["plan"], schema)}
    assert plan.gate(planned, run) == {}
    refused = plan.gate({**planned, "broker_balance": ids.limit(0)}, run)
    assert "cluster orders: its plan needs more memory than a Python process got; plan it " in str(refused["orders"])


def test_a_cluster_whose_task_dies_leaves_the_others_their_plans(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Each cluster is tried alone then, and the log names the one that fails."""
    ids = spark.createDataFrame([("a",), ("b",), ("c",)], "cluster_id string")

    def made(chosen: Column) -> DataFrame:
        return ids.where(chosen).groupBy("cluster_id").applyInPandas(_dies_for_b, "cluster_id string")

    assert sorted(row.cluster_id for row in computed(made, ids).collect()) == ["a", "c"]
    assert "cluster b" in caplog.text
    assert "cluster a" not in caplog.text


def _dies_for_b(rows: pd.DataFrame) -> pd.DataFrame:
    if rows["cluster_id"].iloc[0] == "b":
        os._exit(137)
    return rows


def test_what_a_loss_would_do_follows_the_waves(spark: SparkSession) -> None:
    """A topic of one replica takes no writes while it moves; its loss stops it as before, and one finding says so."""
    rows = [row | {"min_insync_replicas": 2} for row in small_plan.instance()]
    rows[1] |= {"replicas": [2], "isr": [2], "log_dirs": ["any"], "replication_factor": 1}
    proposal = [{"topic": "clicks", "partition": 1, "replicas": [6]}]
    changed = small_plan.inputs(spark, instance=rows, proposal=proposal)
    tables = collect(dict(plan.build(changed, small_plan.run(spark))))
    spark.catalog.clearCache()
    stopped = by(tables["exposure"], "moment", "loss", "lost")
    assert [stopped[moment, "none", ""]["writes_stopped"] for moment in ("before", "while_moving", "after")] == [
        0,
        1,
        0,
    ]
    assert [stopped[moment, "broker", "2"]["writes_stopped"] for moment in ("before", "after")] == [1, 0]
    assert stopped["after", "broker", "6"]["writes_stopped"] == 1
    (finding,) = (row for row in tables["wave_findings"] if row["code"] == "stops_writes")
    assert (finding["topic"], finding["amount"], finding["when"]) == ("clicks", 1, "during")
    figure = by(tables["plan_summary"], "figure")["stopped_without_loss"]
    assert (figure["before"], figure["worst_moment"], figure["after"]) == (0, 1, 0)
