"""A wave of a plan on a real Airflow with a real Kafka: helpers to start and check it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.airflow.server import Airflow
from tests.airflow.site import SETTINGS
from tests.execution.warehouse import CLUSTER, RUN, load_plan
from tests.kafka.cluster import Cluster
from tests.kafka.lab import Lab

ONE = [{0: ([1, 2], [1, 3])}]
WAVE = f"{RUN}__wave-001"
STEPS = ("preflight", "begin", "throttle", "execute", "wait", "off", "verify", "more")


@dataclass(frozen=True)
class Site:
    """The site of a scene: its values in the DAG file, and its settings."""

    own: Mapping[str, object] = field(default_factory=dict)
    settings: str = SETTINGS


NIGHT = """\
[[clusters]]
id = "shop"
bootstrap_servers = "{servers}"
kafka_version = "4.3"
drain_brokers = [4]
[[clusters]]
id = "torn"
input = "{home}/torn"
[[clusters]]
id = "gone"
input = "{home}/nowhere"
[schedule]
waves = 2
throttle_mb_per_s = 1
[storage]
warehouse = "{home}/{scene}"
output = "{home}/out"
"""
NIGHTLY = {"clusters": ("shop", "torn", "gone"), "approvers": ("ann",), "retries": 0}
# The scenes of test_dags.py, then those of test_deaths.py.
SCENES: Mapping[str, Site] = {
    "unanswered": Site({"answer_hours": 4 / 3600}),
    "changed": Site(),
    "recreated": Site(),
    "nightly": Site(NIGHTLY, NIGHT),
    # Enough time for checks until Kafka has fenced the broker.
    "dead": Site({"wave_hours": 45 / 3600}),
    "cancelled": Site({"wave_hours": 20 / 3600, "on_late_wave": "cancel"}),
    "killed": Site(),
    "stopped": Site(),
}


@dataclass
class Field:
    """One Kafka and one Airflow for all scenes."""

    home: Path
    kafka: Cluster
    tools: Path
    airflow: Airflow


@dataclass
class Scene:
    """A site with a plan of its cluster and its DAGs."""

    name: str
    airflow: Airflow
    lab: Lab

    @property
    def asking(self) -> str:
        """Id of the DAG that asks for approval."""
        return f"{self.name}_approval__{CLUSTER}"

    @property
    def waving(self) -> str:
        """Id of the DAG that executes waves."""
        return f"{self.name}_wave__{CLUSTER}"

    def wave(self) -> str:
        """Start the wave as if the plan had been approved before; returns the id of its run."""
        manifest = load_plan(self.lab.warehouse).manifest_sha256
        self.airflow.trigger(self.waving, WAVE, {"plan": RUN, "wave": "1", "waves": "1", "manifest": manifest})
        return WAVE

    def copying(self) -> None:
        """Wait until the copies of the wave run, and no command runs.

        If a broker dies while a command runs, the command may wait half a minute for it, as Kafka's tools do.
        """
        self.airflow.until(lambda: self.lab.copied_bytes(3) > 0, "a copy")
        self.airflow.until(
            lambda: self.airflow.tasks(self.waving, WAVE)["wait"] == "up_for_reschedule", "a first check"
        )

    def events(self) -> list[str]:
        """The recorded events of executions, in order."""
        rows = sorted(self.lab.warehouse.rows("executions"), key=lambda row: int(row["number"]))
        return [row["event"] for row in rows]

    def done(self) -> None:
        """Check the end of the wave: all tasks succeeded, planned lists, no throttles, executed and copied once."""
        ended = self.airflow.ended(self.waving, WAVE)
        assert ended == {"": "success", "next_wave": "skipped", "elect": "success", **dict.fromkeys(STEPS, "success")}
        assert (self.lab.lists(), self.lab.now().throttles) == ([(1, 3)], {})
        assert [self.events().count(event) for event in ("executed", "copied")] == [1, 1]
        assert self.events()[-1] == "released"


MakeScene = Callable[..., Scene]
