"""A fleet in one run: each cluster has its own verdict, and clusters without a plan keep no files of an old plan."""

import io
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession

import schemas
from execution.approve import approve
from execution.planned import load
from optimizer.errors import AlreadyApproved
from optimizer.folders import NOTE, WITHDRAWN
from optimizer.meter import Meter
from optimizer.settings import ClusterInput, Settings, Storage
from optimizer.stages.runner import STAGES, run_stages
from optimizer.stages.stage import Run
from optimizer.stages.verdicts import Verdict, exit_code
from stored.tables import Warehouse

RUN_ID = "night"
DESCRIBE = """Topic: t\tTopicId: abc\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=1
\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2,1
"""
VERSIONS = """h1:9092 (id: 1 rack: a isFenced: false) -> (
h2:9092 (id: 2 rack: b isFenced: false) -> (
"""
THIRD = "h3:9092 (id: 3 rack: a isFenced: false) -> (\n"
METRICS = """observed_at,topic,partition,size_bytes,in_bytes_per_s
2026-01-31T01:00:00Z,t,0,100000000,10
2026-01-31T01:00:00Z,t,1,300000000,30
"""
TORN = DESCRIBE.replace("Replicas: 2,1", "Replicas: 2,2")
# Of the tables, without those about attempts and code.
TABLES = sorted(set(schemas.ALL) - {"runs", "verdicts"})


@dataclass(frozen=True)
class Ended:
    """A finished run: verdict of each cluster, output, and the current rows of the tables."""

    verdicts: dict[str, Verdict]
    output: str
    rows: dict[str, list[Row]]


def folder_of(home: Path, name: str, describe: str = DESCRIBE, brokers: str = VERSIONS + THIRD) -> str:
    """Output of Kafka's tools for a small cluster: two brokers with two partitions, and a third broker without any."""
    folder = home / name
    folder.mkdir(exist_ok=True)
    for file, text in (("topics.txt", describe), ("brokers.txt", brokers), ("load.csv", METRICS)):
        (folder / file).write_text(text, encoding="utf-8")
    return str(folder)


def ended(spark: SparkSession, home: Path, clusters: Sequence[ClusterInput]) -> Ended:
    """Run all stages for some clusters; the rows lack measured columns."""
    storage = Storage(warehouse=str(home / "tables"), output=str(home / "out"))
    run, output = Run(spark, RUN_ID, Settings(clusters=tuple(clusters), storage=storage), "test"), io.StringIO()
    verdicts = run_stages(STAGES, run, Meter(spark, output))
    tables = Warehouse(storage.warehouse)
    rows = {name: [Row(**row) for row in tables.rows(name, run_id=RUN_ID)] for name in (*TABLES, "verdicts")}
    return Ended(dict(verdicts), output.getvalue(), rows)


def of(name: str, rows: dict[str, list[Row]]) -> dict[str, list[str]]:
    """The sorted rows of a cluster in every table, without measured columns."""
    shown = {}
    for table in TABLES:
        columns = [c.name for c in schemas.ALL[table].columns if c.name not in schemas.ALL[table].volatile]
        shown[table] = sorted(repr([row[c] for c in columns]) for row in rows[table] if row.cluster_id == name)
    return shown


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class Three:
    """Three attempts at one run id, and the files below its folder after each."""

    home: Path
    clusters: dict[str, ClusterInput]
    runs: list[Ended]
    files: list[dict[str, bytes]]


