"""``./ballast approve --by-rules`` on warehouses: what is approved, what is stored, and who is asked instead."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from execution import journal
from execution.by_rules import moved_before
from execution.cli import main
from execution.planned import load
from stored.tables import Overtaken, Warehouse
from tests.execution import rows
from tests.execution.decisions import GB, decision, figure
from tests.execution.test_cli import Ended
from tests.execution.test_runs import end
from tests.execution.warehouse import CLUSTER, RUN, add_waves, usual_plan, write_plan

RULES = "[approval]\nmost_moved_bytes = 500e9\n"
Config = Callable[[str], str]


class Site:
    """Commands on one warehouse with a configuration."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.warehouse = Warehouse(str(folder / "w"))
        self.write(RULES)

    def write(self, text: str) -> None:
        """Replace the configuration."""
        (self.folder / "site.toml").write_text(text)

    def plan(self, run_id: str = RUN, **changes: Any) -> None:
        """Store a plan with a decision, and its waves: a third of its bytes each, and one inside brokers."""
        made = decision(**changes)
        write_plan(self.folder / "w", usual_plan(), run_id=run_id, decision=made)
        moved = int(made["figures"]["moved_bytes"]["after"] / 3)
        add_waves(self.warehouse, run_id, CLUSTER, 3, moved_bytes=moved, most_seconds=7200)

    def run(self, command: str, *words: str) -> Ended:
        """Run a command."""
        config = ("--config", f"{self.folder}/site.toml", "--warehouse", self.warehouse.path)
        code = main([command, *words, *config])
        return Ended(code, *self._capsys.readouterr())

    def approve(self, *words: str) -> Ended:
        """Approve by rules."""
        return self.run("approve", "--by-rules", *words)

    def approvals(self, run_id: str = RUN) -> list[dict[str, Any]]:
        """The rows of a run in table ``approvals``."""
        return self.warehouse.rows("approvals", run_id=run_id)


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    """A site with one plan of 298 GB and a limit of 500 GB."""
    site = Site(tmp_path, capsys)
    site.plan()
    return site


KEY = ("--run-id", RUN, "--cluster", CLUSTER)
MOVED_298 = "moves 298 GB, the limit is 500 GB"
REFUSED_298 = "moves 298 GB, the limit is 1.00 GB"


def test_a_plan_within_the_rules_is_approved(site: Site) -> None:
    """The approval names the rules by their hash, and keeps rules and figures; show prints them years later."""
    ended = site.approve(*KEY)
    (row,) = site.approvals()
    assert ended.code == 0
    assert ended.out.startswith(
        f"Approved by {row['approved_by']}: run r, cluster c, manifest {row['manifest_sha256'][:8]}"
    )
    assert row["approved_by"].startswith("rules ")
    assert len(row["approved_by"]) == len("rules ") + 8
    assert json.loads(row["rules"]) == {
        "rules": {"most_moved_bytes": 500e9, "may": ["balance", "racks"]},
        "figures": {"most_moved_bytes": 298e9},
    }
    site.write("")
    shown = site.run("show", "--run-id", RUN).out
    assert f"  approved by {row['approved_by']}\n    {MOVED_298}\n    may = balance, racks\n" in shown
    load(site.warehouse, cluster_id=CLUSTER, run_id=RUN).check_approved()


def test_a_plan_against_the_rules_is_not_approved(site: Site) -> None:
    """A line for each rule, exit code 3, and nothing is stored; other rules have another hash."""
    site.write(f"{RULES}most_leader_changes = 3\n")
    site.plan("s", requests=["drain"])
    ended = site.approve("--run-id", "s", "--cluster", CLUSTER)
    assert ended == Ended(
        3,
        "c: not approved: the policy requests drain, the rules may approve balance and racks\n"
        "c: not approved: changes 12 preferred leaders, the limit is 3\n",
        "",
    )
    assert site.approvals("s") == []


