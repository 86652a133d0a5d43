"""The runbook's commands: throttles, ways back, elections, and what depends on the release."""

import json
from dataclasses import replace

import pytest

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.requested import Requested
from optimizer.kafka.size_limits import CONFIG_VALUE_CHARACTERS
from tests.emit.test_findings import finding, planned
from tests.emit.test_pages import synthetic
from tests.emit.texts import runbook_of
from tests.emit.throttled import throttled_plan


def _led_by_others(plan: ClusterPlan) -> ClusterPlan:
    """The plan with orders changed only, so that every partition needs an election."""
    rows = [replace(row, current_replicas=[1, 2], proposed_replicas=[2, 1], leader=1) for row in plan.changed]
    return replace(plan, changed=rows)


@pytest.mark.parametrize(
    ("partitions", "sizes"),
    [(9_999, [9_999]), (10_000, [10_000]), (10_001, [10_000, 1]), (20_001, [10_000, 10_000, 1])],
)
def test_no_file_holds_more_than_one_request(partitions: int, sizes: list[int]) -> None:
    """Way back and elections of a plan of over 10,000 partitions are numbered parts, else one file of the old name."""
    plan = _led_by_others(synthetic(12, partitions=partitions))
    texts = {document.path: document.content for document in kafka_documents(plan)}
    for name in ("rollback", "leader-election"):
        parts = [f"c/{name}.json"] if len(sizes) == 1 else [f"c/{name}-{i:02}.json" for i in range(1, len(sizes) + 1)]
        assert sorted(path for path in texts if path.startswith(f"c/{name}")) == parts
        rows = [json.loads(texts[path])["partitions"] for path in parts]
        assert [len(part) for part in rows] == sizes
        assert sorted(row["partition"] for part in rows for row in part) == list(range(partitions))
    text = runbook_of(plan)
    assert all(path.removeprefix("c/") in text for path in texts if path.startswith("c/leader-election"))
    assert ("`rollback-01.json` to " in text) is (len(sizes) > 1)


def test_what_has_no_way_back_is_cut_too() -> None:
    """Partitions that cannot be rolled back are in numbered parts too, and the runbook names the files."""
    plan = synthetic(12, partitions=10_001, dead=True)
    not_reversible = replace(plan, changed=[replace(row, current_replicas=[0]) for row in plan.changed])
    names = {document.path for document in kafka_documents(not_reversible)}
    assert {"c/rollback-not-possible-01.json", "c/rollback-not-possible-02.json"} <= names
    assert "`rollback-not-possible-01.json`, `rollback-not-possible-02.json`" in runbook_of(not_reversible)


@pytest.mark.parametrize(
    ("version", "unregister", "elect"),
    [
        ("3.9", "--config", "In your release the option is `--admin.config` for `kafka-leader-election.sh`"),
        ("4.1.2", "--config", "In your release the option is `--admin.config` for `kafka-leader-election.sh`"),
        ("4.2", "--command-config", None),
        ("4.3.1", "--command-config", None),
        ("", "--command-config", "Before Kafka 4.2 the option is `--admin.config` for `kafka-leader-election.sh`"),
    ],
)
def test_the_release_chooses_the_options(version: str, unregister: str, elect: str | None) -> None:
    """A broker is unregistered with the option that the tools of the cluster's release know."""
    plan = replace(throttled_plan(), requested=Requested(kafka_version=version))
    leaving = [replace(row, must_empty=row.broker_id == 1) for row in plan.brokers]
    text = runbook_of(replace(plan, brokers=leaving))
    command = f'kafka-cluster.sh unregister --bootstrap-server "$BOOTSTRAP" --id 1 {unregister} "$COMMAND_CONFIG"\n'
    assert command in text
    assert ("--admin.config" in text) is (elect is not None)
    assert elect is None or elect in text
    assert ("before Kafka 4.2 it is `--config`" in text) is (version == "")


def test_a_way_back_is_throttled_as_its_wave() -> None:
    """A rollback has the rate of its own wave, not the largest of all, and elections follow it."""
    plan = synthetic(12)
    waves = [replace(row, throttle_bytes_per_s=row.wave * 10**6) for row in plan.waves]
    text = runbook_of(replace(plan, waves=waves))
    assert "WAVE=wave-01\nRATE=1000000\n" in text
    assert "3000000" not in text.replace("| 3000000 |", "")
    rollback = text.split("**A wave that runs:**")[1]
    order = [
        "--cancel",
        '"$WAVE/rollback.json" --execute --throttle "$RATE"',
        '"$WAVE/rollback.json" --verify --preserve-throttles',
        'sh "$WAVE/unthrottle-kafka.sh"',
        '--election-type preferred --path-to-json-file "$WAVE/rollback.json"',
    ]
    places = [rollback.index(command) for command in order]
    assert places == sorted(places)


