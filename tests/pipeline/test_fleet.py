"""A fleet in one run: each cluster has its own verdict, and what was not planned is not left where it looks planned."""

import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

import schemas
from execution.approve import approve
from execution.planned import load
from execution.tables import Warehouse
from optimizer.errors import AlreadyApproved
from optimizer.folders import NOTE, WITHDRAWN
from optimizer.meter import Meter
from optimizer.settings import ClusterInput, Settings, Storage
from optimizer.stages.runner import STAGES, run_stages
from optimizer.stages.stage import Run
from optimizer.stages.verdicts import Verdict, exit_code

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
# Of the tables, without those that tell of attempts and of code.
TABLES = sorted(set(schemas.ALL) - {"runs", "verdicts"})


@dataclass(frozen=True)
class Ended:
    """A run: how each cluster stands, what was said, and the rows that the tables hold now."""

    verdicts: dict[str, Verdict]
    said: str
    rows: dict[str, list[Row]]


def folder_of(home: Path, name: str, describe: str = DESCRIBE, brokers: str = VERSIONS + THIRD) -> str:
    """What Kafka's tools print of a small cluster: two brokers with two partitions, and a third one without any."""
    folder = home / name
    folder.mkdir(exist_ok=True)
    for file, text in (("topics.txt", describe), ("brokers.txt", brokers), ("load.csv", METRICS)):
        (folder / file).write_text(text, encoding="utf-8")
    return str(folder)


def ended(spark: SparkSession, home: Path, clusters: Sequence[ClusterInput]) -> Ended:
    """All stages over some clusters; rows without what was measured."""
    storage = Storage(warehouse=str(home / "tables"), output=str(home / "out"))
    run, said = Run(spark, RUN_ID, Settings(clusters=tuple(clusters), storage=storage), "test"), io.StringIO()
    verdicts = run_stages(STAGES, run, Meter(spark, said))
    tables = Warehouse(storage.warehouse)
    rows = {name: [Row(**row) for row in tables.rows(name, run_id=RUN_ID)] for name in (*TABLES, "verdicts")}
    return Ended(dict(verdicts), said.getvalue(), rows)


def of(name: str, rows: dict[str, list[Row]]) -> dict[str, list[str]]:
    """The rows of one cluster in every table, in one order, without what was measured."""
    shown = {}
    for table in TABLES:
        kept = [c.name for c in schemas.ALL[table].columns if c.name not in schemas.ALL[table].volatile]
        shown[table] = sorted(repr([row[c] for c in kept]) for row in rows[table] if row.cluster_id == name)
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
    """A fleet with every kind of end; one of its clusters alone, its input torn; the fleet without the missing one."""
    home = tmp_path_factory.mktemp("fleet")
    clusters = {
        "fine": ClusterInput(id="fine", input=folder_of(home, "fine"), drain_brokers=(1,)),
        "calm": ClusterInput(id="calm", input=folder_of(home, "calm", brokers=VERSIONS)),
        "torn": ClusterInput(id="torn", input=folder_of(home, "torn", TORN)),
        "vague": ClusterInput(id="vague", input=str(home / "calm"), drain_brokers=(77,)),
        "gone": ClusterInput(id="gone", input=str(home / "nowhere")),
    }
    runs, seen = [], []
    there = [cluster for name, cluster in clusters.items() if name != "gone"]
    torn = [replace(clusters["fine"], input=clusters["torn"].input)]
    for asked in (list(clusters.values()), torn, there):
        runs.append(ended(spark, home, asked))
        seen.append(files(home / "out" / RUN_ID))
    return Three(home, clusters, runs, seen)


@pytest.mark.all_only
def test_each_cluster_has_its_own_verdict(three: Three) -> None:
    """Who passes is planned; who is refused or can't be read is told with stage, exit code and reason."""
    run = three.runs[0]
    shown = {name: (one.verdict, one.stage, one.exit_code) for name, one in run.verdicts.items()}
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
    """The messages stand on the stream of progress; the last line of each cluster without a plan is one line."""
    said = three.runs[0].said
    for start in ("cluster gone: there is no folder", "cluster vague: drain_brokers names", "cluster torn: the data"):
        assert said.count(f"error: {start}") == 1
    told = {name: one.summary() for name, one in three.runs[0].verdicts.items() if one.is_stopped}
    assert told["torn"].startswith("refused in validate: the data can't be used for planning: ")
    assert all("\n" not in line for line in told.values())


