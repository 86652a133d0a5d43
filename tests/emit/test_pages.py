"""Pages of plans of any size, without Spark."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer import units
from optimizer.domain import REASONS
from optimizer.emit.cluster_plan import ClusterPlan, wave_folder
from optimizer.emit.documents import documents
from optimizer.emit.requested import Requested
from optimizer.emit.rows import (
    BoundRow,
    BrokerRow,
    FigureRow,
    FindingRow,
    LoadRow,
    MoveRow,
    PlanRow,
    WaveRow,
)
from setup import app_zip
from tests.emit.rows import rows_of
from tests.emit.texts import runbook_of

GB = 10**9
MOST_SCRIPT_BYTES = 3_000


def synthetic(n_brokers: int, *, style: str = "careful", partitions: int = 300, dead: bool = False) -> ClusterPlan:
    """A plan on as many brokers as asked for, loads in a sawtooth, one wave for every hundred partitions."""
    racks = "abc"
    brokers = [
        {
            "broker_id": b, "rack": racks[b % 3], "state": "dead" if dead and b == 0 else "alive",
            "must_empty": b == 0, "accepts_replicas": b != 0,
        }
        for b in range(n_brokers)
    ]  # fmt: skip
    balance = [
        {
            "broker_id": b, "placement": side, "rack": racks[b % 3], "disk_bytes": (90 + b % swing) * GB * (b > 0),
            "replicas": 100 + b % swing, "leaders": 30 + b % swing, "in_bytes_per_s": 10**6 * (b % swing),
            "out_bytes_per_s": 0, "disk_lower_bytes": 85 * GB, "disk_upper_bytes": 105 * GB, "in_band": side == "after",
        }
        for side, swing in (("before", 60), ("baseline", 30), ("after", 10))
        for b in range(n_brokers)
    ]  # fmt: skip
    changed: list[dict[str, Any]] = [
        {
            "topic": "t<1>", "partition": p, "current_replicas": [p % n_brokers], "leader": p % n_brokers,
            "proposed_replicas": [(p + 1) % n_brokers], "baseline_replicas": [], "log_dirs": ["any"],
            "moved_bytes": GB, "reason_codes": ["balance"], "wave": 1 + p // 100, "in_bytes_per_s": 0,
        }
        for p in range(partitions)
    ]  # fmt: skip
    moves = [
        {
            "topic": row["topic"], "partition": row["partition"], "from_broker": row["leader"],
            "to_broker": row["proposed_replicas"][0], "size_bytes": GB, "reason": "balance",
        }
        for row in changed
    ]  # fmt: skip
    waves = [
        {
            "wave": w, "partitions": 100, "replicas_moved": 100, "moved_bytes": 100 * GB, "busiest_broker": 1,
            "busiest_bytes": GB, "throttle_bytes_per_s": 53 * 10**6, "estimated_seconds": 5400, "below_floor": w == 1,
            "peak_disk_bytes": 200 * GB, "least_seconds": 5400, "most_seconds": 5400, "inside_brokers": False,
            "copy_bytes_per_s": 50 * 10**6, "requested_bytes_per_s": 50 * 10**6, "network_left_bytes_per_s": 80 * 10**6,
        }
        for w in range(1, 1 + -(-partitions // 100))
    ]  # fmt: skip
    return ClusterPlan(
        cluster_id="c", run_id="r", throttle_style=style, plan_log_dirs=False, copy_bytes_per_s=50 * 10**6,
        changed=rows_of(PlanRow, *changed), moves=rows_of(MoveRow, *moves), waves=rows_of(WaveRow, *waves),
        throttles=[], balance=rows_of(LoadRow, *balance), summary=[], bounds=[], findings=[], quality=[],
        brokers=rows_of(BrokerRow, *brokers),
    )  # fmt: skip


def page(plan: ClusterPlan, name: str) -> str:
    """One document of a plan."""
    return next(d.content for d in documents(plan) if d.path == f"c/{name}")


@pytest.mark.parametrize(("n_brokers", "most_bytes"), [(3, 75_000), (120, 250_000), (1000, 950_000)])
def test_a_report_stays_small(n_brokers: int, most_bytes: int) -> None:
    """The report of any cluster has a row for every broker and stays under a megabyte."""
    report = page(synthetic(n_brokers), "report.html")
    assert len(report.encode()) < most_bytes
    assert report.count('<circle class="to"') >= n_brokers
    assert "t&lt;1&gt;" in report
    assert "t<1>" not in report


def test_a_rollback_names_no_dead_broker() -> None:
    """Partitions that were on a dead broker are in no rollback, but in a document of their own with the same shape."""
    texts = {d.path.removeprefix("c/"): d.content for d in documents(synthetic(3, dead=True))}
    names = [path for path in texts if "rollback" in path and not path.endswith("rollback-throttle.json")]
    rollbacks = {path: json.loads(texts[path])["partitions"] for path in names}
    assert sorted(rollbacks) == [
        "rollback-not-possible.json",
        "rollback.json",
        *(f"wave-0{w}/rollback.json" for w in (1, 2, 3)),
    ]
    not_reversible = rollbacks.pop("rollback-not-possible.json")
    assert [(p["partition"], p["replicas"]) for p in not_reversible] == [(p, [0]) for p in range(0, 300, 3)]
    assert all(p["replicas"] != [0] for rows in rollbacks.values() for p in rows)
    assert len(rollbacks["rollback.json"]) == sum(len(rollbacks[f"wave-0{w}/rollback.json"]) for w in (1, 2, 3)) == 200
    assert "rollback-not-possible.json" in texts["runbook.md"]
    assert "These waves have no `rollback.json`" not in texts["runbook.md"]


def test_waves_that_cannot_go_back_have_no_rollback() -> None:
    """If all partitions of a wave or plan come from a dead broker, it has no rollback, and the runbook says so."""
    plan = synthetic(3, dead=True, partitions=201)
    rows = [row if row.wave < 3 else replace(row, current_replicas=[0]) for row in plan.changed]
    partial_rollbacks = {d.path: d.content for d in documents(replace(plan, changed=rows))}
    assert "c/wave-02/rollback.json" in partial_rollbacks
    assert "c/wave-03/rollback.json" not in partial_rollbacks
    assert "they have no other partitions: wave-03." in partial_rollbacks["c/runbook.md"]
    none = {d.path: d.content for d in documents(synthetic(3, dead=True, partitions=1))}
    assert [path for path in none if "rollback" in path] == ["c/rollback-not-possible.json"]
    assert "/rollback.json" not in none["c/runbook.md"]
    assert "--cancel" in none["c/runbook.md"]


def test_without_dead_brokers_everything_can_go_back() -> None:
    """No document and no word says that something is not possible."""
    texts = {d.path: d.content for d in documents(synthetic(3))}
    assert "c/rollback-not-possible.json" not in texts
    assert "rollback-not-possible" not in texts["c/runbook.md"]


def test_equal_plans_give_equal_bytes() -> None:
    """Documents are the same when made again, and sorted by path."""
    first, second = documents(synthetic(12)), documents(synthetic(12))
    assert first == second
    assert [d.path for d in first] == sorted(d.path for d in first)


def test_the_tools_own_throttle_is_offered() -> None:
    """With the form kafka the runbook gives the tool's option and the table's rate."""
    text = runbook_of(synthetic(12, style="kafka"))
    assert "RATE=53000000" in text
    assert '--execute --throttle "$RATE"' in text
    assert "throttle-careful.sh\nkafka" not in text


def test_a_dead_broker_overrides_the_tools_throttle() -> None:
    """Waves that name a dead broker are throttled by script, whatever the requested form."""
    text = runbook_of(synthetic(12, style="kafka", dead=True, partitions=100))
    assert 'sh "$WAVE/throttle-careful.sh"' in text
    assert 'reassignment.json" --execute --throttle' not in text


BEST_BOUND = BoundRow(kind="forced", bound_bytes=GB, is_best=True, detail="d")
(LIMITED,) = rows_of(
    FindingRow,
    {
        "rule": "limited", "code": "limited", "subject": "max_moves = 3", "when": "after", "detail": "d",
        "remedy": "run again",
    },
)  # fmt: skip


@pytest.mark.parametrize("name", ["summary.txt", "runbook.md", "report.html"])
def test_the_rate_of_copies_is_not_the_throttle(name: str) -> None:
    """Every page has the copy rate and says that the throttle adds live replication."""
    expected = "at up to 50.0 MB/s per broker and direction (throttle up to 53.0 MB/s, live replication included)."
    assert expected in " ".join(page(synthetic(12), name).split())


@pytest.mark.parametrize("name", ["summary.txt", "runbook.md", "report.html"])
def test_a_throttle_without_rates_holds_no_live_replication(name: str) -> None:
    """If no partition has a rate, live replication is unknown, and the pages do not claim to include it."""
    plan = replace(synthetic(12), findings=[replace(LIMITED, code="no_rates", subject="cluster")])
    text = " ".join(page(plan, name).split())
    assert "(throttle up to 53.0 MB/s, without live replication, which is unknown: add it)." in text
    assert "live replication included)" not in text


@pytest.mark.parametrize(
    ("gap", "expected", "verdict"),
    [
        (0.0, "forced bound). This plan copies no more.", "No plan copies less for this balance (proven)."),
        (0.002, "forced bound). This plan copies at most 0.00200 % more.", "At most 0.00200 % over the least possible"),
        (0.2, "forced bound). This plan copies at most 0.200 % more.", "At most 0.200 % over the least possible"),
    ],
)
def test_no_more_is_said_of_no_more_alone(gap: float, expected: str, verdict: str) -> None:
    """A gap that is not 0 is never shown as 0 %, in the verdict too."""
    rows = {"bound_bytes": GB, "gap_percent": gap}
    summary = [FigureRow(name, "l", before=None, baseline=None, after=value) for name, value in rows.items()]
    plan = replace(synthetic(12), bounds=[BEST_BOUND], summary=summary)
    assert expected in " ".join(page(plan, "summary.txt").split())
    assert verdict in page(plan, "report.html")


@pytest.mark.parametrize(
    ("count", "expected"), [(1, "t-0. Wait until it is done."), (2, "t-0, t-1. Wait until they are done.")]
)
def test_what_is_in_flight_is_waited_for(count: int, expected: str) -> None:
    """The runbook names partitions being reassigned: Kafka executes nothing else meanwhile."""
    rows = [replace(LIMITED, code="not_free", cause="in_flight", subject=f"t-{n}") for n in range(count)]
    assert f"  Being reassigned at the snapshot: {expected}\n" in runbook_of(replace(synthetic(12), findings=rows))


@pytest.mark.parametrize(
    ("findings", "proven", "forced"),
    [
        ([], "Any equally balanced plan copies at least", "or added by a larger replication factor."),
        (
            [LIMITED],
            "Any equally balanced plan that leaves no more undone copies at least",
            "Any plan that leaves no more undone makes the same copies to empty brokers, to meet pins, to repair "
            "racks, or for a larger replication factor.",
        ),
    ],
)
def test_a_cut_plan_claims_no_more_than_is_proven(findings: list[FindingRow], proven: str, forced: str) -> None:
    """The bounds of a limited plan are about plans that leave no more undone, and the pages say so."""
    summary = [FigureRow("bound_bytes", "l", before=None, baseline=None, after=GB)]
    plan = replace(synthetic(12), findings=findings, bounds=[BEST_BOUND], summary=summary)
    pages = {name: " ".join(page(plan, name).split()) for name in ("summary.txt", "runbook.md", "report.html")}
    assert all(proven in text for text in pages.values())
    assert f"{forced}</td>" in pages["report.html"]


def test_the_bound_of_a_plan_that_mends_one_thing_is_of_that() -> None:
    """With ``only = racks`` the bound does not count replicas on brokers to empty."""
    plan = replace(synthetic(12), bounds=[BEST_BOUND], requested=Requested(only="racks"))
    text = " ".join(page(plan, "report.html").split())
    assert "Any plan that does what policy.only requests makes these copies.</td>" in text
    assert "These copies are in every valid plan" not in text


def test_bands_that_are_not_alike_are_explained() -> None:
    """If brokers have different bands, a line says where the highest band ends."""
    plan = synthetic(12)
    unlike = [replace(row, disk_upper_bytes=(105 + 10 * (row.rack == "b")) * GB) for row in plan.balance]
    for name in ("summary.txt", "report.html"):
        assert "The centre of a band is what" not in page(plan, name)
        expected = " ".join(page(replace(plan, balance=unlike), name).split())
        assert "The highest disk band ends at 1.22x the mean." in expected


def test_copies_by_reason_add_up() -> None:
    """A partition that is drained and balanced counts its copies, and their bytes, once each; the most urgent first."""
    move, *_ = synthetic(12).moves
    copies = [replace(move, to_broker=5, reason=reason) for reason in ("balance", "drain", "balance")]
    removed = replace(move, to_broker=None, size_bytes=0, reason="drain")
    report = page(replace(synthetic(12), moves=[*copies, removed]), "report.html")
    rows = re.findall(r'class="name">([^<]+)</th><td class="num">(\d)</td>.*?<td class="num">([^<]+)</td></tr>', report)
    assert rows[:2] == [("empty a broker", "1", "1.00 GB"), ("balance", "2", "2.00 GB")]


def test_reasons_are_told_most_urgent_first() -> None:
    """Each reason that a replica may be copied for has a line, in the order that limits and waves follow."""
    move, *_ = synthetic(12).moves
    copies = [replace(move, to_broker=5, reason=reason) for reason in sorted(REASONS)]
    report = page(replace(synthetic(12), moves=copies), "report.html")
    part = report.partition("Why replicas are copied")[2].partition("</table>")[0]
    words = ["leave a broker that is down", "repair racks", "empty a broker", "meet a pin"]
    words += ["change the replication factor", "balance", "only the order changes"]
    assert re.findall(r'class="name">([^<]+)<', part) == words
    assert len(REASONS) == len(words)


def test_every_file_beside_the_report_is_linked_once() -> None:
    """The box of the approval links the runbook, the whole plan and the rollback; the last link leads to the run."""
    report = page(synthetic(12), "report.html")
    links = re.findall(r'<a href="([^#"]+)">', report)
    assert links == ["runbook.md", "reassignment.json", "rollback.json", "moves.csv", "../index.html"]
    assert {f"c/{link}" for link in links[:-1]} < {document.path for document in documents(synthetic(12))}


def test_every_table_of_the_report_scrolls_by_itself() -> None:
    """On a narrow page no table is cut off."""
    plan = replace(synthetic(12), findings=[LIMITED], bounds=[BEST_BOUND])
    report = page(plan, "report.html")
    assert report.count("<table ") == len(re.findall(r'<div class="scroll" [^>]+><table ', report)) == 9


def test_the_command_of_the_page_approves_this_manifest() -> None:
    """It has the first digits of the digest that an approval names; the next command executes the plan."""
    files = {d.path: d for d in documents(synthetic(12))}
    page = files["c/report.html"].content
    approval = page.index(f"--manifest {files['c/manifest.json'].sha256[:8]}</code></pre>")
    assert approval < page.index(f"<code>{synthetic(12).run_command}</code></pre>")
    book, plan = files["c/runbook.md"].content, synthetic(12)
    assert f"Approve it with `{plan.approve_command}`. Then `{plan.run_command}` does" in book
    assert f"    {plan.approve_command}\n    {plan.run_command}\n" in files["c/summary.txt"].content


def test_the_report_needs_no_other_file() -> None:
    """Its style is inside, and in the style sheet beside it, its only request. No element has a style of its own."""
    report, sheet = page(synthetic(12), "report.html"), page(synthetic(12), "report.css")
    assert f"<style>\n{sheet}</style>" in report
    assert re.findall(r'(?:src|href)="([^#"]+\.(?:css|js|png|svg))"', report) == ["report.css"]
    assert " style=" not in report
    assert "http" not in report
    assert len(report.partition("<script>")[2].partition("</script>")[0].encode()) < MOST_SCRIPT_BYTES


def test_leaders_that_need_no_election_are_counted() -> None:
    """The runbook says how many partitions wait for an election, and why the other new leaders do not."""
    plan = synthetic(12)
    stays = replace(plan.changed[5], current_replicas=[1, 2], proposed_replicas=[2, 1], leader=1)
    text = runbook_of(replace(plan, changed=[*plan.changed[:5], stays]))
    assert "1 partition still has another leader" in text
    assert "5 other new leaders of the plan need no election" in text


def test_an_election_of_an_unchanged_leader_is_told() -> None:
    """A partition whose preferred leader stays, but did not lead, is counted apart: the plan does not change it."""
    plan = synthetic(12)
    elected = replace(plan.changed[5], current_replicas=[2, 1], proposed_replicas=[2, 3, 1], leader=1)
    text = runbook_of(replace(plan, changed=[*plan.changed[:5], elected]))
    assert (
        "than the preferred one (1 of them already had another leader before; its preferred leader does not change):\n"
        in text
    )
    assert "already had another leader" not in runbook_of(plan)


def _left_with(replicas: int) -> str:
    """The runbook of a plan that leaves ``replicas`` on broker 0, which is to be emptied."""
    plan = synthetic(12)
    balance = [replace(row, replicas=replicas) if row.broker_id == 0 else row for row in plan.balance]
    return runbook_of(replace(plan, balance=balance))


def test_emptied_brokers_are_named_with_how_to_switch_them_off() -> None:
    """The runbook names the empty broker, how to check it, and that no rollback is possible once it is off."""
    text = _left_with(0)
    assert "After the last wave, broker 0 holds no replica." in text
    assert "--describe --broker-list 0\n" in text
    assert "`rollback.json` can't be executed" in text
    assert "## 6. Roll back" in text


def test_a_broker_that_keeps_replicas_is_left_on() -> None:
    """If a broker is not empty after the plan, the runbook says how many replicas it still has."""
    text = _left_with(12)
    assert "Broker 0 still holds 12 replicas: keep it running." in text
    assert "--broker-list" not in text


def test_a_low_throttle_is_pointed_out() -> None:
    """The runbook names a wave with a throttle that is too low for Kafka."""
    assert "**wave-01:** the throttle is too low for Kafka" in runbook_of(synthetic(12))


def test_a_plan_too_large_for_one_request_says_so() -> None:
    """A whole plan of more partitions than a controller takes points to the waves."""
    assert "refuses more than 10,000 in one request" in runbook_of(synthetic(12, partitions=10_001))


@pytest.mark.parametrize(("wave", "of", "name"), [(1, 2, "wave-01"), (7, 120, "wave-007"), (120, 120, "wave-120")])
def test_wave_folders_sort(wave: int, of: int, name: str) -> None:
    """Folders of waves sort as their numbers."""
    assert wave_folder(wave, of) == name


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (units.human_bytes(0), "0 B"),
        (units.human_bytes(999), "999 B"),
        (units.human_bytes(1_500_000_000), "1.50 GB"),
        (units.human_bytes(2 * 10**15), "2.00 PB"),
        (units.human_rate(53_000_000), "53.0 MB/s"),
        (units.agree(0, "is", "are"), "are"),
        (units.agree(1, "is", "are"), "is"),
        (units.agree(2, "is", "are"), "are"),
        (units.human_time(20), "20 s"),
        (units.human_time(3599), "1 h 00 min"),
        (units.human_time(48 * 3600), "2 d 0 h"),
        (units.human_time(2**53), "never"),
        (units.human_percent(0.00277), "0.00277 %"),
        (units.human_percent(0), "0 %"),
        (units.human_percent(47.2), "47 %"),
        (units.human_ratio(35.2), "35.2x"),
        (units.human_ratio(350.2), "350x"),
        (units.plural(0, "wave"), "0 waves"),
        (units.plural(1, "wave"), "1 wave"),
        (units.plural(2, "wave"), "2 waves"),
        (units.plural(1200, "wave"), "1,200 waves"),
        (units.clause(1, "wave", "is done", "are done"), "1 wave is done"),
        (units.clause(0, "wave", "is done", "are done"), "0 waves are done"),
    ],
)
def test_figures_read_well(shown: str, text: str) -> None:
    """Figures have decimal units and three significant digits."""
    assert shown == text


def test_templates_are_read_from_a_zip(tmp_path: Path) -> None:
    """The packages as one zip, as executors get them, still find their templates."""
    archive = app_zip.build(folder=tmp_path)
    code = (
        "from optimizer.emit.pages import render; import optimizer; print(optimizer.__file__); render('runbook.md.j2')"
    )
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert str(archive) in done.stdout
    assert "UndefinedError: 'plan' is undefined" in done.stderr
