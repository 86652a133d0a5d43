"""Lists the runs of a warehouse, newest first: verdict, approvals and executed waves of each cluster."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from execution import claims
from execution.approvals import in_force
from execution.planned import last_verdicts, unknown_name
from execution.tables import Warehouse
from optimizer.emit.inside_sentences import copied_in_words
from schemas.verdicts import PLANNED

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
        What the plan copies between brokers; None without a plan.
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


def runs(warehouse: Warehouse, cluster_id: str | None = None) -> list[Run]:
    """All runs, or the runs of one cluster, newest first; runs without a time come last.

    Raises
    ------
    StageError
        When no run has the cluster, or the warehouse has no tables.
    """
    verdicts = last_verdicts(warehouse.required_rows("verdicts"))
    clusters = {row["cluster_id"] for row in verdicts}
    if cluster_id is not None and cluster_id not in clusters:
        raise unknown_name(warehouse.path, "cluster", cluster_id, clusters, "./ballast show lists the runs of all")
    times = warehouse.written_at("verdicts", (row["run_id"] for row in verdicts))
    by_run = defaultdict(list)
    for run_id, status in _cluster_statuses(warehouse, verdicts, cluster_id):
        by_run[run_id].append(status)
    all_runs = [Run(run_id, times.get(run_id), tuple(statuses)) for run_id, statuses in by_run.items()]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(all_runs, key=lambda run: (run.verdict_at or oldest, run.run_id), reverse=True)


def _cluster_statuses(
    warehouse: Warehouse, verdicts: Iterable[Mapping[str, Any]], cluster_id: str | None
) -> Iterator[tuple[str, ClusterStatus]]:
    """Run id and status for each verdict, or for the verdicts of one cluster."""
    filters: dict[str, Any] = {} if cluster_id is None else {"cluster_id": cluster_id}
    approvals = defaultdict(set)
    for row in in_force(warehouse.rows("approvals", **filters)):
        approvals[row["run_id"], row["cluster_id"], row["manifest_sha256"]].add(row["approved_by"])
    waves, inside_bytes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in warehouse.rows("waves", **filters):
        waves[row["run_id"], row["cluster_id"]] += 1
        if row["inside_brokers"]:
            inside_bytes[row["run_id"], row["cluster_id"]] += row["moved_bytes"]
    executed = Counter(wave[:2] for wave in claims.waves_executed(claims.events(warehouse, **filters)))
    for verdict in verdicts:
        run_id, cluster = key = verdict["run_id"], verdict["cluster_id"]
        if cluster_id not in (None, cluster):
            continue
        by: Iterable[str] = ()
        counts = 0, 0
        if verdict["verdict"] == PLANNED:
            by, counts = approvals[*key, verdict["manifest_sha256"]], (waves[key], executed[key])
        until = verdict["valid_until"] if verdict["verdict"] == PLANNED else None
        moved = verdict["moved_bytes"], inside_bytes[key] if verdict["verdict"] == PLANNED else 0
        yield run_id, ClusterStatus(cluster, verdict["verdict"], tuple(sorted(by)), *counts, *moved, until)


def as_json(warehouse: Warehouse, cluster_id: str | None = None) -> str:
    """The list of runs as one line of JSON."""
    return json.dumps([asdict(run) for run in runs(warehouse, cluster_id)], default=datetime.isoformat)


def table(warehouse: Warehouse, cluster_id: str | None = None) -> Iterator[str]:
    """The list of runs as a text table, one line for each run."""
    lines = [HEADER, *map(_cells, runs(warehouse, cluster_id))]
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
    known = [cluster.moved_bytes for cluster in clusters if cluster.moved_bytes is not None]
    return copied_in_words(sum(known), sum(cluster.inside_bytes for cluster in clusters)) if known else _NONE


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
