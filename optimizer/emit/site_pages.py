"""The pages of the static site: all runs, and the nights of one cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from optimizer.emit.fleet_page import ClusterResult, FleetLine, fleet_line, worst_first
from optimizer.emit.inside_sentences import Copied
from optimizer.emit.pages import render
from optimizer.units import NEVER_SECONDS, SECONDS_PER_HOUR, human_count
from schemas.verdicts import NOTHING_TO_DO, PLANNED, STARTED

_NONE = "-"
_NIGHTS = 30  # signs of a cluster on the first page


@dataclass(frozen=True)
class Imbalance:
    """One figure of a cluster's balance before and after a plan; None if it is unknown."""

    before: float | None
    after: float | None


@dataclass(frozen=True)
class Night:
    """One cluster in one run.

    Parameters
    ----------
    at : datetime or None
        When the run's last verdict was stored; None if Delta's log does not show it.
    waves, waves_executed, waves_measured : int
        0 without a plan.
    planned : Copied or None
        None without a plan.
    done : Copied
        Of the waves that were executed.
    disk : str
        The fullest disk before and after, as on the first screen of the report; empty without a plan.
    outside : Imbalance or None
        Brokers outside their bands.
    predicted_seconds : (int, int) or None
        Ends of the interval.
    measured_seconds : float or None
        Of the ``waves_measured`` waves whose copies were timed.
    """

    run_id: str
    at: datetime | None
    cluster_id: str
    verdict: str
    approved_by: tuple[str, ...]
    waves: int
    waves_executed: int
    planned: Copied | None
    done: Copied
    disk: str
    outside: Imbalance | None
    predicted_seconds: tuple[int, int] | None
    measured_seconds: float | None
    waves_measured: int

    @property
    def sign(self) -> str:
        """The night in one character."""
        if self.verdict != PLANNED:
            return {NOTHING_TO_DO: "=", STARTED: "…"}.get(self.verdict, "✖")
        return "✔" if self.waves_executed == self.waves else "◐" if self.waves_executed else "○"

    @property
    def predicted(self) -> str:
        """Predicted hours."""
        return " to ".join(dict.fromkeys(map(_hours, self.predicted_seconds))) if self.predicted_seconds else _NONE

    @property
    def measured(self) -> str:
        """Measured hours, with the number of waves if not all are measured."""
        if self.measured_seconds is None:
            return _NONE
        waves = "" if self.waves_measured == self.waves else f" ({self.waves_measured} of {self.waves})"
        return f"{_hours(self.measured_seconds)}{waves}"

    @property
    def outside_text(self) -> str:
        """Brokers outside their bands, before and after."""
        if self.outside is None:
            return _NONE
        values = (self.outside.before, self.outside.after)
        return " → ".join(_NONE if value is None else human_count(value) for value in values)


@dataclass(frozen=True)
class RunLine:
    """One run on the first page.

    Parameters
    ----------
    page : str
        Link to the run's page; empty if it has none.
    links : mapping of str to str
        Link of each cluster to its page in the run, or an empty text.
    verdicts, approved_by : str
        In words, for all clusters.
    waves, waves_executed : int or None
    planned, done : Copied or None
        Of all clusters; None without a plan.
    """

    run_id: str
    at: datetime | None
    page: str
    links: Mapping[str, str]
    verdicts: str
    approved_by: str
    waves: int | None
    waves_executed: int | None
    planned: Copied | None
    done: Copied | None


@dataclass(frozen=True)
class ClusterLine:
    """One cluster on the first page.

    Parameters
    ----------
    newest : FleetLine
        What its newest run says; it links the page of its nights.
    goals : str
        How many goals the newest plan reaches.
    night : Night
        The newest.
    signs : str
        One for each of its last nights, the newest last.
    """

    newest: FleetLine
    goals: str
    night: Night
    signs: str


def cluster_lines(results: Iterable[ClusterResult], nights: Mapping[str, Sequence[Night]]) -> list[ClusterLine]:
    """A line for each cluster, the worst first.

    Parameters
    ----------
    results : iterable of ClusterResult
        The newest of each cluster.
    nights : mapping of str to sequence of Night
        Of each cluster, the newest first.
    """
    lines = []
    for result in sorted(results, key=worst_first):
        last = nights[result.cluster_id][:_NIGHTS]
        goals = [goal["is_reached"] for goal in result.decision["goals"]] if result.decision else []
        reached = f"{sum(goals)} of {len(goals)}" if goals else _NONE
        lines.append(ClusterLine(fleet_line(result), reached, last[0], "".join(night.sign for night in reversed(last))))
    return lines


def index_page(lines: Sequence[RunLine], clusters: Sequence[ClusterLine], *, most_names: int, sheet: str) -> str:
    """The first page of the site.

    Parameters
    ----------
    clusters : sequence of ClusterLine
        The worst first.
    most_names : int
        Clusters of a run that are named; if there are more, they are only counted.
    sheet : str
        Link to the style sheet.
    """
    return render("site.html.j2", lines=lines, clusters=clusters, most_names=most_names, sheet=sheet)


def nights_page(cluster_id: str, nights: Sequence[Night], links: Mapping[str, str], *, home: str, sheet: str) -> str:
    """The page of one cluster with a row for each night.

    Parameters
    ----------
    nights : sequence of Night
        In the order of the page.
    links : mapping of str to str
        Link to the cluster's page in each run, by run id; runs without a page are missing.
    home, sheet : str
        Links to the first page and to the style sheet.
    """
    largest = max((sum(night.planned or ()) for night in nights), default=0) or 1
    return render(
        "nights.html.j2", cluster_id=cluster_id, nights=nights, links=links, largest=largest, home=home, sheet=sheet
    )


def _hours(seconds: float) -> str:
    return f"{seconds / SECONDS_PER_HOUR:,.1f}" if seconds < NEVER_SECONDS else "never"
