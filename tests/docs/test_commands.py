"""The commands that the pages show do what the pages say; they start Spark, so they are slow."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from setup.java import spark_java
from tests.docs.pages import ROOT, Block, blocks

LINKED = ("spark-submit.sh", "conf", ".venv", ".jars")
README = ROOT / "README.md"
OPERATIONS = tuple(blocks("sh", pages=(ROOT / "docs" / "operations.md",)))


def run_block(block: Block, folder: Path) -> str:
    """Standard output of a shell block that is run in ``folder`` as if it were the checkout."""
    for name in LINKED:
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    command = ["bash", "-euo", "pipefail", "-c", block.body]
    done = subprocess.run(
        command, cwd=folder, env=environ | spark_java(environ), capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def promised_files() -> set[str]:
    """Files that README's table of outputs names, for the first wave."""
    section = README.read_text(encoding="utf-8").partition("## What you get")[2].partition("\n## ")[0]
    always = [line for line in section.splitlines() if line.startswith("| `") and "only if" not in line]
    rows = [line.split("|")[1] for line in always]
    return {name.replace("NN", "01") for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.slow
def test_operations_run_and_query(tmp_path: Path) -> None:
    """The run of the operations page leaves the files that README promises, and the query reads its tables."""
    plan, query = OPERATIONS
    run_block(plan, tmp_path)
    folder = tmp_path / "out" / "first" / "sample"
    assert sorted(name for name in promised_files() if not (folder / name).is_file()) == []
    assert len(run_block(query, tmp_path).splitlines()) > 10


@pytest.mark.slow
def test_readme_run_prints_what_readme_shows(tmp_path: Path) -> None:
    """The first command of README ends with the output that stands under it, but for the run's name in the paths."""
    command, shown = (next(blocks(language, pages=(README,))) for language in ("sh", "text"))
    run_id = re.compile(r"\d{8}T\d{6}Z")
    printed = run_id.sub("RUN", run_block(command, tmp_path))
    assert printed[printed.index("sample: ") :] == run_id.sub("RUN", shown.body)
