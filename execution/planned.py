"""Reads the plan of one cluster and run from the tables, and checks that nothing was changed since the run."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from optimizer.domain import WHOLE_PLAN
from optimizer.errors import ConfigError
from schemas.verdicts import PLANNED
from stored.approvals import in_force, revocation
from stored.runs import StoredRun
from stored.tables import Warehouse
from stored.verdicts import Refused


@dataclass(frozen=True)
class Plan:
    """A plan and its manifest.

    Parameters
    ----------
    cluster_id, run_id : str
    manifest : mapping
        ``manifest.json`` (``optimizer.emit.manifest``).
    manifest_sha256 : str
        Identifies the plan; approvals name it.
    approvals : sequence of mapping
        Rows of ``approvals`` for this manifest that are in force.
    revocation : mapping or None
        Row of ``approvals`` that revoked them; None if nobody did, or if the plan was approved again since.
    """

    cluster_id: str
    run_id: str
    manifest: Mapping[str, Any]
    manifest_sha256: str
    approvals: tuple[Mapping[str, Any], ...]
    revocation: Mapping[str, Any] | None = None

    @cached_property
    def waves(self) -> Mapping[int, str]:
        """Folder of each wave, by wave number in ascending order."""
        return {int(wave): folder for wave, folder in self.manifest["waves"].items()}

    @property
    def wave_seconds(self) -> Mapping[int, float]:
        """Estimated seconds of each wave."""
        return {int(wave): float(seconds) for wave, seconds in self.manifest["wave_seconds"].items()}

    @property
    def last_between_brokers(self) -> int:
        """The last wave that changes replica lists; the last of all if every wave only moves inside brokers."""
        inside = self.manifest.get("dir_move_waves", ())
        return max((number for number in self.waves if number not in inside), default=len(self.waves))

    @property
    def drain_brokers(self) -> tuple[int, ...]:
        """The brokers that it empties because the policy says so."""
        return tuple(self.manifest.get("drain_brokers", ()))

    @property
    def captured_at(self) -> datetime | None:
        """Time of the plan's snapshot; None if the inputs had no time."""
        return _time(self.manifest["captured_at"])

    def check_wave(self, number: int) -> None:
        """Raise ``ConfigError`` if the plan has no such wave."""
        if number not in self.waves:
            existing = "only wave 1" if len(self.waves) == 1 else f"waves 1 to {len(self.waves)}"
            raise ConfigError(f"the plan has no wave {number}: it has {existing}")

    def check_manifest(self, sha256: str, remedy: str) -> None:
        """Raise ``Refused`` if the plan's manifest has another sha256; its first characters are enough.

        Parameters
        ----------
        remedy : str
            The end of the message.
        """
        if not self.manifest_sha256.startswith(sha256):
            raise Refused(f"the plan's manifest is {self.manifest_sha256}, not {sha256}: {remedy}")

    def check_approved(self, *, even_if_revoked: bool = False) -> None:
        """Raise ``Refused`` unless an approval of exactly this plan is in force.

        Parameters
        ----------
        even_if_revoked : bool
            Whether a revoked approval is enough: for steps that end a wave or take it back.
        """
        command = f"./ballast approve --run-id {self.run_id} --cluster {self.cluster_id}"
        if self.revocation:
            if not even_if_revoked:
                raise Refused(f"{describe_revocation(self.revocation)}: {command} approves it again")
        elif not self.approvals:
            raise Refused(f"this plan is not approved: {command} approves it")

    @property
    def valid_until(self) -> datetime | None:
        """When the plan expires; None if the inputs had no time."""
        return valid_until(self.manifest)

    @property
    def valid_hours(self) -> float | None:
        """Age of the snapshot at which the plan expires; None if the inputs had no time."""
        return _hours(self.valid_until - self.captured_at) if self.valid_until and self.captured_at else None

    def is_expired(self) -> bool:
        """Whether the plan is older than its manifest allows."""
        return self.valid_until is not None and datetime.now(tz=UTC) > self.valid_until

    def check_age(self, max_hours: float | None = None, now: datetime | None = None) -> None:
        """Raise ``Refused`` if the plan has expired.

        Parameters
        ----------
        max_hours : float or None
            Limit of the snapshot's age; None: the plan is valid as long as its manifest says.
        now : datetime, optional
            The reader's clock by default.
        """
        if self.captured_at is None or self.valid_hours is None:
            return
        limit = self.valid_hours if max_hours is None else max_hours
        age = _hours((now or datetime.now(tz=UTC)) - self.captured_at)
        if age > limit:
            expired = in_words(self.captured_at + timedelta(hours=limit))
            raise Refused(
                f"the plan of run {self.run_id!r} for cluster {self.cluster_id!r} expired at {expired}, because its "
                f"snapshot is {age:.1f} h old and the limit is {limit:g} h: plan again, or give a higher limit with "
                "--max-plan-age-hours"
            )


