"""Rows of ``restart_batches`` and figures of restarts, from rows of the instance and the plan."""

from typing import Any

import pandas as pd
import pytest

from optimizer.kafka.throttle import FOLLOWER_RATE
from optimizer.planning.restart_placement import NEVER
from optimizer.planning.restarts import AFTER, BEFORE, Restarts, restarts_of
from tests.stages.test_exposed_rows import living_hosts, partition

HOSTS = living_hosts({11: "a", 12: "b", 13: "c", 14: "a"}).assign(in_capacity_bytes_per_s=6)
# All brokers are apart until the plan moves one of the two replicas that partitions 2 and 3 have in rack a.
ROWS = (
    partition(0, [11, 12, 13], min_insync_replicas=2),
    partition(1, [14, 12, 13], min_insync_replicas=2),
    partition(2, [11, 14], [11, 12]),
    partition(3, [14, 11], [14, 13], topic="u", in_bytes_per_s=2),
    partition(4, [13], topic="single", out_bytes_per_s=20),
)


def found(**options: Any) -> Restarts:
    """Of these rows."""
    return restarts_of(pd.DataFrame([*ROWS]), HOSTS, **options)


def column(restarts: Restarts, name: str, placement: str = AFTER) -> list[Any]:
    """A column of the rows of a placement."""
    return [row[name] for row in restarts.rows() if row["placement"] == placement]


def test_a_row_for_each_batch_of_both_placements() -> None:
    """Brokers 11 and 14 restart together after the plan. They lead all but one partition, with 45 of 66 bytes."""
    restarts = found()
    assert column(restarts, "brokers", BEFORE) == [[11], [12], [13], [14]]
    assert column(restarts, "batch", BEFORE) == [1, 2, 3, 4]
    assert column(restarts, "brokers") == [[11, 14], [12], [13]]
    assert column(restarts, "racks") == [["a"], ["b"], ["c"]]
    assert column(restarts, "partitions_at_min_isr") == [4, 3, 3]
    assert column(restarts, "partitions_stopped") == [0, 0, 1]
    assert column(restarts, "leaders_to_move") == [4, 0, 0]
    assert column(restarts, "others_load_ratio") == [1 + 45 / 21, 1, 1]


def test_what_a_batch_misses() -> None:
    """Brokers receive 2, 3, 5 and 3 bytes per second of 6. One with a throttle of 5 never catches up."""
    restarts = found(minutes=1)
    assert column(restarts, "missed_bytes") == [60 * (2 + 3), 60 * 3, 60 * 5]
    assert column(restarts, "in_sync_seconds") == [60, 60, 300]
    rates = [{"entity_name": "13", "config_name": FOLLOWER_RATE, "config_value": "5"}]
    assert column(found(throttles=rates), "in_sync_seconds")[2] == NEVER


def test_figures_count_what_blocks() -> None:
    """The partitions that the batches after the plan would stop before it, and their topics."""
    values = {row["figure"]: (row[BEFORE], row[AFTER]) for row in found().figures()}
    assert values == {
        "restart_batches": (4, 3),
        "restart_batches_bound": (4, 3),
        "restart_blockers": (2, None),
        "restart_blocking_topics": (2, None),
    }


def test_nothing_blocks_if_the_plan_saves_no_batch() -> None:
    """Batches of one broker are as many before the plan as after it."""
    restarts = found(most=1)
    assert [len(each.batches) for each in restarts.found.values()] == [4, 4]
    assert restarts.figures()[2][BEFORE] == 0


@pytest.mark.parametrize(("most_load", "brokers"), [(0.7, [[11, 14], [12], [13]]), (0.6, [[11], [12], [13], [14]])])
def test_a_batch_has_a_share_of_the_load(most_load: float, brokers: list[list[int]]) -> None:
    """Brokers 11 and 14 have 68 percent of it."""
    assert column(found(most_load=most_load), "brokers") == brokers
