"""What a plan predicts happens on a real cluster: how long a wave takes, and which topics take no writes meanwhile.

Figures are printed (``pytest -rP`` shows them).
"""

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import permutations

import pytest

from execution.observed import Observed
from optimizer.domain import FindingCode
from optimizer.settings import Schedule
from tests.kafka import topics
from tests.kafka.lab import RACKS, Four
from tests.kafka.planned_wave import PlannedWave, planned_wave
from tour.cluster import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

METER_SECONDS = 12  # Kafka's throttles remember eleven seconds: after this time a wave starts like the first one
Lists = tuple[Sequence[int], Sequence[int]]
KB = 10**3


@dataclass
class Bench:
    """A cluster on which waves are executed one after the other, each with empty meters."""

    cluster: Cluster
    ended: float = field(default_factory=time.monotonic)
    created: list[str] = field(default_factory=list)

    def fill(
        self,
        topic: str,
        replicas: topics.Replicas,
        megabytes: Mapping[int, int],
        *,
        record_bytes: int = topics.RECORD_BYTES,
        min_isr: int = 1,
    ) -> None:
        """Create a topic and fill its partitions."""
        self.created.append(topic)
        topics.create(self.cluster, {topic: replicas}, min_insync_replicas=min_isr)
        topics.fill(self.cluster, topic, megabytes, record_bytes=record_bytes)

    def wait_for_meters(self) -> None:
        """Wait until the throttles have forgotten the last wave."""
        time.sleep(max(0.0, self.ended + METER_SECONDS - time.monotonic()))

    def clear(self) -> None:
        """End a wave: delete its topics."""
        self.ended = time.monotonic()
        topics.delete(self.cluster, *self.created)
        self.created.clear()


@pytest.fixture(scope="module")
def module_bench(four: Four) -> Bench:
    """The cluster that the waves of this module share."""
    return Bench(four.cluster)


@pytest.fixture
def bench(module_bench: Bench) -> Iterator[Bench]:
    """The cluster; the topics of a test are deleted at its end."""
    yield module_bench
    module_bench.clear()


@dataclass(frozen=True)
class Scene:
    """A wave of one topic: old and new lists and megabytes of its partitions, and what the schedule must know."""

    lists: Mapping[int, Lists]
    megabytes: Sequence[int]
    rate_mb_per_s: float = 2
    record_bytes: int = topics.RECORD_BYTES
    in_bytes_per_s: int = 0

    def schedule(self) -> Schedule:
        """A record over 16 kB is a batch; smaller ones are in batches of the producer's default."""
        return Schedule(throttle_mb_per_s=self.rate_mb_per_s, batch_kb=max(16, self.record_bytes / KB))


# Every broker sends a copy to every other one, so all ends are busy until the end. The copies are equal: with unequal
# ones chance decides more in so short a wave. Six of them (20 and 10 MB) took 21.1 to 26.6 s, predicted were 23 to 31.
DENSE = {number: ([source], [target]) for number, (source, target) in enumerate(permutations(RACKS, 2))}
RING = {0: ([1, 2], [1, 3]), 1: ([2, 3], [2, 4]), 2: ([3, 4], [3, 1]), 3: ([4, 1], [4, 2])}
SCENES = {
    "one bottleneck": Scene({0: ([1], [4]), 1: ([2], [4]), 2: ([3], [4])}, [14, 14, 14]),
    "dense": Scene(DENSE, [14] * len(DENSE)),
    "large batches": Scene({0: ([1], [2])}, [24], record_bytes=600_000),
    "live traffic": Scene(RING, [20, 20, 20, 20], rate_mb_per_s=1, in_bytes_per_s=200_000),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_wave_takes_the_time_that_the_plan_predicts(bench: Bench, name: str) -> None:
    """From the start of the reassignments until all copies are in sync: a time inside the interval of the plan."""
    scene, topic = SCENES[name], name.replace(" ", "-")
    old, new = ({number: lists[side] for number, lists in scene.lists.items()} for side in (0, 1))
    bench.fill(topic, old, dict(enumerate(scene.megabytes)), record_bytes=scene.record_bytes)
    bench.wait_for_meters()
    is_live = scene.in_bytes_per_s > 0
    with topics.live_traffic(bench.cluster, topic, list(old), scene.in_bytes_per_s) if is_live else nullcontext():
        wave = planned_wave(bench.cluster, {topic: new}, scene.schedule(), in_bytes_per_s=scene.in_bytes_per_s)
        row = wave.predicted()
        with wave.throttled():
            measured = wave.copy_seconds()
    least, expected, most = (row[f"{which}_seconds"] for which in ("least", "estimated", "most"))
    load = f"load {os.getloadavg()[0]:.1f}"
    sys.stdout.write(f"{name}: measured {measured:.1f} s, predicted {expected} s, {least} to {most} s, {load}\n")
    assert least <= measured <= most


STOPPED = {"moved": ([1], [2]), "raised": ([2], [2, 3, 4])}
TAKEN = {"three": ([3, 4, 1], [3, 4, 2])}
CHANGES: Mapping[str, Lists] = {**STOPPED, **TAKEN}


def test_the_plan_names_the_topics_that_take_no_writes(bench: Bench) -> None:
    """With min.insync.replicas=2 a topic of one replica takes writes; while it is moved or gets more replicas, every
    write is refused until a copy is in sync. A finding reports it. A topic of three replicas takes every write, and has
    no finding."""
    for topic, (old, _) in CHANGES.items():
        bench.fill(topic, {0: old}, {0: 6}, min_isr=2)
    proposed = {topic: {0: new} for topic, (_, new) in CHANGES.items()}
    wave = planned_wave(bench.cluster, proposed, Schedule(throttle_mb_per_s=1))
    assert wave.findings() == [(FindingCode.STOPS_WRITES, topic) for topic in sorted(STOPPED)]
    bench.wait_for_meters()
    with wave.throttled():
        outcomes = write_meanwhile(wave)
    sys.stdout.write(f"{outcomes}\n")
    assert all(re.fullmatch("w+r{5,}W+", outcomes[topic]) for topic in STOPPED)
    assert all(re.fullmatch("w{5,}W+", outcomes[topic]) for topic in TAKEN)


def write_meanwhile(wave: PlannedWave) -> dict[str, str]:
    """Write to each topic before, during and after a wave.

    Returns a letter for each write: ``w`` if it was taken, ``r`` if it was refused; the capital letter if a copy was in
    sync: of a taken write half a second later, of a refused one before it.
    """
    outcomes = dict.fromkeys(CHANGES, "")

    def write_to_all(before: Observed) -> Observed:
        taken = {topic: topics.is_written(producer, topic) for topic in CHANGES}
        time.sleep(0.5)
        after = topics.observe(wave.cluster)
        for topic, (old, _) in CHANGES.items():
            has_copy = bool((after if taken[topic] else before).in_sync[topic, 0] - set(old))
            letter = "w" if taken[topic] else "r"
            outcomes[topic] += letter.upper() if has_copy else letter
        return after

    with topics.single_writes(wave.cluster) as producer:
        now = write_to_all(topics.observe(wave.cluster))
        wave.start()
        now = write_to_all(now)
        while now.in_flight:
            now = write_to_all(now)
        write_to_all(now)
    return outcomes
