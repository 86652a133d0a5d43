"""Nights of a cluster whose load drifts: each night is planned in memory, executed, and judged by the next day."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.signal import lfilter

from benchmarks.planned import rows_of
from optimizer.domain import Brokers, Cluster, Floats, Ints, Partitions
from optimizer.planning.memory_placement import in_memory
from optimizer.settings import ClusterInput, Policy, Settings, Solver
from optimizer.solve import driver
from optimizer.solve.rules.bands import broker_loads, replica_weights
from optimizer.solve.rules.resources import DISK
from tests.solve.clusters import BRIEF, ID, make_brokers, make_partitions

BURN_IN = 20  # days before the first night, so that the retention is full
RACKS, FACTOR = 5, 3
SOLVER = Solver(curve_brokers=0, alternatives_brokers=0)
SEARCHED = replace(BRIEF, exact_cells=0)  # one price on moves, and shards as large clusters have


@dataclass(frozen=True)
class Drift:
    """Loads of partitions by day, and where they are at the begin.

    Parameters
    ----------
    rates, sizes : (days, P) int64
        Bytes per second, bytes.
    """

    brokers: Brokers
    partitions: Partitions
    rates: Ints
    sizes: Ints


@dataclass(frozen=True)
class Month:
    """What the nights of a policy cost.

    Parameters
    ----------
    plans, moves, leader_changes : int
        Nights with a copy; replicas copied; preferred leaders that changed.
    bytes_share : float
        Bytes copied, as a share of the bytes stored in the mean.
    worst_disk : float
        The fullest disk over the mean on the day after a night; the mean of all nights.
    """

    plans: int
    moves: int
    leader_changes: int
    bytes_share: float
    worst_disk: float


def _ar(random: np.random.Generator, days: int, count: int, phi: float, sd: float) -> Floats:
    """Stationary autoregressive series, (days, count)."""
    steps = random.normal(0, sd * np.sqrt(1 - phi**2), (days, count))
    steps[0] = random.normal(0, sd, count)
    return np.asarray(lfilter([1], [1, -phi], steps, axis=0))


def drift(brokers: int, partitions: int, nights: int, seed: int) -> Drift:
    """Topics of ranked rates that wander, rest at weekends and are hot for some days; retentions of days."""
    random = np.random.default_rng(seed)
    topics, days = partitions // 10, BURN_IN + nights + 1
    rate = np.arange(1, topics + 1) ** -1.0 * random.lognormal(0, 0.3, topics)
    counts = np.clip(rate**0.4 * random.lognormal(0, 0.5, topics), 1e-9, None)
    counts = np.clip(np.round(counts / counts.sum() * partitions), 1, 2 * brokers).astype(int)
    level = np.exp(_ar(random, days, topics, 0.95, 0.7) + random.normal(0, 0.1, (days, topics)))
    rests = random.random(topics) < 0.7
    level[np.ix_(np.arange(days) % 7 >= 5, rests)] *= 0.55
    for day in range(days):
        for topic in random.integers(topics // 50, topics, random.poisson(0.4 * topics / 300)):
            level[day : day + random.integers(2, 6), topic] *= 5
    of = np.repeat(np.arange(topics), counts)
    skew = random.lognormal(0, 0.5, len(of)) * np.exp(_ar(random, days, len(of), 0.9, 0.35))
    rates = (rate / counts)[of] * level[:, of] * skew
    retention = np.clip(3 * random.lognormal(0, 1, topics), 0.1, 14)[of]
    sums = np.concatenate([np.zeros((1, len(of))), np.cumsum(rates, axis=0)])
    ages = np.minimum(retention, np.arange(1, days + 1)[:, None])
    whole = ages.astype(int)
    rows, columns = np.arange(days)[:, None], np.arange(len(of))[None, :]
    oldest = np.maximum(rows - whole, 0)
    sizes = sums[rows + 1, columns] - sums[rows + 1 - whole, columns] + (ages - whole) * rates[oldest, columns]
    sizes *= random.lognormal(0, 0.15, len(of))
    lists = [_striped(topic, n, brokers) for topic, count in enumerate(counts) for n in range(count)]
    per_second = 2e7 / rates.mean()
    made = make_partitions(lists, [1] * len(of))
    names = np.array([f"t{topic:04d}" for topic in of], dtype=object)
    numbers = np.concatenate([np.arange(count) for count in counts])
    return Drift(
        make_brokers([broker % RACKS for broker in range(brokers)]),
        Partitions(**{**vars(made), "topic": names, "partition": numbers}),
        np.asarray(rates * per_second).astype(np.int64),
        np.asarray(sizes * per_second * 86400).astype(np.int64),
    )


def _striped(topic: int, number: int, brokers: int) -> list[int]:
    """Replicas as Kafka places them: racks in turn."""
    first = topic * 7 + number
    return [(first + slot * (1 + topic % 2)) % brokers for slot in range(FACTOR)]


def month(load: Drift, policy: Policy, nights: Sequence[int]) -> Month:
    """Plan and execute every night; night d plans with the loads of day d - 1 and is judged by those of day d."""
    lists, stored = load.partitions.replicas, load.sizes[list(nights)].sum(axis=1).mean() * FACTOR
    settings = Settings(clusters=(ClusterInput(id=ID, input="/unused"),), policy=policy, solver=SOLVER)
    plans = moves = changes = moved = 0
    worst = []
    for day in nights:
        known = _on(load, lists, day - 1)
        solved = driver.solve(
            in_memory(rows_of(Cluster(ID, load.brokers, known)), {ID: load.brokers}), settings, SEARCHED
        )
        copies = solved.placement.copies([ID])[ID]
        plans, moves, moved = plans + bool(copies.moves), moves + copies.moves, moved + copies.moved_bytes
        changes += len(solved.tables["leaders"])
        lists = _executed(known, solved.tables["proposal"])
        disk = broker_loads(len(load.brokers), lists, replica_weights(_on(load, lists, day)))[:, DISK]
        worst.append(disk.max() / disk.mean())
    return Month(plans, moves, changes, moved / stored, float(np.mean(worst)))


def _on(load: Drift, lists: Ints, day: int) -> Partitions:
    """The partitions on a day, with these lists."""
    rates = load.rates[day]
    loads = {"size_bytes": load.sizes[day], "in_bytes_per_s": rates, "out_bytes_per_s": 2 * rates}
    return Partitions(**{**vars(load.partitions), "replicas": lists, "leader": lists[:, 0], "isr": lists, **loads})


def _executed(partitions: Partitions, proposal: object) -> Ints:
    lists = partitions.replicas.copy()
    rows = {key: row for row, key in enumerate(zip(partitions.topic, partitions.partition.tolist(), strict=True))}
    for topic, number, replicas in proposal[["topic", "partition", "replicas"]].itertuples(index=False):  # type: ignore[index]
        lists[rows[topic, int(number)]] = replicas
    return lists
