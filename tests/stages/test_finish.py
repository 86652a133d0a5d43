"""What the last step of solve finds, without Spark."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from optimizer.domain import Bands
from optimizer.settings import Policy
from optimizer.stages.shared.arrays import to_brokers
from optimizer.stages.solve.finish import finish_cluster
from optimizer.topic_wishes import TopicFactor
from optimizer.wishes import Wishes
from tests.solve.clusters import solved_cluster
from tests.stages.test_solve import rows_of


def found_in(
    rows: dict[str, list[dict[str, Any]]], policy: Policy, *, factor_patterns: tuple[str, ...] = ()
) -> pd.DataFrame:
    """What is found in a cluster that nothing moves in, and where no band is narrow."""
    brokers = to_brokers(pd.DataFrame(rows["instance_brokers"]))
    asked = tuple(TopicFactor(topics=topics, factor=3) for topics in factor_patterns)
    loads, free = np.zeros((24, 3)), Bands(("replicas", "disk", "in"), np.zeros((24, 3)), np.full((24, 3), np.inf))
    solved = solved_cluster(brokers, free, loads, loads, wishes=Wishes(replication_factors=asked))
    partitions = pd.DataFrame(rows["instance"])
    return finish_cluster(partitions.assign(current=partitions["replicas"]), solved, policy)["findings"]


@pytest.mark.parametrize(
    ("cause", "reason", "remedy"),
    [
        ("in_flight", "in flight", "wait until it is done and plan again"),
        ("topic_excluded", "topic excluded", "take it out of exclude_topics"),
        ("leaderless", "words that no code reads", "mend the cause and plan again"),
    ],
)
def test_a_partition_that_is_not_free_has_the_remedy_of_its_reason(cause: str, reason: str, remedy: str) -> None:
    """What is in flight ends by itself, what was excluded was asked for, all else is to be mended."""
    rows = rows_of("a", seed=1)
    rows["instance"][0] |= {"mobility": "fixed", "fixed_cause": cause, "fixed_reason": reason}
    found = found_in(rows, Policy())
    shown = found[found["rule"] == "not_free"]
    assert shown[["subject", "detail", "remedy"]].to_numpy().tolist() == [["t0-0", reason, remedy]]
    assert shown[["code", "cause", "topic", "partition"]].to_numpy().tolist() == [["not_free", cause, "t0", 0]]
