"""Plans are read from the tables, only if they are unchanged, approved and not too old."""

import hashlib
import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from execution.approve import approve
from execution.planned import Plan, plan_documents, wave_documents
from optimizer.emit import kafka_files
from optimizer.errors import ConfigError, StageError
from stored.tables import Warehouse
from stored.verdicts import Refused
from tests.execution.warehouse import (
    CAPTURED_AT,
    CLUSTER,
    RUN,
    add_verdict,
    add_waves,
    load_plan,
    load_wave,
    plan_of,
    usual_plan,
    write_plan,
)

CAPTURED = datetime.fromtimestamp(CAPTURED_AT, tz=UTC)


def with_manifest(plan: Plan, **entries: str | None) -> Plan:
    """The plan with other entries in its manifest."""
    return replace(plan, manifest={**plan.manifest, **entries})


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a plan of two waves."""
    folder = tmp_path_factory.mktemp("planned")
    write_plan(folder, usual_plan())
    return folder


@pytest.fixture
def warehouse(original: Path, tmp_path: Path) -> Warehouse:
    """A copy of the original warehouse."""
    shutil.copytree(original, tmp_path / "w")
    return Warehouse(str(tmp_path / "w"))


def change(warehouse: Warehouse, path: str, old: str, new: str) -> None:
    """Change a document in the table."""
    content = warehouse.rows("documents", path=path)[0]["content"].replace(old, new)
    DeltaTable(f"{warehouse.path}/documents").update(
        new_values={"content": content.replace("'", "''")},  # deltalake does not quote values
        predicate=f"path = '{path}'",
    )


def remove(warehouse: Warehouse, path: str) -> None:
    """Delete a document from the table."""
    DeltaTable(f"{warehouse.path}/documents").delete(f"path = '{path}'")


def spoil(warehouse: Warehouse) -> None:
    """Change one document of the first wave, and delete another."""
    change(warehouse, "c/wave-01/rollback.json", "[1,2]", "[2,1]")
    remove(warehouse, "c/wave-01/throttle.json")


def add(warehouse: Warehouse, path: str, kind: str = "reassignment") -> None:
    """Add a document of the first wave to the table."""
    row = warehouse.rows("documents", path="c/wave-01/reassignment.json")[0]
    warehouse.append("documents", [{**row, "path": path, "kind": kind}])


def of_format(warehouse: Warehouse, number: int) -> None:
    """Give the manifest another format, and store a verdict with its sha256."""
    change(warehouse, "c/manifest.json", '"format": 1,', f'"format": {number},')
    content = warehouse.rows("documents", path="c/manifest.json")[0]["content"]
    add_verdict(warehouse, hashlib.sha256(content.encode()).hexdigest(), verdict="planned", attempt=2)


def test_a_wave_is_read_as_it_was_planned(warehouse: Warehouse) -> None:
    """Lists before and after, the throttles in the plan's style, and the previous throttles."""
    second = load_wave(warehouse, 2)
    assert (second.before, second.after) == ({("stays", 1): (2, 1)}, {("stays", 1): (2, 4)})
    assert second.throttles["brokers", "4", "follower.replication.throttled.rate"] == "300000"
    assert second.previous_throttles["topics", "stays", "leader.replication.throttled.replicas"] == "*"
    assert load_plan(warehouse).waves == {1: "wave-01", 2: "wave-02"}


def test_throttles_of_a_rollback_are_not_read_as_replica_lists(warehouse: Warehouse) -> None:
    """They are a document of the wave, and its lists before the wave are those of ``rollback.json`` alone."""
    first = load_wave(warehouse, 1)
    assert json.loads(first.documents["rollback-throttle.json"])["wave"] == 1
    assert first.before == {("stays", 0): (1, 2)}
    assert first.throttles["brokers", "3", "follower.replication.throttled.rate"] == "300000"


