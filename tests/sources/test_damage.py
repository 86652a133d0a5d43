"""A line that is cut off, joined with the next line, or loses its start is read or reported."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sources.detect import parse_any

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sources"
PARTITION = "\tTopic: t\tPartition: {0}\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
HEADER = "Topic: {0}\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: a=1\n"
VERSIONS = "h{0}:9092 (id: {0} rack: r isFenced: false) -> (\n\tProduce(0): 0 to 13 [usable: 13],\n)\n"
CONFIG = "  {0}.rate=10000 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{0}.rate=10000}}\n"
ZNODE = '{{"jmx_port":-1,"host":"h{0}","port":9092,"endpoints":["PLAINTEXT://h{0}:9092"],"version":5}}\n'
KCAT = (
    "Metadata for all topics (from broker 1: b:9092/1):\n 2 brokers:\n  broker 1 at b:9092 (controller)\n"
    '  broker 2 at c:9092\n 1 topics:\n  topic "t" with 2 partitions:\n'
    "    partition 0, leader 1, replicas: 1,2, isrs: 1,2\n    partition 1, leader 2, replicas: 2,1, isrs: 2,1\n"
)
ENDPOINTS = "{0}          b{0}.example {1}{0}       rack a     {2}   broker         \n"
LOAD = "{0:>20}{1:>10}{2:>30}{3:19.6f}{3:19.3f}{3:19.3f}{4:19.3f}{3:19.3f}\n"
LOADS = "{:>20}{:>10}{:>30}{:>20}{:>20}{:>20}{:>20}{:>20}\n".format(
    *("PARTITION", "LEADER", "FOLLOWERS", "CPU (%_CORES)", "DISK (MB)", "NW_IN (KB/s)", "NW_OUT (KB/s)", "MSG_IN (#/s)")
)
TEXTS = {
    "describe": HEADER.format("t") + "".join(map(PARTITION.format, range(3))) + HEADER.format("u"),
    "describe of 2.6": (FIXTURES / "topics-2.6.txt").read_text(),
    "versions": "".join(map(VERSIONS.format, range(3))),
    "versions by grep": "".join(VERSIONS.format(i).partition("\t")[0] for i in range(3)),
    "configs": "".join(
        f"Dynamic configs for broker {i} are:\n{CONFIG.format('a')}{CONFIG.format('b')}" for i in (1, 2)
    ),
    "list": "Current partition reassignments:\n" + "".join(f"t-{i}: replicas: 1,2. adding: 2.\n" for i in range(3)),
    "kcat": KCAT,
    "endpoints": "ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE  \n"
    + "".join(ENDPOINTS.format(i, 909, state) for i, state in ((1, "unfenced"), (2, "fenced  "), (3, "unfenced"))),
    **{
        f"groups, {path.name}": path.read_text()
        for path in sorted(FIXTURES.glob("groups-*-4.3.txt"))
        if "failure" not in path.name
    },
    "loads": LOADS + "".join(LOAD.format(f"t-{i}", i, "[2, 3]", 1.5, 4.5) for i in range(3)),
    "znodes": "".join(f"get /brokers/ids/{i}\n{ZNODE.format(i)}" for i in range(3)),
    "table": "broker_id,rack,disk_gb\n1,a,5\n2,b,6\n",
}


def counted(text: str) -> tuple[Counter[str], int]:
    """The number of records of each kind, and of malformed records."""
    kinds = Counter(record.kind for record in parse_any(text, name="x"))
    return kinds, kinds.pop("malformed", 0)


def joined(lines: list[str]) -> Iterator[list[str]]:
    """The lines, with two of them joined."""
    for i in range(len(lines) - 1):
        yield [*lines[:i], lines[i] + lines[i + 1], *lines[i + 2 :]]


def cut(lines: list[str]) -> Iterator[list[str]]:
    """The lines, with one line cut off in the middle, at a quarter, or at three quarters."""
    for i, line in enumerate(lines):
        for length in (len(line) // 4, len(line) // 2, 3 * len(line) // 4):
            if line[:length].strip():
                yield [*lines[:i], line[:length], *lines[i + 1 :]]


def ended(lines: list[str]) -> Iterator[list[str]]:
    """The first lines, of which the last is cut off in the middle."""
    for i, line in enumerate(lines):
        if line[: len(line) // 2].strip():
            yield [*lines[:i], line[: len(line) // 2]]


@pytest.mark.parametrize("damage", [joined, cut, ended], ids=["joined", "cut", "ended"])
@pytest.mark.parametrize("name", TEXTS)
def test_no_damage_of_a_line_is_silent(name: str, damage: object) -> None:
    """A damaged text that gives fewer records than the undamaged text also gives a malformed record."""
    assert callable(damage)
    lines = TEXTS[name].splitlines()
    for damaged in damage(lines):
        whole = lines if damage is not ended else lines[: len(damaged)]
        expected, _ = counted("\n".join(whole) + "\n")
        actual, faults = counted("\n".join(damaged) + ("" if damage is ended else "\n"))
        assert faults or not expected - actual, damaged


ENTRY = "  r=1 sensitive=false synonyms={}"
ELIDED = [
    pytest.param(f"Dynamic configs for topic a are:\n{ENTRY}\n...\n{ENTRY}\n", 3, id="below an entry"),
    pytest.param("Configs for topic 'a' are r=1\n[...]\n", 2, id="below the old form"),
    pytest.param(f"\u2026\nDynamic configs for topic a are:\n{ENTRY}\n", 1, id="above a heading"),
    pytest.param("Current partition reassignments:\n[...]\n", 2, id="in place of the list"),
    pytest.param("Current partition reassignments:\nt-0: replicas: 1,2. adding: 2.\n...\n", 3, id="at its end"),
]


@pytest.mark.parametrize(("text", "line"), ELIDED)
def test_omitted_lines_are_reported(text: str, line: int) -> None:
    """Dots in place of lines show that records are missing."""
    assert line in [record.line for record in parse_any(text, name="x") if record.kind == "malformed"]


def test_configs_after_omitted_lines_have_no_entity() -> None:
    """The omitted lines may contain their heading."""
    text = f"Dynamic configs for topic a are:\n{ENTRY}\n...\n{ENTRY}\n"
    assert [record.line for record in parse_any(text, name="x") if record.kind == "config"] == [2]


TOPIC = f"Dynamic configs for topic a are:\n{ENTRY}\n"
FRAGMENTS = [
    pytest.param(f"{TOPIC}\tat a.b.C.main(C.java:8)\n", id="the end of a trace"),
    pytest.param(f"{TOPIC}{ENTRY[:-2]}{{Xsync=1 sensitive=false synonyms={{}}\n", id="two configs in one"),
    pytest.param(f'  "isFuture": false\n  }}\n ]\n}}\n\n{TOPIC}', id="the end of JSON"),
]


@pytest.mark.parametrize("text", FRAGMENTS)
def test_a_fragment_of_an_output_is_reported(text: str) -> None:
    """A fragment of a tool's output is never skipped, even if the rest of the text can be read."""
    records = parse_any(text, name="x")
    assert {record.kind for record in records} >= {"malformed"}
