"""A plan of two waves on a fake cluster that copies at a rate while a fake clock runs."""

import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from execution import journal as book
from execution import moves, run, status, steer_command, steps, throttling, watch
from execution.actions import Action, Course, Look, Memory, Patience, next_actions, reaction
from execution.held import with_own_rates
from execution.in_charge import in_charge
from execution.journal import Journal
from execution.observed import Observed, Stored, Throttle, TopicPartition
from execution.planned import Plan
from execution.run import Limits, run_waves
from execution.steps import Execution
from execution.wanted import Wanted
from execution.watch import Watch
from execution.wave import Wave
from optimizer.kafka.throttle import FOLLOWER_RATE, LOG_DIR_RATE
from tests.execution import rows
from tests.execution.clock import Clock
from tests.execution.fake_kafka import FakeKafka, Kills, MemoryWarehouse
from tests.execution.scene import FakeTools
from tests.execution.warehouse import CLUSTER, RUN, VALID_HOURS, load_plan, load_wave, plan_of, write_plan

MB = 10**6
RATE = 10 * MB
SIZE = 100 * MB
FIRST = {("t", 0): ([1, 2], [1, 3]), ("t", 1): ([2, 1], [2, 3])}
SECOND = {("u", 0): ([4, 1], [4, 5])}
BEFORE = {partition: tuple(before) for partition, (before, _) in (FIRST | SECOND).items()}
AFTER = {partition: tuple(after) for partition, (_, after) in (FIRST | SECOND).items()}
LISTS = [{"topic": t, "partition": p, "replicas": after} for (t, p), (_, after) in (FIRST | SECOND).items()]
REASSIGNMENT = json.dumps({"version": 1, "partitions": LISTS})
LIMITS = Limits(first=1, last=2, until=None, for_seconds=None, stall_seconds=900.0, max_hours=None)
MODULES = (book, moves, run, status, steer_command, steps, throttling, watch)


def write(folder: Path) -> tuple[Plan, tuple[Wave, Wave]]:
    """The plan and its waves."""
    content = replace(plan_of([FIRST, SECOND], topic_ids={}, rate=RATE), valid_hours=VALID_HOURS)
    warehouse = write_plan(folder, content)
    waves = (load_wave(warehouse, 1), load_wave(warehouse, 2))
    plan = load_plan(warehouse)
    plan = replace(plan, manifest={**plan.manifest, "wave_seconds": {"1": 30, "2": 30}})
    return plan, (replace(waves[0], previous_throttles={}), replace(waves[1], previous_throttles={}))


