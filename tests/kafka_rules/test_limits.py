"""Kafka's limits: counted sizes are those of the documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.kafka.size_limits import CONFIG_VALUE_CHARACTERS, LIST_CHARACTERS, list_characters
from optimizer.kafka.throttle import LEADER_REPLICAS, config_entries, tool_throttles

IDS = st.lists(st.integers(0, 99_999), min_size=1, max_size=5, unique=True)


@given(st.dictionaries(st.integers(0, 20_000), IDS, min_size=1, max_size=20))
def test_characters_are_those_of_the_list(lists: dict[int, list[int]]) -> None:
    """Characters of partitions add up to the list that the tool sets, and a comma."""
    current = {("t", number): brokers for number, brokers in lists.items()}
    entries = config_entries(tool_throttles(current, current), 1, 1)
    [value] = [value for _, _, config, value in entries if config == LEADER_REPLICAS]
    counted = sum(list_characters(n, len(brokers), sum(len(str(b)) for b in brokers)) for n, brokers in lists.items())
    assert counted == len(value) + 1


@pytest.mark.parametrize(("characters", "fits"), [(32_767, True), (32_768, False)])
def test_the_limit_is_that_of_a_short_string(characters: int, fits: bool) -> None:
    """A value of 32,767 characters can be set, one more can't; its list counts a comma more."""
    assert (characters <= CONFIG_VALUE_CHARACTERS) is fits
    assert (characters + 1 <= LIST_CHARACTERS) is fits
