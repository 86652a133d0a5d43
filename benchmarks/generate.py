"""Seeded, Kafka-like instances: ``python -m benchmarks.generate SIZE SCENARIO SEED [RACKS] > instance.json``.

Sizes are S, M, L and XL (30 to 1,000 brokers). Scenarios:

expand   10 % new, empty brokers; 2 % rack violations; 5 % hot brokers
decom    5 % of the brokers are to be emptied; 1 % rack violations; 5 % hot brokers
legacy   placed without regard to racks
drift    the everyday night: level and rack-safe yesterday, since then loads changed by lognormal factors
uneven   three racks of 40, 34 and 26 % of the brokers

``benchmarks.odd`` has instances of unusual shape. Equal arguments give equal instances, byte for byte.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.workload import RF, Hosts, Ints, Loads, Shape, document, make_hosts, make_loads

SCENARIOS = ("expand", "decom", "legacy", "drift", "uneven")
# Brokers, partitions, racks: from a cluster of one shard to one of twenty.
SIZES: Mapping[str, Shape] = {
    "S": Shape(30, 3_000, 5),
    "M": Shape(100, 20_000, 5),
    "L": Shape(300, 60_000, 6),
    "XL": Shape(1_000, 200_000, 10),
}


def generate(size: str, scenario: str, seed: int = 1, racks: int | None = None) -> dict[str, Any]:
    """One instance.

    Parameters
    ----------
    size : str
        A key of ``SIZES``.
    scenario : str
        One of ``SCENARIOS``.
    seed : int
    racks : int, optional
        Racks instead of the size's own number; uneven always has three.

    Raises
    ------
    ValueError
        For an unknown size or scenario, or uneven racks that are not three.
    """
    if size not in SIZES or scenario not in SCENARIOS:
        raise ValueError(f"{size} {scenario}: sizes are {', '.join(SIZES)}, scenarios {', '.join(SCENARIOS)}")
    shape = SIZES[size]
    rack_count = racks or (3 if scenario == "uneven" else shape.racks)
    if scenario == "uneven" and rack_count != 3:
        raise ValueError(f"uneven has three racks, not {rack_count}")
    instance = build(Shape(shape.brokers, shape.partitions, rack_count), scenario, seed)
    instance["meta"].update(size=size, racks=racks or shape.racks)
    instance["decommission"] = [b["id"] for b in instance["brokers"] if b["state"] == "draining"]
    return instance


def build(shape: Shape, scenario: str, seed: int) -> dict[str, Any]:
    """One instance of any shape; see ``generate``."""
    source = [seed, shape.brokers, shape.partitions, shape.racks, SCENARIOS.index(scenario)]
    random = np.random.default_rng(source)
    hosts = make_hosts(shape, scenario, random)
    loads = make_loads(shape, random)
    replicas = _first_placement(shape, scenario, hosts, loads, random)
    if scenario == "drift":
        replicas = level(loads, hosts.rack, shape.racks, random)
        _drift(loads, random)
    elif scenario != "legacy":
        _break_racks(replicas, hosts, 0.02 if scenario == "expand" else 0.01, random)
        _heat(replicas, hosts, loads, random)
    return document(hosts, loads, replicas, meta={"size": None, "scenario": scenario, "seed": seed})


def _broker_order(shape: Shape, scenario: str, hosts: Hosts, random: np.random.Generator) -> Ints:
    """Brokers in the order in which placement walks: shuffled, and alternating racks unless racks are ignored."""
    old = hosts.old
    if scenario == "legacy":
        return random.permutation(old)
    waiting = [list(random.permutation(old[hosts.rack[old] == r])) for r in range(shape.racks)]
    order, turn = [], 0
    while any(waiting):
        if waiting[turn % shape.racks]:
            order.append(waiting[turn % shape.racks].pop())
        turn += 1
    return np.array(order)


def _first_placement(shape: Shape, scenario: str, hosts: Hosts, loads: Loads, random: np.random.Generator) -> Ints:
    """Round robin by topic from a random start, (P, RF) broker indices."""
    order = _broker_order(shape, scenario, hosts, random)
    n = len(order)
    start, shift = random.integers(0, n, loads.n_topics), random.integers(0, n, loads.n_topics)
    replicas = np.empty((shape.partitions, RF), dtype=np.int64)
    for p in range(shape.partitions):
        topic, number = loads.topic[p], loads.number[p]
        at, step = (start[topic] + number) % n, (shift[topic] + number // n) % n
        if scenario == "legacy":
            replicas[p] = [order[at], *(order[(at + 1 + (step + j - 1) % (n - 1)) % n] for j in range(1, RF))]
            if len(set(replicas[p])) < RF:
                replicas[p] = random.choice(order, RF, replace=False)
        else:
            replicas[p] = _walk(order, at, step, hosts.rack, shape.racks)
    return replicas


def _walk(order: Ints, at: int, step: int, rack: Ints, n_racks: int) -> list[int]:
    """RF brokers along the order, each in a rack not yet used while there is one."""
    chosen = [int(order[at])]
    used = {rack[order[at]]}
    k = (at + 1 + step) % len(order)
    while len(chosen) < RF:
        broker = int(order[k])
        if (rack[broker] not in used or len(used) >= n_racks) and broker not in chosen:
            chosen.append(broker)
            used.add(rack[broker])
        k = (k + 1) % len(order)
    return chosen


def level(loads: Loads, rack: Ints, n_racks: int, random: np.random.Generator) -> Ints:
    """Biggest partition first, each replica to the broker of its rack that is emptiest in disk, in and count."""
    n, n_brokers = len(loads.size), len(rack)
    shares = (loads.size / loads.size.sum(), loads.rate_in / loads.rate_in.sum(), np.full(n, 1 / n))
    share = np.stack(shares)
    members = [np.flatnonzero(rack == r) for r in range(n_racks)]
    used = np.zeros((3, n_brokers))
    replicas = np.empty((n, RF), dtype=np.int64)
    for i, p in enumerate(np.argsort(-share.max(0), kind="stable")):
        chosen: list[int] = []
        for j in range(RF):
            free = members[(i + j) % n_racks]
            if n_racks < RF:
                free = free[~np.isin(free, chosen)]
            best = free[np.argmin((used[:, free] + share[:, [p]]).max(0))]
            used[:, best] += share[:, p]
            chosen.append(int(best))
        replicas[p] = random.permutation(chosen)
    return replicas


def _drift(loads: Loads, random: np.random.Generator) -> None:
    """What changed since yesterday: one factor for all loads of a partition."""
    factor = random.lognormal(0, 0.7, loads.n_topics)[loads.topic] * random.lognormal(0, 0.5, len(loads.size))
    loads.size *= factor
    loads.rate_in *= factor
    loads.rate_out *= factor


def _break_racks(replicas: Ints, hosts: Hosts, share: float, random: np.random.Generator) -> None:
    """Put a second replica into the first one's rack, in a share of the partitions."""
    n = len(replicas)
    for p in random.choice(n, int(share * n), replace=False):
        home = hosts.rack[replicas[p, 0]]
        brokers_in_rack = [b for b in hosts.old[hosts.rack[hosts.old] == home] if b not in replicas[p]]
        if brokers_in_rack:
            replicas[p, random.integers(1, RF)] = random.choice(brokers_in_rack)


def _heat(replicas: Ints, hosts: Hosts, loads: Loads, random: np.random.Generator) -> None:
    """Pull a quarter of a broker's mean disk to 5 % of the brokers, from others of their racks."""
    n_old = len(hosts.old)
    hot = random.choice(hosts.old, max(1, round(0.05 * n_old)), replace=False)
    mean = (loads.size[:, None] * np.ones((1, RF))).sum() / n_old
    for broker in hot:
        got, target = 0.0, 0.25 * mean
        in_rack = (hosts.rack[replicas] == hosts.rack[broker]).any(1)
        candidates = np.flatnonzero(in_rack & ~(replicas == broker).any(1))
        random.shuffle(candidates)
        for p in candidates:
            if got >= target:
                break
            slot = int(np.flatnonzero(hosts.rack[replicas[p]] == hosts.rack[broker])[0])
            replicas[p, slot] = broker
            got += loads.size[p]


def main(arguments: list[str] | None = None) -> None:
    """Write one instance to standard output."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description="Write one instance as JSON.")
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("racks", type=int, nargs="?")
    parsed = parser.parse_args(arguments)
    json.dump(generate(parsed.size, parsed.scenario, parsed.seed, parsed.racks), sys.stdout)


if __name__ == "__main__":
    main()
