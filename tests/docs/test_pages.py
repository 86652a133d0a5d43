"""Pages are true: links have targets, configurations load, commands and columns exist."""

import re
import shlex
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from execution.options import STEERING, STEPS
from optimizer import configuration
from schemas import ALL
from setup.ballast_options import parser
from tests.docs.pages import PAGES, ROOT, Block, blocks, links

COMMANDS = tuple(blocks("sh"))
GENERATED = {"configuration.md", "tables.md"}
BY_HAND = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in GENERATED)]
DOCS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
TASKS = (
    *("add-brokers", "drain", "racks", "leaders", "single-goal", "disks", "topics", "limits", "consumers"),
    *("approve", "execute", "runbook", "nightly", "runs", "site", "spark-sql"),
)
KAFKA_TOOLS = {
    *("topics", "broker-api-versions", "log-dirs", "reassign-partitions", "configs", "leader-election"),
    *("consumer-groups", "acls", "metadata-quorum", "get-offsets"),
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_targets(page: Path) -> None:
    """Every relative link of a page is a file or folder of the repository."""
    relative = [target for target in links(page) if "://" not in target]
    assert [target for target in relative if not (page.parent / target).exists()] == []


def test_first_table_of_readme_has_figures_of_the_output() -> None:
    """Each row is a line of the shown output; the proven minimum is in the sentence about it."""
    readme = ROOT / "README.md"
    output = next(blocks("text", pages=(ROOT / "docs" / "first-plan.md",))).body
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


def test_answers_in_readme_are_those_of_the_page() -> None:
    """Every command and every line of an answer is on the page about questions, where tests run them."""
    [shown] = [block.body for block in blocks("text", pages=(ROOT / "README.md",)) if "./ballast ask" in block.body]
    page = (ROOT / "docs" / "asking.md").read_text(encoding="utf-8").replace("--run-id first ", "")
    newest = '"$(ls -d out/*/sample | tail -1)/reassignment.json"'
    shown = shown.replace(newest, "out/first/sample/reassignment.json")
    lines = [line.removeprefix("$ ") for line in shown.splitlines() if line]
    assert [line for line in lines if f"\n{line}\n" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_name_existing_sections(page: Path) -> None:
    """Each link with an anchor leads to a heading of its page."""
    for target, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", page.read_text(encoding="utf-8")):
        aim = page.parent / target if target else page
        assert anchor in sections(aim), (target, anchor)


def sections(page: Path) -> set[str]:
    """Anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_tasks_begin_with_their_command() -> None:
    """Each page of a task of its own shows what to type before it explains anything."""
    assert [
        name for name in TASKS if not re.match(r"# .*\n\n```(?:sh|text)\n", (ROOT / "docs" / f"{name}.md").read_text())
    ] == []


def test_no_sentence_is_written_twice() -> None:
    """A sentence of 60 characters or more, outside of code and tables, is on one page only, and once."""
    written = Counter(sentence for page in DOCS for sentence in sentences(page))
    assert [sentence for sentence, times in written.items() if times > 1] == []


def sentences(page: Path) -> list[str]:
    """Long sentences of a page in lower case, without code blocks, tables and the targets of links."""
    text = re.sub(r"^ *```.*?^ *```$|^\|.*?$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "", text).replace("[", "").lower()
    parts = re.split(r"(?<=[.:;])\s|\n\n|\n *- |\n *\d\. ", text)
    return [sentence for part in parts if len(sentence := " ".join(part.split())) >= 60]


@pytest.mark.parametrize("page", BY_HAND, ids=lambda page: page.name)
def test_lines_fit_a_screen(page: Path) -> None:
    """At most 160 characters, but for tables and drawings."""
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 160 and not line.startswith("|") and "│" not in line] == []


def test_every_page_is_in_the_index() -> None:
    """``docs/README.md`` links each page of the folder."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert sorted(name for name in pages if f"({name}" not in index) == []


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
    assert [cluster.id for cluster in loaded.clusters] == (["orders"] if "[[clusters]]" in block.body else [])


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
    """Every query of the page about Spark SQL reads existing columns."""
    text = (ROOT / "docs" / "spark-sql.md").read_text(encoding="utf-8")
    queries = re.findall(r"SELECT ([\w, *]+) FROM delta\.\\?`(?:\$PWD|/srv/ballast)/warehouse/(\w+)\\?`", text)
    assert len(queries) >= 7
    for columns, table in queries:
        assert set(columns.split(", ")) - {"*"} <= set(ALL[table].names), table


def test_commands_of_pages_are_valid() -> None:
    """The parser accepts every command line that begins a line of a page, and the pages show each command."""
    bodies = [block.body.replace("\\\n", " ") for block in blocks("text", pages=DOCS)]
    lines = re.findall(r"^\./ballast (.*)$", "\n".join(bodies), re.MULTILINE)
    parsed = [parser().parse_args(shlex.split(line)) for line in lines]
    commands = {"show", "report", "approve", "revoke", "run", *STEERING, "rollback", "wave", "verify", "tidy"}
    assert {options.command for options in parsed} >= commands
    wave = (ROOT / "docs" / "wave.md").read_text(encoding="utf-8")
    assert re.findall(r"^\./ballast wave (\w+)", wave, re.MULTILINE) == list(STEPS)[:5]
    assert all(f"`{step}` |" in wave for step in STEPS)


def test_commands_of_the_page_on_asking_are_valid() -> None:
    """The parser accepts every command line of the page."""
    bodies = [block.body.replace("\\\n", " ") for block in blocks("sh", pages=(ROOT / "docs" / "asking.md",))]
    lines = [line for body in bodies for line in body.splitlines()]
    commands = [parser().parse_args(shlex.split(line)[1:]).command for line in lines if line.startswith("./ballast ")]
    assert set(commands) == {"ask", "judge", "compare"}
