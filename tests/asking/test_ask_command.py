"""The command ``ask`` on a small warehouse, without Spark."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asking.cli import main
from asking.run_facts import read_facts
from optimizer.planning.in_memory import records
from schemas.verdicts import WITH_PLAN
from stored.runs import last_run
from stored.tables import Warehouse
from tests.asking.small_run import CLUSTER, KEY, RUN, add_verdict, make_facts, write_run

FACTS = make_facts(policy={"demote_brokers": [6]}, cluster={"max_moves": 4})


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The warehouse of a run."""
    return write_run(tmp_path_factory.mktemp("warehouse"), FACTS)


Ask = Any


@pytest.fixture
def ask(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> Ask:
    """A function that asks; it returns the exit code, the output and the last line of errors."""

    def run(*words: str, of: Warehouse = warehouse) -> tuple[int, str, str]:
        try:
            code = main(["ask", "--warehouse", of.path, "--cluster", CLUSTER, *words])
        except SystemExit as ended:
            code = int(str(ended.code))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_facts_from_the_warehouse(warehouse: Warehouse) -> None:
    """The facts of a run are read from its tables as they were."""
    facts = read_facts(warehouse, CLUSTER, RUN)
    by_key = sorted(records(FACTS.partitions), key=lambda row: (row["topic"], row["partition"]))
    lists = ("replicas", "isr", "log_dirs", "elr", "adding_replicas", "controller_replicas")
    actual = [{**row, **{x: _as_list(row[x]) for x in lists}} for row in records(facts.partitions)]
    assert [{name: value for name, value in row.items() if name not in KEY} for row in actual] == by_key
    assert records(facts.brokers) == records(FACTS.brokers)
    assert (facts.captured_at, facts.settings) == (FACTS.captured_at, FACTS.settings)


def _as_list(value: Any) -> list[Any] | None:
    return None if value is None else list(value)


def test_no_change_is_the_run(ask: Ask) -> None:
    """Without an option the answer has the figures of the run; the first lines have what the run requests."""
    code, out, _ = ask()
    assert code == 0
    first, context, requests, question, *_ = out.splitlines()
    assert first.startswith("The plan copies ") and ", as this run does; " in first
    assert context == "  orders: what if, from run night-1, snapshot of 2026-11-01 02:00 UTC"
    assert requests == "  The run requests: demote 6, at most 4 moves."
    assert question == "  Asked: no change."
    _, title, table = out.partition("Other figures\n")
    assert title and "What differs" not in out
    headings, *rows = table.splitlines()
    assert headings.split() == ["now", "this", "run", "no", "change"]
    cells = [re.split(r" {2,}", row.strip()) for row in rows]
    assert all(row[-1] == row[-2] for row in cells if len(row) == 3)
    assert cells[0][0] == "Bytes copied"
    assert "to execute it" not in out


def test_several_questions(ask: Ask, tmp_path: Path) -> None:
    """The command line, variants and a file each give columns, in this order; progress is on standard error."""
    file = tmp_path / "v.toml"
    file.write_text('[[variants]]\nname = "of file"\noptions = "--sizes 1.5 --topics \'cl.*\'"\n')
    code, out, err = ask("--drain", "2", "--variant", "b: --lose-rack b", "--variants", str(file))
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    asked = ["Asked: drain 2.", "b: lose rack b.", "of file: sizes of cl.* x 1.5."]
    assert [line for line in lines if line in asked] == asked
    assert re.split(r" {2,}", lines[lines.index("What differs") + 1]) == ["now", "this run", "drain 2", "b", "of file"]
    assert err.splitlines() == ["1 of 3: drain 2", "2 of 3: b", "3 of 3: of file"]
    assert "drain 2: to execute it, plan again with --drain 2" in lines
    assert "No job can plan new brokers, losses or other loads yet: an input must have them first." in lines


def test_json(ask: Ask) -> None:
    """One line has every figure before and after, the moves, and why something does not fit."""
    code, out, _ = ask("--json", "--drain", "2", "--variant", "much: --load 9", "--variant", "less: --sizes 0.5")
    assert code == 0
    [line] = out.splitlines()
    content = json.loads(line)
    assert (content["cluster_id"], content["run_id"]) == (CLUSTER, RUN)
    drain, much, less = content["answers"]
    assert (drain["name"], drain["asked"], drain["shortage"]) == ("drain 2", "drain 2", None)
    assert much["figures"] == {} and much["moves"] == []
    assert much["shortage"] == {"rack": "", "needed_bytes": 8640 * 10**9, "limit_bytes": 5400 * 10**9}
    assert {row["from_broker"] for row in drain["moves"]} >= {2}
    moved = sum(row["size_bytes"] for row in drain["moves"])
    assert drain["figures"]["moved_bytes"] == {"before": None, "after": moved}
    assert less["figures"]["fullest_disk_percent"]["before"] == pytest.approx(
        content["this_run"]["fullest_disk_percent"]["before"] / 2
    )


def test_anyway(ask: Ask) -> None:
    """What cannot fit is not solved, unless this is requested."""
    _, out, _ = ask("--load", "9")
    lines = out.splitlines()
    assert lines[0].startswith("This does not fit: the brokers that accept replicas may hold 5.40 TB, ")
    assert "does not fit" in lines[lines.index("What differs") + 2]
    one_line = " ".join(out.split())
    assert (
        "load x 9: does not fit: the brokers that accept replicas may hold 5.40 TB, but must hold 8.64 TB" in one_line
    )
    _, out, _ = ask("--load", "9", "--anyway", "--json")
    [answer] = json.loads(out)["answers"]
    assert answer["shortage"] and answer["figures"]["moved_bytes"]["after"] is not None


def test_alternatives(ask: Ask) -> None:
    """More columns, among them one without the run's limit."""
    _, out, _ = ask("--alternatives")
    lines = out.splitlines()
    headings = re.split(r" {2,}", lines[lines.index("What differs") + 1].strip())
    assert headings == ["now", "this run", "bands x 2", "only urgent", "half the bytes", "no limit"]


def test_alternatives_are_about_the_run(ask: Ask) -> None:
    """They leave out what else is asked, and the answer says so."""
    remark = "The alternatives are those of the run: they leave out "
    _, out, _ = ask("--alternatives", "--drain", "2")
    assert f"{remark}drain 2." in " ".join(out.split())
    _, out, _ = ask("--alternatives")
    assert remark not in " ".join(out.split())


def test_all_that_is_asked_is_said(ask: Ask) -> None:
    """Chosen racks, the broker that new ones are like, and what is asked in addition to a number or a choice."""
    _, out, _ = ask("--add-broker", "7,8", "--like", "6")
    assert "  Asked: add brokers 7 (a), 8 (b) like 6." in out.splitlines()
    _, out, _ = ask("--add-broker", "7", "--like", "6", "--json")
    assert [answer["asked"] for answer in json.loads(out)["answers"]] == ["add broker 7 (a) like 6"]
    _, out, _ = ask("--retire", "1", "--of", "2", "--lose-broker", "1")
    assert "  retire 2: drain 2, lose broker 1." in out.splitlines()
    _, out, _ = ask("--how-many-like", "1", "--disk-below", "0.9", "--sizes", "0.5")
    assert "  0 more: sizes x 0.5." in out.splitlines()


def test_topics_of_the_run_are_said(tmp_path: Path, ask: Ask) -> None:
    """A run about some topics requests more than balance."""
    for name, policy, words in (
        ("some", {"topics": ["clicks", "a.*"]}, "balance, topics clicks, a.*"),
        ("without", {"exclude_topics": ["audit"], "drain_brokers": [2]}, "drain 2, exclude topics audit"),
    ):
        _, out, _ = ask(of=write_run(tmp_path / name, make_facts(policy=policy)))
        assert f"  The run requests: {words}." in out.splitlines()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--run-id", ""], 2, "has no run ''"),
        (["--retire", "1", "--anyway"], 2, "--anyway: --retire and --how-many-like choose among plans that fit"),
        (["--how-many-like", "1", "--disk-below", "0.5", "--anyway"], 2, "--anyway: --retire and --how-many-like "),
        (["--run-id", "night-2"], 2, "has no run 'night-2' (did you mean 'night-1'?)"),
        (
            ["--drain", "9"],
            2,
            "drain_brokers names [9], which cluster orders does not have; known are [1, 2, 3, 4, 5, 6]",
        ),
        (["--lose-broker", "9"], 2, "--lose-broker 9: cluster orders has no such broker"),
        (["--lose-rack", "z"], 2, "--lose-rack z: cluster orders has no such rack; known are ['a', 'b', 'c']"),
        (["--lose-rack", "a,b,c"], 2, "no broker of ['orders'] may hold replicas"),
        (["--lose-broker", "1,2,3,4,5,6"], 2, "no broker of ['orders'] may hold replicas"),
        (["--only", "drain"], 2, "only = 'drain': no broker of ['orders'] is dead or to be emptied"),
        (["--keep", "1"], 2, "--keep 1: the run does not drain it; it drains []"),
        (["--variant", "--drain 1"], 2, "--variant '--drain 1': write 'NAME: OPTIONS', such as "),
        (["--variant", " : --drain 1"], 2, "--variant ' : --drain 1': write 'NAME: OPTIONS', such as "),
        (["--variant", "x: --topics 'a"], 2, '--variant "x: --topics \'a": no closing quotation'),
        (["--variant", "x: --nothing"], 2, "there is no option --nothing"),
        (
            ["--variant", "x: --drain 1", "--variant", "x: --drain 2"],
            2,
            "two columns are called 'x': give each question a name",
        ),
        (["--variants", "/no/such/file"], 2, "--variants /no/such/file: "),
        (["--drain", "x"], 2, "'x' is not a list of broker ids"),
    ],
)
def test_wrong_questions(ask: Ask, words: Sequence[str], code: int, message: str) -> None:
    """One line says what is wrong, and nothing is answered."""
    actual, out, err = ask(*words)
    assert (actual, out) == (code, "")
    assert message in err.splitlines()[-1]


