"""Check that a change leaves plans equal: ``python -m benchmarks.as_before record`` before it, ``compare`` after it.

It makes a digest of every column of every table from the snapshot to the waves, in the order of the table's key, except
columns that may differ between two runs of the same code; and of the sizes of the linear programs. New, removed and
changed columns are reported separately. The record is ``.build/as-before.json``.

sample      the bundled sample cluster
S-expand    one small cluster, in its own job
S, M, XL    instances of ``benchmarks.generate``, each size as one fleet
odd         instances of ``benchmarks.odd``
fleet       300 small clusters with requests of every kind, from the snapshot on (``benchmarks.fuzz.unusual_clusters``)
programs    sizes of all linear programs of S and M, without Spark
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import schemas
from benchmarks.generate import SCENARIOS, generate
from benchmarks.odd import ODD, generate_odd
from benchmarks.programs import programs_of
from benchmarks.run import BAND_NAMES, DRAINED
from benchmarks.small_fleet import planned_fleet
from benchmarks.tables import read_table

HOME = Path(__file__).resolve().parent.parent
RUN = "as-before"
TABLES = (
    *("instance", "instance_brokers", "baseline", "proposal", "moves", "leaders", "leader_bounds", "shard_results"),
    *("bounds", "curve", "findings", "plan", "waves", "throttles", "broker_balance", "plan_summary"),
)
Row = Mapping[str, Any]
Instance = Mapping[str, Any]
Columns = dict[str, str]
# Digest by cluster, table and column.
Digests = dict[str, dict[str, Columns]]


def digest(table: str, rows: Sequence[Row]) -> Columns:
    """A digest of each column, with the rows in the order of the table's key; and the number of rows."""
    contract = schemas.ALL[table]
    ordered = sorted(rows, key=lambda row: repr([row[name] for name in ("cluster_id", *contract.key)]))
    names = [column.name for column in contract.columns if column.name not in (*contract.volatile, "run_id")]
    column_digests = {name: sha256(repr([row[name] for row in ordered]).encode()).hexdigest()[:16] for name in names}
    return {"(rows)": str(len(rows)), **column_digests}


def by_cluster(table: str, rows: Sequence[Row]) -> Iterator[tuple[str, Columns]]:
    """Digest of a table, cluster by cluster."""
    by = itemgetter("cluster_id")
    for cluster, cluster_rows in groupby(sorted(rows, key=by), by):
        yield cluster, digest(table, list(cluster_rows))


def of_warehouse(warehouse: Path) -> Digests:
    """Digests of all tables of a run."""
    digests: Digests = {}
    for table in TABLES:
        for cluster, columns in by_cluster(table, read_table(warehouse, table)):
            digests.setdefault(cluster, {})[table] = columns
    return digests


def configuration(instances: Mapping[str, Instance], bands: Mapping[str, float], folder: Path) -> str:
    """The TOML of a fleet; its inputs are written to ``folder``."""
    lines = []
    for name, instance in instances.items():
        source = folder / "input" / name
        source.mkdir(parents=True)
        (source / "instance.json").write_text(json.dumps(instance), encoding="utf-8")
        leaving = {b["id"] for b in instance["brokers"] if b.get("state") in DRAINED}
        drained = sorted(leaving | set(instance.get("decommission") or []))
        lines += ["[[clusters]]", f'id = "{name}"', f'input = "{source}"', 'captured_at = "2026-01-01T00:00:00Z"']
        lines += ['kafka_version = "4.3"', f"drain_brokers = {drained}"]
    widths = [f"{BAND_NAMES[name]} = {float(width)}" for name, width in bands.items()]
    places = [f'warehouse = "{folder / "warehouse"}"', f'output = "{folder / "out"}"']
    return "\n".join([*lines, "[storage]", *places, "[policy]", *widths, ""])


def of_instances(instances: Mapping[str, Instance]) -> Digests:
    """Plan instances; those with the same bands are one fleet."""

    def bands(name: str) -> list[tuple[str, float]]:
        return sorted((instances[name].get("meta", {}).get("bands") or {}).items())

    digests: Digests = {}
    for widths, names in groupby(sorted(instances, key=bands), bands):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            config = folder / "fleet.toml"
            config.write_text(configuration({name: instances[name] for name in names}, dict(widths), folder))
            code = subprocess.run(
                [str(HOME / "spark-submit.sh"), "pipeline", "--config", str(config), "--run-id", RUN],
                stdout=subprocess.DEVNULL,
                check=False,
            ).returncode
            if code:
                raise SystemExit(f"the run ended with {code}")
            digests |= of_warehouse(folder / "warehouse")
    return digests


