"""Waves inside brokers on every page: with other waves, and in a plan that changes nothing else."""

import csv
import html
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from optimizer.emit.calendar import calendar, night_count
from optimizer.emit.cards import cards
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.decision import decision_of
from optimizer.emit.documents import documents
from optimizer.emit.figure_table import BY_NAME
from optimizer.emit.fleet_page import ClusterResult, fleet_page
from optimizer.emit.goals import goals, verdict
from optimizer.emit.inside_sentences import directories_in_words, moves_in_words
from optimizer.emit.proofs import proof, proof_in_short
from optimizer.emit.report.movement import inside_by_broker, largest_inside, wave_lines
from optimizer.emit.requested import Requested
from optimizer.emit.rows import FindingRow
from optimizer.emit.runbook import steps
from optimizer.emit.shown_figures import lines
from optimizer.emit.summary import execution
from tests.emit.inside import FIGURES, GB, mixed, move, only_inside, with_inside
from tests.emit.rows import rows_of
from tests.emit.test_decision import in_nights
from tests.emit.test_findings import finding
from tests.emit.test_pages import synthetic
from tests.emit.texts import report_of, runbook_of, summary_of

MOVES = "3 replicas move to other log directories of their brokers (60.0 GB), in"
PAGES = ("report.html", "summary.txt", "runbook.md")


def texts_of(plan: ClusterPlan) -> dict[str, str]:
    """All documents by path in the cluster's folder."""
    return {document.path.removeprefix("c/"): document.content for document in documents(plan)}


def in_one_line(text: str) -> str:
    """Without line ends and HTML entities."""
    return " ".join(html.unescape(text).split())


def with_figures(plan: ClusterPlan, **after: float | None) -> ClusterPlan:
    """The plan with other figures after it."""
    rows = [replace(row, after=after[row.figure]) if row.figure in after else row for row in plan.summary]
    return replace(plan, summary=rows)


def test_a_plan_inside_brokers_has_its_documents_only() -> None:
    """No reassignment of the whole plan, no election; the sums and the manifest have all that is executed."""
    texts = texts_of(only_inside())
    names = {path.rpartition("/")[2] for path in texts}
    assert names.isdisjoint({"reassignment.json", "rollback.json", "moves.csv", "topics-to-move.json"})
    assert not [path for path in texts if "election" in path]
    for wave in ("wave-01", "wave-02"):
        assert {f"{wave}/dir-moves.json", f"{wave}/rollback-dir-moves.json", f"{wave}/throttle.json"} <= texts.keys()
    manifest = json.loads(texts["manifest.json"])
    assert manifest["dir_move_waves"] == [1, 2]
    assert manifest["topic_ids"] == {"in": "id-in", "out": "id-out"}
    executed = {path for path in texts if path.startswith("wave-")}
    assert manifest["sha256"].keys() == executed
    assert {line.split("  ")[1] for line in texts["SHA256SUMS"].splitlines()} == executed


def test_a_document_names_directories_of_replicas_that_move() -> None:
    """The replicas of a partition keep their order; one that stays has no name; a rollback names the old directory."""
    texts = texts_of(mixed())
    for name, path in (("dir-moves.json", "/b"), ("rollback-dir-moves.json", "/a")):
        [entry] = json.loads(texts[f"wave-04/{name}"])["partitions"]
        assert (entry["topic"], entry["replicas"], entry["log_dirs"]) == ("in", [1, 2, 3], [path, "any", path])
    assert "wave-04/reassignment.json" not in texts
    assert "wave-03/dir-moves.json" not in texts
    assert {"in", "out"} <= json.loads(texts["manifest.json"])["topic_ids"].keys()


