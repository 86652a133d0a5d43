"""Changes a live cluster over Kafka's Admin API. Each call returns what Kafka refused, and why.

Every call may be repeated: the same value, list or election again changes nothing. So a call that gets no answer is
sent again over the next bootstrap server. A broker that hangs may still apply a change when it wakes up: callers look
again after a change instead of trusting its answer.
"""

import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar

from execution.observed import (
    PAUSE_SECONDS,
    REQUEST_MS,
    Observed,
    Replica,
    Stored,
    Throttle,
    TopicPartition,
    read,
    servers_of,
)
from execution.throttles import Setting
from optimizer.errors import BallastError, ConfigError, InputError
from sources import kafka_admin
from sources.kafka_admin import RESOURCES

with warnings.catch_warnings():
    # The client library calls a deprecated function when it loads its message schemas.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import TopicPartition as Partition
    from kafka.admin import ConfigResource
    from kafka.errors import (
        IncompatibleBrokerVersion,
        KafkaConnectionError,
        KafkaTimeoutError,
        NotControllerError,
        RequestTimedOutError,
        for_code,
    )

MOST_RECORDS = 10_000  # of a request: the controller refuses more ("excessively large batch")
_PREFERRED = 0  # kind of an election
_NOT_ALLOWED = 29  # TOPIC_AUTHORIZATION_FAILED
_TOO_MANY_REPLICAS = 38  # INVALID_REPLICATION_FACTOR
_NO_TOPIC = "ballast-is-this-broker-cordoned"  # a name that is never created
_NOT_THERE = 9  # REPLICA_NOT_AVAILABLE: the broker has no such replica yet, and remembers its directory
_NOT_NEEDED = 84  # ELECTION_NOT_NEEDED: the preferred replica leads already
_NO_REASSIGNMENT = 85  # NO_REASSIGNMENT_IN_PROGRESS: a cancelled or ended move is cancelled again
NO_ANSWER = "the broker does not answer"
# Errors of the client without an answer of the controller; others, such as a missing right, say what they are.
_UNREACHED = (OSError, KafkaTimeoutError, RequestTimedOutError, NotControllerError, KafkaConnectionError)

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Rights:
    """Operations that the authorizer allows to the user, by their names in Kafka; all of them without an authorizer."""

    cluster: frozenset[str]
    topics: Mapping[str, frozenset[str]]


class NoController(BallastError):
    """Brokers answer, but the controller does not: copies go on under their throttles, and nothing can be changed."""

    exit_code = 4

    def __init__(self, cause: str) -> None:
        super().__init__(
            "the brokers answer, but the controller does not: copies that run go on under their throttles, and nothing "
            f"can be read about them or changed until it is back ({cause})"
        )


