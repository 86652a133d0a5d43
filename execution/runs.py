"""All runs of a warehouse, newest first: how each cluster stands, who approved its plan, how much is executed."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from execution import claims
from execution.planned import last_verdicts, unknown
from execution.tables import Warehouse
from schemas.verdicts import PLANNED

HEADER = ("RUN", "VERDICT AT (UTC)", "CLUSTERS", "VERDICT", "APPROVED BY", "WAVES EXECUTED")
_NAMED = 3  # clusters of a run that are named: more are counted
_NONE = "-"


@dataclass(frozen=True)
class Standing:
    """How one cluster of a run stands.

    Parameters
    ----------
    waves, waves_executed : int
        0 where it has no plan.
    """

    cluster_id: str
    verdict: str
    approved_by: tuple[str, ...]
    waves: int
    waves_executed: int


@dataclass(frozen=True)
class Run:
    """One run.

    Parameters
    ----------
    verdict_at : datetime or None
        When its verdict was stored last; None where Delta's log does not tell.
    """

    run_id: str
    verdict_at: datetime | None
    clusters: tuple[Standing, ...]


def runs(warehouse: Warehouse, cluster_id: str | None = None) -> list[Run]:
    """All runs, or those of one cluster, newest first; those without a time come last.

    Raises
    ------
    StageError
        When no run has the cluster, or there are no tables.
    """
    verdicts = last_verdicts(warehouse.needed("verdicts"))
    clusters = {row["cluster_id"] for row in verdicts}
    if cluster_id is not None and cluster_id not in clusters:
        raise unknown(warehouse.path, "cluster", cluster_id, clusters, "./ballast show lists the runs of all")
    times = warehouse.written_at("verdicts", (row["run_id"] for row in verdicts))
    by_run = defaultdict(list)
    for run_id, standing in _standings(warehouse, verdicts, cluster_id):
        by_run[run_id].append(standing)
    listed = [Run(run_id, times.get(run_id), tuple(standings)) for run_id, standings in by_run.items()]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(listed, key=lambda run: (run.verdict_at or oldest, run.run_id), reverse=True)


def _standings(
    warehouse: Warehouse, verdicts: Iterable[Mapping[str, Any]], cluster_id: str | None
) -> Iterator[tuple[str, Standing]]:
    """Run and standing for each verdict, or for those of one cluster."""
    wanted = {} if cluster_id is None else {"cluster_id": cluster_id}
    approvals = defaultdict(set)
    for row in warehouse.rows("approvals", **wanted):
        approvals[row["run_id"], row["cluster_id"], row["manifest_sha256"]].add(row["approved_by"])
    waves = Counter((row["run_id"], row["cluster_id"]) for row in warehouse.rows("waves", **wanted))
    executed = Counter(wave[:2] for wave in claims.waves_executed(warehouse.rows("executions", **wanted)))
    for verdict in verdicts:
        run_id, cluster = key = verdict["run_id"], verdict["cluster_id"]
        if cluster_id not in (None, cluster):
            continue
        by: Iterable[str] = ()
        counts = 0, 0
        if verdict["verdict"] == PLANNED:
            by, counts = approvals[*key, verdict["manifest_sha256"]], (waves[key], executed[key])
        yield run_id, Standing(cluster, verdict["verdict"], tuple(sorted(by)), *counts)


def as_json(warehouse: Warehouse, cluster_id: str | None = None) -> str:
    """The list on one line, for programs."""
    listed = [
        {**asdict(run), "verdict_at": run.verdict_at.isoformat() if run.verdict_at else None}
        for run in runs(warehouse, cluster_id)
    ]
    return json.dumps(listed)


def table(warehouse: Warehouse, cluster_id: str | None = None) -> Iterator[str]:
    """The list as lines for people, one for each run."""
    lines = [HEADER, *map(_cells, runs(warehouse, cluster_id))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _cells(run: Run) -> tuple[str, ...]:
    names = [one.cluster_id for one in run.clusters]
    planned = [one for one in run.clusters if one.verdict == PLANNED]
    done = f"{sum(one.waves_executed for one in planned)} of {sum(one.waves for one in planned)}"
    return (
        run.run_id,
        f"{run.verdict_at:%Y-%m-%d %H:%M}" if run.verdict_at else _NONE,
        ", ".join(names) if len(names) <= _NAMED else f"{len(names)} clusters",
        _counted(one.verdict for one in run.clusters),
        _approvers(planned),
        done if planned else _NONE,
    )


def _counted(verdicts: Iterable[str]) -> str:
    """The verdicts of a run's clusters; where they differ, each with the number of its clusters."""
    times = Counter(verdicts)
    return next(iter(times)) if len(times) == 1 else ", ".join(f"{n} {verdict}" for verdict, n in times.items())


def _approvers(planned: list[Standing]) -> str:
    """Who approved the plans of a run, and how many of them where some are not approved."""
    approved = [one for one in planned if one.approved_by]
    if not approved:
        return _NONE
    by = ", ".join(sorted({name for one in approved for name in one.approved_by}))
    return by if len(approved) == len(planned) else f"{by} ({len(approved)} of {len(planned)})"