@pytest.fixture(scope="module")
def three(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Three:
    """Three attempts: a fleet with every kind of verdict; one cluster with broken input; all except the missing one."""
    home = tmp_path_factory.mktemp("fleet")
    clusters = {
        "fine": ClusterInput(id="fine", input=folder_of(home, "fine"), drain_brokers=(1,)),
        "calm": ClusterInput(id="calm", input=folder_of(home, "calm", brokers=VERSIONS)),
        "torn": ClusterInput(id="torn", input=folder_of(home, "torn", TORN)),
        "vague": ClusterInput(id="vague", input=str(home / "calm"), drain_brokers=(77,)),
        "gone": ClusterInput(id="gone", input=str(home / "nowhere")),
    }
    runs, contents = [], []
    existing = [cluster for name, cluster in clusters.items() if name != "gone"]
    torn = [replace(clusters["fine"], input=clusters["torn"].input)]
    for selected in (list(clusters.values()), torn, existing):
        runs.append(ended(spark, home, selected))
        contents.append(files(home / "out" / RUN_ID))
    return Three(home, clusters, runs, contents)


@pytest.mark.all_only
def test_each_cluster_has_its_own_verdict(three: Three) -> None:
    """Valid clusters are planned; refused or unreadable ones are reported with stage, exit code and reason."""
    run = three.runs[0]
    shown = {name: (verdict.verdict, verdict.stage, verdict.exit_code) for name, verdict in run.verdicts.items()}
    assert shown == {
        "fine": ("planned", None, 0),
        "calm": ("nothing_to_do", None, 0),
        "torn": ("refused", "validate", 3),
        "vague": ("refused", "ingest", 2),
        "gone": ("unreadable", "ingest", 1),
    }
    stored = {row.cluster_id: (row.attempt, row.verdict, row.stage, row.exit_code) for row in run.rows["verdicts"]}
    assert stored == {name: (1, *rest) for name, rest in shown.items()}
    reasons = {row.cluster_id: row.reason for row in run.rows["verdicts"]}
    assert reasons["gone"].startswith(f"there is no folder {three.home / 'nowhere'}: name a folder")
    assert "drain_brokers names [77], which cluster vague does not have" in reasons["vague"]
    assert "replicas [2,2] name a broker twice" in reasons["torn"]
    missed = "NOT reached: leaders: 16 B/s of bytes out are outside the bands"
    assert reasons["fine"] == reasons["calm"] == missed


@pytest.mark.all_only
def test_what_is_wrong_is_said_once_with_its_cluster(three: Three) -> None:
    """The messages are in the progress output; the summary of each cluster without a plan is one line."""
    output = three.runs[0].output
    for start in ("cluster gone: there is no folder", "cluster vague: drain_brokers names", "cluster torn: the data"):
        assert output.count(f"error: {start}") == 1
    verdicts = three.runs[0].verdicts
    summaries = {name: verdict.summary() for name, verdict in verdicts.items() if verdict.is_stopped}
    assert summaries["torn"].startswith("refused in validate: the data can't be used for planning: ")
    assert all("\n" not in line for line in summaries.values())


@pytest.mark.all_only
def test_the_run_ends_with_the_worst(three: Three) -> None:
    """1 if a cluster could not be read, 3 if some are refused; for one cluster alone its own code."""
    assert [exit_code(run.verdicts) for run in three.runs] == [1, 3, 3]
    assert exit_code({"vague": three.runs[0].verdicts["vague"]}) == 2
    assert exit_code({"fine": three.runs[0].verdicts["fine"]}) == 0


@pytest.mark.all_only
def test_only_those_that_pass_go_further(three: Three) -> None:
    """Later stages write rows and folders only for the remaining clusters; quality pages cover all checked clusters."""
    rows = three.runs[0].rows
    judged = {"fine", "calm", "torn"}
    assert {row.cluster_id for row in rows["quality_results"]} == judged
    for table in ("instance", "plan", "documents"):
        assert {row.cluster_id for row in rows[table]} == {"fine", "calm"}, table
    names = {path.partition("/")[0] for path in three.files[0]}
    assert names == {"fine", "calm", "quality", "index.html", "report.css"}
    pages = {Path(path).name for path in three.files[0] if path.startswith("quality/")}
    assert pages == {f"{name}.html" for name in judged}


@pytest.mark.all_only
def test_a_refused_repeat_leaves_nothing_to_execute(three: Three) -> None:
    """The folders of every cluster are moved away, except rollback files; the rows of the earlier plan are deleted."""
    after, plan = three.files[1], three.files[0]
    assert {path.partition("/")[0] for path in after} == {
        "superseded-fine-1",
        "superseded-calm-1",
        "quality",
        "index.html",
        "report.css",
    }
    documents = {path.removeprefix("fine/") for path in plan if path.startswith("fine/")}
    rollbacks = {path for path in documents if Path(path).name.startswith(("rollback", "unthrottle"))}
    assert {"rollback.json", "wave-01/rollback.json", "wave-01/unthrottle-careful.sh"} <= rollbacks
    expected = {f"superseded-fine-1/{path}": plan[f"fine/{path}"] for path in rollbacks}
    withdrawn = {path: Path("superseded-fine-1", path) for path in documents - rollbacks}
    expected |= {str(p.parent / WITHDRAWN / p.name): plan[f"fine/{path}"] for path, p in withdrawn.items()}
    superseded = {path: content for path, content in after.items() if path.startswith("superseded-fine-1/")}
    assert b"Do not execute it" in superseded.pop(f"superseded-fine-1/{NOTE}")
    assert superseded == expected
    rows = three.runs[1].rows
    assert [table for table in TABLES if rows[table] and table in ("instance", "plan", "documents", "findings")] == []
    assert {row.rule for row in rows["quarantine"]} >= {"no_repeated_broker"}


@pytest.mark.all_only
def test_what_is_mended_is_as_it_was(three: Three) -> None:
    """The same input again gives the same files, no other folder, and the same rows in every table."""
    assert three.files[2] == three.files[0]
    for name in ("fine", "calm"):
        assert of(name, three.runs[2].rows) == of(name, three.runs[0].rows)
    attempts = sorted((row.attempt, row.cluster_id, row.verdict) for row in three.runs[2].rows["verdicts"])
    assert [attempt for attempt in attempts if attempt[1] == "fine"] == [
        (1, "fine", "planned"),
        (2, "fine", "refused"),
        (3, "fine", "planned"),
    ]


@pytest.mark.all_only
def test_a_repeated_run_changes_nothing(spark: SparkSession, three: Three) -> None:
    """All stages again in one process: no table but the verdicts has a new version, and the files stay."""

    def versions() -> dict[str, int]:
        tables = (path for path in (three.home / "tables").iterdir() if (path / "_delta_log").is_dir())
        return {path.name: DeltaTable(str(path)).version() for path in tables if path.name != "verdicts"}

    before = versions()
    ended(spark, three.home, [cluster for name, cluster in three.clusters.items() if name != "gone"])
    assert versions() == before
    assert files(three.home / "out" / RUN_ID) == three.files[2]


@pytest.mark.all_only
def test_an_approved_plan_is_not_made_again(spark: SparkSession, three: Three) -> None:
    """The verdict names the approved manifest; after the approval the run is refused and changes nothing."""
    plan = load(Warehouse(str(three.home / "tables")), cluster_id="fine", run_id=RUN_ID)
    manifest = (three.home / "out" / RUN_ID / "fine" / "manifest.json").read_bytes()
    assert plan.manifest_sha256 == sha256(manifest).hexdigest()
    approve(Warehouse(str(three.home / "tables")), plan, manifest_sha256="", by="ann")
    before = files(three.home / "out")
    with pytest.raises(AlreadyApproved, match="for cluster fine, so this run is not planned again: give another"):
        ended(spark, three.home, [three.clusters["fine"]])
    assert files(three.home / "out") == before
    shutil.rmtree(three.home / "tables" / "approvals")


@pytest.mark.all_only
def test_a_refused_cluster_stays_out_of_later_jobs(spark: SparkSession, three: Three) -> None:
    """A stage that runs alone continues the attempt: clusters that were refused before get no rows."""
    storage = Storage(warehouse=str(three.home / "tables"), output=str(three.home / "out"))
    clusters = tuple(cluster for name, cluster in three.clusters.items() if name != "gone")
    run = Run(spark, RUN_ID, Settings(clusters=clusters, storage=storage), "test")
    verdicts = run_stages([STAGES[2]], run, Meter(spark, io.StringIO()))
    shown = {name: (verdict.verdict, verdict.stage) for name, verdict in verdicts.items()}
    gone_on = ("started", None)
    assert shown == {"fine": gone_on, "calm": gone_on, "torn": ("refused", "validate"), "vague": ("refused", "ingest")}
    tables = Warehouse(storage.warehouse)
    assert {row["cluster_id"] for row in tables.rows("instance", run_id=RUN_ID)} == {"fine", "calm"}
    assert max(row["attempt"] for row in tables.rows("verdicts", run_id=RUN_ID)) == 4


@pytest.mark.all_only
def test_one_page_has_every_cluster_the_worst_first(three: Three) -> None:
    """Each attempt writes it: clusters of earlier attempts stay on it, without their plans, and every link leads to a
    file of the run.
    """
    pages = [content["index.html"].decode() for content in three.files]
    names = [re.findall(r'<th scope="row" class="line">(?:<a [^>]*>)?(\w+)', page) for page in pages]
    assert names == [
        ["gone", "torn", "vague", "fine", "calm"],
        ["calm", "fine", "gone", "torn", "vague"],
        ["gone", "torn", "vague", "fine", "calm"],
    ]
    tags = [re.findall(r'<span class="tag">. ([\w ]+)</span>', page) for page in pages]
    assert tags[0] == ["Unreadable", "Refused", "Refused", "Think twice", "Think twice"]
    assert tags[1] == ["Replaced", "Refused", "Unreadable", "Refused", "Refused"]
    for page, content in zip(pages, three.files, strict=True):
        links = re.findall(r'href="([^"]+)"', page)
        assert links
        assert set(links) <= set(content)


@pytest.mark.all_only
def test_verdicts_say_what_a_plan_copies_and_until_when(three: Three) -> None:
    """The same figures as in the decision of each plan; none for a refused cluster."""
    rows = {row.cluster_id: row for row in three.runs[0].rows["verdicts"] if row.attempt == 1}
    decision = json.loads(three.files[0]["fine/decision.json"])
    assert rows["fine"].moved_bytes == decision["figures"]["moved_bytes"]["after"] > 0
    assert rows["fine"].valid_until == datetime.fromisoformat(decision["valid_until"])
    assert (rows["calm"].moved_bytes, rows["torn"].moved_bytes, rows["torn"].valid_until) == (0, None, None)
