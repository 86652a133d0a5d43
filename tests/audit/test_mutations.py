"""A valid plan, changed anywhere, is caught; and the audit is quick."""

import json
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.audit import AuditClaims, AuditLimits, AuditPartition, audit_plan
from tests.audit.plans import broker, document, draining, rules_broken

RACKS = 3
Plan = dict[str, Any]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A small rack-aware cluster with a broker to empty, and a valid plan in waves, as arguments of ``audit_plan``."""
    hosts = [broker(b, f"r{b % RACKS}", disk_capacity_bytes=10**6) for b in range(9)]
    hosts.append(draining(9, "r0"))
    rows, targets = [], {}
    for number in range(draw(st.integers(2, 8))):
        before = [draw(st.sampled_from([b.broker_id for b in hosts if b.rack == f"r{r}"])) for r in range(RACKS)]
        before = draw(st.permutations(before))
        size = draw(st.integers(1, 1000))
        rows.append(
            AuditPartition(
                topic=draw(st.sampled_from(["a", "b.c-1"])),
                partition=number,
                replicas=tuple(before),
                size_bytes=size,
                replication_factor=RACKS,
                mobility="free",
            )
        )
        slot = before.index(9) if 9 in before else draw(st.integers(0, RACKS - 1))
        after = list(before)
        after[slot] = draw(
            st.sampled_from([b for b in range(9) if b % RACKS == before[slot] % RACKS and b != before[slot]])
        )
        if 9 in before or draw(st.booleans()) or number < 2:
            targets[rows[-1].key] = draw(st.permutations(after))
    n_waves = draw(st.integers(1, 2))
    keys = sorted(targets)
    before_of = {p.key: p for p in rows}
    moved = sum(before_of[k].size_bytes * len(set(targets[k]) - set(before_of[k].replicas)) for k in keys)
    return {
        "brokers": hosts,
        "partitions": rows,
        "waves": [document({k: targets[k] for k in keys[i::n_waves]}) for i in range(n_waves)],
        "whole": document(targets),
        "rollback": document({k: before_of[k].replicas for k in keys}),
        "limits": AuditLimits(disk_headroom=0.1),
        "claims": AuditClaims(
            moved_bytes=moved,
            replicas_moved=len(keys),
            leader_changes=sum(targets[k][0] != before_of[k].replicas[0] for k in keys),
            partitions_changed=len(keys),
            bound_bytes=moved,
        ),
    }


def _change_entry(draw: st.DrawFn, content: dict[str, Any]) -> None:
    """Change one entry of a parsed document, in place."""
    rows = content["partitions"]
    at = draw(st.integers(0, len(rows) - 1))
    row = rows[at]
    kind = draw(st.sampled_from(["drop", "repeat", "topic", "partition", "swap", "broker", "shorter", "longer"]))
    if kind == "drop":
        del rows[at]
    elif kind == "repeat":
        rows.append(row)
    elif kind == "topic":
        row["topic"] += "x"
    elif kind == "partition":
        row["partition"] += draw(st.sampled_from([-1, 1, 100]))
    elif kind == "swap":
        row["replicas"] = [*row["replicas"][1:], row["replicas"][0]]
    elif kind == "broker":
        slot = draw(st.integers(0, len(row["replicas"]) - 1))
        row["replicas"][slot] = draw(st.integers(-1, 12).filter(lambda b: b != row["replicas"][slot]))
    elif kind == "shorter":
        row["replicas"].pop()
    else:
        row["replicas"].append(draw(st.integers(0, 12)))


@st.composite
def broken_plans(draw: st.DrawFn) -> Plan:
    """A valid plan with one change in one document or one claim."""
    plan = draw(plans())
    fault = draw(st.sampled_from(["whole", "rollback", "wave", "text", "claim", "lost_wave", "lost_rollback"]))
    if fault in ("whole", "rollback"):
        content = json.loads(plan[fault])
        _change_entry(draw, content)
        plan[fault] = json.dumps(content)
    elif fault == "wave":
        at = draw(st.integers(0, len(plan["waves"]) - 1))
        content = json.loads(plan["waves"][at])
        _change_entry(draw, content)
        plan["waves"][at] = json.dumps(content)
    elif fault == "text":
        plan["whole"] = plan["whole"][: draw(st.integers(0, len(plan["whole"]) - 1))]
    elif fault == "claim":
        figure = draw(st.sampled_from(["moved_bytes", "replicas_moved", "leader_changes", "partitions_changed"]))
        error = draw(st.sampled_from([-1, 1]))
        plan["claims"] = replace(plan["claims"], **{figure: getattr(plan["claims"], figure) + error})
    elif fault == "lost_wave":
        plan["waves"].pop()
    else:
        plan["rollback"] = None
    return plan


@st.composite
def pinned_plans(draw: st.DrawFn) -> tuple[Plan, AuditPartition]:
    """A valid plan of a cluster where a partition is pinned to where the plan puts it, and that partition."""
    plan = draw(plans())
    entries = {(row["topic"], row["partition"]): row["replicas"] for row in json.loads(plan["whole"])["partitions"]}
    key = draw(st.sampled_from(sorted(entries)))
    allowed = draw(st.sets(st.sampled_from([b for b in range(9) if b not in entries[key]]), max_size=5))
    at = next(i for i, p in enumerate(plan["partitions"]) if p.key == key)
    plan["partitions"][at] = replace(plan["partitions"][at], pinned_brokers=frozenset({*entries[key], *allowed}))
    return plan, plan["partitions"][at]


@settings(deadline=None)
@given(pinned_plans())
def test_a_broken_pin_is_caught(case: tuple[Plan, AuditPartition]) -> None:
    """A plan that meets its pins passes; where the pin misses one of its targets, or a replica that stays, it fails."""
    plan, partition = case
    assert audit_plan(**plan).violations == ()
    after = next(
        set(r["replicas"]) for r in json.loads(plan["whole"])["partitions"] if partition.partition == r["partition"]
    )
    for missed in after:
        candidates = frozenset(range(9)) - {missed}
        changed = [replace(p, pinned_brokers=candidates) if p.key == partition.key else p for p in plan["partitions"]]
        assert "pin" in rules_broken(audit_plan(**plan | {"partitions": changed}))


@settings(deadline=None)
@given(plans())
def test_a_broken_spread_is_caught(plan: Plan) -> None:
    """Allowed what its fullest broker ends with, a plan passes; with one less, it fails where that is new and another
    broker of the rack may take one, or keep its own."""
    for topic, targets in _of_topics(plan):
        before, after = (Counter(b for replicas in lists for b in replicas) for lists in zip(*targets, strict=True))
        fullest = max(after.values())
        for most, is_less in ((fullest, False), (fullest - 1, True)):
            crowded = {b for b, n in after.items() if n > max(most, before[b])}
            caught = is_less and any(
                after[b] < (max(most, before[b]) if b in old else most)
                for old, new in targets
                for came in crowded & set(new) - set(old)
                for b in range(came % RACKS, 9, RACKS)
                if b not in new
            )
            partitions = [replace(p, topic_most_replicas=most) if p.topic == topic else p for p in plan["partitions"]]
            broken = rules_broken(audit_plan(**plan | {"partitions": partitions}))
            assert broken == ({"topic_spread"} if caught else set())


@settings(deadline=None)
@given(plans())
def test_a_broken_spread_of_leaders_is_caught(plan: Plan) -> None:
    """Allowed what its busiest broker ends leading, a plan passes; with one less, it fails where that is new and
    another replica of one of the lists may lead."""
    for topic, targets in _of_topics(plan):
        before, after = (Counter(replicas[0] for replicas in lists) for lists in zip(*targets, strict=True))
        busiest = max(after.values())
        for most, is_less in ((busiest, False), (busiest - 1, True)):
            crowded = {b for b, n in after.items() if n > max(most, before[b])}
            candidates = {b for old, new in targets if new[0] in crowded and new[0] != old[0] for b in new[1:]}
            caught = is_less and any(after[b] < most for b in candidates - {9})
            partitions = [replace(p, topic_most_leaders=most) if p.topic == topic else p for p in plan["partitions"]]
            broken = rules_broken(audit_plan(**plan | {"partitions": partitions}))
            assert broken == ({"topic_leader_spread"} if caught else set())


def _of_topics(plan: Plan) -> list[tuple[str, list[tuple[list[int], list[int]]]]]:
    """Lists before and after the plan by topic."""
    targets = {(r["topic"], r["partition"]): r["replicas"] for r in json.loads(plan["whole"])["partitions"]}
    rows = [(p.topic, (list(p.replicas), targets.get(p.key, list(p.replicas)))) for p in plan["partitions"]]
    return [(topic, [lists for name, lists in rows if name == topic]) for topic in sorted({topic for topic, _ in rows})]


@settings(deadline=None)
@given(plans(), st.sampled_from(["moved_bytes", "replicas_moved"]))
def test_a_broken_limit_is_caught(plan: Plan, figure: str) -> None:
    """A plan that copies just what it may passes; with one byte or one replica less allowed, it fails."""
    name = {"moved_bytes": "max_moved_bytes", "replicas_moved": "max_moves"}[figure]
    copied = getattr(plan["claims"], figure)
    for allowed, broken in ((copied, set()), (copied - 1, {"limit"})):
        limits = replace(plan["limits"], **{name: allowed})
        assert rules_broken(audit_plan(**plan | {"limits": limits})) == broken


@settings(deadline=None)
@given(plans())
def test_valid_plan_passes(plan: Plan) -> None:
    """A plan that keeps every rule has no violation."""
    assert audit_plan(**plan).violations == ()


@settings(max_examples=300, deadline=None)
@given(broken_plans())
def test_changed_plan_is_caught(plan: Plan) -> None:
    """A valid plan with one change in any of its documents or claims has a violation."""
    assert rules_broken(audit_plan(**plan))


@pytest.mark.all_only
def test_large_cluster_is_audited_in_seconds() -> None:
    """A plan that changes 60,000 of 200,000 partitions on 1,000 brokers is audited in under 15 CPU seconds."""
    hosts = [broker(b, f"r{b % 10}", disk_capacity_bytes=10**9) for b in range(1000)]
    rows = [
        AuditPartition(
            topic=f"topic-{i % 997}",
            partition=i,
            replicas=(i % 1000, (i + 1) % 1000, (i + 2) % 1000),
            size_bytes=1000 + i,
            replication_factor=3,
            mobility="free",
        )
        for i in range(200_000)
    ]
    targets = {p.key: [(p.replicas[0] + 10) % 1000, *p.replicas[1:]] for p in rows[:60_000]}
    keys = list(targets)
    waves = [document({k: targets[k] for k in keys[i::4]}) for i in range(4)]
    rollback = document({p.key: p.replicas for p in rows[:60_000]})
    began = time.process_time()
    report = audit_plan(
        brokers=hosts,
        partitions=rows,
        waves=waves,
        whole=document(targets),
        rollback=rollback,
        limits=AuditLimits(disk_headroom=0.1),
        claims=AuditClaims(replicas_moved=60_000),
    )
    spent = time.process_time() - began
    assert report.violations == ()
    assert spent < 15
