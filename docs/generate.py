"""Write docs/tables.md from schemas/ and docs/configuration.md from conf/default.toml.

Run ``python -m docs.generate`` in the project's environment. A test compares the stored pages with the generated ones.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import schemas
from optimizer.approval_setting import NoteCode
from schemas import Table

ROOT = Path(__file__).resolve().parents[1]
KNOB = re.compile(r"(?P<name>\w+) = (?P<value>.*?)(?:\s+# (?P<comment>.*))?")
LAYERS = {
    "runs": "Audit trail",
    "verdicts": "State of each cluster",
    "bronze": "Bronze: records of the sources",
    "silver": "Silver: clean and typed",
    "planning": "Planning: instance, solution, proof",
    "consumers": "Consumers: who reads, and who notices the plan",
    "output": "Output: the plan and its documents",
    "execution": "Execution: approvals and wave events",
}

TIME_TRAVEL = """\
## Time travel

The rows of a run are the rows with its `run_id` in the newest version of a table. A job that continues a run needs no
older version. Delta can read versions of the last week (`delta.deletedFileRetentionDuration`, 168 hours), unless a
`VACUUM` has removed their files. To keep more, set this property and `delta.logRetentionDuration`; every replaced file
then uses disk space for longer. These read by version:

- a stage reads the rows that its own process wrote, so another process on the same run changes nothing for it;
- [reading plans](reading-plans.md) and [runs](runs.md#run-again-recompute-a-past-plan) read the rows of an
  attempt that a later attempt replaced;
- a test of the pipeline checks that the recorded input gives the recorded plan again.

The versions in `runs` are evidence: they show from which rows a plan was made, and whether a later attempt replaced
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
        lines.append("Measured, not compared between runs: " + ", ".join(f"`{v}`" for v in table.volatile) + ".")
    return [*lines, ""]


def tables_page() -> str:
    """The page docs/tables.md."""
    lines = [
        "# Tables",
        "",
        "Generated from `schemas/` by `python -m docs.generate`; do not edit by hand.",
        "",
        "Every table is a Delta table at `<warehouse>/<name>`. Columns are NOT NULL unless *null* says yes. Every",
        "table starts with `cluster_id` and `run_id`: a run can plan a fleet, and replaces only its own rows.",
        "",
    ]
    lines += TIME_TRAVEL.splitlines()
    for module, title in LAYERS.items():
        lines += [f"## {title}", ""]
        for table in getattr(schemas, module).TABLES:
            lines += _table_section(table)
    return "\n".join(lines).rstrip() + "\n"


def knobs(text: str) -> list[Knob]:
    """Every knob of a TOML file with one knob per line.

    Raises
    ------
    ValueError
        For a line that is neither a knob with its comment, a section, a comment nor empty.
    """
    section, parsed = "", list[Knob]()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        match = KNOB.fullmatch(line)
        if match is None or not match["comment"]:
            raise ValueError(f"conf/default.toml line {number}: {line!r} is not a knob; write name = value  # comment")
        parsed.append(Knob(section, match["name"], match["value"], match["comment"]))
    return parsed


def example(text: str, heading: str) -> list[str]:
    """The commented example of conf/default.toml that begins with a heading, as TOML."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line == f"#   {heading}")
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
        "A run reads `conf/default.toml`, then the file of `--config`, then the options of the command line. Later",
        "values override earlier ones, key by key; a list is replaced as a whole. An unknown key, a wrong type or a",
        "value out of range stops the run immediately (exit code 2), and the message names the key.",
        "",
        "`--drain`, `--demote`, `--exclude-brokers`, `--topics` and `--exclude-topics` may be repeated: their values",
        "add up. Give any other option once, and set a knob once, by its own option or by `--set`; otherwise the run",
        "stops with exit code 2. If an option replaces a list of the file, stderr names that list.",
        "",
        "## [[clusters]]",
        "",
        "One TOML table for each cluster of the run. Paths are relative to the file that contains them.",
        "",
        "```toml",
        *example(text, "[[clusters]]"),
        "```",
        "",
        "## [approval]",
        "",
        "Rules of `./ballast approve --by-rules` ([approve](approve.md#approve-by-rules)). The section may be",
        "missing. A limit that is left out limits nothing; at least one is needed, and the rules approve no plan of a",
        "cluster without any limit. Limits are numbers from 0 to 10^18.",
        "No plan and no `config_hash` depends on this section.",
        "",
        "```toml",
        *example(text, "[approval]"),
        "```",
        "",
        f"Codes of notes: {', '.join(f'`{code}`' for code in NoteCode)}.",
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