@pytest.mark.all_only
def test_the_run_ends_with_the_worst(three: Three) -> None:
    """1 where a cluster could not be read, 3 where some are refused; alone, a cluster's own code."""
    assert [exit_code(run.verdicts) for run in three.runs] == [1, 3, 3]
    assert exit_code({"vague": three.runs[0].verdicts["vague"]}) == 2
    assert exit_code({"fine": three.runs[0].verdicts["fine"]}) == 0


@pytest.mark.all_only
def test_only_those_that_pass_go_further(three: Three) -> None:
    """Tables of later stages and folders are of the clusters that go on; the pages of quality are of all judged."""
    rows = three.runs[0].rows
    judged = {"fine", "calm", "torn"}
    assert {row.cluster_id for row in rows["quality_results"]} == judged
    for table in ("instance", "plan", "documents"):
        assert {row.cluster_id for row in rows[table]} == {"fine", "calm"}, table
    names = {path.partition("/")[0] for path in three.files[0]}
    assert names == {"fine", "calm", "data_docs"}
    pages = {Path(path).name for path in three.files[0] if path.startswith("data_docs/validations")}
    assert pages == {f"{name}.html" for name in judged}


@pytest.mark.all_only
def test_a_refused_repeat_leaves_nothing_to_execute(three: Three) -> None:
    """Folders of every cluster are set aside, rollbacks where they were; the rows of the earlier plan are gone."""
    after, plan = three.files[1], three.files[0]
    assert {path.partition("/")[0] for path in after} == {"superseded-fine-1", "superseded-calm-1", "data_docs"}
    documents = {path.removeprefix("fine/") for path in plan if path.startswith("fine/")}
    kept = {path for path in documents if Path(path).name.startswith(("rollback", "unthrottle"))}
    assert {"rollback.json", "wave-01/rollback.json", "wave-01/unthrottle-careful.sh"} <= kept
    expected = {f"superseded-fine-1/{path}": plan[f"fine/{path}"] for path in kept}
    withdrawn = {path: Path("superseded-fine-1", path) for path in documents - kept}
    expected |= {str(p.parent / WITHDRAWN / p.name): plan[f"fine/{path}"] for path, p in withdrawn.items()}
    found = {path: content for path, content in after.items() if path.startswith("superseded-fine-1/")}
    assert b"Do not execute it" in found.pop(f"superseded-fine-1/{NOTE}")
    assert found == expected
    rows = three.runs[1].rows
    assert [table for table in TABLES if rows[table] and table in ("instance", "plan", "documents", "findings")] == []
    assert {row.rule for row in rows["quarantine"]} >= {"no_repeated_broker"}


@pytest.mark.all_only
def test_what_is_mended_is_as_it_was(three: Three) -> None:
    """The same input once more: the files of the first time, no other folder, the same rows of every table."""
    data_docs = "data_docs/"
    first, last = ({p: c for p, c in some.items() if not p.startswith(data_docs)} for some in three.files[::2])
    assert last == first
    for name in ("fine", "calm"):
        assert of(name, three.runs[2].rows) == of(name, three.runs[0].rows)
    attempts = sorted((row.attempt, row.cluster_id, row.verdict) for row in three.runs[2].rows["verdicts"])
    assert [one for one in attempts if one[1] == "fine"] == [
        (1, "fine", "planned"),
        (2, "fine", "refused"),
        (3, "fine", "planned"),
    ]


@pytest.mark.all_only
def test_an_approved_plan_is_not_made_again(spark: SparkSession, three: Three) -> None:
    """The verdict names the manifest that is approved; from then on the run is refused, and changes nothing."""
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
    """A stage that is run alone goes on with the attempt: who was refused before it gets no rows."""
    storage = Storage(warehouse=str(three.home / "tables"), output=str(three.home / "out"))
    clusters = tuple(cluster for name, cluster in three.clusters.items() if name != "gone")
    run = Run(spark, RUN_ID, Settings(clusters=clusters, storage=storage), "test")
    verdicts = run_stages([STAGES[2]], run, Meter(spark, io.StringIO()))
    shown = {name: (one.verdict, one.stage) for name, one in verdicts.items()}
    gone_on = ("started", None)
    assert shown == {"fine": gone_on, "calm": gone_on, "torn": ("refused", "validate"), "vague": ("refused", "ingest")}
    tables = Warehouse(storage.warehouse)
    assert {row["cluster_id"] for row in tables.rows("instance", run_id=RUN_ID)} == {"fine", "calm"}
    assert max(row["attempt"] for row in tables.rows("verdicts", run_id=RUN_ID)) == 3
