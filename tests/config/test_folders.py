"""Folders of a run: set aside, published, and what a killed run left of either."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from optimizer.folders import NOTE, WITHDRAWN, partial, set_aside, swap_in
from setup.paths import HOME

PLAN = {
    "reassignment.json": "1",
    "rollback.json": "2",
    "wave-01/unthrottle-careful.sh": "3",
    "wave-01/throttle.json": "4",
}
GOLDEN = HOME / "tests" / "golden" / "small"


def published(run: Path, cluster: str, documents: dict[str, str]) -> None:
    """Publish the documents of a cluster."""
    folder = partial(run, cluster)
    for name, content in documents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    swap_in(folder, run / cluster)


def content(run: Path) -> dict[str, str]:
    """Every file below a folder, without the notes."""
    found = (path for path in run.rglob("*") if path.is_file() and path.name != NOTE)
    return {path.relative_to(run).as_posix(): path.read_text() for path in found}


def aside(name: str, documents: dict[str, str] = PLAN) -> dict[str, str]:
    """What a superseded folder holds."""
    kept = ("rollback.json", "unthrottle-careful.sh")
    places = ((Path(name, path), text) for path, text in documents.items())
    return {str(p if p.name in kept else p.parent / WITHDRAWN / p.name): text for p, text in places}


def test_what_is_published_again_is_as_it_was(tmp_path: Path) -> None:
    """Set aside and published with the same documents, a folder is the only one; however often."""
    for _ in range(3):
        published(tmp_path, "a", PLAN)
        assert content(tmp_path) == {f"a/{path}": text for path, text in PLAN.items()}
        set_aside(tmp_path)
        assert content(tmp_path) == aside("superseded-a-1")


def test_what_takes_a_superseded_plan_back_can_be_run(tmp_path: Path) -> None:
    """An unthrottle script finds the reassignment that it asks about where that has been set aside."""
    published(tmp_path, "a", {"wave-01/reassignment.json": "{}", **_golden("wave-01/unthrottle-careful.sh")})
    wave = tmp_path / "superseded-a-1" / "wave-01"
    set_aside(tmp_path)
    environ = {"PATH": os.environ["PATH"], "BOOTSTRAP": "h:1", "KAFKA_CONFIGS": "true", "KAFKA_REASSIGN": "true"}
    command = ["sh", "-x", str(wave / "unthrottle-careful.sh")]
    trace = subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stderr
    asked = [line.partition("document=")[2] for line in trace.splitlines() if line.startswith("+ document=")]
    assert asked[-1] == str(wave / WITHDRAWN / "reassignment.json")
    assert Path(asked[-1]).is_file()


def _golden(name: str) -> dict[str, str]:
    return {name: (GOLDEN / name).read_text(encoding="utf-8")}


def test_another_plan_leaves_the_old_one_aside(tmp_path: Path) -> None:
    """Each plan that was replaced keeps a folder of its own, numbered; of whichever cluster."""
    other = {**PLAN, "reassignment.json": "5"}
    for cluster, documents in (("a", PLAN), ("a-1", PLAN), ("a", other)):
        set_aside(tmp_path)
        published(tmp_path, cluster, documents)
    expected = aside("superseded-a-1") | aside("superseded-a-1-1") | {f"a/{p}": text for p, text in other.items()}
    assert content(tmp_path) == expected
    set_aside(tmp_path)
    assert content(tmp_path) == aside("superseded-a-1") | aside("superseded-a-1-1") | aside("superseded-a-2", other)


def test_what_a_killed_run_began_is_finished(tmp_path: Path) -> None:
    """A folder that was only renamed loses what could be executed; half of a new one goes; other files stay."""
    published(tmp_path, "a", PLAN)
    (tmp_path / "a").rename(tmp_path / "superseded-a-1")
    (partial(tmp_path, "a") / "reassignment.json").write_text("half")
    (tmp_path / "data_docs").mkdir()
    (tmp_path / "data_docs" / "index.html").write_text("page")
    (tmp_path / "timings.json").write_text("{}")
    set_aside(tmp_path)
    assert content(tmp_path) == {**aside("superseded-a-1"), "data_docs/index.html": "page", "timings.json": "{}"}
    assert "Do not execute it" in (tmp_path / "superseded-a-1" / NOTE).read_text()


@pytest.mark.parametrize("at", range(6))
def test_at_no_moment_two_plans_or_half_a_plan_look_current(
    tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between any two renames, the folder of the cluster is whole and new, or is not there."""
    published(tmp_path, "a", PLAN)
    other = {**PLAN, "reassignment.json": "5"}
    renamed, rename = iter(range(100)), Path.rename

    def dying(path: Path, target: Path) -> Path:
        if next(renamed) == at:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", dying)
    with suppress(KeyboardInterrupt):
        set_aside(tmp_path)
        published(tmp_path, "a", other)
    current = {path.removeprefix("a/"): text for path, text in content(tmp_path).items() if path.startswith("a/")}
    assert current in ([PLAN] if at == 0 else [{}, other])
