"""The verdict of each cluster of a run (table ``verdicts``), and which clusters the run continues with."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from pyspark.sql import Row

from optimizer import folders
from optimizer.declared import NAMES
from optimizer.errors import BallastError, ConfigError, Removed, StageError
from optimizer.stages.stage import Refusals, Run
from optimizer.store import Store
from schemas.runs import REMOVED
from schemas.verdicts import REPLACED, REPLACED_REASON, STARTED, WITH_PLAN
from stored.approvals import check_none


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """State of one cluster in a run: a row of ``verdicts`` without its keys."""

    verdict: str = STARTED
    stage: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    manifest_sha256: str | None = None
    moved_bytes: int | None = None
    valid_until: datetime | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether a stage failed or refused the cluster, so that this attempt makes no plan for it."""
        return bool(self.exit_code)

    def summary(self) -> str:
        """Verdict, stage and the first line of the reason."""
        return f"{self.verdict} in {self.stage}: {(self.reason or '').partition(chr(10))[0]}"


def of_error(error: BaseException, stage: str) -> Verdict:
    """The verdict of a cluster that an error stopped."""
    if isinstance(error, BallastError):
        return Verdict(verdict=error.verdict, stage=stage, exit_code=error.exit_code, reason=str(error))
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return Verdict(verdict=BallastError.verdict, stage=stage, exit_code=BallastError.exit_code, reason=reason)


def exit_code(verdicts: Mapping[str, Verdict]) -> int:
    """Exit code of a run: that of its only cluster; of several, 1 if one failed, else 3 if one was stopped."""
    codes = [verdict.exit_code or 0 for verdict in verdicts.values()]
    if len(codes) == 1:
        return codes[0]
    return 1 if 1 in codes else 3 if any(codes) else 0


class Attempt:
    """One attempt at a run. Until ``start`` it stores nothing, so an existing plan of the run stays as it is.

    Parameters
    ----------
    store : Store
    run : Run
    number : int
        Number of the attempt, from 1.
    verdicts : mapping of str to Verdict
        By cluster.
    stored : mapping of str to Verdict
        Verdicts of this attempt that the table has.
    planned : collection of str
        Clusters that have a plan from the last attempt.
    others : mapping of str to Verdict
        The last verdicts of clusters that only earlier attempts had: a plan of them is replaced.
    """

    def __init__(
        self,
        store: Store,
        run: Run,
        *,
        number: int,
        verdicts: Mapping[str, Verdict],
        stored: Mapping[str, Verdict],
        planned: Collection[str] = (),
        others: Mapping[str, Verdict] | None = None,
    ) -> None:
        self.number, self.verdicts = number, dict(verdicts)
        self.others = dict(others or {})
        self.has_started = False
        self._store, self._run, self._stored, self._planned = store, run, dict(stored), planned

    @property
    def stopped(self) -> frozenset[str]:
        """Clusters that failed or were refused."""
        return frozenset(cluster for cluster, verdict in self.verdicts.items() if verdict.is_stopped)

    @property
    def active(self) -> list[str]:
        """Clusters that nothing has stopped."""
        return [cluster for cluster, verdict in self.verdicts.items() if not verdict.is_stopped]

    def start(self) -> None:
        """Store the attempt and move the files of an earlier one away; call this before the first change.

        Raises
        ------
        AlreadyApproved
            When somebody has approved the plan since the attempt began.
        """
        if self.has_started:
            return
        if self._planned:
            check_not_approved(self._store, self._run)
        self._save()
        self.has_started = True
        folders.supersede_folders(self._run.folder)
        self._store.save_records()

    def settle(self, verdicts: Mapping[str, Verdict]) -> None:
        """Store new verdicts of some clusters."""
        if verdicts:
            self.verdicts |= verdicts
            self.start()
            self._save()

    def refuse(self, refused: Refusals, stage: str) -> None:
        """Record why a stage stops clusters. If it refuses one that has a plan, the attempt starts, unless the reason
        is a usage error.
        """
        self.verdicts |= {cluster: of_error(error, stage) for cluster, error in refused.items()}
        if any(
            cluster in self._planned and error.exit_code != ConfigError.exit_code for cluster, error in refused.items()
        ):
            self.start()
        if self.has_started:
            self._save()

    def fail(self, errors: Mapping[str, BaseException], stage: str) -> None:
        """Store why all clusters failed in a stage, and delete rows that no longer belong together.

        If the attempt has not started, nothing stored changes.
        """
        self.verdicts |= {cluster: of_error(error, stage) for cluster, error in errors.items()}
        if not self.has_started:
            return
        self._save()
        for name in NAMES[NAMES.index(stage) :]:
            if not self._store.is_current(name, self._run.run_id):
                self._drop_from(name)
                break

    def _drop_from(self, stage: str) -> None:
        """Delete the rows of an earlier attempt from the tables of a stage and of all later ones."""
        if not self._store.is_new(self._run.run_id):
            self._store.remove(NAMES[NAMES.index(stage) :], self._run.run_id)

    def drop_after(self, stage: str) -> None:
        """Delete the rows of an earlier attempt from the tables of all later stages, if the attempt has started."""
        if self.has_started:
            for later in NAMES[NAMES.index(stage) + 1 :][:1]:
                self._drop_from(later)

    def _save(self) -> None:
        if self.verdicts == self._stored:
            return
        rows = [self._row(cluster, verdict) for cluster, verdict in sorted(self.verdicts.items())]
        run_id = self._run.run_id
        where = f"run_id = '{run_id}' AND attempt = {self.number}"
        self._store.put("verdicts", rows, replacing=where if self._stored else None)
        self._stored = dict(self.verdicts)

    def _row(self, cluster_id: str, verdict: Verdict) -> dict[str, Any]:
        return {"cluster_id": cluster_id, "run_id": self._run.run_id, "attempt": self.number, **vars(verdict)}


