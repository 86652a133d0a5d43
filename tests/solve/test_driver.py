"""The loop of the rounds, without Spark."""

from dataclasses import replace

from benchmarks.planned import rows_of
from optimizer.domain import Cluster
from optimizer.settings import Settings
from optimizer.solve.driver import solve_rounds
from optimizer.stages.solve.memory_placement import in_memory
from tests.solve.clusters import make_brokers, make_partitions, pinned


def pinned_elsewhere() -> Cluster:
    """Eight partitions on brokers 0 to 2 of three racks, pinned to 3 to 5."""
    lists = [[i % 3, (i + 1) % 3] for i in range(8)]
    partitions = make_partitions(lists, [10 * (i + 1) for i in range(8)])
    cluster = Cluster("c", make_brokers([0, 1, 2, 0, 1, 2]), partitions)
    return replace(pinned(cluster, {"t": [3, 4, 5]}, ["t"] * 8), cluster_id="c")


def test_what_pins_move_before_the_rounds_is_copied_too() -> None:
    """The bytes that rounds count from, and the points of the curve, are those of the whole plan, whatever other
    clusters are planned beside it."""
    cluster = pinned_elsewhere()
    hosts = {"c": cluster.brokers}
    placement, clusters, _ = solve_rounds(in_memory(rows_of(cluster), hosts), hosts, Settings())
    progress, made = clusters["c"].progress, placement.copies(["c"])["c"]
    assert made.moves == 16
    assert progress.copied_bytes == made.moved_bytes
    assert all(point.moves >= 16 for point in progress.curve)
