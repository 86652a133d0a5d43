"""Write plan.json and result.json of a benchmark run: ``python -m benchmarks.collect INSTANCE OUTDIR``."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.case import Case, apply_plan, read_case
from benchmarks.judge import movement
from benchmarks.tables import read_table

MIB = 2**20  # bytes in the MB of an instance
STATUS = {0: "planned", 3: "refused"}  # by exit code
EMPTY_PLAN: dict[str, Any] = {"version": 1, "partitions": []}  # version of Kafka's document format


def read_json(path: Path) -> Any:
    """The content of a JSON file; None if it is missing."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def moved_bytes(case: Case, plan: Mapping[str, Any]) -> int:
    """Bytes copied by a plan, each partition's size rounded to bytes as the parser does."""
    before = {
        name: {int(b) for b in case.broker_ids[row[row >= 0]]}
        for name, row in zip(case.names, case.replicas, strict=True)
    }
    size = {name: round(float(mb) * MIB) for name, mb in zip(case.names, case.size_mb, strict=True)}
    entries = ((p["topic"], p["partition"], set(p["replicas"])) for p in plan["partitions"])
    return sum(size[t, n] * len(replicas - before[t, n]) for t, n, replicas in entries)


def plan_figures(case: Case, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Moves, bytes and changes of a plan, from its document."""
    replicas, errors = apply_plan(case, plan)
    cost = movement(case, replicas)
    return {
        "moves": cost["moves"],
        "moved_bytes": moved_bytes(case, plan) if not errors else None,
        "moved_mb": round(cost["moved_mb"], 3),
        "partitions_changed": len(plan["partitions"]),
        "leader_changes": cost["leader_changes"],
        "errors": errors[:10],
    }


def bound_figures(warehouse: Path, moved: int | None) -> dict[str, Any]:
    """The proven bounds, the best of them, and the gap to it."""
    rows = sorted(read_table(warehouse, "bounds"), key=lambda r: str(r["kind"]))
    bounds = [{k: r[k] for k in ("kind", "bound_bytes", "is_best", "detail")} for r in rows]
    best = max(bounds, key=lambda r: (r["bound_bytes"], r["is_best"]), default=None)
    bound = best["bound_bytes"] if best else None
    gap = None
    if bound and moved is not None:
        gap = round((moved / bound - 1) * 100, 4)
    elif moved == 0:
        gap = 0.0
    kind = best["kind"] if best else None
    return {"bounds": bounds, "bound_bytes": bound, "bound_kind": kind, "gap_percent": gap}


def shard_figures(warehouse: Path) -> dict[str, Any]:
    """Size, time and memory of the shard solves."""
    rows = read_table(warehouse, "shard_results")
    seconds = [r["cpu_seconds"] for r in rows]
    return {
        "rounds": len({r["round"] for r in rows}),
        "solves": len(rows),
        "failed": sum(r["status"] == "FAILED" for r in rows),
        "cpu_seconds": round(sum(seconds), 3),
        "largest_cpu_seconds": round(max(seconds, default=0.0), 3),
        "peak_memory_bytes": max((r["peak_memory_bytes"] for r in rows), default=0),
    }


def default_figures(warehouse: Path) -> dict[str, Any]:
    """Moves and bytes of Kafka's default assignment."""
    rows = read_table(warehouse, "baseline")
    return {
        "moves": sum(r["added_replicas"] for r in rows),
        "moved_bytes": sum(r["moved_bytes"] for r in rows),
        "leader_changes": sum(r["leader_changed"] for r in rows),
        "refused_partitions": sum(r["error"] is not None for r in rows),
    }


def default_plan(warehouse: Path) -> dict[str, Any]:
    """Kafka's default assignment as a reassignment document."""
    rows = [r for r in read_table(warehouse, "baseline") if r["replicas"]]
    return {"version": 1, "partitions": [{k: r[k] for k in ("topic", "partition", "replicas")} for r in rows]}


def collect(instance_path: Path, folder: Path) -> dict[str, Any]:
    """Write plan.json and result.json into ``folder`` and return the result."""
    measured = read_json(folder / "measured.json")
    timings = read_json(folder / "out" / "bench" / "timings.json") or {"stages": [], "peak_memory_bytes": None}
    result = {"instance": instance_path.stem, "status": STATUS.get(measured["exit_code"], "failed"), **measured}
    if measured["exit_code"] == 0:
        plan = read_json(folder / "out" / "bench" / "bench" / "reassignment.json") or EMPTY_PLAN
        (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        result |= plan_figures(read_case(read_json(instance_path)), plan)
        result |= bound_figures(folder / "warehouse", result["moved_bytes"])
        result["kafka_default"] = default_figures(folder / "warehouse")
    result["shards"] = shard_figures(folder / "warehouse")
    result |= {"stages": timings["stages"], "peak_memory_bytes": timings["peak_memory_bytes"]}
    result["cpu_seconds"] = round(sum(s["cpu_seconds"] for s in timings["stages"]), 3)
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Collect, and print the result as one line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.collect", description="Write plan.json and result.json."
    )
    parser.add_argument("instance", type=Path)
    parser.add_argument("folder", type=Path)
    parsed = parser.parse_args(arguments)
    print(json.dumps(collect(parsed.instance, parsed.folder)))


if __name__ == "__main__":
    main()
