"""The spread of topics: no broker is given more of one than its most, crowds are dissolved, the bounds stay below."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import FIXED, FORCED_ONLY, Cluster, FindingCode
from optimizer.settings import Policy
from optimizer.solve.findings.spread_findings import spread_findings
from optimizer.solve.rules.racks import busiest_share
from optimizer.solve.rules.topic_spread import TopicSpread
from optimizer.solve.shard.choice import State, apply_choice
from optimizer.solve.shard.legal_options import Options, legal_options
from optimizer.solve.shard.shard_problem import ShardProblem
from optimizer.solve.shard.shard_solver import (
    moves_over_topic_limit,
    options_to_close,
    solve_shard,
    within_topic_limits,
)
from tests.examples import examples
from tests.in_full import in_full
from tests.solve.clusters import (
    ALONE,
    SEARCH,
    brute_force,
    crowds,
    is_in_order,
    make_brokers,
    make_cluster,
    make_partitions,
    middling_clusters,
    moved_bytes,
    one_shard,
    out_of_band,
    plan_cluster,
    rack_breaches,
    spread_over,
    tiny_clusters,
)

WIDE = Policy(disk_band=0.9, replicas_band=2.0, in_band=9.0)
OPEN = Policy(disk_band=99, replicas_band=99, in_band=99)
RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def with_spread(draw: st.DrawFn, clusters: st.SearchStrategy[Cluster]) -> Cluster:
    """Clusters of one to four topics that are to be spread, some partitions fixed or excluded."""
    cluster = draw(clusters)
    names = [f"t{n}" for n in range(draw(st.integers(1, 4)))]
    seed = draw(st.integers(0, 2**32 - 1))
    topics = np.random.default_rng(seed).choice(names, len(cluster.partitions)).tolist()
    return spread_over(cluster, topics, draw(st.sampled_from([1.0, 1.2, 1.5, 2.0])))


def grown(cluster: Cluster, replicas: np.ndarray) -> dict[tuple[str, int], int]:
    """Crowds that are larger than before the plan."""
    before = crowds(cluster, cluster.partitions.replicas)
    return {pair: n for pair, n in crowds(cluster, replicas).items() if n > before.get(pair, 0)}


@pytest.mark.parametrize(
    ("factor", "sizes", "share"),
    [
        (3, [10, 10, 10], 0.1),
        (2, [10, 10, 0], 0.1),
        (3, [1, 4, 4], 1.0),  # every rack holds one replica, and the first has one broker
        (2, [1, 1, 10], 0.5),  # the large rack holds one: the other one is on one of two brokers
        (5, [2, 4, 4], 0.5),
        (3, [1, 1], 1.0),  # more replicas than brokers
        (1, [3, 5], 0.125),
    ],
)
def test_share_of_the_busiest_broker(factor: int, sizes: list[int], share: float) -> None:
    """Even racks share evenly; where a rack takes no more, the brokers of the others hold what is left."""
    assert busiest_share(factor, np.array(sizes)) == pytest.approx(share)


def test_the_smallest_replicas_go() -> None:
    """As many as the surplus, of those that may leave; a broker within the most keeps all."""
    spread = TopicSpread(np.array([[4, 1]]), np.array([2]))
    topic, source = np.zeros(5, dtype=np.int64), np.array([0, 0, 0, 0, 1])
    size, may = np.array([4.0, 1.0, 3.0, 2.0, 1.0]), np.array([True, False, True, True, True])
    assert spread.to_shed(topic, source, size, may).tolist() == [False, False, True, True, False]


def test_arrivals_share_the_room() -> None:
    """Who leaves makes room; needed moves come first, then large ones; other topics and brokers are not asked."""
    spread = TopicSpread(np.array([[1, 2], [9, 9]]), np.array([2, NO_LIMIT]))
    topic = np.array([0, 0, 0, 0, 1])
    source, target = np.array([1, 1, 1, 0, 0]), np.array([0, 0, 0, 1, 1])
    size, needed = np.array([1.0, 3.0, 2.0, 1.0, 1.0]), np.array([True, False, False, False, False])
    assert spread.moves_over_limit(topic, source, target, size, needed).tolist() == [
        False,
        False,
        True,
        False,
        False,
    ]


def test_nothing_is_counted_without_limits() -> None:
    """Without a most of any topic a shard has no spread; with one it counts each partition once."""
    cluster = make_cluster(make_brokers([0, 0, 1, 1], draining=(0, 1)), make_partitions([[0, 1], [0, 2]], [1, 1]))
    assert chosen(cluster, [])[1].rows.spread is None
    partitions = replace(cluster.partitions, topic_most_replicas=np.array([2, 2]))
    problem = chosen(replace(cluster, partitions=partitions), [])[1]
    assert problem.rows.spread is not None
    assert problem.rows.spread.counts.tolist() == [[2, 1, 1, 0]]


@RELAXED
@given(with_spread(tiny_clusters()))
def test_bound_optimum_plan_are_in_this_order_with_spread(cluster: Cluster) -> None:
    """The best of all placements within the limits is between the bounds and the plan."""
    planned = plan_cluster(cluster, WIDE)
    assert not grown(cluster, planned.replicas)
    best, moved = planned.best_bound, moved_bytes(cluster, planned.replicas)
    assert best <= moved
    optimum = brute_force(cluster, planned.bands, planned.scale)
    assert is_in_order(cluster, planned) is (optimum is not None)
    assert optimum is None or best <= optimum == moved


@RELAXED
@given(with_spread(middling_clusters()), st.integers(0, 2**32 - 1))
def test_no_broker_is_given_more_of_a_topic_than_its_most(cluster: Cluster, seed: int) -> None:
    """Whatever the start, and whatever may not move: no crowd grows, brokers to empty are as empty as without it."""
    count = len(cluster.partitions)
    cluster.partitions.mobility[:] = np.random.default_rng(seed).choice(3, count, p=[0.8, 0.1, 0.1])
    planned = plan_cluster(cluster, Policy(), brief=True)
    assert not grown(cluster, planned.replicas)
    fixed = cluster.partitions.mobility == FIXED
    assert (planned.replicas[fixed] == cluster.partitions.replicas[fixed]).all()
    assert planned.best_bound <= moved_bytes(cluster, planned.replicas)
    if not cluster.brokers.must_empty.any() and not crowds(cluster, cluster.partitions.replicas):
        lists = (planned.replicas, cluster.partitions.replicas)
        after, before = (out_of_band(cluster, placed, planned.bands, planned.scale) for placed in lists)
        assert after <= before + 1e-9 or rack_breaches(cluster, cluster.partitions.replicas)
    stays = cluster.brokers.must_empty[np.maximum(planned.replicas, 0)] & (planned.replicas >= 0) & ~fixed[:, None]
    assert not stays.any()


def piled(count: int, topic_spread: float = 1.0) -> Cluster:
    """A topic of ``count`` equal partitions, all on three of twelve brokers, and a small topic on the others."""
    brokers = make_brokers([b % 3 for b in range(12)])
    giant = [[0, 1, 2]] * count
    other = [[3 + (p + i) % 9 for i in range(3)] for p in range(0, 27, 3)]
    cluster = make_cluster(brokers, make_partitions([*giant, *other], [10] * count + [1] * 9))
    return spread_over(cluster, ["giant"] * count + ["other"] * 9, topic_spread)


@pytest.mark.parametrize("topic_spread", [1.0, 1.5, 3.0])
@pytest.mark.parametrize("count", [20, 40])  # the smaller cluster is also solved exactly
def test_a_pile_is_dissolved(count: int, topic_spread: float) -> None:
    """All of a giant topic on three brokers: they keep their most, no broker gets more, and no more is moved."""
    cluster = piled(count, topic_spread)
    planned = plan_cluster(cluster, OPEN)
    assert not crowds(cluster, planned.replicas)
    assert rack_breaches(cluster, planned.replicas) == 0
    kept = round(count * topic_spread / 4)
    assert moved_bytes(cluster, planned.replicas) == 3 * (count - kept) * 10


def test_what_has_no_room_is_dropped() -> None:
    """The smaller of two arrivals has no room; as it stays, so does the smaller of two that were to take its place."""
    cluster = make_cluster(make_brokers([0, 0, 0]), make_partitions([[0], [0], [1], [1], [2]], [5, 4, 3, 1, 1]))
    partitions = replace(cluster.partitions, topic_most_replicas=np.full(5, 2))
    state, problem, options = chosen(replace(cluster, partitions=partitions), [1, 1, 2, 2])
    over = moves_over_topic_limit(problem, options, state)
    assert over.tolist() == [3]
    kept = within_topic_limits(problem, options, state)
    assert kept.replica.tolist() == [0, -1, 2, -1, -1]
    assert kept.loads.sum() == pytest.approx(state.loads.sum())
    assert options.partition.tolist() == [0, 1, 2, 3]  # the others are full, so the last one has nowhere to go
    left = options.only(~options_to_close(problem, options, state, over), np.zeros(5, dtype=bool))[0]
    assert (left.partition.tolist(), left.allowed.tolist(), left.narrowed) == ([2], [[False, False, True]], True)


def chosen(cluster: Cluster, targets: list[int]) -> tuple[State, ShardProblem, Options]:
    """One shard in which the only replica of each of the first partitions moves to a target."""
    problem = one_shard(cluster, OPEN)
    options = legal_options(problem)
    stays = [-1] * (len(cluster.partitions) - len(targets))
    state = apply_choice(problem, options, np.array([*range(len(targets)), *stays]), np.array([*targets, *stays]))
    return state, problem, options


def test_what_must_leave_pushes_in() -> None:
    """The only broker that can take from one to empty is full of the topic: it takes, and gives up another replica."""
    brokers = make_brokers([0, 0, 1, 1], draining=(0,))
    cluster = make_cluster(brokers, make_partitions([[0, 2], [1, 3], [1]], [5, 4, 3]))
    cluster = replace(cluster, partitions=replace(cluster.partitions, topic_most_replicas=np.full(3, 2)))
    solution = solve_shard(one_shard(cluster, OPEN, ALONE), SEARCH)
    first = cluster.partitions.replicas.copy()
    first[solution.partition, solution.slot] = solution.target
    assert first[0, 0] == 1
    assert crowds(cluster, first) == {("t", 1): 1}
    planned = plan_cluster(cluster, OPEN, tuning=ALONE).replicas
    assert planned[2, 0] in (2, 3)
    assert not crowds(cluster, planned)


def test_what_may_not_leave_stays_and_is_reported() -> None:
    """Fixed and excluded partitions of a pile stay; findings name the crowd, its size and the most."""
    cluster = piled(40)
    cluster.partitions.mobility[:40] = [FIXED, FORCED_ONLY] * 10 + [0] * 20
    planned = plan_cluster(cluster, OPEN)
    assert crowds(cluster, planned.replicas) == {("giant", b): 10 for b in range(3)}
    findings = in_full(spread_findings(cluster.brokers, cluster.partitions, planned.replicas))
    assert [(f.subject, f.when) for f in findings] == [(f"giant on broker {b}", "both") for b in range(3)]
    assert findings[0].detail == "broker 0 has 20 of the 120 replicas of topic giant; at most 10 are allowed"


def test_leaders_are_counted_by_the_first_replica() -> None:
    """A broker that leads more of a topic than allowed has a finding; a broker that only follows has none."""
    cluster = make_cluster(make_brokers([0, 1, 2]), make_partitions([[0, 1], [0, 1], [0, 2]], [1] * 3))
    partitions = replace(cluster.partitions, topic_most_leaders=np.full(3, 1))
    (found,) = in_full(spread_findings(cluster.brokers, partitions, partitions.replicas))
    assert (found.code, found.subject, found.when) == (FindingCode.TOPIC_LEADER_SPREAD, "t on broker 0", "both")
    assert found.detail == "broker 0 has 3 of the 3 leaders of topic t; at most 1 is allowed"


def test_findings_name_the_worst_and_count_the_rest() -> None:
    """The ten worst old cases are listed, the rest counted; each case that grew is listed; fixed cases are counted."""
    brokers = make_brokers([b % 3 for b in range(16)])
    lists = [[b] for b in range(15) for _ in range(3 + (b == 4))]
    cluster = make_cluster(brokers, make_partitions(lists, [1] * len(lists)))
    partitions = replace(cluster.partitions, topic_most_replicas=np.full(len(lists), 2))
    after = partitions.replicas.copy()
    after[:3, 0] = 15
    findings = in_full(spread_findings(brokers, partitions, after))
    assert {f.code for f in findings} == {FindingCode.TOPIC_SPREAD}
    assert [f.subject for f in findings[:3]] == ["repaired topics", "t on broker 4", "t on broker 1"]
    assert findings[0].detail.startswith("in 1 case a broker has too many replicas")
    assert [(f.subject, f.when) for f in findings if "15" in f.subject] == [("t on broker 15", "after")]
    assert len([f for f in findings if f.when == "both"]) == 10 + 1
    assert findings[-1].detail.startswith("in 4 more cases a broker has too many replicas of a topic")


@settings(RELAXED, max_examples=examples(12))
@given(middling_clusters())
def test_a_wide_spread_changes_nothing(cluster: Cluster) -> None:
    """A most that no broker comes near gives the same plan as none."""
    wide = np.full(len(cluster.partitions), 10 * len(cluster.partitions))
    same = make_cluster(cluster.brokers, replace(cluster.partitions, topic_most_replicas=wide))
    plans = [plan_cluster(c, Policy(), rounds=1, brief=True).replicas for c in (cluster, same)]
    assert (plans[0] == plans[1]).all()
