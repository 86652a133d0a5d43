"""Ingest: folders, metric tables and what can't be read; then the first three stages, run twice."""

import gzip
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from optimizer.declared import NAMES, WRITERS
from optimizer.errors import ConfigError, InputError, Unreadable
from optimizer.settings import ClusterInput, InstanceBroker, Policy, Quality, Settings, Storage
from optimizer.stages.ingest import ingest, listing
from optimizer.stages.runner import STAGES, run_stage
from optimizer.stages.snapshot import snapshot
from optimizer.stages.stage import Frames, Run
from optimizer.stages.validate import validate
from optimizer.store import Store
from optimizer.topic_policy import Pin

DESCRIBE = """Topic: t\tTopicId: abc\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=2
\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1
"""
VERSIONS = """h1:9092 (id: 1 rack: a isFenced: false) -> (
h2:9092 (id: 2 rack: b isFenced: false) -> (
"""
METRICS = """observed_at,topic,partition,size_bytes,in_bytes_per_s
2026-01-31T01:00:00Z,t,0,100,10
2026-01-31T01:00:00Z,t,1,300,-1
2026-01-31T01:30:00Z,t,1,300,30
"""


def outputs_below(home: Path) -> Path:
    """The outputs of a small cluster, one in a subfolder with a blank in its name, one named with brackets."""
    below = home / "in put" / "sub folder"
    below.mkdir(parents=True)
    (below.parent / "topics.txt").write_text(DESCRIBE, encoding="utf-8")
    (below / "brokers.txt").write_text(VERSIONS, encoding="utf-8")
    (below / "load [1].csv").write_text(METRICS, encoding="utf-8")
    (below.parent / "notes.txt").write_text("nothing of ours\n", encoding="utf-8")
    return below.parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The outputs of a small cluster."""
    return outputs_below(tmp_path)


def run_of(spark: SparkSession, folder: Path, **cluster: Any) -> Run:
    """A run over one folder."""
    given = ClusterInput(id="c", input=str(folder), **cluster)
    storage = Storage(warehouse=str(folder.parent / "warehouse"), output=str(folder.parent / "out"))
    return Run(spark, "r1", Settings(clusters=(given,), storage=storage), "test")


def sizes_table(path: Path) -> None:
    """Sizes of 2,000 partitions as Parquet."""
    columns = {"topic": ["t"] * 2000, "partition": list(range(2000)), "size_bytes": list(range(2000))}
    pq.write_table(pa.table(columns), path)


def test_every_file_of_a_folder_is_read_with_its_place(spark: SparkSession, folder: Path) -> None:
    """Records keep file, line and order; tables of metrics go to their own table; the rest says why it is not read."""
    sizes_table(folder / "sizes.parquet")
    frames = ingest.build({}, run_of(spark, folder, captured_at="2026-01-31T02:00:00Z"))
    records = frames["bronze_records"].orderBy("source", "ordinal").collect()
    shown = [(row.source, row.line, row.kind) for row in records]
    assert shown == [
        ("notes.txt", 1, "malformed"),
        ("sub folder/brokers.txt", 1, "broker"),
        ("sub folder/brokers.txt", 2, "broker"),
        ("sub folder/load [1].csv", 3, "malformed"),
        ("topics.txt", 1, "topic"),
        ("topics.txt", 2, "partition"),
        ("topics.txt", 3, "partition"),
    ]
    assert {row.captured_at.isoformat() for row in records} == {"2026-01-31T02:00:00"}
    assert json.loads(records[5].payload)["replicas"] == [1, 2]
    assert "-1" in json.loads(records[3].payload)["reason"]
    samples = {(row.source, row.line, row.metric) for row in frames["bronze_metrics"].collect()}
    assert ("sub folder/load [1].csv", 2, "size_bytes") in samples
    assert ("sub folder/load [1].csv", 3, "in_bytes_per_s") not in samples
    assert sum(source == "sizes.parquet" for source, _, _ in samples) > 0


def malformed_records(frames: Frames) -> dict[str, dict[str, Any]]:
    """What was not read, by file: of each the last."""
    rows = frames["bronze_records"].where("kind = 'malformed'").orderBy("source", "ordinal").collect()
    return {row.source: json.loads(row.payload) for row in rows}


PLAN = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}'


def damaged_pages(path: Path) -> None:
    """A Parquet file with a good footer and damaged pages."""
    sizes_table(path)
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes(800) + content[840:])


def test_records_have_the_time_of_their_file(spark: SparkSession, folder: Path) -> None:
    """In whole seconds, whatever time of the folder is configured: it shows which of two outputs is the newer one."""
    for name, written in (("topics.txt", 1_700_000_000.7), ("sub folder/brokers.txt", 1_700_000_005.2)):
        os.utime(folder / name, (written, written))
    records = ingest.build({}, run_of(spark, folder, captured_at="2026-01-31T02:00:00Z"))["bronze_records"]
    rows = records.select("source", F.unix_seconds("written_at").alias("written")).distinct().collect()
    times = {row.source: row.written for row in rows}
    assert (times["topics.txt"], times["sub folder/brokers.txt"]) == (1_700_000_000, 1_700_000_005)
    assert times["sub folder/load [1].csv"] is None


def test_what_is_not_read_is_named(spark: SparkSession, folder: Path) -> None:
    """Copies, empty lists of errors and allowed files are findings; unknown, cut-off and empty files stop the run."""
    (folder / "again.txt").write_bytes((folder / "topics.txt").read_bytes())
    (folder / "load again.csv").write_bytes((folder / "sub folder" / "load [1].csv").read_bytes())
    for name in ("topics.err", "brokers.txt", "sizes.txt"):
        (folder / name).touch()
    (folder / "old.csv.gz").write_bytes(gzip.compress(METRICS.encode())[:-8])
    long = METRICS + "".join(f"2026-01-31T01:30:00Z,t,{n * 7919**5 % 10**9},1,1\n" for n in range(20_000))
    (folder / "long.csv.gz").write_bytes(gzip.compress(long.encode())[:-50_000])
    (folder / "old.parquet").write_bytes(b"PAR1\xff")
    damaged_pages(folder / "pages.parquet")
    (folder / "sub folder" / "old.log").write_text("hunter2\n", encoding="utf-8")
    for name in ("__consumer_offsets.txt", ".DS_Store"):
        (folder / name).write_text(DESCRIBE, encoding="utf-8")
    (folder / "capacity.json").write_text('{"brokerCapacities":[{"brokerId":"1"', encoding="utf-8")
    for name in ("sizes.csv", "rates.csv"):
        (folder / name).write_text(f"topic,partition,size\n{name},0,5\n", encoding="utf-8")
    (folder / "other.csv").write_bytes("topic,partition,size_mb\nt,0,5\n".encode("utf-16"))
    (folder / "plan.json").write_text(PLAN, encoding="utf-8")
    run = run_of(spark, folder)
    allowed = Quality(allow_unreadable_files=("sub*/*.log", "sizes.*"))
    frames = ingest.build({}, replace(run, settings=replace(run.settings, quality=allowed)))
    rules = {source: (record["rule"], record["severity"]) for source, record in malformed_records(frames).items()}
    assert rules.pop("load again.csv") == ("in_bytes_per_s_not_negative", "error")
    assert rules == {
        "notes.txt": ("known_format", "error"),
        "topics.txt": ("known_format", "warning"),
        "sub folder/load [1].csv": ("known_format", "warning"),
        "topics.err": ("known_format", "warning"),
        "brokers.txt": ("known_format", "error"),
        "sizes.txt": ("allowed_file", "warning"),
        "old.csv.gz": ("known_format", "error"),
        "long.csv.gz": ("known_format", "error"),
        "old.parquet": ("known_format", "error"),
        "pages.parquet": ("known_format", "error"),
        "sub folder/old.log": ("allowed_file", "warning"),
        "__consumer_offsets.txt": ("allowed_file", "warning"),
        "capacity.json": ("known_format", "error"),
        "sizes.csv": ("allowed_file", "warning"),
        "rates.csv": ("known_format", "error"),
        "other.csv": ("known_format", "error"),
        "plan.json": ("state_not_wish", "warning"),
    }
    reasons = {source: record["reason"] for source, record in malformed_records(frames).items()}
    assert reasons["topics.txt"].endswith("is an exact copy of again.txt, which is read")
    assert "a table of metrics that is not UTF-8" in reasons["other.csv"]
    assert "is an empty file" in reasons["brokers.txt"]
    assert "is a gzip archive" in reasons["old.csv.gz"]
    assert "the column 'size' has no unit" in reasons["sizes.csv"]
    assert "hunter2" not in str(frames["bronze_records"].collect())
    assert frames["bronze_records"].where("kind = 'partition'").count() == 2


def test_an_unread_file_about_consumers_is_a_finding(spark: SparkSession, folder: Path) -> None:
    """Empty, too large for a text, a table without units; a copy of it under another name is an error."""
    files = folder / "sub folder"
    (files / "consumer-members.txt").touch()
    (files / "consumer-state.txt").write_bytes(b"\n")
    (files / "sizes.txt").write_bytes(b"\n")
    (files / "consumer-lag.csv").write_text("group,topic,partition,lag\ng,t,0,5\n", encoding="utf-8")
    (files / "consumer-old.csv.gz").write_bytes(gzip.compress(METRICS.encode())[:-8])
    with (files / "consumer-dump.txt").open("wb") as dump:
        dump.truncate(listing.TEXT_BYTES + 1)
    records = malformed_records(ingest.build({}, run_of(spark, folder)))
    shown = {name: (record["rule"], record["severity"]) for name, record in records.items() if "notes" not in name}
    assert shown.pop("sub folder/load [1].csv") == ("in_bytes_per_s_not_negative", "error")
    assert shown.pop("sub folder/sizes.txt") == ("known_format", "error")
    assert shown == {
        f"sub folder/consumer-{name}": ("known_format", "warning")
        for name in ("members.txt", "state.txt", "lag.csv", "old.csv.gz", "dump.txt")
    }
    assert "no consumer group was listed" in records["sub folder/consumer-members.txt"]["reason"]
    assert records["sub folder/consumer-state.txt"]["reason"].endswith("sizes.txt, which is read")


@pytest.mark.parametrize(("is_state", "kind"), [(False, "malformed"), (True, "assignment")])
def test_a_plan_alone_is_no_state(spark: SparkSession, tmp_path: Path, is_state: bool, kind: str) -> None:
    """A folder with nothing but reassignment JSON is refused, unless a knob says that it is the state."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "plan.json").write_bytes(PLAN.encode("utf-16"))
    run = run_of(spark, tmp_path / "in")
    settings = replace(run.settings, quality=Quality(assignment_is_state=is_state))
    (row,) = ingest.build({}, replace(run, settings=settings))["bronze_records"].collect()
    assert row.kind == kind
    assert is_state or json.loads(row.payload)["severity"] == "error"


