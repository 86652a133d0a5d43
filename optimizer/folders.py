"""The folders of a run: what an earlier attempt published is set aside, what is new is swapped in whole.

A superseded folder keeps what takes its plan back where it was; all else goes one folder down, so that nobody executes
what the last attempt did not make.
"""

import re
import shutil
from pathlib import Path

DATA_DOCS = "data_docs"
SUPERSEDED = "superseded-"
NOTE = "SUPERSEDED.txt"
WITHDRAWN = "not-to-be-executed"
_PARTIAL = ".partial"
# What is still of use when a wave of the plan has been started.
_KEPT = ("rollback", "unthrottle")
_TEXT = f"""\
This plan is superseded: its run was started again. Do not execute it.

Where a wave of it was executed or is under way, what takes it back is here, in its place:
rollback*.json for kafka-reassign-partitions.sh, and the unthrottle scripts.
The plan itself, with its runbook and report, is in folders {WITHDRAWN}, for reading alone.
"""


def is_reserved(name: str) -> bool:
    """Whether a folder of that name is not a cluster's."""
    return name == DATA_DOCS or name.startswith(SUPERSEDED) or (name.startswith(".") and name.endswith(_PARTIAL))


def set_aside(run_folder: Path) -> None:
    """Supersede what earlier attempts published, of whichever cluster; what a killed one left undone is finished."""
    for folder in sorted(run_folder.iterdir()) if run_folder.is_dir() else ():
        if not folder.is_dir():
            continue
        if not is_reserved(folder.name):
            _supersede(folder)
        elif folder.name.startswith(SUPERSEDED):
            _withdraw(folder)
        elif folder.name.endswith(_PARTIAL):
            shutil.rmtree(folder)


def partial(run_folder: Path, cluster_id: str) -> Path:
    """An empty folder to write a cluster's documents into before they are published."""
    folder = run_folder / f".{cluster_id}{_PARTIAL}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def swap_in(new: Path, target: Path) -> None:
    """Publish a finished folder by one rename; superseded folders that hold the same documents go."""
    if target.exists():
        _supersede(target)
    new.rename(target)
    for old in _superseded(target):
        if _holds_all(old, target):
            shutil.rmtree(old)


def _superseded(target: Path) -> list[Path]:
    name = re.compile(re.escape(f"{SUPERSEDED}{target.name}-") + r"\d+")
    return sorted(folder for folder in target.parent.iterdir() if name.fullmatch(folder.name))


def _supersede(folder: Path) -> None:
    """Rename a cluster's folder, which is the moment that counts; then take out of it what could be executed."""
    numbers = [int(old.name.rpartition("-")[2]) for old in _superseded(folder)]
    aside = folder.with_name(f"{SUPERSEDED}{folder.name}-{max(numbers, default=0) + 1}")
    folder.rename(aside)
    _withdraw(aside)


def _withdraw(folder: Path) -> None:
    (folder / NOTE).write_text(_TEXT, encoding="utf-8")
    for path in _files(folder):
        if path.name != NOTE and path.parent.name != WITHDRAWN and not path.name.startswith(_KEPT):
            target = path.parent / WITHDRAWN / path.name
            target.parent.mkdir(exist_ok=True)
            path.rename(target)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _holds_all(old: Path, new: Path) -> bool:
    """Whether a superseded folder holds every document of a new one."""
    places = ((path, path.relative_to(new)) for path in _files(new))
    return all(
        _same(path, old / place) or _same(path, old / place.parent / WITHDRAWN / place.name) for path, place in places
    )


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()
