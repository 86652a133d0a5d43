"""One reader of finished runs: the verdict of each cluster, its documents, and its rows in every table."""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from optimizer.declared import WRITERS
from optimizer.emit.inside_sentences import Copied
from optimizer.emit.manifest import FORMAT, NAME
from optimizer.errors import StageError
from optimizer.similar import did_you_mean
from schemas.runs import BEGIN, REMOVED
from schemas.verdicts import NOTHING_TO_DO, PLANNED, WITH_PLAN
from stored.tables import Warehouse
from stored.verdicts import NoManifest, Refused, Verdict, check_planned, last_verdicts

if TYPE_CHECKING:
    import pandas as pd  # its import takes longer than most commands

Row = Mapping[str, Any]
Key = tuple[str, str]  # run and cluster
_TIME = re.compile(r"\d{8}T\d{6}Z?")  # run ids that jobs and Airflow choose
_NO_RUN_HINT = (
    "A job that ends before its first stage stores no run: its log says why (for example a configuration error, a "
    "missing input, or a cluster that cannot be reached)"
)
_WAVE_COLUMNS = ("wave", "moved_bytes", "inside_brokers", "estimated_seconds", "least_seconds", "most_seconds")


def copied(waves: Iterable[Row]) -> Copied:
    """What some waves copy.

    Parameters
    ----------
    waves : iterable of mapping
        Rows of ``waves`` with ``moved_bytes`` and ``inside_brokers``.
    """
    sums = {True: 0, False: 0}
    for row in waves:
        sums[bool(row["inside_brokers"])] += int(row["moved_bytes"])
    return Copied(sums[False], sums[True])


def _unknown(where: str, kind: str, name: str, known: Iterable[str], remedy: str) -> StageError:
    """The error for an unknown run or cluster; it suggests the most similar known name."""
    return StageError(f"{where} has no {kind} {name!r}{did_you_mean(name, known)}; {remedy}")


class StoredRuns:
    """The clusters of finished runs: of all runs, of one run, or of one cluster.

    Parameters
    ----------
    warehouse : Warehouse
    run_id, cluster_id : str, optional
        Only this run; only this cluster.
    """

    def __init__(self, warehouse: Warehouse, run_id: str | None = None, cluster_id: str | None = None) -> None:
        self.warehouse = warehouse
        chosen = {"run_id": run_id, "cluster_id": cluster_id}
        self.key = {name: value for name, value in chosen.items() if value is not None}
        self._grouped: dict[tuple[Any, ...], Mapping[Key, list[Row]]] = {}
        self._records: dict[str, Mapping[str, Row]] = {}

    @cached_property
    def verdicts(self) -> Mapping[Key, Verdict]:
        """The last verdict by run and cluster, sorted.

        Raises
        ------
        StageError
            When the run or the cluster is unknown, or the warehouse has no tables.
        """
        run_id, cluster_id = self.key.get("run_id"), self.key.get("cluster_id")
        where, remedy = self.warehouse.path, "./ballast show lists the runs"
        if run_id is not None:
            where, remedy = f"run {run_id!r} in {where}", f"./ballast show --run-id {run_id} shows its clusters"
        rows, clusters = self._rows, {row["cluster_id"] for row in self._rows}
        if cluster_id is not None and cluster_id not in clusters:
            raise _unknown(where, "cluster", cluster_id, clusters, remedy)
        return {(row["run_id"], row["cluster_id"]): row for row in rows if cluster_id in (None, row["cluster_id"])}

    @cached_property
    def _rows(self) -> Sequence[Verdict]:
        """The last verdicts of all clusters of the run, or of all runs."""
        run_id, path = self.key.get("run_id"), self.warehouse.path
        if run_id is None:
            return last_verdicts(self.warehouse.required_rows("verdicts"))
        try:
            rows = last_verdicts(self.warehouse.required_rows("verdicts", run_id=run_id))
        except StageError as error:
            raise StageError(f"{error}. {_NO_RUN_HINT}") from error
        if not rows:
            # For a time the most similar run id is another night: no useful suggestion.
            similar = () if _TIME.fullmatch(run_id) else {row["run_id"] for row in self.warehouse.rows("verdicts")}
            raise _unknown(path, "run", run_id, similar, f"./ballast show lists the runs. {_NO_RUN_HINT}")
        return rows

    @cached_property
    def verdict_times(self) -> Mapping[str, datetime]:
        """When the last verdict of a run was stored, by run; a run is missing if Delta's log does not show it."""
        return self.warehouse.written_at("verdicts", (row["run_id"] for row in self._rows))

    def records(self, run_id: str) -> Mapping[str, Row]:
        """The records of a run in table ``runs``, by stage. They are read once for all its clusters."""
        if run_id not in self._records:
            self._records[run_id] = {row["stage"]: row for row in self.warehouse.rows("runs", run_id=run_id)}
        return self._records[run_id]

    def __iter__(self) -> Iterator["StoredRun"]:
        return (StoredRun(self.warehouse, *key, among=self) for key in self.verdicts)

    def table(self, name: str, *columns: str, version: int | None = None, **equal: str | int) -> pa.Table:
        """The rows of all these clusters in a table; see ``Warehouse.table``."""
        return self.warehouse.table(name, columns=columns, version=version, **self.key, **equal)

    def rows(self, name: str, *columns: str, **equal: Any) -> Mapping[Key, list[Row]]:
        """The rows by run and cluster. A table is read once for all of them."""
        request = (name, columns, *equal.items())
        if request not in self._grouped:
            grouped = defaultdict[Key, list[Row]](list)
            needed = dict.fromkeys((*columns, "run_id", "cluster_id")) if columns else ()
            for row in self.table(name, *needed, **equal).to_pylist():
                grouped[row["run_id"], row["cluster_id"]].append(row)
            self._grouped[request] = grouped
        return self._grouped[request]


