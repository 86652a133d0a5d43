"""Writes rows of the journal, as the process of another command does."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from execution import journal
from execution.journal import Hold, Journal, wave_id
from execution.planned import Plan


def record(
    warehouse: Any,
    plan: Plan,
    wave: int,
    event: str,
    *,
    changes: str | None = None,
    result: Mapping[str, Any] | None = None,
) -> None:
    """A row of a wave; the rollback of wave 3 is -3."""
    Journal(warehouse, plan.cluster_id).record(plan, wave_id(wave), event, changes=changes, result=result)


def record_wanted(warehouse: Any, plan: Plan, wave: int, wanted: str) -> None:
    """What an operator wants."""
    Journal(warehouse, plan.cluster_id).record_wanted(plan, wave_id(wave), wanted)


def record_throttled(warehouse: Any, plan: Plan, wave: int, never_set: Collection[int]) -> None:
    """Brokers whose rates are not set yet."""
    Journal(warehouse, plan.cluster_id).record_throttled(plan, wave_id(wave), never_set)


def record_of_run(warehouse: Any, plan: Plan, event: str, host: str) -> int | None:
    """A process of a host begins or ends."""
    return Journal(warehouse, plan.cluster_id).note(plan, event, {"host": host})


def record_rollback(warehouse: Any, plan: Plan, waves: Sequence[int], by: str) -> None:
    """Somebody begins to take waves back."""
    Journal(warehouse, plan.cluster_id).note(plan, journal.ROLLBACK, {"waves": list(waves), "by": by})


def holder(warehouse: Any, cluster_id: str) -> Hold | None:
    """The wave that holds a cluster."""
    return Journal(warehouse, cluster_id).look().holder


def changes(warehouse: Any, plan: Plan, wave: int) -> str:
    """What a wave was about to change when it last began to hold the cluster."""
    book = Journal(warehouse, plan.cluster_id)
    return book.changes(book.look().holds[plan.run_id, wave_id(wave)])
