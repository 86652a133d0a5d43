"""Fixtures and hooks of all tests: one Spark session for the whole run, and the folder of example files."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from optimizer.session import session
from setup import classes
from setup.jars import delta_jars
from setup.java import java, spark_java
from setup.paths import HOME
from tests.examples import DAILY, SEARCH
from tests.servers import RUNNING
from tests.tiers import Tiers

SHARED = HOME.parent / "shared"
# The suite has the same examples on every run. For random examples use benchmarks/fuzz or the profile ``search``.
settings.register_profile("suite", derandomize=True)
settings.register_profile(DAILY, derandomize=True)
settings.register_profile("search", derandomize=False, max_examples=SEARCH)
settings.register_profile("quick", derandomize=True, max_examples=10)
settings.load_profile("suite")

# Few tasks, because they are faster for small data on few cores. One heap for all tests: with 2 GB, a tenth of the CPU
# time of a long session was garbage collection. Local files without Hadoop's checksums, which start five hundred
# processes (chmod, readlink) in a run. Short plan descriptions, because nobody opens the page with the long ones.
FAST = {
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
}


def pytest_configure(config: pytest.Config) -> None:
    """Watch how long tests take, unless ``-p no:tiers`` is given."""
    config.pluginmanager.register(Tiers(), "tiers")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the session, so that quick tests can be selected; the longest tests start first.

    Files that wait for servers alternate with others: a Kafka cluster without work takes a quarter of a core, so few
    clusters should live at once.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: _order(item.path))
    waiting, working = dict[str, int](), dict[str, int]()
    for item in items:
        of_kind = waiting if item.path.parent.name in SERVERS else working
        of_kind.setdefault(_scope(item.path), len(of_kind))
    places = waiting | working
    items.sort(key=lambda item: (places[_scope(item.path)], item.path.parent.name not in SERVERS))


def _order(path: Path) -> int:
    """The order among files that wait for servers, and among the others: long ones first."""
    folders = (*SERVERS, "pipeline", "stages", "docs", "setup")
    return folders.index(path.parent.name) if path.parent.name in folders else len(folders)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the servers of a folder after its last test, because idle servers use CPU time."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        RUNNING.close()


SERVERS = ("airflow", "kafka", "tour")  # folders of tests that wait for Kafka or Airflow
# Files that share more than a Spark session: an Airflow, a Kafka, or a fleet that is planned once.
SHARING = {
    "airflow": ("test_dags.py", "test_deaths.py"),
    "kafka": (
        *("test_faults.py", "test_one_command.py", "test_predictions.py", "test_restart.py"),
        *("test_run.py", "test_stuck.py", "test_throttle_scripts.py", "test_waves.py"),
    ),
    "stages": ("test_factors.py", "test_limit.py", "test_topic_spread.py"),
}


def _scope(path: Path) -> str:
    """What runs in the same process: the tests of a file, because many share fixtures, or of files that share more."""
    return path.parent.name if path.name in SHARING.get(path.parent.name, ()) else "/".join(path.parts[-2:])


class _FileScheduling(LoadScopeScheduling):
    """Tests of a scope run in the same process."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(Path(nodeid.partition("::")[0]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Our scheduler instead of the one of ``--dist loadscope``."""
    return _FileScheduling(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def spark_environment() -> Iterator[None]:
    """Set Spark's environment variables; workers import our packages from the checkout."""
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
    """A local session with Delta and the settings of a real run, made for the first test that needs it.

    Like a run, it starts from the archive of classes if there is one: 8 s of CPU time less.
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
        result = session(builder)
    yield result
    result.stop()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of example files next to the checkout; skips the test if it is missing."""
    if not SHARED.is_dir():
        pytest.skip(f"example files are not at {SHARED}")
    return SHARED
