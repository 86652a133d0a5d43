"""The plan of one cluster and run as the tables hold it: nothing of it is used before it is proven unchanged."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from execution.tables import Warehouse
from optimizer.emit.manifest import FORMAT, NAME
from optimizer.errors import BallastError, ConfigError, StageError
from optimizer.similar import did_you_mean
from schemas.verdicts import PLANNED

_TIME = re.compile(r"\d{8}T\d{6}Z?")  # as jobs and Airflow name runs
_NOT_BEGUN = (
    "A job that ends before its first stage stores no run: its log says why (a wrong setting, a missing input, a "
    "cluster that it cannot reach)"
)


class Refused(BallastError):
    """What was asked is not done: each thing that is in the way is named."""

    exit_code = 3

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        listed = "".join(f"\n- {problem}" for problem in problems)
        super().__init__(problems[0] if len(problems) == 1 else f"{len(problems)} things are in the way:{listed}")


@dataclass(frozen=True)
class Plan:
    """A plan and its manifest.

    Parameters
    ----------
    cluster_id, run_id : str
    manifest : mapping
        ``manifest.json`` (``optimizer.emit.manifest``).
    manifest_sha256 : str
        What is approved.
    approvals : sequence of mapping
        Rows of ``approvals`` of this manifest.
    """

    cluster_id: str
    run_id: str
    manifest: Mapping[str, Any]
    manifest_sha256: str
    approvals: tuple[Mapping[str, Any], ...]

    @cached_property
    def waves(self) -> Mapping[int, str]:
        """Folders by wave, in their order."""
        return {int(wave): folder for wave, folder in self.manifest["waves"].items()}

    @property
    def captured_at(self) -> datetime | None:
        """When the cluster was as the plan takes it to be; None where the inputs had no time."""
        told = self.manifest["captured_at"]
        return datetime.fromisoformat(told) if told else None

    def check_wave(self, number: int) -> None:
        """Raise where the plan has no such wave."""
        if number not in self.waves:
            has = "only wave 1" if len(self.waves) == 1 else f"waves 1 to {len(self.waves)}"
            raise ConfigError(f"the plan has no wave {number}: it has {has}")

    def check_approved(self) -> None:
        """Raise unless somebody has approved just this plan."""
        if not self.approvals:
            name = f"--run-id {self.run_id} --cluster {self.cluster_id}"
            raise Refused(f"nobody has approved this plan: ./ballast approve {name}")

    def age_hours(self, now: datetime | None = None) -> float:
        """The age of its snapshot; 0 where the inputs had no time."""
        return ((now or datetime.now(tz=UTC)) - self.captured_at).total_seconds() / 3600 if self.captured_at else 0

    def check_age(self, most_hours: float, now: datetime | None = None) -> None:
        """Raise where the plan is older than a number of hours."""
        hours = self.age_hours(now)
        if hours > most_hours:
            limit = f"{most_hours:g} h is the most: plan again, or raise --max-plan-age-hours"
            raise Refused(f"the plan is of a snapshot of {self.captured_at}, {hours:.1f} h ago; {limit}")


def verdicts_of(warehouse: Warehouse, run_id: str, cluster_id: str | None = None) -> dict[str, Mapping[str, Any]]:
    """The verdict of the last attempt for each cluster of a run, or for one cluster.

    Raises
    ------
    StageError
        When the run, or the cluster in it, is not known.
    """
    wanted = {"run_id": run_id} if cluster_id is None else {"run_id": run_id, "cluster_id": cluster_id}
    try:
        found = last_verdicts(warehouse.needed("verdicts", **wanted))
    except StageError as error:
        raise StageError(f"{error}. {_NOT_BEGUN}") from error
    if not found:
        rows = warehouse.rows("verdicts")
        runs = {row["run_id"] for row in rows}
        if cluster_id is None or run_id not in runs:
            # The closest time is another night, which nobody meant.
            similar = () if _TIME.fullmatch(run_id) else runs
            raise unknown(warehouse.path, "run", run_id, similar, f"./ballast show lists the runs. {_NOT_BEGUN}")
        clusters = {row["cluster_id"] for row in rows if row["run_id"] == run_id}
        where, remedy = f"run {run_id!r} in {warehouse.path}", f"./ballast show --run-id {run_id} shows its clusters"
        raise unknown(where, "cluster", cluster_id, clusters, remedy)
    return {row["cluster_id"]: row for row in found}


def last_verdicts(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The row of the last attempt for each run and cluster, sorted by both."""
    by_attempt = sorted(rows, key=lambda row: int(row["attempt"]))
    last = {(row["run_id"], row["cluster_id"]): row for row in by_attempt}
    return [row for _, row in sorted(last.items(), key=lambda pair: pair[0])]


