"""./ballast report --run-id: the files of a run from its tables; the same bytes as the job's, or nothing."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from execution.cli import main
from execution.site import quality_pages
from optimizer import folders
from optimizer.locks import lock_run
from stored.runs import StoredRuns
from stored.tables import Warehouse
from tests.execution.finished_runs import CONTENTS, LINES, add_checks, add_documents, add_plan, end

PAGES = ("index.html", "report.css")
FILES = {name: content.encode() for name, content in CONTENTS.items()}


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A run of three clusters: a plan, nothing to do, and a refusal after an attempt with a plan."""
    warehouse = Warehouse(str(tmp_path / "w"))
    end(warehouse, "r", a="planned", b="planned", c="nothing_to_do")
    add_plan(warehouse, "r", "a")
    add_plan(warehouse, "r", "b")
    add_documents(warehouse, "r", "c", {"report.html": "<p>nothing</p>\n"})
    end(warehouse, "r", attempt=2, a="planned", b="refused", c="nothing_to_do")
    add_documents(warehouse, "other", "a", {"other.json": "{}"})
    add_checks(warehouse, "other", "z")
    return warehouse


def report(warehouse: Warehouse, to: Path | str, *words: str) -> int:
    """The exit code of the command for the run, or for other words."""
    return main(["report", "--warehouse", warehouse.path, "--to", str(to), *(words or ("--run-id", "r"))])


def files(folder: Path) -> dict[str, bytes]:
    """Content by path of every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_last_attempt_is_written(warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All documents of planned and idle clusters byte for byte, all quality pages, nothing of other runs."""
    assert report(warehouse, tmp_path / "to") == 0
    pages = {
        f"r/quality/{cluster}.html": text.encode()
        for cluster, text in quality_pages(StoredRuns(warehouse, "r")).items()
    }
    assert pages.keys() == {"r/quality/a.html", "r/quality/b.html"}
    plan = {f"r/a/{name}": content for name, content in FILES.items()}
    found = files(tmp_path / "to")
    assert found.pop("r/report.css").startswith(b":root")
    assert b"Move \xc3\xa9 20 GB" in found.pop("r/index.html")
    assert found == {**plan, "r/c/report.html": b"<p>nothing</p>\n", **pages}
    run = tmp_path / "to" / "r"
    assert capsys.readouterr().out.splitlines() == [
        f"a: planned: {run / 'a'}, {run / 'quality' / 'a.html'}",
        f"b: refused: {run / 'quality' / 'b.html'}",
        f"c: nothing_to_do: {run / 'c'}",
        f"all clusters: {run / 'index.html'}",
    ]


def test_a_quality_page_has_the_checks_of_its_cluster(warehouse: Warehouse, tmp_path: Path) -> None:
    """In the order of the job: the first lines first, and the number of the others."""
    report(warehouse, tmp_path, "--run-id", "r", "--cluster", "b")
    assert files(tmp_path / "r").keys() == {"quality/b.html", *PAGES}
    text = (tmp_path / "r" / "quality" / "b.html").read_text()
    failed = text.partition("<h2>size_known</h2>")[2].partition("</section>")[0]
    assert [number for number in range(1, LINES + 1) if f"size {number}<" in failed] == [1, 2, 3, 4, 5]
    assert "And 3 more rows" in failed
    assert "<h1>b</h1>" in text
    assert "run r" in text


def test_an_unsorted_table_gives_the_same_page(warehouse: Warehouse) -> None:
    """Results are sorted by table and rule: the order of rows in a Delta table is not fixed."""
    page = quality_pages(StoredRuns(warehouse, "r"))["a"]
    rows = warehouse.rows("quality_results", run_id="r", cluster_id="a")
    DeltaTable(f"{warehouse.path}/quality_results").delete()
    warehouse.append("quality_results", rows[::-1])
    assert quality_pages(StoredRuns(warehouse, "r"))["a"] == page


def test_the_jobs_own_folder_stays_as_it_is(warehouse: Warehouse, tmp_path: Path) -> None:
    """Equal bytes change nothing, and the rollback files of superseded plans stay."""
    assert report(warehouse, tmp_path) == 0
    old = tmp_path / "r" / "superseded-a-1"
    old.mkdir()
    (old / "rollback.json").write_text("{}")
    before = files(tmp_path / "r")
    assert report(warehouse, tmp_path) == 0
    assert files(tmp_path / "r") == before