@pytest.fixture(scope="module")
def whole_and_torn(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Frames, Frames]:
    """What ingest reads of a cluster, and of the same with a line of which the replicas can't be read."""
    folder = outputs_below(tmp_path_factory.mktemp("names"))
    (folder / "notes.txt").unlink()
    run = run_of(spark, folder)
    whole = {name: frame.localCheckpoint() for name, frame in ingest.build({}, run).items()}
    (folder / "topics.txt").write_text(DESCRIBE.replace("Replicas: 2,1", "Replicas: 2,x"), encoding="utf-8")
    return run, whole, {name: frame.localCheckpoint() for name, frame in ingest.build({}, run).items()}


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            {"drain_brokers": (1, 999)},
            r"drain_brokers names \[999\], which cluster c does not have; known are \[1, 2\]",
        ),
        ({"pins": (Pin(topics="t", racks=("a", "z")),)}, r"pin of 't' names racks \['z'\], .*; known are \['a', 'b'\]"),
        ({"pins": (Pin(topics="t", brokers=(3,)),)}, r"pin of 't' names brokers \[3\], .*; known are \[1, 2\]"),
        ({"drain_brokers": (2,), "pins": (Pin(topics="t", racks=("b",)),)}, None),
    ],
)
def test_names_that_no_source_knows_are_refused_at_once(
    whole_and_torn: tuple[Run, Frames, Frames], policy: dict[str, Any], message: str | None
) -> None:
    """An unknown broker or rack stops its cluster after ingest, unless it may stand in what could not be read."""
    run, whole, torn = whole_and_torn
    run = replace(run, settings=replace(run.settings, policy=Policy(**policy)))
    gate = STAGES[0].gate
    assert gate is ingest.gate
    refused = gate(whole, run)
    assert {name: type(error) for name, error in refused.items()} == ({"c": ConfigError} if message else {})
    assert all(re.search(message or "", str(error)) for error in refused.values())
    assert gate(torn, run) == {}


