"""The loop of the rounds, and what follows it, without Spark."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.planned import rows_of
from optimizer.configuration import build
from optimizer.domain import FIXED, FREE, Brokers, Cluster, Partitions
from optimizer.planning.memory_placement import MemoryPlacement, in_memory
from optimizer.settings import Settings
from optimizer.solve.driver import Solved, solve, solve_rounds
from optimizer.solve.findings.order_findings import LeftForDisk
from optimizer.solve.rounds.progress import Progress
from optimizer.solve.rules.bands import broker_loads, replica_weights
from optimizer.solve.tuning import TUNED
from tests.solve.clusters import make_brokers, make_partitions, pinned

CONFIGURED = {"clusters": [{"id": "c", "input": "x"}]}
NOT_SEARCHED = replace(TUNED, exact_cells=0)  # small clusters have rounds as large ones do


def solved(brokers: Brokers, partitions: Partitions) -> Solved[MemoryPlacement]:
    """The plan of one cluster, c."""
    hosts = {"c": brokers}
    return solve(in_memory(rows_of(Cluster("c", brokers, partitions)), hosts), build(CONFIGURED))


def rounds_of(brokers: Brokers, partitions: Partitions) -> tuple[MemoryPlacement, Progress, int]:
    """The placement of one cluster after its rounds, its progress, and the number of rounds."""
    hosts = {"c": brokers}
    placement = in_memory(rows_of(Cluster("c", brokers, partitions)), hosts)
    placement, clusters, shards = solve_rounds(placement, Settings(), NOT_SEARCHED)
    return placement, clusters["c"].progress, 1 + max(result.round for result in shards)


def with_dead(brokers: Brokers, dead: list[int]) -> Brokers:
    """Some brokers dead."""
    lives = ~np.isin(brokers.ids, dead)
    state = tuple("alive" if lives_on else "dead" for lives_on in lives)
    return replace(brokers, accepts_replicas=lives, accepts_leadership=lives, must_empty=~lives, state=state)


def pinned_elsewhere() -> Cluster:
    """Eight partitions on brokers 0 to 2 of three racks, pinned to 3 to 5."""
    lists = [[i % 3, (i + 1) % 3] for i in range(8)]
    partitions = make_partitions(lists, [10 * (i + 1) for i in range(8)])
    cluster = Cluster("c", make_brokers([0, 1, 2, 0, 1, 2]), partitions)
    return replace(pinned(cluster, {"t": [3, 4, 5]}, ["t"] * 8), cluster_id="c")


def test_what_pins_move_before_the_rounds_is_copied_too() -> None:
    """The bytes that rounds count from, and the points of the curve, are those of the whole plan."""
    cluster = pinned_elsewhere()
    hosts = {"c": cluster.brokers}
    placement, clusters, _ = solve_rounds(in_memory(rows_of(cluster), hosts), Settings(), TUNED)
    progress, made = clusters["c"].progress, placement.copies(["c"])["c"]
    assert made.moves == 16
    assert progress.copied_bytes == made.moved_bytes
    assert all(point.moves >= 16 for point in progress.curve)


def test_no_new_list_names_a_dead_broker() -> None:
    """What can leave only one of two dead brokers keeps its old list, and the loads are those of that list."""
    brokers = with_dead(make_brokers([0, 0, 0, 0]), [2, 3])
    partitions = make_partitions([[0, 2, 3], [1, 2, 3], [0, 1, 2], [0, 2]], [10, 20, 30, 40])
    plan = solved(brokers, partitions)
    after = plan.placement.fleet["c"].current
    assert after.tolist() == [[0, 2, 3], [1, 2, 3], [0, 1, 2], [0, 1, -1]]
    assert plan.clusters["c"].loads.tolist() == broker_loads(4, after, replica_weights(partitions)).tolist()


def test_a_disk_that_was_over_its_limit_is_no_reason_to_reduce_the_plan() -> None:
    """A plan that leaves 95 of 100 bytes in place, because they are fixed, is not reduced to the limit of 90."""
    brokers = replace(make_brokers([0, 1, 2], draining=(1,)), disk_capacity_bytes=np.array([100, 100, 1000]))
    partitions = replace(make_partitions([[0], [1]], [95, 20]), mobility=np.array([FIXED, FREE]))
    plan = solved(brokers, partitions)
    assert plan.placement.fleet["c"].current.tolist() == [[0], [2]]
    assert plan.clusters["c"].over_limits is None


def test_copies_are_counted_before_the_first_balancing_round_alone() -> None:
    """Later rounds add their own: what the first one started from stays what it was."""
    rng = np.random.default_rng(0)
    lists = [rng.choice(4, 2, replace=False).tolist() for _ in range(40)]
    placement, progress, rounds = rounds_of(make_brokers([*range(8)]), make_partitions(lists, [*range(10, 50)]))
    made = placement.copies(["c"])["c"]
    assert rounds > 1 and made.moves > 0
    assert (progress.copied_moves, progress.copied_bytes) == (0, made.moved_bytes)


def test_what_rounds_that_repair_racks_move_is_copied_too() -> None:
    """A list with two replicas in one rack is repaired before anything is balanced: the curve starts from that copy."""
    lists = [[0, 1, 2], *([i % 2, 2 + i % 2, 4 + i % 2] for i in range(11))]
    placement, progress, _ = rounds_of(make_brokers([0, 0, 1, 1, 2, 2]), make_partitions(lists, [100] + [10] * 11))
    made = placement.copies(["c"])["c"]
    assert (made.moves, progress.copied_moves, progress.copied_bytes) == (2, 1, made.moved_bytes)
    assert {(point.moves, point.cost) for point in progress.curve} == {(2, 110.0)}


def test_what_is_left_is_left_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan without the rows of a cluster is no plan: the run ends."""
    left = {"c": LeftForDisk(frozenset({("t", 0)}), {}, 0.1, 0)}
    monkeypatch.setattr(MemoryPlacement, "result_tables", lambda *_: ({}, left))
    with pytest.raises(AssertionError, match=r"clusters \['c'\] have no order of copies"):
        solved(make_brokers([0, 1]), make_partitions([[0]], [10]))
