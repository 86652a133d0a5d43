"""The judge agrees with the reference scripts and with hand-made cases."""

import json
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.case import read_case
from benchmarks.generate import SCENARIOS, generate
from benchmarks.judge import bands, broker_loads, judge, main, movement, pour, rack_counts, rack_limits
from tests.benchmarks.test_generate import load_script

pytestmark = pytest.mark.all_only


def shuffled_plan(instance: dict[str, Any], seed: int) -> dict[str, Any]:
    """A plan that moves some replicas anywhere and reorders some lists; it may be good or bad."""
    random = np.random.default_rng(seed)
    ids = [b["id"] for b in instance["brokers"]]
    rows = []
    for partition in instance["partitions"][::7]:
        replicas = list(partition["replicas"])
        free = [b for b in ids if b not in replicas]
        replicas[int(random.integers(3))] = int(random.choice(free))
        rows.append({"topic": partition["topic"], "partition": partition["partition"], "replicas": replicas[::-1]})
    return {"version": 1, "partitions": rows}


@pytest.mark.shared
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_agrees_with_the_reference(scenario: str, shared: Path, tmp_path: Path) -> None:
    """Movement, bands, violations and bounds are those of the reference's bound.py and score.py."""
    instance = generate("S", scenario, 5)
    plan = shuffled_plan(instance, 1)
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(instance))
    after.write_text(json.dumps(plan))
    ours = judge(read_case(instance), plan)
    bound = load_script(shared / "bench" / "bound.py")
    theirs = bound.load(str(before))
    figures = bound.report(theirs, bound.apply_plan(theirs, str(after), str(before)))
    assert ours["bounds"]["forced_mb"] == pytest.approx(bound.forced(theirs)[0])
    assert max(ours["bounds"].values()) == pytest.approx(bound.flow_lb(theirs)[0])
    assert ours["moves"] == figures["moves"]
    assert ours["moved_mb"] / 1024 == pytest.approx(figures["bytes_GB"], abs=0.1)
    state = ours["after"]
    assert (state["duplicates"], state["rack_violations"]) == (figures["dup"], figures["rack"])
    assert (state["on_brokers_to_empty"], state["outside_bands"]) == (figures["drain"], figures["outofband"])


@pytest.mark.shared
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_agrees_with_the_scorer(
    scenario: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leaders, racks, capacity and balance are those of the reference's score.py."""
    instance = generate("S", scenario, 6)
    plan = shuffled_plan(instance, 2)
    (tmp_path / "before.json").write_text(json.dumps(instance))
    (tmp_path / "after.json").write_text(json.dumps(plan))
    monkeypatch.setattr("sys.argv", ["score.py", str(tmp_path / "before.json"), str(tmp_path / "after.json"), "--json"])
    load_script(shared / "bench" / "score.py").main()
    theirs = json.loads(capsys.readouterr().out)
    ours = judge(read_case(instance), plan)
    assert (ours["moves"], ours["leader_changes"]) == (theirs["moves"], theirs["leader_changes"])
    assert ours["led_by_other"] == theirs["led_by_other"]
    assert ours["moved_mb"] == pytest.approx(theirs["moved_mb"], abs=0.1)
    assert ours["bounds"]["forced_mb"] == pytest.approx(theirs["lb_forced"]["mb"], abs=0.1)
    for side in ("before", "after"):
        state, score = ours[side], theirs[side]
        assert state["rack_violations"] == score["rack_viol"]
        assert state["on_brokers_to_empty"] == score["on_decommissioned"]
        assert state["over_capacity"] == score["over_capacity"]
        leaders, out = state["leaders_max_over_mean"], state["out_max_over_mean"]
        assert leaders == pytest.approx(score["leaders"]["max_over_mean"], abs=1e-4)
        assert out == pytest.approx(score["nw_out"]["max_over_mean"], abs=1e-4)


@pytest.mark.shared
@pytest.mark.parametrize(("scenario", "share"), [("decom", 1.0), ("uneven", 0.99), ("legacy", 0.99)])
def test_dual_bound_is_near_the_reference(scenario: str, share: float, shared: Path, tmp_path: Path) -> None:
    """The bound by prices comes near that of the reference's linear program, or above it."""
    instance = generate("S", scenario, 2)
    (tmp_path / "i.json").write_text(json.dumps(instance))
    bound = load_script(shared / "bench" / "bound.py")
    reference = bound.bounds(bound.load(str(tmp_path / "i.json")))
    ours = judge(read_case(instance), None, steps=300)["bounds"]
    assert max(ours.values()) >= share * max(reference.values())


def least_movement(instance: dict[str, Any]) -> float:
    """MB of the cheapest placement of the small instance inside the bands, by trying all; infinite without one."""
    case = read_case(instance)
    lower, upper = bands(case)
    most, least = rack_limits(case)
    lists = [list(pair) for pair in combinations(range(4), 2)]
    cheapest = float("inf")
    for choice in product(lists, repeat=4):
        replicas = np.array(choice)
        held, loads = rack_counts(case, replicas), broker_loads(case, replicas)
        if (held <= most).all() and (held >= least).all() and ((loads >= lower) & (loads <= upper)).all():
            cheapest = min(cheapest, movement(case, replicas)["moved_mb"])
    return cheapest


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(50, 150), min_size=4, max_size=4),
    st.lists(st.sampled_from([[0, 1], [1, 2], [0, 3], [2, 3], [0, 2]]), min_size=4, max_size=4),
    st.floats(0.1, 1.0),
)
def test_bounds_hold(sizes: list[int], lists: list[list[int]], width: float) -> None:
    """No placement inside the bands, of all there are, moves less than any of the bounds says."""
    instance = tiny(meta={"bands": {"count": 1, "disk": width, "in": width}})
    for partition, size, replicas in zip(instance["partitions"], sizes, lists, strict=True):
        partition.update(size_mb=size, replicas=replicas)
    limits = judge(read_case(instance), None, steps=60)["bounds"]
    assert max(limits.values()) <= least_movement(instance) * (1 + 1e-9) + 1e-6