@pytest.mark.parametrize(
    ("instances", "message"),
    [
        ({"x": 1, "y": 2}, None),
        (
            {"x": 1, "z": 2},
            r"instances names \['z'\], which cluster c does not have; known are \['x', 'y'\]: write each",
        ),
        ({"x": 7}, r"instances names brokers \[7\], which cluster c does not have; known are \[1, 2\]: write each"),
    ],
)
def test_unknown_instances_are_refused_at_once(
    whole_and_torn: tuple[Run, Frames, Frames], instances: dict[str, int], message: str | None
) -> None:
    """The table of instances may name only instances of the metrics, in texts or tables, and brokers of the cluster."""
    run, whole, torn = whole_and_torn
    listed = tuple(InstanceBroker(instance=name, broker=broker) for name, broker in instances.items())
    clusters = (replace(run.settings.clusters[0], instances=listed),)
    run = replace(run, settings=replace(run.settings, clusters=clusters))
    sample = {"kind": F.lit("metric"), "payload": F.lit('{"instance":"y"}')}
    records, metrics = whole["bronze_records"], whole["bronze_metrics"].withColumn("instance", F.lit("x"))
    frames = {"bronze_metrics": metrics, "bronze_records": records.union(records.limit(1).withColumns(sample))}
    refused = ingest.gate(frames, run)
    assert [bool(re.search(message or "", str(error))) for error in refused.values()] == ([True] if message else [])
    assert ingest.gate({**torn, "bronze_metrics": metrics}, run) == {}