CHANGED: dict[str, tuple[Callable[[Warehouse], None], str]] = {
    "one byte of what is executed": (
        lambda w: change(w, "c/wave-01/reassignment.json", "[1,3]", "[1,4]"),
        "wave-01/reassignment.json differs from the manifest",
    ),
    "one byte of a script": (
        lambda w: change(w, "c/wave-01/unthrottle-careful.sh", "set -u", "set +u"),
        "wave-01/unthrottle-careful.sh differs from the manifest",
    ),
    "a document is gone": (
        lambda w: remove(w, "c/wave-01/throttle.json"),
        "wave-01/throttle.json is missing from table documents; plan again",
    ),
    "the manifest": (lambda w: change(w, "c/manifest.json", "v1", "v2"), "manifest.json was changed after the run"),
    "no manifest": (lambda w: remove(w, "c/manifest.json"), "has 0 rows for c/manifest.json, expected 1"),
    "a later attempt was refused": (
        lambda w: add_verdict(w, None, verdict="refused", attempt=2),
        "run 'r' has no plan for cluster 'c', its verdict is refused",
    ),
    "a later attempt had other clusters": (
        lambda w: w.append("verdicts", [{**w.rows("verdicts")[0], "cluster_id": "d", "attempt": 2}]),
        "its verdict is replaced: a later attempt at this run, without this cluster, has deleted its plan: plan again",
    ),
    "a later attempt is under way": (
        lambda w: add_verdict(w, None, verdict="started", attempt=2),
        "its verdict is started",
    ),
    "a document that nobody planned": (
        lambda w: add(w, "c/wave-01/unthrottle-mine.sh"),
        "wave-01/unthrottle-mine.sh differs from the manifest: it was changed after the run; plan again",
    ),
    "two documents": (
        spoil,
        "2 problems to fix first:\n- wave-01/throttle.json is missing from table documents; plan again\n"
        "- wave-01/rollback.json ",
    ),
    "a manifest of another release": (
        lambda w: of_format(w, 2),
        "manifest.json has format 2, but this release reads format 1: use the release that made the plan, or ",
    ),
    "two manifests": (lambda w: add(w, "c/manifest.json", "manifest"), "has 2 rows for c/manifest.json, expected 1"),
    "a later attempt planned something else": (
        lambda w: add_verdict(w, "0" * 64, verdict="planned", attempt=2),
        "manifest.json was changed after the run",
    ),
}


@pytest.mark.parametrize("case", CHANGED)
def test_what_was_changed_is_refused_by_its_name(warehouse: Warehouse, case: str) -> None:
    """Only documents that equal the last attempt's plan, byte for byte, are executed."""
    changed, reason = CHANGED[case]
    changed(warehouse)
    with pytest.raises(Refused) as refused:
        wave_documents(warehouse, load_plan(warehouse), 1)
    assert reason in str(refused.value)
    assert refused.value.exit_code == 3


def test_a_wave_that_is_not_planned_is_refused(warehouse: Warehouse) -> None:
    """It is a usage error; the message names the existing waves."""
    with pytest.raises(ConfigError, match=r"no wave 3: it has waves 1 to 2$"):
        wave_documents(warehouse, load_plan(warehouse), 3)


def test_missing_tables_and_runs_are_reported(warehouse: Warehouse, tmp_path: Path) -> None:
    """The error of an empty warehouse and of an unknown run names what is missing."""
    with pytest.raises(StageError, match=r"there is no table verdicts in .*\. A job that ends before its first stage"):
        load_plan(Warehouse(str(tmp_path / "empty")))
    shutil.rmtree(tmp_path / "w" / "verdicts")
    add_verdict(warehouse, None, verdict="planned", attempt=1)
    DeltaTable(f"{warehouse.path}/verdicts").delete()
    with pytest.raises(StageError, match=r"has no run 'r'; \./ballast show lists the runs\. A job that ends before "):
        load_plan(warehouse)


