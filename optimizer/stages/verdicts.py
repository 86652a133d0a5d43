"""How each cluster of a run stands: table ``verdicts``, and which clusters go on."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from pyspark.sql import Row

from optimizer import folders
from optimizer.declared import NAMES
from optimizer.errors import AlreadyApproved, BallastError, ConfigError
from optimizer.stages.stage import Refusals, Run
from optimizer.store import Store
from schemas.verdicts import STARTED


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How one cluster stands: a row of ``verdicts`` without its keys."""

    verdict: str = STARTED
    stage: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    manifest_sha256: str | None = None

    @property
    def is_out(self) -> bool:
        """Whether the cluster has no plan, and gets none in this attempt."""
        return bool(self.exit_code)

    def told(self) -> str:
        """In one line."""
        return f"{self.verdict} in {self.stage}: {(self.reason or '').partition(chr(10))[0]}"


def of_error(error: BaseException, stage: str) -> Verdict:
    """What an error that concerns a cluster makes of it."""
    if isinstance(error, BallastError):
        return Verdict(verdict=error.verdict, stage=stage, exit_code=error.exit_code, reason=str(error))
    told = f"{type(error).__name__}: {error}".splitlines()[0]
    return Verdict(verdict=BallastError.verdict, stage=stage, exit_code=BallastError.exit_code, reason=told)


def exit_code(verdicts: Mapping[str, Verdict]) -> int:
    """What a run ends with: the code of its only cluster; else 1 if any could not be read, or 3 if any is out."""
    codes = [one.exit_code or 0 for one in verdicts.values()]
    if len(codes) == 1:
        return codes[0]
    return 1 if 1 in codes else 3 if any(codes) else 0


class Attempt:
    """One attempt at a run. It changes nothing of a run that has a plan until ``start``; its verdicts wait until then.

    Parameters
    ----------
    store : Store
    run : Run
    number : int
        Of the attempt, from 1.
    verdicts : mapping of str to Verdict
        By cluster.
    stored : mapping of str to Verdict
        What the table holds of this attempt.
    planned : collection of str
        Clusters that have a plan by the last attempt.
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
    ) -> None:
        self.number, self.verdicts = number, dict(verdicts)
        self.has_started = False
        self._store, self._run, self._stored, self._planned = store, run, dict(stored), planned

    @property
    def out(self) -> frozenset[str]:
        """Clusters that have no plan."""
        return frozenset(cluster for cluster, one in self.verdicts.items() if one.is_out)

    @property
    def going_on(self) -> list[str]:
        """Clusters that nothing has stopped."""
        return [cluster for cluster, one in self.verdicts.items() if not one.is_out]

    def start(self) -> None:
        """Before the first change: store the attempt, and set aside what an earlier one published.

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
        folders.set_aside(self._run.folder)
        self._store.save_records()

    def settle(self, verdicts: Mapping[str, Verdict]) -> None:
        """Store new verdicts of some clusters."""
        if verdicts:
            self.verdicts |= verdicts
            self.start()
            self._save()

    def refuse(self, refused: Refusals, stage: str) -> None:
        """Note why clusters go no further than a stage. A plan that is refused is a change; wrong use is none."""
        self.verdicts |= {cluster: of_error(error, stage) for cluster, error in refused.items()}
        if any(
            cluster in self._planned and error.exit_code != ConfigError.exit_code for cluster, error in refused.items()
        ):
            self.start()
        if self.has_started:
            self._save()

    def fail(self, errors: Mapping[str, BaseException], stage: str) -> None:
        """Store why no cluster has got through a stage, and delete rows that no longer belong together.

        Where nothing was changed yet, everything is left as it was.
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
        """Delete what an earlier attempt left in the tables of a stage and of all later ones."""
        if not self._store.is_new(self._run.run_id):
            self._store.remove(NAMES[NAMES.index(stage) :], self._run.run_id)

    def drop_after(self, stage: str) -> None:
        """Delete what an earlier attempt left in the tables of all later stages, once the attempt has started."""
        if self.has_started:
            for later in NAMES[NAMES.index(stage) + 1 :][:1]:
                self._drop_from(later)

    def _save(self) -> None:
        if self.verdicts == self._stored:
            return
        rows = [self._row(cluster, one) for cluster, one in sorted(self.verdicts.items())]
        run_id = self._run.run_id
        where = f"run_id = '{run_id}' AND attempt = {self.number}"
        self._store.put("verdicts", rows, replacing=where if self._stored else None)
        self._stored = dict(self.verdicts)

    def _row(self, cluster_id: str, verdict: Verdict) -> dict[str, Any]:
        return {"cluster_id": cluster_id, "run_id": self._run.run_id, "attempt": self.number, **vars(verdict)}


def check_not_approved(store: Store, run: Run) -> None:
    """Look whether the run may be planned again.

    Raises
    ------
    AlreadyApproved
        When the plan of one of its clusters is approved: it may be executed at this moment.
    """
    if store.run_record(run.run_id, NAMES[-1]) is None:
        return
    for row in store.newest("approvals", run.run_id):
        raise AlreadyApproved(
            f"the plan that run {run.run_id!r} made for cluster {row.cluster_id} was approved by {row.approved_by}, "
            "so this run is not planned again: give another --run-id"
        )


def begin(store: Store, run: Run, *, first_stage: str) -> Attempt:
    """A new attempt, or the last one where the first stage goes on with what others wrote.

    Clusters that an earlier stage of the same attempt stopped stay out. The attempt starts at once unless the run has a
    plan, which stays as it is until the first change.
    """
    store.begin(run_id=run.run_id, **run.about())
    rows = [] if store.is_new(run.run_id) else store.newest("verdicts", run.run_id)
    last = max((row.attempt for row in rows), default=0)
    before = {row.cluster_id: _of_row(row) for row in rows if row.attempt == last}
    is_new = first_stage == NAMES[0] or not last
    known = {} if is_new else before
    verdicts = {one.id: _again(known.get(one.id), first_stage) for one in run.settings.clusters}
    planned = {cluster for cluster, verdict in before.items() if verdict.exit_code == 0}
    number = last + 1 if is_new else last
    attempt = Attempt(store, run, number=number, verdicts=verdicts, stored=known, planned=planned)
    if planned:
        store.hold_records()
    else:
        attempt.start()
    return attempt


def _of_row(row: Row) -> Verdict:
    return Verdict(**{field.name: row[field.name] for field in fields(Verdict)})


def _again(last: Verdict | None, first_stage: str) -> Verdict:
    """The verdict that a stage begins with: the last one, if an earlier stage came to it."""
    if last is None or last.stage is None or NAMES.index(last.stage) >= NAMES.index(first_stage):
        return Verdict()
    return last


def without(run: Run, out: Iterable[str]) -> Run:
    """The run as stages see it that are not for some clusters."""
    gone = set(out)
    if not gone:
        return run
    kept = tuple(cluster for cluster in run.settings.clusters if cluster.id not in gone)
    return replace(run, settings=replace(run.settings, clusters=kept))