@pytest.mark.parametrize("make", [False, True])
def test_a_folder_without_input_is_named(spark: SparkSession, tmp_path: Path, make: bool) -> None:
    """A missing folder, or one without files, is refused by name with what to give."""
    missing = tmp_path / "nowhere"
    if make:
        missing.mkdir()
    message = r"folder .*nowhere.*: name a folder .* as --input DIR, or as input of \[\[clusters\]\] 'c'"
    with pytest.raises(Unreadable) as caught:
        ingest.build({}, run_of(spark, missing))
    (error,) = caught.value.errors.values()
    assert isinstance(error, InputError)
    assert re.search(message, str(error))


def test_a_configuration_that_names_nothing_is_refused(spark: SparkSession, folder: Path) -> None:
    """No cluster, and a time that is none, are wrong configuration."""
    with pytest.raises(ConfigError, match="no cluster is configured"):
        ingest.build({}, Run(spark, "r1", Settings(), "test"))
    with pytest.raises(ConfigError, match=r"captured_at = 'yesterday' is not a time"):
        ingest.build({}, run_of(spark, folder, captured_at="yesterday"))


@pytest.mark.all_only
def test_the_first_stages_run_twice_leave_every_table_as_it_was(spark: SparkSession, folder: Path) -> None:
    """Ingest, validate and snapshot give an instance; a second run, by a new process, changes no version."""
    (folder / "notes.txt").unlink()
    (folder / "sub folder" / "load [1].csv").write_text(METRICS.replace("-1", "5"), encoding="utf-8")
    run = run_of(spark, folder)
    versions = []
    for _ in range(2):
        store = Store(run.settings.storage.warehouse, spark)
        for stage in STAGES[:3]:
            run_stage(stage, run, store)
        tables = [table for stage in STAGES[:3] for table in stage.writes]
        versions.append({table: store.latest_version(table) for table in (*tables, "runs")})
    assert versions[0] == versions[1]
    instance = store.read("instance", run_id="r1").orderBy("partition").collect()
    assert [(list(row.replicas), row.size_bytes) for row in instance] == [([1, 2], 100), ([2, 1], 300)]
    assert [path.suffix for path in (run.folder / "quality").iterdir()] == [".html"]


