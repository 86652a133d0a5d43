"""The state of a live cluster, read over Kafka's Admin API, as records (see sources/record.py).

Records contain no values of sensitive configs and no secrets of the connection. An error of the client becomes one
line.

References
----------
KIP-113 (log directories), KIP-827 (their capacity), KIP-455 (reassignments in flight), KIP-1073 (fenced brokers).
"""

import base64
import logging
import re
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

from optimizer.errors import ConfigError, InputError
from optimizer.units import plural
from sources.kafka_options import read_properties, secrets
from sources.record import Record, malformed

with warnings.catch_warnings():
    # The client library calls a deprecated function when it loads its message schemas.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError as KafkaError
    from kafka.errors import for_code
    from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
    from kafka.protocol.admin import DescribeConfigsRequest, DescribeLogDirsRequest

CLIENT_ERRORS = (KafkaError, OSError, ValueError, AssertionError, ImportError)
REQUEST_MS = 30_000  # milliseconds for one request and for the first connection: the default of Kafka's AdminClient
DEFAULT_ENTITY = "<default>"
_ENTITIES_PER_REQUEST = 500  # topics or brokers: keeps a response with all configs at a few MB
RESOURCES = {"topics": ConfigResourceType.TOPIC, "brokers": ConfigResourceType.BROKER}
_DYNAMIC_SOURCES = {"topics": 1, "brokers": 2}  # ConfigSource of the protocol
_KEY = ("entity_type", "entity_name", "name")  # fields of a config record
_UNKNOWN_TOPIC = 3  # UNKNOWN_TOPIC_OR_PARTITION
_DYNAMIC = {
    "topics": "DYNAMIC_TOPIC_CONFIG",
    "brokers": "DYNAMIC_BROKER_CONFIG",
    "cluster": "DYNAMIC_DEFAULT_BROKER_CONFIG",
}

# Configs of a broker's own file that matter to a plan: throttle rates, directories that accept no new replicas, whether
# copies skip what is tiered, and defaults of topics for min.insync.replicas and unclean elections.
_STATIC_CONFIGS = re.compile(
    r".*throttled\.rate|replica\.alter\.log\.dirs\.io\..*|cordoned\.log\.dirs"
    r"|min\.insync\.replicas|unclean\.leader\.election\.enable|follower\.fetch\.last\.tiered\.offset\.enable"
)


class Admin(Protocol):
    """The methods of the admin client that are used here."""

    def describe_cluster(self) -> dict[str, Any]: ...
    def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]: ...
    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]: ...
    def list_partition_reassignments(self) -> dict[Any, dict[str, Any]]: ...
    def log_dirs_of(self, broker_id: int) -> list[dict[str, Any]]: ...


class WatchingAdmin(Admin, Protocol):
    """An admin client that can also ask one broker for single configs."""

    def configs_at(self, broker_id: int, configs: Mapping[tuple[str, str], Sequence[str]]) -> list[dict[str, Any]]: ...


class AskingAdmin(WatchingAdmin, Protocol):
    """An admin client that can also send any request of the library to one broker."""

    def answer_of(self, broker_id: int, request: Any) -> Any: ...


