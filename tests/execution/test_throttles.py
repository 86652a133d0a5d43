"""Which throttle entries a wave sets, and which it removes."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.observed import Throttle
from execution.throttles import (
    Entries,
    Entry,
    Removal,
    Setting,
    covers,
    describe,
    entry,
    follower_elements,
    is_foreign,
    is_list,
    leader_elements,
    shortened,
    to_remove,
    to_set,
)
from optimizer.kafka.throttle import FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from tests.execution.scene import changed

RATE: Throttle = ("brokers", "1", LEADER_RATE)
LIST: Throttle = ("topics", "t", LEADER_REPLICAS)
OTHER_LIST: Throttle = ("topics", "t", FOLLOWER_REPLICAS)


def test_a_list_is_of_a_topic() -> None:
    """A rate is of a broker."""
    assert [is_list(key) for key in (RATE, LIST, OTHER_LIST)] == [False, True, True]


@pytest.mark.parametrize(
    ("key", "value", "wanted", "is_covered"),
    [
        (RATE, "5", "5", True),
        (RATE, "50", "5", False),
        (RATE, None, "5", False),
        (LIST, None, "0:1", False),
        (LIST, "", "0:1", False),
        (LIST, "*", "0:1,0:2", True),
        (LIST, "0:1,0:2", "0:1,0:2", True),
        (LIST, "0:2,0:1", "0:1,0:2", True),
        (LIST, "7:7,0:2,0:1", "0:1,0:2", True),
        (LIST, "0:1", "0:1,0:2", False),
        (LIST, "0:11,0:2", "0:1,0:2", False),
        (RATE, "*", "5", False),
    ],
)
def test_a_value_covers_what_it_throttles(key: Throttle, value: str | None, wanted: str, is_covered: bool) -> None:
    """A rate must be the same; a list may have more, and in another order; ``*`` is every replica."""
    assert covers(key, value, wanted) is is_covered


@pytest.mark.parametrize(
    ("key", "value", "wanted", "before", "expected"),
    [
        (RATE, "5", "5", None, False),
        (RATE, "5", "9", "5", False),
        (RATE, "5", "9", "7", True),
        (RATE, "5", None, None, True),
        (RATE, "5", None, "5", False),
        (LIST, "0:1", "0:1,0:2", None, False),
        (LIST, "0:1,3:3", "0:1,0:2", "3:3", False),
        (LIST, "0:1,7:7", "0:1,0:2", "3:3", True),
        (LIST, "*", "0:1", "*", False),
        (LIST, "*", "0:1", None, True),
        (LIST, "", "0:1", None, False),
        (LIST, "0:1", None, None, True),
    ],
)
def test_a_value_is_foreign_if_it_has_more_than_the_plan_knows(
    key: Throttle, value: str, wanted: str | None, before: str | None, expected: bool
) -> None:
    """More than the wave's value and the value before it."""
    assert is_foreign(key, value, wanted=wanted, before=before) is expected


@pytest.mark.parametrize(
    ("key", "value", "previous", "before"),
    [
        (RATE, None, None, None),
        (RATE, "9", "9", "9"),
        (RATE, "9", None, "9"),
        (RATE, "9", "7", "9"),
        (RATE, None, "7", None),
        (RATE, "5", "7", "7"),
        (RATE, "5", None, None),
    ],
)
def test_the_value_before_a_wave_is_that_of_the_cluster(
    key: Throttle, value: str | None, previous: str | None, before: str | None
) -> None:
    """If it is the wave's own value, somebody has run the plan's script: what the plan found counts."""
    assert entry(key, value, "5", previous) == Entry(before, "5")


def test_a_list_that_a_script_has_set_is_not_the_value_before() -> None:
    """Also if somebody has added replicas to it."""
    assert entry(LIST, "0:1,7:7", "0:1", None) == Entry(None, "0:1")
    assert entry(LIST, "0:1", "0:1,0:2", None) == Entry("0:1", "0:1,0:2")
    assert entry(LIST, "*", "0:1", "*") == Entry("*", "0:1")


