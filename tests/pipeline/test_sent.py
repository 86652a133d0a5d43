"""A driver on another machine: it starts in an empty folder, with only what spark-submit has sent there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from execution.planned import load
from execution.tables import Warehouse
from setup import app_zip, site_conf
from setup.jars import delta_jars
from setup.java import spark_java
from setup.options import CommandLine
from setup.paths import HOME, spark_home
from tests.pipeline.test_fleet import folder_of

SETTINGS = """
[[clusters]]
id = "orders"
input = {input}
drain_brokers = [1]
[storage]
warehouse = {warehouse}
"""


@pytest.mark.slow
def test_a_driver_in_an_empty_folder_plans_with_what_was_sent(tmp_path: Path) -> None:
    """The zip, the job's file and the settings are enough: defaults come with the zip, and it says which code it is."""
    driver, warehouse = tmp_path / "driver", tmp_path / "tables"
    driver.mkdir()
    package = shutil.copy(app_zip.build(), driver)
    job = shutil.copy(HOME / "jobs" / "pipeline.py", driver)
    text = SETTINGS.format(input=f'"{folder_of(tmp_path, "in")}"', warehouse=f'"{warehouse}"')
    (driver / "orders.toml").write_text(text, encoding="utf-8")
    # What spark-submit reads on the machine that submits travels as properties.
    sent = site_conf.properties(CommandLine(), {"SPARK_CONF_DIR": str(tmp_path)})
    options = [word for pair in sent.items() for word in ("--conf", "=".join(pair))]
    options += ["--master", "local[2]", "--jars", ",".join(map(str, delta_jars())), "--py-files", str(package)]
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environ = {"PATH": os.environ["PATH"], "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(tmp_path), **python}
    submit = [str(spark_home() / "bin" / "spark-submit"), *options, str(job)]
    done = subprocess.run(
        [*submit, "--config", "orders.toml", "--run-id", "r"],
        cwd=driver,
        env={**environ, **spark_java(environ)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    plan = load(Warehouse(str(warehouse)), cluster_id="orders", run_id="r")
    assert plan.manifest["code_version"] == app_zip.code_version()
    assert plan.waves == {1: "wave-01"}