def last_run(warehouse: Warehouse, cluster_id: str | None, *, allowed: Collection[str] = ()) -> str:
    """The run whose verdict was stored last, from the verdicts alone.

    Parameters
    ----------
    cluster_id : str or None
        Only the runs of this cluster; None for all runs.
    allowed : collection of str
        Only runs with one of these verdicts; any by default.

    Raises
    ------
    StageError
        When there is no such run, the cluster is unknown, or Delta's log does not show which of several is the last.
    """
    stored = StoredRuns(warehouse, cluster_id=cluster_id)
    runs = {run_id for (run_id, _), row in stored.verdicts.items() if not allowed or row["verdict"] in allowed}
    of_cluster = "" if cluster_id is None else f" of cluster {cluster_id!r}"
    if not runs:
        what = "run" if not allowed else "run with a plan"
        raise StageError(f"{warehouse.path} has no {what}{of_cluster}: make a plan first")
    times = {run_id: time for run_id, time in stored.verdict_times.items() if run_id in runs}
    if not times and len(runs) > 1:
        remedy = "./ballast show lists the runs; name one with --run-id ID"
        raise StageError(f"{warehouse.path} does not show which run{of_cluster} is the last; {remedy}")
    return max(times or runs, key=lambda run_id: (times.get(run_id), run_id))


