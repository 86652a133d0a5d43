"""The commands of the pages do what the pages say. They start Spark, so they are slow."""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from asking.cli import main
from benchmarks.generate import generate
from setup.java import spark_java
from stored.tables import Warehouse
from tests.asking.benchmark_facts import facts_of
from tests.asking.small_run import write_run
from tests.docs.pages import ROOT, Block, blocks, output_under

LINKED = ("ballast", "spark-submit.sh", "conf", ".venv", ".jars")
README = ROOT / "README.md"
FIRST_PLAN = ROOT / "docs" / "first-plan.md"
[PLAN] = blocks("sh", pages=(ROOT / "docs" / "own-cluster.md",))
[QUERY] = blocks("sh", pages=(ROOT / "docs" / "spark-sql.md",))
ASKING = ROOT / "docs" / "asking.md"
READING = ROOT / "docs" / "reading-plans.md"
# The page's Python: five questions in pandas, then the set-up of DuckDB and of Spark; their questions are SQL.
*PANDAS, DUCKDB, SPARK = blocks("python", pages=(READING,))
QUESTIONS_TO_RUNS = [block for block in blocks("sh", pages=(ASKING,)) if "./ballast compare" not in block.body]
QUESTIONS = tuple(blocks("sql", pages=(READING,)))
NEXT = "-- next"
PRINTED = "printed.txt"  # what the job of the page about your own cluster has printed


def run_block(block: Block, folder: Path) -> str:
    """Run a shell block in ``folder``, which looks like the checkout; return its standard output."""
    return run_command(["bash", "-euo", "pipefail", "-c", block.body], folder)


def answered(question: Block, folder: Path) -> str:
    """What a block with one ``./ballast`` command prints in ``folder``, in this process."""
    words = shlex.split(question.body.replace("\\\n", " "))
    assert words[0] == "./ballast"
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        assert main(words[1:]) == 0
    return printed.getvalue().strip("\n")


def run_python(parts: list[str], folder: Path) -> list[str]:
    """Run a script in ``folder``, which looks like the checkout; return the output of each part."""
    script = f"print({NEXT!r}, flush=True)\n".join(parts)
    printed = run_command([sys.executable, "-P", "-W", "error", "-c", script], folder)
    return [textwrap.dedent(part).strip("\n") for part in printed.split(f"{NEXT}\n")]


