"""Fixtures of tests of wave steps: ``scene`` with prepared states, ``build`` for a cluster that copies."""

from pathlib import Path

import pytest

from execution.planned import Plan
from execution.wave import Wave
from tests.execution.lab import Build, builder, write
from tests.execution.scene import Scene
from tests.execution.warehouse import usual_plan


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The first wave of the usual plan."""
    return Scene(tmp_path, monkeypatch, usual_plan())


@pytest.fixture(scope="session")
def two_waves(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, tuple[Wave, Wave]]:
    """A plan of two waves."""
    return write(tmp_path_factory.mktemp("two_waves"))


@pytest.fixture
def build(two_waves: tuple[Plan, tuple[Wave, Wave]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Builds labs for this plan."""
    return builder(two_waves, tmp_path, monkeypatch)
