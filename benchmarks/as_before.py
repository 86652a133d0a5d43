"""Whether plans are what they were: ``python -m benchmarks.as_before record`` before a change, ``compare`` after it.

Every column of every table from the snapshot to the waves is digested, in the order of the table's key, less what may
differ between two runs of the same code; so are the sizes of the linear programs. A column that is new or gone is told
apart from one whose values changed. What was recorded lies in ``.build/as-before.json``.

sample      the bundled sample cluster
S-expand    one small cluster, as a job of its own
S, M, XL    instances of ``benchmarks.generate``, each size as one fleet
odd         instances of ``benchmarks.odd``
fleet       300 small clusters with all that can be asked for, from the snapshot on (``benchmarks.fuzz.odd_clusters``)
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
    """What each column of a table holds, in the order of the table's key; and how many rows there are."""
    contract = schemas.ALL[table]
    ordered = sorted(rows, key=lambda row: repr([row[name] for name in ("cluster_id", *contract.key)]))
    names = [column.name for column in contract.columns if column.name not in (*contract.volatile, "run_id")]
    told = {name: sha256(repr([row[name] for row in ordered]).encode()).hexdigest()[:16] for name in names}
    return {"(rows)": str(len(rows)), **told}


def by_cluster(table: str, rows: Sequence[Row]) -> Iterator[tuple[str, Columns]]:
    """Digest of a table, cluster by cluster."""
    by = itemgetter("cluster_id")
    for cluster, mine in groupby(sorted(rows, key=by), by):
        yield cluster, digest(table, list(mine))


def of_warehouse(warehouse: Path) -> Digests:
    """Digests of all tables of a run."""
    found: Digests = {}
    for table in TABLES:
        for cluster, columns in by_cluster(table, read_table(warehouse, table)):
            found.setdefault(cluster, {})[table] = columns
    return found


def configuration(instances: Mapping[str, Instance], bands: Mapping[str, float], folder: Path) -> str:
    """The TOML of a fleet; inputs are written beside it."""
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
    """Plan instances, those with the same bands as one fleet."""

    def bands(name: str) -> list[tuple[str, float]]:
        return sorted((instances[name].get("meta", {}).get("bands") or {}).items())

    found: Digests = {}
    for widths, names in groupby(sorted(instances, key=bands), bands):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            config = folder / "fleet.toml"
            config.write_text(configuration({one: instances[one] for one in names}, dict(widths), folder))
            code = subprocess.run(
                [str(HOME / "spark-submit.sh"), "pipeline", "--config", str(config), "--run-id", RUN],
                stdout=subprocess.DEVNULL,
                check=False,
            ).returncode
            if code:
                raise SystemExit(f"the run ended with {code}")
            found |= of_warehouse(folder / "warehouse")
    return found


def of_sample() -> Digests:
    """Plan the bundled sample."""
    with tempfile.TemporaryDirectory() as name:
        where = ["--warehouse", f"{name}/warehouse", "--output", f"{name}/out", "--run-id", RUN]
        command = [str(HOME / "spark-submit.sh"), "pipeline", "--config", str(HOME / "conf/sample.toml"), *where]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return of_warehouse(Path(name) / "warehouse")


def generated(size: str, scenarios: Sequence[str], seeds: Sequence[int]) -> dict[str, Instance]:
    """Instances by name."""
    return {f"{size}-{s}-{seed}": generate(size, s, seed) for s in scenarios for seed in seeds}


def of_fleet() -> Digests:
    """The 300 small clusters, those under one policy together."""
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
    """What differs, a line for each table of each cluster."""
    for cluster in sorted({*before, *after}):
        for table in sorted({*before.get(cluster, {}), *after.get(cluster, {})}):
            old, new = before.get(cluster, {}).get(table, {}), after.get(cluster, {}).get(table, {})
            told = {
                "changed": [name for name in old if name in new and old[name] != new[name]],
                "new": [name for name in new if name not in old],
                "gone": [name for name in old if name not in new],
            }
            if any(told.values()):
                words = "; ".join(f"{what}: {', '.join(names)}" for what, names in told.items() if names)
                yield f"{cluster} {table}: {words}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Record or compare; 1 when something differs, 2 where there is no record to compare with."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.as_before", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--file", type=Path, default=HOME / ".build/as-before.json")
    asked = parser.parse_args(arguments)
    recorded: dict[str, Digests] = json.loads(asked.file.read_text()) if asked.file.exists() else {}
    missing = [group for group in asked.only if group not in recorded]
    if asked.what == "compare" and missing:
        command = shlex.join([*parser.prog.split(), "record", "--only", *missing, "--file", str(asked.file)])
        names = ", ".join(missing)
        parser.error(f"{asked.file} has no record of {names}: on the code before the change, run {command}")
    differs = 0
    for group in asked.only:
        began = time.monotonic()
        found = GROUPS[group]()
        took = f"{time.monotonic() - began:.0f} s"
        if asked.what == "record":
            recorded[group] = found
            asked.file.parent.mkdir(parents=True, exist_ok=True)
            asked.file.write_text(json.dumps(recorded, indent=1), encoding="utf-8")
            print(f"{group}: recorded, {took}", flush=True)
            continue
        lines = list(differences(recorded[group], found))
        differs += len(lines)
        print(f"{group}: {'as before' if not lines else f'{len(lines)} tables differ'}, {took}", flush=True)
        for line in lines:
            print(f"  {line}", flush=True)
    return int(differs > 0)


if __name__ == "__main__":
    sys.exit(main())
