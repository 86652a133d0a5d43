"""One cluster of four brokers for all tests that execute waves on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from setup.jars import is_ready
from tests.kafka.lab import RACKS, TOOLS, Four, MakeLab, labs
from tests.servers import RUNNING
from tour.cluster import running, write_tools


@pytest.fixture(scope="session")
def four(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Four:
    """Four brokers on three racks, and Kafka's tools of both releases as programs."""
    for jars in TOOLS.values():
        if not is_ready(jars):
            pytest.skip(f"JARs of {jars.name} are not there: run setup/kafka-jars.sh")
    home = tmp_path_factory.mktemp("four")
    tools = {release: write_tools(home / release, jars) for release, jars in TOOLS.items()}
    request.addfinalizer(RUNNING.close)
    return Four(RUNNING.enter_context(running(home / "kafka", RACKS)), tools)


@pytest.fixture
def make_lab(four: Four, tmp_path: Path) -> Iterator[MakeLab]:
    """Makes topics with an approved plan for each."""
    with labs(*four, tmp_path) as make:
        yield make
