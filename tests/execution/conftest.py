"""The fixture ``scene`` for tests of wave steps."""

from pathlib import Path

import pytest

from tests.execution.scene import Scene
from tests.execution.warehouse import usual_plan


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """The first wave of the usual plan."""
    return Scene(tmp_path, monkeypatch, usual_plan())
