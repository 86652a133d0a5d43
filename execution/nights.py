"""The facts of every run in a warehouse for the static site: what each night planned, and what was executed of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from execution import claims
from execution.runs import ClusterStatus, Run, runs
from optimizer.emit.site_pages import Imbalance, Night
from schemas.verdicts import WITH_PLAN
from stored.runs import Row, StoredRun, StoredRuns, copied

_DISK, _OUTSIDE = "disk_max_over_mean", "brokers_outside_bands"


@dataclass(frozen=True)
class RunNights:
    """A run, and one night for each of its clusters."""

    run: Run
    nights: tuple[Night, ...]


def nights(stored: StoredRuns) -> list[RunNights]:
    """All runs, newest first.

    Raises
    ------
    StageError
        When the warehouse has no tables.
    """
    events = claims.events(stored.warehouse)
    done, seconds = claims.waves_executed(events), claims.copy_seconds(events)
    by_key = {(each.run_id, each.cluster_id): each for each in stored}
    return [
        RunNights(
            run,
            tuple(_night(run, status, by_key[run.run_id, status.cluster_id], done, seconds) for status in run.clusters),
        )
        for run in runs(stored)
    ]


def _night(
    run: Run,
    status: ClusterStatus,
    stored: StoredRun,
    done: set[claims.WaveKey],
    copy_seconds: dict[claims.WaveKey, float | None],
) -> Night:
    """One cluster in one run.

    Parameters
    ----------
    done : set
        Waves that were executed.
    copy_seconds : mapping
        Measured seconds of each wave.
    """
    waves = {(run.run_id, status.cluster_id, int(row["wave"])): row for row in stored.waves}
    known = [seconds for key in waves if (seconds := copy_seconds.get(key)) is not None]
    return Night(
        run_id=run.run_id,
        at=run.verdict_at,
        cluster_id=status.cluster_id,
        verdict=status.verdict,
        approved_by=status.approved_by,
        waves=status.waves,
        waves_executed=status.waves_executed,
        planned=stored.copied,
        done=copied(row for key, row in waves.items() if key in done),
        disk=_figure(stored, _DISK),
        outside=_figure(stored, _OUTSIDE),
        predicted_seconds=_predicted(stored.waves),
        measured_seconds=sum(known) if known else None,
        waves_measured=len(known),
    )


def _figure(stored: StoredRun, name: str) -> Imbalance | None:
    """A figure of its plan."""
    rows: Sequence[Row] = ()
    if stored.verdict["verdict"] in WITH_PLAN:
        rows = stored.rows("plan_summary", "before", "after", figure=name)
    return Imbalance(rows[0]["before"], rows[0]["after"]) if rows else None


def _predicted(waves: Sequence[Row]) -> tuple[int, int] | None:
    """Ends of the interval of the time of all waves; both are the estimate if an older release made one of them."""
    if not waves:
        return None
    if any(row["least_seconds"] is None or row["most_seconds"] is None for row in waves):
        estimated = sum(int(row["estimated_seconds"]) for row in waves)
        return estimated, estimated
    return sum(int(row["least_seconds"]) for row in waves), sum(int(row["most_seconds"]) for row in waves)
