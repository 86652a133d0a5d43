"""Timings and counts of a run."""

import io
import json
from pathlib import Path
from typing import Any, cast

from optimizer.meter import Meter

SPARK = cast(Any, None)  # asked while a stage runs, and only then


def test_an_attempt_without_a_stage_leaves_the_figures_of_the_one_before(tmp_path: Path) -> None:
    """A run that is refused before its first stage writes no timings; a run with stages replaces them."""
    file = tmp_path / "run" / "timings.json"
    meter = Meter(SPARK, io.StringIO())
    meter.write(file)
    assert not file.exists()
    meter.stages.append({"stage": "ingest"})
    meter.write(file)
    Meter(SPARK, io.StringIO()).write(file)
    assert json.loads(file.read_text())["stages"] == [{"stage": "ingest"}]