def run_command(command: list[str], folder: Path) -> str:
    """Run a command in ``folder``, which looks like the checkout; return its standard output."""
    for name in LINKED:
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        command, cwd=folder, env=environ | spark_java(environ), capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def promised_files() -> set[str]:
    """Files of the first wave that the table of outputs names."""
    section = FIRST_PLAN.read_text(encoding="utf-8").partition("## What you get")[2].partition("\n## ")[0]
    required = [line for line in section.splitlines() if line.startswith("| `") and "only if" not in line]
    rows = [line.split("|")[1] for line in required]
    return {name.replace("NN", "01") for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run of the page about your own cluster."""
    folder = tmp_path_factory.mktemp("sample")
    (folder / PRINTED).write_text(run_block(PLAN, folder), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def executed(sample: Path) -> Path:
    """The same folder after the night in docs/reading-plans.md: approved, executed, copied, released."""
    warehouse = Warehouse(str(sample / "warehouse"))
    plan: dict[str, Any] = {"cluster_id": "sample", "run_id": "first"}
    [verdict] = warehouse.rows("verdicts", **plan)
    approval = {
        "approved_by": "anna",
        "approved_at": october(5, 9, 30),
        "approved_from": "desk-7",
        "is_revocation": False,
    }
    warehouse.append("approvals", [plan | approval | {"manifest_sha256": verdict["manifest_sha256"]}])
    evening = [("held", 5, 22, 0), ("throttled", 5, 22, 1), ("executed", 5, 22, 2)]
    night = [*evening, ("copied", 6, 3, 53), ("released", 6, 3, 55)]
    events = [{"number": n, "event": name, "happened_at": october(*when)} for n, (name, *when) in enumerate(night, 1)]
    warehouse.append("executions", [plan | {"wave": 1, "holder": "anna on desk-7, process 4711"} | e for e in events])
    return sample


def october(day: int, hour: int, minute: int) -> datetime:
    """A time after the sample's snapshot."""
    return datetime(2026, 10, day, hour, minute, tzinfo=UTC)


@pytest.mark.all_only
def test_run_and_query(sample: Path) -> None:
    """The run of docs/own-cluster.md writes the files that the page of the first plan names; the query reads tables."""
    folder = sample / "out" / "first" / "sample"
    assert sorted(name for name in promised_files() if not (folder / name).is_file()) == []
    assert len(run_block(QUERY, sample).splitlines()) > 10


@pytest.mark.all_only
def test_compare_prints_what_the_page_shows(sample: Path, tmp_path: Path) -> None:
    """The second run of the page and its comparison with the first run, before a wave is executed."""
    shutil.copytree(sample / "warehouse", tmp_path / "warehouse")
    shutil.rmtree(tmp_path / "warehouse" / "executions", ignore_errors=True)
    [block] = [block for block in blocks("sh", pages=(ASKING,)) if "./ballast compare" in block.body]
    printed = run_block(block, tmp_path)
    shown = output_under(block)
    first = shown.partition("\n")[0]
    assert printed[printed.index(first) :].strip("\n") == shown


@pytest.mark.all_only
def test_questions_about_a_run_print_what_the_page_shows(sample: Path) -> None:
    """Each question about the first run prints the output below it."""
    asked = [block for block in QUESTIONS_TO_RUNS if "--cluster sample" in block.body]
    assert len(asked) == 11
    printed = {block.body: answered(block, sample) for block in asked}
    assert printed == {block.body: output_under(block) for block in asked}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run about an instance of 100 brokers: as ``benchmarks/run.py`` plans it, but without Spark."""
    folder = tmp_path_factory.mktemp("bench")
    cluster = {"id": "bench", "kafka_version": "4.3"}
    captured_at = datetime(2026, 1, 1, tzinfo=UTC)
    facts = facts_of(generate("M", "expand", 1), cluster=cluster, run_id="bench", captured_at=captured_at)
    write_run(folder / "m" / "warehouse", facts)
    return folder


@pytest.mark.all_only
def test_questions_about_a_large_cluster_print_what_the_page_shows(bench: Path) -> None:
    """100 brokers and 20,000 partitions."""
    asked = [block for block in QUESTIONS_TO_RUNS if "--cluster bench" in block.body]
    assert len(asked) == 3
    printed = {block.body: answered(block, bench) for block in asked}
    assert printed == {block.body: output_under(block) for block in asked}


def test_the_page_names_the_file_system_wherever_it_reads() -> None:
    """Without it about one run in ten is aborted at its end, which is too rare for a test of the output."""
    calls = re.findall(r"\.to_(?:pandas|pyarrow_dataset)\(.*", READING.read_text(encoding="utf-8"))
    assert len(calls) == 2
    assert all("filesystem=" in call for call in calls)


@pytest.mark.all_only
def test_pandas_reads_what_the_page_shows(sample: Path) -> None:
    """Each question to deltalake and pandas prints the output below it."""
    assert run_python([block.body for block in PANDAS], sample) == [output_under(block) for block in PANDAS]


@pytest.mark.all_only
@pytest.mark.parametrize("set_up", [DUCKDB, SPARK], ids=["duckdb", "spark"])
def test_questions_print_what_the_page_shows(executed: Path, set_up: Block) -> None:
    """DuckDB and Spark both print the output below each SQL question."""
    questions = [f'ask("""{block.body}""")\n' for block in QUESTIONS]
    assert run_python([set_up.body, *questions], executed)[1:] == [output_under(block) for block in QUESTIONS]


@pytest.mark.all_only
def test_readme_run_prints_what_its_page_shows(sample: Path) -> None:
    """The job of docs/own-cluster.md ends with the output of the first plan's page, except for the run id: README's
    first command is the same job (``tests/setup/test_submit.py``)."""
    command, shown = next(blocks("sh", pages=(README,))), next(blocks("text", pages=(FIRST_PLAN,)))
    assert command.body.strip() == "./spark-submit.sh"
    printed = (sample / PRINTED).read_text(encoding="utf-8")
    assert printed[printed.index("sample: ") :] == re.sub(r"\d{8}T\d{6}Z", "first", shown.body)
