"""What no excuse is found for, from the last step of solve to the gate of emit, without Spark."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks.rows import broker_row, partition_row
from optimizer.audit import LEFT_AGAIN, AuditLimits
from optimizer.domain import Bands
from optimizer.planning.arrays import to_brokers
from optimizer.planning.finish import finish_cluster
from optimizer.settings import ClusterInput, Policy, Settings
from optimizer.stages.emit.audit_gate import audit_cluster
from optimizer.wording.remedies import RUN_AGAIN
from tests.solve.clusters import solved_cluster

KEY = {"cluster_id": "a", "run_id": "r"}
SETTINGS = Settings(clusters=(ClusterInput(id="a", input="unused"),), policy=Policy(exclude_topics=()))
FINDING = {
    **KEY,
    "rule": "not_emptied",
    "subject": "t-0 on 3",
    "when": "both",
    "detail": "broker 3 (draining) keeps t-0",
    "remedy": f"add a broker that may hold it; otherwise {RUN_AGAIN}",
    "topic": "t",
    "partition": 0,
    "broker_id": 3,
    "resource": None,
}


BROKERS = [broker_row(1, **KEY), broker_row(2, **KEY), broker_row(3, **KEY, state="draining")]
PARTITION = partition_row([3, 1], **KEY, topic="t", size_bytes=100, min_insync_replicas=1)


def _messages(settings: Settings, shown: float | None = None) -> list[str]:
    """What the gate says of a plan that leaves the replica on the broker to empty, and reports itself."""
    sides = {"before": None, "baseline": None, "after": shown, "worst_moment": None}
    figure = {**KEY, "position": 1, "figure": "unexplained", "label": "", **sides}
    tables = {"instance": [PARTITION], "instance_brokers": BROKERS, "findings": [FINDING], "plan_summary": [figure]}
    rows = [("a", name, json.dumps(row)) for name, of in tables.items() for row in of]
    group = pd.DataFrame(rows, columns=["cluster_id", "table", "row"])
    return list(audit_cluster(group, settings=settings)["message"])


def test_a_finding_of_the_planner_excuses_nothing() -> None:
    """A plan that strands a replica is refused though a finding names it."""
    (message,) = _messages(SETTINGS)
    assert (
        "  unexplained: drain: t-0: replicas stay on brokers [3], which must be emptied; [1, 2] would fix it" in message
    )
    assert message.endswith(
        "  1 of 1 partition that could be fixed stays without a reason, over [policy] max_unexplained = 0.01: "
        "add space to full disks, or raise it and run emit again; see the findings shard_failed and "
        "shard_out_of_time, or raise solver.rounds or solver.shard_brokers; if that does not help, this is a bug in "
        "Ballast: keep the tables of the run and report it with them"
    )
    assert "a broken rule" not in message


@pytest.mark.parametrize(("shown", "refused"), [(1, False), (0, True)])
def test_what_the_policy_lets_pass_is_shown(shown: float, refused: bool) -> None:
    """Where the policy allows it the plan passes, if its pages say so."""
    allowed = replace(SETTINGS, policy=replace(SETTINGS.policy, max_unexplained=1))
    messages = _messages(allowed, shown)
    assert ["the plan states 0, the documents have 1" in message for message in messages] == [True] * refused
    ending = "  a broken rule: this is a bug in Ballast: keep the tables of the run and report it with them"
    assert [message.endswith(ending) for message in messages] == [True] * refused


@pytest.mark.parametrize(
    ("limits", "count"), [(AuditLimits(disk_headroom=0.1), 1), (AuditLimits(disk_headroom=0.1, max_moves=0), 0)]
)
def test_the_last_step_of_solve_finds_it(limits: AuditLimits, count: int) -> None:
    """A replica that is left where a limit leaves none has a finding in addition to that of the planner."""
    brokers, rows = to_brokers(pd.DataFrame(BROKERS)), pd.DataFrame([PARTITION])
    loads, free = np.zeros((3, 3)), Bands(("replicas", "disk", "in"), np.zeros((3, 3)), np.full((3, 3), np.inf))
    solved = solved_cluster(brokers, free, loads, loads)
    records = finish_cluster(rows.assign(current=rows["replicas"]), solved, Policy(), limits)["findings"]
    unexplained = records[records["rule"] == "unexplained"]
    remedy = f"execute the plan and run again; if it stays again, {LEFT_AGAIN}"
    expected = ("t-0", "after", "replicas stay on brokers [3], which must be emptied; [1, 2] would fix it", remedy)
    shown = unexplained[["subject", "when", "detail", "remedy"]].to_numpy().tolist()
    assert shown == [list(expected)] * count
    assert (records["rule"] == "not_emptied").sum() == 1
