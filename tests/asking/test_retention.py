"""What topics keep if their records are deleted sooner."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from asking.answer import answer
from asking.cli import main
from asking.question import Question, facts_for
from asking.retention import kept_by_topic
from optimizer.errors import ConfigError
from tests.asking.small_run import BROKERS, CLUSTER, GB, asked, make_facts, partition, write_run

DAY, HOUR = 86_400, 3600
RATE = 1_000_000
# Topic, its configs, bytes and rate of its partition; then how long it is kept, and what it has then.
CASES = [
    pytest.param("retention.ms=172800000", 40 * GB, RATE, HOUR, RATE * HOUR, True, id="what comes in the time"),
    pytest.param("retention.ms=172800000", 40 * GB, 0, DAY, 20 * GB, False, id="its share of the time"),
    pytest.param(None, 70 * GB, 0, DAY, 10 * GB, False, id="seven days unless it says so"),
    pytest.param("retention.ms=-1", 40 * GB, 0, DAY, 40 * GB, False, id="for ever, and no rate"),
    pytest.param("cleanup.policy=compact,delete,retention.ms=3600000", 2 * GB, 0, DAY, 2 * GB, False, id="never more"),
    pytest.param("retention.ms=864000000", 2 * GB, RATE, 7 * DAY, 2 * GB, True, id="never more by rate"),
    pytest.param("retention.ms=3600000", 40 * GB, RATE, 6 * HOUR, 40 * GB, False, id="a longer time"),
]


@pytest.mark.parametrize(("configs", "size_bytes", "rate", "seconds", "expected", "by_rate"), CASES)
def test_a_topic_keeps_what_comes_in_the_time(
    configs: str | None, size_bytes: int, rate: int, seconds: int, expected: int, *, by_rate: bool
) -> None:
    """With a rate of its own; else in proportion to its retention."""
    row = partition("t", 0, [1, 3], configs=configs, size_bytes=size_bytes, in_bytes_per_s=rate)
    [kept] = kept_by_topic(make_facts(BROKERS, [row]).partitions, {"t": seconds})
    assert (kept.sizes.tolist(), kept.by_rate) == ([expected], by_rate)


def test_a_partition_without_a_rate_has_its_share() -> None:
    """Also if others of its topic have one."""
    rates = (RATE, 0)
    rows = [
        partition("t", n, [1, 3], configs="retention.ms=172800000", in_bytes_per_s=rate) for n, rate in enumerate(rates)
    ]
    [kept] = kept_by_topic(make_facts(BROKERS, rows).partitions, {"t": DAY // 24})
    assert kept.sizes.tolist() == [RATE * HOUR, round(40 * GB / 48)]


@pytest.mark.parametrize("words", [("--retention", "a=1h"), ("--partitions", "a=8"), ("--sizes", "0.5")])
def test_what_is_copied_and_lost_has_the_new_size(words: tuple[str, str]) -> None:
    """Bytes of a copy and records of a log change with the size, also where a copy is smaller than its replica."""
    known: dict[str, Any] = {"copy_bytes": 20 * GB, "log_records": 4000, "lag_brokers": [1, 3], "lag_records": [0, 10]}
    facts = make_facts(BROKERS, [partition("a", number, [1, 3], **known) for number in range(4)])
    rows = facts_for(facts, asked(*words)).partitions
    assert (rows["size_bytes"] < 40 * GB).all()
    assert (rows["copy_bytes"] - rows["size_bytes"] / 2).abs().max() <= 1
    assert (rows["log_records"] - rows["size_bytes"] / (10**7)).abs().max() <= 1
    assert rows["lag_records"].notna().tolist() == [True] * 4 + [False] * (len(rows) - 4)


def test_only_topics_that_match_and_delete_shrink() -> None:
    """A compacted topic keeps its size; a pattern that finds nothing to delete is an error."""
    rows = [
        partition(topic, 0, [1, 3], configs=configs)
        for topic, configs in (("a", None), ("b", "cleanup.policy=compact"))
    ]
    facts = make_facts(BROKERS, [*rows, partition("other", 0, [1, 3])])
    question = asked("--retention", "[ab]=1h")
    sizes = facts_for(facts, question).partitions.set_index("topic")["size_bytes"].to_dict()
    assert sizes == {"a": RATE * HOUR, "b": 40 * GB, "other": 40 * GB}
    assert question.words() == "keep [ab] for 1 h 00 min"
    with pytest.raises(ConfigError, match=re.escape("--retention b: no topic of this name has cleanup.policy=delete")):
        facts_for(facts, asked("--retention", "b=1h"))


def test_the_answer_has_the_commands_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The topic's own value comes back, or none; the plan copies less."""
    own = [partition("clicks", n, [1, 3, 5], configs="retention.ms=86400000") for n in range(6)]
    facts = make_facts(BROKERS, [*own, *(partition("audit", n, [1, 3, 5]) for n in range(2))])
    written = write_run(tmp_path, facts)
    words = ["ask", "--warehouse", written.path, "--cluster", CLUSTER, "--retention", "clicks|audit=1h"]
    assert main(words) == 0
    out = capsys.readouterr().out
    entity = "--entity-type topics --entity-name"
    for text in ("clicks --add-config retention.ms=86400000", "audit --delete-config retention.ms"):
        assert f"{entity} {text}\n" in out
    assert out.count("--add-config retention.ms=3600000\n") == 2
    assert main([*words, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures
    less, usual = (answer(facts, question).figures["moved_bytes"][1] for question in (asked(*words[-2:]), Question()))
    assert 0 <= (less or 0) < (usual or 0)
