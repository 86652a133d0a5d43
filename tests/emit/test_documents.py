"""Documents of Kafka's tools: which there are, what they are called and what they are."""

import json
import subprocess
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import pytest

from optimizer.emit.cluster_plan import Document
from optimizer.emit.documents import documents
from optimizer.emit.manifest import manifest
from optimizer.emit.rows import EarlierThrottleRow, SourceRow
from optimizer.emit.throttle_files import throttle_documents
from optimizer.stages.emit.emit import missed_in_words
from tests.emit.test_pages import synthetic
from tests.emit.texts import runbook_of
from tests.emit.throttled import throttled_plan


def test_each_document_is_named_after_what_it_is() -> None:
    """Path, kind and wave of every document of a plan with two waves and one leader to elect."""
    plan = synthetic(3, partitions=101)
    waiting = replace(plan.changed[4], current_replicas=[2, 1], proposed_replicas=[1, 2], leader=2)
    files = {d.path: (d.kind, d.wave) for d in documents(replace(plan, changed=[*plan.changed, waiting]))}
    assert files == {
        "c/SHA256SUMS": ("sums", 0),
        "c/decision.json": ("decision", 0),
        "c/leader-election.json": ("leader_election", 0),
        "c/manifest.json": ("manifest", 0),
        "c/moves.csv": ("moves", 0),
        "c/reassignment.json": ("reassignment", 0),
        "c/report.css": ("report", 0),
        "c/report.html": ("report", 0),
        "c/rollback.json": ("rollback", 0),
        "c/runbook.md": ("runbook", 0),
        "c/summary.txt": ("summary", 0),
        "c/topics-to-move.json": ("topics_to_move", 0),
        "c/wave-01/reassignment.json": ("reassignment", 1),
        "c/wave-01/rollback-throttle.json": ("throttle", 1),
        "c/wave-01/rollback.json": ("rollback", 1),
        "c/wave-02/reassignment.json": ("reassignment", 2),
        "c/wave-02/rollback-throttle.json": ("throttle", 2),
        "c/wave-02/rollback.json": ("rollback", 2),
    }


def test_elections_name_leaders_that_stay_behind_alone() -> None:
    """A leader that becomes the second replica keeps leading until an election; a removed leader does not."""
    plan = synthetic(3, partitions=3)
    lists = ([1, 0], [2, 1], [2, 0])  # the leader stays first, comes second, is removed
    rows = [
        replace(row, current_replicas=[1, 2], proposed_replicas=proposed, leader=1)
        for row, proposed in zip(plan.changed, lists, strict=True)
    ]
    contents = {d.path: d.content for d in documents(replace(plan, changed=rows))}
    assert [p["partition"] for p in json.loads(contents["c/leader-election.json"])["partitions"]] == [1]
    none = {d.path for d in documents(replace(plan, changed=[rows[0], rows[2]]))}
    assert "c/leader-election.json" not in none


def test_only_replicas_that_arrive_have_a_directory() -> None:
    """In the plan and on the way back. The name of one that stays might be old, so Kafka would move it.

    The documents for Kafka's tool name directories only if the settings ask for it.
    """
    plan = synthetic(4, partitions=1)
    (row,) = plan.changed
    row = replace(
        row,
        current_replicas=[1, 2, 3],
        proposed_replicas=[3, 0, 1],
        log_dirs=["/one", "/two", "/three"],
        planned_log_dirs=["any", "/zero", "any"],
    )
    dirs = [{"path": path, "is_open": path != "/closed"} for path in ("/closed", "/two", "/zero")]
    brokers = [replace(broker, log_dirs=dirs if broker.broker_id != 3 else dirs[:1]) for broker in plan.brokers]
    plan = replace(plan, changed=[row], brokers=brokers, plan_log_dirs=True)
    contents = {d.path: json.loads(d.content) for d in documents(plan) if d.path.endswith(".json")}
    assert contents["c/reassignment.json"]["partitions"][0]["log_dirs"] == ["any", "/zero", "any"]
    assert contents["c/rollback.json"]["partitions"][0]["log_dirs"] == ["any", "/two", "any"]
    name = {"topic": row.topic, "partition": row.partition}
    assert contents["c/wave-01/log-dirs.json"]["replicas"] == [{**name, "broker": 0, "log_dir": "/zero"}]
    assert contents["c/wave-01/rollback-log-dirs.json"]["replicas"] == [{**name, "broker": 2, "log_dir": "/two"}]
    assert {"wave-01/log-dirs.json", "wave-01/rollback-log-dirs.json"} < contents["c/manifest.json"]["sha256"].keys()
    closed = replace(plan, changed=[replace(row, log_dirs=["/one", "/closed", "/three"])])
    assert "c/wave-01/rollback-log-dirs.json" not in {d.path for d in documents(closed)}
    unnamed = {d.path: d.content for d in documents(replace(plan, plan_log_dirs=False))}
    assert json.loads(unnamed["c/reassignment.json"])["partitions"][0]["log_dirs"] == ["any"] * 3
    one = {d.path for d in documents(replace(plan, changed=[replace(row, planned_log_dirs=None)], brokers=[]))}
    assert not any(path.endswith("log-dirs.json") for path in one)