class _Client:
    """The library's client with more requests, and brokers that come back while it is connected."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def describe_cluster(self) -> dict[str, Any]:
        """The brokers of the cluster; all that are not fenced can be asked afterwards.

        The library asks only brokers that its metadata has, which it reads again after five minutes.
        """
        answer: dict[str, Any] = self._client.describe_cluster()
        manager = self._client._manager
        known = {broker.node_id: (broker.host, broker.port) for broker in manager.cluster.brokers()}
        brokers = [broker for broker in answer["brokers"] if not broker.get("is_fenced")]
        if any(known.get(broker["broker_id"]) != (broker["host"], broker["port"]) for broker in brokers):
            manager.run(manager.cluster.refresh_metadata)
        return answer

    def log_dirs_of(self, broker_id: int) -> list[dict[str, Any]]:
        """Directories of a broker with all their replicas, also of topics that this user may not describe.

        The library's ``describe_log_dirs`` requests only the topics that it sees, and returns nothing on an error.

        Raises
        ------
        KafkaError
            When the broker refuses: the user needs DESCRIBE on the cluster.
        """
        answer = self.answer_of(broker_id, DescribeLogDirsRequest(topics=None))
        if answer.error_code:
            raise for_code(answer.error_code)()
        return [result.to_dict() for result in answer.results]

    def configs_at(self, broker_id: int, configs: Mapping[tuple[str, str], Sequence[str]]) -> list[dict[str, Any]]:
        """Configs of topics and of one broker, as this broker knows them; each result has its own error code.

        The library's ``describe_configs`` asks any broker for topics, and drops the errors.

        Parameters
        ----------
        configs : mapping of (entity type, entity) to names of configs
        """
        resources = [(RESOURCES[kind], name, list(names)) for (kind, name), names in configs.items()]
        request = DescribeConfigsRequest(resources=resources, include_synonyms=False, min_version=1)
        return [result.to_dict() for result in self.answer_of(broker_id, request).results]

    def answer_of(self, broker_id: int, request: Any) -> Any:
        """Send a request of the library to one broker; the answer may contain error codes."""
        manager = self._client._manager

        async def send() -> Any:
            return await manager.send(request, node_id=broker_id)

        return manager.run(send)


def properties_of(path: str) -> dict[str, str]:
    """The properties of a file; empty without a path.

    Raises
    ------
    ConfigError
        When it can't be read.
    """
    if not path:
        return {}
    try:
        return read_properties(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read client_config {path}: {error.strerror}; check the path and its permissions"
        ) from None


def _keep_last_bytes(receive: Callable[[Any], tuple[bytes, Exception | None]]) -> Any:
    """A receiver that gives the end of a connection only after its last bytes.

    kafka-python 3.0.12 drops the bytes that arrive together with the end: a broker's refusal of a password is in them.
    """

    def received(transport: Any) -> tuple[bytes, Exception | None]:
        data, error = receive(transport)
        return data, None if data else error

    return received


for _transport in (KafkaTCPTransport, KafkaSSLTransport):
    _transport._sock_recv = _keep_last_bytes(_transport._sock_recv)


class WrongPassword(InputError):
    """The cluster refuses the user's name or password: no other server and no later try helps."""


class _Refusals(logging.Handler):
    """Keeps whether a connection was refused: the library logs this, tries again, and raises only a timeout."""

    is_refused = False

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a warning."""
        self.is_refused |= "AuthenticationFailed" in record.getMessage() + repr(record.args)


@contextmanager
def _noticing_refusals() -> Iterator[_Refusals]:
    """Listen to the warnings of the library's connections; they go nowhere else."""
    logger, handler = logging.getLogger("kafka.net.manager"), _Refusals(logging.WARNING)
    before = logger.level, logger.propagate
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


@contextmanager
def connected(options: Mapping[str, object]) -> Iterator[AskingAdmin]:
    """Open an admin client and close it at the end; its errors become one line without secrets.

    Raises
    ------
    InputError
        When the cluster can't be reached or refuses: with the bootstrap servers and the client's message.
    """
    # At level DEBUG the client logs its configuration with secrets; its warnings repeat the errors raised here.
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    try:
        timeouts = {"request_timeout_ms": REQUEST_MS, "bootstrap_timeout_ms": REQUEST_MS}
        with _noticing_refusals() as refusals:
            try:
                client = KafkaAdminClient(**(timeouts | dict(options)))
            except CLIENT_ERRORS as error:
                if not refusals.is_refused:
                    raise
                servers = options.get("bootstrap_servers")
                refused = "the cluster refuses this user's name or password; check client_config"
                raise WrongPassword(f"cannot read kafka://{servers}: {refused}") from error
        try:
            yield cast(AskingAdmin, _Client(client))
        finally:
            client.close()
    except CLIENT_ERRORS as error:
        # The chained traceback would show the options, which contain secrets.
        raise InputError(one_line(error, options)) from None


