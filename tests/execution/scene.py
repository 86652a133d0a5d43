"""Wave steps against a fake cluster with prepared states."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from execution import journal, moves, steps, throttling
from execution.admin import Rights
from execution.health import baseline_of
from execution.held import changes_of
from execution.observed import Observed, Replica, Stored, Throttle, TopicPartition
from execution.planned import plan_documents, wave_documents
from execution.steps import Execution
from execution.throttles import Entry, Setting
from execution.wave import Wave, build_wave
from optimizer.emit.cluster_plan import ClusterPlan
from stored.tables import Warehouse
from stored.verdicts import Refused
from tests.execution import rows
from tests.execution.clock import without_waiting
from tests.execution.test_preflight import BEFORE, at
from tests.execution.warehouse import CLUSTER, load_plan, write_plan

_LEADER, _FOLLOWER = "leader.replication.throttled", "follower.replication.throttled"
# What the step throttle sends for the first wave of the usual plan on BEFORE: its leaders' list is ``*`` already.
SET = (
    "alter",
    f"SET brokers 1 {_LEADER}.rate=300000",
    f"SET brokers 2 {_LEADER}.rate=300000",
    f"SET brokers 3 {_FOLLOWER}.rate=300000",
    f"SET topics stays {_FOLLOWER}.replicas=0:3",
)
# What the step off sends for this wave if all entries have the wave's own values.
REMOVED = (
    "alter",
    f"DELETE brokers 1 {_LEADER}.rate=None",
    f"SET brokers 2 {_LEADER}.rate=20000000",
    f"DELETE brokers 3 {_FOLLOWER}.rate=None",
    f"DELETE topics stays {_FOLLOWER}.replicas=None",
    f"SET topics stays {_LEADER}.replicas=*",
)
MOVING = at(1, 3, 2, towards=(1, 3))
DONE = at(1, 3)


@dataclass
class FakeTools:
    """A fake of Kafka's tool: records its calls, and starts nothing."""

    calls: list[tuple[str, ...]]
    started: str = "Successfully started partition reassignment for stays-0"
    missing: str = ""
    is_there: bool = True
    path: str = "kafka-reassign-partitions.sh"
    client_config: str = ""

    def check(self) -> str:
        """The version; raises if the tool is missing."""
        if self.missing:
            raise Refused(self.missing)
        return "4.3.1" if self.is_there else ""

    def reassign(self, lists: Mapping[TopicPartition, Sequence[int] | None], *options: str) -> str:
        """Record replica lists and options."""
        self.calls.append((*_lists(lists), *options))
        return self.started

    def reassign_document(self, text: str, *options: str) -> str:
        """Record a document and options."""
        self.calls.append((text, *options))
        return self.started