def test_a_wave_that_copies_nothing_has_a_rate_for_its_way_back() -> None:
    """A wave that only removes replicas is not throttled, but its rollback copies them."""
    plan = synthetic(12, partitions=100)
    shortened = replace(plan, waves=[replace(row, replicas_moved=0, throttle_bytes_per_s=0) for row in plan.waves])
    text = runbook_of(shortened)
    assert "RATE=50000000\n" in text
    assert "unthrottle" not in text
    assert '"$WAVE/rollback.json" --verify\n' in text


def test_copies_wait_for_their_throttle() -> None:
    """A wave is executed only if its throttle script succeeds; its own script removes the throttle."""
    text = runbook_of(throttled_plan())
    assert 'sh "$WAVE/throttle-careful.sh" &&\nkafka-reassign-partitions.sh' in text
    assert 'sh "$WAVE/unthrottle-careful.sh"\n' in text
    assert "- 4: copies still run" in text


@pytest.mark.parametrize(("style", "script"), [("careful", "throttle-careful.sh"), ("kafka", "throttle-kafka.sh")])
def test_raised_rates_are_the_operators_own(style: str, script: str) -> None:
    """The unthrottle script leaves raised rates, so the runbook says to set the plan's own rates first, in its form."""
    text = runbook_of(replace(throttled_plan(), throttle_style=style))
    assert f"Before you remove raised rates, run `{script}` again" in text
    assert "(raised rates, another `RATE`), run the throttle script of the same form, then this script again." in text


def test_throttles_from_before_are_told() -> None:
    """The first twenty throttles from before the plan are listed before any command that changes something."""
    plan = throttled_plan()
    text = runbook_of(plan).split("## 2.")[0]
    assert "  - `brokers 2: leader.replication.throttled.rate=20000000`\n" in text
    throttles = [replace(plan.throttles_found[0], entity_name=str(i), config_value="1" * 99) for i in range(25)]
    text = runbook_of(replace(plan, throttles_found=throttles)).split("## 2.")[0]
    assert text.count("  - `brokers") == 20
    assert "and 5 more" in text
    assert "1" * 81 not in text
    assert "The inputs show no throttle" in runbook_of(replace(plan, throttles_found=()))


@pytest.mark.parametrize(
    ("characters", "fits"), [(CONFIG_VALUE_CHARACTERS, True), (CONFIG_VALUE_CHARACTERS + 1, False)]
)
def test_the_whole_plan_at_once_is_offered_where_kafka_takes_it(characters: int, fits: bool) -> None:
    """The runbook names a throttle list of the whole plan that Kafka refuses, whatever the other lists are."""
    plan = throttled_plan()
    rows = [replace(plan.throttles[0], wave=0, config_value="1" * length) for length in (5, characters, 7)]
    text = runbook_of(replace(plan, throttles=[*plan.throttles, *rows]))
    assert ("`reassignment.json` is the whole plan at once" in text) is fits
    assert ("needs a throttle list of 32,768 characters: Kafka takes 32,767. Use the waves." in text) is not fits


def test_times_have_what_was_measured() -> None:
    """The runbook says how much the runs of one plan differed in tests."""
    text = " ".join(runbook_of(throttled_plan()).split())
    assert "In tests on small clusters, runs of the same plan differed by up to 15 %." in text


@pytest.mark.parametrize(
    ("when", "exception"),
    [
        (None, "."),
        ("both", "."),
        (
            "before",
            ", except where the plan removes the replica that is out of sync.\n"
            "  At the snapshot: 2 of 9 partitions, d.\n",
        ),
    ],
)
def test_replicas_out_of_sync_that_the_plan_removes_are_an_exception(when: str | None, exception: str) -> None:
    """The runbook names how many there were; those that stay stop a wave."""
    rows = [finding("under_replicated", "2 of 9 partitions", when)] if when else []
    text = runbook_of(planned(*rows))
    assert f"- No partition may be under-replicated{exception}" in text
    assert ("At the snapshot: " in text) is (when == "before")


def test_a_broker_to_empty_is_closed_for_new_topics() -> None:
    """Before the first wave; opened before a way back, and at the controllers when it is gone. Not a dead one."""
    drained = {1: "draining", 2: "dead", 3: "alive"}
    plan = throttled_plan()
    brokers = [
        replace(row, state=drained.get(row.broker_id, "alive"), must_empty=row.broker_id < 3) for row in plan.brokers
    ]
    text = runbook_of(replace(plan, brokers=brokers, requested=Requested(drain=(1, 2, 3))))
    before, rest = text.split("## 2. Execute")
    off, back = rest.split("Roll back\n")
    assert "--entity-name 1 --add-config 'cordoned.log.dirs=*'" in before
    assert "--bootstrap-controller CONTROLLER:PORT --alter --entity-type brokers --entity-name 1 --delete" in off
    assert '--bootstrap-server "$BOOTSTRAP" --alter --entity-type brokers --entity-name 1 --delete' in back
    assert text.count("cordoned.log.dirs") == 3
    assert "cordoned.log.dirs" not in runbook_of(plan)