def test_every_page_says_what_moves_inside_and_what_is_proven() -> None:
    """How many replicas and bytes, in which waves, the bound, and the directories before and after."""
    for plan, waves in ((only_inside(), "wave-01 to wave-02"), (mixed(), "wave-04 to wave-05")):
        texts = texts_of(plan)
        for name in PAGES:
            page = in_one_line(texts[name])
            for text in (
                f"{MOVES} {waves}",
                "at least 50.0 GB must move inside brokers (proven). This plan moves at most 20 % more.",
                "Log directories outside their bands: 2 before, 0 after. Fullest log directory: 90 % of its capacity "
                "before, 60 % after.",
                "inside brokers",
            ):
                assert text in page, (name, text)


def test_a_plan_inside_brokers_copies_nothing_between_them() -> None:
    """Its verdict and title say what it does; it may be approved."""
    plan = replace(only_inside(), throttles_found=[], sources=synthetic(3).sources)
    decision = decision_of(plan)
    assert decision.verdict.state == "amber"  # no capture time
    assert decision.verdict.sentence == (
        f"No replica changes its broker. {MOVES} wave-01 to wave-02, 3 h 53 min to 5 h 00 min of copying. At "
        "most 20 % over the least possible inside brokers for these bands of log directories (proven)."
    )
    assert decision.title.startswith("c: 60.0 GB inside brokers, 2 waves, ")
    texts = texts_of(plan)
    assert f"<title>{decision.title}, run r</title>" in texts["report.html"]
    assert "./ballast approve" in texts["report.html"]
    for name in PAGES:
        assert "Copies 0 B" not in texts[name]
        assert "Nothing is copied." not in texts[name]
    assert decision_of(mixed()).title.startswith("c: 300 GB and 60.0 GB inside brokers, 5 waves, ")


def test_a_plan_without_moves_inside_says_nothing_about_them() -> None:
    """No page has a word, and the figures are hidden."""
    texts = texts_of(synthetic(3))
    for name in (*PAGES, "decision.json", "manifest.json"):
        assert "nside brokers" not in texts[name]
        assert "dir_move" not in texts[name]
    assert "band, GB" not in texts["report.html"]


def test_rates_of_both_kinds_of_waves_are_named() -> None:
    """The rate of copies between brokers is not that of the copies inside, and the bound counts its own waves."""
    assert execution(only_inside()) == (
        "2 waves, 3 h 53 min to 5 h 00 min of copying. All copies are inside brokers, at up to 4.00 MB/s per broker."
    )
    text = execution(with_inside(synthetic(12), {**FIGURES, "waves_over_bound": (None, 1.1)}))
    assert "1.10x the proven minimum for 3 waves between brokers" in text
    assert "at up to 50.0 MB/s per broker and direction (throttle up to 53.0 MB/s, live replication" in text
    assert text.endswith(" Waves inside brokers: wave-04 to wave-05, at up to 4.00 MB/s per broker.")
    plan = mixed()
    idle = [row if row.inside_brokers else replace(row, throttle_bytes_per_s=0) for row in plan.waves]
    assert "nothing is copied between brokers. Waves inside" in execution(replace(plan, waves=idle))
    assert execution(replace(plan, waves=plan.waves[:4])).endswith(
        "Wave inside brokers: wave-04, at up to 4.00 MB/s per broker."
    )
    one = replace(only_inside(), waves=only_inside().waves[:1], dir_moves=only_inside().dir_moves[:1])
    assert moves_in_words(one) == "1 replica moves to another log directory of its broker (30.0 GB), in wave-01"


@pytest.mark.parametrize(
    ("bound", "long", "short"),
    [
        (None, "No lower bound was computed for copies inside brokers.", "No lower bound was computed"),
        (60 * GB, "(proven). This plan moves no more.", "No plan moves less inside brokers for these bands"),
        (0, "at least 0 B must move inside brokers (proven).", "No lower bound was computed"),
        (60 * GB - 1, "moves at most 0.00100 % more.", "At most 0.00100 % over the least possible"),
    ],
)
def test_the_bound_is_shown_as_far_as_it_is_known(bound: float | None, long: str, short: str) -> None:
    """Without a bound, at the bound, and close to it."""
    plan = with_figures(only_inside(), dir_bound_bytes=bound)
    assert long in proof(plan)
    assert short in proof_in_short(plan)


