"""Lines, integers, lists of ids and topic names, as every parser reads them."""

import pytest

from sources.text import broker_ids, integer, is_integer, lines_of, topic_fault, topic_partition


@pytest.mark.parametrize("name", ["a", "A-0_9.z", "...", ".a", "-", "a" * 249])
def test_valid_topics(name: str) -> None:
    """Letters, digits, dots, dashes and underscores, 1 to 249 of them, are a topic."""
    assert topic_fault(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\n", "a,b"])
def test_invalid_topics(name: str) -> None:
    """One or two dots, an empty or too long name, and other characters are not valid."""
    fault = topic_fault(name)
    assert fault is not None
    assert fault.startswith(repr(name[:80]))


@pytest.mark.parametrize("name", [None, 5, ["a"]])
def test_a_topic_name_must_be_a_string(name: object) -> None:
    """The reason shows the value."""
    assert topic_fault(name) == f"the topic is {name!r}, not a string"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a-0", ("a", 0)),
        ("a-3-12", ("a-3", 12)),
        ("a--1", ("a-", 1)),
        (".a-0", (".a", 0)),
        (".-0", None),
        ("..-0", None),
        ("-0", None),
        ("a-", None),
        ("a0", None),
        ("a-x", None),
        ("a-12345678901", None),
    ],
)
def test_topic_and_partition_are_split_at_the_last_dash(text: str, expected: tuple[str, int] | None) -> None:
    """A topic's name may end in a number; an invalid name gives None."""
    assert topic_partition(text) == expected


@pytest.mark.parametrize(
    ("text", "ids"),
    [("", []), (" ", []), ("1", [1]), (" 1, 2 ,-1", [1, 2, -1]), ("1,,2", None), ("1,x", None), (",", None)],
)
def test_lists_of_broker_ids(text: str, ids: list[int] | None) -> None:
    """Elements are integers, with or without blanks; one bad element makes the list None."""
    assert broker_ids(text) == ids


def test_a_changed_list_changes_no_other_list() -> None:
    """Equal texts give separate lists."""
    first = broker_ids("1,2")
    assert first is not None
    first.append(3)
    assert broker_ids("1,2") == [1, 2]


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), (" -12 ", -12), ("+1", None), ("1.0", None), ("٣", None), ("", None), ("1_0", None)]
)
def test_integers(text: str, value: int | None) -> None:
    """An integer has only ASCII digits and a minus."""
    assert integer(text) == value


@pytest.mark.parametrize(("digits", "read"), [(40, True), (41, False)])
def test_very_long_numbers_are_none(digits: int, read: bool) -> None:
    """Kafka has no number with more than forty digits."""
    assert (integer("9" * digits) is not None) is read


def test_lines_end_at_line_feeds() -> None:
    """A carriage return before the line feed is removed; other separators stay in the line."""
    assert lines_of("a\r\nb\u2028c\n\nd") == ["a", "b\u2028c", "", "d"]


@pytest.mark.parametrize(("value", "expected"), [(1, True), (True, False), (1.0, False), ("1", False), (None, False)])
def test_integers_of_json(value: object, expected: bool) -> None:
    """True is not an integer."""
    assert is_integer(value) is expected
