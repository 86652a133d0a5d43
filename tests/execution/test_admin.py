"""Changes over Kafka's Admin API, with a fake of the client library."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import RequestTimedOutError, for_code

import execution.admin
from execution.admin import MOST_RECORDS, NO_ANSWER, KafkaAdmin, NoController
from execution.observed import Throttle, TopicPartition
from execution.throttles import Setting
from optimizer.errors import InputError
from optimizer.kafka.throttle import FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from sources import kafka_admin
from tests.execution.clock import without_waiting
from tests.execution.test_preflight import BEFORE

SERVERS = ("a:1", "b:2")
OPTIONS = {"bootstrap_servers": ",".join(SERVERS), "sasl_plain_password": "s3cret"}
NOT_NEEDED, NO_REASSIGNMENT, INVALID, NOT_THERE = 84, 85, 39, 9


class Silent(RequestTimedOutError):
    """A broker that does not answer."""


@dataclass
class FakeCluster:
    """A cluster and its connections.

    Parameters
    ----------
    dead : set of str
        Bootstrap servers that refuse a connection.
    hung : set of str
        Bootstrap servers that accept it and answer no request.
    silent : set of str
        Brokers that do not answer.
    codes : mapping
        Error code by partition or by entity; 0 is none.
    """

    dead: set[str] = field(default_factory=set)
    hung: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    codes: dict[Any, Any] = field(default_factory=dict)
    connections: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def connected(self, options: Mapping[str, object]) -> Iterator[Any]:
        """A client of one bootstrap server."""
        server = str(options["bootstrap_servers"])
        self.connections.append(server)
        if server in self.dead:
            raise InputError("no connection")
        try:
            yield Client(self, server)
        finally:
            self.closed.append(server)


@dataclass
class Client:
    """The library's client."""

    cluster: FakeCluster
    server: str

    def _request(self, *content: Any, broker: str = "") -> None:
        self.cluster.requests.append(content)
        if self.server in self.cluster.hung or broker in self.cluster.silent:
            raise Silent

    def describe_cluster(self) -> dict[str, Any]:
        """Kafka's id."""
        self._request()
        return {"cluster_id": "kafka-id"}

    def alter_configs(self, resources: Sequence[Any], *, raise_on_unknown: bool) -> dict[str, dict[str, str]]:
        """``OK``, or the text of an error."""
        assert not raise_on_unknown
        brokers = [resource.name for resource in resources if resource.resource_type.name == "BROKER"]
        content = {resource.name: resource.configs for resource in resources}
        self._request(content, broker=brokers[0] if brokers else "")
        answers: dict[str, dict[str, str]] = {}
        for resource in resources:
            answer = self.cluster.codes.get(resource.name, "OK")
            answers.setdefault(resource.resource_type.name.lower(), {})[resource.name] = answer
        return answers

    def alter_partition_reassignments(self, lists: Mapping[Any, Any]) -> dict[Any, Any]:
        """The class of an error, or None."""
        self._request({tuple(partition): replicas for partition, replicas in lists.items()})
        codes = {partition: self.cluster.codes.get(tuple(partition), 0) for partition in lists}
        return {partition: for_code(code) if code else None for partition, code in codes.items()}

    def elect_leaders(self, kind: int, partitions: Mapping[str, list[int]], *, raise_errors: bool) -> Any:
        """A result with a code and sometimes a text for each partition."""
        assert (kind, raise_errors) == (0, False)
        self._request(partitions)

        def answer(topic: str, number: int) -> Any:
            code, text = self.cluster.codes.get((topic, number), (0, None))
            return SimpleNamespace(partition_id=number, error_code=code, error_message=text)

        results = [
            SimpleNamespace(topic=topic, partition_result=[answer(topic, number) for number in numbers])
            for topic, numbers in partitions.items()
        ]
        return SimpleNamespace(replica_election_results=results)

    def alter_replica_log_dirs(self, wanted: Mapping[Any, str]) -> dict[Any, Any]:
        """The class of an error for each replica that has a code."""
        (broker,) = {broker for _, _, broker in wanted}
        self._request(dict(wanted), broker=str(broker))
        codes = {replica: self.cluster.codes.get(replica, NOT_THERE) for replica in wanted}
        return {replica: for_code(code) for replica, code in codes.items() if code is not None}

    def log_dirs_of(self, broker_id: int) -> list[dict[str, Any]]:
        """The prepared directories."""
        self._request(broker_id, broker=str(broker_id))
        return self.cluster.results

    def configs_at(self, broker_id: int, configs: Mapping[tuple[str, str], Sequence[str]]) -> list[dict[str, Any]]:
        """The prepared results."""
        self._request(broker_id, configs, broker=str(broker_id))
        return self.cluster.results


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster without faults."""
    result = FakeCluster()
    monkeypatch.setattr(kafka_admin, "connected", result.connected)
    return result


PARTITION: TopicPartition = ("t", 0)
LIST: Throttle = ("topics", "t", LEADER_REPLICAS)
CALLS: dict[str, Callable[[KafkaAdmin], Any]] = {
    "alter": lambda admin: admin.alter({LIST: ("SET", "0:1")}),
    "reassign": lambda admin: admin.reassign({PARTITION: (1, 2)}),
    "elect": lambda admin: admin.elect([PARTITION]),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", ["dead", "hung"])
def test_a_dead_bootstrap_server_is_skipped(cluster: FakeCluster, call: str, fault: str) -> None:
    """The call is sent again over the next one, and the next call begins there; connections are closed."""
    setattr(cluster, fault, {"a:1"})
    with KafkaAdmin(OPTIONS) as admin:
        assert CALLS[call](admin) == {}
        assert cluster.connections == ["a:1", "b:2"]
        assert CALLS[call](admin) == {}
        assert cluster.connections == ["a:1", "b:2"]
    assert cluster.closed == (["b:2"] if fault == "dead" else ["a:1", "b:2"])


@pytest.mark.parametrize("call", ["reassign", "elect"])
def test_without_any_answer_a_call_fails(cluster: FakeCluster, call: str) -> None:
    """After each server was tried, the first one twice, and one was asked whether only the controller is away; the
    message has the servers and no secret."""
    cluster.dead = {"a:1", "b:2"}
    with KafkaAdmin(OPTIONS) as admin, pytest.raises(InputError, match=r"^cannot read kafka://a:1,b:2: ") as failed:
        CALLS[call](admin)
    assert cluster.connections == ["a:1", "b:2", "a:1", "b:2"]
    assert "s3cret" not in str(failed.value)


def test_after_a_failed_call_the_next_one_has_a_new_connection(cluster: FakeCluster) -> None:
    """Over the next server; the connections without an answer are closed."""
    cluster.hung = {"a:1", "b:2"}
    with KafkaAdmin(OPTIONS) as admin:
        with pytest.raises(InputError):
            admin.elect([PARTITION])
        assert cluster.closed == ["a:1", "b:2", "a:1", "b:2"]
        cluster.hung = {"a:1"}
        assert admin.elect([PARTITION]) == {}
    assert cluster.connections == ["a:1", "b:2", "a:1", "b:2", "a:1", "b:2"]


def test_throttles_fail_without_any_answer(cluster: FakeCluster) -> None:
    """Without any bootstrap server there is no cluster to change."""
    cluster.dead = {"a:1", "b:2"}
    with KafkaAdmin(OPTIONS) as admin, pytest.raises(InputError):
        admin.alter({LIST: ("SET", "0:1")})


@pytest.mark.parametrize(("failures", "pauses"), [(0, []), (2, [1.0, 2.0]), (5, [1.0, 2.0, 4.0, 4.0, 4.0])])
def test_a_cluster_that_has_just_lost_a_broker_is_read_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, failures: int, pauses: list[float]
) -> None:
    """For fifteen seconds: a dead broker is fenced after nine seconds. Then the error is raised."""
    slept = without_waiting(monkeypatch, execution.admin)
    tries = 3 * failures  # each read tries every server, and the first one twice
    errors = [Silent()] * tries

    def read(client: Any, topics: object) -> Any:
        if errors:
            raise errors.pop()
        return BEFORE

    monkeypatch.setattr(execution.admin, "read", read)
    with KafkaAdmin(OPTIONS) as admin:
        assert admin.observe() == BEFORE
        assert slept == pauses
        errors[:] = [Silent()] * 18
        with pytest.raises(NoController, match="the brokers answer, but the controller does not") as away:
            admin.observe()
        errors[:] = [Silent()] * 18
        cluster.hung = set(SERVERS)
        with pytest.raises(InputError):
            admin.observe()
    assert (errors, away.value.exit_code) == ([], 4)


def test_a_cluster_has_an_id_of_its_own(cluster: FakeCluster) -> None:
    """Kafka gives it when the cluster is made; any broker knows it."""
    cluster.dead = {SERVERS[0]}
    with KafkaAdmin(OPTIONS) as admin:
        assert admin.kafka_cluster_id() == "kafka-id"


def test_topics_are_changed_in_one_request_and_each_broker_in_its_own(cluster: FakeCluster) -> None:
    """A client stops at the first dead broker of a call."""
    changes: dict[Throttle, Setting] = {
        ("brokers", "1", LEADER_RATE): ("SET", "5"),
        ("brokers", "2", LEADER_RATE): ("DELETE", None),
        ("topics", "u", LEADER_REPLICAS): ("SUBTRACT", "0:1"),
        LIST: ("APPEND", "0:1"),
        ("topics", "t", FOLLOWER_REPLICAS): ("SET", "0:2"),
    }
    with KafkaAdmin(OPTIONS) as admin:
        assert admin.alter(changes) == {}
        assert admin.alter({}) == {}
    of_t = {LEADER_REPLICAS: ("APPEND", "0:1"), FOLLOWER_REPLICAS: ("SET", "0:2")}
    assert cluster.requests == [
        ({"t": of_t, "u": {LEADER_REPLICAS: ("SUBTRACT", "0:1")}},),
        ({"1": {LEADER_RATE: ("SET", "5")}},),
        ({"2": {LEADER_RATE: ("DELETE", None)}},),
    ]


def test_a_dead_broker_does_not_stop_the_others(cluster: FakeCluster) -> None:
    """Its rates are named, and a refusal has Kafka's reason for each entry of the entity."""
    cluster.silent = {"1"}
    cluster.codes = {"t": "PolicyViolationError: no", "2": ""}
    keys = [("brokers", broker, LEADER_RATE) for broker in ("1", "2", "3")]
    lists = [("topics", topic, name) for topic in ("t", "u") for name in (LEADER_REPLICAS, FOLLOWER_REPLICAS)]
    with KafkaAdmin(OPTIONS) as admin:
        refused = admin.alter({key: ("SET", "5") for key in (*keys, *lists)})
    assert refused == {
        **dict.fromkeys(keys[:2], NO_ANSWER),
        **dict.fromkeys(lists[:2], "PolicyViolationError: no"),
    }
    assert len(cluster.requests) == 4


