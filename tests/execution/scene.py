"""Wave steps against a fake cluster with prepared states."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from execution import claims, steps
from execution.kafka_tools import ToolResult
from execution.observed import Observed
from execution.planned import Refused, plan_documents, wave_documents
from execution.steps import Execution
from execution.tables import Warehouse
from execution.wave import Wave, build_wave
from optimizer.emit.cluster_plan import ClusterPlan
from tests.execution.clock import without_waiting
from tests.execution.test_preflight import BEFORE, at
from tests.execution.warehouse import CLUSTER, load_plan, write_plan

MOVING = at(1, 3, 2, towards=(1, 3))
DONE = at(1, 3)


@dataclass
class FakeTools:
    """Fakes of Kafka's tools: record their calls; scripts return ``ends``."""

    calls: list[tuple[str, ...]] = field(default_factory=list)
    ends: ToolResult = field(default_factory=lambda: ToolResult(0, "", ""))
    started: str = "Successfully started partition reassignment for stays-0"
    missing: str = ""

    def check(self) -> str:
        """The version; raises if a tool is missing."""
        if self.missing:
            raise Refused(self.missing)
        return "4.3.1"

    def elect(self, text: str) -> None:
        """Record an election."""
        self.calls.append(("elect", text))

    def reassign(self, lists: dict[tuple[str, int], Sequence[int]], *options: str) -> str:
        """Record replica lists and options."""
        self.calls.append((*(f"{t}-{p}:{','.join(map(str, ids))}" for (t, p), ids in sorted(lists.items())), *options))
        return self.started

    def reassign_document(self, text: str, *options: str) -> str:
        """Record a document and options."""
        self.calls.append((text, *options))
        return self.started

    def script(self, documents: object, name: str) -> ToolResult:
        """Record the name of a script."""
        self.calls.append((name,))
        return self.ends


class Scene:
    """A wave of a plan, and a cluster with one state after another; the last state stays."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, content: ClusterPlan) -> None:
        self.warehouse: Warehouse = write_plan(folder, content)
        self.tools, self._states = FakeTools(), [BEFORE]
        self.lines: list[str] = []
        self.reads = 0
        plan = load_plan(self.warehouse)
        irreversible = plan_documents(self.warehouse, plan, "rollback_not_possible")
        self.wave: Wave = build_wave(1, plan.manifest, wave_documents(self.warehouse, plan, 1), irreversible)
        tools: Any = self.tools
        self.step = Execution(self.warehouse, plan, self.wave, {}, tools, {}, self.lines.append)
        monkeypatch.setattr(steps, "observe", lambda _: self._next())
        self.slept = without_waiting(monkeypatch, steps, claims)

    def shows(self, *states: Observed) -> None:
        """Set the next states of the cluster."""
        self._states = list(states)

    def _next(self) -> Observed:
        self.reads += 1
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]

    def hold(self, wave: int = 1) -> None:
        """Make a wave hold the cluster; the default is this wave."""
        claims.record(self.warehouse, self.step.plan, wave, claims.HELD)

    def throttled(self, state: Observed) -> Observed:
        """The state with the wave's throttles set."""
        return replace(state, throttles={**state.throttles, **self.wave.throttles})

    def events(self) -> list[str]:
        """The events in the table, in order."""
        rows = sorted(self.warehouse.rows("executions", cluster_id=CLUSTER), key=lambda row: int(row["number"]))
        return [row["event"] for row in rows]
