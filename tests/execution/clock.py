"""Modules whose waiting is noted instead of slept; other threads of the process keep the real clock."""

from types import ModuleType, SimpleNamespace

import pytest


def without_waiting(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> list[float]:
    """The seconds that each of the modules would have slept, one after the other."""
    slept: list[float] = []
    for module in modules:
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=slept.append))
    return slept
