"""Writes the static site: all runs, the nights of each cluster, and the pages of every run that people read."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from execution.export import decisions, local_folder, quality_pages, writing_to
from execution.nights import RunNights, nights
from execution.planned import last_verdicts
from execution.runs import MAX_NAMES, approvers, count_verdicts
from execution.tables import Warehouse
from optimizer.emit.report.page import style
from optimizer.emit.site_pages import Night, RunLine, index_page, nights_page
from optimizer.folders import NIGHTS, RUN_PAGE, STYLE, quality_page, write_page
from optimizer.run_page import write_run_page
from optimizer.units import plural
from schemas.verdicts import PLANNED, WITH_PLAN

_REPORT = "report.html"
Row = Mapping[str, Any]


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
    verdicts = defaultdict[str, dict[str, Row]](dict)
    for row in last_verdicts(warehouse.required_rows("verdicts")):
        verdicts[row["run_id"]][row["cluster_id"]] = row
    lines, of_cluster = [], defaultdict[str, list[Night]](list)
    links: dict[str, dict[str, str]] = defaultdict(dict)
    for each in nights(warehouse):
        pages = _write_run(warehouse, folder, each, verdicts[each.run.run_id])
        lines.append(_line(each, pages))
        for night in each.nights:
            of_cluster[night.cluster_id].append(night)
            if night.cluster_id in pages:
                links[night.cluster_id][each.run.run_id] = f"../{pages[night.cluster_id]}"
    clusters = {cluster: f"{NIGHTS}/{cluster}.html" for cluster in sorted(of_cluster)}
    _write(folder / STYLE, style())
    for cluster, page in clusters.items():
        text = nights_page(cluster, of_cluster[cluster], links[cluster], home=f"../{RUN_PAGE}", sheet=f"../{STYLE}")
        _write(folder / page, text)
    _write(folder / RUN_PAGE, index_page(lines, clusters, most_names=MAX_NAMES, sheet=STYLE))
    return f"{folder / RUN_PAGE}: {plural(len(lines), 'run')}, {plural(len(clusters), 'cluster')}"


def _write_run(warehouse: Warehouse, folder: Path, each: RunNights, verdicts: Mapping[str, Row]) -> dict[str, str]:
    """Write the page of a run, and report and quality page of its clusters; returns the link to each cluster's page."""
    run_id = each.run.run_id
    run_folder, links = folder / run_id, {}
    for cluster, text in quality_pages(warehouse, run_id).items():
        page = quality_page(run_folder, cluster)
        _write(page, text)
        links[cluster] = page.relative_to(folder).as_posix()
    published = {night.cluster_id for night in each.nights if night.verdict in WITH_PLAN}
    for cluster, path, content in _reports(warehouse, run_id):
        if cluster in published:
            _write(run_folder / path, content)
            if path == f"{cluster}/{_REPORT}":
                links[cluster] = f"{run_id}/{path}"
    with writing_to(run_folder):
        write_run_page(run_folder, run_id, verdicts, decisions(warehouse, run_id))
    return {night.cluster_id: links[night.cluster_id] for night in each.nights if night.cluster_id in links}


def _reports(warehouse: Warehouse, run_id: str) -> Iterator[tuple[str, str, str]]:
    """Cluster, path and content of each report and of its style sheet."""
    columns = ("cluster_id", "path", "content")
    for row in warehouse.table("documents", columns=columns, run_id=run_id, kind="report").to_pylist():
        yield row["cluster_id"], row["path"], row["content"]


def _write(page: Path, text: str) -> None:
    with writing_to(page):
        write_page(page, text)


def _line(each: RunNights, pages: Mapping[str, str]) -> RunLine:
    planned = [cluster for cluster in each.run.clusters if cluster.verdict == PLANNED]
    planned_bytes = [night.planned_bytes for night in each.nights if night.planned_bytes is not None]
    return RunLine(
        run_id=each.run.run_id,
        at=each.run.verdict_at,
        page=f"{each.run.run_id}/{RUN_PAGE}",
        links={night.cluster_id: pages.get(night.cluster_id, "") for night in each.nights},
        verdicts=count_verdicts(cluster.verdict for cluster in each.run.clusters),
        approved_by=approvers(planned),
        waves=sum(cluster.waves for cluster in planned) if planned else None,
        waves_executed=sum(cluster.waves_executed for cluster in planned) if planned else None,
        planned_bytes=sum(planned_bytes) if planned_bytes else None,
        done_bytes=sum(night.done_bytes for night in each.nights) if planned_bytes else None,
    )
