"""The command compare on a small warehouse: output, exit codes, and rows that were deleted."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable

from asking.cli import main
from stored.tables import Warehouse
from tests.asking.small_runs import CLUSTER, NOON, StoredRun, full_row, partition, planned, settings_of

A = StoredRun(
    "a",
    {
        "sources": [{"source": "x", "captured_at": NOON, "records": 1, "has_state": True}],
        "brokers": [{"broker_id": n, "rack": "x", "state": "alive"} for n in (1, 2)],
        "topics": [{"topic": "t", "partitions": 3, "replication_factor": 2}],
        "instance": [partition(n, [1, 2]) for n in range(3)],
        "plan": [planned(n, [1, 2], [3, 2], "drain") for n in range(3)],
        "moves": [{"to_broker": 3, "size_bytes": 10, "reason": "drain"}] * 3,
        "plan_summary": [
            {"figure": "moved_bytes", "after": 30.0},
            {"figure": "brokers_outside_bands", "before": 2.0, "after": 0.0},
            {"figure": "rack_violations", "before": 0.0, "after": 0.0},
        ],
        "waves": [
            {"wave": 1, "partitions": 3, "moved_bytes": 30}
            | {"estimated_seconds": 7200, "least_seconds": 6000, "most_seconds": 8400}
        ],
    },
)
B = StoredRun(
    "b",
    {
        **A.rows,
        "sources": [{"source": "x", "captured_at": NOON + timedelta(days=1), "records": 1, "has_state": True}],
        "brokers": [*A.rows["brokers"], {"broker_id": 3, "rack": "<z>", "state": "alive"}],
        "instance": [partition(0, [3, 2]), partition(1, [1, 2]), partition(2, [1, 5])],
        "plan": [planned(0, [3, 2], [3, 2]), planned(1, [1, 2], [3, 2], "drain"), planned(2, [1, 5], [3, 5], "drain")],
    },
    settings=settings_of(policy={"drain_brokers": [1]}),
)
NOTHING = StoredRun("n", {**B.rows, "plan": [], "moves": [], "waves": []}, verdict="nothing_to_do")
REFUSED = StoredRun("refused", {}, verdict="refused", exit_code=3, reason="too many rows were rejected")
STARTED = StoredRun("started", {}, verdict="started", exit_code=None)


class Ended(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class Commands:
    """The command on one warehouse."""

    def __init__(self, warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
        self.warehouse, self._capsys = warehouse, capsys

    def run(self, *words: str, cluster: str = CLUSTER) -> Ended:
        """Compare two runs."""
        code = main(["compare", *words, "--cluster", cluster, "--warehouse", self.warehouse.path])
        output = self._capsys.readouterr()
        return Ended(code, output.out, output.err)

    def content(self, *words: str) -> dict[str, Any]:
        """The JSON of a comparison."""
        ended = self.run(*words, "--json")
        assert (ended.code, ended.err, ended.out.count("\n")) == (0, "", 1)
        return dict(json.loads(ended.out))

    def delete(self, run_id: str, tables: Sequence[str], *, forever: bool) -> None:
        """Delete the rows of a run; also the files of older versions, if ``forever``."""
        for name in tables:
            table = DeltaTable(f"{self.warehouse.path}/{name}")
            table.delete(f"run_id = '{run_id}'")
            if forever:
                table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    """A warehouse with two runs; wave 1 of the first was executed and measured."""
    warehouse = Warehouse(str(tmp_path / "w"))
    A.write(warehouse)
    B.write(warehouse)
    events = [("held", 0), ("executed", 1), ("copied", 91), ("released", 95)]
    rows = [
        {"run_id": "a", "wave": 1, "number": n, "event": event, "happened_at": NOON + timedelta(minutes=minute)}
        for n, (event, minute) in enumerate(events, 1)
    ]
    warehouse.append("executions", [full_row("executions", {**row, "cluster_id": CLUSTER}) for row in rows])
    return Commands(warehouse, capsys)


def test_the_text_has_every_part(commands: Commands) -> None:
    """Numbers and words of each section, without spaces that align them."""
    ended = commands.run("a", "b")
    assert (ended.code, ended.err) == (0, "")
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    for line in (
        "A: run a, planned, snapshot of 2026-11-01 12:00 UTC",
        "policy.drain_brokers [] [1]",
        "Bytes on all brokers 60 B 60 B",
        "3 only in B",
        "No topic was added, removed or changed.",
        "Partitions: 2 with another replica list.",
        "Bytes copied 30 B 30 B",
        "Brokers outside bands (replicas, disk, bytes in) 2 -> 0 2 -> 0",
        "drain 3 3 30 B 2 3 30 B",
        "both plans, to the same list 1 10 B 10 B",
        "both plans, to another list 1 10 B 10 B",
        "only plan A 1 10 B 0 B",
        "of them, done before run B 1 10 B 0 B",
        "t-2 1,2 1,5 3,2 drain 3,5 drain 10 B",
        "1 of the 3 partitions that plan A changes has its list in B.",
        "have the list of plan A 1 10 B",
        "have neither list 1 10 B",
        "t-2 1,2 3,2 1,5",
        "A 1 3 1 30 B 2 h 00 min 1 h 40 min to 2 h 20 min 1 h 30 min",
        "B 1 3 - 30 B 2 h 00 min 1 h 40 min to 2 h 20 min -",
    ):
        assert line in lines, line
    # Hidden at zero; done before run B, so no difference to decide about.
    assert not [line for line in lines if line.startswith(("Partitions that break the rack rule", "t-0"))]


def test_two_runs_of_the_same_cluster_do_not_differ(commands: Commands) -> None:
    """Each section says so in a sentence."""
    replace(A, run_id="again").write(commands.warehouse)
    out = commands.run("a", "again").out
    for sentence in (
        "Both runs have the same policy, solver and schedule.",
        "No broker was added, removed or changed.",
        "No partition, replica list, size or rate changed.",
        "Nothing of plan A was done.",
    ):
        assert f"  {sentence}" in out
    assert "largest differences" not in out


def test_the_json_has_every_list(commands: Commands) -> None:
    """Lists of brokers are arrays of numbers, reasons arrays of texts."""
    content = commands.content("a", "b")
    assert (content["cluster_id"], content["a"]["run_id"], content["b"]["notes"]) == (CLUSTER, "a", [])
    assert content["requests"] == [
        {"name": "policy.drain_brokers", "what": "setting", "before": [], "after": [1]},
    ]
    assert content["partitions"]["lists"][1] == {
        **{"topic": "t", "partition": 2, "replicas_a": [1, 2], "replicas_b": [1, 5]},
    }
    plans = {row["partition"]: row for row in content["plans"]["partitions"]}
    assert (plans[2]["proposed_replicas_b"], plans[2]["reason_codes_a"], plans[0]["is_done"]) == (
        [3, 5],
        ["drain"],
        True,
    )
    assert (plans[0]["reason_codes_b"], plans[0]["moved_bytes_b"]) == ([], 0)
    assert [row["state"] for row in content["progress"]["partitions"]] == ["proposal", "old", "neither"]
    assert content["progress"]["states"]["old"] == {"partitions": 1, "bytes": 10}
    assert content["waves"][0]["measured_seconds"] == 5400
    assert {"figure": "moved_bytes", "before_a": None, "after_a": 30, "before_b": None, "after_b": 30} in content[
        "figures"
    ]


def test_the_page_has_the_same_figures(commands: Commands, tmp_path: Path) -> None:
    """It has every cell of the text, escaped. It refers only to the style sheet, which is written next to it."""
    out = commands.run("a", "b", "--html", str(tmp_path / "page.html")).out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert re.findall(r"\b(?:src|href)=\S+", page) == ['href="report.css"><style>']
    assert (tmp_path / "report.css").read_text(encoding="utf-8") in page
    cells = re.findall(r"<t[dh](?: class=\"num\")?>(.*?)</t[dh]>", page)
    assert {"policy.drain_brokers", "2 -&gt; 0", "1 h 30 min"} <= {*cells}
    assert out.splitlines()[0] in page


def test_text_of_a_cluster_is_escaped_in_the_page(commands: Commands, tmp_path: Path) -> None:
    """A rack may have any name."""
    renamed = [{"broker_id": 3, "rack": "<script>", "state": "alive"}]
    replace(B, run_id="s", rows={**B.rows, "brokers": [*A.rows["brokers"], *renamed]}).write(commands.warehouse)
    assert commands.run("b", "s", "--html", str(tmp_path / "page.html")).code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<td>&lt;z&gt;</td><td>&lt;script&gt;</td>" in page


def test_a_run_with_nothing_to_do_is_compared(commands: Commands) -> None:
    """Its empty tables are complete, also if other runs have rows there."""
    NOTHING.write(commands.warehouse)
    content = commands.content("a", "n")
    assert (content["b"]["notes"], content["b"]["verdict"]) == ([], "nothing_to_do")
    assert {row["kind"] for row in content["plans"]["partitions"]} == {"only_a"}
    assert "Plan A changes no partition." in commands.run("n", "b").out


def test_runs_in_the_wrong_order_and_of_two_releases_are_reported(commands: Commands) -> None:
    """The comparison is made all the same."""
    DeltaTable(f"{commands.warehouse.path}/runs").update(new_values={"code_version": "v2"}, predicate="run_id = 'a'")
    out = commands.run("b", "a").out
    assert "The snapshot of B is older than that of A: name the earlier run first." in out
    assert "Two releases made the plans: v1 made A, v2 made B." in out


@pytest.mark.parametrize("table", ["instance", "plan", "moves", "waves", "brokers"])
def test_deleted_rows_come_from_the_recorded_version(commands: Commands, table: str) -> None:
    """The comparison is the same, and a note names the version; run A made version 1 of each table."""
    before = commands.content("a", "b")
    commands.delete("a", [table], forever=False)
    after = commands.content("a", "b")
    note = f"run a: the rows of table {table} were deleted; they come from version 1, which the run recorded"
    assert after["a"].pop("notes") == [note]
    assert before["a"].pop("notes") == []
    assert after == before
    assert note in " ".join(commands.run("a", "b").out.split())


def test_parts_are_missing_if_the_recorded_version_is_gone_too(commands: Commands) -> None:
    """The other parts are there, and the text says what is not compared."""
    commands.delete("a", ["instance", "plan"], forever=True)
    content = commands.content("a", "b")
    assert [content[part] for part in ("partitions", "plans", "progress")] == [None, None, None]
    assert (len(content["brokers"]), len(content["figures"]), len(content["waves"])) == (1, 3, 2)
    text = " ".join(commands.run("a", "b").out.split())
    for table in ("instance", "plan"):
        assert (
            f"run a: the rows of table {table} were deleted, and version 1, which the run recorded, is gone too" in text
        )
    assert "Partitions are not compared: rows of a run are gone (see above)." in text
    assert "From plan A to run B Not compared: rows of a run are gone (see above)." in text


def test_progress_needs_no_lists_of_the_first_run(commands: Commands) -> None:
    """Only its plan, and the lists of the second run."""
    commands.delete("a", ["instance"], forever=True)
    content = commands.content("a", "b")
    assert (content["partitions"], content["progress"]["states"]["old"]["partitions"]) == (None, 1)


def test_without_the_record_of_a_run_its_rows_are_used(commands: Commands) -> None:
    """The requests are not compared; rows that are gone too cannot be found."""
    commands.delete("a", ["runs"], forever=False)
    content = commands.content("a", "b")
    assert (content["requests"], content["a"]["code_version"], len(content["plans"]["partitions"])) == (None, None, 3)
    commands.delete("a", ["moves"], forever=False)
    content = commands.content("a", "b")
    [note] = content["a"]["notes"]
    assert note.endswith("were deleted, and table runs does not say from which version to read them")
    assert (content["plans"]["by_reason"], len(content["plans"]["partitions"])) == (None, 3)


@pytest.mark.parametrize(
    ("words", "cluster", "code", "message"),
    [
        (("a", "a"), CLUSTER, 2, r"both runs are 'a': name two runs"),
        (("a", "nightly"), CLUSTER, 2, r".* has no run 'nightly'; \./ballast show lists the runs.*"),
        (("refusd", "a"), CLUSTER, 2, r".* has no run 'refusd' \(did you mean 'refused'\?\).*"),
        (("a", "b"), "d", 2, r"run 'a' in .* has no cluster 'd'.*"),
        (
            *(("a", "refused"), CLUSTER, 3),
            r"run 'refused' has no plan for cluster 'c', its verdict is refused: too many rows were rejected",
        ),
        (("started", "a"), CLUSTER, 3, r"run 'started' has no plan for cluster 'c', its verdict is started"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    commands: Commands, words: tuple[str, str], cluster: str, code: int, message: str
) -> None:
    """Nothing is printed but the error, and no page is written."""
    for run in (REFUSED, STARTED):
        run.write(commands.warehouse)
    ended = commands.run(*words, "--html", "page.html", cluster=cluster)
    assert (ended.code, ended.out) == (code, "")
    assert re.fullmatch(f"error: {message}\n", ended.err)
    assert not Path("page.html").exists()


def test_the_warehouse_is_not_changed(commands: Commands) -> None:
    """No table gets a version, and no table is created."""

    def state() -> list[tuple[str, int]]:
        folders = sorted(path for path in Path(commands.warehouse.path).iterdir() if (path / "_delta_log").exists())
        return [(path.name, DeltaTable(str(path)).version()) for path in folders]

    before = state()
    assert commands.run("a", "b").code == 0
    assert state() == before


def test_long_lists_are_cut(commands: Commands) -> None:
    """The text has ten rows and the number of the others; of a long setting, only what differs."""
    many = [planned(n, [1, 2], [3, 2], "drain", topic="m", moved_bytes=n) for n in range(100, 125)]
    drained = list(range(100, 130))
    a = replace(A, run_id="m", rows={**A.rows, "plan": many}, settings=settings_of(policy={"drain_brokers": drained}))
    a.write(commands.warehouse)
    longer = settings_of(policy={"drain_brokers": [*drained[1:], 7]})
    replace(A, run_id="n", rows={**A.rows, "plan": []}, settings=longer).write(commands.warehouse)
    out = commands.run("m", "n").out
    lines = [line.split()[0] for line in out.splitlines() if line.startswith("  m-")]
    assert lines == [f"m-{n}" for n in range(124, 114, -1)]
    assert "  And 15 more: --json lists all." in out
    assert [line.split(maxsplit=1)[1] for line in out.splitlines() if "drain_brokers" in line] == [
        "[100] and 29 in both  [7] and 29 in both"
    ]
    assert len(commands.content("m", "n")["plans"]["partitions"]) == 25