@pytest.mark.parametrize(
    ("key", "value", "wanted", "setting"),
    [
        (RATE, None, "5", ("SET", "5")),
        (RATE, "9", "5", ("SET", "5")),
        (RATE, "5", "5", None),
        (LIST, None, "0:1", ("SET", "0:1")),
        (LIST, "", "0:1", ("SET", "0:1")),
        (LIST, "*", "0:1", None),
        (LIST, "0:2,0:1", "0:1,0:2", None),
        (LIST, "7:7", "0:1,0:2", ("APPEND", "0:1,0:2")),
        (LIST, "7:7,0:1", "0:1,0:2", ("APPEND", "0:2")),
    ],
)
def test_only_what_is_missing_is_set(key: Throttle, value: str | None, wanted: str, setting: Setting | None) -> None:
    """A list of others is extended."""
    now = {} if value is None else {key: value}
    assert to_set({key: Entry("ignored", wanted)}, now) == ({} if setting is None else {key: setting})


STAYS = "was set by somebody else and stays"
NOT_AGAIN = "was removed by somebody else and is not set again"


@pytest.mark.parametrize(
    ("key", "one", "value", "setting", "left"),
    [
        (RATE, Entry(None, "5"), "5", ("DELETE", None), ""),
        (RATE, Entry("9", "5"), "5", ("SET", "9"), ""),
        (RATE, Entry("5", "5"), "5", None, ""),
        (RATE, Entry(None, "5"), None, None, ""),
        (RATE, Entry("9", "5"), "9", None, ""),
        (RATE, Entry(None, "5"), "7", None, f"brokers 1 {LEADER_RATE}=7 {STAYS}"),
        (RATE, Entry("9", "5"), None, None, f"brokers 1 {LEADER_RATE}=9 {NOT_AGAIN}"),
        (LIST, Entry(None, "0:1,0:2"), "0:1,0:2", ("DELETE", None), ""),
        (LIST, Entry(None, "0:1,0:2"), "0:2", ("DELETE", None), ""),
        (LIST, Entry("", "0:1"), "0:1", ("DELETE", None), ""),
        (LIST, Entry("", "0:1"), None, None, ""),
        (LIST, Entry(None, "0:1"), "", ("DELETE", None), ""),
        (LIST, Entry(None, "0:1,0:2"), "7:7,0:2,0:1", ("SUBTRACT", "0:2,0:1"), ""),
        (LIST, Entry("0:1", "0:1,0:2"), "0:1,0:2", ("SUBTRACT", "0:2"), ""),
        (LIST, Entry("0:1", "0:1,0:2"), "0:1", None, ""),
        (LIST, Entry("0:1,0:2", "0:1"), "0:1,0:2", None, ""),
        (LIST, Entry(None, "0:1"), "7:7", None, ""),
        (LIST, Entry(None, "0:1"), None, None, ""),
        (LIST, Entry(None, "0:1"), "*", None, f"topics t {LEADER_REPLICAS}=* {STAYS}"),
        (LIST, Entry("0:2", "0:1"), None, None, f"topics t {LEADER_REPLICAS}=0:2 {NOT_AGAIN}"),
        (LIST, Entry("*", "0:1,0:2"), "*", None, ""),
        (LIST, Entry("*", "0:1,0:2"), "0:2,0:1", ("SET", "*"), ""),
        (LIST, Entry("*", "0:1,0:2"), "0:1,0:2,7:7", None, ""),
        (LIST, Entry("*", "0:1"), None, None, f"topics t {LEADER_REPLICAS}=* {NOT_AGAIN}"),
    ],
)
def test_only_the_waves_own_entries_are_removed(
    key: Throttle, one: Entry, value: str | None, setting: Setting | None, left: str
) -> None:
    """The value before is restored; what somebody else has changed is named."""
    now = {} if value is None else {key: value}
    assert to_remove({key: one}, now) == Removal({} if setting is None else {key: setting}, (left,) if left else ())


