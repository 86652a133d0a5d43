"""Lets one process execute the waves of a cluster at a time, on whichever host.

On one host a lock file decides, and ends with the process. Nobody can know whether a process on another host is dead,
so there a person decides with ``--take-over``; the other process notices at its next change and ends.
"""

import hashlib
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from execution.journal import ENDED, RUNNING, Journal, Row, result_of
from execution.planned import Plan, in_words
from optimizer import locks
from optimizer.errors import BallastError
from stored.tables import Warehouse

# A look at the lock holds it for less than a millisecond.
_TRIES, _PAUSE_SECONDS = 3, 0.2


class Busy(BallastError):
    """Another process executes waves of this cluster: try again later."""

    exit_code = 4


def lock_file(warehouse: Warehouse, name: str) -> Path:
    """A lock file of a cluster: in a local warehouse, or else in the temporary folder of this host."""
    if warehouse.folder is not None:
        return warehouse.folder / ".locks" / name
    digest = hashlib.sha256(warehouse.path.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"ballast-{digest}-{name}"


def is_alive(journal: Journal) -> bool:
    """Whether a process of this host executes waves of the cluster."""
    with locks.exclusive_now(lock_file(journal.warehouse, f"run-{journal.cluster_id}")) as is_free:
        return not is_free


def on_other_host(journal: Journal) -> Row | None:
    """The row of a process on another host that executes waves of the cluster, or was killed there."""
    last = journal.look().process
    is_running = last is not None and last["event"] == RUNNING
    return last if last and is_running and result_of(last)["host"] != socket.gethostname() else None


def check_no_other_host(journal: Journal) -> None:
    """Raise ``Busy`` if a process on another host may execute waves of the cluster."""
    if row := on_other_host(journal):
        command = journal.look().going_on(journal.cluster_id, row["run_id"])
        raise Busy(
            f"it is in the journal for {row['holder']}, which executes waves of cluster {journal.cluster_id!r} since "
            f"{in_words(row['happened_at'])}. If you know that this process has ended, {command} --take-over applies it"
        )


@contextmanager
def _own_lock(path: Path) -> Iterator[bool]:
    """Hold the lock, if no other process does; others take it for a moment to see whether it is free."""
    for _ in range(_TRIES):
        with locks.exclusive_now(path) as is_held:
            if is_held:
                yield True
                return
        time.sleep(_PAUSE_SECONDS)
    yield False


@contextmanager
def in_charge(journal: Journal, plan: Plan, *, take_over: bool) -> Iterator[Callable[[], None]]:
    """Be the only process that executes waves of the cluster.

    Yields
    ------
    callable
        Raises ``Busy`` if another process has taken over since.

    Raises
    ------
    Busy
        When another process of this host executes a wave, or one of another host may do so.
    """
    with _own_lock(lock_file(journal.warehouse, f"run-{plan.cluster_id}")) as is_held:
        if not is_held:
            raise Busy(f"another process of this host executes waves of cluster {plan.cluster_id!r}: nothing is done")
        if (last := on_other_host(journal)) and not take_over:
            since = in_words(last["happened_at"])
            raise Busy(
                f"{last['holder']} executes waves of cluster {plan.cluster_id!r} since {since}: nothing is done. If "
                "you know that it has ended, give --take-over"
            )
        host = {"host": socket.gethostname()}
        own = journal.note(plan, RUNNING, host)

        def newest() -> Row | None:
            return journal.look().process

        def check() -> None:
            row = newest()
            if row is None or row["number"] != own:
                who = row["holder"] if row else "nobody"
                raise Busy(f"{who} has taken over cluster {plan.cluster_id!r}: this process changes nothing any more")

        try:
            yield check
        finally:
            row = newest()
            if row and row["number"] == own:
                journal.note(plan, ENDED, host)
