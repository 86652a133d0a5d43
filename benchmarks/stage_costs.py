"""Prints the CPU seconds of each stage for the bundled sample and an instance of 100 brokers, so that a loss is seen.

``python -m benchmarks.stage_costs [FOLDER]``: the files of the runs stay in FOLDER, if one is given.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import run
from benchmarks.generate import generate

SAMPLE = "sample"
INSTANCE = ("M", "expand", 1)  # size, scenario and seed: large enough that Spark and the solver cost more than starting
_MB = 2**20  # bytes


def main(folder: Path) -> int:
    """Plan both, and print a line for each; returns the exit code of the first run that fails, else 0."""
    instance = folder / f"{'-'.join(map(str, INSTANCE))}.json"
    instance.write_text(json.dumps(generate(*INSTANCE)), encoding="utf-8")
    places = ("--warehouse", str(folder / "warehouse"), "--output", str(folder / "out"))
    sample = [str(run.HOME / "spark-submit.sh"), "pipeline", "--config", str(run.HOME / "conf" / "sample.toml")]
    code = subprocess.run([*sample, "--run-id", SAMPLE, *places], check=False).returncode
    code = code or run.run(instance, folder / instance.stem, ())
    for name, timings in ((SAMPLE, folder / "out" / SAMPLE), (instance.stem, folder / instance.stem / "out" / run.RUN)):
        if (timings / "timings.json").exists():
            print(line(name, json.loads((timings / "timings.json").read_text(encoding="utf-8"))))
    return code


def line(name: str, timings: Mapping[str, Any]) -> str:
    """CPU seconds by stage, their sum, and the peak of the memory."""
    seconds = {stage["stage"]: stage["cpu_seconds"] for stage in timings["stages"]}
    stages = ", ".join(f"{stage} {spent:.0f}" for stage, spent in seconds.items())
    return f"{name}: {sum(seconds.values()):.0f} CPU seconds ({stages}), {timings['peak_memory_bytes'] / _MB:.0f} MiB"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary).absolute()))