def test_only_the_plan_that_was_read_is_approved(warehouse: Warehouse) -> None:
    """Another manifest is refused. The approver is stored, and the plan is approved from then on."""
    plan = load_plan(warehouse)
    with pytest.raises(Refused, match=r"this plan is not approved: \./ballast approve --run-id r --cluster c app"):
        plan.check_approved()
    with pytest.raises(Refused, match="not 00000000: read this plan before you approve it"):
        approve(warehouse, plan, manifest_sha256="00000000", by="ann")
    approve(warehouse, plan, manifest_sha256=plan.manifest_sha256[:8], by="ann")
    load_plan(warehouse).check_approved()
    (row,) = warehouse.rows("approvals", cluster_id=CLUSTER, run_id=RUN)
    assert (row["approved_by"], row["approved_from"]) == ("ann", socket.gethostname())
    assert row["manifest_sha256"] == plan.manifest_sha256


def test_an_approval_describes_the_plan(warehouse: Warehouse) -> None:
    """Bytes, waves and time; goals that are not reached; and, if a higher limit is given, that the plan expired."""
    plan = load_plan(warehouse)
    first = f"Approved by ann: run {RUN}, cluster {CLUSTER}, manifest {plan.manifest_sha256[:8]}"
    now = datetime.now(tz=UTC)
    fresh = replace(plan, manifest={**plan.manifest, "captured_at": now.isoformat(), "goals": []})
    assert approve(warehouse, fresh, manifest_sha256="", by="ann") == first
    add_waves(warehouse, RUN, CLUSTER, 2, moved_bytes=149 * 10**9, least_seconds=1800, most_seconds=2400)
    goals = [{"name": name, "is_reached": name == "racks"} for name in ("empty broker 105", "racks", "balance")]
    expiry = {"captured_at": "2026-01-01T00:00:00+00:00", "valid_until": "2026-01-02T00:00:00+00:00"}
    old = replace(plan, manifest={**plan.manifest, **expiry, "goals": goals})
    text = approve(warehouse, old, manifest_sha256="", by="ann", max_hours=1e9, config="conf/site.toml")
    assert f"\nTo execute it: ./ballast run --run-id {RUN} --cluster {CLUSTER}\n" in text  # the option is added later
    assert approve(warehouse, old, manifest_sha256="", by="ann", max_hours=1e9).splitlines() == [
        first,
        "It copies 298 GB in 2 waves, 1 h 00 min to 1 h 20 min.",
        "Not reached: empty broker 105; balance.",
        f"To execute it: ./ballast run --run-id {RUN} --cluster {CLUSTER} --config YOUR_CONFIG",
        "The plan expired at 2026-01-02 00:00 UTC. Its first wave refuses it too: give --max-plan-age-hours to "
        "`run`, or to the steps preflight and throttle.",
    ]


def test_an_approval_repeats_what_is_to_do_first(warehouse: Warehouse) -> None:
    """The notes of the report's first screen, for who has not read it."""
    plan = load_plan(warehouse)
    note = {"kind": "Do first", "subject": "Wave 1", "text": "may never end."}
    change(warehouse, f"{CLUSTER}/decision.json", '"notes": []', f'"notes": {json.dumps([note])}')
    assert approve(warehouse, plan, manifest_sha256="", by="ann", max_hours=1e9).splitlines()[1] == (
        "Do first: Wave 1 may never end."
    )


def test_an_approval_is_of_one_plan(warehouse: Warehouse) -> None:
    """An approval of another manifest of the same run does not count."""
    plan = load_plan(warehouse)
    row = {"cluster_id": CLUSTER, "run_id": RUN, "manifest_sha256": "0" * 64, "approved_by": "ann"}
    approval = {"approved_at": datetime.now(tz=UTC), "approved_from": "here", "is_revocation": False}
    warehouse.append("approvals", [row | approval])
    assert load_plan(warehouse).approvals == ()
    assert plan.manifest["run_id"] == RUN


