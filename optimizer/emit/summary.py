"""The summary that a run prints on the terminal at its end: at most 96 columns."""

from collections.abc import Iterator, Sequence

from optimizer.domain import FindingCode
from optimizer.emit.calendar import nights_in_words
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.decision import Decision
from optimizer.emit.decision_text import note_lines, paragraph, verdict_lines
from optimizer.emit.findings import SHOWN, FindingLine, count_findings, first_lines, fixed_or_noted, open_findings
from optimizer.emit.goals import origin
from optimizer.emit.inside_sentences import directories_in_words, rate_inside, whole_plan
from optimizer.emit.proofs import proof
from optimizer.emit.rack_sentences import cross_rack_cost, near_leaders, tiered
from optimizer.emit.shown_figures import (
    band_note,
    factors_text,
    leader_proof,
    limited,
    lines,
    loss_lines,
    loss_note,
    restarts,
)
from optimizer.units import human_bytes, human_rate, human_ratio, human_time, human_times, plural

_ROOM_UNKNOWN = " Whether the network has room for this rate is not known:"
_LABEL, _VALUE = 48, 14  # characters of the columns
_LARGE_BATCH_KB = 256  # larger ones: up to half of a fetch of 1 MiB is the cut-off part of a batch, which is dropped
_WHOLE = "the whole plan"
_FILES = {
    "report.html": "the report, for a browser",
    "runbook.md": "what to run, step by step",
    "reassignment.json": _WHOLE,
    "rollback.json": f"undoes {_WHOLE}",
    "rollback-01.json": f"undoes {_WHOLE}, in numbered parts",
    "rollback-not-possible.json": "cannot be rolled back while a broker is down",
    "rollback-not-possible-01.json": "cannot be rolled back while a broker is down, in numbered parts",
    "moves.csv": "each copy: brokers, size, reason, wave",
    "dir-moves.csv": "each copy inside a broker: directories, size, wave",
}


def _row(label: str, *values: str) -> str:
    return f"  {label:<{_LABEL}}" + "".join(f"{value:>{_VALUE}}" for value in values)


def _title(plan: ClusterPlan) -> str:
    partitions, replicas = int(plan.number("partitions", "before")), int(plan.number("replicas", "before"))
    brokers = plural(len(plan.brokers), "broker")
    size = human_bytes(plan.number("total_bytes", "before"))
    return f"{plan.cluster_id}: {plural(partitions, 'partition')}, {plural(replicas, 'replica')}, {size} on {brokers}"


def execution(plan: ClusterPlan) -> str:
    """Waves, time and rate in one sentence; if the time has an interval, a second one says which batches it assumes."""
    if not plan.waves:
        return "Nothing to do: no partition changes."
    details = "; ".join(filter(None, (_above_bound(plan), nights_in_words(plan))))
    time = human_times(*plan.copying_seconds)
    text = f"{plural(len(plan.waves), 'wave')}, {time} of copying{details and f' ({details})'}"
    return " ".join(filter(None, (_rates(plan, text), rate_inside(plan))))


def _rates(plan: ClusterPlan, text: str) -> str:
    """The text, with the rates of the copies between brokers."""
    if not plan.waves_between:
        return f"{text}."
    rate = max(row.throttle_bytes_per_s for row in plan.waves_between)
    if not rate:
        return f"{text}: nothing is copied{' between brokers' if plan.waves_inside else ''}."
    text = f"{text} at up to {human_rate(plan.copy_bytes_per_s)} per broker and direction"
    has_rates = not any(row.code == FindingCode.NO_RATES for row in plan.findings)
    live = "live replication included" if has_rates else "without live replication, which is unknown: add it"
    text = f"{text} (throttle up to {human_rate(rate)}, {live})."
    return f"{text}{_network_room(plan, has_rates=has_rates)}{_batches(plan)}"


def _network_room(plan: ClusterPlan, *, has_rates: bool) -> str:
    """A sentence with a space before it if the network sets a rate, or if nobody knows whether it has room."""
    for row in plan.waves_between:
        rate, requested, left = row.copy_bytes_per_s, row.requested_bytes_per_s, row.network_left_bytes_per_s
        if rate < requested and left is not None:
            has = f"has {human_rate(left)} left" if left > 0 else "is full"
            anyway = f": copies take {human_rate(rate)} all the same, so that they end" if rate > left else ""
            asked = f" {human_rate(requested)} were requested, but the network of broker {row.network_broker}"
            return f"{asked} {has}{anyway}."
    if any(row.network_left_bytes_per_s is None for row in plan.waves_between):
        return f"{_ROOM_UNKNOWN} the capacities of the brokers' networks are not all known."
    return "" if has_rates else f"{_ROOM_UNKNOWN} the use of the network is not known."


