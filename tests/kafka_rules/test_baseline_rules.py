"""Kafka's default for one topic."""

import pytest

from optimizer.errors import ConfigError
from optimizer.kafka.broker import Broker
from optimizer.kafka.default_assignment import default_placer, place_or_refuse, place_topic, topic_seed
from optimizer.kafka.generate import PARTIAL_RACKS, replication_factor_source
from optimizer.kafka.versions import default_algorithm, tools_needed

SIX = [Broker(i, f"r{i % 3}") for i in range(6)]


@pytest.mark.parametrize(
    ("version", "algorithm"),
    [
        ("", "striped"),
        ("4.3", "striped"),
        ("4.1.0", "striped"),
        ("4.10", "striped"),
        ("5", "striped"),
        ("4", "admin_utils"),
        ("4.0.2", "admin_utils"),
        ("3.9.1-SNAPSHOT", "admin_utils"),
        ("2.8-IV1", "admin_utils"),
        ("0.10.2", "admin_utils"),
    ],
)
def test_algorithm_of_a_version(version: str, algorithm: str) -> None:
    """Kafka 4.1 and later, and an unknown version, use the striped placer; older versions use AdminUtils."""
    assert default_algorithm(version) == algorithm


@pytest.mark.parametrize("version", ["new", "v4.1", "4x", "4.1beta", "0", "0.7.2"])
def test_nonsense_versions_are_refused(version: str) -> None:
    """A text that is not a version is refused with an example."""
    with pytest.raises(ConfigError, match=r"give for example 4\.3"):
        default_algorithm(version)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("", ""),
        ("4.3", ""),
        ("2.6", ""),
        ("2.5.1", "the tools of 2.5.1 can't execute this plan: use the tools of 2.6 to 3.9"),
        ("2.4", "the tools of 2.4 can't execute this plan"),
        ("1.1", "brokers of 1.1 can't execute this plan: they do not support"),
    ],
)
def test_what_old_releases_cannot_do_is_told(version: str, expected: str) -> None:
    """Tools before 2.6 lack the options of the runbook; brokers before 2.4 lack requests of newer tools."""
    assert tools_needed(version).startswith(expected)
    assert bool(tools_needed(version)) == bool(expected)


def test_seeds_differ_by_topic_cluster_and_setting() -> None:
    """Each topic of each cluster has its own random numbers, the same in each run."""
    seeds = {topic_seed(s, c, t) for s in (0, 1) for c in ("a", "b") for t in ("t", "u")}
    assert len(seeds) == 8
    assert topic_seed(0, "a", "t") == 1694599755955963161


@pytest.mark.parametrize("algorithm", ["striped", "admin_utils"])
def test_gaps_and_mixed_replication_factors(algorithm: str) -> None:
    """Ids with gaps keep their own lists; mixed factors become that of the first partition in hash order."""
    placer = default_placer(algorithm, SIX)
    whole = place_topic(placer, "a", dict.fromkeys(range(6), 2), 1)
    assert place_topic(placer, "a", {5: 2, 2: 2}, 1) == {5: whole[5], 2: whole[2]}
    source = replication_factor_source("a", range(6))
    mixed = {p: 3 if p == source else 1 for p in range(6)}
    assert {len(replicas) for replicas in place_topic(placer, "a", mixed, 1).values()} == {3}


@pytest.mark.parametrize(
    ("algorithm", "brokers", "factor", "message"),
    [
        ("striped", [Broker(0, "a"), Broker(1)], 1, PARTIAL_RACKS),
        ("admin_utils", [Broker(0, "a"), Broker(1)], 1, PARTIAL_RACKS),
        ("admin_utils", [Broker(0)], 2, "Replication factor: 2 larger than available brokers: 1."),
        ("striped", [], 2, "All brokers are currently fenced, or have all their log directories cordoned."),
    ],
)
def test_a_refusal_is_a_result(algorithm: str, brokers: list[Broker], factor: int, message: str) -> None:
    """If Kafka refuses a topic, each partition has an empty list with the message."""
    refused = place_or_refuse(default_placer(algorithm, brokers), "t", {0: factor, 4: factor}, 1)
    assert refused == ({0: [], 4: []}, message)
