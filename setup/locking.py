"""One preparation at a time, also when several first runs start together."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from setup.paths import BUILD


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold a lock between processes; it is free again when its holder ends, however it ends."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
