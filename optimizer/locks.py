"""Locks between processes. A lock ends with the process that holds it, also if that is killed."""

import errno
import fcntl
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from optimizer.errors import ConfigError, UnderWay

# Errors of file systems without locks: the run continues without a lock there.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def _lock(handle: TextIO, operation: int) -> None:
    try:
        fcntl.flock(handle, operation)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


@contextmanager
def exclusive(path: Path, *, with_children: bool = False) -> Iterator[None]:
    """Hold the lock of a file; wait until it is free.

    Parameters
    ----------
    with_children : bool
        Whether programs that are started meanwhile, without ``close_fds``, also hold the lock until they end, even if
        this process is killed.
    """
    with _opened(path) as handle:
        os.set_inheritable(handle.fileno(), with_children)
        _lock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def exclusive_now(path: Path) -> Iterator[bool]:
    """Hold the lock of a file if it is free, together with programs that are started meanwhile.

    Yields
    ------
    bool
        Whether the lock is held.
    """
    with _opened(path) as handle:
        os.set_inheritable(handle.fileno(), True)
        try:
            _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _opened(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+", encoding="utf-8")
    except OSError as error:
        remedy = "run as the owner of that file, or give other folders"
        raise ConfigError(f"the lock {path} can't be opened: {error.strerror}; {remedy}") from error


@contextmanager
def lock_run(run_id: str, paths: Iterable[Path]) -> Iterator[None]:
    """Hold the locks of a run.

    Raises
    ------
    UnderWay
        If another process holds one of them; the message names it.
    ConfigError
        If one of them can't be opened.
    """
    with ExitStack() as stack:
        for path in paths:
            handle = stack.enter_context(_opened(path))
            try:
                _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                handle.seek(0)
                raise UnderWay(
                    f"run {run_id!r} is already running ({handle.read().strip() or 'another process'} holds {path}): "
                    "wait until it ends, or give another --run-id"
                ) from error
            handle.truncate(0)
            handle.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            handle.flush()
        yield