def one_line(error: Exception, options: Mapping[str, object]) -> str:
    """An error of the client for a message: the servers, and its text without secrets."""
    text = " ".join(str(error).split()) or "no details"
    for secret in secrets(options):
        text = text.replace(secret, "***")
    text = re.sub(r"\b(\w+Request)(?:_v\d+)?\(.*", r"\1", text)  # the library prints the whole request
    servers, name = options.get("bootstrap_servers"), type(error).__name__
    message = text if text.startswith(name) else f"{name}: {text}"
    is_right = name.endswith("AuthorizationFailedError")
    check = (
        "the rights of the user (docs/rights.md)" if is_right else "bootstrap_servers, client_config and the network"
    )
    return f"cannot read kafka://{servers}: {message}; check {check}"


def topology(admin: Admin, *, configs_of: Collection[str] | None = None) -> Iterator[Record]:
    """Yield records of the cluster's id, brokers, topics, partitions, reassignments and topic configs.

    Parameters
    ----------
    configs_of : collection of str, optional
        Read only the configs of these topics; of all by default.
    """
    cluster = admin.describe_cluster()
    if cluster.get("cluster_id"):
        yield Record("cluster_id", 0, {"kafka_cluster_id": cluster["cluster_id"]})
    yield from (Record("broker", 0, broker) for broker in _brokers(cluster))
    # Read before the topics: a reassignment that ends in between is then still reported.
    in_flight = {(tp.topic, tp.partition): state for tp, state in admin.list_partition_reassignments().items()}
    topics = sorted(admin.describe_topics(), key=lambda topic: str(topic["name"]))
    names = [str(topic["name"]) for topic in topics]
    described = names if configs_of is None else [name for name in names if name in configs_of]
    configs = _describe_configs(admin, ConfigResourceType.TOPIC, described)
    yield from _without_configs("topic", [name for name in described if not configs.get(name)])
    for topic in topics:
        yield _topic(topic, configs.get(topic["name"], {}))
        for partition in sorted(topic["partitions"], key=lambda p: int(p["partition_index"])):
            yield _partition(topic["name"], partition, in_flight.get((topic["name"], partition["partition_index"])))
    yield from (_reassignment(*partition, state) for partition, state in sorted(in_flight.items()))
    yield from _configs("topics", configs)


def registered_brokers(admin: Admin) -> list[dict[str, Any]]:
    """Payloads of all registered brokers, fenced ones included, ascending by id."""
    return _brokers(admin.describe_cluster())