@dataclass
class Lab:
    """The cluster, its journal and a clock; every command is a new process.

    Parameters
    ----------
    rate_bytes_per_s : float
        What each copy gets; nothing while its follower is paused.
    leader_bytes_per_s : float
        What producers add to each partition.
    events : list of (seconds, action)
        What happens when the clock has run so long.
    """

    plan: Plan
    waves: tuple[Wave, Wave]
    folder: Path
    rate_bytes_per_s: float = RATE
    leader_bytes_per_s: float = 0.0
    cap: int = 0
    throttles_before: Mapping[Throttle, str] = field(default_factory=dict)
    events: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lines: list[str] = []
        self.kills = Kills()
        self.clock = Clock(pass_time=self.pass_time)
        self.begun = self.clock.seconds
        self.sizes = {(*p, broker): SIZE for p, brokers in BEFORE.items() for broker in brokers}
        self.kafka = FakeKafka(dict(BEFORE), dict(self.throttles_before), {}, self.kills)
        self.kafka.disks = Stored(self.sizes, dict.fromkeys(range(1, 10), 1000 * SIZE))
        self.warehouse: Any = MemoryWarehouse(self.folder, self.kills)
        self.warehouse.waves = [
            {"cluster_id": CLUSTER, "run_id": RUN, "wave": wave.number, "moved_bytes": 2 * SIZE}
            | {"least_seconds": 25, "most_seconds": 40}
            for wave in self.waves
        ]
        digests = {"reassignment.json": hashlib.sha256(REASSIGNMENT.encode()).hexdigest()}
        self.plan = replace(self.plan, manifest={**self.plan.manifest, "sha256": digests})
        whole = {"kind": "reassignment", "wave": 0, "path": f"{CLUSTER}/reassignment.json", "content": REASSIGNMENT}
        self.warehouse.documents = [{"cluster_id": CLUSTER, "run_id": RUN, **whole}]
        self.approve(by="ann")
        self.history: list[tuple[float, dict[Throttle, str]]] = []

    def pass_time(self, seconds: float) -> None:
        """Copy, then do what is due."""
        for (topic, number, broker), size in list(self.sizes.items()):
            if broker == self.kafka.leaders.get((topic, number)):
                self.sizes[topic, number, broker] = size + round(self.leader_bytes_per_s * seconds)
        for partition, (target, old) in list(self.kafka.moves.items()):
            leader_bytes = self.sizes[*partition, self.kafka.leaders[partition]]
            added = set(target) - set(old)
            for broker in added:
                is_paused = self.kafka.throttles.get(("brokers", str(broker), FOLLOWER_RATE)) == "1"
                gain = 0 if is_paused else round(self.rate_bytes_per_s * seconds)
                self.sizes[*partition, broker] = min(leader_bytes, self.sizes.get((*partition, broker), 0) + gain)
            if all(self.sizes[*partition, broker] >= leader_bytes for broker in added):
                self.kafka.finish(partition)
        for replica in list(self.kafka.inside):
            rate = self.kafka.throttles.get(("brokers", str(replica[2]), LOG_DIR_RATE), "unlimited")
            if rate != "1" and replica[2] not in self.kafka.dead:
                self.kafka.copy_inside(replica, round(self.rate_bytes_per_s * seconds))
        self.history.append((self.clock.seconds - self.begun, dict(self.kafka.throttles)))
        for event in [each for each in self.events if self.clock.seconds - self.begun >= each[0]]:
            self.events.remove(event)
            event[1]()

    def process(self, number: int = 1) -> Execution:
        """The steps of a wave."""
        tools: Any = FakeTools([], is_there=False)
        wave, earlier = self.waves[number - 1], self.waves[: number - 1]
        hold = Journal(self.warehouse, CLUSTER).look().hold_of(self.plan, wave.id)
        wave = with_own_rates(hold, wave)
        client = {"bootstrap_servers": "h:1"}
        step = Execution(self.warehouse, self.plan, wave, earlier, tools, self.kafka, client, self.lines.append)
        return replace(step, max_moves_per_broker=self.cap)

    def start(self) -> Execution:
        """Set the throttles of the first wave and start it, as ``run`` does."""
        step = self.process()
        step.throttle()
        step.execute(is_watched=True)
        return step

    def watch(self, *, stall_seconds: float = 900.0, for_seconds: float | None = None) -> Watch:
        """Start the first wave and watch it to the end."""
        step = self.start()
        until = None if for_seconds is None else self.clock.seconds + for_seconds
        result = Watch(step, Patience(stall_seconds, until))
        result.to_the_end()
        return result

    def run(
        self,
        *,
        is_strict: bool = False,
        plan: Plan | None = None,
        disk_headroom: float = 0.0,
        any_dir: bool = False,
        fix_dirs: bool = False,
        accepts_risk: bool = False,
        **limits: Any,
    ) -> None:
        """Execute the waves, as a process that is in charge."""
        until = replace(LIMITS, **limits)
        waves = self.waves
        with in_charge(Journal(self.warehouse, CLUSTER), self.plan, take_over=False) as check:
            step = replace(self.process(), wave=waves[-1], earlier=waves[:-1], is_strict=is_strict)
            step = replace(step, disk_headroom=disk_headroom, any_dir=any_dir, fix_dirs=fix_dirs)
            step = replace(step, accepts_risk=accepts_risk)
            run_waves(replace(step, check_in_charge=check, plan=plan or self.plan), waves, until)

    def approve(self, *, by: str, is_revocation: bool = False) -> None:
        """Somebody approves the plan, or revokes that."""
        keys = {"cluster_id": CLUSTER, "run_id": RUN, "manifest_sha256": self.plan.manifest_sha256}
        at = datetime.now(tz=UTC)
        self.warehouse.approvals.append(
            {**keys, "approved_by": by, "approved_at": at, "is_revocation": is_revocation or None}
        )

    def want(self, **wanted: Any) -> None:
        """Write what an operator wants to the journal."""
        rows.record_wanted(self.warehouse, self.plan, 1, Wanted(**wanted).to_json())

    def journal(self) -> list[str]:
        """The events in order."""
        return [row["event"] for row in self.warehouse.stored]

    def values(self, key: Throttle) -> list[str | None]:
        """The values that a throttle has had, one after the other."""
        result: list[str | None] = []
        for _, throttles in self.history:
            if not result or throttles.get(key) != result[-1]:
                result.append(throttles.get(key))
        return result


Build = Callable[..., Lab]


Decide = Callable[[Course, Memory, Look], tuple[list[Action], Memory]]


def twice(decide: Decide) -> Decide:
    """A decision that is made twice: it depends on nothing else, and changes nothing."""

    def decided(course: Course, memory: Memory, look: Look) -> tuple[list[Action], Memory]:
        before = copy.deepcopy((course, memory, look))
        result = decide(course, memory, look)
        assert result == decide(*before)
        assert before == (course, memory, look)
        return result

    return decided


def builder(planned: tuple[Plan, tuple[Wave, Wave]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Builds labs whose clock all modules use, and whose watches decide twice."""
    for decide in (reaction, next_actions):
        monkeypatch.setattr(watch, decide.__name__, twice(decide))

    def build(**options: Any) -> Lab:
        lab = Lab(*planned, folder, **options)
        lab.clock.use(monkeypatch, *MODULES)
        return lab

    return build


def bare_wave(
    before: Mapping[TopicPartition, tuple[int, ...]], after: Mapping[TopicPartition, tuple[int, ...]], **fields: Any
) -> Wave:
    """A wave without throttles and documents."""
    wave = Wave(1, "careful", {}, before, after, frozenset(), {}, {}, {})
    return replace(wave, **fields)


def cluster_at(
    replicas: Mapping[TopicPartition, tuple[int, ...]], moving: Mapping[TopicPartition, tuple[int, ...]] | None = None
) -> Observed:
    """A cluster whose first replicas lead."""
    return Observed(
        alive=frozenset(range(1, 10)),
        silent=frozenset(),
        topic_ids={topic: None for topic, _ in replicas},
        replicas=replicas,
        in_sync={partition: frozenset(brokers) for partition, brokers in replicas.items()},
        leaders={partition: brokers[0] for partition, brokers in replicas.items()},
        in_flight=moving or {},
        throttles={},
        min_isr={},
    )
