"""The pages of the static site: all runs, and the nights of one cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from optimizer.emit.inside_sentences import Copied
from optimizer.emit.pages import render
from optimizer.units import NEVER_SECONDS, SECONDS_PER_HOUR, human_count, human_ratio

_NONE = "-"


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
    disk, outside : Imbalance or None
        Fullest broker's disk over the mean; brokers outside their bands.
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
    disk: Imbalance | None
    outside: Imbalance | None
    predicted_seconds: tuple[int, int] | None
    measured_seconds: float | None
    waves_measured: int

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
    def disk_text(self) -> str:
        """The fullest broker's disk over the mean, before and after."""
        return _change(self.disk, human_ratio)

    @property
    def outside_text(self) -> str:
        """Brokers outside their bands, before and after."""
        return _change(self.outside, human_count)


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


def index_page(lines: Sequence[RunLine], clusters: Mapping[str, str], *, most_names: int, sheet: str) -> str:
    """The first page of the site.

    Parameters
    ----------
    clusters : mapping of str to str
        Link to the page of each cluster.
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


def _change(figure: Imbalance | None, show: Callable[[float], str]) -> str:
    if figure is None or (figure.before is None and figure.after is None):
        return _NONE
    return " → ".join(_NONE if value is None else show(value) for value in (figure.before, figure.after))