def test_json_is_for_schedulers(site: Site) -> None:
    """One line and exit code 0, whatever the rules say."""
    site.write("[approval]\nmost_moved_bytes = 1e9\n")
    refused = site.approve(*KEY, "--json")
    assert refused.code == 0
    assert json.loads(refused.out) == {
        "run_id": "r",
        "cluster_id": "c",
        "approved": False,
        "text": "",
        "reasons": [REFUSED_298],
    }
    assert site.approvals() == []
    site.write(RULES)
    assert json.loads(site.approve(*KEY, "--json").out)["approved"] is True
    assert len(site.approvals()) == 1


def test_a_dry_run_stores_nothing(site: Site) -> None:
    """It answers as the command would."""
    dry = site.approve(*KEY, "--dry-run")
    assert (dry.code, site.approvals()) == (0, [])
    assert dry.out.startswith("c: run r would be approved by rules ")
    site.write("[approval]\nmost_moved_bytes = 1e9\n")
    assert site.approve(*KEY, "--dry-run") == Ended(3, f"c: not approved: {REFUSED_298}\n", "")


@pytest.mark.parametrize(
    ("config", "words", "problem"),
    [
        ("", KEY, "has no section [approval]: add it with at least one limit, or approve by hand"),
        ("[approval]\n", KEY, "[approval] = {} is not usable: give at least one limit"),
        ("[approval]\nmost_moved = 3\n", KEY, "[approval]: unknown 'most_moved' (did you mean 'most_moved_bytes'?)"),
        (
            f'[[clusters]]\nid = "orders"\ninput = "x"\n{RULES}[[approval.clusters]]\nid = "order"\n',
            KEY,
            "[[approval.clusters]] id = ['order'] is not usable: use ids of [[clusters]] (did you mean 'orders'?)",
        ),
        (RULES, (*KEY, "--by", "ann"), "--by 'ann' names a person: leave out --by or --by-rules"),
        (RULES, ("--json",), "--json is about one cluster: name it with --cluster ID"),
        (RULES, ("--manifest", "0" * 8), "--manifest is about one cluster: name it with --cluster ID"),
    ],
)
def test_wrong_configurations_and_options_are_usage_errors(
    site: Site, config: str, words: Sequence[str], problem: str
) -> None:
    """Exit code 2, and nothing is approved."""
    site.write(config)
    ended = site.approve(*words)
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert site.warehouse.rows("approvals") == []


def test_options_of_the_rules_need_the_rules(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand, approve knows neither --dry-run nor --json; without --config there are no rules."""
    ended = site.run("approve", *KEY, "--dry-run", "--json")
    assert (ended.code, "--dry-run needs --by-rules" in ended.err, "--json needs" in ended.err) == (2, True, True)
    assert main(["approve", "--by-rules", *KEY, "--warehouse", site.warehouse.path]) == 2
    assert "--by-rules reads [approval] of the configuration: give --config FILE" in capsys.readouterr().err


def test_every_cluster_of_the_newest_run_is_judged(site: Site) -> None:
    """3 if one is not approved. A quiet cluster has one line; its run, too, ends with 0."""
    site.plan("n2", requests=["racks"])
    end(site.warehouse, "n2", a="nothing_to_do", b="refused", c="planned")
    latest = DeltaTable(f"{site.warehouse.path}/verdicts")
    latest.delete("run_id = 'n2' AND manifest_sha256 = 'n2 1'")
    ended = site.approve()
    assert (ended.code, len(site.approvals("n2")), site.approvals()) == (3, 1, [])
    quiet, refused, *_ = ended.out.splitlines()
    assert quiet == "a: nothing to do"
    assert refused == "b: not approved: run 'n2' has no plan for cluster 'b', its verdict is refused"
    assert site.approve("--cluster", "a") == Ended(0, "a: nothing to do\n", "")
    assert site.run("run", "--run-id", "n2", "--cluster", "a") == Ended(0, "a: nothing to do\n", "")


def test_an_approval_is_not_repeated(site: Site) -> None:
    """The second command finds the first one's approval, or that of a person."""
    site.approve(*KEY)
    (row,) = site.approvals()
    again = site.approve(*KEY)
    assert again == Ended(0, f"c: run r is already approved by {row['approved_by']}\n", "")
    assert len(site.approvals()) == 1


def test_rules_do_not_approve_what_a_person_revoked(site: Site) -> None:
    """A revocation works as ever; only a person approves the plan again."""
    site.approve(*KEY)
    assert site.run("revoke", *KEY, "--by", "ann").code == 0
    ended = site.approve(*KEY)
    assert (ended.code, ended.out.startswith("c: not approved: ann revoked the approval of this plan at ")) == (3, True)
    assert site.run("approve", *KEY, "--by", "bob").code == 0
    assert "    may" not in site.run("show", "--run-id", RUN).out


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ({"content": "content || ' '"}, "decision.json differs from the manifest"),
        ({"kind": "'gone'"}, "decision.json differs from the manifest"),
    ],
)
def test_rules_read_only_the_signed_decision(site: Site, update: dict[str, str], reason: str) -> None:
    """A changed or missing file is not read."""
    DeltaTable(f"{site.warehouse.path}/documents").update(updates=update, predicate="kind = 'decision'")
    ended = site.approve(*KEY)
    assert (ended.code, reason in ended.out, site.approvals()) == (3, True, [])


