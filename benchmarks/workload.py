"""Brokers and partitions with their loads: what every instance is drawn from.

Loads of partition p of topic t: rate in is lognormal per topic and partition, size is rate x retention, rate out is
rate in x fan-out. Units: MB of 2^20 bytes, kB of 2^10 bytes per second.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RF = 3  # replicas of each partition: the usual number
MEAN_IN_KBPS = 900.0  # KB/s into a partition: any, as capacities are made to fit
MEAN_SIZE_MB = 12_000.0  # MB of a partition: the same
LARGEST_SHARE = 0.15  # of a broker's mean disk: the most that one replica takes
DISK_FILL, NETWORK_FILL = 0.55, 0.4  # mean load over capacity


@dataclass(frozen=True)
class Shape:
    """How large an instance is.

    Parameters
    ----------
    brokers, partitions, racks : int
    """

    brokers: int
    partitions: int
    racks: int


@dataclass
class Hosts:
    """Brokers: rack index, state and whether they are new, (B,) each."""

    rack: Ints
    state: list[str]
    is_new: Bools

    @property
    def old(self) -> Ints:
        """Brokers that hold replicas."""
        return np.flatnonzero(~self.is_new)


@dataclass
class Loads:
    """Partitions with their loads, (P,) each; ``size`` in MB, rates in kB/s."""

    topic: Ints
    number: Ints
    size: Floats
    rate_in: Floats
    rate_out: Floats
    n_topics: int


def make_hosts(shape: Shape, scenario: str, random: np.random.Generator) -> Hosts:
    """Brokers with racks and states, as the scenario wants them."""
    n = shape.brokers
    rack = np.arange(n) % shape.racks
    if scenario == "uneven":
        first_rack, second_rack = round(0.40 * n), round(0.34 * n)
        rack = random.permutation(np.repeat([0, 1, 2], [first_rack, second_rack, n - first_rack - second_rack]))
    state = ["alive"] * n
    is_new = np.zeros(n, dtype=bool)
    if scenario == "expand":
        is_new[n - round(0.10 * n) :] = True
        state = ["new" if fresh else "alive" for fresh in is_new]
    if scenario == "decom":
        for broker in random.choice(n, max(1, round(0.05 * n)), replace=False):
            state[broker] = "draining"
    return Hosts(rack, state, is_new)


def _topics(shape: Shape, random: np.random.Generator) -> tuple[Floats, Ints]:
    """Weight and number of partitions of each topic."""
    weights, lengths, remaining = [], [], shape.partitions
    while remaining > 0:
        weight = random.lognormal(0, 1.6)
        partition_count = round(6 * weight**0.7 * random.lognormal(0, 0.4))
        length = int(min(remaining, max(1, min(partition_count, max(12, shape.brokers)))))
        weights.append(weight)
        lengths.append(length)
        remaining -= length
    return np.array(weights), np.array(lengths)


def make_loads(shape: Shape, random: np.random.Generator) -> Loads:
    """Partitions with their loads."""
    weight, length = _topics(shape, random)
    n_topics, n = len(weight), shape.partitions
    per_partition = weight / length**0.6
    retention_hours = np.clip(random.lognormal(np.log(48), 0.9, n_topics), 2, 24 * 14)
    fan_out = np.clip(random.lognormal(np.log(2.0), 0.7, n_topics), 0.1, 12)
    topic = np.repeat(np.arange(n_topics), length)
    number = np.concatenate([np.arange(k) for k in length])
    rate_in = per_partition[topic] * random.lognormal(0, 0.35, n)
    rate_in *= MEAN_IN_KBPS / rate_in.mean()
    size = rate_in * 3600 * retention_hours[topic] * random.lognormal(0, 0.15, n) / 1024
    size *= MEAN_SIZE_MB / size.mean()
    size = np.minimum(size, LARGEST_SHARE * size.sum() * RF / shape.brokers)
    rate_out = rate_in * fan_out[topic] * random.lognormal(0, 0.2, n)
    return Loads(topic, number, size, rate_in, rate_out, n_topics)


def document(hosts: Hosts, loads: Loads, replicas: Ints, *, meta: dict[str, Any]) -> dict[str, Any]:
    """The instance as it is written; every broker has the same capacities."""
    n = len(hosts.rack)
    mean_disk = np.bincount(replicas.ravel(), np.repeat(loads.size, RF), n).sum() / n
    limits = {
        "disk_capacity_mb": float(round(mean_disk / DISK_FILL)),
        "nw_in_capacity": float(round(loads.rate_in.sum() * RF / n / NETWORK_FILL)),
        "nw_out_capacity": float(round((loads.rate_out.sum() + loads.rate_in.sum() * (RF - 1)) / n / NETWORK_FILL)),
    }
    brokers = [{"id": b, "rack": f"r{hosts.rack[b]}", "state": hosts.state[b], **limits} for b in range(n)]
    partitions = [
        {
            "topic": f"t{loads.topic[p]}",
            "partition": int(loads.number[p]),
            "replicas": [int(b) for b in replicas[p]],
            "leader": int(replicas[p, 0]),
            "size_mb": round(float(loads.size[p]), 3),
            "nw_in_kbps": round(float(loads.rate_in[p]), 3),
            "nw_out_kbps": round(float(loads.rate_out[p]), 3),
        }
        for p in range(len(replicas))
    ]
    return {"meta": meta, "brokers": brokers, "partitions": partitions}
