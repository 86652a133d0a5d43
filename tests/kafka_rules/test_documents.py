"""Documents of Kafka's tools: the same bytes, the same leniency and the same messages."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import KafkaError
from optimizer.kafka.reassignment_json import (
    format_leader_election,
    format_reassignment,
    format_topics_to_move,
    parse_reassignment,
)


def test_reassignment_text() -> None:
    """Entries go by topic, then by partition as a number; a directory that is not planned is "any"."""
    rows = [("b", 0, [1], None), ("a", 10, [2], ["/d1"]), ("a", 9, [3, 4], None), ("B", 0, [5], None)]
    assert format_reassignment(rows) == (
        '{"version":1,"partitions":['
        '{"topic":"B","partition":0,"replicas":[5],"log_dirs":["any"]},'
        '{"topic":"a","partition":9,"replicas":[3,4],"log_dirs":["any","any"]},'
        '{"topic":"a","partition":10,"replicas":[2],"log_dirs":["/d1"]},'
        '{"topic":"b","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    )


def test_other_documents() -> None:
    """Topics to move and leader elections are sorted, each entry once."""
    assert format_topics_to_move(["b", "a", "b"]) == '{"version":1,"topics":[{"topic":"a"},{"topic":"b"}]}'
    assert format_leader_election([("t", 10), ("t", 2), ("t", 10)]) == (
        '{"partitions":[{"topic":"t","partition":2},{"topic":"t","partition":10}]}'
    )


def _entry(**changes: object) -> str:
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2], **changes}
    return json.dumps({"partitions": [{k: v for k, v in entry.items() if v != "absent"}]})


PAIR = [{"topic": "t", "partition": 0, "replicas": [1]}] * 2
COMMAND, OPERATION, MAPPING = "AdminCommandFailedException", "AdminOperationException", "JsonMappingException"
REFUSED = [
    ("", OPERATION, "The input string shouldn't be empty\n at [Source: UNKNOWN; byte offset: #UNKNOWN]"),
    ("{", OPERATION, None),
    ("01", OPERATION, None),
    ("[NaN]", OPERATION, None),
    (" \n", MAPPING, "Expected JSON object, received "),
    ("[]", MAPPING, "Expected JSON object, received []"),
    ("null", MAPPING, "Expected JSON object, received null"),
    ('{"version": 2}', OPERATION, "Not supported version field value 2"),
    ('{"version": "1"}', MAPPING, 'Expected `Integer` value, received "1"'),
    ('{"version": 1.0}', MAPPING, "Expected `Integer` value, received 1.0"),
    ('{"version": 1e10}', MAPPING, "Expected `Integer` value, received 1.0E10"),
    ('{"version": 1.5e-7}', MAPPING, "Expected `Integer` value, received 1.5E-7"),
    ('{"version": 1e400}', MAPPING, 'Expected `Integer` value, received "Infinity"'),
    ('{"version": "\\u001f"}', MAPPING, 'Expected `Integer` value, received "\\u001F"'),
    ('{"version": {"a": [1, true]}}', MAPPING, 'Expected `Integer` value, received {"a":[1,true]}'),
    ('{"partitions": {}}', MAPPING, "Expected JSON array, received {}"),
    (_entry(topic="absent", partition="absent"), MAPPING, "No such field exists: `topic`"),
    (_entry(topic=5), MAPPING, "Expected `String` value, received 5"),
    (_entry(replicas=1), MAPPING, "Expected `JSON array` value, received 1"),
    (_entry(replicas=[2**31]), MAPPING, "Expected `Integer` value, received 2147483648"),
    (_entry(replicas=[-(2**31) - 1]), MAPPING, "Expected `Integer` value, received -2147483649"),
    (
        _entry(log_dirs=["any"]),
        COMMAND,
        "Size of replicas list [1, 2] is different from size of log dirs list [any] for partition t-0",
    ),
    ("{}", COMMAND, "Partition reassignment list cannot be empty"),
    (_entry(replicas=[]), COMMAND, "Partition replica list cannot be empty"),
    (json.dumps({"partitions": PAIR}), COMMAND, "Partition reassignment contains duplicate topic partitions: t-0"),
    (
        _entry(replicas=[17, 1, 1, 17]),
        COMMAND,
        "Partition replica lists may not contain duplicate entries: t-0 contains multiple entries for 1,17",
    ),
]


@pytest.mark.parametrize(("text", "exception", "message"), REFUSED)
def test_refused_documents(text: str, exception: str, message: str | None) -> None:
    """Each fault has Kafka's exception and message, except for Jackson's message of a JSON syntax error."""
    with pytest.raises(KafkaError) as caught:
        parse_reassignment(text)
    assert (caught.value.exception, caught.value.message) == (exception, message)


def test_integers_of_32_bits_are_read() -> None:
    """The smallest and the largest integer of Java are ids."""
    assert parse_reassignment(_entry(replicas=[2**31 - 1, -(2**31)])).replicas == {("t", 0): [2**31 - 1, -(2**31)]}


def test_lenient_reading() -> None:
    """Unknown keys, text behind the document and directories "any" are ignored; the last of equal keys is used."""
    entry = '{"topic":"a","topic":"t","partition":-1,"replicas":[-1,5],"log_dirs":["any","/d"]}'
    text = '{"version":1,"x":0,"partitions":[' + entry + "]}}"
    plan = parse_reassignment(text)
    assert plan.replicas == {("t", -1): [-1, 5]}
    assert plan.log_dirs == {("t", -1, 5): "/d"}


TOPICS = st.text("aA0._-", min_size=1, max_size=4)
DIRS = st.one_of(st.none(), st.just("any"), st.just("/data/d1"))
PLANS = st.dictionaries(
    st.tuples(TOPICS, st.integers(0, 120)),
    st.lists(st.integers(0, 40), min_size=1, max_size=5, unique=True),
    min_size=1,
)


@given(PLANS, DIRS)
def test_round_trip(plan: dict[tuple[str, int], list[int]], directory: str | None) -> None:
    """A written document is read back, in any order of its rows."""
    rows = [(t, p, r, None if directory is None else [directory] * len(r)) for (t, p), r in plan.items()]
    text = format_reassignment(rows)
    assert text == format_reassignment(reversed(rows))
    got = parse_reassignment(text)
    assert got.replicas == plan
    assert set(got.log_dirs.values()) == ({directory} & {"/data/d1"})
