"""The report of plans of every kind, without Spark: what stands on it, and that it equals its tables."""

import re
from dataclasses import replace
from typing import Any

import pytest

from optimizer.domain import WHOLE_PLAN
from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.pages import text_of
from optimizer.emit.report.movement import wave_lines
from optimizer.emit.report.page import style
from optimizer.emit.rows import (
    AlternativeRow,
    BrokerWaveRow,
    CurveRow,
    EarlierThrottleRow,
    FigureRow,
    InputFindingRow,
    RackFlowRow,
    SourceRow,
)
from tests.emit.rows import rows_of
from tests.emit.test_findings import finding, planned
from tests.emit.test_pages import GB, synthetic
from tests.emit.texts import report_of

CAPACITY = 200 * GB
HOUR = 3600


def page(plan: ClusterPlan, *names: str) -> str:
    """The report, with these files beside it."""
    written = [Document(f"c/{name}", "", WHOLE_PLAN, "") for name in names]
    return report_of(plan, written)


def full(n_brokers: int = 12, **changes: Any) -> ClusterPlan:
    """A plan with capacities, flows, and figures."""
    plan = synthetic(n_brokers)
    brokers = [replace(row, disk_capacity_bytes=CAPACITY) for row in plan.brokers]
    copied = [
        {"wave": wave, "broker_id": b, "out_bytes": b * GB, "in_bytes": 2 * b * GB, "busy_seconds": HOUR * b,
         "peak_disk_bytes": (100 + b) * GB}
        for wave in (1, 2) for b in range(1, n_brokers)
    ]  # fmt: skip
    flow = [{"from_rack": a, "to_rack": b, "copied_bytes": GB} for a in "abc" for b in "abc"]
    figures = {"moved_bytes": (None, 300.0 * GB), "brokers_outside_bands": (7.0, 0.0), "stopped_by_some_rack": (20, 4)}
    summary = [FigureRow(name, name, before, None, after, after) for name, (before, after) in figures.items()]
    return replace(
        plan,
        brokers=brokers,
        summary=summary,
        sources=[SourceRow("topics.txt", 0, 3)],
        broker_waves=rows_of(BrokerWaveRow, *copied),
        rack_flow=rows_of(RackFlowRow, *flow),
        **changes,
    )


def state(text: str) -> str:
    """The colour of the verdict."""
    [found] = re.findall(r'class="box verdict (\w+)"', text)
    return str(found)


def test_waves_that_outlast_their_length_are_noted() -> None:
    """Without windows a wave has window_hours: the note counts the same waves that the table marks."""
    plan = full()
    spans = [(HOUR, HOUR), (HOUR, 3 * HOUR), (3 * HOUR, 4 * HOUR)]
    rows = zip(plan.waves, spans, strict=True)
    waves = [replace(row, least_seconds=least, most_seconds=most) for row, (least, most) in rows]
    text = page(replace(plan, waves=waves, window_hours=2))
    assert "<b>2 waves</b> may take longer than [schedule] window_hours = 2." in text
    assert text.count("may overrun") == 2
    assert "may take longer" not in page(replace(plan, waves=waves, window_hours=4))


def test_a_dead_broker_leaves_the_others_in_percent() -> None:
    """Nobody knows the capacity of its disks: its row has dashes, and the card is about the others."""
    plan = full()
    dead = replace(plan.brokers[0], state="dead", disk_capacity_bytes=None)
    text = page(replace(plan, brokers=[dead, *plan.brokers[1:]]))
    assert re.search(r"<b>\d+ → \d+ %</b><span>fullest disk</span>", text)
    assert text.count('<td class="draw"></td><td class="num">-</td>') == 1
    unknown = replace(plan.brokers[1], disk_capacity_bytes=None)
    assert "fullest disk, over the mean" in page(replace(plan, brokers=[dead, unknown, *plan.brokers[2:]]))


def test_a_plan_that_only_removes_replicas_has_no_bytes_between_racks() -> None:
    """It has no flow between racks and no peak: the page does not call them 0."""
    text = page(replace(full(), broker_waves=[], rack_flow=[]))
    assert "Bytes between racks are not known: some brokers have no rack, or replicas are only removed." in text


