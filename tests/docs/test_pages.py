"""Pages are true: links have targets, configurations load, commands and columns exist."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from execution.options import STEERING, STEPS
from optimizer import configuration
from schemas import ALL
from setup.ballast_options import parser
from tests.docs.pages import PAGES, ROOT, Block, blocks, links

COMMANDS = tuple(blocks("sh"))
KAFKA_TOOLS = {
    *("topics", "broker-api-versions", "log-dirs", "reassign-partitions", "configs", "leader-election"),
    "consumer-groups",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page: Path) -> None:
    """Every relative link of a page is a file or folder of the repository."""
    relative = [target for target in links(page) if "://" not in target]
    assert [target for target in relative if not (page.parent / target).exists()] == []


def test_first_table_of_readme_has_figures_of_the_output() -> None:
    """Each row is a line of the output below it; the proven minimum is in the sentence about it."""
    readme = ROOT / "README.md"
    output = next(blocks("text", pages=(readme,))).body
    table = (
        readme.read_text(encoding="utf-8")
        .partition("| proven minimum |\n|---|---|---|---|---|\n")[2]
        .partition("\n\n")[0]
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    figures = [re.split(r"  +", line.strip()) for line in output.splitlines()]
    assert len(rows) == 3
    assert [row[:4] for row in rows if row[:4] not in figures] == []
    assert f"copies at least {rows[0][4]} (proven" in output


def test_figures_of_rooms_have_the_checked_layers() -> None:
    """The figures of all rooms, of the solver and of the stages have the layers that import-linter checks."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in ("optimizer", "optimizer/solve", "optimizer/stages"):
        [layers] = [rule["layers"] for rule in rules if rule.get("containers") == [room.replace("/", ".")]]
        drawn = re.search(rf"^{room}\n(.*?)^(?:$|```)", page, re.MULTILINE | re.DOTALL)
        assert drawn
        lines = [re.split(r"  +", line)[0].replace("│", "|") for line in drawn[1].splitlines()]
        assert lines == layers


def test_contributing_names_existing_files() -> None:
    """Every path in CONTRIBUTING.md, which lists the files to open for a change, exists."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+/(?:\w[\w./]*)?)`", text))
    assert len(named) >= 40
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@pytest.mark.parametrize("block", tuple(blocks("toml")), ids=str)
def test_configurations_load(block: Block) -> None:
    """Every configuration of a page is valid with the defaults."""
    defaults = configuration.read_toml(ROOT / "conf" / "default.toml")
    loaded = configuration.build(configuration.merge(defaults, tomllib.loads(block.body)))
    assert [cluster.id for cluster in loaded.clusters] == ["orders"]


@pytest.mark.parametrize("block", COMMANDS, ids=str)
def test_commands_name_existing_files(block: Block) -> None:
    """Scripts, jobs, configuration files and make targets in shell blocks exist."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    jobs = {f"jobs/{job}.py" for job in re.findall(r"spark-submit\.sh ([a-z]+)", block.body)}
    named = {*re.findall(r"\./(ballast\b|[\w-]+\.sh)", block.body), *re.findall(r"conf/[\w.]+", block.body), *jobs}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
    assert set(re.findall(r"^make (\w+)", block.body, re.MULTILINE)) <= targets


@pytest.mark.parametrize("block", tuple(blocks("text")), ids=str)
def test_kafka_commands_name_kafkas_tools(block: Block) -> None:
    """Scripts in the commands that collect inputs are Kafka's."""
    assert set(re.findall(r"\bkafka-([\w-]+)\.sh", block.body)) <= KAFKA_TOOLS


def test_queries_name_existing_columns() -> None:
    """Every query of the operations page reads existing columns."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    queries = re.findall(r"SELECT ([\w, *]+) FROM delta\.\\?`(?:\$PWD|/srv/ballast)/warehouse/(\w+)\\?`", text)
    assert len(queries) >= 7
    for columns, table in queries:
        assert set(columns.split(", ")) - {"*"} <= set(ALL[table].names), table


def test_wave_commands_of_the_page_are_valid() -> None:
    """The parser accepts every command line of the page on execution."""
    text = (ROOT / "docs" / "execution.md").read_text(encoding="utf-8").replace("$step", "off")
    lines = re.findall(r"^ *\./ballast (.*?)(?: \|\| break)?$", text, re.MULTILINE)
    parsed = [parser().parse_args(line.split()) for line in lines]
    first = [
        "show",
        "show",
        "show",
        "report",
        "report",
        "report",
        "approve",
        "revoke",
        "run",
        *STEERING,
        "rollback",
        "rollback",
        *list(STEPS)[:5],
    ]
    assert [getattr(options, "step", options.command) for options in parsed[: len(first)]] == first
    assert all(f"`{step}` |" in text for step in STEPS)


def test_commands_of_the_page_on_asking_are_valid() -> None:
    """The parser accepts every command line of the page."""
    bodies = [block.body.replace("\\\n", " ") for block in blocks("sh", pages=(ROOT / "docs" / "asking.md",))]
    lines = [line for body in bodies for line in body.splitlines()]
    commands = [parser().parse_args(shlex.split(line)[1:]).command for line in lines if line.startswith("./ballast ")]
    assert set(commands) == {"ask", "judge", "compare"}