def of_sample() -> Digests:
    """Plan the bundled sample."""
    with tempfile.TemporaryDirectory() as name:
        folders = ["--warehouse", f"{name}/warehouse", "--output", f"{name}/out", "--run-id", RUN]
        command = [str(HOME / "spark-submit.sh"), "pipeline", "--config", str(HOME / "conf/sample.toml"), *folders]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return of_warehouse(Path(name) / "warehouse")


def generated(size: str, scenarios: Sequence[str], seeds: Sequence[int]) -> dict[str, Instance]:
    """Instances by name."""
    return {f"{size}-{s}-{seed}": generate(size, s, seed) for s in scenarios for seed in seeds}


def of_fleet() -> Digests:
    """The 300 small clusters; those with the same policy are one fleet."""
    return {
        name: {table: digest(table, rows) for table, rows in tables.items()} for name, tables in planned_fleet().items()
    }


def of_programs() -> Digests:
    """Sizes of the linear programs."""
    instances = generated("S", SCENARIOS, (1, 2)) | generated("M", ("drift", "uneven", "decom"), (1,))
    return {name: {"programs": programs_of(instance)} for name, instance in instances.items()}


GROUPS: Mapping[str, Callable[[], Digests]] = {
    "sample": of_sample,
    "S-expand": lambda: of_instances(generated("S", ("expand",), (1,))),
    "fleet": of_fleet,
    "programs": of_programs,
    "S": lambda: of_instances(generated("S", SCENARIOS, (1, 2))),
    "odd": lambda: of_instances({f"odd-{name}": generate_odd(name) for name in ODD}),
    "M": lambda: of_instances(generated("M", ("drift", "uneven", "decom"), (1,))),
    "XL": lambda: of_instances(generated("XL", ("expand",), (1,))),
}


def differences(before: Mapping[str, Mapping[str, Columns]], after: Digests) -> Iterator[str]:
    """The differences, one line per table of a cluster."""
    for cluster in sorted({*before, *after}):
        for table in sorted({*before.get(cluster, {}), *after.get(cluster, {})}):
            old, new = before.get(cluster, {}).get(table, {}), after.get(cluster, {}).get(table, {})
            changes = {
                "changed": [name for name in old if name in new and old[name] != new[name]],
                "new": [name for name in new if name not in old],
                "gone": [name for name in old if name not in new],
            }
            if any(changes.values()):
                words = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in changes.items() if names)
                yield f"{cluster} {table}: {words}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Record or compare; returns 1 if something differs, 2 if there is no record to compare with."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.as_before", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--file", type=Path, default=HOME / ".build/as-before.json")
    parsed = parser.parse_args(arguments)
    recorded: dict[str, Digests] = json.loads(parsed.file.read_text()) if parsed.file.exists() else {}
    missing = [group for group in parsed.only if group not in recorded]
    if parsed.what == "compare" and missing:
        command = shlex.join([*parser.prog.split(), "record", "--only", *missing, "--file", str(parsed.file)])
        names = ", ".join(missing)
        parser.error(f"{parsed.file} has no record of {names}: on the code before the change, run {command}")
    differs = 0
    for group in parsed.only:
        began = time.monotonic()
        digests = GROUPS[group]()
        duration = f"{time.monotonic() - began:.0f} s"
        if parsed.what == "record":
            recorded[group] = digests
            parsed.file.parent.mkdir(parents=True, exist_ok=True)
            parsed.file.write_text(json.dumps(recorded, indent=1), encoding="utf-8")
            print(f"{group}: recorded, {duration}", flush=True)
            continue
        lines = list(differences(recorded[group], digests))
        differs += len(lines)
        print(f"{group}: {'as before' if not lines else f'{len(lines)} tables differ'}, {duration}", flush=True)
        for line in lines:
            print(f"  {line}", flush=True)
    return int(differs > 0)


if __name__ == "__main__":
    sys.exit(main())
