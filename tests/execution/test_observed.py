"""The state of a live cluster: alive brokers, silent brokers, throttles."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

import execution.observed
from execution.observed import Observed, observe, observed
from optimizer.errors import InputError
from optimizer.kafka.throttle import LEADER_RATE
from sources import kafka_admin
from sources.record import Record
from tests.execution.clock import without_waiting


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
    monkeypatch.setattr(kafka_admin, "connected", nullcontext)
    monkeypatch.setattr(kafka_admin, "topology", lambda _: iter(brokers))
    monkeypatch.setattr(kafka_admin, "broker_configs", configs)
    now = observe({})
    assert brokers_read == [1, 2, 3]
    assert (now.alive, now.silent) == (frozenset({1, 2, 3}), frozenset({2}))
    assert now.throttles == {("brokers", "1", LEADER_RATE): "7"}


@pytest.mark.parametrize(("failures", "pauses"), [(0, []), (2, [1.0, 2.0]), (5, [1.0, 2.0, 4.0, 4.0, 4.0])])
def test_a_cluster_that_has_just_lost_a_broker_is_read_again(
    monkeypatch: pytest.MonkeyPatch, failures: int, pauses: list[float]
) -> None:
    """For fifteen seconds: a dead broker is fenced after nine seconds. Then the error is raised."""
    errors = [InputError("no")] * failures
    slept = without_waiting(monkeypatch, execution.observed)

    @contextmanager
    def connected(options: object) -> Iterator[None]:
        if errors:
            raise errors.pop()
        yield

    monkeypatch.setattr(kafka_admin, "connected", connected)
    monkeypatch.setattr(kafka_admin, "topology", lambda _: iter([broker(1, fenced=False)]))
    monkeypatch.setattr(kafka_admin, "broker_configs", lambda *_: [])
    assert observe({}).alive == {1}
    assert slept == pauses
    errors[:] = [InputError("no")] * 6
    with pytest.raises(InputError):
        observe({})
    assert errors == []


def test_a_cluster_is_read_from_its_records() -> None:
    """Fenced brokers are not alive; static throttles do not count; targets of moves lack the removed replicas."""
    config = {"entity_type": "brokers", "entity_name": "1", "value": "7"}
    now = observed(
        [
            broker(1, fenced=False),
            broker(2, fenced=True),
            broker(3, fenced=None),
            Record("topic", 0, {"topic": "t", "topic_id": "id"}),
            Record("partition", 0, {"topic": "t", "partition": 0, "replicas": [2, 1], "isr": [1]}),
            Record("reassignment", 0, {"topic": "t", "partition": 0, "replicas": [2, 1], "removing": [1]}),
            Record("config", 0, {**config, "name": "leader.replication.throttled.rate", "is_static": False}),
            Record("config", 0, {**config, "name": "follower.replication.throttled.rate", "is_static": True}),
            Record("config", 0, {**config, "name": "retention.ms", "is_static": False}),
        ],
        silent=frozenset({4}),
    )
    assert now == Observed(
        alive=frozenset({1, 3}),
        silent=frozenset({4}),
        topic_ids={"t": "id"},
        replicas={("t", 0): (2, 1)},
        in_sync={("t", 0): frozenset({1})},
        in_flight={("t", 0): (2,)},
        throttles={("brokers", "1", "leader.replication.throttled.rate"): "7"},
    )