def test_plans_of_earlier_releases_need_a_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their manifest names no decision."""
    site = Site(tmp_path, capsys)
    write_plan(tmp_path / "w", usual_plan())
    ended = site.approve(*KEY)
    assert ended == Ended(
        3, "c: not approved: a release without rules made the plan: plan again, or approve it by hand\n", ""
    )


def test_an_expired_plan_is_not_approved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is next to those of the rules."""
    site = Site(tmp_path, capsys)
    site.write("[approval]\nmost_moved_bytes = 1e9\n")
    write_plan(tmp_path / "w", replace(usual_plan(), valid_hours=1.0), decision=decision())
    expired, exceeded = site.approve(*KEY).out.splitlines()
    assert "expired at 2026-11-01 01:00 UTC" in expired
    assert exceeded == f"c: not approved: {REFUSED_298}"


def test_a_plan_that_was_made_again_is_not_approved(site: Site) -> None:
    """A scheduler approves the manifest that it has seen."""
    assert site.approve(*KEY, "--manifest", "0" * 8).code == 3
    sha256 = load(site.warehouse, cluster_id=CLUSTER, run_id=RUN).manifest_sha256
    assert site.approve(*KEY, "--manifest", sha256).code == 0


WEEK = "[approval]\nmost_bytes_per_week = 500e9\n"


def test_two_plans_of_one_night_are_added_up(site: Site) -> None:
    """The second is refused: the first is approved and may still be executed. So it is if a person approved."""
    site.write(WEEK)
    site.plan("s")
    assert site.approve(*KEY).code == 0
    other = ("--run-id", "s", "--cluster", CLUSTER)
    line = "c: not approved: with it the cluster moves 596 GB in 7 days, the limit is 500 GB\n"
    assert site.approve(*other) == Ended(3, line, "")
    site.run("revoke", *KEY)
    assert site.run("approve", *KEY, "--by", "ann").code == 0
    site.write("[approval]\nmost_bytes_per_week = 501e9\n")
    assert site.approve(*other).code == 3
    site.run("revoke", *KEY)
    assert site.approve(*other).code == 0


