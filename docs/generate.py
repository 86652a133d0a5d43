"""Write docs/tables.md from schemas/ and docs/configuration.md from conf/default.toml.

Run ``python -m docs.generate`` in the project's environment; a test compares the stored pages with what this makes.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import schemas
from schemas import Table

ROOT = Path(__file__).resolve().parents[1]
KNOB = re.compile(r"(?P<name>\w+) = (?P<value>.*?)(?:\s+# (?P<comment>.*))?")
LAYERS = {
    "runs": "Audit trail",
    "verdicts": "How each cluster stands",
    "bronze": "Bronze: what the sources said",
    "silver": "Silver: the cluster, clean and typed",
    "planning": "Planning: instance, solution, proof",
    "output": "Output: the plan and its documents",
    "execution": "Execution: approvals, and what was done",
}

TIME_TRAVEL = """\
## Time travel

The rows of a run are the rows with its `run_id` in the newest version of a table. A job that continues a run needs no
older version. Delta reads versions back for a week (`delta.deletedFileRetentionDuration`, 168 hours), if no `VACUUM`
has removed their files. A site that wants more sets this property and `delta.logRetentionDuration`, and pays with the
space of every replaced file. What is read by version:

- a stage, rows that its own process wrote: another process that works on the same run changes nothing for it;
- [reading plans](reading-plans.md) and [operations](operations.md#run-again-recompute-a-past-plan), what an attempt
  wrote before a later attempt at the same run replaced it;
- a test of the pipeline: the recorded input gives the recorded plan again.

The versions in `runs` are evidence. They say from which rows a plan was made, and whether a later attempt replaced
them.

"""


@dataclass(frozen=True)
class Knob:
    """One line ``name = value  # comment`` of a section."""

    section: str
    name: str
    value: str
    comment: str


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _table_section(table: Table) -> list[str]:
    lines = [f"### {table.name}", "", table.doc, "", "| column | type | null | meaning |", "|---|---|---|---|"]
    for field in table.columns:
        null = "yes" if field.nullable else ""
        comment = _cell(field.comment)
        lines.append(f"| `{field.name}` | {_cell(field.type)} | {null} | {comment} |")
    lines += ["", "Key: " + ", ".join(f"`{name}`" for name in table.full_key) + "."]
    lines += [f"Check `{name}`: `{condition}`." for name, condition in table.checks]
    if table.volatile:
        lines.append("Measured, so not compared between runs: " + ", ".join(f"`{v}`" for v in table.volatile) + ".")
    return [*lines, ""]


def tables_page() -> str:
    """The page docs/tables.md."""
    lines = [
        "# Tables",
        "",
        "Generated from `schemas/` by `python -m docs.generate`; do not edit by hand.",
        "",
        "Every table is a Delta table at `<warehouse>/<name>`. Columns are NOT NULL unless *null* says yes. Every",
        "table starts with `cluster_id` and `run_id`: one run can plan a fleet, and a run replaces its own rows only.",
        "",
    ]
    lines += TIME_TRAVEL.splitlines()
    for module, title in LAYERS.items():
        lines += [f"## {title}", ""]
        for table in getattr(schemas, module).TABLES:
            lines += _table_section(table)
    return "\n".join(lines).rstrip() + "\n"


def knobs(text: str) -> list[Knob]:
    """Every knob of a TOML file in which each stands on its own line.

    Raises
    ------
    ValueError
        For a line that is neither a knob with its comment, a section, a comment nor empty.
    """
    section, found = "", list[Knob]()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        match = KNOB.fullmatch(line)
        if match is None or not match["comment"]:
            raise ValueError(f"conf/default.toml line {number}: {line!r} is no knob; write name = value  # comment")
        found.append(Knob(section, match["name"], match["value"], match["comment"]))
    return found


def cluster_block(text: str) -> list[str]:
    """The commented ``[[clusters]]`` example of conf/default.toml, as TOML."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "[[clusters]]" in line)
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("#"))
    return [line.removeprefix("#").removeprefix("   ") for line in lines[start:end]]


def configuration_page() -> str:
    """The page docs/configuration.md."""
    text = (ROOT / "conf" / "default.toml").read_text(encoding="utf-8")
    lines = [
        "# Configuration",
        "",
        "Generated from `conf/default.toml` by `python -m docs.generate`; do not edit by hand.",
        "",
        "A run reads `conf/default.toml`, then the file given by `--config`, then the options of the command line;",
        "the later wins, key by key, lists whole. An unknown key, a wrong type or a value out of range stops the run",
        "at once with exit code 2 and names the key.",
        "",
        "`--drain`, `--demote`, `--exclude-brokers`, `--topics` and `--exclude-topics` may be repeated: their values",
        "add up. Any other option is given once, and a knob is set once, by its own option or by `--set`; otherwise",
        "the run stops with exit code 2. If an option replaces a list of the file, stderr names that list.",
        "",
        "## [[clusters]]",
        "",
        "One table for each cluster of the run. Paths are relative to the file that names them.",
        "",
        "```toml",
        *cluster_block(text),
        "```",
        "",
    ]
    section = ""
    for knob in knobs(text):
        if knob.section != section:
            section = knob.section
            lines += ["", f"## [{section}]", "", "| knob | default | unit, range, reason |", "|---|---|---|"]
        lines.append(f"| `{knob.name}` | `{knob.value}` | {_cell(knob.comment)} |")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def pages() -> dict[str, str]:
    """Every generated page, by its file name."""
    return {"tables.md": tables_page(), "configuration.md": configuration_page()}


def main() -> None:
    """Write the pages."""
    for name, content in pages().items():
        (ROOT / "docs" / name).write_text(content, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