def test_a_wave_that_never_ends_does_not_hide_the_others() -> None:
    """It is drawn to the edge; the others keep their lengths."""
    plan = full()
    first, *others = (replace(row, least_seconds=HOUR, most_seconds=2 * HOUR) for row in plan.waves)
    plan = replace(plan, waves=[replace(first, least_seconds=HOUR, most_seconds=2**53), *others], window_hours=4)
    lines = wave_lines(plan)
    assert lines[0].most == 100
    assert [round(line.most) for line in lines[1:]] == [49] * len(others)


def test_nothing_to_do_is_grey_whatever_others_do() -> None:
    """Throttles and reassignments of others stop no wave if there is none."""
    found = rows_of(EarlierThrottleRow, {"entity_type": "brokers", "entity_name": "1", "config_name": "c",
                                         "config_value": "1", "is_static": False})  # fmt: skip
    plan = full(changed=[], moves=[], waves=[], throttles_found=found)
    assert state(page(replace(plan, brokers=_kept(plan)))) == "grey"


def test_the_sentence_claims_no_more_than_is_proven() -> None:
    """A plan with a limit, or of one request, is compared with plans that do as much."""
    plan = full()
    gap = replace(plan.summary[0], figure="gap_percent", before=None, after=0.0)
    plan = replace(plan, summary=[*plan.summary, gap])
    assert "No plan copies less for this balance (proven)" in page(plan)
    limited_ = replace(plan, findings=planned(finding("limited", "max_moved_gb = 1", "after")).findings)
    assert "No plan copies less if no more is left undone (proven)" in page(limited_)
    only = replace(plan, requested=replace(plan.requested, only="drain"))
    assert "No plan copies less for this request (proven)" in page(only)


def test_the_undo_card_names_a_file_that_exists() -> None:
    """A large rollback is in numbered parts."""
    assert "<small>rollback.json" in page(full())
    assert "<small>rollback-01.json and 1 more" in page(
        replace(full(), changed=synthetic(12, partitions=10_001).changed)
    )


def test_unknown_bytes_between_racks_are_not_zero() -> None:
    """A plan that copies, but some brokers have no rack: a dash instead of 0 B."""
    plan = full()
    assert "<b>-</b><span>between racks</span><small>some brokers have no rack" in page(plan)
    known = replace(plan.summary[0], figure="cross_rack_bytes", after=5.0 * GB)
    assert "<b>5.00 GB</b><span>between racks</span>" in page(replace(plan, summary=[*plan.summary, known]))


@pytest.mark.parametrize(
    ("codes", "colour", "words"),
    [
        ((), "green", "✔ Ready to approve"),
        (("stops_writes",), "red", "Danger: writes stop while it runs."),
        (("newly_exposed",), "red", "Danger: one failure stops more partitions than before."),
        (("rack_emptied", "stops_writes"), "red", "Danger: writes stop while it runs and a rack has no broker left."),
        (("band",), "green", "1 finding</b> stays open"),
    ],
)
def test_what_the_plan_endangers_is_red(codes: tuple[str, ...], colour: str, words: str) -> None:
    """Also if every request is reached; findings that are only open do not change the colour."""
    base = full(findings=[], moves=synthetic(12).moves)
    quiet = replace(base, waves=[replace(row, below_floor=False) for row in base.waves], brokers=_kept(base))
    text = page(replace(quiet, findings=planned(*(finding(code, "x", "after") for code in codes)).findings))
    assert state(text) == colour
    assert words in text


def _kept(plan: ClusterPlan) -> list[Any]:
    """The brokers, of which none is to be emptied."""
    return [replace(row, must_empty=False, accepts_replicas=True) for row in plan.brokers]


