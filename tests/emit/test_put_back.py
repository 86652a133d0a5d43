"""What the scripts that take a throttle off put back: what was set before, where the tool takes it away."""

from dataclasses import replace

import pytest

from optimizer.emit.rows import FoundRow
from optimizer.emit.throttle_files import throttle_documents
from optimizer.kafka.throttle import LEADER_RATE, LEADER_REPLICAS, LOG_DIR_RATE
from tests.emit.throttled import throttled_plan


@pytest.mark.parametrize("style", ["careful", "kafka"])
def test_what_the_tool_leaves_alone_is_left_alone(style: str) -> None:
    """Lists of topics that the wave does not name stay, and what stands in a broker's own file is not set besides."""
    plan = throttled_plan()
    more = [
        ("brokers", "4", LOG_DIR_RATE, "12345678", False),
        ("brokers", "3", LEADER_RATE, "87654321", True),
        ("topics", "other", LEADER_REPLICAS, "*", False),
    ]
    found = [*plan.throttles_found, *(FoundRow(*row) for row in more)]
    documents = {d.path: d.content for d in throttle_documents(replace(plan, throttles_found=found))}
    script = documents[f"c/wave-01/unthrottle-{style}.sh"]
    assert "12345678" in script
    assert "87654321" not in script
    assert "other " not in script
    assert "'other'" not in script