class StoredRun:
    """One cluster in one finished run.

    Parameters
    ----------
    warehouse : Warehouse
    run_id, cluster_id : str
    among : StoredRuns, optional
        Runs that it shares ``rows`` with; by default it reads its own.
    """

    def __init__(self, warehouse: Warehouse, run_id: str, cluster_id: str, *, among: StoredRuns | None = None) -> None:
        self.warehouse, self.run_id, self.cluster_id = warehouse, run_id, cluster_id
        self.key = {"cluster_id": cluster_id, "run_id": run_id}
        self._among = among or StoredRuns(warehouse, run_id, cluster_id)

    @property
    def verdict(self) -> Verdict:
        """The row of ``verdicts``.

        Raises
        ------
        StageError
            When the run is unknown, or has no such cluster.
        """
        return self._among.verdicts[self.run_id, self.cluster_id]

    def planned(self, *, allowed: Collection[str] = WITH_PLAN) -> "StoredRun":
        """This run.

        Raises
        ------
        StageError
            When the run is unknown, or has no such cluster.
        Refused
            When the cluster has none of the allowed verdicts, or the run was removed.
        """
        check_planned(self.verdict, allowed=allowed)
        if self.is_removed:
            raise Refused(f"run {self.run_id!r} {REMOVED}")
        return self

    @property
    def is_removed(self) -> bool:
        """Whether ``./ballast tidy`` has removed its plan."""
        return self.verdict["verdict"] in WITH_PLAN and self.records.keys() == {BEGIN}

    def rows(self, name: str, *columns: str, **equal: str | int) -> list[Row]:
        """Its rows in a table."""
        return self._among.rows(name, *columns, **equal).get((self.run_id, self.cluster_id), [])

    def table(self, name: str, *columns: str, version: int | None = None, **equal: str | int) -> pa.Table:
        """``rows`` as an Arrow table, read for each call; see ``Warehouse.table``."""
        return self.warehouse.table(name, columns=columns, version=version, **self.key, **equal)

    def frame(self, name: str, *columns: str) -> "pd.DataFrame":
        """``rows`` in pandas; whole numbers stay exact where values are missing."""
        return self.table(name, *columns).to_pandas(integer_object_nulls=True)

    def required_frame(self, name: str, *columns: str) -> "pd.DataFrame":
        """``frame``; raises ``Refused`` if the rows were deleted."""
        frame = self.frame(name, *columns)
        if frame.empty:
            raise Refused(
                f"run {self.run_id!r} has no rows of {self.cluster_id!r} in table {name} any more: plan again"
            )
        return frame

    def documents(self, kind: str) -> list[str]:
        """Contents of its documents of one kind."""
        return [row["content"] for row in self.rows("documents", "content", kind=kind)]

    @property
    def manifest(self) -> Row:
        """``manifest.json`` of its plan.

        Raises
        ------
        NoManifest
            When the manifest is missing, was changed after the run, or has another format.
        """
        contents = self.documents("manifest")
        if len(contents) != 1:
            path = f"{self.cluster_id}/{NAME}"
            raise NoManifest(f"table documents has {len(contents)} rows for {path}, expected 1; plan again")
        sha256, of_verdict = hashlib.sha256(contents[0].encode()).hexdigest(), self.verdict["manifest_sha256"]
        if sha256 != of_verdict:
            raise NoManifest(f"{NAME} was changed after the run: its sha256 is {sha256}, not {of_verdict}; plan again")
        manifest: Row = json.loads(contents[0])
        if manifest["format"] != FORMAT:
            raise NoManifest(
                f"{NAME} has format {manifest['format']}, but this release reads format {FORMAT}: "
                "use the release that made the plan, or plan again"
            )
        return manifest

    @property
    def decision(self) -> dict[str, Any] | None:
        """``decision.json`` with every figure; None without a plan."""
        return next(map(json.loads, self.documents("decision")), None)

    @property
    def waves(self) -> list[Row]:
        """The waves of its plan. Tables may have rows of a refused plan, which are none."""
        return self.rows("waves", *_WAVE_COLUMNS) if self.verdict["verdict"] == PLANNED else []

    @property
    def copied(self) -> Copied | None:
        """What its plan copies; None without a plan, or if its waves were deleted."""
        is_known = self.waves or self.verdict["verdict"] == NOTHING_TO_DO
        return copied(self.waves) if is_known else None

    @property
    def approvals(self) -> list[Row]:
        """All rows of ``approvals`` for its plan, also the revoked ones."""
        sha256 = self.verdict["manifest_sha256"]
        return [row for row in self.rows("approvals") if row["manifest_sha256"] == sha256]

    @property
    def captured_at(self) -> list[datetime]:
        """The known times of its sources with the cluster's state, oldest first."""
        times = (row["captured_at"] for row in self.rows("sources", "captured_at", "has_state") if row["has_state"])
        return sorted(time for time in times if time is not None)

    @property
    def records(self) -> Mapping[str, Row]:
        """The records of the run in table ``runs``, by stage; empty if they were deleted."""
        return self._among.records(self.run_id)

    @property
    def settings(self) -> dict[str, Any] | None:
        """The configuration of the plan; None if the record is gone."""
        solve = self.records.get("solve")
        return json.loads(solve["config_json"]) if solve else None

    def recorded(self, name: str, kind: str = "writes") -> Any:
        """What the run recorded about a table, by default the version that it wrote; None if the record is gone."""
        record = self.records.get(WRITERS[name])
        return dict(record[kind]).get(name) if record else None

    def is_complete(self, name: str, version: int | None = None) -> bool:
        """Whether a version has as many rows of the run as the run wrote: then no row of the cluster is missing."""
        fingerprint = self.recorded(name, "fingerprints")
        rows = self.warehouse.table(name, columns=["cluster_id"], version=version, run_id=self.run_id)
        return fingerprint is not None and int(fingerprint.partition(":")[0] or 0) == len(rows)
