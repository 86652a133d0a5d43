"""An instance and a plan as arrays, for the judge. It shares no code with the planner."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

RESOURCES = ("count", "disk", "in")
DEFAULT_BANDS = {"count": 0.10, "disk": 0.05, "in": 0.10}  # widths as shares of the mean, as in conf/default.toml
LEAVING = ("draining", "dead", "removed")


@dataclass(frozen=True)
class Case:
    """One instance.

    Parameters
    ----------
    broker_ids, rack : (B,) int64
        ``rack`` counts from 0; if no broker has a rack, each broker is its own rack.
    stays : (B,) bool
        False for brokers that a plan must empty.
    disk_mb, in_kbps : (B,) float64
        Capacities; NaN where unknown.
    names : tuple of (topic, partition)
    replicas : (P, W) int64
        Positions in ``broker_ids``, padded with -1.
    leader : (P,) int64
        Position of the leader.
    weights : (P, 3) float64
        Load of one replica: 1, MB, kB/s in.
    out_kbps : (P,) float64
    bands : mapping
        Relative width per resource.
    """

    broker_ids: Ints
    rack: Ints
    stays: Bools
    disk_mb: Floats
    in_kbps: Floats
    names: tuple[tuple[str, int], ...]
    replicas: Ints
    leader: Ints
    weights: Floats
    out_kbps: Floats
    bands: Mapping[str, float]

    @property
    def size_mb(self) -> Floats:
        """MB of one replica, (P,)."""
        return self.weights[:, 1]

    @property
    def factor(self) -> Ints:
        """Replicas of each partition, (P,)."""
        return np.asarray((self.replicas >= 0).sum(axis=1), dtype=np.int64)


def matrix(lists: list[list[int]]) -> Ints:
    """Lists of different lengths as rows, padded with -1."""
    table = np.full((len(lists), max(map(len, lists), default=1)), -1, dtype=np.int64)
    for row, values in zip(table, lists, strict=True):
        row[: len(values)] = values
    return table


def _racks(brokers: list[dict[str, Any]]) -> Ints:
    labels = [b.get("rack") for b in brokers]
    if all(label is None for label in labels):
        return np.arange(len(brokers))
    return np.unique([str(label) for label in labels], return_inverse=True)[1].astype(np.int64)


def _column(rows: list[dict[str, Any]], name: str, absent: float) -> Floats:
    return np.array([absent if r.get(name) is None else r[name] for r in rows], dtype=np.float64)


def read_case(content: Mapping[str, Any]) -> Case:
    """The case of an instance as ``benchmarks.generate`` writes it."""
    brokers, partitions = content["brokers"], content["partitions"]
    at = {b["id"]: i for i, b in enumerate(brokers)}
    leaving = set(content.get("decommission") or [])
    size, rate = _column(partitions, "size_mb", 0.0), _column(partitions, "nw_in_kbps", 0.0)
    return Case(
        broker_ids=np.array(list(at), dtype=np.int64),
        rack=_racks(brokers),
        stays=np.array([b.get("state", "alive") not in LEAVING and b["id"] not in leaving for b in brokers]),
        disk_mb=_column(brokers, "disk_capacity_mb", np.nan),
        in_kbps=_column(brokers, "nw_in_capacity", np.nan),
        names=tuple((p["topic"], p["partition"]) for p in partitions),
        replicas=matrix([[at[b] for b in p["replicas"]] for p in partitions]),
        leader=np.array([at[p.get("leader", p["replicas"][0])] for p in partitions], dtype=np.int64),
        weights=np.stack([np.ones(len(size)), size, rate], axis=1),
        out_kbps=_column(partitions, "nw_out_kbps", 0.0),
        bands=DEFAULT_BANDS | (content.get("meta", {}).get("bands") or {}),
    )


def load_case(path: Path) -> Case:
    """The case in a file."""
    return read_case(json.loads(path.read_text(encoding="utf-8")))


def apply_plan(case: Case, plan: Mapping[str, Any]) -> tuple[Ints, list[str]]:
    """Replicas after a reassignment document, and its entries that can't be applied.

    Parameters
    ----------
    case : Case
    plan : mapping
        ``{"version": 1, "partitions": [{"topic", "partition", "replicas"}]}``; all other partitions stay.
    """
    row = {name: i for i, name in enumerate(case.names)}
    at = {int(b): i for i, b in enumerate(case.broker_ids)}
    lists = [[int(b) for b in r if b >= 0] for r in case.replicas]
    errors, seen_names = [], set()
    for entry in plan["partitions"]:
        name = (entry["topic"], entry["partition"])
        unknown = [b for b in entry["replicas"] if b not in at]
        if name not in row or name in seen_names or unknown or not entry["replicas"]:
            errors.append(f"{name[0]}-{name[1]} {entry['replicas']}: unknown, repeated or empty")
            continue
        seen_names.add(name)
        lists[row[name]] = [at[b] for b in entry["replicas"]]
    return matrix(lists), errors
