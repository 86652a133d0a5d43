"""The page about all clusters of a run: verdict or refusal of each, the worst first, with links to its pages."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.emit.decision import AMBER, GREEN, GREY, RED, TAGS, waves_or_nights
from optimizer.emit.inside_sentences import Copied, total
from optimizer.emit.pages import render
from optimizer.folders import STYLE
from optimizer.units import human_count, human_percent
from schemas.verdicts import NOTHING_TO_DO, PLANNED, STARTED, WITH_PLAN

PAGES = {"report.html": "Report", "runbook.md": "Runbook"}
_STOPPED, _ELSEWHERE = "stopped", "elsewhere"
_ORDER = (_STOPPED, STARTED, RED, AMBER, _ELSEWHERE, GREEN, GREY)  # the worst first
_SIGNS = {_STOPPED: "✖", STARTED: "…", _ELSEWHERE: "?"}
_NOTHING = "-"


@dataclass(frozen=True)
class ClusterResult:
    """What a run says about one cluster.

    Parameters
    ----------
    verdict, stage, reason : str
        As in table ``verdicts``.
    moved_bytes : int or None
        What the plan copies; None without a plan.
    decision : mapping or None
        The content of ``decision.json``; None without a plan, and if its files are not here.
    links : sequence of tuple
        Path from the run's folder, and text, of each page about the cluster.
    """

    cluster_id: str
    verdict: str
    stage: str | None
    reason: str | None
    moved_bytes: int | None
    decision: Mapping[str, Any] | None
    links: Sequence[tuple[str, str]]

    @classmethod
    def of(
        cls,
        cluster_id: str,
        verdict: Mapping[str, Any],
        decision: Mapping[str, Any] | None,
        links: Sequence[tuple[str, str]],
    ) -> "ClusterResult":
        """From a row of ``verdicts``; a decision counts only if that row has a plan."""
        return cls(
            cluster_id,
            verdict["verdict"],
            verdict["stage"],
            verdict["reason"],
            verdict["moved_bytes"],
            decision if verdict["verdict"] in WITH_PLAN else None,
            links,
        )


@dataclass(frozen=True)
class FleetLine:
    """One row of the page.

    Parameters
    ----------
    share : float
        Its bytes in percent of the cluster that copies most.
    page : str
        Its first page, which its name links; empty if it has none.
    """

    cluster_id: str
    state: str
    sign: str
    tag: str
    text: str
    size: str
    share: float
    times: Sequence[str]
    ages: Sequence[str]
    gap: str
    stops: str
    page: str
    links: Sequence[tuple[str, str]]


def fleet_page(run_id: str, results: Iterable[ClusterResult], *, home: str = "") -> str:
    """The page of a run; ``home`` is the link to the page of all runs, if there is one."""
    ordered = sorted(results, key=worst_first)
    largest = max((sum(_size(result)) for result in ordered), default=0) or 1
    lines = [fleet_line(result, largest) for result in ordered]
    is_known = any(result.moved_bytes is not None for result in ordered)
    counts = Counter((line.state, line.sign, line.tag) for line in lines)
    return render(
        "fleet.html.j2",
        run_id=run_id,
        lines=lines,
        counts=[(*key, count) for key, count in counts.items()],
        total=f"{total(map(_size, ordered)).words()} to copy" if is_known else "bytes to copy unknown",
        style=STYLE,
        home=home,
    )


def worst_first(result: ClusterResult) -> tuple[int, float, str]:
    """The key that sorts clusters."""
    return _ORDER.index(_state(result)), -sum(_size(result)), result.cluster_id


def _state(result: ClusterResult) -> str:
    if result.decision:
        return str(result.decision["verdict"]["state"])
    return {PLANNED: _ELSEWHERE, NOTHING_TO_DO: GREY, STARTED: STARTED}.get(result.verdict, _STOPPED)


def fleet_line(result: ClusterResult, largest_bytes: float = 1) -> FleetLine:
    """The row of a cluster."""
    state, decision = _state(result), result.decision
    return FleetLine(
        cluster_id=result.cluster_id,
        state=RED if state == _STOPPED else state,
        sign=_SIGNS.get(state) or TAGS[state][0],
        tag=TAGS[state][1] if state in TAGS else f"{result.verdict[:1].upper()}{result.verdict[1:]}",
        text=decision["verdict"]["headline"] if decision else " ".join(_without_decision(result)),
        size=_size(result).words() if result.moved_bytes is not None else _NOTHING,
        share=100 * sum(_size(result)) / largest_bytes,
        times=_times(decision) if decision else [_NOTHING],
        ages=_ages(decision) if decision else [_NOTHING],
        gap=_gap(decision) if decision else _NOTHING,
        stops=_stops(decision) if decision else _NOTHING,
        page=result.links[0][0] if result.links else "",
        links=result.links,
    )


def _size(result: ClusterResult) -> Copied:
    """What the plan copies; bytes that are unknown count as 0."""
    figures = result.decision["figures"] if result.decision else {}
    return Copied(result.moved_bytes or 0, figures.get("dir_moved_bytes", {}).get("after") or 0)


def _without_decision(result: ClusterResult) -> Iterator[str]:
    """The stage that stopped the cluster, and the first line of the reason."""
    if result.verdict == STARTED:
        yield "The run has not ended for this cluster."
    if result.verdict == PLANNED:
        yield "Its files are not here."
    if result.stage:
        yield f"In stage {result.stage}."
    if result.reason:
        yield result.reason.partition("\n")[0]


def _times(decision: Mapping[str, Any]) -> list[str]:
    """Waves or nights, and how long they copy."""
    copying = decision["copying"]
    if not copying["waves"]:
        return [_NOTHING]
    return [waves_or_nights(copying["waves"], copying["nights"]), copying["words"]]


def _ages(decision: Mapping[str, Any]) -> list[str]:
    """When the snapshot was taken, and until when the plan is valid."""
    taken, until = (
        time and f"{time[:10]} {time[11:16]}" for time in (decision["captured_at"], decision["valid_until"])
    )
    return [taken or "unknown", f"valid until {until}" if until else "never expires"]


def _gap(decision: Mapping[str, Any]) -> str:
    value = decision["figures"].get("gap_percent", {}).get("after")
    return _NOTHING if value is None else human_percent(value)


def _stops(decision: Mapping[str, Any]) -> str:
    """Partitions that the worst rack's failure stops: before, at the worst moment, after; a broker's without racks."""
    figures = decision["figures"]
    if not decision["has_racks"]:
        figures = {name: row for name, row in figures.items() if not name.endswith("_rack")}
    for name, of in (("stopped_by_worst_rack", "rack"), ("stopped_by_worst_broker", "broker")):
        row = figures.get(name, {})
        if row.get("before") is not None:
            moments = (row["before"], row["worst_moment"], row["after"])
            return f"{of}: {' → '.join(_NOTHING if value is None else human_count(value) for value in moments)}"
    return _NOTHING
