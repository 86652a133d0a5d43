"""Errors of --execute, and --generate."""

import pytest

from optimizer.errors import KafkaError
from optimizer.kafka.broker import Broker
from optimizer.kafka.execute import check_execute
from optimizer.kafka.generate import generate, replication_factor_source
from optimizer.kafka.java import JavaRandom
from optimizer.kafka.reassignment_json import format_reassignment

TOPICS = {"t": range(2), "gaps": [0, 7]}


def _plan(*rows: tuple[str, int, list[int]]) -> str:
    return format_reassignment((*row, None) for row in rows)


def test_a_good_plan_is_taken() -> None:
    """A plan of existing partitions and live brokers passes, also if partition ids have gaps."""
    check_execute(_plan(("t", 1, [1, 2]), ("gaps", 7, [3])), live_broker_ids={1, 2, 3}, partitions_per_topic=TOPICS)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("{}", "Partition reassignment list cannot be empty"),
        (_plan(("t", 0, [1, 9])), "Unknown broker id 9"),
        (_plan(("x", 0, [9])), "Unknown broker id 9"),
        (_plan(("t", 0, [17, 8])), "Unknown broker id 17"),
        (_plan(("x", 0, [1]), ("t", 5, [1])), "Topic x not found."),
        (_plan(("gaps", 1, [1]), ("t", 0, [1])), "Unable to find partition: gaps-1"),
    ],
)
def test_refused_plans(plan: str, message: str) -> None:
    """Brokers are checked before topics, topics before partitions; the first in hash order is named."""
    with pytest.raises(KafkaError) as caught:
        check_execute(plan, live_broker_ids=[1, 2, 3], partitions_per_topic=TOPICS)
    assert caught.value.message == message


def test_the_replication_factor_is_that_of_the_first_partition_in_hash_order() -> None:
    """A topic with mixed replication factors gets a single one, not always that of partition 0."""
    topic = "a"
    source = replication_factor_source(topic, range(20))
    assert source != 0
    lists = [[1, 2] if p == source else [1] for p in range(20)]
    result = generate(
        JavaRandom(1),
        cluster=[Broker(i) for i in range(4)],
        topics={topic: lists},
        topics_to_move=[topic],
        broker_ids=range(4),
    )
    assert {len(replicas) for replicas in result.proposed.values()} == {2}
