"""The folders of a run: earlier attempts are superseded, and a new folder is published by one rename.

In a superseded folder, rollback and unthrottle files stay where they are. All other files move to a subfolder, so that
nobody executes an old plan.
"""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

QUALITY = "quality"
NIGHTS = "clusters"  # folder of a site with a page for each cluster, next to the folders of the runs
SUPERSEDED = "superseded-"
NOTE = "SUPERSEDED.txt"
WITHDRAWN = "not-to-be-executed"
_PARTIAL = ".partial"
# Folders and files of a run for pages about all clusters.
RUN_PAGE, STYLE = "index.html", "report.css"
_PAGES = (QUALITY, STYLE)
# Files that are still needed if a wave of the plan was started.
_STAYING = ("rollback", "unthrottle")
_TEXT = f"""\
This plan is superseded: its run was started again. Do not execute it.

If a wave of it was executed or is running, use the files that are still here to undo it:
rollback*.json with kafka-reassign-partitions.sh, and the unthrottle scripts.
rollback-throttle.json is not input of that tool: it lists the throttles of a wave's rollback.
The plan itself, with its runbook and report, is in the folders {WITHDRAWN}. Only read it.
"""


def is_reserved(name: str) -> bool:
    """Whether a folder of this name does not belong to a cluster."""
    return name in _PAGES or name.startswith(SUPERSEDED) or (name.startswith(".") and name.endswith(_PARTIAL))


def is_site_name(name: str) -> bool:
    """Whether a site's own page or folder has the name, so that no run may have it."""
    return name in (NIGHTS, STYLE) or name.endswith(".html")


def quality_page(run_folder: Path, cluster_id: str) -> Path:
    """The page about the checks of a cluster's input."""
    return run_folder / QUALITY / f"{cluster_id}.html"


def write_page(page: Path, text: str) -> None:
    """Write a page by one rename: a reader sees the old page or the new one, never a part. Other pages stay."""
    page.parent.mkdir(parents=True, exist_ok=True)
    unfinished = page.with_name(f".{page.name}{_PARTIAL}")
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    unfinished.replace(page)


def supersede_folders(run_folder: Path) -> None:
    """Supersede the folders of earlier attempts, of all clusters, and finish what a killed attempt began.

    The page about all clusters is deleted: its links would lead nowhere.
    """
    (run_folder / RUN_PAGE).unlink(missing_ok=True)
    for folder in sorted(run_folder.iterdir()) if run_folder.is_dir() else ():
        if not folder.is_dir():
            continue
        if not is_reserved(folder.name):
            supersede(folder)
        elif folder.name.startswith(SUPERSEDED):
            _move_files_away(folder)
        elif folder.name.endswith(_PARTIAL):
            shutil.rmtree(folder)


def write_cluster(run_folder: Path, cluster_id: str, documents: Iterable[tuple[str, str]]) -> None:
    """Publish the documents of a cluster: its folder appears complete, or not at all.

    Parameters
    ----------
    documents : iterable of (str, str)
        Path below the run's folder, and content.
    """
    unfinished = partial(run_folder, cluster_id)
    try:
        for path, content in documents:
            target = unfinished / Path(path).relative_to(cluster_id)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8", newline="\n")
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    publish(unfinished, run_folder / cluster_id)


def partial(run_folder: Path, cluster_id: str) -> Path:
    """An empty folder to write a cluster's documents into before they are published."""
    folder = run_folder / f".{cluster_id}{_PARTIAL}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def publish(new: Path, target: Path) -> None:
    """Publish a finished folder by one rename, and delete superseded folders with the same documents."""
    if target.exists():
        supersede(target)
    new.rename(target)
    for old in _superseded(target):
        if _holds_all(old, target):
            shutil.rmtree(old)


def _superseded(target: Path) -> list[Path]:
    name = re.compile(re.escape(f"{SUPERSEDED}{target.name}-") + r"\d+")
    return sorted(folder for folder in target.parent.iterdir() if name.fullmatch(folder.name))


def supersede(folder: Path) -> None:
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