def test_a_wave_does_not_start_with_an_old_plan(warehouse: Warehouse) -> None:
    """It expires at ``valid_until`` of its manifest. A limit for the age of its oldest source replaces that, whether
    the limit is lower or higher. A plan whose inputs have no time never expires."""
    plan = with_manifest(load_plan(warehouse), valid_until="2026-11-01T12:00:00+00:00")
    for limit, hours in ((None, 12), (24, 24), (6, 6)):
        plan.check_age(limit, CAPTURED + timedelta(hours=hours))
        with pytest.raises(Refused, match=rf"expired at 2026-11-0\d .* and the limit is {hours} h: plan again"):
            plan.check_age(limit, CAPTURED + timedelta(hours=hours, seconds=1))
    with pytest.raises(Refused) as refused:
        plan.check_age(None, CAPTURED + timedelta(hours=25.5))
    assert str(refused.value) == (
        "the plan of run 'r' for cluster 'c' expired at 2026-11-01 12:00 UTC, because its snapshot is 25.5 h old and "
        "the limit is 12 h: plan again, or give a higher limit with --max-plan-age-hours"
    )
    timeless = with_manifest(plan, captured_at=None, valid_until=None)
    timeless.check_age()
    timeless.check_age(0)


def test_the_clock_of_the_reader_decides(warehouse: Warehouse) -> None:
    """Without another time the age is that of this moment."""
    plan, now = load_plan(warehouse), datetime.now(tz=UTC)
    soon, before = (now + timedelta(hours=hours) for hours in (0.1, -0.1))
    captured = {"captured_at": (now - timedelta(hours=3)).isoformat()}
    with_manifest(plan, **captured, valid_until=soon.isoformat()).check_age()
    with pytest.raises(Refused, match=r"snapshot is 3\.0 h old and the limit is 2\.9 h"):
        with_manifest(plan, **captured, valid_until=before.isoformat()).check_age()


def test_an_expired_plan_is_not_approved(warehouse: Warehouse) -> None:
    """Nothing is stored; a higher limit for the age allows it, and a lower one refuses a valid plan."""
    plan = load_plan(warehouse)
    old = with_manifest(plan, captured_at="2026-01-01T00:00:00+00:00", valid_until="2026-01-02T00:00:00+00:00")
    with pytest.raises(Refused, match="expired at 2026-01-02 00:00 UTC"):
        approve(warehouse, old, manifest_sha256="", by="ann")
    with pytest.raises(Refused, match="and the limit is 0 h"):
        approve(
            warehouse,
            with_manifest(old, valid_until="2999-01-01T00:00:00+00:00"),
            manifest_sha256="",
            by="ann",
            max_hours=0,
        )
    assert warehouse.rows("approvals") == []
    approve(warehouse, old, manifest_sha256="", by="ann", max_hours=1e9)
    assert len(warehouse.rows("approvals")) == 1


def test_documents_of_the_whole_plan_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of one kind are sorted and compared with the manifest; changed and missing ones are reported. A wave in
    parts is read too."""
    monkeypatch.setattr(kafka_files, "PARTITIONS_PER_REQUEST", 1)
    lists = {("stays", number): ([1, 2], [2, 1]) for number in range(11)}
    warehouse = write_plan(tmp_path, plan_of([lists], topic_ids={}))
    texts = plan_documents(warehouse, load_plan(warehouse), "leader_election")
    assert [json.loads(text)["partitions"][0]["partition"] for text in texts] == list(range(11))
    assert plan_documents(warehouse, load_plan(warehouse), "rollback_not_possible") == []
    assert set(load_wave(warehouse, 1).before.values()) == {(1, 2)}
    assert load_wave(warehouse, 1).stuck == frozenset()
    remove(warehouse, "c/leader-election-02.json")
    change(warehouse, "c/leader-election-03.json", "stays", "goes")
    with pytest.raises(Refused) as refused:
        plan_documents(warehouse, load_plan(warehouse), "leader_election")
    assert [problem.split()[0] for problem in refused.value.problems] == [
        "leader-election-02.json",
        "leader-election-03.json",
    ]