def _brokers(cluster: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Payloads of brokers. The controller stays unknown: in KRaft the response names any live broker."""
    brokers = sorted(cluster["brokers"], key=lambda broker: int(broker["broker_id"]))
    return [
        {
            "broker_id": broker["broker_id"],
            "host": broker["host"],
            "port": broker["port"],
            "rack": broker["rack"] or None,
            "fenced": broker.get("is_fenced"),
            "is_controller": None,
        }
        for broker in brokers
    ]


def describe_brokers(admin: Admin, broker_ids: Sequence[int], *, defaults: bool) -> Iterator[Record]:
    """Yield records of log directories, their replicas, and dynamic configs of some brokers.

    A broker that does not answer becomes a ``malformed`` record; the rest are still read. With ``defaults`` the
    cluster-wide dynamic configs are included, as the first broker reports them.
    """
    for position, broker_id in enumerate(broker_ids):
        try:
            yield from _log_dirs(admin, broker_id)
            configs = describe_broker_configs(admin, broker_id)
        except KafkaError as error:
            yield malformed(
                line=0,
                expected=f"log directories and configs of broker {broker_id}",
                reason=f"broker {broker_id} did not answer: {type(error).__name__}",
                remedy="start the broker, or allow DESCRIBE and DESCRIBE_CONFIGS on the cluster",
                text=f"broker {broker_id}",
            )
            continue
        yield from _without_configs("broker", [name for name, values in configs.items() if not values])
        yield from _configs("brokers", configs)
        if defaults and position == 0:
            yield from _configs("cluster", configs)


def describe_broker_configs(admin: Admin, broker_id: int) -> dict[str, dict[str, Any]]:
    """All configs of a broker, by its id and the config's name; raises the client's error if it does not answer."""
    return _describe_configs(admin, ConfigResourceType.BROKER, [str(broker_id)])


def broker_configs(admin: Admin, broker_id: int) -> list[Record] | None:
    """Records of a broker's dynamic configs; None if it returns no configs at all, not even Kafka's defaults."""
    try:
        configs = describe_broker_configs(admin, broker_id)
    except KafkaError:
        return None
    return list(_configs("brokers", configs)) if any(configs.values()) else None


def dynamic_configs(
    admin: WatchingAdmin, broker_id: int, names: Mapping[tuple[str, str], Sequence[str]]
) -> list[Record] | None:
    """Records of some dynamic configs, as one broker knows them: a small request. Unknown topics have none.

    Parameters
    ----------
    names : mapping of (entity type, entity) to names of configs
        Of topics, and of this broker.

    Returns
    -------
    list of Record or None
        None if the broker does not answer, or refuses.
    """
    try:
        results = admin.configs_at(broker_id, names) if names else []
    except KafkaError:
        return None
    if any(result["error_code"] not in (0, _UNKNOWN_TOPIC) for result in results):
        return None
    return [
        Record(
            "config",
            0,
            {**dict(zip(_KEY, key, strict=True)), "value": value, "sensitive": False, "is_static": False},
        )
        for key, value in dynamic_values(results)
    ]


def dynamic_values(results: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str, str], str | None]]:
    """Yield entity type, entity and config with the value, for each dynamic config in answers of ``configs_at``."""
    kinds = {kind.value: name for name, kind in RESOURCES.items()}
    for result in results:
        kind = kinds[result["resource_type"]]
        for config in result["configs"]:
            if config["config_source"] == _DYNAMIC_SOURCES[kind]:
                yield (kind, result["resource_name"], config["name"]), config["value"]


def _topic(topic: Mapping[str, Any], configs: Mapping[str, Any]) -> Record:
    """The record of a topic, with the configs that kafka-topics.sh shows: all that are not Kafka's default."""
    partitions = topic["partitions"]
    shown = [f"{name}={c['value']}" for name, c in sorted(configs.items()) if c["config_source"] != "DEFAULT_CONFIG"]
    payload = {
        "topic": topic["name"],
        "topic_id": _topic_id(topic.get("topic_id")),
        "partition_count": len(partitions),
        "replication_factor": len(partitions[0]["replica_nodes"]) if partitions else None,
        "configs": ",".join(shown),
        "marked_for_deletion": False,
    }
    return Record("topic", 0, payload)


def _topic_id(value: object) -> str | None:
    """Kafka's spelling of a UUID: base64url without padding. None before Kafka 2.8."""
    number = uuid.UUID(str(value)) if value else uuid.UUID(int=0)
    return base64.urlsafe_b64encode(number.bytes).decode().rstrip("=") if number.int else None


def _partition(topic: str, partition: Mapping[str, Any], in_flight: Mapping[str, Any] | None) -> Record:
    leader = partition["leader_id"]
    payload = {
        "topic": topic,
        "partition": partition["partition_index"],
        "leader": leader if leader >= 0 else None,
        "replicas": list(partition["replica_nodes"]),
        "isr": list(partition["isr_nodes"]),
        "adding": sorted(in_flight["adding_replicas"]) if in_flight else [],
        "removing": sorted(in_flight["removing_replicas"]) if in_flight else [],
        "offline": list(partition.get("offline_replicas") or []),
        "elr": None,
        "last_known_elr": None,
        "observers": None,
    }
    return Record("partition", 0, payload)


def _reassignment(topic: str, partition: int, state: Mapping[str, Any]) -> Record:
    payload = {
        "topic": topic,
        "partition": partition,
        "replicas": list(state["replicas"]),
        "adding": sorted(state["adding_replicas"]),
        "removing": sorted(state["removing_replicas"]),
    }
    return Record("reassignment", 0, payload)


def _describe_configs(admin: Admin, kind: ConfigResourceType, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """All configs of some entities: by entity, then by name."""
    configs: dict[str, dict[str, Any]] = {}
    for start in range(0, len(names), _ENTITIES_PER_REQUEST):
        batch = [ConfigResource(kind, name) for name in names[start : start + _ENTITIES_PER_REQUEST]]
        configs |= admin.describe_configs(batch, config_filter="all").get(kind.name.lower(), {})
    return configs


def _without_configs(noun: str, names: Sequence[str]) -> Iterator[Record]:
    """One warning for entities without any config, not even Kafka's defaults: the user lacks a permission."""
    if names:
        entities = f"{plural(len(names), noun)} ({', '.join(names[:5])})"
        yield malformed(
            line=0,
            expected=f"configs of {noun}s",
            reason=f"no configs were returned for {entities}: throttles may be set there and not be seen",
            remedy="allow DESCRIBE_CONFIGS on the cluster and its topics",
            text="",
            rule="readable",
            severity="warning",
        )


def _configs(entity_type: str, described: Mapping[str, Mapping[str, Any]]) -> Iterator[Record]:
    """Dynamic configs of one type of entity, and those of a broker's own file that matter to a plan."""
    for entity, configs in sorted(described.items()):
        for name, config in sorted(configs.items()):
            is_static = config["config_source"] == "STATIC_BROKER_CONFIG"
            of_file = is_static and entity_type == "brokers" and _STATIC_CONFIGS.fullmatch(name) is not None
            if of_file or config["config_source"] == _DYNAMIC[entity_type]:
                sensitive = bool(config["is_sensitive"])
                payload = {
                    "entity_type": entity_type,
                    "entity_name": DEFAULT_ENTITY if entity_type == "cluster" else entity,
                    "name": name,
                    "value": None if sensitive else config["value"],
                    "sensitive": sensitive,
                    "is_static": is_static,
                }
                yield Record("config", 0, payload)


def _log_dirs(admin: Admin, broker_id: int) -> Iterator[Record]:
    for log_dir in sorted(admin.log_dirs_of(broker_id), key=lambda d: str(d["log_dir"])):
        error = for_code(log_dir["error_code"]).__name__ if log_dir["error_code"] else None
        location = {"broker_id": broker_id, "log_dir": log_dir["log_dir"]}
        capacity = {f"{kind}_bytes": _known(log_dir.get(f"{kind}_bytes")) for kind in ("total", "usable")}
        yield Record("log_dir", 0, {**location, "error": error, **capacity, "is_cordoned": log_dir.get("is_cordoned")})
        replicas = [(t["name"], p) for t in log_dir["topics"] for p in t["partitions"]]
        for topic, replica in sorted(replicas, key=lambda pair: (pair[0], pair[1]["partition_index"])):
            payload = {
                **location,
                "topic": topic,
                "partition": replica["partition_index"],
                "size_bytes": replica["partition_size"],
                "offset_lag": replica["offset_lag"],
                "is_future": replica["is_future_key"],
            }
            yield Record("log_dir_replica", 0, payload)


def _known(size_bytes: int | None) -> int | None:
    """The size; None for -1, which brokers before 3.3 report."""
    return size_bytes if size_bytes is not None and size_bytes >= 0 else None