def test_what_is_to_do_first_is_amber_and_comes_first() -> None:
    """Throttles of others and a rate that is too low come before what is only to know; there are at most four lines."""
    found = {"entity_type": "topics", "entity_name": "t", "config_name": "x", "config_value": "*", "is_static": False}
    doubt = {"rule": "r", "standing": "left_out", "subject": "s", "detail": "d", "remedy": "", "rows": 1}
    plan = replace(
        full(),
        brokers=_kept(full()),
        throttles_found=rows_of(EarlierThrottleRow, found),
        sources=[],
        input_findings=rows_of(InputFindingRow, doubt),
        findings=planned(finding("wave_too_long", "wave 1", "during")).findings,
    )
    text = page(plan)
    kinds = re.findall(r'class="kind( first)?">', text)
    assert state(text) == "amber"
    assert kinds == [" first", " first", " first", ""]
    assert "<b>Throttles of topic t</b> were set before this plan: waves start, and keep them." in text
    assert "No source has a capture time," in text


def test_a_plan_without_changes_is_grey_and_asks_for_no_approval() -> None:
    """There is nothing to approve, nothing to undo, and no wave."""
    text = page(replace(full(), changed=[], moves=[], waves=[], brokers=_kept(full())))
    assert state(text) == "grey"
    assert "./ballast approve" not in text
    assert "Nothing is copied." in text


def test_the_figures_of_brokers_are_those_of_the_tables() -> None:
    """Disks in percent of capacity, peaks of the waves, bytes and busy hours of all waves."""
    plan = full()
    rows = re.findall(r'<tr><th scope="row" class="line">(\d+)(.*?)</tr>', page(plan))
    assert len(rows) == len(plan.brokers)
    loads = {(row.broker_id, row.placement): row for row in plan.balance}
    for name, cells in rows:
        broker = int(name)
        numbers = re.findall(r'<td class="num[^"]*">([^<]+)</td>', cells)
        waves = [row for row in plan.broker_waves if row.broker_id == broker]
        sizes = [loads[broker, side].disk_bytes for side in ("before", "after")]
        peak = max([*sizes, *(row.peak_disk_bytes for row in waves)])
        assert numbers[:3] == [f"{100 * size / CAPACITY:.0f}" for size in (*sizes, peak)]
        assert float(numbers[3].replace(",", "")) == sum(row.in_bytes for row in waves) / GB
        assert float(numbers[4].replace(",", "")) == sum(row.out_bytes for row in waves) / GB
        assert float(numbers[5]) == sum(row.busy_seconds for row in waves) / HOUR
        assert numbers[6:] == [str(loads[broker, side].leaders) for side in ("before", "after")]


def test_without_capacities_disks_are_shares_of_the_fullest() -> None:
    """The page says so, and draws no limit."""
    plan = replace(full(), brokers=[replace(row, disk_capacity_bytes=None) for row in full().brokers])
    text = page(plan)
    assert "Disks in percent of the fullest broker, because capacities are not all known." in text
    assert "fullest disk, over the mean" in text
    assert 'class="limit" x1="86' not in text
    assert "limit 90 %" not in text
    assert "limit 90 %" in page(full())


def test_many_brokers_are_a_strip_for_each_rack() -> None:
    """Then the ten fullest and the ten busiest others, and all of them folded."""
    text = page(full(61))
    [strips] = re.findall(r'aria-label="Disks of each rack.*?</table>', text, flags=re.S)
    assert strips.count('<circle class="to low"') == 61
    assert re.findall(r'<th scope="row">(\w)</th>', strips) == ["a", "b", "c"]
    [most] = re.findall(r'aria-label="The fullest and the busiest brokers".*?</table>', text, flags=re.S)
    assert [int(b) for b in re.findall(r'class="line">(\d+)', most)] == [*range(60, 50, -1), *range(50, 40, -1)]
    assert "<summary>All 61 brokers</summary>" in text


