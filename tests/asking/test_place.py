"""Where new partitions go: small clusters, also sick ones."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from asking.answer import answer
from asking.cli import main
from asking.place import Placed, place
from asking.question import Question
from asking.run_facts import RunFacts
from asking.wanted_topics import Wanted
from optimizer.errors import ConfigError
from optimizer.kafka.broker import Broker
from optimizer.kafka.default_assignment import default_placer, place_more
from optimizer.kafka.versions import ADMIN_UTILS
from tests.asking.small_run import BROKERS, CLUSTER, DISK, GB, asked, broker, make_facts, partition, write_run

SIZE = 40 * GB
# Broker 1 has half the disk of the others, and half of what they hold.
UNEVEN = (broker(1, "a", disk_capacity_bytes=DISK // 2), *BROKERS[1:])
OLD = tuple(partition("t", n, [1 if n % 3 == 0 else 2, 3 + n % 2, 5 + n % 2]) for n in range(12))
SICK = {
    "well": BROKERS,
    "one is dead": (*BROKERS[:5], broker(6, "c", state="dead")),
    "one is cordoned": (*BROKERS[:3], broker(4, "b", closed_cause="cordoned", closed_reason="cordoned"), *BROKERS[4:]),
    "one is new": (*BROKERS, broker(7, "a", holds=False)),
    "the lowest is fenced": (broker(1, "a", state="fenced"), *BROKERS[1:]),
    "no racks": tuple({**row, "rack": None} for row in BROKERS),
    "a small disk": (broker(1, "a", disk_capacity_bytes=DISK // 3), *BROKERS[1:]),
}


def lists_of(facts: RunFacts) -> pd.DataFrame:
    """A plan that changes nothing."""
    rows = facts.partitions[["topic", "partition", "replicas"]]
    return rows.rename(columns={"replicas": "proposed_replicas"})


def new(count: int = 6, *, factor: int = 3, size_bytes: int = SIZE, topic: str = "new") -> Wanted:
    """Partitions of a new topic."""
    return Wanted(topic, 0, count, factor, "", size_bytes, 1_000_000, 3_000_000)


def placed(facts: RunFacts, *wanted: Wanted, seeds: int = 1) -> Placed:
    """Place them beside the cluster as it is."""
    return place(facts, lists_of(facts), wanted, seeds)


@pytest.mark.parametrize("brokers", SICK.values(), ids=SICK)
def test_new_partitions_keep_every_rule(brokers: Sequence[dict[str, Any]]) -> None:
    """Open and living brokers, and different racks; no partition is left out."""
    facts = make_facts(brokers)
    found = placed(facts, new(6), new(3, factor=2, topic="also"))
    may = {row["broker_id"]: row["rack"] for row in brokers if row["state"] == "alive" and not row["closed_cause"]}
    assert sorted(found.lists) == [
        *(("also", number) for number in range(3)),
        *(("new", number) for number in range(6)),
    ]
    for (topic, _), ids in found.lists.items():
        assert len({*ids}) == len(ids) == {"new": 3, "also": 2}[topic]
        assert {*ids} <= may.keys()
        assert len({may[b] or b for b in ids}) == len(ids)


def test_the_next_plan_copies_nothing_of_them_but_of_kafkas_own() -> None:
    """With partitions that are large for the cluster; the answer is the same every time."""
    first, second = (placed(make_facts(UNEVEN, OLD), new(8), seeds=4) for _ in range(2))
    assert (first.next_bytes, first.lists) == (0, second.lists)
    assert max(most for _, most in first.kafka_bytes.values()) > 0
    assert first.kafka_bytes == second.kafka_bytes
    rows = [partition("new", number, ids) for (_, number), ids in first.lists.items()]
    plan = answer(make_facts(UNEVEN, [*OLD, *rows]), Question()).plan
    assert plan is not None
    assert "new" not in set(plan.tables["moves"].get("topic", ()))


def test_a_topic_is_spread_evenly_where_bands_allow_it() -> None:
    """Each broker has as many replicas, and leads as many partitions, as any other."""
    found = placed(
        make_facts(partitions=[partition("t", n, [1 + n % 2, 3 + n % 2, 5 + n % 2]) for n in range(12)]), new(6)
    )
    for each in (
        Counter(ids[0] for ids in found.lists.values()),
        Counter(b for ids in found.lists.values() for b in ids),
    ):
        assert (len(each), len({*each.values()})) == (6, 1)


def test_pins_and_requests_of_the_run_hold() -> None:
    """A pinned topic stays on its brokers; brokers that the run drains or excludes get nothing."""
    policy = {"pins": [{"topics": "new", "racks": ["a", "b"]}], "drain_brokers": [2], "exclude_brokers": [3]}
    found = placed(make_facts(cluster=policy), new(4, factor=2))
    assert {b for ids in found.lists.values() for b in ids} == {1, 4}


def test_an_old_topic_gets_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers go on; the tool gets the lists of all partitions, and the document only the new ones."""
    written = write_run(tmp_path / "w", make_facts())
    document, page = tmp_path / "place.json", tmp_path / "page.html"
    words = (
        "place",
        "--warehouse",
        written.path,
        "--cluster",
        CLUSTER,
        "--topic",
        "audit",
        "--add",
        "2",
        "--seeds",
        "1",
    )
    assert main([*words, "--to", str(document), "--html", str(page)]) == 0
    out = capsys.readouterr().out
    [topic] = json.loads(document.read_text())["topics"]
    assert (topic["topic"], topic["first"], len(topic["replicas"])) == ("audit", 2, 2)
    lists = ",".join(":".join(map(str, ids)) for ids in (*[topic["replicas"][0]] * 2, *topic["replicas"]))
    assert f"--alter --topic audit --partitions 4 --replica-assignment {lists}" in out
    assert "Place 2 partitions of audit as below: the next plan would copy 0 B of them" in " ".join(out.split())
    assert main([*words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["topics"], content["next_bytes"]) == ([topic], 0)
    assert content["expected"][0]["size_bytes"] == 20 * GB  # as the topic has
    assert f"./ballast create {document} --sha256 {content['sha256'][:8]} --cluster {CLUSTER}" in " ".join(out.split())
    assert lists in page.read_text()


def test_added_partitions_are_those_of_kafka() -> None:
    """Vectors of AdminUtils with a start and a first partition: the first replica of partition 0 gives the start."""
    seen = 0
    for line in (Path(__file__).parents[1] / "vectors" / "adminutils.jsonl").read_text().splitlines():
        vector = json.loads(line)
        query, result = vector["in"], vector["out"]
        if query["start"] < 0 or query["startPartition"] < 1 or "ok" not in result:
            continue
        placer = default_placer(ADMIN_UTILS, [Broker(b["id"], b["rack"]) for b in query["brokers"]])
        in_order = [broker.broker_id for broker in placer.brokers] == [b["id"] for b in query["brokers"]]
        if query["start"] >= len(placer.brokers) or not (in_order or placer.ring.racks):
            continue
        existing = [[placer.brokers[query["start"]].broker_id]] * query["startPartition"]
        lists = place_more(placer, "t", existing, query["n"], query["rf"], 0)
        assert lists == [*result["ok"].values()], vector["id"]
        seen += 1
    assert seen >= 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "audit", "--partitions", "3"), "topic audit exists; give --add for more partitions: it has 2"),
        (
            ("--topic", "audi", "--add", "3"),
            "topic audi does not exist; --add needs an old topic",
        ),
        (("--topic", "x", "--partitions", "3"), "topic x: how many replicas? Give --factor"),
        (("--topic", "x", "--partitions", "3", "--factor", "3"), "how large will a partition be? Give --like TOPIC"),
        (
            ("--topic", "x", "--partitions", "3", "--factor", "4", "--size", "1"),
            "4 replicas, but 3 racks (a, b, c)",
        ),
        (("--topic", "x", "--partitions", "3", "--factor", "7", "--size", "1"), "7 replicas, but 6 brokers are alive"),
        (("--topic", "x", "--partitions", "9", "--factor", "3", "--size", "2TB"), "no broker has room for "),
        (("--topic", "x", "--partitions", "3", "--factor", "3", "--like", "clics"), "(did you mean 'clicks'?)"),
        (("--topic", "x"), "x: give --partitions for a new topic, or --add for an old one"),
        (("--topic", "x; y", "--partitions", "3"), "topic 'x; y': Kafka takes 1 to 249 of the characters"),
        (
            ("--topic", "audit", "--add", "1", "--factor", "2"),
            "have 3 replicas, and Kafka adds none with 2",
        ),
        (("--topic", "x", "--partitions", "3", "--factor", "3", "--size", "99999PB"), "give a whole number from 0 to"),
        (("--file", "x.csv", "--factor", "3"), "give the new partitions by --topic and its options, or for several"),
        ((), "give the new partitions by --topic and its options, or for several topics by --file FILE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_placed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    """In one sentence that says what would do."""
    written = write_run(tmp_path, make_facts())
    assert main(["place", "--warehouse", written.path, "--cluster", CLUSTER, "--seeds", "1", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_file_has_several_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All problems of all lines at once, with their lines."""
    written = write_run(tmp_path / "w", make_facts())
    file = tmp_path / "topics.csv"
    words = ["place", "--warehouse", written.path, "--cluster", CLUSTER, "--seeds", "1", "--file", str(file)]
    file.write_text("\ufefftopic,partitions,add,factor,like,size_bytes\nnew,3,,3,clicks,\naudit,,1,,,5\n")
    assert main([*words, "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["expected"]
    assert [(new["topic"], new["first"], new["count"], new["size_bytes"]) for new in expected] == [
        ("new", 0, 3, 40 * GB),
        ("audit", 2, 1, 5),
    ]
    file.write_text("topic,partitions,factor,like\nnew,x,3,clicks\naudit,3,3,clicks\n")
    assert main(words) == 2
    err = capsys.readouterr().err
    assert f"{file}, line 2: partitions 'x': give a whole number from 1 to" in err
    assert f"{file}, line 3: topic audit exists" in err
    file.write_text("topic,partitions\n")
    assert main(words) == 2
    assert f"--file {file} has no topic" in capsys.readouterr().err
    file.write_text("topic,colour\nnew,red\n")
    assert main(words) == 2
    assert f"{file}, line 1: column 'colour'" in capsys.readouterr().err


def test_a_question_may_give_a_topic_more_partitions() -> None:
    """Kafka places them; all partitions of the topic get an even share, and the sums stay."""
    facts, question = make_facts(), asked("--partitions", "clicks=14")
    plan = answer(facts, question).plan
    assert plan is not None
    rows = plan.tables["compared"]
    own = rows[rows["topic"] == "clicks"]
    assert sorted(own["partition"]) == [*range(14)]
    assert {*own["size_bytes"]} == {7 * 40 * GB // 14}
    assert question.words() == "clicks has 14 partitions"
    for words, message in (("clicks=7", "it has 7 partitions"), ("clic=9", "did you mean 'clicks'")):
        with pytest.raises(ConfigError, match=message):
            answer(facts, asked("--partitions", words))
    gaps = make_facts(partitions=[partition("t", number, [1, 3, 5]) for number in (0, 2)])
    with pytest.raises(ConfigError, match="the run does not know all of its partitions"):
        answer(gaps, asked("--partitions", "t=5"))


def test_kafka_does_not_know_what_the_policy_empties() -> None:
    """What it puts on a broker to empty is copied by the next plan; what this places is not."""
    facts = make_facts(
        cluster={"drain_brokers": [2, 4, 6]}, partitions=[partition("t", n, [1, 3, 5]) for n in range(6)]
    )
    found = placed(facts, new(6), seeds=2)
    assert found.next_bytes == 0
    assert min(least for least, _ in found.kafka_bytes.values()) >= 6 * SIZE


def test_racks_on_some_brokers_stop_only_the_older_algorithm() -> None:
    """A controller with KRaft places there; AdminUtils refuses."""
    found = placed(make_facts((broker(1, None), *BROKERS[1:])), new(2, factor=2))
    assert [*found.kafka_bytes] == ["striped"]
