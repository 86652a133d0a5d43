"""What is told of brokers that do not live, and of racks that nobody knows."""

from dataclasses import replace

import numpy as np
import pytest

from optimizer.solve.findings.cluster_findings import broker_findings, no_rack_findings
from tests.solve.clusters import make_brokers

UNREGISTER = "drain it (--drain 3), execute that plan, and then unregister it: kafka-cluster.sh unregister --id 3"


@pytest.mark.parametrize(
    ("state", "after", "when", "told", "remedy"),
    [
        ("dead", [[0, 1], [1, 2]], "before", "the plan takes its replicas off it", "if it is to come back, start it"),
        ("dead", [[0, 3], [3, 2]], "both", "2 replicas stay on it", "if it is to come back, start it and plan again"),
        ("fenced", [[0, 3], [1, 2]], "both", "1 replica stays on it", UNREGISTER),
        ("fenced", [[0, 1], [1, 2]], "before", "the plan takes its replicas off it", UNREGISTER),
    ],
)
def test_a_broker_that_does_not_live_is_mended_where_it_is_emptied(
    state: str, after: list[list[int]], when: str, told: str, remedy: str
) -> None:
    """Mended is where no replica stays on it; a fenced one that never comes back is drained, then unregistered."""
    brokers = replace(make_brokers([0, 1, 2, 0]), state=("alive", "alive", "alive", state))
    (found,) = broker_findings(brokers, np.array(after))
    assert (found.code, found.subject, found.when) == (f"{state}_broker", "broker 3", when)
    assert told in found.detail
    assert remedy in found.remedy


def test_racks_that_nobody_knows_stay_so() -> None:
    """No plan mends them, so they are told as before and after."""
    brokers = make_brokers([0, 1, 2])
    assert [f.when for f in no_rack_findings(replace(brokers, racks_matter=False))] == ["both"]
    assert not list(no_rack_findings(brokers))
