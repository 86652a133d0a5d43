"""The command ``compare``: reads two runs, and prints what changed between them."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from asking.comparison import compare
from asking.comparison_json import content
from asking.comparison_words import answer
from asking.run_rows import read_run
from asking.sections import page, text_lines
from optimizer.errors import ConfigError
from stored.tables import Warehouse


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
        Path(options.html).write_text(page(answer(comparison)), encoding="utf-8")
    if options.json:
        yield json.dumps(content(comparison))
    else:
        yield from text_lines(answer(comparison))