def test_large_requests_are_split(cluster: FakeCluster) -> None:
    """The controller refuses more than 10,000 records; the lists of one topic stay together."""
    most, names = MOST_RECORDS, (LEADER_REPLICAS, FOLLOWER_REPLICAS)
    assert most == 10_000
    topics = [f"t{number:05}" for number in range(most // 2 + 1)]
    partitions = [("t", number) for number in range(most + 1)]
    with KafkaAdmin(OPTIONS) as admin:
        assert admin.alter({("topics", topic, name): ("SET", "0:1") for topic in topics for name in names}) == {}
        assert [len(content) for (content,) in cluster.requests] == [most // 2, 1]
        cluster.requests.clear()
        cluster.codes = {partitions[0]: INVALID, partitions[-1]: INVALID}
        refused = dict.fromkeys((partitions[0], partitions[-1]), for_code(INVALID).__name__)
        assert admin.reassign(dict.fromkeys(partitions)) == refused
        assert [len(content) for (content,) in cluster.requests] == [most, 1]
        cluster.requests.clear()
        cluster.codes = {partitions[-1]: (INVALID, None)}
        assert admin.elect(partitions) == {partitions[-1]: for_code(INVALID).__name__}
        assert [len(content["t"]) for (content,) in cluster.requests] == [most, 1]


def test_a_move_is_started_or_cancelled(cluster: FakeCluster) -> None:
    """A cancel of a move that is not there is no refusal; the same answer to a start is one."""
    cluster.codes = {("t", 0): NO_REASSIGNMENT, ("t", 1): NO_REASSIGNMENT, ("t", 2): INVALID}
    with KafkaAdmin(OPTIONS) as admin:
        refused = admin.reassign({("t", 0): None, ("t", 1): (1, 2), ("t", 2): None, ("t", 3): (2,)})
        assert admin.reassign({}) == {}
    assert refused == {("t", 1): for_code(NO_REASSIGNMENT).__name__, ("t", 2): for_code(INVALID).__name__}
    assert cluster.requests == [({("t", 0): None, ("t", 1): (1, 2), ("t", 2): None, ("t", 3): (2,)},)]


def test_a_refused_election_has_a_reason(cluster: FakeCluster) -> None:
    """The text of the broker, or else the name of the error; a replica that leads already is no refusal."""
    cluster.codes = {
        ("t", 0): (NOT_NEEDED, "it leads"),
        ("t", 1): (INVALID, "it is offline"),
        ("u", 0): (INVALID, None),
    }
    with KafkaAdmin(OPTIONS) as admin:
        refused = admin.elect([("u", 0), ("t", 2), ("t", 1), ("t", 0)])
        assert admin.elect([]) == {}
    assert refused == {("t", 1): "it is offline", ("u", 0): for_code(INVALID).__name__}
    assert cluster.requests == [({"t": [0, 1, 2], "u": [0]},)]


def test_directories_are_announced_to_each_broker(cluster: FakeCluster) -> None:
    """One request each: a broker without an answer does not stop the others. A replica that is not there is no refusal.

    A refusal has the name of Kafka's error; a replica that the answer leaves out has no answer.
    """
    cluster.silent = {"1"}
    cluster.codes = {("t", 1, 2): INVALID, ("t", 2, 2): 0, ("t", 3, 2): None}
    wanted = {("t", number, broker): f"/{broker}" for number in (3, 2, 1, 0) for broker in (2, 1)}
    with KafkaAdmin(OPTIONS) as admin:
        refused = admin.announce(wanted)
        assert admin.announce({}) == {}
    of_one = [("t", number, 1) for number in range(4)]
    assert refused == {
        **dict.fromkeys(of_one, NO_ANSWER),
        ("t", 1, 2): for_code(INVALID).__name__,
        ("t", 3, 2): NO_ANSWER,
    }
    assert cluster.requests == [
        (dict.fromkeys(of_one, "/1"),),
        (dict.fromkeys([("t", number, 2) for number in range(4)], "/2"),),
    ]
    assert cluster.connections == ["a:1", "b:2"]


def test_a_broker_reports_where_its_replicas_are(cluster: FakeCluster) -> None:
    """A replica that moves inside its broker is in its old directory, and moves to the new one."""

    def folder(path: str, size: int, *, is_future: bool = False) -> dict[str, Any]:
        replica = {"partition_index": 0, "partition_size": size, "is_future_key": is_future}
        topics = [{"name": "t", "partitions": [replica]}]
        return {"log_dir": path, "error_code": 0, "total_bytes": 100, "usable_bytes": 50, "topics": topics}

    cluster.results = [folder("/new", 7, is_future=True), folder("/old", 9)]
    cluster.silent = {"2"}
    with KafkaAdmin(OPTIONS) as admin:
        stored = admin.stored({1, 2})
    assert stored.size_bytes == {("t", 0, 1): 9}
    assert stored.log_dirs == {("t", 0, 1): "/old"}
    assert stored.moving == {("t", 0, 1): ("/new", 7)}
    assert stored.directories == {(1, "/new"): (100, 50), (1, "/old"): (100, 50)}
    assert stored.usable_bytes == {1: 100}
    assert stored.reporting == {1}


def test_a_broker_shows_throttles_of_topics_and_its_own(cluster: FakeCluster) -> None:
    """Values of its file, defaults and entries without a value are left out; an empty value is a value."""
    own, other = ("brokers", "1", LEADER_RATE), ("brokers", "2", LEADER_RATE)
    keys = [own, other, LIST, ("topics", "t", FOLLOWER_REPLICAS)]
    sources = {"topic": 1, "broker": 2, "default of brokers": 3, "file": 4, "default": 5}

    def config(name: str, value: str | None, source: str) -> dict[str, Any]:
        return {"name": name, "value": value, "config_source": sources[source]}

    cluster.results = [
        {
            "error_code": 0,
            "resource_type": 2,
            "resource_name": "t",
            "configs": [config(LEADER_REPLICAS, "0:1", "topic"), config(FOLLOWER_REPLICAS, "", "topic")],
        },
        {"error_code": 3, "resource_type": 2, "resource_name": "gone", "configs": []},
        {"error_code": 0, "resource_type": 4, "resource_name": "1", "configs": [config(LEADER_RATE, "5", "broker")]},
    ]
    with KafkaAdmin(OPTIONS) as admin:
        assert admin.shown(1, keys) == {own: "5", LIST: "0:1", keys[3]: ""}
        assert cluster.requests == [
            (1, {("brokers", "1"): [LEADER_RATE], ("topics", "t"): [LEADER_REPLICAS, FOLLOWER_REPLICAS]})
        ]
        for value, source in ((None, "topic"), ("5", "default of brokers"), ("5", "file"), ("5", "default")):
            cluster.results[2]["configs"] = [config(LEADER_RATE, value, source)]
            assert own not in (admin.shown(1, keys) or {})


def test_a_broker_that_does_not_answer_shows_nothing(cluster: FakeCluster) -> None:
    """None, and the next call has a new connection. Without keys no broker is asked."""
    cluster.silent = {"1"}
    with KafkaAdmin(OPTIONS) as admin:
        assert admin.shown(1, [("brokers", "2", LEADER_RATE)]) == {}
        assert cluster.connections == []
        assert admin.shown(1, [LIST]) is None
        assert admin.shown(2, [LIST]) == {}
    assert cluster.connections == ["a:1", "b:2"]


def test_clients_have_short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hung broker costs five seconds in each call, not thirty; other options are kept."""
    seen: list[Mapping[str, object]] = []
    cluster = FakeCluster()

    def connected(options: Mapping[str, object]) -> Any:
        seen.append(options)
        return cluster.connected(options)

    monkeypatch.setattr(kafka_admin, "connected", connected)
    with KafkaAdmin(OPTIONS | {"request_timeout_ms": 99}) as admin:
        admin.elect([PARTITION])
    limits = {"request_timeout_ms": 5_000, "bootstrap_timeout_ms": 5_000}
    assert seen == [{**OPTIONS, **limits, "bootstrap_servers": "a:1"}]


def test_an_unreachable_cluster_is_told_once() -> None:
    """With the client's own reason, by the real client library."""
    with KafkaAdmin({"bootstrap_servers": "127.0.0.1:1"}) as admin, pytest.raises(InputError) as failed:
        admin.reassign({("t", 0): (1, 2)})
    assert str(failed.value).count("cannot read kafka://127.0.0.1:1: ") == 1
    assert str(failed.value).count("; check bootstrap_servers") == 1