def test_a_plan_that_changes_nothing_has_pages_alone() -> None:
    """There is no reassignment, because Kafka refuses an empty list."""
    plan = replace(synthetic(3), changed=[], moves=[], waves=[])
    assert [d.path for d in documents(plan)] == [
        "c/decision.json",
        "c/manifest.json",
        "c/report.css",
        "c/report.html",
        "c/runbook.md",
        "c/summary.txt",
    ]


def test_the_manifest_names_what_is_executed_and_what_is_reached() -> None:
    """It has the sha256 of every document that changes a cluster, but of no page, and each goal with its result."""
    files = {d.path.removeprefix("c/"): d for d in documents(synthetic(3, partitions=101))}
    content = json.loads(files["manifest.json"].content)
    kinds = ("reassignment", "rollback", "throttle")
    executed = {name: document for name, document in files.items() if document.kind in kinds}
    assert content["sha256"] == {
        n: sha256(document.content.encode()).hexdigest() for n, document in sorted(executed.items())
    }
    assert content["waves"] == {"1": "wave-01", "2": "wave-02"}
    assert [goal["name"] for goal in content["goals"]] == ["empty broker 0", "racks", "balance", "leaders"]
    assert content["is_reached"] == all(goal["is_reached"] for goal in content["goals"])


def test_sums_check_what_is_executed(tmp_path: Path) -> None:
    """``sha256sum --check`` passes on the written files, and names a changed file. The sums are the manifest's."""
    files = {d.path.removeprefix("c/"): d.content for d in documents(synthetic(3, partitions=101))}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    sums = dict(line.split("  ")[::-1] for line in files["SHA256SUMS"].splitlines())
    assert sums == json.loads(files["manifest.json"])["sha256"]
    command = next(line for line in files["runbook.md"].splitlines() if line.startswith("sha256sum --check"))
    for changed in ("", "wave-02/rollback.json: FAILED\n"):
        result = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (result.stdout, result.returncode) == (changed, int(changed != ""))
        (tmp_path / "wave-02/rollback.json").write_text("{}")


