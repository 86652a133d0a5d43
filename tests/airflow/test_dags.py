"""The DAGs in a real Airflow with a real Kafka: questions, refusals, execution, and a night of a fleet."""

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable

from execution.admin import KafkaAdmin
from execution.planned import load
from stored.tables import Warehouse
from tests.airflow.scene import STEPS, TITLE, WAVE, Field, MakeScene
from tests.airflow.server import RefusedByAirflow
from tests.execution.decisions import decision
from tests.execution.warehouse import RUN, add_verdict
from tests.kafka import topics
from tests.kafka.lab import TOPICS, disturbed
from tests.pipeline.test_fleet import TORN, folder_of
from tour.producer import producing

pytestmark = [pytest.mark.airflow, pytest.mark.kafka]


@pytest.mark.all_only
def test_without_approval_nothing_is_changed(make_scene: MakeScene) -> None:
    """Without an answer the run succeeds, a refused plan fails at once; no wave is started."""
    scene = make_scene("unanswered", megabytes=1, approved=False)
    scene.airflow.trigger(scene.asking, "late", {"plan": RUN})
    assert scene.airflow.ended(scene.asking, "late") == {
        "": "success", "look": "success", "facts": "success", "question": "success",
        "approve": "skipped", "first_wave": "skipped",
    }  # fmt: skip
    title, text = scene.airflow.question(scene.asking, "late")
    assert (title, "First screen" in text) == (TITLE, True)
    add_verdict(scene.lab.warehouse, None, verdict="refused", attempt=2, exit_code=3)
    scene.airflow.trigger(scene.asking, "refused", {"plan": RUN})
    refused = scene.airflow.ended(scene.asking, "refused")
    assert (refused["look"], refused["question"], refused[""]) == ("failed", "upstream_failed", "failed")
    assert scene.airflow.tries(scene.asking, "refused", "look") == 1
    assert "run 'r' has no plan for cluster 'c', its verdict is refused" in scene.airflow.log(
        scene.asking, "refused", "look"
    )
    for wrong in ("a; rm -rf /", "--conf=x y"):
        with pytest.raises(RefusedByAirflow) as param:
            scene.airflow.trigger(scene.asking, "wrong", {"plan": wrong})
        assert param.value.status == 400
    assert scene.airflow.runs(scene.waving) == {}
    assert (scene.lab.lists(), scene.lab.warehouse.rows("approvals")) == ([(1, 2)], [])


@pytest.mark.all_only
def test_changed_documents_stop_a_wave_and_moved_partitions_are_skipped(make_scene: MakeScene) -> None:
    """A changed document: the wave fails in preflight with the file's name, and is not tried again. A partition that
    somebody has moved: the waves succeed without it, and the plan's last task names it, without a retry."""
    scene = make_scene("changed", [{0: ([1, 2], [1, 3])}, {1: ([1, 2], [2, 1])}], megabytes=1)
    documents = DeltaTable(f"{scene.lab.warehouse.path}/documents")
    path = "path = 'c/wave-01/reassignment.json'"
    documents.update(updates={"content": "content || ' '"}, predicate=path)
    ended = scene.airflow.ended(scene.waving, scene.wave(waves=2))
    assert (ended["preflight"], ended["begin"], ended["off"]) == ("failed", "upstream_failed", "upstream_failed")
    assert scene.airflow.tries(scene.waving, WAVE, "preflight") == 1
    log = scene.airflow.log(scene.waving, WAVE, "preflight")
    assert "wave-01/reassignment.json differs from the manifest: it was changed after the run" in log
    assert (scene.lab.lists(), scene.events(), scene.lab.now().throttles) == ([(1, 2), (1, 2)], [], {})
    documents.update(updates={"content": "rtrim(content, ' ')"}, predicate=path)
    with KafkaAdmin(scene.lab.client) as admin:
        assert admin.reassign({(scene.lab.topic, 0): [1, 4]}) == {}
    scene.airflow.until(lambda: not scene.lab.now().in_flight, "the end of the other move")
    scene.airflow.clear(scene.waving, WAVE, only_failed=True)
    succeeded = dict.fromkeys((*STEPS, "next_wave"), "success")
    assert scene.airflow.ended(scene.waving, WAVE) == {**succeeded, "": "success", "elect": "skipped"}
    last = f"{RUN}__wave-002"
    scene.airflow.until(lambda: last in scene.airflow.runs(scene.waving), last)
    ended = scene.airflow.ended(scene.waving, last)
    assert ended == {**succeeded, "": "failed", "next_wave": "skipped", "elect": "failed"}
    skipped = "1 partition was moved by somebody else: changed-0; changed-0 has [1, 4], the plan expects [1, 2]"
    for run_id, task_id in ((WAVE, "run"), (WAVE, "verify"), (last, "run"), (last, "elect")):
        assert skipped in scene.airflow.log(scene.waving, run_id, task_id), (run_id, task_id)
    assert scene.airflow.tries(scene.waving, last, "elect") == 1
    assert (scene.lab.lists(), scene.lab.now().throttles) == ([(1, 4), (2, 1)], {})


