"""The folders of tables and files: whether they can be written, their locks, and which disk is full."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from optimizer.settings import Storage

_NO_SPACE = os.strerror(errno.ENOSPC)
_LOCKS = ".locks"


def local(folder: str) -> Path | None:
    """A local folder, by its path or its ``file:`` URI; None if it is on another file system."""
    path = unquote(urlsplit(folder).path) if folder.startswith("file:/") else folder
    return None if "://" in path else Path(path).absolute()


def lock_of_table(warehouse: Path, table: str) -> Path:
    """The file that is locked while a table of a local warehouse is created or changed."""
    return warehouse / _LOCKS / f"table-{table}"


def lock_of_output(run_folder: Path) -> Path:
    """The file in a run's output folder that is locked during the run."""
    return run_folder / ".lock"


def locks_of_run(storage: Storage, run_id: str) -> list[Path]:
    """The files that are locked during a run: in its output folder, and in a local warehouse."""
    warehouse = local(storage.warehouse)
    return [
        lock_of_output(Path(storage.output) / run_id),
        *([warehouse / _LOCKS / f"run-{run_id}"] if warehouse else []),
    ]


def problems(storage: Storage, run_id: str) -> Iterator[str]:
    """Why output or warehouse can't be written. The check creates nothing there."""
    if "://" in storage.output:
        remedy = "give a folder of this machine; to copy the files elsewhere, read them from the table documents"
        yield f"[storage] output = {storage.output!r} is not usable: files are written to local folders only: {remedy}"
    else:
        yield from _unwritable("output", Path(storage.output) / run_id)
    warehouse = local(storage.warehouse)
    if warehouse:
        yield from _unwritable("warehouse", warehouse)
    elif urlsplit(storage.warehouse).scheme in ("s3", "s3a") and not storage.single_writer:
        remedy = "if no two jobs ever write there at the same time, set [storage] single_writer = true"
        yield (
            f"[storage] warehouse = {storage.warehouse!r} is not safe for two jobs at once: of two commits to a "
            f"table in S3, Spark may lose one: {remedy}"
        )


def _unwritable(knob: str, folder: Path) -> Iterator[str]:
    """Try to write an unnamed file in the folder, or in its nearest existing parent."""
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"\0")
    except OSError as error:
        yield f"[storage] {knob}: {folder} can't be written ({nearest}: {error.strerror}): name another folder"


def no_space(error: BaseException | None) -> bool:
    """Whether a full disk caused an error, directly or through other errors."""
    while error:
        if getattr(error, "errno", None) == errno.ENOSPC or _NO_SPACE in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def fullest(folders: Iterable[Path]) -> Path:
    """The folder on the disk with the least free space."""
    return min((folder for folder in folders if folder.exists()), key=lambda folder: shutil.disk_usage(folder).free)
