"""The folders of a run: earlier attempts are superseded, and a new folder is published by one rename.

In a superseded folder, rollback and unthrottle files stay where they are. All other files move to a subfolder, so that
nobody executes an old plan.
"""

import re
import shutil
from pathlib import Path

DATA_DOCS = "data_docs"
SUPERSEDED = "superseded-"
NOTE = "SUPERSEDED.txt"
WITHDRAWN = "not-to-be-executed"
_PARTIAL = ".partial"
# Files that are still needed if a wave of the plan was started.
_STAYING = ("rollback", "unthrottle")
_TEXT = f"""\
This plan is superseded: its run was started again. Do not execute it.

If a wave of it was executed or is running, use the files that are still here to undo it:
rollback*.json with kafka-reassign-partitions.sh, and the unthrottle scripts.
The plan itself, with its runbook and report, is in the folders {WITHDRAWN}. Only read it.
"""


def is_reserved(name: str) -> bool:
    """Whether a folder of this name does not belong to a cluster."""
    return name == DATA_DOCS or name.startswith(SUPERSEDED) or (name.startswith(".") and name.endswith(_PARTIAL))


def supersede_folders(run_folder: Path) -> None:
    """Supersede the folders of earlier attempts, of all clusters, and finish what a killed attempt began."""
    for folder in sorted(run_folder.iterdir()) if run_folder.is_dir() else ():
        if not folder.is_dir():
            continue
        if not is_reserved(folder.name):
            _supersede(folder)
        elif folder.name.startswith(SUPERSEDED):
            _move_files_away(folder)
        elif folder.name.endswith(_PARTIAL):
            shutil.rmtree(folder)


def partial(run_folder: Path, cluster_id: str) -> Path:
    """An empty folder to write a cluster's documents into before they are published."""
    folder = run_folder / f".{cluster_id}{_PARTIAL}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def publish(new: Path, target: Path) -> None:
    """Publish a finished folder by one rename, and delete superseded folders with the same documents."""
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
    """Rename a cluster's folder, then move the files that could be executed. The rename decides."""
    numbers = [int(old.name.rpartition("-")[2]) for old in _superseded(folder)]
    superseded = folder.with_name(f"{SUPERSEDED}{folder.name}-{max(numbers, default=0) + 1}")
    folder.rename(superseded)
    _move_files_away(superseded)


def _move_files_away(folder: Path) -> None:
    """Add a note, and move all files except those that undo a wave."""
    (folder / NOTE).write_text(_TEXT, encoding="utf-8")
    for path in _files(folder):
        if path.name != NOTE and path.parent.name != WITHDRAWN and not path.name.startswith(_STAYING):
            target = path.parent / WITHDRAWN / path.name
            target.parent.mkdir(exist_ok=True)
            path.rename(target)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _holds_all(old: Path, new: Path) -> bool:
    """Whether a superseded folder has every document of a new folder."""
    paths = ((path, path.relative_to(new)) for path in _files(new))
    return all(
        _same(path, old / name) or _same(path, old / name.parent / WITHDRAWN / name.name) for path, name in paths
    )


def _same(path: Path, old_path: Path) -> bool:
    return old_path.is_file() and path.read_bytes() == old_path.read_bytes()
