"""What an operator may request for topics by name: exclusion, pins to brokers or racks, replication factors."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.errors import ConfigError
from optimizer.setting_checks import check_pattern, refuse


def matches(topic: str, patterns: Sequence[str]) -> bool:
    """Whether one of the regular expressions matches the whole name of a topic."""
    return any(re.fullmatch(pattern, topic) for pattern in patterns)


def is_excluded(topic: str, *, topics: Sequence[str], exclude_topics: Sequence[str]) -> bool:
    """Whether a topic is excluded: it matches one of ``exclude_topics``, or there are ``topics`` and it matches none.

    >>> [is_excluded(name, topics=["a.*"], exclude_topics=["ab"]) for name in ("a", "ab", "b")]
    [False, True, True]
    """
    return bool(topics and not matches(topic, topics)) or matches(topic, exclude_topics)


@dataclass(frozen=True, kw_only=True)
class Pin:
    """Topics that may have replicas on some brokers only, or in some racks only.

    Parameters
    ----------
    topics : str
        Regular expression, whole name.
    brokers : tuple of int
    racks : tuple of str
        Give brokers or racks, not both.
    """

    topics: str = ""
    brokers: tuple[int, ...] = ()
    racks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.topics:
            refuse("pins topics", self.topics, "give a regular expression for the topics' whole names")
        check_pattern("pins topics", self.topics)
        if bool(self.brokers) == bool(self.racks):
            named = "both brokers and racks" if self.brokers else "neither a broker nor a rack"
            remedy = 'give brokers = [17] or racks = ["a"], one of them and not empty'
            raise ConfigError(f"pins: the pin of topics = {self.topics!r} names {named}: {remedy}")


MOST_REPLICAS = 32767  # of a partition: Kafka stores the number as a short


@dataclass(frozen=True, kw_only=True)
class TopicFactor:
    """The replication factor requested for some topics.

    Parameters
    ----------
    topics : str
        Regular expression, whole name.
    factor : int
        Replicas of each partition, at least 1. The default 0 means that none was given, and is refused.
    """

    topics: str = ""
    factor: int = 0

    def __post_init__(self) -> None:
        if not self.topics:
            refuse("replication_factors topics", self.topics, "give a regular expression for the topics' whole names")
        check_pattern("replication_factors topics", self.topics)
        if not 1 <= self.factor <= MOST_REPLICAS:
            remedy = f"give a number of replicas from 1 to {MOST_REPLICAS}"
            refuse(f"the replication factor of {self.topics!r}: factor", self.factor, remedy)
