"""Writes pages of finished runs again from their tables: the files of one run, or the static site of all."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from execution import journal
from execution.show import MAX_NAMES, ClusterStatus, Run, approvers, count_verdicts, runs
from optimizer import places
from optimizer.emit.fleet_page import ClusterResult
from optimizer.emit.inside_sentences import total
from optimizer.emit.quality_rows import first_rows, in_order, page_of
from optimizer.emit.report.page import style
from optimizer.emit.site_pages import Imbalance, Night, RunLine, cluster_lines, index_page, nights_page
from optimizer.errors import ConfigError, StageError
from optimizer.folders import NIGHTS, RUN_PAGE, STYLE, quality_page, supersede, write_cluster, write_page
from optimizer.locks import lock_run
from optimizer.run_page import write_run_page
from optimizer.units import plural
from schemas.verdicts import PLANNED, WITH_PLAN
from stored.runs import Key, Row, StoredRun, StoredRuns, copied
from stored.tables import Warehouse
from stored.verdicts import Refused

_ROWS = 10_000  # rows of quarantine that are Python objects at a time: some MB


def export_run(warehouse: Warehouse, run_id: str, cluster_id: str | None, to: str) -> list[str]:
    """Write the files of the last attempt at a run below ``to/run_id``: of all its clusters, or of one.

    These are documents, quality pages, and the page of the run. A folder of a cluster that has no plan any more is
    superseded, as by the job. Returns a line for each cluster: its verdict, and what was written.

    Raises
    ------
    StageError
        When the run is unknown, has no such cluster, or its documents are gone.
    Refused
        When the run was removed, or a document was changed after it.
    ConfigError
        When the folder cannot be written.
    """
    chosen, whole_run = StoredRuns(warehouse, run_id, cluster_id), StoredRuns(warehouse, run_id)
    chosen_runs = [*chosen]  # refuses an unknown cluster
    folder, lines = local_folder(to) / run_id, []
    with _locked(run_id, folder):
        checked = quality_pages(chosen)
        for stored in chosen_runs:
            cluster, verdict = stored.cluster_id, stored.verdict["verdict"]
            documents = _documents(stored) if verdict in WITH_PLAN else []
            written = _write(folder, cluster, documents, checked.get(cluster))
            lines.append(f"{cluster}: {verdict}: {', '.join(map(str, written)) or 'no files'}")
        write_page_of_run(folder, whole_run)
    return [*lines, f"all clusters: {folder / RUN_PAGE}"]


def write_page_of_run(folder: Path, stored: StoredRuns, *, home: str = "") -> None:
    """Write the page about all clusters of a run into the run's folder; ``home`` is the link to all runs."""
    verdicts = {cluster: row for (_, cluster), row in stored.verdicts.items()}
    decisions = {run.cluster_id: run.decision for run in stored}
    with writing_to(folder):
        write_run_page(folder, folder.name, verdicts, {cluster: d for cluster, d in decisions.items() if d}, home=home)


@contextmanager
def _locked(run_id: str, folder: Path) -> Iterator[None]:
    """Hold the lock that a job holds while it writes this folder. A folder without a lock gets none."""
    lock = places.lock_of_output(folder)
    with writing_to(folder):
        is_locked = lock.exists()
    with lock_run(run_id, [lock] if is_locked else []):
        yield


def _write(folder: Path, cluster: str, documents: Sequence[tuple[str, str]], checked: str | None) -> list[Path]:
    """Write the documents and the quality page of a cluster, if it has any; returns the new folder and page."""
    written, target = [], folder / cluster
    with writing_to(target):
        if documents:
            write_cluster(folder, cluster, documents)
            written.append(target)
        elif target.exists():
            supersede(target)
        if checked is not None:
            page = quality_page(folder, cluster)
            write_page(page, checked)
            written.append(page)
    return written


