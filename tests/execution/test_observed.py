"""The state of a live cluster: alive brokers, silent brokers, throttles."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from execution.observed import Observed, observed, read
from optimizer.kafka.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE
from sources import kafka_admin
from sources.record import Record


def broker(broker_id: int, *, fenced: bool | None) -> Record:
    """The record of a broker."""
    return Record("broker", 0, {"broker_id": broker_id, "fenced": fenced})


def test_throttles_are_read_from_alive_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fenced brokers are skipped; before Kafka 4.0 fencing is unknown, so all are alive. None means no answer."""
    brokers_read = []

    def configs(admin: object, broker_id: int) -> list[Record] | None:
        brokers_read.append(broker_id)
        key = {"entity_type": "brokers", "entity_name": str(broker_id), "name": LEADER_RATE, "is_static": False}
        return {1: [Record("config", 0, {**key, "value": "7"})], 2: None, 3: []}[broker_id]

    brokers = [broker(3, fenced=None), broker(4, fenced=True), broker(2, fenced=None), broker(1, fenced=False)]
    monkeypatch.setattr(kafka_admin, "topology", lambda _: iter(brokers))
    monkeypatch.setattr(kafka_admin, "broker_configs", configs)
    client: Any = None
    now = read(client)
    assert brokers_read == [1, 2, 3]
    assert (now.alive, now.silent) == (frozenset({1, 2, 3}), frozenset({2}))
    assert now.throttles == {("brokers", "1", LEADER_RATE): "7"}


def test_a_cluster_is_read_from_its_records() -> None:
    """Fenced brokers are not alive; static throttles do not count, static cordons do; targets lack removed replicas."""
    config = {"entity_type": "brokers", "entity_name": "1", "value": "7"}
    cordon = {"entity_type": "brokers", "name": "cordoned.log.dirs", "is_static": False}
    partition = {"topic": "t", "partition": 0}
    now = observed(
        [
            Record("broker", 0, {"broker_id": 1, "fenced": False, "rack": "a"}),
            broker(2, fenced=True),
            broker(3, fenced=None),
            Record("topic", 0, {"topic": "t", "topic_id": "id", "configs": "a=1,min.insync.replicas=2"}),
            Record("partition", 0, {**partition, "replicas": [2, 1], "isr": [1], "leader": 1}),
            Record("reassignment", 0, {**partition, "replicas": [2, 1], "adding": [2], "removing": [1]}),
            Record("config", 0, {**config, "name": "leader.replication.throttled.rate", "is_static": False}),
            Record("config", 0, {**config, "name": "follower.replication.throttled.rate", "is_static": True}),
            Record("config", 0, {**config, "name": "retention.ms", "is_static": False}),
            Record("config", 0, {**config, "name": "cordoned.log.dirs", "value": "*", "is_static": True}),
            Record("config", 0, {**cordon, "entity_name": "3", "value": ""}),
        ],
        silent=frozenset({4}),
    )
    assert now == Observed(
        alive=frozenset({1, 3}),
        silent=frozenset({4}),
        topic_ids={"t": "id"},
        replicas={("t", 0): (2, 1)},
        in_sync={("t", 0): frozenset({1})},
        leaders={("t", 0): 1},
        in_flight={("t", 0): (2,)},
        throttles={("brokers", "1", "leader.replication.throttled.rate"): "7"},
        min_isr={"t": 2},
        adding={("t", 0): frozenset({2})},
        cordoned={1: "*"},
        racks={1: "a", 3: None},
        fenced=frozenset({2}),
    )


class Watching:
    """A client of whose brokers the second refuses; the first does not tell the configs of topics."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, list[tuple[str, str]]]] = []

    def configs_at(self, broker_id: int, configs: Mapping[tuple[str, str], Sequence[str]]) -> list[dict[str, Any]]:
        """The answer of a broker: dynamic values, and a rate of its own file."""
        self.asked.append((broker_id, list(configs)))
        (kind, name), names = next(iter(configs.items()))
        if kind == "topics":
            lists = [{"name": names[1], "value": "0:3", "config_source": 1}]
            return [
                {"error_code": 0 if broker_id == 3 else 29, "resource_type": 2, "resource_name": name, "configs": lists}
            ]
        rates = [
            {"name": LEADER_RATE, "value": "7", "config_source": 2},
            {"name": FOLLOWER_RATE, "value": "8", "config_source": 4},
        ]
        answer = {"error_code": 29 if broker_id == 2 else 0, "resource_type": 4, "resource_name": name}
        return [{**answer, "configs": rates if broker_id == 1 else []}]


def test_a_look_at_a_wave_asks_for_its_throttles_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that refuses is silent; a rate of a broker's own file is not the wave's; any broker tells the lists."""
    admin: Any = Watching()
    topics = [Record("topic", 0, {"topic": name, "topic_id": None}) for name in ("t", "other")]
    brokers = [*topics, *(broker(number, fenced=False) for number in (1, 2, 3))]
    monkeypatch.setattr(kafka_admin, "topology", lambda _, configs_of: iter(brokers) if configs_of == () else None)
    now = read(admin, {"t", "gone"})
    lists = {("topics", "t", FOLLOWER_REPLICAS): "0:3"}
    assert (now.throttles, now.silent) == ({("brokers", "1", LEADER_RATE): "7", **lists}, frozenset({2}))
    rates = [(number, [("brokers", str(number))]) for number in (1, 2, 3)]
    assert admin.asked == [*rates, (1, [("topics", "t")]), (3, [("topics", "t")])]
