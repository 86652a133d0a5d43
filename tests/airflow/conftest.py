"""Fixtures of the tests with a real Airflow: the servers for all tests, and scenes on them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from setup.jars import is_ready
from setup.paths import HOME
from tests.airflow.scene import ONE, SCENES, TITLE, Field, MakeScene, Scene, Waves
from tests.airflow.server import START_SECONDS, Airflow, running
from tests.airflow.site import of_site, summarise
from tests.execution.warehouse import CLUSTER
from tests.kafka.lab import RACKS, TOOLS, labs
from tests.servers import RUNNING
from tour import cluster as kafka_cluster
from tour.cluster import write_tools


@pytest.fixture(scope="session")
def field(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Field:
    """Four brokers, and an Airflow with a copy of the DAG file for each of ``SCENES``."""
    if not all(is_ready(jars) for jars in TOOLS.values()):
        pytest.skip("Kafka's JARs are not there: run setup/kafka-jars.sh")
    home = tmp_path_factory.mktemp("field")
    tools = write_tools(home / "tools", TOOLS["4.3"])
    airflow = Airflow(home / "airflow")
    request.addfinalizer(RUNNING.close)
    kafka = RUNNING.enter_context(kafka_cluster.running(home / "kafka", RACKS))
    for scene, site in SCENES.items():
        config = home / f"{scene}.toml"
        config.write_text(site.settings.format(home=home, scene=scene, servers=kafka.bootstrap))
        site_values = {
            "clusters": (CLUSTER,),
            "home": str(HOME),
            "config": str(config),
            "kafka_bin": str(tools),
        }
        quick = {"poll_seconds": 5, "retry_seconds": 3, "off_minutes": 0.1, "plan_age_hours": 1e9, "schedule": None}
        (airflow.dags / f"{scene}.py").write_text(of_site(scene, **{**site_values, **quick, **site.own}))
    RUNNING.enter_context(running(airflow))
    dag_ids = {f"{scene}_nightly" for scene in SCENES}
    airflow.until(lambda: dag_ids <= airflow.known(), "the files of DAGs", START_SECONDS)
    return Field(home, kafka, tools, airflow)


@pytest.fixture
def make_scene(field: Field) -> Iterator[MakeScene]:
    """Makes the topic and the plan of a scene; after a failed test the cluster is cleaned up."""
    scenes: list[Scene] = []
    with labs(field.kafka, {"4.3": field.tools}, field.home) as make:

        def new_scene(name: str, waves: Waves = ONE, *, megabytes: int = 8, **own: Any) -> Scene:
            lab = make(name, waves, megabytes=megabytes, **own)
            if "decision" not in own:
                summarise(lab.warehouse, "1 move\n", json.dumps({"title": TITLE, "text": "First screen"}))
            scenes.append(Scene(name, field.airflow, lab))
            return scenes[-1]

        yield new_scene
        if not field.kafka.is_running(3):
            field.kafka.start_broker(3)
        for scene in scenes:
            if scene.lab.now().throttles:
                scene.lab.step("off", 1, "--on-failure", "cancel")
