"""Locks between processes that end with their holder, however it ends."""

import errno
import fcntl
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from optimizer.errors import ConfigError, UnderWay

# Of file systems that know no locks: a run goes on there as it did without them.
_UNKNOWN = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def _locked(handle: TextIO, how: int) -> None:
    try:
        fcntl.flock(handle, how)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise


@contextmanager
def exclusive(path: Path, *, with_children: bool = False) -> Iterator[None]:
    """Hold the lock of a file; waits until it is free.

    Parameters
    ----------
    with_children : bool
        Whether programs that are started meanwhile, without ``close_fds``, hold it until they end: also when this
        process is killed.
    """
    with _opened(path) as handle:
        os.set_inheritable(handle.fileno(), with_children)
        _locked(handle, fcntl.LOCK_EX)
        yield


def _opened(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+", encoding="utf-8")
    except OSError as error:
        remedy = "run as the user that it belongs to, or give other folders"
        raise ConfigError(f"the lock {path} can't be opened: {error.strerror}; {remedy}") from error


@contextmanager
def only_one(run_id: str, paths: Iterable[Path]) -> Iterator[None]:
    """Hold the locks of a run.

    Raises
    ------
    UnderWay
        When another process holds one of them: says which.
    ConfigError
        When one of them can't be opened.
    """
    with ExitStack() as stack:
        for path in paths:
            handle = stack.enter_context(_opened(path))
            try:
                _locked(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                handle.seek(0)
                raise UnderWay(
                    f"run {run_id!r} is under way ({handle.read().strip() or 'another process'} holds {path}): "
                    "wait for its end, or give another --run-id"
                ) from error
            handle.truncate(0)
            handle.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            handle.flush()
        yield
