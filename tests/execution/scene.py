"""Steps against a cluster that answers as it is told."""

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
    """Kafka's tools: what they are asked to do, and how scripts end."""

    asked: list[tuple[str, ...]] = field(default_factory=list)
    ends: ToolResult = field(default_factory=lambda: ToolResult(0, "", ""))
    started: str = "Successfully started partition reassignment for stays-0"
    missing: str = ""

    def check(self) -> str:
        """The version, or which tool is not there."""
        if self.missing:
            raise Refused(self.missing)
        return "4.3.1"

    def elect(self, text: str) -> None:
        """Told the document."""
        self.asked.append(("elect", text))

    def reassign(self, lists: dict[tuple[str, int], Sequence[int]], *options: str) -> str:
        """Told partitions and options."""
        self.asked.append((*(f"{t}-{p}:{','.join(map(str, ids))}" for (t, p), ids in sorted(lists.items())), *options))
        return self.started

    def reassign_document(self, text: str, *options: str) -> str:
        """Told the document and the options."""
        self.asked.append((text, *options))
        return self.started

    def script(self, documents: object, name: str) -> ToolResult:
        """Told the name."""
        self.asked.append((name,))
        return self.ends


class Scene:
    """A wave of a plan, and a cluster that shows one state after another; the last one stays."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, plan: ClusterPlan) -> None:
        self.warehouse: Warehouse = write_plan(folder, plan)
        self.tools, self._states = FakeTools(), [BEFORE]
        self.said: list[str] = []
        self.looks = 0
        made = load_plan(self.warehouse)
        not_back = plan_documents(self.warehouse, made, "rollback_not_possible")
        self.wave: Wave = build_wave(1, made.manifest, wave_documents(self.warehouse, made, 1), not_back)
        tools: Any = self.tools
        self.step = Execution(self.warehouse, made, self.wave, {}, tools, {}, self.said.append)
        monkeypatch.setattr(steps, "observe", lambda _: self._next())
        self.slept = without_waiting(monkeypatch, steps, claims)

    def shows(self, *states: Observed) -> None:
        """The next looks."""
        self._states = list(states)

    def _next(self) -> Observed:
        self.looks += 1
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]

    def hold(self, wave: int = 1) -> None:
        """The cluster is held for a wave: this one, unless told otherwise."""
        claims.record(self.warehouse, self.step.plan, wave, claims.HELD)

    def throttled(self, state: Observed) -> Observed:
        """A state with the wave's throttles."""
        return replace(state, throttles={**state.throttles, **self.wave.throttles})

    def events(self) -> list[str]:
        """What the table says was done."""
        rows = sorted(self.warehouse.rows("executions", cluster_id=CLUSTER), key=lambda row: int(row["number"]))
        return [row["event"] for row in rows]
