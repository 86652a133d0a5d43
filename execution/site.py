"""Writes the static site: all runs, the nights of each cluster, and the pages of every run that people read."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from execution import claims
from execution.export import local_folder, quality_pages, write_page_of_run, writing_to
from execution.runs import MAX_NAMES, ClusterStatus, Run, approvers, count_verdicts, runs
from optimizer.emit.inside_sentences import total
from optimizer.emit.report.page import style
from optimizer.emit.site_pages import Imbalance, Night, RunLine, index_page, nights_page
from optimizer.folders import NIGHTS, RUN_PAGE, STYLE, quality_page, write_page
from optimizer.units import plural
from schemas.verdicts import PLANNED, WITH_PLAN
from stored.runs import Key, Row, StoredRun, StoredRuns, copied
from stored.tables import Warehouse

_DISK, _OUTSIDE = "disk_max_over_mean", "brokers_outside_bands"
_REPORT = "report.html"


def write_site(warehouse: Warehouse, to: str) -> str:
    """Write the site into a folder; other files there stay. Returns a line about the result.

    The documents of one run are in memory at a time. A page appears complete, and the first page is written last.

    Raises
    ------
    StageError
        When the warehouse has no tables.
    ConfigError
        When the folder cannot be written.
    """
    folder = local_folder(to)
    lines, of_cluster = [], defaultdict[str, list[Night]](list)
    links: dict[str, dict[str, str]] = defaultdict(dict)
    stored, events = StoredRuns(warehouse), defaultdict[Key, list[Row]](list)
    for row in claims.events(warehouse):
        events[row["run_id"], row["cluster_id"]].append(row)
    by_key = {(each.run_id, each.cluster_id): each for each in stored}
    for run in runs(stored):
        keys = [(run.run_id, status.cluster_id) for status in run.clusters]
        nights = [_night(run, of, by_key[key], events[key]) for of, key in zip(run.clusters, keys, strict=True)]
        pages = _write_run(warehouse, folder, run.run_id, nights)
        lines.append(_line(run, nights, pages))
        for night in nights:
            of_cluster[night.cluster_id].append(night)
            if night.cluster_id in pages:
                links[night.cluster_id][run.run_id] = f"../{pages[night.cluster_id]}"
    clusters = {cluster: f"{NIGHTS}/{cluster}.html" for cluster in sorted(of_cluster)}
    _write(folder / STYLE, style())
    for cluster, page in clusters.items():
        text = nights_page(cluster, of_cluster[cluster], links[cluster], home=f"../{RUN_PAGE}", sheet=f"../{STYLE}")
        _write(folder / page, text)
    _write(folder / RUN_PAGE, index_page(lines, clusters, most_names=MAX_NAMES, sheet=STYLE))
    return f"{folder / RUN_PAGE}: {plural(len(lines), 'run')}, {plural(len(clusters), 'cluster')}"


def _write_run(warehouse: Warehouse, folder: Path, run_id: str, nights: Sequence[Night]) -> dict[str, str]:
    """Write the page of a run, and report and quality page of its clusters; returns the link to each cluster's page."""
    run_folder, links, stored = folder / run_id, {}, StoredRuns(warehouse, run_id)
    for cluster, text in quality_pages(stored).items():
        page = quality_page(run_folder, cluster)
        _write(page, text)
        links[cluster] = page.relative_to(folder).as_posix()
    published = {night.cluster_id for night in nights if night.verdict in WITH_PLAN}
    for row in stored.table("documents", "cluster_id", "path", "content", kind="report").to_pylist():
        cluster, path = row["cluster_id"], row["path"]
        if cluster in published:
            _write(run_folder / path, row["content"])
            if path == f"{cluster}/{_REPORT}":
                links[cluster] = f"{run_id}/{path}"
    write_page_of_run(run_folder, stored)
    return {night.cluster_id: links[night.cluster_id] for night in nights if night.cluster_id in links}


def _write(page: Path, text: str) -> None:
    with writing_to(page):
        write_page(page, text)


def _line(run: Run, nights: Sequence[Night], pages: Mapping[str, str]) -> RunLine:
    planned = [cluster for cluster in run.clusters if cluster.verdict == PLANNED]
    planned_sizes = [night.planned for night in nights if night.planned is not None]
    return RunLine(
        run_id=run.run_id,
        at=run.verdict_at,
        page=f"{run.run_id}/{RUN_PAGE}",
        links={night.cluster_id: pages.get(night.cluster_id, "") for night in nights},
        verdicts=count_verdicts(cluster.verdict for cluster in run.clusters),
        approved_by=approvers(planned),
        waves=sum(cluster.waves for cluster in planned) if planned else None,
        waves_executed=sum(cluster.waves_executed for cluster in planned) if planned else None,
        planned=total(planned_sizes) if planned_sizes else None,
        done=total(night.done for night in nights) if planned_sizes else None,
    )


def _night(run: Run, status: ClusterStatus, stored: StoredRun, events: Sequence[Row]) -> Night:
    """One cluster in one run. ``events`` are those of the cluster in the run."""
    done, seconds = claims.waves_executed(events), claims.copy_seconds(events)
    waves = {(run.run_id, status.cluster_id, int(row["wave"])): row for row in stored.waves}
    known = [measured for key in waves if (measured := seconds.get(key)) is not None]
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
    """Ends of the interval of the time of all waves."""
    if not waves:
        return None
    return sum(int(row["least_seconds"]) for row in waves), sum(int(row["most_seconds"]) for row in waves)
