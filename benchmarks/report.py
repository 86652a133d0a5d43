"""The table that compares plans: rows from results and verdicts, as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.generate import SCENARIOS, SIZES

TB_PER_MB = 2**20 / 1e12  # an instance's MB are 2^20 bytes, a TB is 10^12
HEAD = (
    "instance",
    "moves",
    "TB moved",
    "bound TB",
    "gap %",
    "disk max/mean",
    "outside bands",
    "rule breaks",
    "leader changes",
    "shard CPU-s",
    "all CPU-s",
    "wall s",
    "GiB",
    "default: moves",
    "default: TB",
    "default: disk max/mean",
    "default / least",
)
INTRO = """\
# Benchmark

Made by `benchmarks/bench.sh`; instances by `benchmarks/generate.py` and `benchmarks/odd.py`, each planned by
`benchmarks/run.py` through the same stages as a real run and judged by `benchmarks/judge.py`, which shares no code with
the planner. *Default* is what Kafka's own assignment would copy.

- **bound TB**: the largest proven lower bound, of the planner or the judge; **gap**: TB moved over it.
- **disk max/mean**, **outside bands**: before → after, over the brokers that stay. Where a band can't be met (a
  partition larger than it) brokers stay outside.
- **rule breaks**: duplicates, changed replication factors, rack violations, replicas on brokers to empty, full disks.
- **shard CPU-s**: the solver alone; **all CPU-s**, **wall s**: the whole job, Spark's start included; **GiB**: peak
  memory.
- **default / least**: bytes of Kafka's default over those of the plan that copies least among all plans as balanced as
  it, by `./ballast judge`; for instances of at most 70,000 replicas.
- 1 TB is 10^12 bytes.

"""
GROWTH = """
## How cost grows

Shard CPU-s / all CPU-s / wall s.

"""
RULES = ("duplicates", "rf_changed", "rack_violations", "on_brokers_to_empty", "over_capacity")


def rule_breaks(state: Mapping[str, Any]) -> int:
    """The number of hard rules that a judged placement breaks."""
    return sum(int(state[rule]) for rule in RULES)


def _tb(mb: float) -> str:
    return f"{mb * TB_PER_MB:.3f}"


def _change(verdict: Mapping[str, Any], *path: str) -> str:
    """A figure of the state before and after, with an arrow between."""
    values = []
    for side in ("before", "after"):
        value: Any = verdict[side]
        for name in path:
            value = value[name]
        values.append(f"{value:.3f}" if isinstance(value, float) else str(value))
    return " → ".join(values)


def row(
    result: Mapping[str, Any], verdict: Mapping[str, Any], default: Mapping[str, Any], over_least: float | None = None
) -> dict[str, str]:
    """One row: the run's result, the judge's verdict of its plan, and of Kafka's default.

    Parameters
    ----------
    over_least : float, optional
        Bytes of Kafka's default over the least for its balance.
    """
    own_bound_mb = (result["bound_bytes"] or 0) / 2**20
    bound_mb = max(own_bound_mb, verdict["bound_mb"])
    gap = "0" if not verdict["moved_mb"] else "-"
    if bound_mb:  # Sums of rounded megabytes may be slightly below the bound; + 0.0 avoids -0.000.
        gap = f"{round((verdict['moved_mb'] / bound_mb - 1) * 100, 3) + 0.0:.3f}"
    cells = (
        result["instance"],
        str(verdict["moves"]),
        _tb(verdict["moved_mb"]),
        _tb(bound_mb),
        gap,
        _change(verdict, "max_over_mean", "disk"),
        _change(verdict, "outside_bands"),
        f"{rule_breaks(verdict['before'])} → {rule_breaks(verdict['after'])}",
        str(verdict["leader_changes"]),
        f"{result['shards']['cpu_seconds']:.1f}",
        f"{result['cpu_seconds']:.0f}",
        f"{result['wall_seconds']:.0f}",
        f"{(result['peak_memory_bytes'] or 0) / 2**30:.1f}",
        str(default["moves"]),
        _tb(default["moved_mb"]),
        f"{default['after']['max_over_mean']['disk']:.3f}",
        "-" if over_least is None else f"{over_least:.3f}",
    )
    return dict(zip(HEAD, cells, strict=True))


def failed_row(result: Mapping[str, Any]) -> dict[str, str]:
    """The row of a run without a plan."""
    status = f"{result['status']}, exit code {result['exit_code']}"
    return dict.fromkeys(HEAD, "-") | {"instance": str(result["instance"]), "moves": status}


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """The rows as a Markdown table."""
    lines = [HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *([r[name] for name in HEAD] for r in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def aligned(rows: Sequence[Mapping[str, str]]) -> str:
    """The rows for a terminal: columns lined up."""
    table = [HEAD, *([r[name] for name in HEAD] for r in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEAD))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in table)


def rows_of(page: str) -> list[dict[str, str]]:
    """The rows of a page that ``document`` made."""
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return [dict(zip(HEAD, cells, strict=True)) for cells in lines if len(cells) == len(HEAD)][2:]


def _sort_key(instance: str) -> tuple[int, bool, int, str, int]:
    """Sort key of the page: size, the size's own racks first, scenario, seed; unusual instances last."""
    size, label, seed = instance.rsplit("-", 2)
    scenario = label.partition("_on_")[0]
    known = scenario in SCENARIOS
    return (
        list(SIZES).index(size) if size in SIZES else len(SIZES),
        label != scenario,
        list(SCENARIOS).index(scenario) if known else len(SCENARIOS),
        label,
        int(seed),
    )


def merged(rows: Sequence[Mapping[str, str]], new: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The rows of a page and new rows; a new row replaces the old row of its instance."""
    by_name = {r["instance"]: r for r in (*rows, *new)}
    return [by_name[name] for name in sorted(by_name, key=_sort_key)]


def document(rows: Sequence[Mapping[str, str]], machine: str) -> str:
    """The whole page."""
    return f"{INTRO}{machine}\n\n{markdown(rows)}{growth(rows)}"


def growth(rows: Sequence[Mapping[str, str]]) -> str:
    """The cost of each scenario by cluster size; empty if the rows have only one size."""
    cost = {tuple(r["instance"].rsplit("-", 2)): f"{r['shard CPU-s']} / {r['all CPU-s']} / {r['wall s']}" for r in rows}
    sizes = [size for size in SIZES if any(key[0] == size for key in cost)]
    if len(sizes) < 2:
        return ""
    names = {size: f"{size} ({SIZES[size].brokers} brokers)" for size in sizes}
    lines = [["scenario", *names.values()], ["---", *["---:"] * len(sizes)]]
    for scenario, seed in dict.fromkeys(key[1:] for key in cost if key[0] in sizes):
        lines.append([f"{scenario}-{seed}", *(cost.get((size, scenario, seed), "-") for size in sizes)])
    return GROWTH + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