def test_a_manifest_tells_what_the_plan_was_made_from_and_for() -> None:
    """It is as old as its oldest source. It lists earlier throttles and all documents for tools.

    Throttles in a broker's own file are not listed. Paths are relative to the cluster's folder.
    """
    plan = throttled_plan()
    topic_ids = {"goes": None, "stays": "stays-id"}
    plan = replace(
        plan,
        changed=[replace(row, topic_id=topic_ids[row.topic]) for row in plan.changed],
        sources=[
            *(SourceRow(name, time, 1) for name, time in {"new": 1793491300, "old": 1793491200, "c": None}.items()),
            SourceRow("capacity.csv", 1790000000, 1, has_state=False),  # an old capacity file does not age the plan
            SourceRow("id.txt", 1793491300, 1, has_state=False, kafka_cluster_id="abc"),
        ],
        throttles_found=[
            EarlierThrottleRow("topics", "stays", "leader.replication.throttled.replicas", "*", is_static=False),
            EarlierThrottleRow("brokers", "2", "leader.replication.throttled.rate", "7", is_static=True),
            EarlierThrottleRow("brokers", "1", "leader.replication.throttled.rate", "5", is_static=False),
        ],
        code_version="v1",
        throttle_style="kafka",
        brokers=[replace(row, state="dead") if row.broker_id > 2 else row for row in plan.brokers[::-1]],
    )
    kinds = ["reassignment", "rollback", "rollback_not_possible", "leader_election", "throttle"]
    pages = ["report", "summary", "runbook", "moves", "topics_to_move"]
    files = [Document(f"c/{kind}", kind, 0, kind) for kind in (*kinds, *pages)]
    document = manifest(plan, files)
    assert (document.path, document.kind, document.wave) == ("c/manifest.json", "manifest", 0)
    content = json.loads(document.content)
    assert document.content == json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    goals = content.pop("goals")
    assert content == {
        "format": 1,
        "cluster_id": "c",
        "run_id": "r",
        "kafka_cluster_id": "abc",
        "code_version": "v1",
        "captured_at": "2026-11-01T00:00:00+00:00",
        "valid_until": "2026-11-02T00:00:00+00:00",
        "is_reached": all(goal["is_reached"] for goal in goals),
        "throttle_style": "kafka",
        "dead_brokers": [3, 4],
        "throttles_found": [
            ["brokers", "1", "leader.replication.throttled.rate", "5"],
            ["topics", "stays", "leader.replication.throttled.replicas", "*"],
        ],
        "topic_ids": topic_ids,
        "waves": {"1": "wave-01"},
        "wave_seconds": {"1": 60},
        "sha256": {kind: sha256(kind.encode()).hexdigest() for kind in sorted(kinds)},
    }
    assert list(content["sha256"]) == sorted(kinds)


@pytest.mark.parametrize(
    ("times", "hours", "until"),
    [
        ((1793491300, 1793491200, None), 24.0, "2026-11-02T00:00:00+00:00"),
        ((1793491200,), 0.5, "2026-11-01T00:30:00+00:00"),
        ((1793491200,), 0.01, "2026-11-01T00:00:36+00:00"),
        ((None,), 24.0, None),
        ((), 24.0, None),
    ],
)
def test_a_plan_is_valid_for_some_hours_after_its_oldest_source(
    times: tuple[int | None, ...], hours: float, until: str | None
) -> None:
    """The manifest and the pages get the same time. Without a capture time both times of the manifest are null."""
    sources = [SourceRow(f"s{n}", time, 1) for n, time in enumerate(times)]
    plan = replace(throttled_plan(), sources=sources, valid_hours=hours)
    content = json.loads(manifest(plan, []).content)
    assert content["valid_until"] == until
    assert plan.valid_until == (datetime.fromisoformat(until).timestamp() if until else None)
    assert (content["captured_at"] is None) == (until is None)


@pytest.mark.parametrize(("state", "dead"), [("dead", [1]), ("fenced", [])])
def test_a_broker_that_is_down_is_called_what_it_is(state: str, dead: list[int]) -> None:
    """Configs of dead and fenced brokers cannot be set, so both need form careful; only dead ones are listed."""
    plan = throttled_plan()
    brokers = [replace(row, state=state) if row.broker_id == 1 else row for row in plan.brokers]
    plan = replace(plan, brokers=brokers)
    scripts = {d.path.removeprefix("c/"): d.content for d in throttle_documents(plan)}
    assert f"\n# Broker is {state}, so this cannot be set: configs brokers '1' " in scripts["wave-01/throttle-kafka.sh"]
    assert json.loads(manifest(plan, []).content)["dead_brokers"] == dead
    text = runbook_of(plan)
    assert "These waves name a broker that is down: wave-01. Never use `--throttle`" in text


def test_a_verdict_names_the_goals_that_a_plan_misses() -> None:
    """No text if all goals are reached."""
    reached = {"name": "racks", "is_reached": True, "detail": "x"}
    missed = {"name": "drain", "is_reached": False, "detail": "y"}
    assert missed_in_words({"goals": [reached]}) is None
    assert missed_in_words({"goals": [reached, missed]}) == "NOT reached: drain: y"
