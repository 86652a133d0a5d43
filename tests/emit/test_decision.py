"""The decision about a plan: every page says the same, and every figure of ``plan_summary`` is a field."""

import html
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from optimizer.approval_setting import REQUESTS
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.decision import AMBER, DO_FIRST, GREY, decision_of
from optimizer.emit.decision_text import decision_json, paragraph
from optimizer.emit.documents import documents
from optimizer.emit.requested import Requested
from optimizer.emit.rows import InputFindingRow, SourceRow
from optimizer.units import short_times
from tests.emit.test_findings import finding, planned
from tests.emit.test_pages import synthetic
from tests.emit.test_report import full

NIGHT = 86_400
IDLE: dict[str, Any] = {"changed": [], "moves": [], "waves": [], "throttles": []}


def in_nights(plan: ClusterPlan) -> ClusterPlan:
    """The plan with its waves in two nights of a window."""
    waves = []
    for number, row in enumerate(plan.waves):
        start = (number % 2) * NIGHT
        times: dict[str, Any] = {
            "starts_at": start,
            "ends_at": start + 60,
            "night_ends_at": start + 3600,
            "time_zone": "UTC",
        }
        waves.append(replace(row, **times))
    return replace(plan, waves=waves)


def missed(plan: ClusterPlan) -> ClusterPlan:
    """The plan with brokers that stay outside their bands, and a finding that makes it dangerous."""
    summary = [replace(row, after=3.0) if row.figure == "brokers_outside_bands" else row for row in plan.summary]
    return replace(plan, summary=summary, findings=planned(finding("stops_writes", "x", "after")).findings)


PLANS = {
    "plain": full(),
    "in nights": in_nights(full()),
    "missed": missed(full()),
    "nothing to do": full(**IDLE),
    "no figures": synthetic(3),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_every_page_says_the_same(plan: ClusterPlan) -> None:
    """Verdict, sentence, requests and notes are word for word the same in report, summary, runbook and JSON."""
    texts = {d.path.removeprefix("c/"): d.content for d in documents(plan)}
    decision = json.loads(texts["decision.json"])
    pages = [" ".join(html.unescape(texts[name]).split()) for name in ("report.html", "summary.txt", "runbook.md")]
    pages.append(" ".join(decision["text"].split()))
    sentences = [decision["verdict"]["headline"], decision["verdict"]["sentence"], decision["verdict"]["tag"]]
    sentences += [goal["detail"] for goal in decision["goals"]]
    sentences += [note["text"] for note in decision["notes"]]
    for page in pages:
        assert [sentence for sentence in sentences if " ".join(sentence.split()) not in page] == []


def test_every_figure_is_a_field() -> None:
    """With its label and its value before, with Kafka's default, after and at the worst moment."""
    plan = full()
    [text] = [d.content for d in documents(plan) if d.path == "c/decision.json"]
    figures = json.loads(text)["figures"]
    assert len(figures) == len(plan.summary) > 0
    for row in plan.summary:
        assert figures[row.figure] == {
            "label": row.label,
            "before": row.before,
            "baseline": row.baseline,
            "after": row.after,
            "worst_moment": row.worst_moment,
        }


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("plain", "c: 300 GB, 3 waves, {words}; NOT reached: empty broker 0"),
        ("in nights", "c: 300 GB, 2 nights, {words}; NOT reached: empty broker 0"),
        (
            "missed",
            "c: 300 GB, 3 waves, {words}; NOT reached: empty broker 0; balance; danger: writes stop while it runs",
        ),
        ("nothing to do", "c: nothing to do; NOT reached: empty broker 0"),
    ],
)
def test_the_title_is_the_plan_in_one_line(name: str, title: str) -> None:
    """Bytes, waves or nights, time, and what is not reached."""
    decision = decision_of(PLANS[name])
    assert decision.title == title.format(words=short_times(*decision.copying.seconds))
    assert decision.copying.nights == (2 if name == "in nights" else None)


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    """A reader of the first line has the whole number, whatever stands before it."""
    for length in range(60, 96):
        lines = paragraph(f"{'x' * length} 1.29 TB, 12 % and 5 h 11 min at 3 MB/s")
        assert [line for line in lines if re.search(r"\d$", line)] == []


def test_the_text_of_the_first_screen_fits_a_terminal() -> None:
    """96 columns; it has the six figures, and until when waves accept the plan."""
    plan = full()
    [content] = [d.content for d in documents(plan) if d.path == "c/decision.json"]
    text = json.loads(content)["text"]
    assert max(map(len, text.splitlines())) <= 96
    for card in decision_of(plan).cards:
        assert re.search(rf"^{re.escape(card.value)} {{2,}}{re.escape(card.label)} {{2,}}\S", text, re.MULTILINE)
    assert "start its first wave before 1970-01-02 00:00 UTC." in text
    idle = json.loads(next(d.content for d in documents(full(**IDLE)) if d.path == "c/decision.json"))
    assert "first wave" not in idle["text"]


@pytest.mark.parametrize(
    ("requested", "requests"),
    [
        ({}, ["drain", "racks", "balance"]),
        ({"only": "leaders"}, ["balance"]),
        ({"only": "drain"}, ["drain"]),
        ({"demote": (1,), "pins": ("a on racks b",), "factors": ("a: 3",)}, [*REQUESTS]),
    ],
)
def test_rules_read_what_is_requested(requested: dict[str, Any], requests: list[str]) -> None:
    """Each kind of request has a name; leaders belong to the balance."""
    plan = replace(full(), requested=Requested(**requested))
    assert sorted(decision_of(plan).requests) == sorted(requests)


