"""The pipeline on real executors: what a standalone cluster plans is what one machine plans, byte for byte."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from setup.paths import HOME
from tests.cluster import standalone

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

RUN_ID = "standalone"
SECONDS = 1800
# Two shards, so that both executors have something to solve.
OPTIONS = ("--set", "solver.shard_brokers=7", "--set", "solver.rounds=2")


def _pipeline(home: Path, spark: Sequence[str]) -> dict[str, bytes]:
    """Run the job on the sample cluster; the files that it hands over, by their path."""
    folders = ("--warehouse", str(home / "warehouse"), "--output", str(home / "out"))
    job = ("pipeline", "--config", str(HOME / "conf" / "sample.toml"), "--run-id", RUN_ID, *folders, *OPTIONS)
    unset = {"PYTHONPATH", "PYSPARK_PYTHON", "SPARK_CONF_DIR", "JAVA_HOME"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    home.mkdir()
    result = subprocess.run(
        [str(HOME / "spark-submit.sh"), *spark, *job],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, f"{result.stdout[-4000:]}\n{result.stderr[-8000:]}"
    folder = home / "out" / RUN_ID / "sample"
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_real_executors_give_the_same_documents(tmp_path: Path) -> None:
    """Two executors on a standalone cluster give the documents of local[2], byte for byte."""
    with standalone.running(tmp_path / "cluster", workers=2, cores=1, memory="1g") as url:
        sizes = ("--driver-memory", "2g", "--executor-memory", "1g", "--conf", "spark.sql.shuffle.partitions=2")
        there = _pipeline(tmp_path / "executors", ("--master", url, *sizes))
        executors = sorted((tmp_path / "cluster").glob("worker-*/app-*/*/stdout"))
    here = _pipeline(tmp_path / "local", ("--master", "local[2]", "--driver-memory", "2g"))
    assert len(executors) == 2
    assert list(there) == list(here)
    assert [name for name, content in there.items() if content != here[name]] == []
    assert "reassignment.json" in there
