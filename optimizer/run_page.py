"""The page about all clusters of a run: the job writes it at its end, and ``./ballast report`` again."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from optimizer import folders
from optimizer.emit.decision_text import NAME as DECISION
from optimizer.emit.fleet_page import PAGES, ClusterResult, fleet_page
from optimizer.emit.report.page import style
from schemas.verdicts import REPLACED, WITH_PLAN

Row = Mapping[str, Any]


def write_run_page(
    folder: Path, run_id: str, verdicts: Mapping[str, Row], decisions: Mapping[str, Row], *, home: str = ""
) -> None:
    """Write the page of a run, and its style sheet, into the folder of the run. It links the files in the folder.

    Parameters
    ----------
    verdicts : mapping of str to row
        The last row of ``verdicts`` of each cluster.
    decisions : mapping of str to mapping
        Content of ``decision.json`` of each cluster that has one. Those of clusters that a stage has stopped since do
        not count.
    home : str
        Link to the page of all runs.
    """
    results = [
        ClusterResult.of(cluster, verdict, decisions.get(cluster), list(_links(folder, cluster, verdict)))
        for cluster, verdict in sorted(verdicts.items())
    ]
    folders.write_page(folder / folders.STYLE, style())
    folders.write_page(folder / folders.RUN_PAGE, fleet_page(run_id, results, home=home))


def published_decisions(folder: Path, clusters: Iterable[str]) -> dict[str, Row]:
    """Content of ``decision.json`` of each cluster whose plan is in the folder of a run."""
    paths = {cluster: folder / cluster / DECISION for cluster in clusters}
    return {cluster: json.loads(path.read_bytes()) for cluster, path in paths.items() if path.is_file()}


def _links(folder: Path, cluster_id: str, verdict: Row) -> Iterator[tuple[str, str]]:
    """Links to the pages that are there. Without a plan or a check, those of an earlier attempt may be there."""
    for name, text in PAGES.items():
        if verdict["verdict"] in WITH_PLAN and (folder / cluster_id / name).is_file():
            yield f"{cluster_id}/{name}", text
    page = folders.quality_page(folder, cluster_id)
    if verdict["stage"] != "ingest" and verdict["verdict"] != REPLACED and page.is_file():
        yield page.relative_to(folder).as_posix(), "Input"
