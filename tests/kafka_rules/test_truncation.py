"""What is lost when a leader changes: equal to Kafka's classes on random logs, and the sum that ``exposure`` counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka_rules.compare_assignors import can_compile
from tests.kafka_rules.compare_truncation import differences
from tests.kafka_rules.truncation import Log, follow


@pytest.mark.all_only
@pytest.mark.skipif(not can_compile(), reason="this Java has no compiler")
def test_random_logs_are_cut_as_by_kafka() -> None:
    """Common and own epochs, records that retention has deleted, and epochs that the leader does not know."""
    assert list(differences(seed=58, count=5_000)) == []


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=4), st.data())
def test_an_old_leader_loses_what_its_heir_lacks(history: list[tuple[int, int]], data: st.DataObject) -> None:
    """The heir has a part of the leader's log; when the old leader comes back, it keeps that part and no more."""
    epochs, epoch, end = list[tuple[int, int]](), 0, 0
    for step, records in history:
        epoch, epochs, end = epoch + step, [*epochs, (epoch + step, end)], end + records
    leader = Log(tuple(epochs), end)
    heir = leader.cut(data.draw(st.integers(0, end)))
    written = data.draw(st.integers(1, 30))
    elected = Log((*heir.epochs, (epoch + 1, heir.end)), heir.end + written)
    assert follow(elected, leader) == heir
