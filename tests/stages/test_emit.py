"""EMIT on the small cluster: documents, golden files, the gate, and files."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from optimizer.errors import AuditFailed
from optimizer.settings import ClusterInput
from optimizer.stages.emit import emit
from optimizer.stages.plan import plan
from setup.paths import HOME
from tests.stages import small_plan
from tests.stages.tables import table

GOLDEN = HOME / "tests" / "golden" / "small"
# To write them again: BALLAST_UPDATE_GOLDEN=1 ./run-tests.sh tests/stages/test_emit.py
UPDATE = bool(os.environ.get("BALLAST_UPDATE_GOLDEN"))
Frames = dict[str, DataFrame]


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> Iterator[Frames]:
    """Inputs and outputs of EMIT, as stored: the plan's tables and the documents."""
    run, inputs = small_plan.run(spark), small_plan.inputs(spark)
    tables = {**inputs, **plan.build(inputs, run)}
    stored = {name: table(spark, name, frame.collect()) for name, frame in tables.items()}
    documents = emit.build(stored, run)["documents"].collect()
    yield {**stored, "documents": table(spark, "documents", documents)}
    spark.catalog.clearCache()


@pytest.fixture(scope="module")
def texts(frames: Frames) -> dict[str, str]:
    """Contents by path below the cluster's folder."""
    return {row.path.removeprefix("orders/"): row.content for row in frames["documents"].collect()}


def test_documents_equal_the_golden_files(texts: dict[str, str]) -> None:
    """Every document of the small plan is equal, to the byte, to the one that was looked at."""
    if UPDATE:
        for path, content in texts.items():
            (GOLDEN / path).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / path).write_text(content, encoding="utf-8")
    stored = {p.relative_to(GOLDEN).as_posix(): p.read_text("utf-8") for p in GOLDEN.rglob("*") if p.is_file()}
    assert sorted(texts) == sorted(stored)
    for path, content in texts.items():
        assert content == stored[path], path


def test_waves_and_the_whole_name_the_same_partitions(texts: dict[str, str]) -> None:
    """The reassignments of the waves add up to the whole, and each has its rollback."""
    whole = json.loads(texts["reassignment.json"])["partitions"]
    waves = [json.loads(text)["partitions"] for path, text in texts.items() if re.match(r"wave-\d+/reassignment", path)]
    key = [(p["topic"], p["partition"]) for p in whole]
    assert sorted((p["topic"], p["partition"]) for wave in waves for p in wave) == key
    back = json.loads(texts["rollback.json"])["partitions"]
    assert [p["replicas"] for p in back] == [p[2] for p in small_plan.PARTITIONS if p[2] != p[6] and 4 not in p[2]]
    stuck = json.loads(texts["rollback-not-possible.json"])["partitions"]
    assert [(p["topic"], p["partition"], p["replicas"]) for p in stuck] == [("clicks", 2, [1, 4, 5])]


def test_the_runbook_warns_of_the_dead_broker(texts: dict[str, str]) -> None:
    """Where a dead broker is named, throttles are set by script, and its rollback is named as not yet possible."""
    runbook = texts["runbook.md"]
    assert "Never use `--throttle` with them" in runbook
    assert "**Not possible while 4 is down:**" in runbook
    assert "no `rollback.json` has them: clicks-2." in runbook
    assert "--cancel" in runbook.split("A wave that runs")[1]


def test_every_file_that_the_runbook_names_exists(texts: dict[str, str]) -> None:
    """The commands of the runbook name files that are written."""
    names = set(re.findall(r'"\$WAVE/([a-z-]+\.(?:json|sh))"', texts["runbook.md"]))
    assert {"reassignment.json", "rollback.json", "throttle-careful.sh", "unthrottle-careful.sh"} <= names
    assert all(f"wave-01/{name}" in texts for name in names)


def test_the_report_refers_to_nothing_outside(texts: dict[str, str]) -> None:
    """The report loads its style sheet alone, links files of the run alone, and escapes what it shows."""
    report = texts["report.html"]
    assert not re.search(r"src\s*=|@import|url\(|<script .", report)
    links = {link for link in re.findall(r'href="([^"]*)"', report) if not link.startswith("#")}
    assert links - texts.keys() == {"../quality/orders.html", "../index.html"}
    assert "Kafka&#39;s default" in report
    assert report.count('<use href="#scale"/>') == len(small_plan.BROKERS)


def test_the_summary_fits_a_terminal(texts: dict[str, str]) -> None:
    """No line of the summary is wider than 96 columns; bound, gap and default are in it."""
    assert max(map(len, texts["summary.txt"].splitlines())) <= 96
    assert "proven: flow bound" in texts["summary.txt"]
    assert "7.69 % more" in texts["summary.txt"]


def test_scripts_are_shell_that_calls_the_tool(texts: dict[str, str], tmp_path: Path) -> None:
    """A throttle script runs in sh and gives kafka-configs.sh each entity once, with lists in brackets."""
    fake, calls = tmp_path / "kafka-configs.sh", tmp_path / "calls"
    fake.write_text(f'#!/bin/sh\nfor a in "$@"; do printf "%s|" "$a"; done >>{calls}\necho >>{calls}\n')
    fake.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "BOOTSTRAP": "h:1", "KAFKA_CONFIGS": str(fake)}
    script = texts["wave-01/throttle-careful.sh"]
    subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    out = calls.read_text()
    first = out.splitlines()[0]
    assert first.startswith("--bootstrap-server|h:1|--alter|--entity-type|topics|--entity-name|clicks|--add-config|")
    assert "follower.replication.throttled.replicas=" in first
    rates = [line for line in out.splitlines() if "|brokers|" in line]
    assert rates
    assert all("throttled.rate=" in line for line in rates)