def check_not_approved(store: Store, run: Run) -> None:
    """Check that the run may be planned again.

    Raises
    ------
    AlreadyApproved
        When the plan of one of its clusters was approved, because its waves may be running.
    Removed
        When the run had a plan and was removed: approvals of that plan are still stored.
    """
    if store.has_only_begun(run.run_id):
        rows = store.current_rows("verdicts", run.run_id)
        last = max((row.attempt for row in rows), default=0)
        if any(row.attempt == last and row.verdict in WITH_PLAN for row in rows):
            raise Removed(f"run {run.run_id!r} {REMOVED}. It is not planned again: give another --run-id")
    if store.run_record(run.run_id, NAMES[-1]) is None:
        return
    check_none((row.asDict() for row in store.current_rows("approvals", run.run_id)), run.run_id)


def begin(store: Store, run: Run, *, first_stage: str) -> Attempt:
    """A new attempt; or the last attempt, when a run resumes in the middle.

    Clusters that an earlier stage of the same attempt stopped stay stopped. The attempt starts immediately, unless the
    run has a plan: the plan stays as it is until the first change.
    """
    store.begin(run_id=run.run_id, **run.about())
    rows = [] if store.is_new(run.run_id) else store.current_rows("verdicts", run.run_id)
    rows.sort(key=attrgetter("attempt"))
    last = rows[-1].attempt if rows else 0
    before = {row.cluster_id: _of_row(row) for row in rows if row.attempt == last}
    is_new = first_stage == NAMES[0] or not last
    known = {} if is_new else before
    verdicts = {cluster.id: _initial(known.get(cluster.id), first_stage) for cluster in run.settings.clusters}
    planned = {cluster for cluster, verdict in before.items() if verdict.exit_code == 0}
    number = last + 1 if is_new else last
    others = {row.cluster_id: _of_other(_of_row(row)) for row in rows if row.cluster_id not in verdicts}
    attempt = Attempt(store, run, number=number, verdicts=verdicts, stored=known, planned=planned, others=others)
    if planned:
        store.hold_records()
    else:
        attempt.start()
    return attempt


def _of_row(row: Row) -> Verdict:
    verdict = Verdict(**{field.name: row[field.name] for field in fields(Verdict)})
    # Spark returns times without a zone, in the zone of this process.
    return replace(verdict, valid_until=row.valid_until and row.valid_until.astimezone(UTC))


def _of_other(verdict: Verdict) -> Verdict:
    """The verdict of a cluster that this attempt does not have: its rows are deleted."""
    if verdict.verdict not in WITH_PLAN:
        return verdict
    return Verdict(verdict=REPLACED, reason=REPLACED_REASON, exit_code=StageError.exit_code)


def _initial(last: Verdict | None, first_stage: str) -> Verdict:
    """The last verdict if an earlier stage gave it, else a new one."""
    if last is None or last.stage is None or NAMES.index(last.stage) >= NAMES.index(first_stage):
        return Verdict()
    return last


def without_clusters(run: Run, cluster_ids: Iterable[str]) -> Run:
    """The run without some clusters."""
    excluded = set(cluster_ids)
    if not excluded:
        return run
    clusters = tuple(cluster for cluster in run.settings.clusters if cluster.id not in excluded)
    return replace(run, settings=replace(run.settings, clusters=clusters))