def test_sums_have_started_and_waiting_waves(site: Site) -> None:
    """A wave counts from its start for 7 or 30 days, and its rollback as well. Waves inside brokers copy elsewhere.

    A plan that has begun goes on although it has expired, until another run starts a wave or its waves are taken back;
    then only the started waves count. Of another cluster nothing counts.
    """
    third = 298 * GB // 3
    site.plan("s")
    plan = load(site.warehouse, cluster_id=CLUSTER, run_id="s")
    now = datetime.now(tz=UTC)

    def moved(days_later: float = 0) -> list[float]:
        sums = moved_before(site.warehouse, plan, now + timedelta(days=days_later), (7, 30))
        return [round(sums[days] / third, 6) for days in (7, 30)]

    assert moved() == [0, 0]
    earlier = load(site.warehouse, cluster_id=CLUSTER, run_id=RUN)
    rows.record(site.warehouse, earlier, 1, journal.EXECUTED)
    rows.record(site.warehouse, earlier, 1, journal.RELEASED)
    assert moved() == [1, 1]
    assert moved(-1) == [1, 1]  # the clock of another machine is ahead
    site.approve(*KEY)
    assert moved() == [3, 3]
    assert moved(10) == [2, 3]
    assert moved(40) == [2, 2]
    rows.record(site.warehouse, earlier, 2, journal.HELD)
    rows.record(site.warehouse, earlier, 2, journal.RELEASED)  # it has copied nothing
    assert moved() == [3, 3]
    until = DeltaTable(f"{site.warehouse.path}/verdicts")
    until.update(new_values={"valid_until": now - timedelta(days=1)}, predicate="run_id = 'r'")
    assert moved() == [3, 3]
    rows.record(site.warehouse, earlier, -1, journal.HELD)
    rows.record(site.warehouse, earlier, -1, journal.EXECUTED)
    rows.record(site.warehouse, earlier, -1, journal.RELEASED)
    assert moved() == [2, 2]
    DeltaTable(f"{site.warehouse.path}/waves").update(updates={"inside_brokers": "true"}, predicate="wave = 1")
    assert moved() == [0, 0]
    end(site.warehouse, "n2", d="planned")
    other = replace(earlier, cluster_id="d")
    assert moved_before(site.warehouse, other, now, (7, 30)) == {7: 0, 30: 0}


def test_a_plan_that_has_begun_counts_until_another_run_starts(site: Site) -> None:
    """From the last start of each wave. A plan that never expires counts for the days after its approval."""
    third, now = 298 * GB // 3, datetime.now(tz=UTC)
    site.plan("s")
    site.plan("u")
    judged, other = (load(site.warehouse, cluster_id=CLUSTER, run_id=run_id) for run_id in ("u", "s"))
    earlier = load(site.warehouse, cluster_id=CLUSTER, run_id=RUN)

    def moved(days_later: float) -> list[float]:
        sums = moved_before(site.warehouse, judged, now + timedelta(days=days_later), (7, 30))
        return [round(sums[days] / third, 6) for days in (7, 30)]

    site.approve(*KEY)
    verdicts = DeltaTable(f"{site.warehouse.path}/verdicts")
    verdicts.update(updates={"valid_until": "null"}, predicate="run_id = 'r'")
    assert [moved(days) for days in (1, 10, 40)] == [[3, 3], [0, 3], [0, 0]]
    rows.record(site.warehouse, earlier, 1, journal.HELD)
    rows.record(site.warehouse, earlier, 1, journal.EXECUTED)
    assert moved(40) == [2, 2], "a wave that holds the cluster ends, and the next one begins"
    executions = DeltaTable(f"{site.warehouse.path}/executions")
    executions.update(new_values={"happened_at": now - timedelta(days=10)})
    rows.record(site.warehouse, earlier, 1, journal.STARTING)
    rows.record(site.warehouse, earlier, 1, journal.EXECUTED)
    rows.record(site.warehouse, earlier, 1, journal.RELEASED)
    assert moved(5) == [3, 3]
    verdicts.update_incremental()
    verdicts.update(new_values={"valid_until": now - timedelta(days=1)}, predicate="run_id = 'r'")
    assert moved(5) == [3, 3]
    assert moved_before(site.warehouse, earlier, now, (7, 30)) == {7: 0, 30: 0}, "its own bytes are added later"
    rows.record(site.warehouse, other, 1, journal.STARTING)
    assert moved(5) == [2, 2]


