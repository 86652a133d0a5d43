"""What a policy says about topics by name: patterns match the whole name, as Python reads them."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pandas as pd

from optimizer.cluster_policy import ClusterPolicy
from optimizer.errors import ConfigError

_NAMED = 5  # topics in a message: more make a line too long to read
_Value = TypeVar("_Value")


def by_topic(topics: pd.Series, value_of: Callable[[str], _Value]) -> pd.Series:
    """The value of each row's topic, as objects; computed once for each topic."""
    values = {topic: value_of(topic) for topic in topics.unique()}
    return pd.Series([values[topic] for topic in topics], index=topics.index, dtype=object)


def requested_factor(topic: str, policy: ClusterPolicy) -> int | None:
    """The replication factor that the first matching pattern requests; None if no pattern matches."""
    matching = (each.factor for each in policy.replication_factors if re.fullmatch(each.topics, topic))
    return next(matching, None)


def pinned_brokers(topic: str, patterns: Sequence[tuple[int, Sequence[str]]]) -> list[int] | None:
    """Ids of the brokers that every matching pin names, ascending; None if no pin matches.

    Parameters
    ----------
    patterns : sequence
        Each broker's id and the patterns of the pins that name it, ascending by id.
    """
    matching = {p for p in {p for _, named in patterns for p in named} if re.fullmatch(p, topic)}
    return [broker for broker, named in patterns if matching.issubset(named)] if matching else None


def conflicting_factors(cluster_id: str, topics: Iterable[str], policy: ClusterPolicy) -> ConfigError | None:
    """The error about topics for which patterns request different factors; it names the first topics."""
    factors = policy.replication_factors
    if len({pattern.factor for pattern in factors}) < 2:
        return None
    texts = []
    for topic in sorted(topics):
        matching = [each for each in factors if re.fullmatch(each.topics, topic)]
        if len({each.factor for each in matching}) > 1:
            requested = ", ".join(f"{each.factor} by {each.topics!r}" for each in matching)
            texts.append(f"{topic} of cluster {cluster_id}: {requested}")
    problem = "patterns of replication_factors request different factors for the same topic"
    remedy = "let only one pattern match the topic"
    return ConfigError(f"{problem}: {'; '.join(texts[:_NAMED])}; {remedy}") if texts else None