class Admin(Protocol):
    """What steps need of a cluster."""

    def kafka_cluster_id(self) -> str | None:
        """Kafka's own id of the cluster."""

    def rights(self, topics: Collection[str]) -> Rights:
        """What the user may do with the cluster and with these topics, as far as the brokers say it."""

    def metadata_level(self) -> int:
        """The level of metadata.version; 0 without KRaft."""

    def lacks_brokers(self, count: int) -> bool:
        """Whether the controller would refuse a topic with so many replicas, for lack of brokers. Creates nothing."""

    def create(self, topic: str, first: int, replicas: Sequence[Sequence[int]], *, validate_only: bool) -> str:
        """Create a topic, or from partition ``first`` on more partitions. Returns the reason of a refusal."""

    def controllers(self) -> str:
        """The addresses of the controllers, as Kafka's tools take them."""

    def observe(self, topics: Collection[str] | None = None) -> Observed:
        """The state of the cluster; with ``topics`` only the throttles of these topics."""

    def stored(self, brokers: Collection[int]) -> Stored:
        """What the directories of these brokers have, as far as they answer."""

    def shown(self, broker_id: int, keys: Collection[Throttle]) -> Mapping[Throttle, str] | None:
        """Throttles that a broker knows: of topics, and its own rates. None if it does not answer.

        Entries without a value are left out, and so are rates of other brokers.
        """

    def alter(self, changes: Mapping[Throttle, Setting]) -> dict[Throttle, str]:
        """Change throttles: one request for all topics, one for each broker. Returns the reason of each refusal."""

    def reassign(self, lists: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, str]:
        """Start moves to these replicas, or cancel a move (None). Returns the reason of each refusal."""

    def announce(self, log_dirs: Mapping[Replica, str]) -> dict[Replica, str]:
        """Name the directory of replicas. Returns the reason of each refusal.

        A replica that is not there yet will be created in its directory, unless the broker restarts before. A replica
        that is there moves inside its broker.
        """

    def elect(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Elect preferred leaders. Returns the reason of each refusal."""


def refuse_other_cluster(
    client: Mapping[str, object], found: str | None, own_id: str | None, source: str, cluster_id: str
) -> None:
    """Raise ``ConfigError`` if both of Kafka's ids are known and differ.

    Parameters
    ----------
    client : mapping
        Options of the client.
    found, own_id : str or None
        Kafka's id of the cluster that answers, and of the one that is meant.
    source : str
        What knows the latter; begins "cluster ID" in the message.
    """
    if own_id and found and own_id != found:
        raise ConfigError(
            f"{client['bootstrap_servers']} is Kafka cluster {found}, but {source} cluster {own_id}: give the "
            f"brokers of cluster {cluster_id!r}; if it was built again with this name, give --new-cluster-id"
        )


class KafkaAdmin(AbstractContextManager["KafkaAdmin"]):
    """The Admin API of one cluster; each bootstrap server is tried in turn.

    Parameters
    ----------
    options : mapping
        Options of the client (``sources.kafka_options.client_options``) with ``bootstrap_servers``.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        self._options = options
        self._servers = servers_of(options)
        self._next = 0
        self._connection = ExitStack()
        self._client: Any = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._disconnect()

    def kafka_cluster_id(self) -> str | None:
        """See ``Admin``."""
        found = self._patiently(lambda client: client.describe_cluster().get("cluster_id"))
        return str(found) if found else None

    def rights(self, topics: Collection[str]) -> Rights:
        """See ``Admin``. A topic that may not be described has no rights at all."""

        def ask(client: Any) -> Rights:
            found = client.describe_topics(sorted(topics))
            of_topics = {
                topic["name"]: frozenset(topic.get("authorized_operations") or ())
                for topic in found
                if topic["error_code"] in (0, _NOT_ALLOWED)
            }
            return Rights(frozenset(client.describe_cluster().get("authorized_operations") or ()), of_topics)

        return self._patiently(ask)

    def metadata_level(self) -> int:
        """See ``Admin``."""

        def ask(client: Any) -> Any:
            try:
                return client.describe_features()
            except IncompatibleBrokerVersion:  # before Kafka 2.4
                return {}

        found = self._patiently(ask)
        return int(found.get("metadata.version", {}).get("finalized", (0, 0))[1])

    def lacks_brokers(self, count: int) -> bool:
        """See ``Admin``. Any other refusal, such as a missing right, says nothing."""
        topic = {_NO_TOPIC: {"num_partitions": 1, "replication_factor": count}}

        def ask(client: Any) -> Any:
            return client.create_topics(topic, validate_only=True, raise_errors=False)

        (answer,) = self._controlled(lambda: self._call(ask))["topics"]
        return bool(answer["error_code"] == _TOO_MANY_REPLICAS)

    def create(self, topic: str, first: int, replicas: Sequence[Sequence[int]], *, validate_only: bool) -> str:
        """See ``Admin``."""
        lists = [list(ids) for ids in replicas]

        def ask(client: Any) -> Any:
            options = {"validate_only": validate_only, "raise_errors": False}
            if first:
                more = {topic: {"count": first + len(lists), "assignments": lists}}
                return client.create_partitions(more, **options).to_dict()["results"]
            return client.create_topics({topic: {"assignments": dict(enumerate(lists))}}, **options)["topics"]

        (answer,) = self._controlled(lambda: self._call(ask))
        if not answer["error_code"]:
            return ""
        return str(answer["error_message"] or for_code(answer["error_code"]).__name__)

    def controllers(self) -> str:
        """See ``Admin``. A placeholder if the user may not ask, or Kafka does not tell (before 4.0)."""
        try:
            nodes = self._call(lambda client: client.describe_metadata_quorum())["nodes"]
            listeners = [node["listeners"][0] for node in nodes]
        except (*kafka_admin.CLIENT_ERRORS, InputError, KeyError, IndexError):
            listeners = []
        return ",".join(f"{each['host']}:{each['port']}" for each in listeners) or "CONTROLLER:PORT"

    def observe(self, topics: Collection[str] | None = None) -> Observed:
        """The state of the cluster.

        Raises
        ------
        InputError
            When no bootstrap server answers in any try.
        NoController
            When brokers answer, but the controller does not.
        """
        return self._controlled(lambda: self._patiently(lambda client: read(client, topics)))

    def _controlled(self, action: Callable[[], Answer]) -> Answer:
        """Do something that needs the controller; raises ``NoController`` if only the brokers answer."""
        try:
            return action()
        except kafka_admin.WrongPassword:
            raise
        except InputError as error:
            if not isinstance(error.__context__, _UNREACHED):
                raise
            try:
                self._connected().describe_cluster()
            except kafka_admin.CLIENT_ERRORS:
                self._disconnect()
                raise error from None
            raise NoController(str(error)) from None

    def _patiently(self, action: Callable[[Any], Answer]) -> Answer:
        """Do something with the client; tries again after pauses, because a dead broker is known for nine seconds."""
        for pause in PAUSE_SECONDS:
            try:
                return self._call(action)
            except kafka_admin.WrongPassword:
                raise
            except InputError:
                time.sleep(pause)
        return self._call(action)

    def stored(self, brokers: Collection[int]) -> Stored:
        """See ``Admin``."""
        sizes: dict[Replica, int] = {}
        paths: dict[Replica, str] = {}
        moving: dict[Replica, tuple[str, int]] = {}
        usable: dict[int, int] = {}
        directories: dict[tuple[int, str], tuple[int, int]] = {}
        reporting: set[int] = set()
        failed: set[tuple[int, str]] = set()
        for broker in sorted(brokers):
            try:
                folders = self._any().log_dirs_of(broker)
            except (*kafka_admin.CLIENT_ERRORS, InputError):
                self._disconnect()
                continue
            if folders:
                reporting.add(broker)
            failed |= {(broker, folder["log_dir"]) for folder in folders if folder["error_code"]}
            free = [folder.get("usable_bytes", -1) for folder in folders if not folder["error_code"]]
            if free and min(free) >= 0:
                usable[broker] = sum(free)
                directories |= {
                    (broker, folder["log_dir"]): (folder["total_bytes"], folder["usable_bytes"])
                    for folder in folders
                    if not folder["error_code"]
                }
            for path, key, replica in _replicas(folders, broker):
                if replica["is_future_key"]:
                    moving[key] = path, replica["partition_size"]
                else:
                    sizes[key], paths[key] = replica["partition_size"], path
        return Stored(sizes, usable, directories, paths, moving, frozenset(reporting), frozenset(failed))

    def shown(self, broker_id: int, keys: Collection[Throttle]) -> Mapping[Throttle, str] | None:
        """See ``Admin``."""
        names: dict[tuple[str, str], list[str]] = {}
        for kind, entity, name in keys:
            if kind == "topics" or entity == str(broker_id):
                names.setdefault((kind, entity), []).append(name)
        if not names:
            return {}
        try:
            results = self._any().configs_at(broker_id, names)
        except (*kafka_admin.CLIENT_ERRORS, InputError):
            self._disconnect()
            return None
        return {key: value for key, value in kafka_admin.dynamic_values(results) if value is not None}

    def alter(self, changes: Mapping[Throttle, Setting]) -> dict[Throttle, str]:
        """See ``Admin``."""
        resources: dict[tuple[str, str], dict[str, Setting]] = {}
        for (kind, entity, name), setting in sorted(changes.items()):
            resources.setdefault((kind, entity), {})[name] = setting
        refused: dict[Throttle, str] = {}
        for request in _requests(resources):
            answer = self._alter(request)
            refused |= {
                (*entity, name): reason for entity, reason in answer.items() if reason for name in resources[entity]
            }
        return refused

    def _alter(self, request: Mapping[tuple[str, str], Mapping[str, Setting]]) -> dict[tuple[str, str], str]:
        """Send one request; the reason of a refusal by entity, empty if it was accepted."""
        resources = [ConfigResource(RESOURCES[kind], name, configs=dict(x)) for (kind, name), x in request.items()]

        def send(client: Any) -> Any:
            return client.alter_configs(resources, raise_on_unknown=False)

        only_broker = next(iter(request))[0] == "brokers"
        try:
            answers = send(self._any()) if only_broker else self._controlled(lambda: self._call(send))
        except (*kafka_admin.CLIENT_ERRORS, InputError):
            if not only_broker:
                raise
            self._disconnect()
            return dict.fromkeys(request, NO_ANSWER)
        by_entity = {
            (kind, name): answers.get(RESOURCES[kind].name.lower(), {}).get(name, "") for kind, name in request
        }
        return {entity: "" if answer == "OK" else answer or NO_ANSWER for entity, answer in by_entity.items()}

    def reassign(self, lists: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, str]:
        """See ``Admin``. Cancelling a move that is not there is no refusal."""
        refused = {}
        for part in _parts(sorted(lists)):
            wanted = {Partition(*partition): lists[partition] for partition in part}

            def send(client: Any, wanted: Mapping[Any, Any] = wanted) -> Any:
                return client.alter_partition_reassignments(wanted)

            for partition, error in self._controlled(partial(self._call, send)).items():
                if error is not None and not (lists[tuple(partition)] is None and error.errno == _NO_REASSIGNMENT):
                    refused[tuple(partition)] = error.__name__
        return refused

    def announce(self, log_dirs: Mapping[Replica, str]) -> dict[Replica, str]:
        """See ``Admin``. One request for each broker, because a dead broker stops the others of a call."""
        refused: dict[Replica, str] = {}
        for broker in sorted({broker for _, _, broker in log_dirs}):
            wanted = {replica: path for replica, path in sorted(log_dirs.items()) if replica[2] == broker}
            try:
                answers = self._any().alter_replica_log_dirs(wanted)
            except (*kafka_admin.CLIENT_ERRORS, InputError):
                self._disconnect()
                refused |= dict.fromkeys(wanted, NO_ANSWER)
                continue
            for replica in wanted:
                error = answers.get(replica)
                if error is None or error.errno not in (0, _NOT_THERE):
                    refused[replica] = NO_ANSWER if error is None else error.__name__
        return refused

    def elect(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """See ``Admin``. A preferred replica that leads already is no refusal."""
        refused = {}
        for part in _parts(sorted(partitions)):
            wanted: dict[str, list[int]] = {}  # None or an empty mapping would elect leaders of the whole cluster
            for topic, number in part:
                wanted.setdefault(topic, []).append(number)

            def send(client: Any, wanted: Mapping[str, list[int]] = wanted) -> Any:
                return client.elect_leaders(_PREFERRED, wanted, raise_errors=False)

            for result in self._controlled(partial(self._call, send)).replica_election_results:
                for answer in result.partition_result:
                    if answer.error_code not in (0, _NOT_NEEDED):
                        reason = answer.error_message or for_code(answer.error_code).__name__
                        refused[result.topic, answer.partition_id] = reason
        return refused

    def _call(self, action: Callable[[Any], Answer]) -> Answer:
        """Do something with the client; without an answer again, over the next bootstrap server."""
        for _ in self._servers:
            try:
                return action(self._connected())
            except kafka_admin.CLIENT_ERRORS:
                self._disconnect()
        try:
            return action(self._connected())
        except kafka_admin.CLIENT_ERRORS as error:
            self._disconnect()
            raise InputError(kafka_admin.one_line(error, self._options)) from None

    def _any(self) -> Any:
        """A client for a request to one broker, over the first bootstrap server that answers."""
        return self._call(lambda client: client)

    def _connected(self) -> Any:
        if self._client is None:
            server = self._servers[self._next % len(self._servers)]
            limits = {"request_timeout_ms": REQUEST_MS, "bootstrap_timeout_ms": REQUEST_MS}
            options = {**self._options, **limits, "bootstrap_servers": server}
            try:
                self._client = self._connection.enter_context(kafka_admin.connected(options))
            except kafka_admin.WrongPassword:
                raise
            except InputError as error:
                # The client's own error: its message is made once, with all servers, when no server is left.
                raise (error.__context__ or OSError(str(error))) from None
        return self._client

    def _disconnect(self) -> None:
        """Close the connection; the next one begins with the next server."""
        self._client, connection, self._connection = None, self._connection, ExitStack()
        self._next += 1
        with suppress(InputError):  # the connection broke
            connection.close()


def _replicas(folders: Iterable[Mapping[str, Any]], broker: int) -> Iterator[tuple[str, Replica, Mapping[str, Any]]]:
    """The directory, the key and the fields of each replica that a broker reports."""
    for folder in folders:
        for topic in folder["topics"]:
            for replica in topic["partitions"]:
                yield folder["log_dir"], (topic["name"], replica["partition_index"], broker), replica


def _parts(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    return (partitions[start : start + MOST_RECORDS] for start in range(0, len(partitions), MOST_RECORDS))


def _requests(
    resources: Mapping[tuple[str, str], Mapping[str, Setting]],
) -> Iterator[Mapping[tuple[str, str], Mapping[str, Setting]]]:
    """Topics in as few requests as Kafka accepts, then each broker in a request of its own.

    A client stops at the first dead broker of a call, so no call has two.
    """
    topics = {entity: configs for entity, configs in resources.items() if entity[0] == "topics"}
    yield from _in_parts(topics.items())
    yield from ({entity: configs} for entity, configs in resources.items() if entity[0] == "brokers")


def _in_parts(
    topics: Iterable[tuple[tuple[str, str], Mapping[str, Setting]]],
) -> Iterator[Mapping[tuple[str, str], Mapping[str, Setting]]]:
    part: dict[tuple[str, str], Mapping[str, Setting]] = {}
    records = 0
    for entity, configs in topics:
        if part and records + len(configs) > MOST_RECORDS:
            yield part
            part, records = {}, 0
        part[entity] = configs
        records += len(configs)
    if part:
        yield part