def test_a_long_value_is_cut_in_a_message() -> None:
    """At 40 characters."""
    assert describe(LIST, "1" * 40) == f"topics t {LEADER_REPLICAS}={'1' * 40}"
    assert describe(LIST, "1" * 41) == f"topics t {LEADER_REPLICAS}={'1' * 37}..."


ELEMENTS = st.sampled_from([f"{partition}:{broker}" for partition in range(3) for broker in range(3)])
LISTS = st.lists(ELEMENTS, min_size=1, max_size=6, unique=True).map(",".join)
VALUES = st.one_of(st.none(), st.just("*"), LISTS)
RATES = st.sampled_from(["5", "7", "9"])


def apply(now: Mapping[Throttle, str], changes: Mapping[Throttle, Setting]) -> dict[Throttle, str]:
    """The throttles of a cluster after changes, as Kafka makes them."""
    after = {key: changed(now.get(key), *setting) for key, setting in changes.items()}
    return {key: value for key, value in {**now, **after}.items() if value is not None}


@given(
    rates=st.tuples(st.none() | RATES, RATES),
    lists=st.lists(st.tuples(VALUES, LISTS), min_size=2, max_size=2),
    others=st.lists(ELEMENTS, max_size=4, unique=True),
)
def test_the_values_before_are_back_with_what_others_have_added(
    rates: tuple[str | None, str], lists: list[tuple[str | None, str]], others: list[str]
) -> None:
    """Repeating a change changes nothing, as after a kill."""
    values = dict(zip((RATE, LIST, OTHER_LIST), (rates, *lists), strict=True))
    before = {key: value for key, (value, _) in values.items() if value is not None}
    entries: Entries = {
        key: entry(key, before.get(key), wanted, before.get(key)) for key, (_, wanted) in values.items()
    }
    during = apply(before, to_set(entries, before))
    assert all(covers(key, during[key], one.wanted) for key, one in entries.items())
    assert to_set(entries, during) == {}
    wanted = entries[LIST].wanted.split(",")
    added = [each for each in others if each not in wanted and each not in (before.get(LIST) or "").split(",")]
    if added:
        during[LIST] = str(changed(during[LIST], "APPEND", ",".join(added)))
    removal = to_remove(entries, during)
    after = apply(during, removal.changes)
    expected = ",".join([*filter(None, [before.get(LIST)]), *added])
    assert after == {**before, **({LIST: expected} if expected else {})}
    assert (removal.left, to_remove(entries, after)) == ((), Removal({}, ()))


@pytest.mark.parametrize(
    ("value", "copies", "setting"),
    [
        ("0:3,1:3", ["0:3"], ("SUBTRACT", "0:3")),
        ("0:3,1:3", ["1:3", "0:3"], ("DELETE", None)),
        ("9:9,0:3", ["0:3"], ("SUBTRACT", "0:3")),
        ("9:9", ["0:3"], None),
        ("*", ["0:3"], None),
        (None, ["0:3"], None),
        ("10:3", ["0:3"], None),
    ],
)
def test_released_copies_leave_the_list(value: str | None, copies: list[str], setting: Setting | None) -> None:
    """The list is deleted if nothing remains, because SUBTRACT leaves an empty value."""
    numbers = [copy.split(":") for copy in copies]
    throttles = {} if value is None else {OTHER_LIST: value}
    elements = follower_elements(("t", int(number), int(broker)) for number, broker in numbers)
    assert shortened(throttles, elements) == ({} if setting is None else {OTHER_LIST: setting})


@pytest.mark.parametrize(
    ("wanted", "before", "own"),
    [
        ("0:1,1:2", "", {"0:1"}),
        ("0:1,0:2", "0:2", {"0:1"}),
        ("10:1", "", set()),
        ("0:1", "0:1", set()),
    ],
)
def test_a_partition_leaves_the_lists_of_leaders(wanted: str, before: str, own: set[str]) -> None:
    """With the wave's own elements of this partition only."""
    elements = leader_elements([("t", 0)], {LIST: wanted}, {LIST: before})
    assert elements == ({LIST: own} if own else {})
    assert leader_elements([("u", 0)], {LIST: wanted}, {}) == {}
