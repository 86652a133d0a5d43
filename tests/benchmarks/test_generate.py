"""Benchmark instances: repeatable, equal to the reference generator's, and of the shape that their name says."""

import hashlib
import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.case import read_case
from benchmarks.generate import SCENARIOS, generate
from benchmarks.judge import judge
from benchmarks.odd import ODD, generate_odd

pytestmark = pytest.mark.all_only


def load_script(path: Path) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.shared
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_equals_the_reference(scenario: str, shared: Path) -> None:
    """The generator writes the same bytes as the reference generator."""
    reference = load_script(shared / "bench" / "gen.py")
    theirs = reference.gen("S", scenario, 7)
    ours = generate("S", scenario, 7)
    theirs["meta"].update(size="S", racks=reference.SIZES["S"][2])
    theirs["decommission"] = [b["id"] for b in theirs["brokers"] if b["state"] == "draining"]
    assert json.dumps(ours) == json.dumps(theirs)


def test_repeats() -> None:
    """Equal arguments give equal bytes, on every machine."""
    text = json.dumps(generate("S", "decom", 1))
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "a394fc275ff841e7a7f6ad86ff1cc70ded213bab4547fe11021979f24292d90f"
    )


@pytest.mark.parametrize(
    ("size", "scenario", "racks"), [("Q", "expand", None), ("S", "nope", None), ("S", "uneven", 4)]
)
def test_unknown_arguments(size: str, scenario: str, racks: int | None) -> None:
    """Unknown sizes and scenarios, and uneven racks that are not three, are refused."""
    with pytest.raises(ValueError):
        generate(size, scenario, 1, racks)
    with pytest.raises(ValueError):
        generate_odd("nope")


def _before(instance: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = judge(read_case(instance), None)["before"]
    return state


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenarios(scenario: str) -> None:
    """Each scenario shows what it is named after, and every replica list holds three different brokers."""
    instance = generate("S", scenario, 2)
    state = _before(instance)
    states = Counter(b["state"] for b in instance["brokers"])
    assert state["duplicates"] == 0
    assert (state["over_capacity"] > 0) == (scenario == "uneven")
    assert (states["new"] > 0) == (scenario == "expand")
    assert (state["on_brokers_to_empty"] > 0) == (states["draining"] > 0) == (scenario == "decom")
    assert (state["rack_violations"] > 0) == (scenario != "drift")
    assert state["outside_bands"] > 0


def test_balanced_needs_nothing() -> None:
    """The balanced instance is inside every band, keeps the racks, and its leaders are level."""
    state = _before(generate_odd("balanced", 1))
    assert (state["outside_bands"], state["rack_violations"]) == (0, 0)
    assert state["leaders_max_over_mean"] < 1.1
    assert state["out_max_over_mean"] < 1.1


@pytest.mark.parametrize("name", ODD)
def test_odd_instances_are_possible(name: str) -> None:
    """Replica lists are distinct, known and at least two long; names are unique; one seed gives one instance."""
    instance = generate_odd(name, 3)
    known = {b["id"] for b in instance["brokers"]}
    lists = [p["replicas"] for p in instance["partitions"]]
    assert all(len(set(r)) == len(r) >= 2 and known >= set(r) for r in lists)
    assert len({(p["topic"], p["partition"]) for p in instance["partitions"]}) == len(lists)
    assert instance == generate_odd(name, 3)


def test_odd_shapes() -> None:
    """Each odd instance has the shape that its name says."""
    odd = {name: generate_odd(name, 1) for name in ODD}
    assert {p["topic"] for p in odd["giant_topic"]["partitions"]} == {"giant"}
    assert len({p["topic"] for p in odd["tiny_topics"]["partitions"]}) == 20_000
    assert len({b["disk_capacity_mb"] for b in odd["unequal"]["brokers"]}) == 2
    assert {len(p["replicas"]) for p in odd["rf_mix"]["partitions"]} == {2, 3, 4}
    assert max(p["size_mb"] for p in odd["hot_partition"]["partitions"]) > 100_000
    empty = {b["id"] for b in odd["empty_rack"]["brokers"] if b["rack"] == "r-new"}
    assert empty and not any(empty & set(p["replicas"]) for p in odd["empty_rack"]["partitions"])
    assert all(set(b) == {"id", "rack"} for b in odd["bare"]["brokers"])
