"""Replaces sleeping in modules; other threads of the process keep the real clock."""

from types import ModuleType, SimpleNamespace

import pytest


def without_waiting(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> list[float]:
    """Make the modules record the seconds that they would sleep, in order."""
    slept: list[float] = []
    for module in modules:
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=slept.append))
    return slept
