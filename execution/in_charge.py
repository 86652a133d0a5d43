"""Lets one process execute the waves of a cluster at a time, on whichever host.

On one host a lock file decides, and ends with the process. Nobody can know whether a process on another host is dead,
so there a person decides with ``--take-over``; the other process notices at its next change and ends.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from execution import claims
from execution.lock_files import path_of
from execution.planned import Plan, in_words
from optimizer import locks
from optimizer.errors import BallastError
from stored.tables import Warehouse

# A look at the lock holds it for less than a millisecond.
_TRIES, _PAUSE_SECONDS = 3, 0.2


class Busy(BallastError):
    """Another process executes waves of this cluster: try again later."""

    exit_code = 4


def is_alive(warehouse: Warehouse, cluster_id: str) -> bool:
    """Whether a process of this host executes waves of the cluster."""
    with locks.exclusive_now(path_of(warehouse, f"run-{cluster_id}")) as is_free:
        return not is_free


def on_other_host(warehouse: Warehouse, cluster_id: str) -> claims.Row | None:
    """The row of a process on another host that executes waves of the cluster, or was killed there."""
    last = claims.last_of_run(warehouse, cluster_id)
    is_other = last is not None and last["event"] == claims.RUNNING and last["result"] != socket.gethostname()
    return last if is_other else None


def check_no_other_host(warehouse: Warehouse, cluster_id: str) -> None:
    """Raise ``Busy`` if a process on another host may execute waves of the cluster."""
    if row := on_other_host(warehouse, cluster_id):
        command = claims.continuing_command(claims.events(warehouse, cluster_id=cluster_id), row)
        raise Busy(
            f"it is in the journal for {row['holder']}, which executes waves of cluster {cluster_id!r} since "
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
def in_charge(warehouse: Warehouse, plan: Plan, *, take_over: bool) -> Iterator[Callable[[], None]]:
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
    host = socket.gethostname()
    with _own_lock(path_of(warehouse, f"run-{plan.cluster_id}")) as is_held:
        if not is_held:
            raise Busy(f"another process of this host executes waves of cluster {plan.cluster_id!r}: nothing is done")
        if (last := on_other_host(warehouse, plan.cluster_id)) and not take_over:
            since = in_words(last["happened_at"])
            raise Busy(
                f"{last['holder']} executes waves of cluster {plan.cluster_id!r} since {since}: nothing is done. If "
                "you know that it has ended, give --take-over"
            )
        own = claims.record_of_run(warehouse, plan, claims.RUNNING, host)

        def check() -> None:
            newest = claims.last_of_run(warehouse, plan.cluster_id)
            if newest is None or newest["number"] != own:
                who = newest["holder"] if newest else "nobody"
                raise Busy(f"{who} has taken over cluster {plan.cluster_id!r}: this process changes nothing any more")

        try:
            yield check
        finally:
            newest = claims.last_of_run(warehouse, plan.cluster_id)
            if newest and newest["number"] == own:
                claims.record_of_run(warehouse, plan, claims.ENDED, host)