@pytest.mark.all_only
def test_changes_by_others_stop_a_wave_before_it_starts(make_scene: MakeScene) -> None:
    """A foreign move and a foreign throttle are reported. Nothing is changed, nor after Reject."""
    scene = make_scene("recreated", megabytes=1)
    scene.airflow.trigger(scene.asking, RUN, {"plan": RUN})
    scene.airflow.answer(scene.asking, RUN, "Reject", user="ann")
    refused = scene.airflow.ended(scene.asking, RUN)
    assert (refused["question"], refused["approve"], refused["first_wave"]) == ("success", "skipped", "skipped")
    with disturbed(scene.lab):
        ended = scene.airflow.ended(scene.waving, scene.wave())
        assert (ended["preflight"], ended["run"], ended["off"]) == ("failed", "upstream_failed", "upstream_failed")
        assert scene.airflow.tries(scene.waving, WAVE, "preflight") == 1
        log = scene.airflow.log(scene.waving, WAVE, "preflight")
        assert "1 other partition is being reassigned: foreign-0" in log
        assert "set by somebody else since the snapshot: brokers 4 leader.replication.throttled.rate=200000" in log
        assert (scene.lab.lists(), scene.events()) == ([(1, 2)], [])


@pytest.mark.all_only
def test_rules_approve_or_a_person_is_asked(make_scene: MakeScene) -> None:
    """The question begins with the rules that said no, and after Reject no wave starts. With a higher limit the rules
    approve the same plan: nobody is asked, and its wave is executed."""
    scene = make_scene("ruled", megabytes=1, approved=False, decision=decision(text="First screen"))
    scene.airflow.trigger(scene.asking, "asked", {"plan": RUN})
    scene.airflow.answer(scene.asking, "asked", "Reject", user="ann")
    asked = {"look": "success", "facts": "success", "rules": "success", "decide": "success", "": "success"}
    skipped = {"approved": "skipped", "approve": "skipped", "first_wave": "skipped"}
    assert scene.airflow.ended(scene.asking, "asked") == {**asked, **skipped, "question": "success"}
    _, text = scene.airflow.question(scene.asking, "asked")
    reason = "- moves 298 GB, the limit is 1.00 GB\n"
    assert text.startswith(f"You are asked because of these rules:\n\n{reason}\n```text\nFirst screen\n```")
    assert (scene.airflow.runs(scene.waving), scene.lab.warehouse.rows("approvals")) == ({}, [])
    config = Path(f"{scene.lab.warehouse.path}.toml")
    config.write_text(config.read_text().replace("1e9", "500e9"))
    scene.airflow.trigger(scene.asking, "quiet", {"plan": RUN})
    quiet = {**asked, "approved": "success", "question": "skipped", "approve": "skipped", "first_wave": "success"}
    assert scene.airflow.ended(scene.asking, "quiet") == quiet
    (approval,) = scene.lab.warehouse.rows("approvals")
    assert approval["approved_by"].startswith("rules ")
    scene.airflow.until(lambda: WAVE in scene.airflow.runs(scene.waving), WAVE)
    scene.done()


SHOP = {0: [4, 1], 1: [1, 2], 2: [2, 4], 3: [4, 3], 4: [3, 2], 5: [4, 2]}
NIGHT_ID = "20261102T010000"


