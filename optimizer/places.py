"""Where tables and files go: whether it can be written, which locks lie there, which of the disks is full."""

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
    """A folder of this machine, by its path or its ``file:`` URI; None for what another file system holds."""
    plain = unquote(urlsplit(folder).path) if folder.startswith("file:/") else folder
    return None if "://" in plain else Path(plain).absolute()


def lock_of_table(warehouse: Path, table: str) -> Path:
    """The file that is locked while a table of a local warehouse is created or changed."""
    return warehouse / _LOCKS / f"table-{table}"


def locks_of_run(storage: Storage, run_id: str) -> list[Path]:
    """The files that are locked while a run is under way: in its output folder, and in a local warehouse."""
    warehouse = local(storage.warehouse)
    return [
        Path(storage.output) / run_id / ".lock",
        *([warehouse / _LOCKS / f"run-{run_id}"] if warehouse else []),
    ]


def problems(storage: Storage, run_id: str) -> Iterator[str]:
    """Why output or warehouse can't be written; nothing is made or left there by looking."""
    if "://" in storage.output:
        remedy = "give a folder of this machine; the table documents holds every file, for other places"
        yield f"[storage] output = {storage.output!r} is not usable: files are written to local folders only: {remedy}"
    else:
        yield from _unwritable("output", Path(storage.output) / run_id)
    warehouse = local(storage.warehouse)
    if warehouse:
        yield from _unwritable("warehouse", warehouse)


def _unwritable(knob: str, folder: Path) -> Iterator[str]:
    """Try a file without a name in the folder, or in the nearest one above that is there."""
    nearest = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"\0")
    except OSError as error:
        yield f"[storage] {knob}: {folder} can't be written ({nearest}: {error.strerror}): name another folder"


def no_space(error: BaseException | None) -> bool:
    """Whether a full disk is behind an error, anywhere in its chain."""
    while error:
        if getattr(error, "errno", None) == errno.ENOSPC or _NO_SPACE in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def fullest(folders: Iterable[Path]) -> Path:
    """The folder whose disk has the least room left."""
    return min((folder for folder in folders if folder.exists()), key=lambda folder: shutil.disk_usage(folder).free)