def test_stages_write_what_the_store_says(spark: SparkSession) -> None:
    """The stage that the store names for a missing table is the one that writes it; stages are run in their order."""
    assert tuple(stage.name for stage in STAGES) == NAMES
    written = {table: stage.name for stage in STAGES for table in stage.writes}
    assert written == WRITERS
    builders = {stage.name: stage.build for stage in STAGES}
    assert (builders["ingest"], builders["validate"]) == (ingest.build, validate.build)
    assert builders["snapshot"] == snapshot.build


def test_no_content_of_a_large_file_is_loaded_to_list_it(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file over the limit has no digest, and so is no copy; it may hold anything."""
    monkeypatch.setattr(listing, "LOADED_BYTES", len(VERSIONS) + 1)
    files = {Path(file.path).name: file for file in listing.files_of(spark, str(folder))}
    looked_into = {name for name, file in files.items() if file.digest}
    assert looked_into == {"brokers.txt", "notes.txt"}
    assert files["topics.txt"].has_replicas
    assert listing.copies_of(list(files.values())) == {}


def test_a_text_that_is_no_output_by_its_size_is_refused(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named with its size, and not opened."""
    monkeypatch.setattr(ingest, "TEXT_BYTES", len(VERSIONS) + 1)
    frames = ingest.build({}, run_of(spark, folder))
    rows = frames["bronze_records"].where("source = 'topics.txt'").collect()
    records = [json.loads(row.payload) for row in rows]
    assert [(record["rule"], record["severity"]) for record in records] == [("known_format", "error")]
    assert f"({len(DESCRIBE.encode()):,} bytes) is too large" in records[0]["reason"]


@pytest.mark.parametrize(("clusters", "at_once"), [(("c",), [False]), (("c", "d"), [True, True])])
def test_each_of_several_live_clusters_is_read_before_the_next(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, clusters: tuple[str, ...], at_once: list[bool]
) -> None:
    """So the failure of one is its own; what was read of a live cluster has the time of the run in whole seconds."""
    calls = []

    def live(run: Run, _cluster: ClusterInput, *, at_once: bool) -> DataFrame:
        calls.append(at_once)
        columns = "ordinal int, kind string, source string, line int, payload string"
        return run.spark.createDataFrame([(0, "broker", "kafka://h:1", 1, "{}")], columns)

    monkeypatch.setattr(ingest, "_live", live)
    given = tuple(ClusterInput(id=name, bootstrap_servers="h:1") for name in clusters)
    rows = ingest.build({}, Run(spark, "r1", Settings(clusters=given), "test"))["bronze_records"].collect()
    assert calls == at_once
    assert [(row.cluster_id, row.captured_at.microsecond) for row in rows] == [(name, 0) for name in clusters]


def test_a_folder_that_spark_cannot_list_is_one_clusters_failure(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any error of Spark the cluster is reported as unreadable, with the folder."""

    def refuse(*_: object) -> None:
        raise PySparkException("permission denied")

    monkeypatch.setattr(ingest, "files_of", refuse)
    with pytest.raises(Unreadable) as caught:
        ingest.build({}, run_of(spark, folder))
    assert f"the folder {folder} can't be read (PySparkException)" in str(caught.value.errors["c"])
