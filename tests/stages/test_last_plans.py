"""What earlier plans leave: a part of themselves to the next nights, and cordons of brokers that nobody empties."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.rows import row
from optimizer.domain import FindingCode
from optimizer.settings import ClusterInput, Policy, Settings
from optimizer.stages.last_plans import cordons_left, going_on
from optimizer.stages.stage import Run
from optimizer.stages.validate.validate import _of_cordons
from optimizer.store import Store
from schemas.silver import BROKERS
from schemas.spark import schema_of, small_frame

LIMITED = {"limited": True}
TWO_NIGHTS = {"nights": (1, 2)}
# The plans of a cluster: run, and what it has. A run's number is the day of its snapshot.
PLANS: dict[str, list[tuple[int, dict[str, Any]]]] = {
    "limited": [(1, {}), (2, LIMITED)],
    "two-nights": [(1, TWO_NIGHTS)],
    "one-night": [(1, {"nights": (1, 1)})],
    "without-windows": [(1, {"nights": (None, None)})],
    "done-since": [(1, LIMITED), (2, {})],
    "idle-since": [(1, LIMITED), (2, {"verdict": "nothing_to_do"})],
    "idle-and-limited": [(1, {**LIMITED, "verdict": "nothing_to_do"})],
    "refused-since": [(1, LIMITED), (2, {"verdict": "refused"})],
    "replaced-since": [(1, {}), (2, {**LIMITED, "attempts": 2})],
    "of-this-run": [(1, {}), (9, LIMITED)],
    "without-time": [(1, {**LIMITED, "captured_at": None})],
    "racks-since": [(1, LIMITED), (2, {"only": "racks"})],
    "racks-of-all-since": [(1, LIMITED), (2, {"only_of_all": "racks"})],
    "idle-racks-since": [(1, LIMITED), (2, {"only": "racks", "verdict": "nothing_to_do"})],
    "racks-limited": [(1, {}), (2, {**LIMITED, "only": "racks"})],
    "racks-of-another": [(1, LIMITED), (2, {"only_of_another": "racks"})],
}
GO_ON = {"limited", "two-nights", "refused-since", "racks-since", "racks-of-all-since", "idle-racks-since"}


def solved(key: dict[str, str], plan: dict[str, Any]) -> dict[str, Any]:
    """The record of stage solve, with ``only`` of this cluster, of another one, or of all."""
    clusters = (
        ClusterInput(id="another", input="/unused", only=plan.get("only_of_another", "")),
        ClusterInput(id=key["cluster_id"], input="/unused", only=plan.get("only", "")),
    )
    settings = Settings(clusters=clusters, policy=Policy(only=plan.get("only_of_all", "")))
    fixed = {"code_version": "test", "config_hash": "", "reads": {}, "writes": {}, "fingerprints": {}}
    return {**key, "cluster_id": "*", "stage": "solve", "config_json": settings.planning_json(), **fixed}


def store_plans(store: Store) -> None:
    """The tables of all plans."""
    tables: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("verdicts", "sources", "findings", "waves", "runs")
    }
    for cluster, plans in PLANS.items():
        for number, plan in plans:
            # Each cluster has its own runs, except that all have run 9.
            key = {"cluster_id": cluster, "run_id": "r9" if number == 9 else f"{cluster}-{number}"}
            tables["runs"].append(solved(key, plan))
            time = plan.get("captured_at", datetime(2026, 11, number, tzinfo=UTC))
            verdicts = [plan.get("verdict", "planned"), *["failed"] * (plan.get("attempts", 1) - 1)]
            tables["verdicts"] += [
                row("verdicts", **key, attempt=attempt, verdict=verdict) for attempt, verdict in enumerate(verdicts, 1)
            ]
            state = row("sources", **key, source="describe.txt", captured_at=time, has_state=True, records=1)
            late = datetime(2026, 12, 1, tzinfo=UTC)
            tables["sources"] += [state, {**state, "source": "metrics.csv", "captured_at": late, "has_state": False}]
            finding = row("findings", **key, rule="x", subject="x", code="x", when="both", detail="", remedy="")
            tables["findings"].append({**finding, "code": FindingCode.LIMITED.value if "limited" in plan else "band"})
            for wave, night in enumerate(plan.get("nights", ()), 1):
                ends = None if night is None else datetime(2026, 11, 20 + night, 6, tzinfo=UTC)
                tables["waves"].append(row("waves", **key, wave=wave, night_ends_at=ends))
    for name, rows in tables.items():
        store.put(name, rows, replacing=None)


def test_a_cluster_goes_on_while_its_newest_plan_was_cut(spark: SparkSession, tmp_path: Path) -> None:
    """By a limit, or by the end of a night; without ``start_at`` nobody asks, and a new warehouse has no plan."""
    inputs = tuple(ClusterInput(id=cluster, input="/unused") for cluster in (*PLANS, "new"))
    run = Run(spark, "r9", Settings(clusters=inputs, policy=Policy(start_at=0.15)), "test")
    store = Store(str(tmp_path), spark)
    assert going_on(store, run) == frozenset()
    store_plans(store)
    assert going_on(store, run) == GO_ON
    assert going_on(store, replace(run, settings=replace(run.settings, policy=Policy()))) == frozenset()


def test_a_cordon_is_left_when_no_plan_empties_its_broker(spark: SparkSession, tmp_path: Path) -> None:
    """Of its cluster, and by the newest event; a policy that still empties the broker leaves nothing behind."""
    events: list[tuple[str, str, dict[str, Any]]] = [
        ("a", "cordoning", {"before": {"3": None, "4": "", "5": None, "6": None}, "kafka_cluster_id": None}),
        ("a", "cordoned", {"brokers": [3, 4, 5]}),
        ("a", "uncordoned", {"brokers": [5], "by": "ann"}),
        ("a", "running", {"host": "h"}),
        ("gone", "cordoning", {"before": {"3": None}, "kafka_cluster_id": None}),
    ]
    clusters = (ClusterInput(id="a", input="/unused", drain_brokers=(4,)), ClusterInput(id="b", input="/unused"))
    run = Run(spark, "r9", Settings(clusters=clusters), "test")
    store = Store(str(tmp_path), spark)
    assert cordons_left(store, run) == ()
    at = datetime(2026, 11, 30, tzinfo=UTC)
    fixed = {"run_id": "first", "wave": 1, "holder": "ann", "happened_at": at, "changes": None}
    rows = [
        {**fixed, "cluster_id": cluster, "number": number, "event": event, "result": json.dumps(result)}
        for number, (cluster, event, result) in enumerate(events, 1)
    ]
    store.put("executions", rows, replacing=None)
    left = [(cluster, cordon.broker, cordon.run_id, cordon.before) for cluster, cordon in cordons_left(store, run)]
    assert left == [("a", 3, "first", None), ("a", 6, "first", None)]
    # Only what the snapshot shows becomes a finding: somebody may have deleted the config of broker 6.
    closed = [
        row("brokers", cluster_id="a", broker_id=b, closed_cause=cause) for b, cause in ((3, "cordoned"), (6, None))
    ]
    brokers = small_frame(spark, closed, schema_of(BROKERS))
    [found] = _of_cordons(replace(run, cordons_left=cordons_left(store, run)), brokers)
    assert (found["subject"], "./ballast uncordon 3 --cluster a" in found["remedy"]) == ("broker 3", True)