@pytest.mark.parametrize(
    "content",
    [
        "variants = 1",
        "[variants]\nname = 'x'",
        "[[variants]]\nname = 'x'",
        "[[variants]]\nname = 'x'\noptions = 1",
        "[[variants]]\nname = 'x'\noptions = ''\nmore = ''",
        "other = 1\n[[variants]]\nname = 'x'\noptions = ''",
        "variants = ['x: --drain 1']",
        "",
        "[[variants]",
    ],
)
def test_wrong_files(ask: Ask, tmp_path: Path, content: str) -> None:
    """A file of variants that is not TOML, or has other tables, is refused with its name."""
    (tmp_path / "v.toml").write_text(content)
    code, out, err = ask("--variants", str(tmp_path / "v.toml"))
    assert (code, out) == (2, "")
    assert err.startswith(f"error: --variants {tmp_path / 'v.toml'}: ")


def test_unknown_names(warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown cluster, with or without a run, and a folder without tables are refused."""
    for path, words, message in (
        (warehouse.path, ["--cluster", "order"], "has no cluster 'order' (did you mean 'orders'?)"),
        (warehouse.path, ["--cluster", "order", "--run-id", RUN], "has no cluster 'order' (did you mean 'orders'?)"),
        (str(tmp_path), ["--cluster", "orders"], "there is no table verdicts"),
    ):
        assert main(["ask", "--warehouse", path, *words]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "reason", "message"),
    [
        ("refused", "no disk", "run 'night-1' has no plan for cluster 'orders', its verdict is refused: no disk"),
        ("started", None, "run 'night-1' has no plan for cluster 'orders', its verdict is started"),
        ("failed", "x", "run 'night-1' has no plan for cluster 'orders', its verdict is failed: x"),
    ],
)
def test_runs_without_a_plan(ask: Ask, tmp_path: Path, verdict: str, reason: str | None, message: str) -> None:
    """The last attempt counts: without a plan nothing can be asked."""
    other = Warehouse(str(tmp_path))
    add_verdict(other, RUN)
    add_verdict(other, RUN, verdict=verdict, attempt=2, reason=reason)
    code, out, err = ask("--run-id", RUN, of=other)
    assert (code, out) == (3, "")
    assert message in err


def test_a_run_whose_rows_are_gone(ask: Ask, tmp_path: Path) -> None:
    """A verdict without rows of the cluster is refused."""
    other = Warehouse(str(tmp_path))
    add_verdict(other, RUN)
    code, out, err = ask(of=other)
    assert (code, out) == (3, "")
    assert "run 'night-1' has no rows of 'orders' in table instance any more: plan again" in err


def test_the_newest_planned_run_is_asked(tmp_path: Path) -> None:
    """Without --run-id: of the runs with a plan for the cluster the one that was stored last."""
    other = Warehouse(str(tmp_path))
    for run_id, verdict in (("z", "planned"), ("b", "nothing_to_do"), ("c", "refused"), ("d", "started")):
        add_verdict(other, run_id, verdict=verdict)
    add_verdict(other, "e", verdict="planned", cluster_id="another")
    assert last_run(other, CLUSTER, allowed=WITH_PLAN) == "b"
    assert (last_run(other, CLUSTER), last_run(other, None)) == ("d", "e")
    add_verdict(other, "b", verdict="failed", attempt=2)
    assert last_run(other, CLUSTER, allowed=WITH_PLAN) == "z"