def test_the_release_reaches_the_runbook(frames: Frames, spark: SparkSession) -> None:
    """The runbook has the options of the tools of the cluster's own release."""
    run = small_plan.run(spark)
    old = replace(run.settings, clusters=(ClusterInput(id=small_plan.CLUSTER, input="/unused", kafka_version="3.9"),))
    documents = emit.build(frames, replace(run, settings=old))["documents"].filter("kind = 'runbook'").collect()
    assert "--id 2 --config" in documents[0].content


def test_the_batches_of_the_schedule_reach_the_summary(frames: Frames, spark: SparkSession) -> None:
    """The interval names the batches of ``[schedule] batch_kb``."""
    run = small_plan.run(spark)
    run = replace(run, settings=replace(run.settings, schedule=replace(run.settings.schedule, batch_kb=32.0)))
    documents = {row.path: row.content for row in emit.build(frames, run)["documents"].collect()}
    assert "batches of 32 kB" in " ".join(documents[f"{small_plan.CLUSTER}/summary.txt"].split())


def test_the_validity_of_the_schedule_reaches_the_manifest(frames: Frames, spark: SparkSession) -> None:
    """The plan expires ``[schedule] valid_hours`` after its oldest source."""
    run = small_plan.run(spark)
    run = replace(run, settings=replace(run.settings, schedule=replace(run.settings.schedule, valid_hours=1.5)))
    (row,) = emit.build(frames, run)["documents"].filter("kind = 'manifest'").collect()
    assert json.loads(row.content)["valid_until"] == "2026-10-05T03:30:00+00:00"


def test_the_gate_refuses_a_throttle_that_lacks_a_copy(frames: Frames, spark: SparkSession) -> None:
    """A throttle script without one of the wave's replicas stops the run before a file is written."""
    spoilt = frames["documents"].withColumn("content", F.replace("content", F.lit("1:6,2:7"), F.lit("1:6")))
    error = emit.gate({**frames, "documents": spoilt}, small_plan.run(spark))["orders"]
    assert isinstance(error, AuditFailed)
    assert "throttle_lists" in str(error)


def test_the_gate_lets_a_sound_plan_through(frames: Frames, spark: SparkSession) -> None:
    """The documents of the small plan pass the audit and Kafka's checks."""
    assert emit.gate(frames, small_plan.run(spark)) == {}


def test_the_gate_refuses_what_kafka_refuses(frames: Frames, spark: SparkSession) -> None:
    """A document with a dead broker in it stops its cluster before a file is written, with Kafka's words."""
    spoilt = frames["documents"].withColumn("content", F.replace("content", F.lit("[1,7,5]"), F.lit("[1,4,5]")))
    error = emit.gate({**frames, "documents": spoilt}, small_plan.run(spark))["orders"]
    assert str(error).startswith("cluster orders: ")
    assert "Kafka would refuse the plan: Unknown broker id 4; nothing was written" in str(error)
    assert "the audit refuses the plan" in str(error)
    assert isinstance(error, AuditFailed)
    assert error.exit_code == 3


@pytest.mark.parametrize("wave", [0, 1])
def test_the_gate_refuses_a_rollback_that_kafka_refuses(frames: Frames, spark: SparkSession, wave: int) -> None:
    """A rollback that names a dead broker, of the whole or of a wave, stops its cluster before a file is written."""
    chosen = (F.col("kind") == "rollback") & (F.col("wave") == wave)
    spoilt = F.when(chosen, F.replace("content", F.lit("[2,3,5]"), F.lit("[4,3,5]"))).otherwise(F.col("content"))
    documents = frames["documents"].withColumn("content", spoilt)
    error = emit.gate({**frames, "documents": documents}, small_plan.run(spark))["orders"]
    assert "Kafka would refuse the rollback: Unknown broker id 4; nothing was written" in str(error)


def test_files_are_written_whole_and_replaced(frames: Frames, spark: SparkSession, tmp_path: Path) -> None:
    """Publishing writes every document below the run's folder; a second time leaves no file of the first."""
    run = small_plan.run(spark, str(tmp_path))
    emit.publish(frames, run)
    folder = tmp_path / small_plan.RUN_ID
    (folder / "orders" / "stale.txt").write_text("old")
    emit.publish(frames, run)
    rows = frames["documents"].collect()
    written = {p.relative_to(folder).as_posix(): p.read_text("utf-8") for p in folder.rglob("*") if p.is_file()}
    assert written == {row.path: row.content for row in rows}
    assert [p.name for p in folder.iterdir()] == ["orders"]


def test_an_empty_plan_has_no_json(spark: SparkSession, frames: Frames) -> None:
    """Without a change there is no reassignment to execute, and every page says so."""
    run = small_plan.run(spark)
    empty = {name: frames[name].limit(0) for name in ("plan", "waves", "throttles")}
    summary = frames["plan_summary"].withColumn("after", F.lit(0.0))
    tables = {**frames, **empty, "plan_summary": summary}
    documents = emit.build(tables, run)["documents"]
    contents = {row.path.removeprefix("orders/"): row.content for row in documents.collect()}
    pages = ["decision.json", "manifest.json", "report.css", "report.html", "runbook.md", "summary.txt"]
    assert sorted(contents) == pages
    assert json.loads(contents["manifest.json"])["sha256"] == {}
    assert "Nothing to do" in contents["runbook.md"]
    assert "Nothing to do" in contents["summary.txt"]
    assert "Nothing to do: no partition changes." in contents["report.html"]
    assert "./ballast approve" not in contents["report.html"]
