"""Takes the pictures of docs/airflow.md: ``python -m tests.airflow.pictures`` with Chromium on the PATH.

A real Airflow with a real Kafka: a waiting question, and a failed wave with a dead target broker.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from setup.jars import KAFKA
from setup.paths import HOME
from tests.airflow.server import Airflow, running
from tests.airflow.site import SETTINGS, of_site, summarise
from tests.execution.warehouse import CLUSTER, RUN, load_plan
from tests.kafka.lab import RACKS, labs
from tour import cluster as kafka_cluster
from tour.cluster import write_tools

PICTURES = HOME / "docs" / "pictures"
GOLDEN = HOME / "tests" / "golden" / "small"


def shoot(airflow: Airflow, name: str, path: str) -> None:
    """Take a picture of a page."""
    browser = shutil.which("chromium") or sys.exit("chromium is not on the PATH")
    PICTURES.mkdir(exist_ok=True)
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,900"]
    late = "--virtual-time-budget=20000"
    url = f"{airflow.address}/auth/token/login?next={airflow.address}{path}"
    command = [browser, *options, late, f"--screenshot={PICTURES / name}.png", url]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def take(home: Path) -> None:
    """Take all pictures."""
    tools = write_tools(home / "tools", KAFKA)
    airflow = Airflow(home / "airflow")
    airflow.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS"] = "True"
    with kafka_cluster.running(home / "kafka", RACKS) as kafka:
        config = home / "site.toml"
        config.write_text(SETTINGS.format(home=home, scene="orders", servers=kafka.bootstrap))
        site = {"clusters": (CLUSTER,), "home": str(HOME), "config": str(config), "kafka_bin": str(tools)}
        quick = {"poll_seconds": 5, "off_minutes": 0.1, "plan_age_hours": 1e9, "retries": 0}
        late = {"wave_hours": 20 / 3600, "watch_minutes": 0.05}
        (airflow.dags / "ballast.py").write_text(of_site("ballast", **site, **quick, **late))
        with running(airflow), labs(kafka, {"4.3": tools}, home) as make:
            lab = make("orders", [{0: ([1, 2], [1, 3])}], megabytes=30)
            texts = ((GOLDEN / name).read_text() for name in ("summary.txt", "decision.json"))
            summarise(lab.warehouse, *texts)
            asking, waving = f"ballast_approval__{CLUSTER}", f"ballast_wave__{CLUSTER}"
            airflow.until(lambda: waving in airflow.known(), "the DAGs")
            airflow.trigger(asking, RUN, {"plan": RUN})
            airflow.until(lambda: airflow.tasks(asking, RUN).get("question") == "awaiting_input", "the question")
            shoot(airflow, "question", f"/dags/{asking}/runs/{RUN}/tasks/question/required_actions")
            run_id = f"{RUN}__wave-001"
            manifest = load_plan(lab.warehouse).manifest_sha256
            airflow.trigger(waving, run_id, {"plan": RUN, "wave": "1", "waves": "1", "manifest": manifest})
            airflow.until(lambda: lab.copied_bytes(3) > 0, "a copy")
            kafka.stop_broker(3, signal.SIGKILL)
            airflow.ended(waving, run_id)
            shoot(airflow, "failed-wave", f"/dags/{waving}/runs/{run_id}")
            kafka.start_broker(3)
            airflow.clear(waving, run_id, task_ids=["run"], include_downstream=True)
            airflow.ended(waving, run_id)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        take(Path(folder))