def test_figures_have_their_lines() -> None:
    """The bound is only in a sentence; the others are in the comparison."""
    shown = {line.label: (line.before, line.after) for line in lines(only_inside())}
    assert shown["dir_moves"] == ("-", "3")
    assert shown["dir_moved_bytes"] == ("-", "60.0 GB")
    assert shown["dirs_outside_bands"] == ("2", "0")
    assert "dir_bound_bytes" not in shown
    assert BY_NAME["dir_moves"].label == "Replicas moved inside brokers"


@pytest.mark.parametrize(
    ("before", "after", "detail"),
    [
        (2.0, 0.0, "no log directory outside its band, 2 before"),
        (2.0, 1.0, "1 log directory outside its band or limit, 2 before"),
        (5.0, 2.0, "2 log directories outside their bands or limits, 5 before"),
    ],
)
def test_directories_are_a_goal_if_requested(before: float, after: float, detail: str) -> None:
    """It is reached if no directory is outside its band. Brokers that cannot be balanced are counted."""
    plan = with_inside(synthetic(12), {"dirs_outside_bands": (before, after)})
    [goal] = [goal for goal in goals(plan) if goal.name == "directories"]
    assert (goal.is_reached, goal.detail) == (not after, detail)
    code = "dirs_not_balanced"
    found = rows_of(FindingRow, *(finding(code, f"broker {b} log directories", broker_id=b) for b in (1, 2)))
    [goal] = [goal for goal in goals(replace(plan, findings=found)) if goal.name == "directories"]
    assert goal.detail == f"{detail}; 2 brokers are not balanced inside"
    without = with_inside(synthetic(12), {"dirs_outside_bands": (None, None)})
    assert "directories" not in [goal.name for goal in goals(without)]
    assert directories_in_words(without) == ""


def test_only_directories_is_the_only_goal() -> None:
    """The verdict says so; without brokers that have several directories there is nothing to do."""
    plan = only_inside()
    assert [goal.name for goal in goals(plan)] == ["directories"]
    assert verdict(plan) == "The plan reaches all goals (only log directories are balanced)."
    nothing = replace(synthetic(3), requested=Requested(only="dirs"))
    assert [(goal.name, goal.detail) for goal in goals(nothing)] == [
        ("directories", "no broker has log directories to balance")
    ]
    code = finding("dirs_not_balanced", "broker 1 log directories", broker_id=1)
    [goal] = goals(replace(nothing, findings=rows_of(FindingRow, code)))
    assert (goal.is_reached, goal.detail) == (False, "1 broker is not balanced inside")


def commands(plan: ClusterPlan) -> list[str]:
    """The commands of the runbook, without the address."""
    found = [line for line in runbook_of(plan).splitlines() if line.startswith(("kafka-reassign", "sh "))]
    tool = 'kafka-reassign-partitions.sh --bootstrap-server "$BOOTSTRAP" '
    return [line.replace(tool, "").replace("--reassignment-json-file ", "") for line in found]


CAREFUL = [
    "--list",
    'sh "$WAVE/throttle-careful.sh" &&',
    '"$WAVE/dir-moves.json" --execute',
    '"$WAVE/dir-moves.json" --verify --preserve-throttles',
    'sh "$WAVE/unthrottle-careful.sh"',
    'sh "$WAVE/throttle-careful.sh" &&',
    '"$WAVE/rollback-dir-moves.json" --execute',
    '"$WAVE/rollback-dir-moves.json" --verify --preserve-throttles',
]
KAFKA = [
    "--list",
    '"$WAVE/dir-moves.json" --execute --replica-alter-log-dirs-throttle "$RATE"',
    '"$WAVE/dir-moves.json" --verify --preserve-throttles',
    'sh "$WAVE/unthrottle-kafka.sh"',
    '"$WAVE/rollback-dir-moves.json" --execute --replica-alter-log-dirs-throttle "$RATE"',
    '"$WAVE/rollback-dir-moves.json" --verify --preserve-throttles',
]