@pytest.mark.all_only
def test_a_fleet_is_planned_at_night_and_who_has_a_plan_is_moved(field: Field) -> None:
    """One cluster is refused, one cannot be read. An approver approves the third plan once. Its broker is emptied wave
    by wave, each wave starts the next, and no record is lost."""
    kafka, airflow = field.kafka, field.airflow
    topics.create(kafka, {"shop": SHOP})
    lines = b"".join(b"%d:%s\n" % (number % 100, b"x" * 9_990) for number in range(2_400))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    kafka.tool("org.apache.kafka.tools.ConsoleProducer", "--topic", "shop", *keyed, stdin=lines)
    folder_of(field.home, "torn", describe=TORN)
    night, logical = "night", "2026-11-02T01:00:00Z"
    with producing(kafka.bootstrap, "shop") as sent:
        airflow.command("dags", "unpause", "nightly_nightly")
        airflow.trigger("nightly_nightly", night, logical_date=logical)
        planned = airflow.ended("nightly_nightly", night)
        assert planned == {
            "": "failed", "plan": "failed",
            "shop.gate": "success", "shop.summary": "success", "shop.ask": "success",
            "torn.gate": "failed", "torn.summary": "upstream_failed", "torn.ask": "upstream_failed",
            "gone.gate": "failed", "gone.summary": "upstream_failed", "gone.ask": "upstream_failed",
        }, airflow.log("nightly_nightly", night, "plan")[-3000:]  # fmt: skip
        assert "replicas [2,2] name a broker twice" in airflow.log("nightly_nightly", night, "torn.gate")
        assert f"there is no folder {field.home}/nowhere" in airflow.log("nightly_nightly", night, "gone.gate")
        with pytest.raises(RefusedByAirflow) as again:
            airflow.trigger("nightly_nightly", "again", logical_date=logical)
        assert again.value.status == 409
        for stranger in ("vic", "bob"):
            with pytest.raises(RefusedByAirflow) as refused:
                airflow.answer("nightly_approval__shop", NIGHT_ID, "Approve", user=stranger)
            assert refused.value.status == 403
        airflow.answer("nightly_approval__shop", NIGHT_ID, "Approve", user="ann")
        assert set(airflow.ended("nightly_approval__shop", NIGHT_ID).values()) == {"success"}
        waves = [f"{NIGHT_ID}__wave-00{number}" for number in (1, 2)]
        for number, run_id in enumerate(waves, start=1):
            airflow.until(lambda run_id=run_id: run_id in airflow.runs("nightly_wave__shop"), run_id)
            wave = airflow.ended("nightly_wave__shop", run_id)
            after, other = ("next_wave", "elect") if number < 2 else ("elect", "next_wave")
            assert wave == {**dict.fromkeys(("", *STEPS, after), "success"), other: "skipped"}, run_id
    warehouse = Warehouse(str(field.home / "nightly"))
    planned_lists = {
        row["partition"]: tuple(row["proposed_replicas"]) for row in warehouse.rows("plan", cluster_id="shop")
    }
    now = topics.observe(kafka)
    assert {number: now.replicas["shop", number] for number in SHOP} == planned_lists
    assert all(4 not in replicas for replicas in planned_lists.values())
    assert now.throttles == {}
    described = kafka.tool(TOPICS, "--describe", "--topic", "shop")
    assert [int(leader) for leader in re.findall(r"Leader: (\d)", described)] == [
        planned_lists[number][0] for number in SHOP
    ]
    assert len(sent.numbers) > 100
    assert (sent.failed, sent.lost()) == (0, set())
    (approval,) = warehouse.rows("approvals")
    planned_as = load(warehouse, cluster_id="shop", run_id=NIGHT_ID).manifest_sha256
    assert (approval["approved_by"], approval["manifest_sha256"]) == ("ann", planned_as)
    with pytest.raises(RefusedByAirflow) as again:
        airflow.trigger("nightly_approval__shop", NIGHT_ID, {"plan": NIGHT_ID})
    assert again.value.status == 409
    airflow.clear("nightly_approval__shop", NIGHT_ID, task_ids=["first_wave"])
    assert airflow.ended("nightly_approval__shop", NIGHT_ID)["first_wave"] == "skipped"
    events = [row["event"] for row in sorted(warehouse.rows("executions"), key=lambda row: int(row["number"]))]
    assert (events.count("executed"), events.count("copied"), events[-1]) == (2, 2, "elected")
    airflow.clear("nightly_nightly", night, task_ids=["plan"])
    airflow.until(lambda: airflow.tries("nightly_nightly", night, "plan") == 2, "the second try")
    assert airflow.ended("nightly_nightly", night)["plan"] == "failed"
    approved = f"ann has approved the plan of run {NIGHT_ID!r} for cluster shop"
    assert approved in airflow.log("nightly_nightly", night, "plan")
    topics.delete(kafka, "shop")