@pytest.mark.parametrize(("config", "reads"), [(RULES, 0), (WEEK, 1)])
def test_sums_are_read_once_if_a_rule_needs_them(
    site: Site, monkeypatch: pytest.MonkeyPatch, config: str, reads: int
) -> None:
    """Whatever the number of runs and waves: the tables grow for years."""
    for run_id in ("s", "u"):
        site.plan(run_id)
    site.write(config)
    names, table = [], Warehouse.table

    def counted(self: Warehouse, name: str, **options: Any) -> Any:
        names.append(name)
        return table(self, name, **options)

    monkeypatch.setattr(Warehouse, "table", counted)
    assert site.approve(*KEY, "--dry-run").code == 0
    assert names.count("waves") == reads


def test_approvals_at_the_same_time_are_seen(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process writes the table, the rules are read again with the new sums; after ten times it fails."""
    site.write(WEEK)
    site.plan("s")
    append, calls = Warehouse.append, []

    def overtaken(self: Warehouse, table: str, *words: Any, **options: Any) -> None:
        calls.append(table)
        if len(calls) == 1:
            monkeypatch.setattr(Warehouse, "append", append)
            assert main([*("approve", "--warehouse", self.path, "--by", "ann"), *KEY]) == 0
        append(self, table, *words, **options)

    monkeypatch.setattr(Warehouse, "append", overtaken)
    ended = site.approve("--run-id", "s", "--cluster", CLUSTER)
    assert (ended.code, "moves 596 GB" in ended.out, site.approvals("s")) == (3, True, [])

    def always(*_: Any, **__: Any) -> None:
        raise Overtaken("again")

    site.run("revoke", *KEY)
    monkeypatch.setattr(Warehouse, "append", always)
    ended = site.approve("--run-id", "s", "--cluster", CLUSTER)
    assert (ended.code, "wrote table approvals" in ended.err) == (1, True)


def test_rules_of_one_cluster_decide_about_it(site: Site) -> None:
    """Its own limit replaces that of all clusters."""
    site.write(f'{RULES}[[approval.clusters]]\nid = "c"\nmost_moved_bytes = 1e9\n')
    assert site.approve(*KEY) == Ended(3, f"c: not approved: {REFUSED_298}\n", "")


def test_a_cluster_without_a_limit_is_not_approved(site: Site) -> None:
    """Limits of another cluster are not its own, and requests and notes alone approve nothing."""
    site.write(
        '[approval]\nmay = ["balance", "racks"]\n[[approval.clusters]]\nid = "orders"\nmost_moved_bytes = 1e12\n'
    )
    line = "c: not approved: [approval] has no limit for this cluster: add one, or approve the plan by hand\n"
    assert (site.approve(*KEY), site.approvals()) == (Ended(3, line, ""), [])


def test_a_week_of_nights_is_approved_until_a_rule_says_no(site: Site) -> None:
    """Rules may change between nights: sums span both, and each approval keeps the rules that it was made by."""
    site.write("[approval]\nmost_bytes_per_week = 900e9\n")
    nights = [site.approve(*KEY).code]
    for night in ("n2", "n3", "n4"):
        site.plan(night)
        if night == "n4":
            site.write("[approval]\nmost_bytes_per_week = 2e12\nmost_leader_changes = 20\n")
        nights.append(site.approve("--cluster", CLUSTER).code)
        if night == "n3":
            site.plan("n3b", figures={"moved_bytes": figure(1.0 * GB)})
            nights.append(site.approve("--run-id", "n3b", "--cluster", CLUSTER).code)
    assert nights == [0, 0, 0, 0, 0]
    site.plan("n5", figures={"leader_changes": figure(21.0)})
    assert site.approve("--cluster", CLUSTER) == Ended(
        3, "c: not approved: changes 21 preferred leaders, the limit is 20\n", ""
    )
    kept = [
        json.loads(row["rules"])["rules"]["most_bytes_per_week"]
        for night in (RUN, "n4")
        for row in site.approvals(night)
    ]
    assert kept == [900e9, 2e12]
