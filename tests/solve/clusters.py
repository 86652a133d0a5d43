"""Small clusters for tests, and their plans by the driver, without Spark."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from optimizer.domain import FIXED, FORCED_ONLY, FREE, Bands, Bools, Brokers, Cluster, Floats, Ints, Partitions, PinMask
from optimizer.planning.arrays import COLUMNS
from optimizer.planning.memory_placement import ClusterPlacement, MemoryPlacement
from optimizer.settings import ClusterInput, Policy, Settings, Solver
from optimizer.solve.bounds.bound import band_price, usable_prices, widen
from optimizer.solve.bounds.terms import partition_terms
from optimizer.solve.certificate import bounds_of
from optimizer.solve.driver import solve_rounds
from optimizer.solve.rounds.progress import Progress
from optimizer.solve.rounds.solved_cluster import SolvedCluster
from optimizer.solve.rules.bands import (
    Demand,
    bands,
    broker_loads,
    demand_of,
    excess,
    load_scale,
    replica_weights,
)
from optimizer.solve.rules.pins import group_by_pins, rack_breaks
from optimizer.solve.rules.racks import busiest_share, live_rack_sizes
from optimizer.solve.rules.resources import DISK
from optimizer.solve.shard.assemble import ClusterFrame, assemble
from optimizer.solve.shard.search import Search
from optimizer.solve.shard.shard_problem import ShardProblem
from optimizer.solve.tuning import TUNED, Tuning

BRIEF_TIME = 0.1
ALONE = replace(TUNED, exact_cells=0)  # single moves alone: no search of small clusters
# The search of a balancing round, without a time limit.
SEARCH = Search(TUNED.plan_prices, 0.001, np.inf, TUNED.gap, improves=False, is_last=False)


def _with_prices(tuning: Tuning, prices: tuple[float, ...]) -> Tuning:
    return replace(tuning, plan_prices=prices, short_curve_prices=prices, curve_prices=prices)


def brief_of(tuning: Tuning) -> Tuning:
    """One price on moves, and a short search of small clusters."""
    short = _with_prices(tuning, tuning.plan_prices[:1])
    return replace(short, exact_time_limit=BRIEF_TIME, feasible_time_limit=BRIEF_TIME)


BRIEF = brief_of(TUNED)
ID = "test"
MOST_BROKERS = 200  # of a shard, as the settings allow


def make_brokers(racks: list[int], *, draining: tuple[int, ...] = (), excluded: tuple[int, ...] = ()) -> Brokers:
    """Brokers 0..n-1 with the given rack numbers."""
    n = len(racks)
    ids = np.arange(n)
    leaving = np.isin(ids, draining)
    unknown = np.full(n, -1)
    names = tuple(f"r{r}" for r in sorted(set(racks)))
    return Brokers(
        ids=ids,
        rack=np.array([names.index(f"r{r}") for r in racks]),
        rack_names=names,
        accepts_replicas=~leaving & ~np.isin(ids, excluded),
        accepts_leadership=~leaving,
        must_empty=leaving,
        disk_capacity_bytes=unknown,
        in_capacity_bytes_per_s=unknown,
        out_capacity_bytes_per_s=unknown,
        state=tuple("draining" if x else "alive" for x in leaving),
        racks_matter=True,
        skips_tiered=np.zeros(n, dtype=bool),
    )


STATES = ("alive", "dead", "fenced", "drained fenced", "draining", "excluded")


def with_states(brokers: Brokers, states: Sequence[str]) -> Brokers:
    """The brokers in these of ``STATES``, with what each accepts, as in the snapshot."""
    alive, excluded = (np.array([state == name for state in states]) for name in ("alive", "excluded"))
    return replace(
        brokers,
        accepts_replicas=alive,
        accepts_leadership=alive | excluded,
        must_empty=np.array([state in ("dead", "drained fenced", "draining") for state in states]),
        state=tuple({"drained fenced": "fenced", "excluded": "alive"}.get(state, state) for state in states),
    )


def make_partitions(replicas: list[list[int]], sizes: list[int], rates: list[int] | None = None) -> Partitions:
    """Partitions of topic t with the given replica lists, sizes (bytes) and rates (bytes per second).

    All replicas are in sync. Other nullable columns are null, except the leader.
    """
    n, width = len(replicas), max(map(len, replicas))
    matrix = np.array([list(r) + [-1] * (width - len(r)) for r in replicas])
    rate = np.array(rates if rates is not None else [0] * n)
    elsewhere = np.full((n, 1), -1)
    given: dict[str, Any] = {
        "topic": np.array(["t"] * n, dtype=object),
        "partition": np.arange(n),
        "replicas": matrix,
        "leader": matrix[:, 0],
        "isr": matrix,
        "elr": elsewhere,
        "replication_factor": np.array([len(r) for r in replicas]),
        "size_bytes": np.array(sizes),
        "in_bytes_per_s": rate,
        "out_bytes_per_s": 2 * rate,
        "mobility": np.full(n, FREE),
    }
    nulls = {name: np.full(n, column.missing) for name, column in COLUMNS.items() if isinstance(column.missing, int)}
    sizes_of_copies = dict.fromkeys(("copy_bytes", "tiered_copy_bytes"), given["size_bytes"])
    return Partitions(**nulls | sizes_of_copies | given)


def out_of_sync(partitions: Partitions, stuck: Bools) -> Partitions:
    """The partitions with these replicas, (P, W), out of sync."""
    return replace(partitions, isr=np.where(stuck, -1, partitions.replicas))


def make_cluster(brokers: Brokers, partitions: Partitions) -> Cluster:
    """Both together."""
    return Cluster(ID, brokers, partitions)


def solved_cluster(brokers: Brokers, bands: Bands, before: Floats, after: Floats, **known: Any) -> SolvedCluster:
    """What is known of a cluster after its rounds, as far as the last step asks."""
    nothing = Demand(np.zeros(0, dtype=np.int64), np.zeros((0, 3)))
    usual = {"demand": nothing, "scale": np.ones(3), "is_resized": False, "progress": Progress(np.zeros_like(before))}
    return SolvedCluster(brokers=brokers, bands=bands, loads_before=before, loads=after, **{**usual, **known})


@dataclass(frozen=True)
class Planned:
    """A cluster after the rounds of the driver.

    Parameters
    ----------
    replicas : (P, W) int64
        In the order of the cluster's partitions.
    """

    replicas: Ints
    solved: SolvedCluster
    placement: MemoryPlacement

    @property
    def bands(self) -> Bands:
        """Of all brokers."""
        return self.solved.bands

    @property
    def scale(self) -> Floats:
        """Mean broker loads, (D,)."""
        return self.solved.scale

    @property
    def search_bytes(self) -> int | None:
        """What any placement copies at least, by search over them all."""
        return self.solved.progress.search_bytes

    def bounds(self, tuning: Tuning = TUNED) -> dict[str, int]:
        """What is proven of the least bytes, by its kind."""
        rows = bounds_of(self.placement, {ID: self.solved}, tuning).rows[ID]
        return {row.kind: row.bound_bytes for row in rows}

    @cached_property
    def best_bound(self) -> int:
        """The best of them."""
        return max(self.bounds().values())


def plan_cluster(
    cluster: Cluster,
    policy: Policy,
    *,
    rounds: int = 4,
    brief: bool = False,
    tuning: Tuning = TUNED,
    shard_brokers: int = MOST_BROKERS,
    kafka_version: str = "",
) -> Planned:
    """A cluster after the rounds of the driver: shards as large as may be, and no long curve. ``brief``, with one price
    on moves and a short search of small clusters, is enough where a test asks only whether rules hold."""
    solver = Solver(shard_brokers=shard_brokers, rack_shard_brokers=shard_brokers, rounds=rounds)
    clusters = (ClusterInput(id=ID, input="/unused", kafka_version=kafka_version),)
    settings = Settings(clusters=clusters, policy=policy, solver=solver)
    placement, order = _placement_of(cluster)
    tuning = brief_of(tuning) if brief else _with_prices(tuning, tuning.plan_prices)
    placement, solved, _ = solve_rounds(placement, settings, tuning)
    return Planned(placement.fleet[ID].current[np.argsort(order)], solved[ID], placement)


def _placement_of(cluster: Cluster) -> tuple[MemoryPlacement, Ints]:
    """A cluster as the placement of a fleet, less the rows of tables, which neither rounds nor bounds read; and which
    partitions its rows are."""
    partitions = cluster.partitions
    names = list(zip(partitions.topic, partitions.partition.tolist(), strict=True))
    order = np.array(sorted(range(len(names)), key=names.__getitem__))
    sorted_partitions = partitions.rows(order)
    placement = ClusterPlacement(
        pd.DataFrame(), sorted_partitions, sorted_partitions.replicas.copy(), np.zeros(len(order), dtype=bool)
    )
    return MemoryPlacement({ID: cluster.brokers}, {ID: placement}), order


def one_shard(cluster: Cluster, policy: Policy, tuning: Tuning = TUNED) -> ShardProblem:
    """All brokers as one shard, before any move."""
    brokers, partitions = cluster.brokers, cluster.partitions
    loads, scale = loads_of(cluster, partitions.replicas), load_scale(brokers, demand_of(partitions))
    frame = ClusterFrame(brokers, bands(cluster, policy), loads, scale, tuning)
    owner = np.ones(len(partitions), dtype=bool)
    return assemble(frame, np.arange(len(brokers)), partitions, partitions.replicas, owner)


def loads_of(cluster: Cluster, replicas: Ints) -> Floats:
    """Loads of the brokers under a placement, (B, D)."""
    return broker_loads(len(cluster.brokers), replicas, replica_weights(cluster.partitions))


def lagrangian(cluster: Cluster, planned: Planned, prices: Floats) -> float:
    """What prices, in bytes per mean broker load, prove of a plan."""
    ends = widen(planned.bands, loads_of(cluster, planned.replicas))
    usable = usable_prices(prices * planned.scale[DISK] / planned.scale, ends)
    terms = partition_terms(cluster.brokers, cluster.partitions, usable, planned.replicas)
    return float(terms.sum() - band_price(usable, ends))


def moved_bytes(cluster: Cluster, replicas: Ints) -> int:
    """Bytes of copies that a placement needs."""
    partitions, skips = cluster.partitions, cluster.brokers.skips_tiered
    costs = np.where(skips, partitions.tiered_copy_bytes[:, None], partitions.copy_bytes[:, None])
    pairs = enumerate(zip(partitions.replicas.tolist(), replicas.tolist(), strict=True))
    return sum(int(costs[p, broker]) for p, (before, after) in pairs for broker in {*after} - {*before, -1})


def out_of_band(cluster: Cluster, replicas: Ints, ends: Bands, scale: Floats) -> float:
    """Load outside the bands, in mean broker loads."""
    return float((np.abs(excess(loads_of(cluster, replicas), ends)) / scale).sum())


def rack_breaches(cluster: Cluster, replicas: Ints) -> int:
    """Rack disorder over all partitions."""
    return int(rack_breaks(cluster.brokers, cluster.partitions, replicas).sum())


def outside_pins(cluster: Cluster, replicas: Ints) -> Ints:
    """Replicas of each partition outside its pin, (P,)."""
    groups = group_by_pins(cluster.brokers, cluster.partitions.topic)
    return np.asarray(groups.outside_pin(replicas).sum(axis=1))


def legal_sets(cluster: Cluster, row: int) -> list[tuple[int, ...]]:
    """Every replica set of one partition that meets pins and the rack rule, on brokers that accept or hold replicas.

    A partition that is not free has only its current set.
    """
    brokers, partitions = cluster.brokers, cluster.partitions
    held = {int(b) for b in partitions.replicas[row] if b >= 0}
    if partitions.mobility[row] != FREE:
        return [tuple(sorted(held))]
    usable = [
        b for b in range(len(brokers)) if brokers.accepts_replicas[b] or (b in held and not brokers.must_empty[b])
    ]
    factor = int(partitions.replication_factor[row])
    single = make_partitions([[0] * factor], [1])
    alone = replace(cluster, partitions=replace(single, topic=partitions.topic[row : row + 1]))
    sets = (np.array([s]) for s in itertools.combinations(usable, factor))
    legal = [s for s in sets if rack_breaches(alone, s) == 0 and not outside_pins(alone, s).any()]
    return [tuple(s[0].tolist()) for s in legal]


def spread_over(cluster: Cluster, topics: list[str], topic_spread: float) -> Cluster:
    """The cluster with these topics, and the most that each may have on a broker, as the snapshot has it."""
    sizes, factor = live_rack_sizes(cluster.brokers), cluster.partitions.replication_factor.tolist()
    names = np.array(topics, dtype=object)
    share = np.array([busiest_share(rf, sizes) for rf in factor])
    most = [int(np.ceil(round(topic_spread * share[names == topic].sum(), 6))) for topic in topics]
    partitions = replace(cluster.partitions, topic=names, topic_most_replicas=np.array(most))
    return make_cluster(cluster.brokers, partitions)


def crowds(cluster: Cluster, replicas: Ints) -> dict[tuple[str, int], int]:
    """How many replicas of a topic a broker holds over the most, where it does."""
    partitions = cluster.partitions
    over: dict[tuple[str, int], int] = {}
    hosts = np.flatnonzero(~cluster.brokers.must_empty).tolist()
    for topic in dict.fromkeys(partitions.topic):
        rows = partitions.topic == topic
        placed = replicas[rows]
        counts = np.bincount(placed[placed >= 0], minlength=len(cluster.brokers))
        counts -= int(partitions.topic_most_replicas[rows][0])
        over |= {(str(topic), b): int(counts[b]) for b in hosts if counts[b] > 0}
    return over


def brute_force(cluster: Cluster, ends: Bands, scale: Floats) -> int | None:
    """Least bytes over all placements inside the bands; None where there is none."""
    best: int | None = None
    choices = [legal_sets(cluster, row) for row in range(len(cluster.partitions))]
    width = cluster.partitions.replicas.shape[1]
    for sets in itertools.product(*choices):
        replicas = np.array([[*chosen, *[-1] * (width - len(chosen))] for chosen in sets])
        if not crowds(cluster, replicas) and out_of_band(cluster, replicas, ends, scale) <= 1e-9:
            cost = moved_bytes(cluster, replicas)
            best = cost if best is None else min(best, cost)
    return best


def is_in_order(cluster: Cluster, planned: Planned) -> bool:
    """Whether a plan keeps every band, the rack rule and the spread of topics."""
    placed = planned.replicas
    broken = rack_breaches(cluster, placed) or outside_pins(cluster, placed).any() or crowds(cluster, placed)
    return not broken and out_of_band(cluster, placed, planned.bands, planned.scale) <= 1e-9


@st.composite
def tiny_clusters(draw: st.DrawFn, largest_bytes: int = 50) -> Cluster:
    """Four or five brokers on two or three racks, up to five partitions of replication factor 1 to 3."""
    n = draw(st.integers(4, 5))
    n_racks = draw(st.integers(2, 3))
    racks = [i % n_racks for i in range(n)]
    draining = draw(st.sampled_from([(), (), (n - 1,)]))
    factor = draw(st.integers(1, 3))
    count = draw(st.integers(1, 5 if factor < 3 else 4))
    pairs = st.permutations(range(n)).map(lambda order: list(order[:factor]))
    replicas = [draw(pairs) for _ in range(count)]
    sizes = [draw(st.integers(1, largest_bytes)) for _ in range(count)]
    rates = [draw(st.integers(0, 9)) for _ in range(count)]
    return make_cluster(make_brokers(racks, draining=draining), make_partitions(replicas, sizes, rates))


@st.composite
def with_tiers(draw: st.DrawFn, clusters: st.SearchStrategy[Cluster]) -> Cluster:
    """Clusters in which copies are smaller than replicas, and some brokers skip what is in tiered storage."""
    cluster = draw(clusters)
    brokers, partitions = cluster.brokers, cluster.partitions
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    copied = np.where(generator.random(len(partitions)) < 0.6, partitions.size_bytes // 3, partitions.size_bytes)
    tiered = np.where(generator.random(len(partitions)) < 0.6, copied // 10, copied)
    skips = generator.random(len(brokers)) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    partitions = replace(partitions, copy_bytes=copied, tiered_copy_bytes=tiered)
    return make_cluster(replace(brokers, skips_tiered=skips), partitions)


@st.composite
def tiny_with_policies(draw: st.DrawFn) -> Cluster:
    """Tiny clusters with disks of different size, a broker that takes nothing, and partitions that stay as they are."""
    cluster = draw(tiny_clusters())
    brokers, partitions = cluster.brokers, cluster.partitions
    accepts = brokers.accepts_replicas & (brokers.ids != draw(st.sampled_from([-1, 0, 1])))
    disks = np.array(draw(st.lists(st.sampled_from([100, 200, 400]), min_size=len(brokers), max_size=len(brokers))))
    brokers = replace(brokers, accepts_replicas=accepts, disk_capacity_bytes=disks)
    leaves = brokers.must_empty[partitions.replicas].any(axis=1)
    stays = ~leaves & (rack_breaks(brokers, partitions, partitions.replicas) == 0)
    stays &= np.array(draw(st.lists(st.booleans(), min_size=len(partitions), max_size=len(partitions))))
    mobility = np.where(stays, draw(st.sampled_from([FIXED, FORCED_ONLY])), FREE)
    return make_cluster(brokers, replace(partitions, mobility=mobility))


def with_requested_factors(cluster: Cluster, factors: list[int]) -> Cluster:
    """The cluster with these replication factors requested, except for partitions that are not free."""
    partitions = cluster.partitions
    now = (partitions.replicas >= 0).sum(axis=1)
    requested = np.where(partitions.mobility == FREE, np.array(factors), now)
    more = max(int(requested.max()) - partitions.replicas.shape[1], 0)
    wider = np.pad(partitions.replicas, ((0, 0), (0, more)), constant_values=-1)
    return make_cluster(cluster.brokers, replace(partitions, replicas=wider, replication_factor=requested))


@st.composite
def with_factors(draw: st.DrawFn, clusters: st.SearchStrategy[Cluster], most: int = 3) -> Cluster:
    """Clusters in which some lists are to become longer or shorter, at most as long as brokers accept replicas."""
    cluster = draw(clusters)
    now = (cluster.partitions.replicas >= 0).sum(axis=1).tolist()
    room = int(cluster.brokers.accepts_replicas.sum())
    kept = st.integers(1, max(min(most, room), 1))
    return with_requested_factors(cluster, [factor if draw(st.booleans()) else draw(kept) for factor in now])


def pinned(cluster: Cluster, masks: dict[str, list[int]], topics: list[str]) -> Cluster:
    """The cluster with pins of patterns to brokers, and these topics."""
    ids = cluster.brokers.ids
    pins = tuple(PinMask(pattern, np.isin(ids, masks[pattern])) for pattern in sorted(masks))
    partitions = replace(cluster.partitions, topic=np.array(topics, dtype=object))
    return make_cluster(replace(cluster.brokers, pins=pins), partitions)


@st.composite
def with_pins(draw: st.DrawFn, clusters: st.SearchStrategy[Cluster]) -> Cluster:
    """Clusters with one or two pins, maybe overlapping; every topic has brokers enough."""
    cluster = draw(clusters)
    n, factor = len(cluster.brokers), int(cluster.partitions.replication_factor.max())
    live = cluster.brokers.ids[cluster.brokers.accepts_replicas].tolist()
    first = draw(st.sets(st.sampled_from(live), min_size=min(factor, len(live))))
    second = first | draw(st.sets(st.integers(0, n - 1)))
    topics = draw(st.lists(st.sampled_from(["t", "a", "ab"]), min_size=len(cluster.partitions), max_size=90))
    return pinned(cluster, {"a.*": sorted(second), "ab": sorted(first)}, topics[: len(cluster.partitions)])


@st.composite
def middling_clusters(draw: st.DrawFn) -> Cluster:
    """Six to twelve brokers on two to four racks, 40 to 90 partitions of mixed replication factor, skewed to few
    brokers."""
    n = draw(st.integers(6, 12))
    racks = [i % draw(st.integers(2, 4)) for i in range(n)]
    racks = racks if len(set(racks)) > 1 else [i % 2 for i in range(n)]
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(40, 90))
    skew = generator.dirichlet(np.full(n, 1.5))
    factors = generator.integers(1, 4, count)
    replicas = [generator.choice(n, int(f), replace=False, p=skew).tolist() for f in factors]
    sizes = (generator.lognormal(3, 1.2, count) * 1000).astype(int).tolist()
    rates = (generator.lognormal(2, 1.0, count)).astype(int).tolist()
    draining = draw(st.sampled_from([(), (0,), (n - 1,)]))
    return make_cluster(make_brokers(racks, draining=draining), make_partitions(replicas, sizes, rates))
