"""What the pages say is true: links lead somewhere, configurations load, commands and columns exist."""

import re
import tomllib
from pathlib import Path

import pytest

from execution.options import STEPS, parser
from optimizer import configuration
from schemas import ALL
from tests.docs.pages import PAGES, ROOT, Block, blocks, links

COMMANDS = tuple(blocks("sh"))
KAFKA_TOOLS = {"topics", "broker-api-versions", "log-dirs", "reassign-partitions", "configs", "leader-election"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file or folder of the repository."""
    relative = [target for target in links(page) if "://" not in target]
    assert [target for target in relative if not (page.parent / target).exists()] == []


def test_rooms_are_drawn_as_they_are_checked() -> None:
    """The pictures of the rooms have the layers that import-linter holds: of all, of the solver, of the stages."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in ("optimizer", "optimizer/solve", "optimizer/stages"):
        [layers] = [rule["layers"] for rule in rules if rule.get("containers") == [room.replace("/", ".")]]
        drawn = re.search(rf"^{room}\n(.*?)^(?:$|```)", page, re.MULTILINE | re.DOTALL)
        assert drawn
        told = [re.split(r"  +", line)[0].replace("│", "|") for line in drawn[1].splitlines()]
        assert told == layers


def test_contributing_names_existing_files() -> None:
    """Every path of the page on contributing, which says what to open for which change, leads somewhere."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+/(?:\w[\w./]*)?)`", text))
    assert len(named) >= 40
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@pytest.mark.parametrize("block", tuple(blocks("toml")), ids=str)
def test_configurations_load(block: Block) -> None:
    """Every configuration that a page shows is accepted over the defaults."""
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
    """The scripts of the collecting commands are Kafka's."""
    assert set(re.findall(r"\bkafka-([\w-]+)\.sh", block.body)) <= KAFKA_TOOLS


def test_queries_name_existing_columns() -> None:
    """Every query of the operations page reads columns that its table has."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    queries = re.findall(r"SELECT ([\w, *]+) FROM delta\.\\?`(?:\$PWD|/srv/ballast)/warehouse/(\w+)\\?`", text)
    assert len(queries) >= 7
    for columns, table in queries:
        assert set(columns.split(", ")) - {"*"} <= set(ALL[table].names), table


def test_wave_commands_of_the_pages_are_understood() -> None:
    """Every line of the page on execution that calls a command is one that its parser takes."""
    text = (ROOT / "docs" / "execution.md").read_text(encoding="utf-8").replace("$step", "off")
    lines = re.findall(r"^ *\./ballast (.*?)(?: \|\| break)?$", text, re.MULTILINE)
    asked = [parser().parse_args(line.split()) for line in lines]
    first = ["show", "show", "show", "approve", *list(STEPS)[:5]]
    assert [getattr(one, "step", one.command) for one in asked[:9]] == first
    assert all(f"`{step}` |" in text for step in STEPS)
