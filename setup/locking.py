"""One preparation at a time, also when several first runs start together."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from setup.paths import BUILD, build_folder


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold a lock between processes; it is free again when its holder ends, however it ends.

    Raises
    ------
    SetupError
        When this user can't write to the checkout.
    """
    with (build_folder(BUILD) / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