def test_another_plan_is_superseded(warehouse: Warehouse, tmp_path: Path) -> None:
    """The files of the folder's earlier plan move away, as if the job had published the new one."""
    folders.write_cluster(tmp_path / "r", "a", [("a/rollback.json", "old"), ("a/reassignment.json", "old")])
    assert report(warehouse, tmp_path, "--run-id", "r", "--cluster", "a") == 0
    assert files(tmp_path / "r" / "a") == FILES
    superseded = {"rollback.json", "SUPERSEDED.txt", "not-to-be-executed/reassignment.json"}
    assert files(tmp_path / "r" / "superseded-a-1").keys() == superseded


def test_a_plan_that_the_last_attempt_does_not_have_is_superseded(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was refused, or its cluster was not planned again: nobody shall execute it from an older export."""
    assert report(warehouse, tmp_path) == 0
    end(warehouse, "r", attempt=3, a="refused")
    assert report(warehouse, tmp_path) == 0
    assert "a: refused: " in (out := capsys.readouterr().out)
    assert "c: replaced: no files" in out
    names = {path.name for path in (tmp_path / "r").iterdir()}
    assert names == {"superseded-a-1", "superseded-c-1", "quality", *PAGES}
    assert "has deleted its plan" in (tmp_path / "r" / "index.html").read_text()


def test_a_folder_that_a_job_writes_is_refused(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job holds the lock of its output folder; afterwards the lock's file is no obstacle."""
    with lock_run("r", [tmp_path / "r" / ".lock"]):
        assert report(warehouse, tmp_path) == 1
    assert "run 'r' is already running" in capsys.readouterr().err
    assert files(tmp_path / "r").keys() == {".lock"}
    assert report(warehouse, tmp_path) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--run-id", "s"), "{w} has no run 's'; ./ballast show lists the runs"),
        (("--run-id", "r", "--cluster", "aa"), "run 'r' in {w} has no cluster 'aa' (did you mean 'a'?)"),
        (("--all", "--cluster", "a"), "--cluster names a cluster of one run: give it with --run-id, not with --all"),
    ],
)
def test_an_unknown_run_or_cluster_writes_nothing(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    """The exit code is 2, with the message of show."""
    assert report(warehouse, tmp_path / "to", *words) == 2
    assert capsys.readouterr().err.startswith(f"error: {message.replace('{w}', warehouse.path)}")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("words", [("--run-id", "r"), ("--all",)], ids=["run", "all"])
def test_a_folder_that_cannot_be_written_is_named(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """Path, cause and remedy, exit code 2; a URI of another file system too."""
    (tmp_path / "file").write_text("x")
    assert report(warehouse, tmp_path / "file", *words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path / 'file'}/r")
    assert "Not a directory): give --to a folder that this user can write and that has free space" in error
    assert report(warehouse, "", *words) == 2
    assert "--to '' is not usable" in capsys.readouterr().err
    assert report(warehouse, "s3://bucket/site", *words) == 2
    assert capsys.readouterr().err == (
        "error: --to 's3://bucket/site' is not usable: give a folder of this machine, and copy the files from there\n"
    )


def test_a_full_disk_leaves_no_part_of_a_cluster(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster's folder is renamed when it is complete; after an error its unfinished folder is removed."""
    written = list[Path]()

    def fail_later(path: Path, text: str, **_: object) -> int:
        written.append(path)
        if len(written) == 3:
            raise OSError(28, "No space left on device", str(path))
        return path.write_bytes(text.encode())

    monkeypatch.setattr(Path, "write_text", fail_later)
    assert report(warehouse, tmp_path / "to") == 2
    assert f"error: {tmp_path / 'to' / 'r' / 'a'} can't be written (" in capsys.readouterr().err
    assert files(tmp_path / "to") == {}
    assert [*(tmp_path / "to" / "r").iterdir()] == []


def test_a_changed_document_is_refused(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody might execute it: exit code 3, and nothing of the cluster is written."""
    DeltaTable(f"{warehouse.path}/documents").update(
        {"content": "'{\"evil\": 1}'"}, predicate="path IN ('a/wave-01/reassignment.json', 'a/runbook.md')"
    )
    assert report(warehouse, tmp_path / "to") == 3
    changed = "differs from its sha256: it was changed after the run"
    paths = ("a/runbook.md", "a/wave-01/reassignment.json")
    listed = "".join(f"\n- {path} {changed}" for path in paths)
    assert capsys.readouterr().err == f"error: 2 problems to fix first:{listed}\n"
    assert files(tmp_path / "to") == {}


def test_deleted_documents_are_reported(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan without documents is not written as an empty folder."""
    DeltaTable(f"{warehouse.path}/documents").delete("run_id = 'r'")
    assert report(warehouse, tmp_path / "to") == 2
    assert "has no rows of run 'r' and cluster 'a': they were deleted after the run" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()