def valid_until(manifest: Mapping[str, Any]) -> datetime | None:
    """When the plan of a manifest expires; None if the inputs had no time."""
    return _time(manifest["valid_until"])


def describe_revocation(row: Mapping[str, Any]) -> str:
    """Who revoked the approval of a plan, and when."""
    return f"{row['approved_by']} revoked the approval of this plan at {in_words(row['approved_at'])}"


def in_words(time: datetime) -> str:
    """A time for messages, to the minute, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _hours(duration: timedelta) -> float:
    return duration.total_seconds() / 3600


def load(warehouse: Warehouse, *, cluster_id: str, run_id: str) -> Plan:
    """The plan that the last attempt at a run made for a cluster.

    Raises
    ------
    StageError
        When the run is unknown, or has no such cluster.
    Refused
        When the cluster has no plan, or the run was removed.
    NoManifest
        When the manifest is missing or was changed after the run.
    """
    stored = StoredRun(warehouse, run_id, cluster_id).planned(allowed=(PLANNED,))
    plan = Plan(cluster_id, run_id, stored.manifest, stored.verdict["manifest_sha256"], ())
    return with_approvals(warehouse, plan)


def with_approvals(warehouse: Warehouse, plan: Plan) -> Plan:
    """The plan with its approvals as the table has them now."""
    sha256 = plan.manifest_sha256
    rows = warehouse.rows("approvals", cluster_id=plan.cluster_id, run_id=plan.run_id, manifest_sha256=sha256)
    return replace(plan, approvals=tuple(in_force(rows)), revocation=revocation(rows))


def plan_documents(warehouse: Warehouse, plan: Plan, kind: str) -> list[str]:
    """Contents of the documents of one kind that belong to the whole plan, sorted by path.

    Raises
    ------
    Refused
        When one is missing or was changed after the run.
    """
    rows = StoredRun(warehouse, plan.run_id, plan.cluster_id).rows("documents", wave=WHOLE_PLAN, kind=kind)
    prefix = kind.replace("_", "-")
    contents = _check_unchanged(plan, rows, lambda path: path.startswith(prefix))
    return [content for _, content in sorted(contents.items())]


def wave_documents(warehouse: Warehouse, plan: Plan, wave: int) -> dict[str, str]:
    """Contents of the documents of a wave, by file name such as ``reassignment.json``.

    Raises
    ------
    ConfigError
        When the plan has no such wave.
    Refused
        When a document is missing, was changed after the run, or is not in the manifest; the message lists all.
    """
    plan.check_wave(wave)
    folder = f"{plan.waves[wave]}/"
    rows = StoredRun(warehouse, plan.run_id, plan.cluster_id).rows("documents", wave=wave)
    contents = _check_unchanged(plan, rows, lambda path: path.startswith(folder))
    return {path.removeprefix(folder): content for path, content in contents.items()}


def _check_unchanged(
    plan: Plan, rows: Iterable[Mapping[str, Any]], is_selected: Callable[[str], bool]
) -> dict[str, str]:
    """Contents by path below the cluster's folder; the selected paths of the manifest and no others."""
    contents = {row["path"].removeprefix(f"{plan.cluster_id}/"): row["content"] for row in rows}
    digests: dict[str, str] = {path: sha for path, sha in plan.manifest["sha256"].items() if is_selected(path)}
    problems = [f"{path} is missing from table documents; plan again" for path in digests if path not in contents]
    for path, content in sorted(contents.items()):
        if digests.get(path) != hashlib.sha256(content.encode()).hexdigest():
            problems.append(f"{path} differs from the manifest: it was changed after the run; plan again")
    if problems:
        raise Refused(*problems)
    return contents
