"""Shows the runs of a warehouse and the result of one run, from their tables."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from execution import journal
from execution.planned import in_words, load
from execution.rules import describe
from optimizer.emit.inside_sentences import Copied, total
from optimizer.units import human_measured, human_predicted
from schemas.runs import REMOVED
from schemas.verdicts import PLANNED
from stored.approvals import in_force, revocation
from stored.runs import StoredRun, StoredRuns
from stored.tables import Warehouse
from stored.verdicts import check_planned

HEADER = (
    "RUN",
    "VERDICT AT (UTC)",
    "CLUSTERS",
    "VERDICT",
    "COPIES",
    "VALID UNTIL (UTC)",
    "APPROVED BY",
    "WAVES EXECUTED",
)
MAX_NAMES = 3  # clusters of a run that are named; if there are more, they are only counted
_NONE = "-"


@dataclass(frozen=True)
class ClusterStatus:
    """Verdict, approvals and progress of one cluster of a run.

    Parameters
    ----------
    approved_by : tuple of str
        Who approved the plan, if nobody has revoked it since.
    waves, waves_executed : int
        0 without a plan.
    moved_bytes : int or None
        What the plan copies between brokers; None without a plan, or if its waves were deleted.
    inside_bytes : int
        What it copies to other log directories inside brokers.
    valid_until : datetime or None
        When the plan expires; None if it has nothing to execute, or never expires.
    """

    cluster_id: str
    verdict: str
    approved_by: tuple[str, ...]
    waves: int
    waves_executed: int
    moved_bytes: int | None
    inside_bytes: int
    valid_until: datetime | None


@dataclass(frozen=True)
class Run:
    """One run.

    Parameters
    ----------
    verdict_at : datetime or None
        When its last verdict was stored; None if Delta's log does not show it.
    """

    run_id: str
    verdict_at: datetime | None
    clusters: tuple[ClusterStatus, ...]


def runs(stored: StoredRuns) -> list[Run]:
    """Runs, newest first; runs without a time come last.

    Raises
    ------
    StageError
        When no run has the cluster, or the warehouse has no tables.
    """
    by_run = defaultdict[str, list[ClusterStatus]](list)
    executed = journal.waves_executed(journal.events(stored.warehouse, **stored.key))
    counts = Counter(wave[:2] for wave in executed)
    for run in stored:
        by_run[run.run_id].append(_status(run, counts[run.run_id, run.cluster_id]))
    times = stored.verdict_times
    all_runs = [Run(run_id, times.get(run_id), tuple(statuses)) for run_id, statuses in by_run.items()]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(all_runs, key=lambda run: (run.verdict_at or oldest, run.run_id), reverse=True)


def _status(run: StoredRun, waves_executed: int) -> ClusterStatus:
    size = run.copied
    is_planned = run.verdict["verdict"] == PLANNED
    approvals = in_force(run.approvals) if is_planned else ()
    return ClusterStatus(
        cluster_id=run.cluster_id,
        verdict=run.verdict["verdict"],
        approved_by=tuple(sorted({row["approved_by"] for row in approvals})),
        waves=len(run.waves),
        waves_executed=waves_executed if is_planned else 0,
        moved_bytes=int(size.between_bytes) if size else None,
        inside_bytes=int(size.inside_bytes) if size else 0,
        valid_until=run.verdict["valid_until"] if is_planned else None,
    )


def runs_as_json(warehouse: Warehouse, cluster_id: str | None = None) -> str:
    """The list of runs as one line of JSON."""
    listed = runs(StoredRuns(warehouse, cluster_id=cluster_id))
    return json.dumps([asdict(run) for run in listed], default=datetime.isoformat)


def runs_table(warehouse: Warehouse, cluster_id: str | None = None) -> Iterator[str]:
    """The list of runs as a text table, one line for each run."""
    lines = [HEADER, *map(_cells, runs(StoredRuns(warehouse, cluster_id=cluster_id)))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _cells(run: Run) -> tuple[str, ...]:
    names = [cluster.cluster_id for cluster in run.clusters]
    planned = [cluster for cluster in run.clusters if cluster.verdict == PLANNED]
    executed = sum(cluster.waves_executed for cluster in planned)
    waves = f"{executed} of {sum(cluster.waves for cluster in planned)}"
    return (
        run.run_id,
        _minute(run.verdict_at),
        ", ".join(names) if len(names) <= MAX_NAMES else f"{len(names)} clusters",
        count_verdicts(cluster.verdict for cluster in run.clusters),
        _total_bytes(run.clusters),
        _minute(min((cluster.valid_until for cluster in planned if cluster.valid_until), default=None)),
        approvers(planned),
        waves if planned else _NONE,
    )


def _minute(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" if moment else _NONE


def _total_bytes(clusters: Sequence[ClusterStatus]) -> str:
    """What all plans of a run copy, as far as it is known."""
    known = [Copied(c.moved_bytes, c.inside_bytes) for c in clusters if c.moved_bytes is not None]
    return total(known).words() if known else _NONE


def count_verdicts(verdicts: Iterable[str]) -> str:
    """The verdict of all clusters; if they differ, the number of clusters with each verdict."""
    counts = Counter(verdicts)
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{n} {verdict}" for verdict, n in counts.items())


def approvers(planned: Sequence[ClusterStatus]) -> str:
    """Who approved the plans of a run; if only some are approved, also how many."""
    approved = [cluster for cluster in planned if cluster.approved_by]
    if not approved:
        return _NONE
    by = ", ".join(sorted({name for cluster in approved for name in cluster.approved_by}))
    return by if len(approved) == len(planned) else f"{by} ({len(approved)} of {len(planned)})"


def show(warehouse: Warehouse, run_id: str, cluster_id: str | None = None) -> Iterator[str]:
    """Lines with verdict, approvals, validity and ended waves of each cluster; for one cluster also its summary.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    Refused
        After the lines, when the one cluster has no plan.
    """
    all_clusters = [*StoredRuns(warehouse, run_id, cluster_id)]
    measured = journal.copy_seconds(journal.events(warehouse, run_id=run_id))
    for stored in all_clusters:
        yield from _describe_verdict(stored)
        yield from _describe_times(stored, measured)
    if cluster_id is not None:
        [stored] = all_clusters
        # The lines above already have the reason.
        check_planned(stored.verdict, with_reason=False)
        yield from stored.documents("summary")


def as_json(warehouse: Warehouse, run_id: str, cluster_id: str) -> str:
    """The plan of one cluster as one line of JSON, for schedulers: its state, decision, figures and summary.

    ``waves`` is 0 if there is nothing to do.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    Refused
        When the cluster has no plan, or the run was removed.
    """
    stored = StoredRun(warehouse, run_id, cluster_id).planned()
    is_planned = stored.verdict["verdict"] == PLANNED
    plan = load(warehouse, run_id=run_id, cluster_id=cluster_id) if is_planned else None
    until = plan.valid_until.isoformat() if plan and plan.valid_until else None
    content = {
        "run_id": run_id,
        "cluster_id": cluster_id,
        **{name: stored.verdict[name] for name in ("verdict", "reason", "manifest_sha256")},
        "waves": len(plan.waves) if plan else 0,
        "approved_by": sorted({row["approved_by"] for row in plan.approvals}) if plan else [],
        "valid_until": until,
        "valid_hours": plan.valid_hours if plan else None,
        "decision": stored.decision,
        "summary": "".join(stored.documents("summary")),
    }
    return json.dumps(content)


def _describe_verdict(stored: StoredRun) -> Iterator[str]:
    verdict = stored.verdict
    stage = f" in {verdict['stage']}" if verdict["stage"] else ""
    reason = f": {verdict['reason']}" if verdict["reason"] else ""
    yield f"{stored.cluster_id}: {verdict['verdict']}{stage}{reason}"
    if verdict["verdict"] == PLANNED:
        yield f"  manifest {verdict['manifest_sha256']}"
        yield from _describe_approval(stored)
        yield _describe_validity(verdict["valid_until"])
    if stored.is_removed:
        yield f"  the run {REMOVED}"


def _describe_approval(stored: StoredRun) -> Iterator[str]:
    rows = stored.approvals
    approvals = in_force(rows)
    if by := dict.fromkeys(row["approved_by"] for row in approvals):
        yield f"  approved by {', '.join(by)}"
        for text in dict.fromkeys(row["rules"] for row in approvals if row["rules"]):
            yield from (f"    {line}" for line in describe(text))
    elif revoked := revocation(rows):
        yield f"  not approved: revoked by {revoked['approved_by']} at {in_words(revoked['approved_at'])}"
    else:
        yield "  not approved"


def _describe_validity(until: datetime | None) -> str:
    if until is None:
        return "  never expires"
    return f"  {'expired at' if until < datetime.now(tz=UTC) else 'valid until'} {in_words(until)}"


def _describe_times(stored: StoredRun, measured: Mapping[journal.WaveKey, float | None]) -> Iterator[str]:
    """A line for each wave that has ended and was not cancelled: its predicted and its measured time."""
    predicted = {row["wave"]: human_predicted(row["least_seconds"], row["most_seconds"]) for row in stored.waves}
    for key, seconds in sorted(measured.items()):
        if key[:2] == (stored.run_id, stored.cluster_id):
            time = "not" if seconds is None else human_measured(seconds)
            yield f"  wave {key[2]}: {predicted.get(key[2], 'not predicted')}, {time} measured"
