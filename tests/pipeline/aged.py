"""Makes a warehouse older."""

import os
from pathlib import Path

DAY_SECONDS = 86_400


def age(warehouse: Path, *, days: int) -> None:
    """Set back the times of all files by some days: Delta uses the time of the commit file as the commit time."""
    for path in warehouse.rglob("*"):
        status = path.stat()
        os.utime(path, (status.st_atime - days * DAY_SECONDS, status.st_mtime - days * DAY_SECONDS))