def unknown(where: str, kind: str, name: str, known: Iterable[str], remedy: str) -> StageError:
    """A run or cluster that is not known, with the closest name that is."""
    return StageError(f"{where} has no {kind} {name!r}{did_you_mean(name, known)}; {remedy}")


def load(warehouse: Warehouse, *, cluster_id: str, run_id: str) -> Plan:
    """The plan that the last attempt at a run made for a cluster.

    Raises
    ------
    StageError
        When the run is not known.
    Refused
        When it has no plan, or the manifest is not the one that the run's verdict names.
    """
    last = verdicts_of(warehouse, run_id, cluster_id)[cluster_id]
    if last["verdict"] != PLANNED:
        why = f": {last['reason']}" if last["reason"] else ""
        raise Refused(f"run {run_id!r} has no plan for cluster {cluster_id!r}, it is {last['verdict']}{why}")
    text = _content(warehouse, cluster_id, run_id, NAME)
    found = hashlib.sha256(text.encode()).hexdigest()
    if found != last["manifest_sha256"]:
        raise Refused(f"{NAME} was changed after the run: its sha256 is {found}, not {last['manifest_sha256']}")
    manifest = json.loads(text)
    if manifest["format"] != FORMAT:
        raise Refused(f"{NAME} has format {manifest['format']}, this code reads {FORMAT}: use the code that planned it")
    approvals = warehouse.rows("approvals", cluster_id=cluster_id, run_id=run_id, manifest_sha256=found)
    return Plan(cluster_id, run_id, manifest, found, tuple(approvals))


def whole_plan(warehouse: Warehouse, plan: Plan, kind: str) -> list[str]:
    """Documents of one kind for the whole plan, in order, each as the manifest knows it.

    Raises
    ------
    Refused
        When one is missing or was changed.
    """
    wanted = {"cluster_id": plan.cluster_id, "run_id": plan.run_id, "kind": kind}
    prefix = kind.replace("_", "-")
    found = _unchanged(plan, warehouse.needed("documents", wave=0, **wanted), lambda path: path.startswith(prefix))
    return [text for _, text in sorted(found.items())]


def documents_of(warehouse: Warehouse, plan: Plan, wave: int) -> dict[str, str]:
    """Documents of a wave by name (``reassignment.json``), each as the manifest knows it.

    Raises
    ------
    ConfigError
        When there is no such wave.
    Refused
        When a document is missing, was changed, or is not in the manifest: all are named.
    """
    plan.check_wave(wave)
    folder = f"{plan.waves[wave]}/"
    rows = warehouse.needed("documents", cluster_id=plan.cluster_id, run_id=plan.run_id, wave=wave)
    found = _unchanged(plan, rows, lambda path: path.startswith(folder))
    return {path.removeprefix(folder): content for path, content in found.items()}


def _unchanged(plan: Plan, rows: Iterable[Mapping[str, Any]], is_wanted: Callable[[str], bool]) -> dict[str, str]:
    """Contents by path below the cluster's folder, when they are those of the manifest, all of them and no other."""
    found = {row["path"].removeprefix(f"{plan.cluster_id}/"): row["content"] for row in rows}
    digests: dict[str, str] = {path: sha for path, sha in plan.manifest["sha256"].items() if is_wanted(path)}
    problems = [f"{path} is gone from the table documents" for path in digests if path not in found]
    for path, content in sorted(found.items()):
        if digests.get(path) != hashlib.sha256(content.encode()).hexdigest():
            problems.append(f"{path} is not what the manifest names: it was changed after the run")
    if problems:
        raise Refused(*problems)
    return found


def _content(warehouse: Warehouse, cluster_id: str, run_id: str, name: str) -> str:
    path = f"{cluster_id}/{name}"
    rows = warehouse.needed("documents", cluster_id=cluster_id, run_id=run_id, path=path)
    if len(rows) != 1:
        raise Refused(f"the table documents holds {len(rows)} rows of {path}, not one")
    return str(rows[0]["content"])