def test_rules_read_every_note() -> None:
    """Pages show the first four notes; the codes of all are in the file, and the manifest has the file's sha256."""
    codes = ("no_rates", "wave_too_long", "under_replicated")
    found = planned(*(finding(code, "c", "both", "x", amount=1) for code in codes)).findings
    slow = [replace(row, below_floor=True, most_seconds=10**7) for row in full().waves]
    plan = replace(full(), sources=[], findings=found, waves=slow)
    files = {d.path: d for d in documents(plan)}
    decision = json.loads(files["c/decision.json"].content)
    assert [note["code"] for note in decision["notes"]] == decision["note_codes"][:4]
    expected = ["under_replicated", "below_floor", "no_capture_time", "wave_too_long", "window_too_short", "no_rates"]
    assert [code for code in decision["note_codes"] if code in expected] == expected
    assert json.loads(files["c/manifest.json"].content)["decision_sha256"] == files["c/decision.json"].sha256


def test_a_cordon_that_was_left_behind_comes_first() -> None:
    """Also if the plan changes nothing: the broker gets no replica in any plan."""
    row = InputFindingRow("cordon_left", "noted", "broker 3", "run r cordoned it", "./ballast uncordon 3", 1)
    for plan in (full(), full(**IDLE)):
        (note, *_) = decision_of(replace(plan, input_findings=[row])).notes
        assert (note.kind, note.subject, note.text) == (
            "Do first",
            "Broker 3:",
            "run r cordoned it. ./ballast uncordon 3.",
        )


def test_rules_read_the_fullest_disk_and_the_calendar() -> None:
    """The peak is in percent of a capacity, and null if one is unknown; without windows there is no calendar."""
    plan = full()
    [disk, *_] = decision_of(plan).cards
    peak = decision_of(plan).peak_disk_percent
    assert peak is not None
    assert f"at most {peak:.0f} % while copying" in disk.remark or not plan.broker_waves
    unknown = replace(plan, brokers=[replace(row, disk_capacity_bytes=None) for row in plan.brokers])
    assert decision_of(unknown).peak_disk_percent is None
    assert "calendar" not in json.loads(decision_json(plan, decision_of(plan)))
    nights = in_nights(plan)
    [(start, end), *_] = json.loads(decision_json(nights, decision_of(nights)))["calendar"]
    assert (start, end) == ("1970-01-01T00:00:00+00:00", "1970-01-01T00:01:00+00:00")


def out_of_sync(when: str) -> ClusterPlan:
    """Findings of a plan: partitions that are under-replicated."""
    detail = "under-replicated (brokers 3, 5)"
    return planned(finding("under_replicated", "12 of 36 partitions", when, detail, amount=12, limit=36))


def first_note(plan: ClusterPlan) -> str:
    """The first note; empty without one."""
    note = next(iter(decision_of(plan).notes), None)
    return f"{note.kind}: {note.subject} {note.text}" if note else ""


QUIET: dict[str, Any] = {**IDLE, "brokers": [replace(row, must_empty=False) for row in full().brokers]}


@pytest.mark.parametrize(
    ("changes", "when", "note"),
    [
        ({}, "both", "You may approve now: no wave starts before they are in sync."),
        (QUIET, "both", "Plan again when they are in sync."),
        ({}, "before", None),
        (QUIET, "before", None),
    ],
)
def test_replicas_out_of_sync_that_stay_come_first(changes: dict[str, Any], when: str, note: str | None) -> None:
    """Also if the plan changes nothing. A replica that the plan removes stops no wave, so it is no note."""
    plan = replace(full(), findings=out_of_sync(when).findings, **changes)
    words = f"{DO_FIRST}: 12 of 36 partitions are under-replicated (brokers 3, 5). {note}"
    assert (first_note(plan) == words) is (note is not None)
    decision = decision_of(plan)
    assert not any("more finding" in shown.subject or "1 finding" in shown.subject for shown in decision.notes)
    if changes:
        assert decision.verdict.state == (AMBER if note else GREY)
        assert decision.title == f"c: {'no partition changes' if note else 'nothing to do'}; all reached"


@pytest.mark.parametrize(
    ("sources", "note"),
    [
        ([], ""),
        ([2], "Do first: is broker 2 coming back? Then wait and plan again: 3.00 GB need not be copied."),
        (
            [5, 2, 2],
            "Do first: are brokers 2 and 5 coming back? Then wait and plan again: 9.00 GB need not be copied.",
        ),
    ],
)
def test_a_dead_broker_that_comes_back_saves_its_copies(sources: list[int], note: str) -> None:
    """The note has the bytes of all copies that are planned only because brokers are dead."""
    plan = full()
    copies = [replace(plan.moves[0], from_broker=b, size_bytes=3 * 10**9, reason="dead") for b in sources]
    shown = first_note(replace(plan, moves=[*copies, *plan.moves]))
    assert (shown == f"{note} If you approve now, no wave waits.") is bool(note)
    removed = [replace(row, size_bytes=0) for row in copies]
    assert "coming back" not in first_note(replace(plan, moves=[*removed, *plan.moves]))


@pytest.mark.parametrize(("hours", "text"), [(24, None), (49, "older than the snapshot, by up to 2 d 1 h. Check that")])
def test_an_old_capacity_file_is_named(hours: int, text: str | None) -> None:
    """It ages no plan, but a reader must know; a plan is valid for a day."""
    at = 1793491200
    sources = [SourceRow("topics.txt", at, 1), SourceRow("capacity.csv", at - hours * 3600, 1, has_state=False)]
    plan = replace(full(), sources=sources, valid_hours=24.0)
    assert plan.captured_at == at
    notes = [note.text for note in decision_of(plan).notes if note.subject == "capacity.csv:"]
    assert [note[: len(text or "")] for note in notes] == ([text] if text else [])
