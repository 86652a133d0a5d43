"""The summary that a run prints on the terminal at its end: at most 96 columns."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from optimizer.domain import FindingCode
from optimizer.emit.calendar import nights_in_words
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.findings import SHOWN, FindingLine, count_findings, first_lines, fixed_or_noted, open_findings
from optimizer.emit.goals import exclusions, goals, origin, verdict
from optimizer.emit.rack_sentences import cross_rack_cost, near_leaders
from optimizer.emit.shown_figures import (
    band_note,
    compared_with_default,
    factors_text,
    leader_proof,
    limited,
    lines,
    loss_lines,
    loss_note,
    proof,
)
from optimizer.units import human_bytes, human_rate, human_ratio, human_time, plural

_ROOM_UNKNOWN = " Whether the network has room for this rate is not known:"
WIDTH = 96  # characters: fits a usual terminal
_LABEL, _VALUE = 48, 14  # characters of the columns
_LARGE_BATCH_KB = 256  # larger ones: up to half of a fetch of 1 MiB is the cut-off part of a batch, which is dropped
_FILES = {
    "report.html": "the report, for a browser",
    "runbook.md": "what to run, step by step",
    "reassignment.json": "the whole plan",
    "rollback.json": "undoes the whole plan",
    "rollback-01.json": "undoes the whole plan, in numbered parts",
    "rollback-not-possible.json": "cannot be rolled back while a broker is down",
    "rollback-not-possible-01.json": "cannot be rolled back while a broker is down, in numbered parts",
}


def _row(label: str, *values: str) -> str:
    return f"  {label:<{_LABEL}}" + "".join(f"{value:>{_VALUE}}" for value in values)


def _paragraph(text: str) -> list[str]:
    return wrap(
        text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _title(plan: ClusterPlan) -> str:
    partitions, replicas = int(plan.number("partitions", "before")), int(plan.number("replicas", "before"))
    brokers = plural(len(plan.brokers), "broker")
    size = human_bytes(plan.number("total_bytes", "before"))
    return f"{plan.cluster_id}: {plural(partitions, 'partition')}, {plural(replicas, 'replica')}, {size} on {brokers}"


def execution(plan: ClusterPlan) -> str:
    """Waves, time and rate in one sentence; if the time has an interval, a second one says which batches it assumes."""
    if not plan.waves:
        return "Nothing to do: no partition changes."
    seconds = sum(row.estimated_seconds for row in plan.waves)
    rate = max(row.throttle_bytes_per_s for row in plan.waves)
    details = "; ".join(filter(None, (_interval(plan), _above_bound(plan), nights_in_words(plan))))
    text = f"{plural(len(plan.waves), 'wave')}, about {human_time(seconds)} of copying{details and f' ({details})'}"
    if not rate:
        return f"{text}: nothing is copied."
    text = f"{text} at up to {human_rate(plan.copy_bytes_per_s)} per broker and direction"
    has_rates = not any(row.code == FindingCode.NO_RATES for row in plan.findings)
    live = "live replication included" if has_rates else "without live replication, which is unknown: add it"
    text = f"{text} (throttle up to {human_rate(rate)}, {live})."
    return f"{text}{_network_room(plan, has_rates=has_rates)}{_batches(plan)}"


def _network_room(plan: ClusterPlan, *, has_rates: bool) -> str:
    """A sentence with a space before it if the network sets a rate, or if nobody knows whether it has room.

    Empty for waves of an earlier release.
    """
    for row in plan.waves:
        rate, requested, left = row.copy_bytes_per_s, row.requested_bytes_per_s, row.network_left_bytes_per_s
        if rate and requested and rate < requested and left is not None:
            has = f"has {human_rate(left)} left" if left > 0 else "is full"
            anyway = f": copies take {human_rate(rate)} all the same, so that they end" if rate > left else ""
            asked = f" {human_rate(requested)} were requested, but the network of broker {row.network_broker}"
            return f"{asked} {has}{anyway}."
    if any(row.copy_bytes_per_s and row.network_left_bytes_per_s is None for row in plan.waves):
        return f"{_ROOM_UNKNOWN} the capacities of the brokers' networks are not all known."
    return "" if has_rates else f"{_ROOM_UNKNOWN} the use of the network is not known."


def _batches(plan: ClusterPlan) -> str:
    """The batches that the interval assumes; empty without an interval."""
    if not _interval(plan):
        return ""
    assumed = f" The interval assumes producer batches of {plan.batch_kb:g} kB"
    is_large = plan.batch_kb > _LARGE_BATCH_KB
    return f"{assumed}." if is_large else f"{assumed}: batches over {_LARGE_BATCH_KB} kB take up to twice as long."


def _interval(plan: ClusterPlan) -> str:
    """The ends of the interval of the time; empty if an older release made the waves, or both are the same."""
    least, most = ([getattr(row, name) for row in plan.waves] for name in ("least_seconds", "most_seconds"))
    if None in least or None in most or human_time(sum(least)) == human_time(sum(most)):
        return ""
    return f"{human_time(sum(least))} to {human_time(sum(most))}"


def _above_bound(plan: ClusterPlan) -> str:
    """How close the waves are to their bound; nothing about a single wave, which is always at its bound."""
    ratio = plan.figure("waves_over_bound")
    if ratio is None or len(plan.waves) == 1:
        return ""
    return f"{human_ratio(ratio)} the proven minimum for {plural(len(plan.waves), 'wave')}"


def _head(plan: ClusterPlan) -> Iterator[str]:
    yield from _paragraph(verdict(plan))
    for goal in goals(plan):
        text = f"{goal.state:<12} {goal.name}: {goal.detail}"
        yield from wrap(text, WIDTH, initial_indent="  ", subsequent_indent=" " * 15, break_long_words=False)
    yield from _paragraph(exclusions(plan))
    yield from _paragraph(origin(plan))


def _findings(title: str, all_lines: Sequence[FindingLine], *, with_remedies: bool) -> Iterator[str]:
    """The first ``SHOWN`` lines of findings, with the remedy of each if ``with_remedies``."""
    if not all_lines:
        return
    yield ""
    yield f"  {title} ({count_findings(all_lines):,}):"
    lines, more = first_lines(all_lines, SHOWN)
    for line in lines:
        text = f"- {line.rule} ({line.when}): {line.text_and_remedy if with_remedies else line.text}"
        yield from wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False)
    if more:
        yield f"  and {more:,} more: the tables findings and input_findings list every finding"


def _losses(plan: ClusterPlan) -> Iterator[str]:
    """What the loss of a broker or a rack would do."""
    table = [_row(line.label, line.before, line.worst_moment, line.after) for line in loss_lines(plan)]
    if table:
        yield ""
        yield _row("If a broker or a rack fails", "before", "worst moment", "after")
        yield from table
        yield from _paragraph(loss_note(plan))


def summary_text(plan: ClusterPlan, written: Sequence[Document]) -> str:
    """The summary of one cluster.

    Parameters
    ----------
    plan : ClusterPlan
    written : sequence of Document
        The other files of the cluster; the summary lists those for people.
    """
    table = [_row(line.label, line.before, line.baseline, line.after) for line in lines(plan)]
    paths = {document.path for document in written}
    files = [(f"{plan.folder}/{name}", about) for name, about in _FILES.items() if f"{plan.folder}/{name}" in paths]
    width = max((len(path) for path, _ in files), default=0) + 2
    text = [
        _title(plan),
        *_head(plan),
        *_findings("Check first", open_findings(plan), with_remedies=True),
        "",
        _row("", "before", "Kafka default", "this plan"),
        *table,
        *_paragraph(band_note(plan)),
        *_losses(plan),
        "",
        *_paragraph(proof(plan)),
        *_paragraph(leader_proof(plan)),
        *_paragraph(compared_with_default(plan)),
        *_paragraph(factors_text(plan)),
        *_paragraph(execution(plan)),
        *_paragraph(cross_rack_cost(plan)),
        *_paragraph(near_leaders(plan)),
        *_paragraph(limited(plan)),
        *_findings("Also found", fixed_or_noted(plan), with_remedies=False),
        "",
        *(f"  {path:<{width}}{about}" for path, about in files),
    ]
    return "\n".join(line.rstrip() for line in text) + "\n"
