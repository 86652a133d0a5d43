"""Where the lock files of a cluster are."""

import hashlib
import tempfile
from pathlib import Path

from stored.tables import Warehouse


def path_of(warehouse: Warehouse, name: str) -> Path:
    """A lock file in a local warehouse, or else in the temporary folder of this host."""
    if warehouse.folder is not None:
        return warehouse.folder / ".locks" / name
    digest = hashlib.sha256(warehouse.path.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"ballast-{digest}-{name}"
