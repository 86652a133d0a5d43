"""All benchmarks: generate, plan, judge, compare with Kafka's default; ``benchmarks/bench.sh --help``."""

import argparse
import json
import os
import platform
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.case import load_case
from benchmarks.collect import default_plan, read_json
from benchmarks.generate import SCENARIOS, SIZES, generate
from benchmarks.judge import judge
from benchmarks.odd import ODD, generate_odd
from benchmarks.report import aligned, document, failed_row, merged, row, rows_of
from benchmarks.run import CLUSTER, RUN

HOME = Path(__file__).resolve().parent.parent
Maker = Callable[[], dict[str, Any]]
JUDGED_REPLICAS = 70_000  # replicas: up to M; the least for Kafka's default on larger ones takes minutes


def chosen(
    sizes: Sequence[str], scenarios: Sequence[str], seeds: Sequence[int], odd: Sequence[str], racks: int | None = None
) -> dict[str, Maker]:
    """Names and makers of the instances, in the order of the report; ``racks`` replaces the racks of each size."""
    makers: dict[str, Maker] = {}
    for size in sizes:
        for scenario in scenarios:
            for seed in seeds:
                label = f"{scenario} on {racks} racks" if racks else scenario
                makers[f"{size}-{label}-{seed}".replace(" ", "_")] = partial(generate, size, scenario, seed, racks)
    return makers | {f"odd-{name}-{seed}": partial(generate_odd, name, seed) for name in odd for seed in seeds}


def plan_and_judge(
    instance: Path, folder: Path, options: Sequence[str], *, steps: int, resume: bool = False
) -> dict[str, str]:
    """Plan one instance in its own process, judge the plan and return the row. With ``resume``, a result is reused."""
    if not (resume and (folder / "result.json").exists()):
        command = [sys.executable, str(HOME / "benchmarks/run.py"), str(instance), str(folder), *options]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    result = read_json(folder / "result.json")
    if result is None or result["status"] != "planned":
        return failed_row(result or {"instance": instance.stem, "status": "failed", "exit_code": "?"})
    case = load_case(instance)
    verdict = judge(case, read_json(folder / "plan.json"), steps=steps)
    (folder / "verdict.json").write_text(json.dumps(verdict, indent=1) + "\n", encoding="utf-8")
    default = default_plan(folder / "warehouse")
    over_least = default_over_least(folder, default) if (case.replicas >= 0).sum() <= JUDGED_REPLICAS else None
    return row(result, verdict, judge(case, default), over_least)


def default_over_least(folder: Path, default: Mapping[str, Any]) -> float | None:
    """Bytes of Kafka's default over the least for a plan as balanced; None if it leaves racks broken or drains undone.

    Measured by ``./ballast judge``.
    """
    document = folder / "default.json"
    document.write_text(json.dumps(default), encoding="utf-8")
    options = ["--warehouse", str(folder / "warehouse"), "--run-id", RUN, "--cluster", CLUSTER]
    command = [str(HOME / "ballast"), "judge", *options, "--plan", str(document), "--json"]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    (folder / "default_judged.json").write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    ratio = answer["times_least"]
    return None if ratio is None else float(ratio)


def machine(remark: str) -> str:
    """The machine of the measurement, and the remark."""
    measured_on = f"Measured on {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}."
    return textwrap.fill(f"{measured_on} {remark}".strip(), 120, break_long_words=False, break_on_hyphens=False)


def parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Options, and the options that are passed on to spark-submit.sh."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/bench.sh",
        description="Generate instances, plan and judge them; other options go to spark-submit.sh.",
    )
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=["S", "M"])
    parser.add_argument("--scenarios", nargs="*", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--racks", type=int, help="number of racks, instead of the size's own; not for uneven")
    parser.add_argument("--seeds", nargs="*", type=int, default=[1])
    parser.add_argument("--odd", nargs="*", choices=ODD, default=list(ODD), help="instances of unusual shape")
    parser.add_argument("--steps", type=int, default=0, help="the judge's own dual bound: 300 take minutes at M")
    parser.add_argument("--work", type=Path, default=HOME / ".build/benchmarks", help="folder of instances and runs")
    parser.add_argument("--resume", action="store_true", help="plan only instances without a result in the work folder")
    parser.add_argument("--report", type=Path, default=HOME / "docs/benchmark.md", help="the page to write")
    parser.add_argument("--keep", action="store_true", help="keep other instances that are on the page")
    parser.add_argument("--remark", default="", help="sentences for the page about the measurement")
    return parser.parse_known_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything, print each row and update the page after it; returns 1 if an instance could not be planned."""
    parsed, options = parse(arguments)
    old_rows = rows_of(parsed.report.read_text(encoding="utf-8")) if parsed.keep else []
    rows = []
    for name, make in chosen(parsed.sizes, parsed.scenarios, parsed.seeds, parsed.odd, parsed.racks).items():
        instance = parsed.work / "instances" / f"{name}.json"
        instance.parent.mkdir(parents=True, exist_ok=True)
        instance.write_text(json.dumps(make()), encoding="utf-8")
        rows.append(plan_and_judge(instance, parsed.work / name, options, steps=parsed.steps, resume=parsed.resume))
        parsed.report.write_text(document(merged(old_rows, rows), machine(parsed.remark)), encoding="utf-8")
        print(f"{name}: {rows[-1]['moves']} moves, gap {rows[-1]['gap %']} %", file=sys.stderr, flush=True)
    print(aligned(rows))
    print(f"\nwritten: {parsed.report}")
    return int(any(r["gap %"] == r["TB moved"] == "-" for r in rows))


if __name__ == "__main__":
    sys.exit(main())
