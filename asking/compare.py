"""The command ``compare``: reads two runs, and prints what changed between them."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from asking.comparison import STATES, Change, Comparison, PartitionChanges, PlanDifferences, Progress, compare, plain
from asking.comparison_words import answer
from asking.run_rows import RunRows, read_run
from asking.sections import text_lines, write_page
from optimizer.errors import ConfigError
from stored.tables import Warehouse

# Columns that are lists: texts in the frames.
_BROKERS = ("replicas", "current_replicas", "proposed_replicas", "now")
_CODES = ("reason_codes",)


def content(comparison: Comparison) -> dict[str, Any]:
    """The comparison for ``json.dumps``; a part whose rows are gone is null, and the run's ``notes`` say why."""
    a, b = comparison.runs
    return {
        "cluster_id": comparison.cluster_id,
        "a": _run(a),
        "b": _run(b),
        "requests": _changes(comparison.requests),
        "brokers": _changes(comparison.brokers),
        "topics": _changes(comparison.topics),
        "partitions": _partitions(comparison.partitions) if comparison.partitions else None,
        "figures": None if comparison.figures is None else records(comparison.figures),
        "plans": _plans(comparison.plans) if comparison.plans else None,
        "progress": _progress(comparison.progress) if comparison.progress else None,
        "waves": [asdict(wave) for wave in comparison.waves],
    }


def _run(run: RunRows) -> Mapping[str, Any]:
    captured_at = run.captured_at.isoformat() if run.captured_at else None
    names = {"run_id": run.run_id, "verdict": run.verdict, "code_version": run.code_version}
    return {**names, "captured_at": captured_at, "notes": list(run.notes)}


def _changes(changes: Sequence[Change] | None) -> list[dict[str, Any]] | None:
    return None if changes is None else [asdict(change) for change in changes]


def _partitions(partitions: PartitionChanges) -> dict[str, Any]:
    frames = ("added", "removed", "lists", "sizes", "rates", "topics")
    totals = {run: asdict(each) for run, each in zip("ab", partitions.totals, strict=True)}
    return {"totals": totals, **{name: records(getattr(partitions, name)) for name in frames}}


def _plans(plans: PlanDifferences) -> dict[str, Any]:
    by_reason = None if plans.by_reason is None else records(plans.by_reason)
    return {"by_reason": by_reason, "partitions": records(plans.partitions)}


def _progress(progress: Progress) -> dict[str, Any]:
    states = {state: {"partitions": progress.count(state), "bytes": progress.bytes(state)} for state in STATES}
    return {"states": states, "other_changes": progress.other_changes, "partitions": records(progress.partitions)}


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame as dictionaries; texts of lists are lists again."""
    columns = {str(name): [_value(str(name), value) for value in frame[name].tolist()] for name in frame.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _value(name: str, value: Any) -> Any:
    column = name.removesuffix("_a").removesuffix("_b")
    if column in _BROKERS or column in _CODES:
        items = value.split(",") if isinstance(value, str) and value else []
        return None if not isinstance(value, str) else [int(item) if column in _BROKERS else item for item in items]
    return plain(value)


def compare_runs(options: argparse.Namespace, warehouse: Warehouse) -> Iterator[str]:
    """Lines of the comparison that a command line requests; writes the page if it names a file.

    Raises
    ------
    ConfigError
        When both runs are the same.
    StageError
        When a run is unknown, or has no such cluster.
    Refused
        When the cluster has no plan in one of the runs.
    """
    a, b = options.runs
    if a == b:
        raise ConfigError(f"both runs are {a!r}: name two runs")
    comparison = compare(options.cluster, *(read_run(warehouse, run, options.cluster) for run in (a, b)))
    if options.html:
        write_page(options.html, answer(comparison))
    if options.json:
        yield json.dumps(content(comparison))
    else:
        yield from text_lines(answer(comparison))
