"""A wave of a plan on a real Airflow with a real Kafka: helpers to start and check it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.airflow.server import Airflow
from tests.airflow.site import SETTINGS
from tests.execution.warehouse import CLUSTER, RUN, load_plan
from tests.kafka.lab import Lab
from tour.cluster import Cluster

Waves = Sequence[Mapping[int, tuple[list[int], list[int]]]]
ONE: Waves = [{0: ([1, 2], [1, 3])}]
WAVE = f"{RUN}__wave-001"
TITLE = "c: 1.00 MB, 1 wave, 1 s to 2 s; all reached"
STEPS = ("preflight", "begin", "run", "off", "verify", "more")

OF_WAVES = ("held", "throttled", "starting", "executed", "copied", "cancelling", "cancelled", "removing", "released")


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
RULES = "[approval]\nmost_moved_bytes = 1e9\n"
# The scenes of test_dags.py, then those of test_deaths.py.
SCENES: Mapping[str, Site] = {
    "unanswered": Site({"answer_hours": 4 / 3600}),
    "changed": Site(),
    "recreated": Site(),
    "nightly": Site(NIGHTLY, NIGHT),
    "ruled": Site({"by_rules": True}, f"{SETTINGS}{RULES}"),
    # Enough time for checks until Kafka has fenced the broker; each watches for 3 s.
    "dead": Site({"wave_hours": 45 / 3600, "watch_minutes": 0.05}),
    "cancelled": Site({"wave_hours": 20 / 3600, "watch_minutes": 0.05, "on_late_wave": "cancel"}),
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

    def wave(self, waves: int = 1) -> str:
        """Start the first wave as if the plan had been approved before; returns the id of its run."""
        manifest = load_plan(self.lab.warehouse).manifest_sha256
        conf = {"plan": RUN, "wave": "1", "waves": str(waves), "manifest": manifest}
        self.airflow.trigger(self.waving, WAVE, conf)
        return WAVE

    def copying(self) -> None:
        """Wait until the copies of the wave run."""
        self.airflow.until(lambda: self.lab.copied_bytes(3) > 0, "a copy")

    def events(self) -> list[str]:
        """The recorded events of waves, in order; without those of processes and elections."""
        return [event for event in self.lab.events() if event in OF_WAVES]

    def done(self) -> None:
        """Check the end of the wave: all tasks succeeded, planned lists, no throttles, executed and copied once."""
        ended = self.airflow.ended(self.waving, WAVE)
        assert ended == {"": "success", "next_wave": "skipped", "elect": "success", **dict.fromkeys(STEPS, "success")}
        assert (self.lab.lists(), self.lab.now().throttles) == ([(1, 3)], {})
        assert [self.events().count(event) for event in ("starting", "copied")] == [1, 1]
        assert self.events()[-1] == "released"


MakeScene = Callable[..., Scene]
