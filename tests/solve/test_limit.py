"""An upper limit on what a plan copies: never passed, urgent changes first, then the best balance for it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from optimizer.cluster_policy import MoveLimit
from optimizer.domain import FREE, URGENCY, Brokers, Cluster, Floats, Ints
from optimizer.settings import Policy
from optimizer.solve.findings.net_moves import reasons
from optimizer.solve.limit.limit import PlanChanges, plan_changes, urgent_first
from optimizer.solve.limit.limit_choice import keep_within, relaxed
from optimizer.solve.rules.bands import (
    bands,
    broker_loads,
    demand_of,
    disk_limit,
    load_scale,
    replica_weights,
)
from optimizer.solve.rules.resources import DISK
from optimizer.solve.rules.urgency import BALANCE, urgency
from tests.examples import examples
from tests.solve.clusters import (
    make_brokers,
    make_cluster,
    make_partitions,
    middling_clusters,
    pinned,
    plan_cluster,
    spread_over,
    with_requested_factors,
)
from tests.solve.troubled import troubled_clusters

RELAXED = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
SHARES = st.sampled_from([0.0, 0.05, 0.3, 0.6, 0.9, 1.0])


def changes_to(
    cluster: Cluster, planned: Ints, *, allowed: MoveLimit | None = None, room: Floats | None = None
) -> PlanChanges:
    """The changes from a cluster's placement to a planned one."""
    brokers, partitions = cluster.brokers, cluster.partitions
    return plan_changes(
        brokers,
        partitions,
        planned,
        unchanged=partitions.rows(np.zeros(0, dtype=np.int64)),
        bands=bands(cluster, Policy()),
        loads=broker_loads(len(brokers), partitions.replicas, replica_weights(partitions)),
        scale=load_scale(brokers, demand_of(partitions)),
        disk_limit=disk_limit(brokers, Policy()) if room is None else room,
        allowed=allowed or MoveLimit(),
    )


def with_share(changes: PlanChanges, moved_bytes: float, moves: float) -> PlanChanges:
    """The changes with shares of what they cost allowed."""
    shares = np.array([moved_bytes, moves])
    return replace(changes, allowed=np.floor(changes.costs.sum(axis=0) * shares).astype(np.int64))


def any_plan(cluster: Cluster, seed: int) -> Ints:
    """A third of the replicas, and all on brokers to empty, go to any broker that accepts and does not hold them; lists
    get the length that is requested; what is fixed stays."""
    generator, planned = np.random.default_rng(seed), cluster.partitions.replicas.copy()
    partitions = cluster.partitions
    for row in np.flatnonzero(partitions.mobility == FREE).tolist():
        for slot in range(planned.shape[1]):
            held = planned[row, slot]
            if slot >= partitions.replication_factor[row]:
                planned[row, slot] = -1
            elif held < 0 or cluster.brokers.must_empty[held] or generator.random() < 0.3:
                targets = np.setdiff1d(np.flatnonzero(cluster.brokers.accepts_replicas), planned[row])
                planned[row, slot] = generator.choice(targets) if len(targets) else held
    return planned