@pytest.mark.parametrize(("style", "expected"), [("careful", CAREFUL), ("kafka", KAFKA)])
def test_the_runbook_of_a_plan_inside_brokers_has_no_other_command(style: str, expected: list[str]) -> None:
    """In the order in which a person runs them; with the exit codes of the script."""
    plan = only_inside(style=style)
    assert commands(plan) == expected
    text = runbook_of(plan)
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## 1. Before", "## 2. Move replicas inside brokers: wave-01 to wave-02", "## 3. Roll back"]
    assert "WAVE=wave-01\nRATE=4000000\n" in text
    assert f"| wave-02 | 1 | 1 | 10.0 GB | 1 h 57 min to 2 h 30 min | 4000000 | {style}, inside brokers |" in text
    assert "- 4: copies still run." in text
    assert not [word for word in ("leader-election.sh --boot", "reassignment.json", "**Directories.**") if word in text]
    assert text.endswith(f'run `sh "$WAVE/unthrottle-{style}.sh"`.\n')


def test_the_runbook_of_both_kinds_has_a_section_for_each() -> None:
    """Waves inside brokers come after the others and are rolled back before them; the numbers of sections follow."""
    text = runbook_of(mixed())
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "## 1. Before",
        "## 2. Execute one wave after the other: waves between brokers",
        "## 3. Watch",
        "## 4. Verify, and remove the throttles",
        "## 5. Move replicas inside brokers: wave-04 to wave-05",
        "## 6. Switch off empty brokers",
        "## 7. Roll back",
    ]
    assert text.index("WAVE=wave-01") < text.index("WAVE=wave-04")
    assert text.count("- 4: copies still run.") == 1
    assert "`reassignment.json` is all waves between brokers at once." in text
    assert "`rollback.json` in this folder undoes all waves between brokers." in text
    assert "These waves have no `rollback.json`" not in text
    assert "If you executed the other waves by hand, plan again" in text
    rollback = text.split("## 7.")[1]
    assert rollback.index("rollback-dir-moves.json") < rollback.index("--cancel")
    assert [step.form for step in steps(mixed())] == ["careful"] * 5


def test_a_wave_inside_brokers_lacks_no_rollback() -> None:
    """Waves that cannot be rolled back are listed without it."""
    plan = with_inside(synthetic(3, dead=True, partitions=1))
    text = runbook_of(plan)
    assert "they have no other partitions: wave-01." in text
    assert '"$WAVE/rollback.json" --execute' not in text


def test_the_summary_lists_the_files() -> None:
    """The reassignment of the whole plan has no replica that moves inside."""
    text = texts_of(mixed())["summary.txt"]
    assert "  c/reassignment.json  all waves between brokers\n" in text
    assert "  c/rollback.json      undoes all waves between brokers\n" in text
    assert "  c/dir-moves.csv      each copy inside a broker: directories, size, wave\n" in text
    assert max(map(len, text.splitlines())) <= 96
    assert "No lower bound was computed for this plan." not in summary_of(only_inside())


def test_copies_inside_are_a_file_of_their_own() -> None:
    """Sorted by wave, topic, partition and broker; moves.csv keeps its rows."""
    plan = mixed()
    texts = texts_of(replace(plan, dir_moves=plan.dir_moves[::-1]))
    rows = list(csv.DictReader(io.StringIO(texts["dir-moves.csv"])))
    assert [(row["topic"], row["broker"], row["wave"]) for row in rows] == [
        ("in", "1", "4"),
        ("in", "3", "4"),
        ("out", "2", "5"),
    ]
    assert (rows[0]["from_log_dir"], rows[0]["to_log_dir"], rows[0]["size_bytes"]) == ("/a", "/b", str(20 * GB))
    assert texts["moves.csv"] == texts_of(synthetic(12))["moves.csv"]


