"""Folders of a run: superseded, published, and repaired after a killed run."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from optimizer.folders import NOTE, WITHDRAWN, partial, publish, quality_page, supersede_folders, write_page
from setup.paths import HOME

PLAN = {
    "reassignment.json": "1",
    "rollback.json": "2",
    "wave-01/unthrottle-careful.sh": "3",
    "wave-01/throttle.json": "4",
    "wave-01/rollback-throttle.json": "6",
}
GOLDEN = HOME / "tests" / "golden" / "small"


def published(run: Path, cluster: str, documents: dict[str, str]) -> None:
    """Publish the documents of a cluster."""
    folder = partial(run, cluster)
    for name, content in documents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    publish(folder, run / cluster)


def content(run: Path) -> dict[str, str]:
    """Every file below a folder, without the notes."""
    files = (path for path in run.rglob("*") if path.is_file() and path.name != NOTE)
    return {path.relative_to(run).as_posix(): path.read_text() for path in files}


def aside(name: str, documents: dict[str, str] = PLAN) -> dict[str, str]:
    """The files of a superseded folder."""
    remaining = ("rollback.json", "rollback-throttle.json", "unthrottle-careful.sh")
    places = ((Path(name, path), text) for path, text in documents.items())
    return {str(p if p.name in remaining else p.parent / WITHDRAWN / p.name): text for p, text in places}


def test_what_is_published_again_is_as_it_was(tmp_path: Path) -> None:
    """A folder that is superseded and published again with the same documents stays the only one."""
    for _ in range(3):
        published(tmp_path, "a", PLAN)
        assert content(tmp_path) == {f"a/{path}": text for path, text in PLAN.items()}
        supersede_folders(tmp_path)
        assert content(tmp_path) == aside("superseded-a-1")


def test_what_takes_a_superseded_plan_back_can_be_run(tmp_path: Path) -> None:
    """An unthrottle script finds the reassignment of a superseded plan."""
    published(tmp_path, "a", {"wave-01/reassignment.json": "{}", **_golden("wave-01/unthrottle-careful.sh")})
    wave = tmp_path / "superseded-a-1" / "wave-01"
    supersede_folders(tmp_path)
    environ = {"PATH": os.environ["PATH"], "BOOTSTRAP": "h:1", "KAFKA_CONFIGS": "true", "KAFKA_REASSIGN": "true"}
    command = ["sh", "-x", str(wave / "unthrottle-careful.sh")]
    trace = subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stderr
    documents = [line.partition("document=")[2] for line in trace.splitlines() if line.startswith("+ document=")]
    assert documents[-1] == str(wave / WITHDRAWN / "reassignment.json")
    assert Path(documents[-1]).is_file()


def _golden(name: str) -> dict[str, str]:
    return {name: (GOLDEN / name).read_text(encoding="utf-8")}


def test_another_plan_leaves_the_old_one_aside(tmp_path: Path) -> None:
    """Each replaced plan of each cluster has its own numbered folder."""
    changed = {**PLAN, "reassignment.json": "5"}
    for cluster, documents in (("a", PLAN), ("a-1", PLAN), ("a", changed)):
        supersede_folders(tmp_path)
        published(tmp_path, cluster, documents)
    expected = aside("superseded-a-1") | aside("superseded-a-1-1") | {f"a/{p}": text for p, text in changed.items()}
    assert content(tmp_path) == expected
    supersede_folders(tmp_path)
    assert content(tmp_path) == aside("superseded-a-1") | aside("superseded-a-1-1") | aside("superseded-a-2", changed)


def test_what_a_killed_run_began_is_finished(tmp_path: Path) -> None:
    """After a killed run, executable files of a renamed folder move, and a partial folder is deleted."""
    published(tmp_path, "a", PLAN)
    (tmp_path / "a").rename(tmp_path / "superseded-a-1")
    (partial(tmp_path, "a") / "reassignment.json").write_text("half")
    write_page(quality_page(tmp_path, "a"), "page")
    (tmp_path / "timings.json").write_text("{}")
    supersede_folders(tmp_path)
    assert content(tmp_path) == {**aside("superseded-a-1"), "quality/a.html": "page", "timings.json": "{}"}
    assert "Do not execute it" in (tmp_path / "superseded-a-1" / NOTE).read_text()


def test_a_page_is_replaced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the new page is complete, the old page stays; pages of other clusters always stay."""
    page = quality_page(tmp_path / "r1", "a")
    write_page(quality_page(tmp_path / "r1", "b"), "b")
    write_page(page, "old")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with suppress(KeyboardInterrupt):
            write_page(page, "new")
    assert page.read_text() == "old"
    write_page(page, "new")
    assert content(tmp_path) == {"r1/quality/a.html": "new", "r1/quality/b.html": "b"}


@pytest.mark.parametrize("at", range(6))
def test_at_no_moment_two_plans_or_half_a_plan_look_current(
    tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the run is killed between two renames, the cluster's folder is complete and new, or missing."""
    published(tmp_path, "a", PLAN)
    changed = {**PLAN, "reassignment.json": "5"}
    renamed, rename = iter(range(100)), Path.rename

    def dying(path: Path, target: Path) -> Path:
        if next(renamed) == at:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", dying)
    with suppress(KeyboardInterrupt):
        supersede_folders(tmp_path)
        published(tmp_path, "a", changed)
    current = {path.removeprefix("a/"): text for path, text in content(tmp_path).items() if path.startswith("a/")}
    assert current in ([PLAN] if at == 0 else [{}, changed])
