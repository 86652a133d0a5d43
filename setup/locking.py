"""A lock between processes, because several first runs may start at the same time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from setup.paths import BUILD, build_folder


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold a lock between processes. The system releases it when the process ends, even if it is killed.

    Raises
    ------
    SetupError
        When this user cannot write to the checkout.
    """
    with (build_folder(BUILD) / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
