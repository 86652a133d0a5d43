"""Replaces sleeping in modules; other threads of the process keep the real clock."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import pytest


def without_waiting(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> list[float]:
    """Make the modules record the seconds that they would sleep, in order."""
    slept: list[float] = []
    for module in modules:
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=slept.append))
    return slept


@dataclass
class Clock:
    """A clock that only sleeping moves.

    Parameters
    ----------
    seconds : float
        Its time.
    pass_time : callable
        Called with the seconds of each sleep.
    """

    seconds: float = 1000.0
    pass_time: Callable[[float], None] = lambda _: None
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        """Its time."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Move it."""
        self.slept.append(seconds)
        self.seconds += seconds
        self.pass_time(seconds)

    def use(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        """Make it the clock of these modules."""
        for module in modules:
            monkeypatch.setattr(module, "time", SimpleNamespace(sleep=self.sleep, monotonic=self.monotonic))
