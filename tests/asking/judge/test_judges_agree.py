"""The figures of ``judge`` are those of the benchmark's own judge, which shares no code with it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from asking.judge.judge import judged
from asking.judge.read_plan import read_plans
from benchmarks.case import read_case
from benchmarks.generate import SCENARIOS, generate
from benchmarks.judge import judge as independent_judge
from benchmarks.planned import MB
from benchmarks.run import BAND_NAMES
from tests.asking.benchmark_facts import facts_of
from tests.benchmarks.test_judge import shuffled_plan

pytestmark = pytest.mark.all_only


def policy_of(instance: Mapping[str, Any]) -> dict[str, Any]:
    """The policy that a benchmark run of the instance has."""
    widths = (instance.get("meta") or {}).get("bands") or {}
    return {
        "drain_brokers": sorted(instance.get("decommission") or []),
        **{BAND_NAMES[name]: float(width) for name, width in widths.items() if name in BAND_NAMES},
    }


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_judges_have_the_same_figures(scenario: str, tmp_path: Path) -> None:
    """A plan that moves some replicas anywhere: copies, bytes, leaders, racks, brokers to empty, bands."""
    instance = generate("S", scenario, 7)
    plan = shuffled_plan(instance, 3)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    theirs = judged(facts_of(instance, policy=policy_of(instance)), read_plans([file]), {}).theirs
    expected = independent_judge(read_case(instance), plan)
    after = expected["after"]
    assert theirs["replicas_moved"][1] == expected["moves"]
    assert theirs["leader_changes"][1] == expected["leader_changes"]
    assert theirs["moved_bytes"][1] == pytest.approx(expected["moved_mb"] * MB, rel=1e-6)
    assert theirs["rack_violations"] == (expected["before"]["rack_violations"], after["rack_violations"])
    assert theirs["replicas_on_leaving_brokers"][1] == after["on_brokers_to_empty"]
    # The other judge counts brokers that stay; those to empty are outside while they hold a replica.
    lists = {(p["topic"], p["partition"]): p["replicas"] for p in (*instance["partitions"], *plan["partitions"])}
    leaving = {b for replicas in lists.values() for b in replicas} & {*(instance.get("decommission") or [])}
    assert theirs["brokers_outside_bands"][1] == after["outside_bands"] + len(leaving)
