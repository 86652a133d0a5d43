"""Throttles of waves inside brokers: data, scripts, and when the scripts do nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from optimizer.emit.rows import EarlierThrottleRow
from optimizer.emit.throttle_files import throttle_documents
from optimizer.kafka.throttle import LEADER_REPLICAS, LOG_DIR_RATE, ConfigEntry
from tests.emit.inside import RATE, mixed, only_inside
from tests.emit.test_throttle_scripts import Fake
from tests.emit.throttled import EARLIER, over

OWN: list[ConfigEntry] = [("brokers", broker, LOG_DIR_RATE, str(RATE)) for broker in ("1", "3")]
RUNS = "Reassignment of replica in-0-3 is still in progress."
RUNS_BACK = "Partition in-0 on broker 3 is being moved to log dir /a instead of /b."
DONE = "Reassignment of replica in-0-1 completed successfully."


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """A cluster with earlier throttles, and the documents of a plan that moves replicas inside brokers only."""
    cluster = Fake(tmp_path, only_inside())
    cluster.state["topics"]["in"] = {}
    return cluster


@pytest.mark.parametrize("style", ["careful", "kafka"])
def test_only_brokers_whose_replicas_move_get_a_rate(fake: Fake, style: str) -> None:
    """Both forms set the same rates, and the unthrottle script restores what was set before."""
    assert fake.run(f"throttle-{style}.sh").returncode == 0
    assert fake.throttles == over(EARLIER, OWN)
    fake.state["moving"] = [DONE]
    for _ in range(2):
        result = fake.run(f"unthrottle-{style}.sh")
        assert (result.returncode, result.stderr) == (0, "")
        assert fake.throttles == EARLIER


def test_the_header_names_the_option_of_the_tool() -> None:
    """The forms are those of copies inside brokers; other waves keep their own."""
    texts = {document.path: document.content for document in throttle_documents(mixed())}
    assert (
        "the same as kafka-reassign-partitions.sh --execute --replica-alter-log-dirs-throttle."
        in (texts["c/wave-04/throttle-kafka.sh"])
    )
    assert "a rate for each broker whose replicas move" in texts["c/wave-05/unthrottle-careful.sh"]
    assert "document=$folder/dir-moves.json\n" in texts["c/wave-05/unthrottle-careful.sh"]
    data = {name: json.loads(texts[f"c/wave-04/{name}.json"]) for name in ("throttle", "rollback-throttle")}
    assert data["throttle"] == data["rollback-throttle"]
    assert {(row["entity_name"], row["value"]) for row in data["throttle"]["careful"]} == {
        ("1", str(RATE)),
        ("3", str(RATE)),
    }
    assert data["throttle"]["copy_bytes_per_s"] == RATE


@pytest.mark.parametrize("line", [RUNS, RUNS_BACK])
def test_no_rate_is_removed_while_a_replica_moves(fake: Fake, line: str) -> None:
    """--list does not show moves inside brokers, so the script asks --verify; also while a rollback runs."""
    fake.set(OWN)
    fake.state["moving"] = [DONE, line]
    result = fake.run("unthrottle-careful.sh")
    assert result.returncode == 4
    assert result.stderr.splitlines()[0] == line
    assert DONE not in result.stderr
    assert fake.throttles == over(EARLIER, OWN)
    assert fake.run("unthrottle-careful.sh", FORCE="1").returncode == 0
    assert fake.throttles == EARLIER


def test_without_the_document_nothing_is_removed(fake: Fake) -> None:
    """The document of a superseded plan is in another folder; without any, nobody knows whether replicas move."""
    fake.set(OWN)
    folder = fake.home / "c/wave-01"
    (folder / "not-to-be-executed").mkdir()
    document = (folder / "dir-moves.json").rename(folder / "not-to-be-executed/dir-moves.json")
    fake.state["moving"] = [RUNS]
    assert fake.run("unthrottle-careful.sh").returncode == 4
    document.unlink()
    result = fake.run("unthrottle-careful.sh")
    assert (result.returncode, "dir-moves.json is missing" in result.stderr) == (1, True)
    assert fake.throttles == over(EARLIER, OWN)
    assert fake.run("unthrottle-careful.sh", FORCE="1").returncode == 0
    assert fake.throttles == EARLIER


def test_calls_are_as_many_as_the_script_says(fake: Fake) -> None:
    """One more than for other waves: --verify."""
    text = (fake.home / "c/wave-01/unthrottle-careful.sh").read_text()
    assert "it calls Kafka's tools 4 times" in text
    assert fake.run("unthrottle-careful.sh").returncode == 0
    assert len(fake.state["calls"]) == 4


def test_an_unreadable_state_changes_nothing(fake: Fake) -> None:
    """If --verify fails, the script names the reason and ends with 1."""
    fake.set(OWN)
    (fake.home / "c/wave-01/dir-moves.json").write_text("damaged")
    result = fake.run("unthrottle-careful.sh")
    assert (result.returncode, "can't read whether replicas still move" in result.stderr) == (1, True)
    assert fake.throttles == over(EARLIER, OWN)


def test_lists_of_its_topics_are_restored() -> None:
    """``--verify`` removes the lists of the topics in the document, so the script restores these, and no others."""
    found = [
        EarlierThrottleRow("topics", topic, LEADER_REPLICAS, "0:1", is_static=False) for topic in ("in", "out", "x")
    ]
    plan = replace(only_inside(), throttles_found=found)
    texts = {document.path: document.content for document in throttle_documents(plan)}
    for wave, restored in (("wave-01", "in"), ("wave-02", "out")):
        text = texts[f"c/{wave}/unthrottle-careful.sh"]
        lists = [line for line in text.splitlines() if line.startswith("topics ")]
        assert lists == [f"topics {restored} {LEADER_REPLICAS} - 0:1"]
