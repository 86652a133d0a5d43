"""The unthrottle scripts restore earlier throttles that the tool removes."""

from dataclasses import replace

import pytest

from optimizer.emit.rows import EarlierThrottleRow
from optimizer.emit.throttle_files import throttle_documents
from optimizer.kafka.throttle import LEADER_RATE, LEADER_REPLICAS, LOG_DIR_RATE
from tests.emit.throttled import throttled_plan


@pytest.mark.parametrize("style", ["careful", "kafka"])
def test_what_the_tool_leaves_alone_is_left_alone(style: str) -> None:
    """Lists of other topics stay, and throttles in a broker's own file are not set again."""
    plan = throttled_plan()
    entries = [
        ("brokers", "4", LOG_DIR_RATE, "12345678", False),
        ("brokers", "3", LEADER_RATE, "87654321", True),
        ("topics", "other", LEADER_REPLICAS, "*", False),
    ]
    throttles = [*plan.throttles_found, *(EarlierThrottleRow(*row) for row in entries)]
    documents = {d.path: d.content for d in throttle_documents(replace(plan, throttles_found=throttles))}
    script = documents[f"c/wave-01/unthrottle-{style}.sh"]
    assert "12345678" in script
    assert "87654321" not in script
    assert "other " not in script
    assert "'other'" not in script