def tiny(**changes: Any) -> dict[str, Any]:
    """Four brokers in two racks, four partitions of 100 MB with two replicas each; broker 3 is empty."""
    brokers = [{"id": b, "rack": f"r{b % 2}", "disk_capacity_mb": 1000.0} for b in range(4)]
    lists = [[0, 1], [1, 2], [0, 1], [2, 1]]
    rows = [
        {"topic": "t", "partition": i, "replicas": r, "size_mb": 100, "nw_in_kbps": 10, "nw_out_kbps": 5}
        for i, r in enumerate(lists)
    ]
    return {"brokers": brokers, "partitions": rows} | changes


def plan_of(**lists: list[int]) -> dict[str, Any]:
    """A plan for partitions ``pN`` of topic t."""
    return {
        "version": 1,
        "partitions": [{"topic": "t", "partition": int(k[1:]), "replicas": r} for k, r in lists.items()],
    }


def test_bounds_by_hand() -> None:
    """Broker 3 must take 190 MB to come within 5 % of 200 MB; two replicas of 100 MB do it, so the gap is 5.26 %."""
    verdict = judge(read_case(tiny()), plan_of(p0=[0, 3], p2=[3, 0]))
    assert verdict["bounds"] == {"forced_mb": 0.0, "flow_mb": pytest.approx(190)}
    assert (verdict["moves"], verdict["moved_mb"], verdict["leader_changes"]) == (2, 200.0, 1)
    assert verdict["gap_percent"] == pytest.approx(5.2632)
    assert (verdict["before"]["outside_bands"], verdict["after"]["outside_bands"]) == (2, 0)


def test_forced_by_hand() -> None:
    """A broker to empty forces its replicas, and two replicas in one rack force one."""
    instance = tiny(decommission=[1])
    instance["partitions"][0]["replicas"] = [0, 2]
    verdict = judge(read_case(instance), None)
    assert verdict["bounds"]["forced_mb"] == 400.0
    assert (verdict["before"]["rack_violations"], verdict["before"]["on_brokers_to_empty"]) == (1, 3)


@pytest.mark.parametrize(
    ("plan", "rule", "count"),
    [
        (plan_of(p0=[0, 0]), "duplicates", 1),
        (plan_of(p0=[0]), "rf_changed", 1),
        (plan_of(p0=[0, 2]), "rack_violations", 1),
        (plan_of(p0=[0, 3]), "rack_violations", 0),
    ],
)
def test_broken_rules(plan: dict[str, Any], rule: str, count: int) -> None:
    """A plan that breaks a hard rule is seen."""
    assert judge(read_case(tiny()), plan)["after"][rule] == count


def test_plans_that_do_not_fit() -> None:
    """Unknown brokers and partitions, and repeated ones, are errors and not applied."""
    plan = plan_of(p0=[0, 9], p8=[0, 1], p1=[])
    plan["partitions"] += plan_of(p2=[0, 1])["partitions"] * 2
    verdict = judge(read_case(tiny()), plan)
    assert len(verdict["errors"]) == 4
    assert verdict["moves"] == 0


def test_no_racks_and_no_capacities() -> None:
    """Without racks each broker is its own; without capacities each carries the same."""
    instance = tiny()
    instance["brokers"] = [{"id": b} for b in range(4)]
    verdict = judge(read_case(instance), None)
    assert verdict["before"]["rack_violations"] == 0
    assert verdict["bounds"]["flow_mb"] == pytest.approx(190)


def test_capacity_shares() -> None:
    """A broker with twice the disk is to carry twice the bytes."""
    instance = tiny()
    instance["brokers"][1]["disk_capacity_mb"] = instance["brokers"][0]["disk_capacity_mb"] = 2000.0
    ratio = judge(read_case(instance), None)["before"]["max_over_mean"]["disk"]
    assert ratio == pytest.approx(400 / (800 / 3), abs=1e-4)


def test_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints the verdict as one line of JSON."""
    (tmp_path / "i.json").write_text(json.dumps(tiny()))
    (tmp_path / "p.json").write_text(json.dumps(plan_of(p0=[0, 3])))
    main([str(tmp_path / "i.json"), str(tmp_path / "p.json")])
    assert json.loads(capsys.readouterr().out)["moves"] == 1


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=6),
    st.floats(0, 1),
)
def test_pour_keeps_limits_and_total(rows: list[tuple[int, int, int]], at: float) -> None:
    """Poured amounts stay within their limits and add up to any total that the limits allow."""
    weight, least, extra = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    most = least + extra
    total = least.sum() + at * extra.sum()
    poured = pour(total, weight, least, most)
    assert (poured >= least - 1e-9).all()
    assert (poured <= most + 1e-9).all()
    assert poured.sum() == pytest.approx(total, abs=1e-6)
