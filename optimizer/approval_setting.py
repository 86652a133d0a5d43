"""The rules by which ``./ballast approve --by-rules`` approves plans: ``[approval]`` and ``[[approval.clusters]]``."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date, time
from enum import StrEnum
from functools import partial
from typing import Any

from optimizer.cluster_policy import DEMOTE, DRAIN, RACKS
from optimizer.setting_checks import Problems, between, refuse
from optimizer.similar import did_you_mean
from optimizer.windows_setting import FIRST_NIGHT_YEARS, check_time_zone

BALANCE, PINS, FACTORS = "balance", "pins", "factors"
REQUESTS = (BALANCE, RACKS, DRAIN, DEMOTE, PINS, FACTORS)
_USUAL_REQUESTS = (BALANCE, RACKS)
_MOST = 10**18  # of any figure
_DATES = re.compile(r"(\d{4}-\d{2}-\d{2})/(\d{4}-\d{2}-\d{2})")
_HOURS = re.compile(r"((?:[01]\d|2[0-3]):[0-5]\d)/((?:[01]\d|2[0-3]):[0-5]\d)")


class NoteCode(StrEnum):
    """The kind of a note on the first screen. Each stops an approval by rules, unless ``allow_notes`` names it."""

    UNDER_REPLICATED = "under_replicated"
    DEAD = "dead"
    CORDON_LEFT = "cordon_left"
    IN_FLIGHT = "in_flight"
    THROTTLES_FOUND = "throttles_found"
    NO_DISK_CAPACITY = "no_disk_capacity"
    BELOW_FLOOR = "below_floor"
    NO_CAPTURE_TIME = "no_capture_time"
    WAVE_TOO_LONG = "wave_too_long"
    WINDOW_TOO_SHORT = "window_too_short"
    MIN_ISR_UNKNOWN = "min_isr_unknown"
    NO_RATES = "no_rates"
    OLD_SOURCE = "old_source"
    INPUT_FINDINGS = "input_findings"
    OPEN_FINDINGS = "open_findings"


def freeze_dates(text: str) -> tuple[date, date] | None:
    """The first and the last day of a freeze such as "2026-12-20/2027-01-03"; None for any other text."""
    match = _DATES.fullmatch(text)
    try:
        first, last = map(date.fromisoformat, match.groups()) if match else (date.max, date.min)
    except ValueError:  # no such day
        return None
    is_usable = first <= last and {first.year, last.year} <= {*FIRST_NIGHT_YEARS}
    return (first, last) if is_usable else None


def freeze_hours(text: str) -> tuple[time, time] | None:
    """Start and end of a freeze of every day such as "08:00/18:00"; None for any other text."""
    match = _HOURS.fullmatch(text)
    start, end = map(time.fromisoformat, match.groups()) if match else (time.min, time.min)
    return (start, end) if start != end else None


@dataclass(frozen=True, kw_only=True)
class ApprovalRules:
    """What a plan must keep to be approved without a person; None is no rule.

    Parameters
    ----------
    most_moved_bytes, most_inside_bytes, most_cross_rack_bytes : float or None
        Bytes between brokers, inside brokers, between racks.
    most_hours : float or None
        Upper end of the hours of copying.
    most_added_stopped_... : float or None
        Partitions at the worst moment, above those before the plan.
    most_peak_disk_percent : float or None
        The fullest disk while replicas are copied.
    most_groups_noticing : float or None
        Consumer groups that notice the plan.
    most_bytes_per_week, most_bytes_per_month : float or None
        Bytes between brokers of the cluster in 7 and 30 days: executed waves, plans that are approved, and this one.
    may : tuple of str or None
        What the policy may request, of ``REQUESTS``.
    allow_notes : tuple of str or None
        Values of ``NoteCode`` that stop nothing.
    freeze : tuple of str or None
        Days or hours of every day in which nothing is copied, in ``time_zone``.
    """

    section = "[approval]"

    most_moved_bytes: float | None = None
    most_inside_bytes: float | None = None
    most_moved_share_percent: float | None = None
    most_hours: float | None = None
    most_leader_changes: float | None = None
    most_cross_rack_bytes: float | None = None
    most_gap_percent: float | None = None
    most_added_stopped_without_loss: float | None = None
    most_added_stopped_by_some_broker: float | None = None
    most_added_stopped_by_worst_broker: float | None = None
    most_added_stopped_by_some_rack: float | None = None
    most_added_stopped_by_worst_rack: float | None = None
    most_peak_disk_percent: float | None = None
    most_groups_noticing: float | None = None
    most_bytes_per_week: float | None = None
    most_bytes_per_month: float | None = None
    may: tuple[str, ...] | None = field(default=None, metadata={"example": '"balance", "racks"'})
    allow_notes: tuple[str, ...] | None = field(default=None, metadata={"example": '"in_flight"'})
    freeze: tuple[str, ...] | None = field(default=None, metadata={"example": '"2026-12-20/2027-01-03"'})
    time_zone: str | None = field(default=None, metadata={"example": '"Europe/Dublin"'})

    def __post_init__(self) -> None:
        problems = Problems()
        for name, value in self.limits().items():
            problems.collect(partial(between, self.section[1:-1], {name: value}, 0, _MOST))
        checks = (
            partial(self._check_names, "may", self.may, REQUESTS),
            partial(self._check_names, "allow_notes", self.allow_notes, [*map(str, NoteCode)]),
            self._check_freeze,
        )
        for check in checks:
            problems.collect(check)
        if self.time_zone is not None:
            problems.collect(partial(check_time_zone, f"{self.section} time_zone", self.time_zone))
        problems.raise_any()

    def limits(self) -> dict[str, float]:
        """The limits that are set, by name."""
        values = ((f.name, getattr(self, f.name)) for f in fields(self) if f.name.startswith("most_"))
        return {name: value for name, value in values if value is not None}

    def _check_names(self, knob: str, names: Sequence[str] | None, known: Sequence[str]) -> None:
        if names is None:
            return
        unknown = [name for name in names if name not in known]
        if unknown:
            refuse(f"{self.section} {knob}", unknown, f"use {', '.join(known)}{did_you_mean(unknown[0], known)}")
        self._check_not_empty(knob, names)

    def _check_not_empty(self, knob: str, values: Sequence[str]) -> None:
        if not values:
            refuse(f"{self.section} {knob}", list(values), "give at least one value, or leave the rule out")

    def _check_freeze(self) -> None:
        if self.freeze is None:
            return
        wrong = [text for text in self.freeze if not (freeze_dates(text) or freeze_hours(text))]
        if wrong:
            remedy = (
                "give first and last day, such as 2026-12-20/2027-01-03, or hours of every day, such as 08:00/18:00"
            )
            refuse(f"{self.section} freeze", wrong, remedy)
        self._check_not_empty("freeze", self.freeze)

    def given(self) -> dict[str, Any]:
        """The rules that are set, by name."""
        return {f.name: value for f in fields(ApprovalRules) if (value := getattr(self, f.name)) is not None}


@dataclass(frozen=True, kw_only=True)
class ClusterApproval(ApprovalRules):
    """The rules of one cluster; each replaces that of ``[approval]``."""

    section = "[[approval.clusters]]"

    id: str = field(metadata={"example": '"orders"'})


@dataclass(frozen=True, kw_only=True)
class Approval(ApprovalRules):
    """The rules of all clusters, and of single clusters."""

    clusters: tuple[ClusterApproval, ...] = ()

    def rules_of(self, cluster_id: str) -> ApprovalRules:
        """The rules of a cluster: its own over those of all; without ``may`` balance and racks may be requested."""
        own = next((cluster.given() for cluster in self.clusters if cluster.id == cluster_id), {})
        return ApprovalRules(**{"may": _USUAL_REQUESTS, **self.given(), **own})

    def check(self) -> None:
        """Refuse rules that need another rule; not in ``__post_init__``, where knobs may be checked one by one."""
        problems = Problems()
        ids = [cluster.id for cluster in self.clusters]
        if repeated := sorted({i for i in ids if ids.count(i) > 1}):
            problems.collect(partial(refuse, "[[approval.clusters]] id", repeated, "name each cluster once"))
        for where, rules in [("[approval]", self), *((f"[approval] for {i!r}", self.rules_of(i)) for i in ids)]:
            if rules.freeze and not rules.time_zone:
                remedy = 'its days and hours need time_zone, such as "Europe/Dublin"'
                problems.collect(partial(refuse, f"{where} freeze", list(rules.freeze), remedy))
            if not rules.limits() and (rules is not self or not ids):
                remedy = "give at least one limit, such as most_moved_bytes = 500e9"
                problems.collect(partial(refuse, where, rules.given(), remedy))
        problems.raise_any()

    def sha256(self) -> str:
        """Identifies the whole section."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