@pytest.mark.parametrize(("racks", "is_matrix"), [(12, True), (13, False)])
def test_bytes_between_many_racks_are_a_list(racks: int, is_matrix: bool) -> None:
    """A matrix of more than twelve racks does not fit; the twenty largest pairs do. Rows and cells add up."""
    names = [f"r{n:02d}" for n in range(racks)]
    flow = [RackFlowRow(a, b, (1 + i * racks + j) * GB) for i, a in enumerate(names) for j, b in enumerate(names)]
    plan = full()
    text = page(replace(plan, rack_flow=flow, brokers=[replace(row, rack=names[0]) for row in plan.brokers]))
    [table] = re.findall(r'<table aria-label="Bytes between racks".*?</table>', text, flags=re.S)
    assert (table.count("<tr>") == racks + 1) == is_matrix
    assert is_matrix or table.count("<tr>") == 21
    assert f">{racks * racks} GB<" in table


def test_unknown_racks_are_said() -> None:
    """Without racks there is no matrix, and losses are those of brokers."""
    plan = replace(full(), rack_flow=[], brokers=[replace(row, rack=None) for row in full().brokers])
    text = page(plan)
    assert "Bytes between racks are not known" in text
    assert "<span>partitions stop if the worst broker fails</span>" in text


def test_names_are_escaped_and_may_be_long() -> None:
    """A script in the name of a rack stays text, and a topic of 249 letters is in a cell that breaks it."""
    plan = full()
    rack, topic = "<script>alert(1)</script>", "t" * 249
    changed = [replace(row, topic=topic) for row in plan.changed]
    text = page(replace(plan, changed=changed, brokers=[replace(row, rack=rack) for row in plan.brokers]))
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert f'class="name">{topic}</th>' in text


def test_many_waves_are_cut_and_counted() -> None:
    """A hundred are shown, and the page says where the others are."""
    waves = [replace(synthetic(3).waves[0], wave=number) for number in range(1, 201)]
    text = page(replace(full(), waves=waves))
    [table] = re.findall(r'<table aria-label="Waves".*?</table>', text, flags=re.S)
    assert len(re.findall(r"wave-\d+</th>", table)) == 100
    assert "And 100 waves more: table <code>waves</code> has all." in text


def test_many_copies_are_the_largest() -> None:
    """Up to 2,000 all are on the page; of more, the 1,000 largest, the largest first."""
    move, *_ = synthetic(12).moves
    few, many = ([replace(move, partition=n, size_bytes=n * GB) for n in range(count)] for count in (2000, 2001))
    assert page(replace(full(), moves=few)).count("<td>balance</td>") == 2000
    text = page(replace(full(), moves=many))
    assert text.count("<td>balance</td>") == 1000
    assert "The 1,000 largest of 2,001 copied replicas; moves.csv has all" in text
    assert re.findall(r'<td class="name">[^<]+-(\d+)</td>', text)[:2] == ["2000", "1999"]


def test_alternatives_stand_beside_this_plan() -> None:
    """A row for this plan and for each other plan, in words; equal plans share one. Without any, the page says why."""
    values = [("bands x 2", 1, "disk_band = 0.1", 200.0), ("only urgent", 2, "disk_band = 100", 100.0)]
    values.append(("half the bytes", 3, "max_moved_gb = 100", 100.0))
    rows = [AlternativeRow(position, name, knobs, "moved_bytes", v * GB) for name, position, knobs, v in values]
    text = page(replace(full(), alternatives=rows))
    [table] = re.findall(r'<table aria-label="Alternatives".*?</table>', text, flags=re.S)
    cells = re.findall(r'class="name">([^<]+)(?:<br><small>([^<]+)</small>)?</th><td class="num plan">([^<]+)', table)
    assert [(name, size) for name, _, size in cells] == [
        ("this plan", "300 GB"),
        ("bands x 2", "200 GB"),
        ("only urgent = half the bytes", "100 GB"),
    ]
    assert cells[1][1] == "all bands twice as wide"
    assert "disk_band" not in table
    assert "[solver] alternatives_brokers" in page(full())


