"""Instances of unusual shape: ``python -m benchmarks.odd NAME [SEED] > instance.json``.

balanced       level and rack-safe: the right plan is none
giant_topic    every partition belongs to one topic
tiny_topics    20,000 topics of one partition each, on 100 brokers
unequal        every third broker has twice the disk and network
network        the same, but of the network alone, and the disks are not known
rf_mix         topics with 2, 3 and 4 replicas
hot_partition  three partitions of half a broker's mean disk each
empty_rack     the new brokers are a rack of their own
bare           no capacities, some sizes and rates 0, wide bands asked for
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.generate import build, level
from benchmarks.workload import Shape, document, make_hosts, make_loads

Instance = dict[str, Any]
# Brokers, partitions, racks: of sizes S and M.
SMALL = Shape(30, 3_000, 5)
WIDE = Shape(100, 20_000, 5)  # where there are several shards


def _level(shape: Shape, seed: int) -> Instance:
    random = np.random.default_rng([seed, shape.brokers])
    hosts, loads = make_hosts(shape, "legacy", random), make_loads(shape, random)
    return document(hosts, loads, level(loads, hosts.rack, shape.racks, random), meta={"seed": seed})


def _level_leaders(instance: Instance) -> None:
    """Put the replica first whose broker leads least, in number and in bytes out; biggest partition first."""
    out = {id(p): p["nw_out_kbps"] + (len(p["replicas"]) - 1) * p["nw_in_kbps"] for p in instance["partitions"]}
    mean = sum(out.values()) / len(out)
    used = {b["id"]: [0.0, 0.0] for b in instance["brokers"]}
    for partition in sorted(instance["partitions"], key=lambda p: -out[id(p)]):
        load = (1.0, out[id(partition)] / mean)
        best = min(partition["replicas"], key=lambda b: (max(u + x for u, x in zip(used[b], load, strict=True)), b))
        used[best] = [u + x for u, x in zip(used[best], load, strict=True)]
        partition["replicas"] = [best, *(b for b in partition["replicas"] if b != best)]
        partition["leader"] = best


def _balanced(seed: int) -> Instance:
    instance = _level(SMALL, seed)
    _level_leaders(instance)
    instance["meta"]["bands"] = {"in": 0.15}
    return instance


def _one_topic(seed: int) -> Instance:
    instance = build(SMALL, "expand", seed)
    for number, partition in enumerate(instance["partitions"]):
        partition.update(topic="giant", partition=number)
    return instance


def _tiny_topics(seed: int) -> Instance:
    instance = build(WIDE, "expand", seed)
    for number, partition in enumerate(instance["partitions"]):
        partition.update(topic=f"tiny-{number:05d}", partition=0)
    return instance


def _unequal(seed: int) -> Instance:
    instance = _level(SMALL, seed)
    for broker in instance["brokers"][::3]:
        for limit in ("disk_capacity_mb", "nw_in_capacity", "nw_out_capacity"):
            broker[limit] *= 2
    return instance


def _network(seed: int) -> Instance:
    instance = _unequal(seed)
    for broker in instance["brokers"]:
        del broker["disk_capacity_mb"]
    return instance


def _rf_mix(seed: int) -> Instance:
    """A quarter of the topics with two replicas, a quarter with four: the fourth in a rack that holds none yet."""
    instance = build(SMALL, "expand", seed)
    random = np.random.default_rng([seed, 4])
    old = [b for b in instance["brokers"] if b["state"] == "alive"]
    rack = {b["id"]: b["rack"] for b in instance["brokers"]}
    kinds = dict.fromkeys(p["topic"] for p in instance["partitions"])
    factor = {topic: int(random.choice([2, 3, 3, 4])) for topic in kinds}
    for partition in instance["partitions"]:
        replicas = partition["replicas"]
        used = {rack[b] for b in replicas}
        fresh = [b["id"] for b in old if b["rack"] not in used]
        partition["replicas"] = [*replicas, int(random.choice(fresh))][: factor[partition["topic"]]]
    return instance


def _hot_partition(seed: int) -> Instance:
    instance = build(SMALL, "expand", seed)
    total = sum(p["size_mb"] * len(p["replicas"]) for p in instance["partitions"])
    for partition in instance["partitions"][:: len(instance["partitions"]) // 3][:3]:
        partition["size_mb"] = round(0.5 * total / len(instance["brokers"]), 3)
    return instance


def _empty_rack(seed: int) -> Instance:
    instance = build(SMALL, "expand", seed)
    for broker in instance["brokers"]:
        if broker["state"] == "new":
            broker["rack"] = "r-new"
    return instance


def _bare(seed: int) -> Instance:
    instance = build(SMALL, "expand", seed)
    instance["brokers"] = [{k: b[k] for k in ("id", "rack")} for b in instance["brokers"]]
    for partition in instance["partitions"][::10]:
        partition.update(size_mb=0, nw_in_kbps=0, nw_out_kbps=0)
    instance["meta"]["bands"] = {"count": 0.1, "disk": 0.1, "in": 0.1}
    return instance


ODD: dict[str, Callable[[int], Instance]] = {
    "balanced": _balanced,
    "giant_topic": _one_topic,
    "tiny_topics": _tiny_topics,
    "unequal": _unequal,
    "network": _network,
    "rf_mix": _rf_mix,
    "hot_partition": _hot_partition,
    "empty_rack": _empty_rack,
    "bare": _bare,
}


def generate_odd(name: str, seed: int = 1) -> Instance:
    """The instance of a name in ``ODD``.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    if name not in ODD:
        raise ValueError(f"{name}: known are {', '.join(ODD)}")
    instance = ODD[name](seed)
    instance["meta"].update(scenario=name, size="odd")
    instance["decommission"] = []
    return instance


def main(arguments: list[str] | None = None) -> None:
    """Write one instance to standard output."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.odd", description="Write one odd instance as JSON.")
    parser.add_argument("name", choices=ODD)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parsed = parser.parse_args(arguments)
    json.dump(generate_odd(parsed.name, parsed.seed), sys.stdout)


if __name__ == "__main__":
    main()
