"""The sticky assignors: equal to Kafka's classes on random groups, and what they never do."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import KafkaError
from optimizer.kafka.assignors import Assigned, Member
from optimizer.kafka.sticky_assignors import cooperative_sticky_assignment, sticky_assignment
from tests.kafka_rules.compare_assignors import can_compile, differences

GROUPS = 1_500
COUNTS = {"a": 5, "b": 3}


@pytest.mark.all_only
@pytest.mark.skipif(not can_compile(), reason="this Java has no compiler")
def test_random_groups_are_assigned_as_by_kafka() -> None:
    """Equal and unequal subscriptions, stale and contested claims, hash collisions, and Kafka's exceptions."""
    assert list(differences(seed=58, groups=GROUPS)) == []


def members(assigned: Assigned, *joined: str) -> list[Member]:
    """Members that hold an assignment, and some that hold nothing."""
    held = [*assigned.items(), *((name, []) for name in joined)]
    return [Member(name, tuple(COUNTS), owned=tuple(keys), generation=1) for name, keys in held]


@given(st.integers(2, 9), st.integers(0, 8), st.integers(0, 4))
@settings(deadline=None)
def test_only_what_must_move_moves(before: int, leaving: int, joining: int) -> None:
    """All subscribe to the same topics: members keep what they hold up to the new share, also in two steps."""
    first = sticky_assignment(COUNTS, members({}, *(f"m{n}" for n in range(before))))
    stay = {name: keys for at, (name, keys) in enumerate(sorted(first.items())) if at >= min(leaving, before - 1)}
    group = members(stay, *(f"n{n}" for n in range(joining)))
    after = sticky_assignment(COUNTS, group)
    assert Counter(key for keys in after.values() for key in keys) == Counter(
        (topic, partition) for topic, count in COUNTS.items() for partition in range(count)
    )
    sizes = [len(keys) for keys in after.values()]
    assert max(sizes) - min(sizes) <= 1
    kept = sum(len(set(keys) & set(after[name])) for name, keys in stay.items())
    most, with_more = -(-sum(sizes) // len(sizes)), sum(sizes) % len(sizes) or len(sizes)
    full = sorted((len(keys) for keys in stay.values()), reverse=True)
    assert kept == sum(min(size, most - (at >= with_more)) for at, size in enumerate(full))
    # Cooperative: what a member must give up has nobody in the first step; the second gives the same sizes.
    step = cooperative_sticky_assignment(COUNTS, group)
    assert all(set(step[name]) <= set(after[name]) for name in after)
    owned = {key for keys in stay.values() for key in keys}
    assert all(key in stay.get(name, ()) or key not in owned for name, keys in step.items() for key in keys)
    second = cooperative_sticky_assignment(COUNTS, members(step))
    assert sorted(map(len, second.values())) == sorted(sizes)


def test_partitions_that_are_gone_are_an_error_as_in_kafka() -> None:
    """A topic was created again with fewer partitions: the class keeps the old ones, then has too many to assign."""
    stale = Member("m", ("a",), owned=(("a", 5), ("a", 6)))
    with pytest.raises(KafkaError, match=r"^No more unfilled consumers to be assigned\.$"):
        sticky_assignment({"a": 3}, [stale])
