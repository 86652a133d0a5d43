"""What a person needs to decide about a plan. Report, summary, runbook, fleet page and ``show --json`` all read it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from optimizer.approval_setting import NoteCode
from optimizer.domain import CORDON_LEFT, Cause, FindingCode
from optimizer.emit.broker_lines import BrokerLine, broker_lines, fullest_while_copying
from optimizer.emit.calendar import night_count, nights_in_words
from optimizer.emit.cards import Card, cards
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.findings import count_findings, doubtful_input, open_findings
from optimizer.emit.goals import Goal, exclusions, goals, missed_goals, requests, verdict
from optimizer.emit.inside_sentences import Copied, moves_in_words
from optimizer.emit.proofs import proof_in_short
from optimizer.emit.rows import FindingRow
from optimizer.emit.shown_figures import compared_with_default
from optimizer.units import (
    SECONDS_PER_HOUR,
    agree,
    first_of,
    human_bytes,
    human_count,
    human_percent,
    human_time,
    human_times,
    listed,
    plural,
    short_times,
)

RED, AMBER, GREY, GREEN = "red", "amber", "grey", "green"
TAGS = {
    RED: ("✖", "Think twice"),
    AMBER: ("!", "Read before you approve"),
    GREY: ("=", "Nothing to do"),
    GREEN: ("✔", "Ready to approve"),
}
_DANGERS = {
    FindingCode.STOPS_WRITES: "writes stop while it runs",
    FindingCode.NEWLY_EXPOSED: "one failure stops more partitions than before",
    FindingCode.RACK_EMPTIED: "a rack has no broker left",
}
DO_FIRST, KNOW_THIS = "Do first", "Know this"
_MOST_NOTES = 4  # lines: more than a reader takes in before a decision


@dataclass(frozen=True)
class Verdict:
    """State of the plan: one of RED, AMBER, GREY and GREEN; the same as a sign and in words; a headline; a sentence."""

    state: str
    sign: str
    tag: str
    headline: str
    sentence: str


@dataclass(frozen=True)
class Note:
    """What to do or to know before the approval."""

    code: NoteCode
    kind: str
    subject: str
    text: str


@dataclass(frozen=True)
class Copying:
    """How long a plan copies.

    Parameters
    ----------
    waves : int
    nights : int or None
        Windows in which waves start; None without windows.
    seconds : tuple of int
        Ends of the interval of the time of all waves.
    words : str
        The time, for people.
    """

    waves: int
    nights: int | None
    seconds: tuple[int, int]
    words: str


@dataclass(frozen=True)
class Decision:
    """Everything on the first screen, and the figures behind it.

    Parameters
    ----------
    title : str
        Cluster, bytes, waves or nights, time and result in one line.
    note_codes : tuple of NoteCode
        Of all notes; ``notes`` has only the first ones.
    requests : tuple of str
        What the policy requests, of ``REQUESTS``.
    has_racks : bool
        Whether figures about the failure of racks mean anything.
    peak_disk_percent : float or None
        The fullest disk while replicas are copied, in percent of its capacity; None if a capacity is unknown.
    inside_bytes : int
        Bytes that are copied inside brokers.
    figures : mapping of str to mapping
        Every figure of ``plan_summary`` by name: its label, and its values before, baseline, worst_moment and after.
    """

    title: str
    verdict: Verdict
    goals: tuple[Goal, ...]
    exclusions: str
    notes: tuple[Note, ...]
    note_codes: tuple[NoteCode, ...]
    requests: tuple[str, ...]
    cards: tuple[Card, ...]
    copying: Copying
    has_racks: bool
    peak_disk_percent: float | None
    inside_bytes: int
    figures: Mapping[str, Mapping[str, str | float | None]]


def decision_of(plan: ClusterPlan) -> Decision:
    """The decision about a plan."""
    notes_, copying, lines = tuple(notes(plan)), _copying(plan), broker_lines(plan)
    fullest = fullest_while_copying(plan, lines)
    return Decision(
        title=_title(plan, copying),
        verdict=_verdict(plan, notes_, copying, lines),
        goals=tuple(goals(plan)),
        exclusions=exclusions(plan),
        notes=notes_[:_MOST_NOTES],
        note_codes=tuple(note.code for note in notes_),
        requests=requests(plan),
        cards=tuple(cards(plan, lines)),
        copying=copying,
        has_racks=plan.has_racks,
        peak_disk_percent=fullest.peak if fullest else None,
        inside_bytes=plan.inside_bytes,
        figures={row.figure: {"label": row.label, **row.sides} for row in plan.summary},
    )


def _title(plan: ClusterPlan, copying: Copying) -> str:
    missed, dangers = missed_goals(plan), _dangers(plan)
    result = f"NOT reached: {'; '.join(missed)}" if missed else "all reached"
    if dangers:
        result = f"{result}; danger: {listed(dangers)}"
    if not plan.has_changes:
        nothing = "no partition changes" if _under_replicated(plan) else "nothing to do"
        return f"{plan.cluster_id}: {nothing}; {result}"
    size = Copied(plan.number("moved_bytes"), plan.inside_bytes).words()
    parts = waves_or_nights(copying.waves, copying.nights)
    return f"{plan.cluster_id}: {size}, {parts}, {short_times(*copying.seconds)}; {result}"


def waves_or_nights(waves: int, nights: int | None) -> str:
    """In how many parts a plan copies: nights, or waves without windows."""
    return plural(waves, "wave") if nights is None else plural(nights, "night")


def _copying(plan: ClusterPlan) -> Copying:
    ends = plan.copying_seconds
    return Copying(len(plan.waves), night_count(plan) or None, ends, human_times(*ends))


def _verdict(plan: ClusterPlan, notes_: Sequence[Note], copying: Copying, lines: Sequence[BrokerLine]) -> Verdict:
    """The verdict: red if a request is not reached or the plan endangers something, amber if something is to do."""
    dangers = _dangers(plan)
    if dangers or missed_goals(plan):
        state = RED
    elif any(note.kind == DO_FIRST for note in notes_):
        state = AMBER
    else:
        state = GREEN if plan.has_changes else GREY
    danger = f" Danger: {listed(dangers)}." if dangers else ""
    sentence = _sentence(plan, copying, lines) if plan.has_changes else _nothing(plan)
    return Verdict(state, *TAGS[state], f"{verdict(plan)}{danger}", sentence)


def _dangers(plan: ClusterPlan) -> list[str]:
    """What the plan endangers, in words."""
    return [text for code, text in _DANGERS.items() if any(row.code == code for row in plan.findings)]


def _nothing(plan: ClusterPlan) -> str:
    return f"No partition changes. {compared_with_default(plan)}".rstrip()


def _busiest(plan: ClusterPlan, lines: Sequence[BrokerLine]) -> str:
    """The broker that copies longest, which decides the time, in one sentence; empty if nothing is copied."""
    busiest = max(lines, key=lambda line: line.busy_seconds, default=None)
    moved = plan.number("moved_bytes")
    if busiest is None or not (busiest.busy_seconds and moved):
        return ""
    verb = "receives" if busiest.in_bytes >= busiest.out_bytes else "sends"
    share = human_percent(100 * max(busiest.in_bytes, busiest.out_bytes) / moved)
    return f"Broker {busiest.broker_id} {verb} {share} of the bytes: {human_time(busiest.busy_seconds)}."


def _sentence(plan: ClusterPlan, copying: Copying, lines: Sequence[BrokerLine]) -> str:
    nights = nights_in_words(plan).partition(";")[0]
    when = f" ({nights})" if nights else ""
    time, inside = f"{copying.words} of copying.", moves_in_words(plan)
    if not plan.changed:
        return f"No replica changes its broker. {inside}{when}, {time} {proof_in_short(plan)}"
    moved, share = human_bytes(plan.number("moved_bytes")), human_percent(plan.number("moved_share_percent"))
    also = f" between brokers and {human_bytes(plan.inside_bytes)} inside brokers" if inside else ""
    copies = f"Copies {moved} ({share} of all data){also} in {plural(len(plan.waves), 'wave')}{when}, {time}"
    parts = (
        copies,
        f"{inside}." if inside else "",
        _busiest(plan, lines),
        proof_in_short(plan),
        compared_with_default(plan),
    )
    return " ".join(filter(None, parts))


def notes(plan: ClusterPlan) -> list[Note]:
    """What to do first, then what to know. Pages show the first four."""
    return [*_to_do(plan), *_to_know(plan)]


def _to_do(plan: ClusterPlan) -> Iterator[Note]:
    for row in _under_replicated(plan):
        waits = "You may approve now: no wave starts before they are in sync."
        wait = waits if plan.has_changes else "Plan again when they are in sync."
        yield Note(
            NoteCode.UNDER_REPLICATED,
            DO_FIRST,
            row.subject,
            f"{agree(int(row.amount or 0), 'is', 'are')} {row.detail}. {wait}",
        )
    for left in (row for row in plan.input_findings if row.rule == CORDON_LEFT):
        yield Note(NoteCode.CORDON_LEFT, DO_FIRST, f"{left.subject.capitalize()}:", f"{left.detail}. {left.remedy}.")
    if not plan.has_changes:
        return
    dead = [row for row in plan.moves if row.reason == "dead" and row.size_bytes]
    if dead:
        names = [*map(str, sorted({row.from_broker or 0 for row in dead}))]
        saved = human_bytes(sum(row.size_bytes for row in dead))
        text = f"coming back? Then wait and plan again: {saved} need not be copied. If you approve now, no wave waits."
        yield Note(NoteCode.DEAD, DO_FIRST, f"{agree(len(names), 'is broker', 'are brokers')} {listed(names)}", text)
    in_flight = _in_flight(plan)
    if in_flight:
        text = f"a reassignment runs. You may approve now: {in_flight[0].remedy}."
        yield Note(NoteCode.IN_FLIGHT, DO_FIRST, f"{first_of([row.subject for row in in_flight])}:", text)
    found = [row for row in plan.throttles_found if not row.is_static]
    if found:
        where = sorted({f"{row.entity_type.removesuffix('s')} {row.entity_name}" for row in found})
        text = (
            "were set before this plan: waves start, and keep them. If an earlier wave left them, remove them and plan "
            "again."
        )
        yield Note(NoteCode.THROTTLES_FOUND, DO_FIRST, f"Throttles of {first_of(where)}", text)
    for row in _without_disk_limit(plan):
        text = "is unknown: waves start, and nothing checks that copies fit. Add a capacity file and plan again."
        yield Note(NoteCode.NO_DISK_CAPACITY, DO_FIRST, f"The disk capacity of {_unknown_of(row)}", text)
    slow = [row.wave for row in plan.waves if row.below_floor]
    if slow:
        its = agree(len(slow), "its rate", "their rates")
        text = f"may never end at {its}, and later ones wait. Raise [schedule] throttle_mb_per_s and plan again."
        yield Note(NoteCode.BELOW_FLOOR, DO_FIRST, first_of([f"wave {wave}" for wave in slow]).capitalize(), text)
    if not plan.capture_times:
        text = "so nobody knows how old this plan is, and it never expires. Set captured_at and plan again."
        yield Note(NoteCode.NO_CAPTURE_TIME, DO_FIRST, "No source has a capture time,", text)


def _to_know(plan: ClusterPlan) -> Iterator[Note]:
    late = [row for row in plan.findings if row.code == FindingCode.WAVE_TOO_LONG]
    if late:
        yield Note(
            NoteCode.WAVE_TOO_LONG,
            KNOW_THIS,
            f"{plural(len(late), 'wave')}",
            "may not end in the window. The report says which.",
        )
    long = sum(row.starts_at is None and row.most_seconds > plan.window_seconds(row) for row in plan.waves)
    if long:
        text = f"may take longer than [schedule] window_hours = {plan.window_hours:g}. The report says which."
        yield Note(NoteCode.WINDOW_TOO_SHORT, KNOW_THIS, plural(long, "wave"), text)
    unknown = int(plan.number("min_isr_unknown", "before"))
    if unknown:
        total = human_count(plan.number("partitions", "before"))
        yield Note(
            NoteCode.MIN_ISR_UNKNOWN,
            KNOW_THIS,
            f"min.insync.replicas of {unknown:,} of {total} partitions",
            "is unknown: 1 is assumed, so failures may stop more.",
        )
    without_rates = [row for row in plan.findings if row.code == FindingCode.NO_RATES]
    if without_rates:
        text = "times do not include live traffic, and the network is not balanced."
        yield Note(NoteCode.NO_RATES, KNOW_THIS, "No partition has a rate:", text)
    if old := _older_than_state(plan):
        text = f"older than the snapshot, by up to {human_time(max(old.values()))}. Check that its values still hold."
        yield Note(NoteCode.OLD_SOURCE, KNOW_THIS, f"{first_of(sorted(old))}:", text)
    doubts = doubtful_input(plan)
    if doubts:
        yield Note(
            NoteCode.INPUT_FINDINGS,
            KNOW_THIS,
            f"{plural(len(doubts), 'finding')} about the input:",
            f"{doubts[0].subject}: {doubts[0].detail}.",
        )
    others = (*_under_replicated(plan), *_in_flight(plan), *_without_disk_limit(plan), *without_rates, *late)
    noted = len(others) + len(doubts)
    nothing_to_do = (FindingCode.WAITS_TO_START, FindingCode.ONE_REPLICA)  # with this plan
    left = count_findings(open_findings(plan)) - noted - sum(row.code in nothing_to_do for row in plan.findings)
    if left > 0:
        verb, more = agree(left, "stays", "stay"), "more " if noted else ""
        yield Note(
            NoteCode.OPEN_FINDINGS,
            KNOW_THIS,
            plural(left, f"{more}finding"),
            f"{verb} open. The report lists all, with remedies.",
        )


def _older_than_state(plan: ClusterPlan) -> dict[str, int]:
    """Sources without state, such as capacities, that would be expired as a snapshot; seconds before it by source."""
    begin, limit = plan.captured_at, plan.valid_hours * SECONDS_PER_HOUR
    if begin is None or not limit:
        return {}
    ages = {row.source: begin - row.captured_at for row in plan.sources if not row.has_state and row.captured_at}
    return {source: age for source, age in ages.items() if age > limit}


def _under_replicated(plan: ClusterPlan) -> list[FindingRow]:
    """The finding about partitions whose replicas out of sync stay: they stop waves."""
    return [row for row in plan.findings if row.code == FindingCode.UNDER_REPLICATED and row.when != "before"]


def _without_disk_limit(plan: ClusterPlan) -> list[FindingRow]:
    """The finding about brokers of unknown capacity, if the plan copies anything."""
    return [row for row in plan.findings if plan.moves and row.code == FindingCode.NO_DISK_CAPACITY]


def _unknown_of(row: FindingRow) -> str:
    """Of how many brokers the capacity is unknown."""
    count, known = int(row.limit or 0), int(row.amount or 0)
    return plural(count, "broker") if not known else f"{count - known:,} of {plural(count, 'broker')}"


def _in_flight(plan: ClusterPlan) -> list[FindingRow]:
    """Findings about reassignments that still run; the first note is about them."""
    return [row for row in plan.findings if row.cause == Cause.IN_FLIGHT and row.when != "before"]
