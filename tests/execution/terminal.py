"""Types commands of ./ballast on the fake cluster: each is parsed as a command line, and is a new process."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from execution import held, run_step, status
from execution.journal import Journal, fold
from execution.options import STEERING, add_commands, parser_of
from execution.planned import Plan, with_approvals
from execution.wave import Wave
from optimizer.configuration import build as settings_of
from optimizer.configuration import merge
from optimizer.errors import BallastError
from optimizer.shipped import defaults
from stored.verdicts import Refused
from tests.execution.lab import Lab
from tests.execution.warehouse import CLUSTER, RUN

WHERE = "--bootstrap-server h:1"
PLAN = f"--run-id {RUN} --cluster {CLUSTER} {WHERE}"


class Ended(NamedTuple):
    """How a command ended; ``left`` are the lines after the error."""

    code: int
    error: str
    left: tuple[str, ...]


class Terminal:
    """A person who types commands.

    Parameters
    ----------
    lab : Lab
    """

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab, self.are_documents_gone = lab, False
        settings = merge(defaults(), {"storage": {"warehouse": str(lab.folder)}})
        self._settings, self._parser = settings_of(settings), parser_of([add_commands])

        @contextmanager
        def connected(_: object) -> Iterator[Any]:
            yield lab.kafka

        def built(_: object, __: object, numbers: Any) -> list[Wave]:
            if self.are_documents_gone:
                raise Refused("wave-01/reassignment.json differs from the manifest: it was changed after the run")
            return [wave for wave in lab.waves if wave.number in set(numbers)]

        monkeypatch.setattr(run_step, "KafkaAdmin", connected)
        monkeypatch.setattr(run_step, "_built", built)
        for module in (held, run_step):
            monkeypatch.setattr(module, "load", lambda *_, run_id, **__: replace(self.plan, run_id=run_id))
        for module in (held, status):
            monkeypatch.setattr(module, "StoredRuns", lambda *_, **__: SimpleNamespace(verdicts=()))
        monkeypatch.setattr(run_step, "planned_from", lambda *_: {})

    def type(self, line: str) -> Ended:
        """Run a command line, such as ``./ballast run --run-id r --cluster c``."""
        options = self._parser.parse_args(shlex.split(line)[1:])
        common = (self._settings, self.lab.warehouse)
        plan, say = self.plan, self.lab.lines.append
        actions: dict[str, Callable[[], int | None]] = {
            "run": lambda: run_step.run_plan(options, *common, plan, say),
            "rollback": lambda: run_step.run_rollback(options, *common, plan, say),
            "wave": lambda: run_step.run_step(options, *common, plan, say),
            "verify": lambda: run_step.verify_plan(options, *common, say),
            **dict.fromkeys(STEERING, lambda: run_step.steer(options, *common, say)),
        }
        try:
            return Ended(actions[options.command]() or 0, "", ())
        except BallastError as error:
            return Ended(error.exit_code, str(error), tuple(getattr(error, "__notes__", ())))

    def run(self, words: str = "") -> Ended:
        """``./ballast run``."""
        return self.type(f"./ballast run {PLAN} {words}")

    @property
    def plan(self) -> Plan:
        """The plan with its approvals."""
        return with_approvals(self.lab.warehouse, self.lab.plan)

    @property
    def journal(self) -> Journal:
        """The journal, to a new process."""
        return Journal(self.lab.warehouse, CLUSTER)

    def is_free(self) -> bool:
        """Whether no wave holds the cluster."""
        return fold(self.lab.warehouse.stored).holder is None