def test_the_report_shows_bands_waves_and_copies() -> None:
    """The table of directories has the band if there is one, and says which directory is outside."""
    plan = mixed()
    outside = replace(plan.directories[0], after_bytes=61 * GB)
    closed = replace(plan.directories[1], is_open=False, lower_bytes=None, upper_bytes=None)
    page = report_of(replace(plan, directories=[outside, closed]))
    assert '<th scope="col" class="num">band, GB</th>' in page
    assert '<td class="num">40 to 60</td><td>open, outside its band</td>' in page
    assert '<td class="num">-</td><td>failed or cordoned</td>' in page
    assert ", outside its band" not in report_of(plan)
    assert '<th scope="row" class="line">wave-04 <span class="key">inside</span></th>' in page
    assert '<th scope="row" class="line">wave-03</th>' in page
    assert "All 3 replicas that move inside their brokers" in page
    assert '<td class="name">in-0</td><td class="num">30</td><td class="num">3</td><td class="name">/a</td>' in page
    assert [line.name for line in wave_lines(plan)] == [f"wave-0{n}" for n in range(1, 6)]
    alone = report_of(only_inside())
    assert alone.count("Nothing is copied between brokers.") == 2
    assert "No bound was computed for copies between brokers." in alone


def test_the_largest_copies_and_busiest_brokers_come_first() -> None:
    """Of many copies the page has the 1,000 largest, and 12 brokers."""
    plan = mixed()
    assert [row.size_bytes for row in largest_inside(plan)] == [30 * GB, 20 * GB, 10 * GB]
    many = [move("in", number, number % 20, 1, 4) for number in range(2001)]
    assert len(largest_inside(replace(plan, dir_moves=many[:2000]))) == 2000
    assert len(largest_inside(replace(plan, dir_moves=many))) == 1000
    amounts, count = inside_by_broker(replace(plan, dir_moves=many))
    assert (len(amounts), count, amounts[0].name, amounts[0].count) == (12, 20, "0", 101)
    page = report_of(replace(plan, dir_moves=many))
    assert "The 1,000 largest of 2,001 replicas that move inside their brokers; dir-moves.csv has all" in page
    assert "And 8 more brokers." in page


def test_cards_name_directories_and_what_is_undone() -> None:
    """The cards are those of the first screen."""
    alone = {card.label: (card.value, card.remark) for card in cards(only_inside(), [])}
    undo = "rollback-dir-moves.json of 2 waves; copies up to 60.0 GB inside brokers back"
    assert alone["can be undone"] == ("Yes", undo)
    assert alone["between racks"][1].startswith("copies inside brokers cross no rack")
    assert alone["brokers outside bands"][1].endswith("; log directories outside theirs: 2 → 0")
    both = {card.label: (card.value, card.remark) for card in cards(mixed(), [])}
    assert both["can be undone"][1].endswith(f" back; first {undo}")


def test_waves_inside_brokers_are_in_the_calendar() -> None:
    """Each wave has its night."""
    plan = in_nights(mixed())
    assert [line.wave for line in calendar(plan)] == [f"wave-0{n}" for n in range(1, 6)]
    assert night_count(plan) == 2
    assert "2 nights" in decision_of(plan).title


def test_the_page_of_a_run_counts_both() -> None:
    """A cluster whose plan moves replicas inside brokers only does not show 0 B."""
    decision: dict[str, Any] = json.loads(texts_of(only_inside())["decision.json"])
    decision["figures"]["dir_moved_bytes"]["after"] = 60.0 * GB
    result = ClusterResult("c", "planned", None, None, moved_bytes=0, decision=decision, links=[])
    assert '<td class="num plan" data-label="copies">60.0 GB inside brokers</td>' in fleet_page("r", [result])
