"""The facts of every run in a warehouse for the static site: what each night planned, and what was executed of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from execution import claims
from execution.runs import ClusterStatus, Run, runs
from execution.tables import Warehouse
from optimizer.emit.site_pages import Imbalance, Night
from schemas.verdicts import NOTHING_TO_DO, PLANNED, WITH_PLAN

Row = Mapping[str, Any]
Key = tuple[str, str]  # run and cluster
_DISK, _OUTSIDE = "disk_max_over_mean", "brokers_outside_bands"
_WAVE_COLUMNS = ("cluster_id", "run_id", "wave", "moved_bytes", "least_seconds", "most_seconds")
_FIGURE_COLUMNS = ("cluster_id", "run_id", "figure", "before", "after")


@dataclass(frozen=True)
class RunNights:
    """A run, and one night for each of its clusters."""

    run: Run
    nights: tuple[Night, ...]


@dataclass(frozen=True)
class _Facts:
    """Rows by run and cluster. ``figures`` has the value before and after the plan; ``done`` has executed waves."""

    waves: Mapping[Key, list[Row]]
    figures: Mapping[tuple[str, str, str], Imbalance]
    done: set[claims.WaveKey]
    copy_seconds: Mapping[claims.WaveKey, float | None]


def nights(warehouse: Warehouse) -> list[RunNights]:
    """All runs, newest first.

    Raises
    ------
    StageError
        When the warehouse has no tables.
    """
    all_runs = runs(warehouse)
    facts = _facts(warehouse)
    return [RunNights(run, tuple(map(partial(_night, run, facts), run.clusters))) for run in all_runs]


def _facts(warehouse: Warehouse) -> _Facts:
    waves = defaultdict(list)
    for row in warehouse.table("waves", columns=_WAVE_COLUMNS).to_pylist():
        waves[row["run_id"], row["cluster_id"]].append(row)
    figures = {
        (row["run_id"], row["cluster_id"], row["figure"]): Imbalance(row["before"], row["after"])
        for name in (_DISK, _OUTSIDE)
        for row in warehouse.table("plan_summary", columns=_FIGURE_COLUMNS, figure=name).to_pylist()
    }
    events = claims.events(warehouse)
    return _Facts(waves, figures, claims.waves_executed(events), claims.copy_seconds(events))


def _night(run: Run, facts: _Facts, status: ClusterStatus) -> Night:
    """One cluster in one run. Tables may have rows of a refused plan, which are no facts of the night."""
    key = run.run_id, status.cluster_id
    is_planned = status.verdict == PLANNED
    waves = facts.waves.get(key, []) if is_planned else []
    has_figures = status.verdict in WITH_PLAN
    measured = [facts.copy_seconds.get((*key, int(row["wave"]))) for row in waves]
    known = [seconds for seconds in measured if seconds is not None]
    return Night(
        run_id=run.run_id,
        at=run.verdict_at,
        cluster_id=status.cluster_id,
        verdict=status.verdict,
        approved_by=status.approved_by,
        waves=status.waves,
        waves_executed=status.waves_executed,
        planned_bytes=_sum_bytes(waves) if waves or status.verdict == NOTHING_TO_DO else None,
        done_bytes=_sum_bytes(row for row in waves if (*key, int(row["wave"])) in facts.done),
        disk=facts.figures.get((*key, _DISK)) if has_figures else None,
        outside=facts.figures.get((*key, _OUTSIDE)) if has_figures else None,
        predicted_seconds=_predicted(waves),
        measured_seconds=sum(known) if known else None,
        waves_measured=len(known),
    )


def _sum_bytes(waves: Iterable[Row]) -> int:
    return sum(int(row["moved_bytes"]) for row in waves)


def _predicted(waves: list[Row]) -> tuple[int, int] | None:
    """Ends of the interval of the time of all waves."""
    if not waves:
        return None
    return sum(int(row["least_seconds"]) for row in waves), sum(int(row["most_seconds"]) for row in waves)