def _batches(plan: ClusterPlan) -> str:
    """The batches that the interval assumes; empty without an interval."""
    if len({*map(human_time, plan.copying_seconds)}) == 1:
        return ""
    assumed = f" The interval assumes producer batches of {plan.batch_kb:g} kB"
    is_large = plan.batch_kb > _LARGE_BATCH_KB
    return f"{assumed}." if is_large else f"{assumed}: batches over {_LARGE_BATCH_KB} kB take up to twice as long."


def _above_bound(plan: ClusterPlan) -> str:
    """How close the waves are to their bound; nothing about a single wave, which is always at its bound."""
    ratio, count = plan.figure("waves_over_bound"), len(plan.waves_between)
    if ratio is None or count <= 1:
        return ""
    between = " between brokers" if plan.waves_inside else ""
    return f"{human_ratio(ratio)} the proven minimum for {plural(count, 'wave')}{between}"


def _findings(title: str, all_lines: Sequence[FindingLine], *, with_remedies: bool) -> Iterator[str]:
    """The first ``SHOWN`` lines of findings, with the remedy of each if ``with_remedies``."""
    if not all_lines:
        return
    yield ""
    yield f"  {title} ({count_findings(all_lines):,}):"
    lines, more = first_lines(all_lines, SHOWN)
    for line in lines:
        text = line.text_and_remedy if with_remedies else line.text
        yield from paragraph(f"- {text} ({line.rule}, {line.when})")
    if more:
        yield f"  and {more:,} more: the tables findings and input_findings list every finding"


def _commands(plan: ClusterPlan) -> Iterator[str]:
    """How to approve and execute the plan, as they are typed; none if nothing changes."""
    if plan.has_changes:
        yield from ("", "  Approve and execute it:", f"    {plan.approve_command}", f"    {plan.run_command}")


def _losses(plan: ClusterPlan) -> Iterator[str]:
    """What the loss of a broker or a rack would do."""
    table = [_row(line.label, line.before, line.worst_moment, line.after) for line in loss_lines(plan)]
    if table:
        yield ""
        yield _row("If a broker or a rack fails", "before", "worst moment", "after")
        yield from table
        yield from paragraph(loss_note(plan))
    yield from paragraph(restarts(plan))


def summary_text(plan: ClusterPlan, decision: Decision, written: Sequence[Document]) -> str:
    """The summary of one cluster.

    Parameters
    ----------
    plan : ClusterPlan
    decision : Decision
        About this plan.
    written : sequence of Document
        The other files of the cluster; the summary lists those for people.
    """
    table = [_row(line.label, line.before, line.baseline, line.after) for line in lines(plan)]
    paths = {document.path for document in written}
    known = {f"{plan.folder}/{name}": about.replace(_WHOLE, whole_plan(plan)) for name, about in _FILES.items()}
    files = [(path, about) for path, about in known.items() if path in paths]
    width = max((len(path) for path, _ in files), default=0) + 2
    text = [
        _title(plan),
        *verdict_lines(decision),
        *paragraph(origin(plan)),
        *note_lines(decision),
        *_commands(plan),
        *_findings("Check first", open_findings(plan), with_remedies=True),
        "",
        _row("", "before", "Kafka default", "this plan"),
        *table,
        *paragraph(band_note(plan)),
        *_losses(plan),
        "",
        *paragraph(proof(plan)),
        *paragraph(leader_proof(plan)),
        *paragraph(factors_text(plan)),
        *paragraph(execution(plan)),
        *paragraph(directories_in_words(plan)),
        *paragraph(tiered(plan)),
        *paragraph(cross_rack_cost(plan)),
        *paragraph(near_leaders(plan)),
        *paragraph(limited(plan)),
        *_findings("Also found", fixed_or_noted(plan), with_remedies=False),
        "",
        *(f"  {path:<{width}}{about}" for path, about in files),
    ]
    return "\n".join(line.rstrip() for line in text) + "\n"