@dataclass
class FakeAdmin:
    """A fake cluster that shows one prepared state after another; the last one stays. It keeps changed throttles.

    Parameters
    ----------
    refuses : mapping
        Reasons by throttle or partition of what it does not change.
    """

    calls: list[tuple[str, ...]]
    states: list[Observed]
    reads: int = 0
    altered: dict[Throttle, str | None] = field(default_factory=dict)
    refuses: dict[Any, str] = field(default_factory=dict)
    silent: frozenset[int] = frozenset()
    disks: Stored = field(default_factory=lambda: Stored({}, {}))
    kafka_id: str | None = None
    may: frozenset[str] = frozenset(("ALTER", "ALTER_CONFIGS", "DESCRIBE", "DESCRIBE_CONFIGS"))
    shown_late: int = 0  # how often a broker still shows the old value

    def rights(self, topics: Collection[str]) -> Rights:
        """What was given."""
        return Rights(self.may, dict.fromkeys(topics, self.may))

    def metadata_level(self) -> int:
        """An old Kafka: no broker is cordoned."""
        return 0

    def lacks_brokers(self, count: int) -> bool:
        """Never."""
        return False

    def create(self, topic: str, first: int, replicas: Sequence[Sequence[int]], *, validate_only: bool) -> str:
        """No test creates topics here."""
        raise NotImplementedError

    def controllers(self) -> str:
        """None."""
        return ""

    def kafka_cluster_id(self) -> str | None:
        """The id that it was given."""
        return self.kafka_id

    def stored(self, brokers: Collection[int]) -> Stored:
        """The prepared sizes."""
        return self.disks

    def observe(self, topics: Collection[str] | None = None) -> Observed:
        """The next state."""
        self.reads += 1
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return replace(state, throttles=self._over(state.throttles))

    def _over(self, throttles: Mapping[Throttle, str]) -> dict[Throttle, str]:
        return {key: value for key, value in {**throttles, **self.altered}.items() if value is not None}

    def shown(self, broker_id: int, keys: Collection[Throttle]) -> Mapping[Throttle, str] | None:
        """The throttles of the current state."""
        if broker_id in self.silent:
            return None
        if self.shown_late > 0:
            self.shown_late -= 1
            return {}
        return {key: value for key, value in self._over(self.states[0].throttles).items() if key in keys}

    def alter(self, changes: Mapping[Throttle, Setting]) -> dict[Throttle, str]:
        """Keep the changes."""
        if changes:
            self.calls.append(("alter", *(f"{op} {' '.join(k)}={v}" for k, (op, v) in sorted(changes.items()))))
        now = self._over(self.states[0].throttles)
        for key, (operation, value) in changes.items():
            if key not in self.refuses:
                self.altered[key] = changed(now.get(key), operation, value)
        return {key: reason for key, reason in self.refuses.items() if key in changes}

    def reassign(self, lists: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, str]:
        """Record the lists."""
        self.calls.append(("reassign", *_lists(lists)))
        return {partition: reason for partition, reason in self.refuses.items() if partition in lists}

    def announce(self, log_dirs: Mapping[Replica, str]) -> dict[Replica, str]:
        """Record the directories."""
        if log_dirs:
            self.calls.append(("announce", *(f"{t}-{p}:{b}={path}" for (t, p, b), path in sorted(log_dirs.items()))))
        return {replica: reason for replica, reason in self.refuses.items() if replica in log_dirs}

    def elect(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Record the partitions."""
        self.calls.append(("elect", *(f"{topic}-{number}" for topic, number in sorted(partitions))))
        return {partition: reason for partition, reason in self.refuses.items() if partition in partitions}


def changed(value: str | None, operation: str, operand: str | None) -> str | None:
    """A config after an operation of Kafka's incremental alter."""
    old, words = (value or "").split(",") if value else [], (operand or "").split(",")
    return {
        "SET": operand,
        "DELETE": None,
        "APPEND": ",".join([*old, *(word for word in words if word not in old)]),
        "SUBTRACT": ",".join(word for word in old if word not in words),
    }[operation]


def _lists(lists: Mapping[TopicPartition, Sequence[int] | None]) -> list[str]:
    """``stays-0:1,3`` for a move, ``stays-0:`` for a cancel."""
    return [f"{t}-{p}:{','.join(map(str, ids or ()))}" for (t, p), ids in sorted(lists.items())]


class Scene:
    """A wave of a plan, and a cluster with one state after another; the last state stays."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, content: ClusterPlan) -> None:
        self.warehouse: Warehouse = write_plan(folder, content)
        self.calls: list[tuple[str, ...]] = []
        self.tools, self.admin = FakeTools(self.calls), FakeAdmin(self.calls, [BEFORE])
        self.lines: list[str] = []
        plan = load_plan(self.warehouse)
        irreversible = plan_documents(self.warehouse, plan, "rollback_not_possible")
        self.wave: Wave = build_wave(1, plan.manifest, wave_documents(self.warehouse, plan, 1), irreversible)
        tools: Any = self.tools
        options = {"bootstrap_servers": "h:1"}
        self.step = Execution(self.warehouse, plan, self.wave, (), tools, self.admin, options, self.lines.append)
        self.slept = without_waiting(monkeypatch, steps, journal, throttling, moves)

    def shows(self, *states: Observed) -> None:
        """Set the next states of the cluster."""
        self.admin.states = list(states)

    def hold(self, wave: int = 1) -> None:
        """Make a wave hold the cluster; the default is this wave."""
        before = self.wave.previous_throttles
        entries = {key: Entry(before.get(key), wanted) for key, wanted in self.wave.throttles.items()}
        changes = changes_of(self.wave, entries, baseline_of(BEFORE))
        rows.record(self.warehouse, self.step.plan, wave, journal.HELD, changes=changes)

    def throttled(self, state: Observed) -> Observed:
        """The state with the wave's throttles set."""
        return replace(state, throttles={**state.throttles, **self.wave.throttles})

    def events(self) -> list[str]:
        """The events in the table, in order."""
        rows = sorted(self.warehouse.rows("executions", cluster_id=CLUSTER), key=lambda row: int(row["number"]))
        return [row["event"] for row in rows]