@st.composite
def limited_plans(draw: st.DrawFn) -> PlanChanges:
    """Plans under limits on bytes, on moves or on both, of middling clusters: healthy, or with brokers in every state,
    fixed partitions and other factors. Some disks are nearly full, and some were over their limit before."""
    cluster = draw(st.one_of(middling_clusters(), troubled_clusters()))
    planned = any_plan(cluster, draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        topics = [f"t{p % 3}" for p in range(len(cluster.partitions))]
        cluster = spread_over(cluster, topics, draw(st.sampled_from([1.0, 1.5])))
    room = None
    if draw(st.booleans()):
        weights = replica_weights(cluster.partitions)
        before, after = (
            broker_loads(len(cluster.brokers), r, weights)[:, DISK] for r in (cluster.partitions.replicas, planned)
        )
        was_over = after <= before  # such a disk is over its limit already, and the plan adds nothing
        room = np.where(was_over, before / 2, after * draw(st.sampled_from([1.0, 1.05])))
    return with_share(changes_to(cluster, planned, room=room), draw(SHARES), draw(SHARES))


@RELAXED
@given(limited_plans())
def test_limit_disks_and_spread_hold(changes: PlanChanges) -> None:
    """What is kept copies no more bytes and replicas than allowed, fills no disk over its limit, brings no broker more
    of a topic than there may be, twice the same."""
    kept = keep_within(changes)
    assert (changes.remaining(kept) >= 0).all()
    assert (changes.loads_with(kept)[:, DISK] <= changes.disk_limit).all()
    assert (changes.gains(kept) <= changes.room).all()
    assert (keep_within(changes) == kept).all()


@RELAXED
@given(limited_plans())
def test_everything_is_kept_if_the_limit_allows_it(changes: PlanChanges) -> None:
    """A limit of just what the plan copies leaves it whole."""
    assert keep_within(with_share(changes, 1.0, 1.0)).all()


@RELAXED
@given(limited_plans())
def test_urgent_changes_go_first(changes: PlanChanges) -> None:
    """A change that is left out would not fit together with all changes that are at least as urgent."""
    assume(np.isinf(changes.disk_limit).all() and len(changes.room) == 1)
    kept = urgent_first(changes)
    assert (keep_within(changes) >= kept).all()
    for left in np.flatnonzero(~kept & (changes.level < BALANCE)):
        before = kept & (changes.level <= changes.level[left])
        assert (changes.costs[before].sum(axis=0) + changes.costs[left] > changes.allowed).any()


def piled_up() -> PlanChanges:
    """A plan that brings 20 replicas of three brokers in balance to one of them, and a limit of just what it copies."""
    cluster = make_cluster(
        make_brokers([0, 1, 2]), make_partitions([[p % 3] for p in range(30)], [100 + p for p in range(30)])
    )
    return with_share(changes_to(cluster, np.zeros((30, 1), dtype=np.int64)), 1.0, 1.0)


@pytest.mark.parametrize("less", [(0, 0), (1, 0), (0, 1)])
def test_a_plan_is_whole_just_up_to_its_limit(less: tuple[int, int]) -> None:
    """Where the limit is what the plan copies nothing is taken back, however it leaves the balance; where it is a byte
    or a move less, only what the bands ask for is kept, and that is nothing."""
    changes = piled_up()
    allowed = changes.allowed - np.array(less)
    kept = keep_within(replace(changes, allowed=allowed))
    assert (changes.allowed.tolist(), changes.violation(changes.loads)) == ([2300, 20], 0.0)
    assert changes.violation(changes.loads_with(np.ones(30, dtype=bool))) > 1
    assert kept.tolist() == [not any(less)] * 30


@RELAXED
@given(limited_plans())
@example(piled_up())
def test_balance_is_no_worse_than_before(changes: PlanChanges) -> None:
    """Where nothing is urgent, a plan that is cut leaves no more load outside the bands than there was; nor do mere
    drains. One that the limit leaves whole stays as it is."""
    calm = replace(changes, level=np.full(len(changes), BALANCE))
    drains = changes if set(changes.level) <= {URGENCY.index("drain"), BALANCE} else calm
    start = changes.violation(changes.loads)
    for case in (calm, drains):
        kept = keep_within(case)
        assert kept.all() or case.violation(case.loads_with(kept)) <= start + 1e-9


@pytest.mark.parametrize(("moves", "kept"), [(1, [False, False]), (2, [True, True])])
def test_a_swap_of_one_topic_is_kept_whole(moves: int, kept: list[bool]) -> None:
    """Each of two replicas makes room for the other: where the limit allows one move, none is made."""
    cluster = make_cluster(make_brokers([0, 0, 0]), make_partitions([[0], [1], [2]], [5, 5, 50]))
    one_per_partition = replace(cluster.partitions, topic_most_replicas=np.ones(3, dtype=np.int64))
    changes = changes_to(make_cluster(cluster.brokers, one_per_partition), np.array([[1], [0], [2]]))
    limited = replace(changes, allowed=np.array([100, moves]))
    assert changes.room.tolist() == [0, 0]
    assert keep_within(limited)[:2].tolist() == kept


def crowded(seed: int) -> Cluster:
    """Twelve brokers on three racks, 500 partitions in skewed places."""
    generator = np.random.default_rng(seed)
    skew = generator.dirichlet(np.full(4, 2.0), 3)
    lists = [[int(generator.choice(4, p=skew[r])) * 3 + int(r) for r in generator.permutation(3)] for _ in range(500)]
    sizes = (generator.lognormal(3, 1.2, 500) * 1000).astype(int).tolist()
    rates = (generator.lognormal(2, 1.0, 500) * 100).astype(int).tolist()
    return make_cluster(make_brokers([0, 1, 2] * 4), make_partitions(lists, sizes, rates))


@pytest.mark.parametrize("seed", [1, 2])
def test_balance_is_near_the_relaxation(seed: int) -> None:
    """Whole changes leave hardly more load outside the bands than parts of changes could at the least."""
    cluster = crowded(seed)
    whole = changes_to(cluster, plan_cluster(cluster, Policy()).replicas)
    for share in (0.25, 0.5, 0.75):
        changes = with_share(whole, share, 1.0)
        parts, _ = relaxed(changes, np.zeros(len(changes), dtype=bool))
        loads = changes.loads.copy()
        np.add.at(loads, changes.broker, changes.effects * parts[changes.change][:, None])
        reached = changes.violation(changes.loads_with(keep_within(changes)))
        assert reached <= changes.violation(loads) + 0.01 * changes.violation(changes.loads)


def test_levels() -> None:
    """A partition is as urgent as its most urgent replica: dead, racks, drain, pin, replication, balance."""
    brokers: Brokers = make_brokers([0, 1, 2, 0, 1, 2], draining=(3, 4))
    brokers = replace(brokers, state=("alive", "alive", "alive", "dead", "draining", "alive"))
    lists = [[3, 4], [0, 4], [2, 5], [0, 1], [0, 1], [1, 2], [0, 2]]
    topics = ["t", "t", "t", "a", "a", "t", "t"]
    cluster = pinned(make_cluster(brokers, make_partitions(lists, [1] * 7)), {"a": [2, 5]}, topics)
    factor = np.array([2, 2, 2, 2, 1, 3, 2])
    levels_of = urgency(cluster.brokers, replace(cluster.partitions, replication_factor=factor))
    assert [URGENCY[level] for level in levels_of.levels] == [
        "dead",
        "drain",
        "rack",
        "pin",
        "pin",
        "replication",
        "balance",
    ]


Reasons = list[tuple[int, str]]


def crowded_racks() -> tuple[Cluster, list[list[int]], Reasons]:
    """Who leaves a dead broker of a crowded rack moves for that, who leaves a draining one for the rack."""
    brokers = make_brokers([0, 1, 2, 0, 1, 2], draining=(3, 4))
    brokers = replace(brokers, state=("alive", "alive", "alive", "dead", "draining", "alive"))
    cluster = make_cluster(brokers, make_partitions([[0, 3], [1, 4], [0, 4], [2, 5]], [1] * 4))
    moves = [(0, "dead"), (1, "rack"), (2, "pin"), (2, "drain"), (3, "rack")]
    return pinned(cluster, {"a": [1, 2]}, ["t", "t", "a", "t"]), [[0, 1], [1, 5], [1, 2], [2, 0]], moves


def fenced_broker() -> tuple[Cluster, list[list[int]], Reasons]:
    """A fenced broker to empty does not serve its replicas either."""
    brokers = make_brokers([0, 1, 2, 0], draining=(3,))
    brokers = replace(brokers, state=("alive", "alive", "alive", "fenced"))
    return make_cluster(brokers, make_partitions([[3, 1]], [1])), [[0, 1]], [(0, "dead")]


def racks_with_too_few() -> tuple[Cluster, list[list[int]], Reasons]:
    """Of four replicas each of three racks must hold one, of seven two: who comes to a rack that holds fewer moves for
    that, also off a draining broker, or as one replica more; but not who leaves another broker of that rack."""
    brokers = make_brokers([0, 0, 0, 1, 1, 1, 2, 2, 2], draining=(2, 6))
    lists = [[0, 1, 3, 4], [0, 2, 3, 4], [0, 1, 3, 4], [0, 1, 2, 3, 4, 5, 6]]
    cluster = with_requested_factors(make_cluster(brokers, make_partitions(lists, [1] * 4)), [4, 4, 5, 7])
    settled = [[0, 1, 3, 7], [0, 7, 3, 4], [0, 1, 3, 4, 7], [0, 1, 8, 3, 4, 5, 7]]
    return cluster, settled, [(0, "rack"), (1, "rack"), (2, "rack"), (3, "rack"), (3, "drain")]


def other_lengths() -> tuple[Cluster, list[list[int]], Reasons]:
    """Racks count by the length that a list has: two of four replicas in one rack are not too many, and to two replicas
    no rack is missing."""
    partitions = make_partitions([[0, 1, 2, 4], [0, 2]], [1] * 2)
    cluster = with_requested_factors(make_cluster(make_brokers([0, 0, 1, 1, 2, 2]), partitions), [3, 4])
    return cluster, [[3, 2, 4], [0, 2, 4, 1]], [(0, "replication"), (0, "balance"), *[(1, "replication")] * 2]


@pytest.mark.parametrize("case", [crowded_racks, fenced_broker, racks_with_too_few, other_lengths])
def test_a_move_says_what_its_partition_counts_by(case: Callable[[], tuple[Cluster, list[list[int]], Reasons]]) -> None:
    """The cut to a limit and the waves follow one order: the most urgent move of a partition is its level."""
    cluster, settled, expected = case()
    width = cluster.partitions.replicas.shape[1]
    lists = np.array([[*row, *[-1] * (width - len(row))] for row in settled])
    moves = [(move.row, move.reason) for move in reasons(cluster.brokers, cluster.partitions, lists)]
    assert moves == expected
    for row, level in enumerate(urgency(cluster.brokers, cluster.partitions).levels):
        assert min(URGENCY.index(reason) for of, reason in moves if of == row) == level


@pytest.mark.parametrize(
    ("allowed", "kept"),
    [
        (MoveLimit(moved_bytes=100), [True, False, False]),
        (MoveLimit(moved_bytes=99), [False, True, False]),
        (MoveLimit(moved_bytes=149), [True, False, True]),
        (MoveLimit(moves=2), [True, True, False]),
        (MoveLimit(moved_bytes=150, moves=1), [True, False, False]),
        (MoveLimit(moved_bytes=0), [False, False, False]),
    ],
)
def test_data_at_risk_then_racks_then_balance(allowed: MoveLimit, kept: list[bool]) -> None:
    """The replica on a dead broker goes first, then the rack, then what the bands ask for; what is left goes on."""
    lists = [[3, 1], [1, 4], [0, 2], [0, 5], [0, 1]]
    cluster = make_cluster(make_brokers([0, 1, 2, 0, 1, 2], draining=(3,)), make_partitions(lists, [100, 60, 40, 9, 9]))
    state = ("alive", "alive", "alive", "dead", "alive", "alive")
    cluster = make_cluster(replace(cluster.brokers, state=state), cluster.partitions)
    planned = np.array([[5, 1], [1, 5], [4, 2], [0, 5], [0, 1]])
    changes = changes_to(cluster, planned, allowed=allowed)
    assert keep_within(changes)[:3].tolist() == kept


def test_room_on_a_disk_is_made_for_what_is_urgent() -> None:
    """Where the only target of an urgent copy is full, the change that makes room for it is kept with it."""
    lists = [[3, 1], [0, 2], [1, 2], [4, 5]]
    brokers = make_brokers([0, 1, 2, 0, 1, 2], draining=(3,))
    cluster = make_cluster(brokers, make_partitions(lists, [100, 80, 50, 50]))
    planned = np.array([[0, 1], [5, 2], [4, 2], [1, 5]])
    room = np.array([100.0, 1e9, 1e9, 1e9, 1e9, 1e9])
    changes = changes_to(cluster, planned, allowed=MoveLimit(moved_bytes=190), room=room)
    assert not urgent_first(changes)[0]
    assert keep_within(changes)[:2].tolist() == [True, True]
