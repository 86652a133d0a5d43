#!/usr/bin/env python3
"""Plan one instance like a real run: ``benchmarks/run.py INSTANCE.json OUTDIR [options of spark-submit.sh]``.

Hands the instance to ``./spark-submit.sh pipeline`` and leaves in OUTDIR

plan.json    the reassignment document; an empty list of partitions when there is nothing to do
result.json  moves, bytes, bounds, gap, seconds by stage, peak memory (benchmarks/README.md)
log.txt      the output of the run

The policy comes from the instance: brokers in ``decommission`` and in states draining and removed are drained, and
``meta.bands`` sets the band widths. The system's Python can start this file, because it needs no package; the rest runs
in the project's environment. The exit code is that of the run.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent.parent
CLUSTER = RUN = "bench"
DRAINED = ("draining", "removed")
BAND_NAMES = {"count": "replicas_band", "disk": "disk_band", "in": "in_band"}


def configuration(instance: Mapping[str, Any], folder: Path) -> str:
    """The run's TOML: one cluster read from ``folder``/input, everything written below ``folder``."""
    drained_ids = set(instance.get("decommission") or [])
    drained = sorted(drained_ids | {b["id"] for b in instance["brokers"] if b.get("state") in DRAINED})
    bands = (instance.get("meta") or {}).get("bands") or {}
    widths = [f"{BAND_NAMES[name]} = {float(width)}" for name, width in sorted(bands.items()) if name in BAND_NAMES]
    lines = [
        "[[clusters]]",
        f"id = {json.dumps(CLUSTER)}",
        'input = "input"',
        'captured_at = "2026-01-01T00:00:00Z"',
        'kafka_version = "4.3"',
        "[storage]",
        f"warehouse = {json.dumps(str(folder / 'warehouse'))}",
        f"output = {json.dumps(str(folder / 'out'))}",
        "[policy]",
        f"drain_brokers = {drained}",
        *widths,
    ]
    return "\n".join(lines) + "\n"


def prepare(instance_path: Path, folder: Path) -> Path:
    """Prepare an empty run in ``folder`` and return its configuration file."""
    instance = json.loads(instance_path.read_text(encoding="utf-8"))
    for stale in ("input", "warehouse", "out"):
        shutil.rmtree(folder / stale, ignore_errors=True)
    for stale in ("plan.json", "result.json"):
        (folder / stale).unlink(missing_ok=True)
    (folder / "input").mkdir(parents=True)
    shutil.copyfile(instance_path, folder / "input" / "instance.json")
    config = folder / "bench.toml"
    config.write_text(configuration(instance, folder), encoding="utf-8")
    return config


def submit(config: Path, options: Sequence[str], log_path: Path) -> int:
    """Run the pipeline; its output goes to the log and to standard error."""
    submit_script = os.environ.get("BALLAST_SUBMIT", str(HOME / "spark-submit.sh"))
    command = [submit_script, *options, "pipeline", "--config", str(config), "--run-id", RUN]
    with (
        log_path.open("w", encoding="utf-8") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
    ):
        for line in process.stdout or ():
            log.write(line)
            sys.stderr.write(line)
    return process.returncode


def run(instance_path: Path, folder: Path, options: Sequence[str]) -> int:
    """Plan and collect; returns the exit code of the first step that fails, else 0."""
    config = prepare(instance_path, folder)
    began = time.monotonic()
    code = submit(config, options, folder / "log.txt")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured = {
        "exit_code": code,
        "wall_seconds": round(time.monotonic() - began, 3),
        "process_cpu_seconds": round(used.ru_utime + used.ru_stime, 3),
    }
    (folder / "measured.json").write_text(json.dumps(measured), encoding="utf-8")
    collect = [str(HOME / ".venv/bin/python"), "-m", "benchmarks.collect", str(instance_path), str(folder)]
    collected = subprocess.run(collect, env={**os.environ, "PYTHONPATH": str(HOME)}, check=False).returncode
    return code or collected


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/run.py", description="Plan one instance and leave plan.json and result.json in OUTDIR."
    )
    parser.add_argument("instance", type=Path, metavar="INSTANCE.json")
    parser.add_argument("folder", type=Path, metavar="OUTDIR")
    parsed, options = parser.parse_known_args(arguments)
    if not parsed.instance.is_file():
        parser.error(f"{parsed.instance} is not a file")
    return run(parsed.instance.resolve(), parsed.folder.resolve(), options)


if __name__ == "__main__":
    sys.exit(main())
