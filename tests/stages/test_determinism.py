"""The same instance gives the same tables, byte for byte, wherever and however often its tasks run."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from optimizer.stages.stage import Frames
from setup.paths import HOME
from tests.stages import placed, planned

pytestmark = pytest.mark.all_only

SECONDS = 600
MENDING_ROUNDS = 1


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> Frames:
    """What two cores make of the cluster."""
    return planned.solved(planned.run_of(spark), planned.cluster())


@pytest.fixture(scope="module")
def tables(frames: Frames) -> dict[str, bytes]:
    """The same as bytes."""
    return planned.solved_bytes(frames)


def _rows(tables: dict[str, bytes], name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tables[name].splitlines()]


def test_instance_asks_every_kind_of_round(tables: dict[str, bytes]) -> None:
    """Racks are repaired, a broker is drained and bands are met, in three rounds of up to four shards."""
    assert {row["reason"] for row in _rows(tables, "moves")} == {"drain", "rack", "balance"}
    shards = Counter(row["round"] for row in _rows(tables, "shard_results"))
    assert len(shards) >= 3
    assert max(shards.values()) >= 4


def test_the_placement_in_memory_gives_the_same_tables(frames: Frames) -> None:
    """What Spark makes of rounds that repair racks, within racks and over all racks, in several shards: every
    row of every table, to the last digit."""
    rows = planned.cluster()
    solved = placed.solved_in_process(rows["instance"], rows["instance_brokers"], planned.SETTINGS)
    assert placed.of_process(solved) == placed.of_frames({name: frames[name] for name in planned.SOLVED})


def test_other_partitions_change_nothing(spark: SparkSession, frames: Frames, tables: dict[str, bytes]) -> None:
    """Rows in the opposite order, in seven partitions and shuffled into eleven, give the same tables and documents."""
    run = planned.run_of(spark)
    documents = planned.document_bytes(run, frames)
    turned = {name: rows[::-1] for name, rows in planned.cluster().items()}
    usual = spark.conf.get("spark.sql.shuffle.partitions") or ""
    spark.conf.set("spark.sql.shuffle.partitions", "11")
    try:
        again = planned.solved(run, turned, slices=7)
        assert planned.solved_bytes(again) == tables
        assert planned.document_bytes(run, again) == documents
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", usual)


def test_one_core_and_retried_tasks_change_nothing(
    spark_environment: None, tables: dict[str, bytes], tmp_path: Path
) -> None:
    """One core instead of two, and a worker that dies at the first attempt at each shard, give the same tables."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.stages.planned", "local[1,4]", str(tmp_path)],
        cwd=HOME,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    for name, expected in tables.items():
        assert (tmp_path / name).read_bytes() == expected, name
    shards = _rows(tables, "shard_results")
    searched = [row for row in shards if row["candidates"] and row["round"] >= MENDING_ROUNDS]
    assert len(list((tmp_path / "deaths").iterdir())) == len(searched) > 0
