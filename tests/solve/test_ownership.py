"""Which shard may change a partition's racks, and what one round repairs."""

import numpy as np
import pytest

from optimizer.settings import Policy
from optimizer.solve.bounds.bound import copies_of
from optimizer.solve.rounds.cluster_round import owner_slots
from optimizer.solve.rules.bands import bands, broker_loads, demand_of, fullness, load_scale, replica_weights
from optimizer.solve.rules.racks import live_rack_sizes, rack_caps, rack_floors
from optimizer.solve.shard.assemble import ClusterFrame, assemble
from optimizer.solve.shard.exact import is_small_cluster
from optimizer.solve.shard.shard_solver import solve_shard
from optimizer.solve.tuning import TUNED
from tests.solve.clusters import ALONE, SEARCH, make_brokers, make_cluster, make_partitions, plan_cluster, rack_breaches

RACKS = [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("replicas", "draining", "full", "stuck", "owner"),
    [
        pytest.param([0, 1, 3], (), (), (), 0, id="two replicas in one rack: one of them, by the turn"),
        pytest.param([0, 1, 3], (), (1,), (), 1, id="two in one rack: the one on the fuller broker"),
        pytest.param([0, 1, 3], (3,), (), (), 0, id="a broker to empty elsewhere comes after the rack"),
        pytest.param([0, 1, 3], (3,), (3,), (), 0, id="however full it is"),
        pytest.param([0, 3, 6], (3,), (0,), (), 1, id="a broker to empty comes before a full one"),
        pytest.param([0, 3, 6], (), (6,), (), 2, id="a full broker comes before the turn"),
        pytest.param([0, 3, 6], (), (), (), 0, id="else the turn decides"),
        pytest.param([0, 3, 6], (0, 6, 7, 8), (), (), 2, id="a rack to be empty comes before a broker to empty"),
        pytest.param([0, 1, 3], (), (0,), (1,), 1, id="two in one rack: the one out of sync, however full the other"),
        pytest.param([0, 3, 6], (3,), (), (6,), 1, id="out of sync alone is no reason"),
        pytest.param([0, 1, 3, 4], (), (), (4,), 3, id="a rack has none: of the racks with two the one out of sync"),
        pytest.param([0, 1, 3, 6], (), (), (6,), 0, id="as many as each rack needs: out of sync is no reason"),
    ],
)
def test_owner(
    replicas: list[int], draining: tuple[int, ...], full: tuple[int, ...], stuck: tuple[int, ...], owner: int
) -> None:
    """Racks come first, there a replica out of sync, then brokers to empty, then full brokers, then the turn."""
    brokers = make_brokers(RACKS, draining=draining)
    fuller = np.where(np.isin(np.arange(9), full), 1.5, 0.9)
    factor, sizes, lists = np.array([len(replicas)]), live_rack_sizes(brokers), np.array([replicas])
    caps, floors = rack_caps(factor, sizes, sizes), np.minimum(rack_floors(factor, sizes)[:, None], sizes)
    owners = owner_slots(brokers, lists, np.isin(lists, stuck), caps, floors, np.array([0]), fuller)
    assert owners.tolist() == [owner]


def test_fullness_is_that_of_the_scarcest_resource() -> None:
    """A broker above one of its bands is over 1; one to empty is infinitely full, and 0 when it is empty."""
    replicas = [[0, 1]] * 8 + [[2, 1]]
    cluster = make_cluster(make_brokers([0, 1, 2, 3], draining=(2,)), make_partitions(replicas, [10] * 9))
    ends = bands(cluster, Policy())
    loads = broker_loads(4, cluster.partitions.replicas, replica_weights(cluster.partitions))
    full = fullness(loads, ends)
    assert full[0] > 1 and full[1] > 1 and np.isinf(full[2]) and full[3] == 0


def test_drain_and_rack_are_repaired_in_one_round() -> None:
    """A partition with a replica on a broker to empty and two others in one rack is in order after a single round."""
    partitions = make_partitions([[3, 0, 1]] + [[0, 4, 7], [1, 5, 8], [2, 4, 6]] * 4, [10] * 13)
    cluster = make_cluster(make_brokers(RACKS, draining=(3,)), partitions)
    ends, weights = bands(cluster, Policy(disk_band=9, replicas_band=9, in_band=9)), replica_weights(partitions)
    scale = load_scale(cluster.brokers, demand_of(partitions))
    frame = ClusterFrame(cluster.brokers, ends, broker_loads(9, partitions.replicas, weights), scale, ALONE)
    everywhere = np.ones(13, dtype=bool)
    solution = solve_shard(assemble(frame, np.arange(9), partitions, partitions.replicas, everywhere), SEARCH)
    after = partitions.replicas.copy()
    after[solution.partition, solution.slot] = solution.target
    assert rack_breaches(cluster, after) == 0 and not (after == 3).any()
    assert copies_of(partitions.replicas, after).sum() == 2


@pytest.mark.parametrize("racks", [[0, 0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1, 2, 2]])
def test_two_replicas_leave_a_rack_that_holds_too_many(racks: list[int]) -> None:
    """Where brokers to empty share a rack that must shed anyway, their replicas leave the rack, one a round."""
    partitions = make_partitions([[0, 1, 2], [3, 4, 6], [2, 3, 5]], [10] * 3)
    cluster = make_cluster(make_brokers(racks, draining=(0, 1)), partitions)
    planned = plan_cluster(cluster, Policy(disk_band=9, replicas_band=9, in_band=9))
    assert not np.isin(planned.replicas, [0, 1]).any()
    assert rack_breaches(cluster, planned.replicas) == 0


def test_a_shard_of_whole_partitions_is_no_cluster() -> None:
    """Half of the brokers are not searched as a whole cluster, even if they hold every partition completely."""
    partitions = make_partitions([[0], [1], [2], [3]], [10, 20, 30, 40])
    cluster = make_cluster(make_brokers([0, 0, 1, 1]), partitions)
    ends, weights = bands(cluster, Policy()), replica_weights(partitions)
    loads, scale = broker_loads(4, partitions.replicas, weights), load_scale(cluster.brokers, demand_of(partitions))
    frame, half = ClusterFrame(cluster.brokers, ends, loads, scale, TUNED), np.arange(2)
    inside = assemble(frame, half, partitions.rows(half), partitions.replicas[half], np.ones(2, dtype=bool))
    whole = assemble(frame, np.arange(4), partitions, partitions.replicas, np.ones(4, dtype=bool))
    assert is_small_cluster(whole) and not is_small_cluster(inside)