@pytest.mark.parametrize(("bytes_", "is_shown"), [((100, 100), False), ((100, 102), True), ((), False)])
def test_a_flat_curve_says_nothing(bytes_: tuple[int, ...], is_shown: bool) -> None:
    """Its points are shown if their bytes differ by more than one percent."""
    rows = [CurveRow(10 - n, size * GB, 0.0) for n, size in enumerate(bytes_)]
    assert ("Fewer copies for more bytes" in page(replace(full(), curve=rows))) == is_shown


def test_the_page_has_dates_and_no_ages() -> None:
    """The job has no clock: the script compares the date with that of the reader."""
    text = page(full())
    until = '<time data-until datetime="1970-01-02T00:00:00Z">1970-01-02 00:00 UTC</time>'
    assert f"Approve it and start its first wave before {until}" in text
    assert page(full()) == text


@pytest.mark.parametrize("names", [(), ("runbook.md",), ("runbook.md", "rollback-01.json", "moves.csv")])
def test_links_are_files_that_exist(names: tuple[str, ...]) -> None:
    """A part of a rollback is linked where there is no whole one."""
    links = re.findall(r'<a href="([^#".][^"]*)">', page(full(), *names))
    assert links == list(names)


def test_an_unknown_disk_capacity_is_to_do_first() -> None:
    """Nothing checks that copies fit: also if every request is reached. Unknown rates are only to know."""
    base = full(findings=[], moves=synthetic(12).moves)
    quiet = replace(base, waves=[replace(row, below_floor=False) for row in base.waves], brokers=_kept(base))
    rows = planned(
        finding("no_disk_capacity", "c", "both", amount=2.0, limit=12.0), finding("no_rates", "c", "both")
    ).findings
    text = page(replace(quiet, findings=rows))
    assert state(text) == "amber"
    assert (
        "<b>The disk capacity of 10 of 12 brokers</b> is unknown: waves start, and nothing checks that copies fit."
        in text
    )
    assert "<b>No partition has a rate:</b> times do not include live traffic" in text
    assert "more finding" not in text
    assert state(page(replace(quiet, findings=rows, moves=[]))) == "green"


def test_the_notes_count_findings_and_name_the_worst_input() -> None:
    """Sixty similar findings are one line of the section and sixty in the note; input is named in the order of the
    section."""
    doubts = [
        {"rule": "r", "standing": standing, "subject": standing, "detail": "d", "remedy": "", "rows": 1}
        for standing in ("broken", "contradicts")
    ]
    similar = [finding("not_emptied", f"t-{n}", "after") for n in range(60)]
    base = full(input_findings=rows_of(InputFindingRow, *doubts), findings=planned(*similar).findings)
    text = page(replace(base, waves=[replace(row, below_floor=False) for row in base.waves]))
    assert "<b>60 more findings</b> stay open." in text
    assert "<b>2 findings about the input:</b> contradicts: d." in text
    assert "Left broken, and doubtful input (62)" in text


@pytest.mark.parametrize("name", ["report", "answer", "fleet", "nights", "quality", "site"])
def test_a_page_without_its_style_is_readable(name: str) -> None:
    """Every drawing has a height of its own: a strict policy without report.css must not make it a large black box."""
    drawn = re.findall(r"<svg[^>]*>", text_of(f"{name}.html.j2"))
    assert [tag for tag in drawn if " height=" not in tag] == []


def test_printing_opens_what_is_folded() -> None:
    """Except the long lists: with a script, and by the style alone."""
    assert 'addEventListener("beforeprint"' in page(full())
    assert "details:not(.folded)::details-content" in style()


def test_what_decides_the_time_is_on_the_first_screen() -> None:
    """The busiest broker, its share of the bytes and its time."""
    text = page(full())
    assert "Broker 11 receives 15 % of the bytes: 22 h 00 min." in text
    assert "of the bytes:" not in page(replace(full(), broker_waves=[]))


def test_missed_goals_come_first_and_no_tick_is_green_in_red() -> None:
    """The reader sees first why the page is red."""
    text = page(full())
    goals = re.findall(r'<li><b class="(good|bad)">', text)
    assert goals == sorted(goals)
    assert {*goals} == {"good", "bad"}
    assert ".red .good { color: inherit; }" in style()
