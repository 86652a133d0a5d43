"""An independent judge: ``python -m benchmarks.judge INSTANCE.json [PLAN.json]`` prints one JSON line.

Recomputes everything from the two files and shares no code with the planner. A move is a replica on a broker that did
not hold one; it costs the partition's size once. Bands lie around the mean that a broker's rack can reach: the total of
a resource is poured over the racks in proportion to the strength of their brokers, and no rack takes more (or less)
than the rack rule lets it.

Lower bounds on moved MB, true for any plan that ends inside the bands:

forced   replicas on brokers to empty, and what the rack rule makes leave or arrive
flow     what brokers must shed, or must take, to come inside their disk bands
dual     by prices (benchmarks/dual.py); takes minutes on large instances, so only with ``--steps``
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import RESOURCES, Bools, Case, Floats, Ints, apply_plan, load_case
from benchmarks.dual import dual_mb

HEADROOM = 0.10  # of a disk that stays free, as in conf/default.toml
SLACK = 1e-6  # of a mean load: rounding of printed figures


def broker_loads(case: Case, replicas: Ints) -> Floats:
    """Load of each broker, (B, 3)."""
    row, slot = np.nonzero(replicas >= 0)
    host, n = replicas[row, slot], len(case.broker_ids)
    return np.stack([np.bincount(host, case.weights[row, d], n) for d in range(3)], axis=1)


def rack_counts(case: Case, replicas: Ints, *, only: Bools | None = None) -> Ints:
    """Replicas of each partition per rack, (P, R); of brokers in ``only``."""
    counts = np.zeros((len(replicas), int(case.rack.max()) + 1), dtype=np.int64)
    row, slot = np.nonzero(replicas >= 0)
    host = replicas[row, slot]
    keep = np.ones(len(host), dtype=bool) if only is None else only[host]
    np.add.at(counts, (row[keep], case.rack[host[keep]]), 1)
    return counts


def rack_limits(case: Case) -> tuple[Ints, Ints]:
    """Most and least replicas of each partition in each rack, (P, R) each."""
    hosts = np.bincount(case.rack, case.stays, int(case.rack.max()) + 1).astype(np.int64)
    racks = max(int((hosts > 0).sum()), 1)
    factor = case.factor
    most = np.ceil(factor / racks).astype(np.int64)
    while (short := np.minimum(most[:, None], hosts).sum(axis=1) < factor).any() and most.max() < hosts.max():
        most[short] += 1
    least = np.where(factor > racks, factor // racks, 0)
    return np.minimum(most[:, None], hosts), np.minimum(least[:, None], hosts)


def strength(case: Case) -> Floats:
    """Share of the load that each broker should carry, (B, 3): by capacity if all capacities are known."""

    def relative(capacity: Floats, otherwise: Floats) -> Floats:
        known = capacity[case.stays]
        return np.where(case.stays, capacity, 0.0) if np.isfinite(known).all() and (known > 0).all() else otherwise

    disk = relative(case.disk_mb, case.stays.astype(np.float64))
    return np.stack([disk, disk, relative(case.in_kbps, disk)], axis=1)


def pour(total: float, weight: Floats, least: Floats, most: Floats) -> Floats:
    """Amounts in proportion to ``weight``, each within [least, most], that add up to ``total``: bisection."""
    low, high = 0.0, 1.0
    while np.clip(high * weight, least, most).sum() < total and high < 1e18:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(middle * weight, least, most).sum() < total else (low, middle)
    return np.clip(high * weight, least, most)


def reachable_mean(case: Case) -> Floats:
    """Load that each broker would carry if its rack held what it can reach, (B, 3); 0 for brokers to empty."""
    most, least = rack_limits(case)
    power = strength(case)
    mean = np.zeros_like(power)
    for d in range(3):
        weight, n_racks = case.weights[:, d], most.shape[1]
        rack_power = np.bincount(case.rack, power[:, d], n_racks).astype(np.float64)
        total = float((weight * case.factor).sum())
        share = pour(total, rack_power, weight @ least, weight @ most)
        per_power = np.divide(share, rack_power, out=np.zeros(n_racks), where=rack_power > 0)
        mean[:, d] = power[:, d] * per_power[case.rack]
    return mean


def bands(case: Case) -> tuple[Floats, Floats]:
    """Lower and upper limit of each broker's loads, (B, 3) each.

    Counts are whole, so their band is widened to the next integers; capacity less headroom cuts the disk's upper limit.
    """
    mean = reachable_mean(case)
    width = np.array([case.bands[r] for r in RESOURCES])
    lower, upper = mean * (1 - np.minimum(width, 1)), mean * (1 + width)
    lower[:, 0] = np.minimum(np.ceil(lower[:, 0] - 1e-9), np.floor(mean[:, 0]))
    upper[:, 0] = np.maximum(np.floor(upper[:, 0] + 1e-9), np.ceil(mean[:, 0]))
    limit = np.where(np.isfinite(case.disk_mb), case.disk_mb * (1 - HEADROOM), np.inf)
    upper[:, 1] = np.minimum(upper[:, 1], limit)
    return np.minimum(lower, upper), np.where(case.stays[:, None], upper, 0.0)


def forced_mb(case: Case) -> float:
    """MB that any plan moves for brokers to empty and the rack rule."""
    most, least = rack_limits(case)
    replica_counts = rack_counts(case, case.replicas, only=case.stays)
    leave = case.factor - replica_counts.sum(axis=1) + np.maximum(replica_counts - most, 0).sum(axis=1)
    arrive = np.maximum(least - replica_counts, 0).sum(axis=1)
    return float((np.maximum(leave, arrive) * case.size_mb).sum())


def flow_mb(case: Case) -> float:
    """MB that brokers must shed or take to come inside their disk bands, the larger of the two."""
    lower, upper = bands(case)
    disk = broker_loads(case, case.replicas)[:, 1]
    return float(max(np.maximum(disk - upper[:, 1], 0).sum(), np.maximum(lower[:, 1] - disk, 0).sum()))


def _held_before(case: Case, replicas: Ints) -> Bools:
    same = (replicas[:, :, None] == case.replicas[:, None, :]) & (replicas[:, :, None] >= 0)
    return np.asarray(same.any(axis=2), dtype=np.bool_)


def movement(case: Case, replicas: Ints) -> dict[str, Any]:
    """What a placement costs."""
    added = ((replicas >= 0) & ~_held_before(case, replicas)).sum(axis=1)
    first_differs = replicas[:, 0] != case.replicas[:, 0]
    return {
        "moves": int(added.sum()),
        "moved_mb": float((added * case.size_mb).sum()),
        "partitions_moved": int((added > 0).sum()),
        "leader_changes": int(first_differs.sum()),
        "led_by_other": int((replicas[:, 0] != case.leader).sum()),
    }


def broken(case: Case, replicas: Ints) -> dict[str, int]:
    """Hard rules that a placement breaks."""
    ordered = np.sort(replicas, axis=1)
    most, least = rack_limits(case)
    replica_counts = rack_counts(case, replicas)
    disk = broker_loads(case, replicas)[:, 1]
    return {
        "duplicates": int(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1).sum()),
        "rf_changed": int(((replicas >= 0).sum(axis=1) != case.factor).sum()),
        "rack_violations": int(((replica_counts > most) | (replica_counts < least)).any(axis=1).sum()),
        "on_brokers_to_empty": int(((replicas >= 0) & ~case.stays[replicas]).sum()),
        "over_capacity": int((disk[case.stays] > case.disk_mb[case.stays]).sum()),
    }


def balance(case: Case, replicas: Ints) -> dict[str, Any]:
    """How level a placement is over the brokers that stay, each against its share by capacity; who misses a band."""
    loads = broker_loads(case, replicas)
    lower, upper = bands(case)
    mean = np.where(case.stays[:, None], reachable_mean(case), 1.0)
    typical = np.maximum(loads.sum(axis=0) / max(int(case.stays.sum()), 1), 1e-12)
    miss = (np.maximum(loads - upper, 0) + np.maximum(lower - loads, 0)) / typical
    share = strength(case) / strength(case).sum(axis=0) * loads.sum(axis=0)
    ratio = (loads / np.maximum(share, 1e-12))[case.stays]
    return {
        "max_over_mean": dict(zip(RESOURCES, ratio.max(axis=0).round(4).tolist(), strict=True)),
        "min_over_mean": dict(zip(RESOURCES, ratio.min(axis=0).round(4).tolist(), strict=True)),
        "disk_max_over_reachable": float((loads[:, 1] / np.maximum(mean[:, 1], 1e-12))[case.stays].max().round(4)),
        "outside_bands": int((miss[case.stays] > SLACK).any(axis=1).sum()),
        "band_misses": float(miss[case.stays].sum().round(4)),
        **_leaders(case, replicas),
    }


def _leaders(case: Case, replicas: Ints) -> dict[str, float]:
    """Most leaders, and most bytes out, over the mean of the brokers that stay."""
    followers = (replicas >= 0).sum(axis=1) - 1
    out = case.out_kbps + followers * case.weights[:, 2]
    first, n = replicas[:, 0], len(case.broker_ids)
    leaders, sent = np.bincount(first, minlength=n)[case.stays], np.bincount(first, out, n)[case.stays]
    return {
        "leaders_max_over_mean": round(float(leaders.max() / max(leaders.mean(), 1e-12)), 4),
        "out_max_over_mean": round(float(sent.max() / max(sent.mean(), 1e-12)), 4),
    }


def judge(case: Case, plan: Mapping[str, Any] | None, *, steps: int = 0) -> dict[str, Any]:
    """Everything about a plan (None: only the bounds and the state before); ``steps`` go into the dual bound.

    Returns
    -------
    dict
        ``bounds`` in MB, ``before`` and, with a plan, ``after``, movement, ``errors`` and ``gap_percent``.
    """
    limits = {"forced_mb": forced_mb(case), "flow_mb": flow_mb(case)}
    if steps:
        limits["dual_mb"] = dual_mb(case, rack_limits(case)[0], bands(case), steps=steps)
    bound = max(limits.values())
    verdict: dict[str, Any] = {"bounds": limits, "bound_mb": bound}
    verdict["before"] = balance(case, case.replicas) | broken(case, case.replicas)
    if plan is None:
        return verdict
    replicas, errors = apply_plan(case, plan)
    verdict |= movement(case, replicas) | {"errors": errors}
    verdict["after"] = balance(case, replicas) | broken(case, replicas)
    moved = verdict["moved_mb"]
    verdict["gap_percent"] = round((moved / bound - 1) * 100, 4) if bound > 0 else (0.0 if moved == 0 else None)
    return verdict


def main(arguments: list[str] | None = None) -> None:
    """Print the verdict as one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge", description="Judge a plan from its files.")
    parser.add_argument("instance", type=Path)
    parser.add_argument("plan", type=Path, nargs="?")
    parser.add_argument("--steps", type=int, default=0, help="steps towards the dual bound; 300 come within 0.2 %%")
    parsed = parser.parse_args(arguments)
    plan = json.loads(parsed.plan.read_text(encoding="utf-8")) if parsed.plan else None
    print(json.dumps(judge(load_case(parsed.instance), plan, steps=parsed.steps)))


if __name__ == "__main__":
    main()
