"""What all tests share: one Spark session for the whole run, and the folder of example files."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from optimizer.session import session
from setup import classes
from setup.jars import delta_jars
from setup.java import java, spark_java
from setup.paths import HOME

SHARED = HOME.parent / "shared"
# The suite is the same on every run; random search is the fuzz command's (benchmarks/fuzz).
settings.register_profile("suite", derandomize=True)
settings.register_profile("quick", derandomize=True, max_examples=20)
settings.load_profile("suite")

# Small data on few cores: fewer tasks are faster. One heap for all tests.
FAST = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the session, so that the quick ones can be told; and who runs beside whom.

    In several processes, those that need the session are all in one: it is made once, and its JVM gets fast. The
    others of a file are together, for many share what the file sets up. What takes longest begins first.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            group = "spark"
        else:
            group = item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """The session's group, then what waits for Airflow and Kafka, then what starts processes, then all others."""
    names = ("spark", "airflow", "kafka", "slow")
    return next((place for place, name in enumerate(names) if item.get_closest_marker(name)), len(names))


@pytest.fixture(scope="session")
def spark_environment() -> Iterator[None]:
    """Set what Spark reads from the environment; workers import our packages from the checkout."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON"):
            patch.delenv(name, raising=False)
        for name, value in spark_java().items():
            patch.setenv(name, value)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])]))
        patch.setenv("SPARK_CONF_DIR", str(HOME / "conf"))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield


@pytest.fixture(scope="session")
def spark(spark_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with Delta, made at the first test that asks for it; the settings are those of a real run.

    Where a run has left an archive of classes, it starts from that as runs do: 8 s of CPU time less.
    """
    jars = delta_jars()
    builder = SparkSession.builder.master("local[2]").appName("ballast tests")
    builder = builder.config("spark.jars", ",".join(map(str, jars)))
    builder = builder.config("spark.driver.extraClassPath", classes.class_path(jars))
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark-warehouse")))
    for name, value in FAST.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BALLAST_CLASSES", str(classes.archive(java(), jars)))
        made = session(builder)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of example files that lies beside the checkout, where it does."""
    if not SHARED.is_dir():
        pytest.skip(f"example files are not at {SHARED}")
    return SHARED