def local_folder(to: str) -> Path:
    """The folder of ``--to``; raises ``ConfigError`` if it is not on this machine."""
    folder = places.local(to) if to else None
    if folder is None:
        raise ConfigError(f"--to {to!r} is not usable: give a folder of this machine, and copy the files from there")
    return folder


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Report a file or folder that cannot be written as a ``ConfigError``."""
    try:
        yield
    except OSError as error:
        cause = f"{error.filename or path}: {error.strerror or error}"
        remedy = "give --to a folder that this user can write and that has free space"
        raise ConfigError(f"{path} can't be written ({cause}): {remedy}") from error


def quality_pages(stored: StoredRuns) -> dict[str, str]:
    """The quality page of each cluster of a run that has results."""
    results = stored.rows("quality_results")
    quarantine = stored.table("quarantine") if results else None
    return {
        cluster: page_of(in_order(rows), first_rows(_rows_of(quarantine, cluster)), cluster_id=cluster, run_id=run_id)
        for (run_id, cluster), rows in sorted(results.items())
    }


def _rows_of(quarantine: pa.Table, cluster: str) -> Iterator[dict[str, Any]]:
    for batch in quarantine.filter(pc.field("cluster_id") == cluster).to_batches(max_chunksize=_ROWS):
        yield from batch.to_pylist()


def _documents(stored: StoredRun) -> list[tuple[str, str]]:
    """Path and content of each document of a plan, sorted by path."""
    rows = stored.planned().table("documents", "path", "content", "sha256").sort_by("path").to_pylist()
    if not rows:
        raise StageError(
            f"table documents in {stored.warehouse.path} has no rows of run {stored.run_id!r} and cluster "
            f"{stored.cluster_id!r}: they were deleted after the run; the job emit with this --run-id writes them again"
        )
    changed = [row["path"] for row in rows if hashlib.sha256(row["content"].encode()).hexdigest() != row["sha256"]]
    if changed:
        raise Refused(*(f"{path} differs from its sha256: it was changed after the run" for path in changed))
    return [(row["path"], row["content"]) for row in rows]


_OUTSIDE = "brokers_outside_bands"
_REPORT = "report.html"
_FILE_LINK = re.compile(r'<a href="([^#."][^"]*)">(.*?)</a>')  # to a file next to the page


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
    newest: dict[str, ClusterResult] = {}
    stored, events = StoredRuns(warehouse), defaultdict[Key, list[Row]](list)
    for row in journal.events(warehouse):
        events[row["run_id"], row["cluster_id"]].append(row)
    by_key = {(each.run_id, each.cluster_id): each for each in stored}
    for run in runs(stored):
        keys = [(run.run_id, status.cluster_id) for status in run.clusters]
        nights = [_night(run, of, by_key[key], events[key]) for of, key in zip(run.clusters, keys, strict=True)]
        pages = _write_run(warehouse, folder, run.run_id, nights)
        lines.append(_line(run, nights, pages))
        for night in nights:
            of_cluster[night.cluster_id].append(night)
            if night.cluster_id not in newest:
                of_run = by_key[run.run_id, night.cluster_id]
                link = (_page_of_nights(night.cluster_id), "Nights")
                newest[night.cluster_id] = ClusterResult.of(night.cluster_id, of_run.verdict, of_run.decision, [link])
            if night.cluster_id in pages:
                links[night.cluster_id][run.run_id] = f"../{pages[night.cluster_id]}"
    _write_page(folder / STYLE, style())
    for cluster, nights in of_cluster.items():
        text = nights_page(cluster, nights, links[cluster], home=f"../{RUN_PAGE}", sheet=f"../{STYLE}")
        _write_page(folder / _page_of_nights(cluster), text)
    clusters = cluster_lines(newest.values(), of_cluster)
    _write_page(folder / RUN_PAGE, index_page(lines, clusters, most_names=MAX_NAMES, sheet=STYLE))
    return f"{folder / RUN_PAGE}: {plural(len(lines), 'run')}, {plural(len(clusters), 'cluster')}"


def _page_of_nights(cluster: str) -> str:
    return f"{NIGHTS}/{cluster}.html"


def _write_run(warehouse: Warehouse, folder: Path, run_id: str, nights: Sequence[Night]) -> dict[str, str]:
    """Write the page of a run, and report and quality page of its clusters; returns the link to each cluster's page."""
    run_folder, links, stored = folder / run_id, {}, StoredRuns(warehouse, run_id)
    for cluster, text in quality_pages(stored).items():
        page = quality_page(run_folder, cluster)
        _write_page(page, text)
        links[cluster] = page.relative_to(folder).as_posix()
    published = {night.cluster_id for night in nights if night.verdict in WITH_PLAN}
    for row in stored.table("documents", "cluster_id", "path", "content", kind="report").to_pylist():
        cluster, path = row["cluster_id"], row["path"]
        if cluster in published:
            _write_page(run_folder / path, _with_links_that_work(run_folder / path, row["content"]))
            if path == f"{cluster}/{_REPORT}":
                links[cluster] = f"{run_id}/{path}"
    write_page_of_run(run_folder, stored, home=f"../{RUN_PAGE}")
    return {night.cluster_id: links[night.cluster_id] for night in nights if night.cluster_id in links}


def _with_links_that_work(page: Path, text: str) -> str:
    """The text without links to files that are not next to the page; their words stay."""
    return _FILE_LINK.sub(lambda link: link[0] if (page.parent / link[1]).exists() else link[2], text)


def _write_page(page: Path, text: str) -> None:
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
    done, seconds = journal.waves_executed(events), journal.copy_seconds(events)
    waves = {(run.run_id, status.cluster_id, int(row["wave"])): row for row in stored.waves}
    decision = stored.decision if status.verdict in WITH_PLAN else None
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
        disk=decision["cards"][0]["value"] if decision else "",
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
