"""What a live cluster says about itself, over Kafka's Admin API, as the records of sources/record.py.

Sensitive configs have no value in the records, secrets of the connection appear nowhere, and an error of the client
becomes one line.

References
----------
KIP-113 (log directories), KIP-827 (their capacity), KIP-455 (reassignments in flight), KIP-1073 (fenced brokers).
"""

import base64
import logging
import re
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

from optimizer.errors import ConfigError, InputError
from optimizer.units import plural
from sources.kafka_options import read_properties, secrets
from sources.record import Record, malformed

with warnings.catch_warnings():
    # The client reads the schemas of its messages by a deprecated function.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError as KafkaError
    from kafka.errors import for_code
    from kafka.protocol.admin import DescribeLogDirsRequest

REQUEST_MS = 30_000  # milliseconds for one request, and for a first answer: as Kafka's own AdminClient waits
DEFAULT_ENTITY = "<default>"
_ENTITIES_A_REQUEST = 500  # topics or brokers: answers with all their configs stay at some MB
_DYNAMIC = {
    "topics": "DYNAMIC_TOPIC_CONFIG",
    "brokers": "DYNAMIC_BROKER_CONFIG",
    "cluster": "DYNAMIC_DEFAULT_BROKER_CONFIG",
}


# What an operator wrote into a broker's own file and a plan meets: rates of throttles, and directories that are closed.
_STATIC_TOLD = re.compile(r".*throttled\.rate|replica\.alter\.log\.dirs\.io\..*|cordoned\.log\.dirs")


class Admin(Protocol):
    """What is used of the admin client."""

    def describe_cluster(self) -> dict[str, Any]: ...
    def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]: ...
    def describe_configs(self, config_resources: list[Any], *, config_filter: str) -> dict[str, Any]: ...
    def list_partition_reassignments(self) -> dict[Any, dict[str, Any]]: ...
    def log_dirs_of(self, broker_id: int) -> list[dict[str, Any]]: ...


class _Client:
    """The client of the library, with a request that it has no method for."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def log_dirs_of(self, broker_id: int) -> list[dict[str, Any]]:
        """Directories of a broker with all replicas in them, also those of topics that this user may not describe.

        The library's ``describe_log_dirs`` asks for the topics that it sees, and takes a refusal for an empty answer.

        Raises
        ------
        KafkaError
            When the broker refuses: the user needs DESCRIBE on the cluster.
        """
        manager = self._client._manager

        async def ask() -> Any:
            return await manager.send(DescribeLogDirsRequest(topics=None), node_id=broker_id)

        answer = manager.run(ask)
        if answer.error_code:
            raise for_code(answer.error_code)()
        return [found.to_dict() for found in answer.results]


def properties_of(path: str) -> dict[str, str]:
    """The properties of a file; none without a path.

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
        raise ConfigError(f"cannot read client_config {path}: {error.strerror}") from None


@contextmanager
def connected(options: Mapping[str, object]) -> Iterator[Admin]:
    """An admin client that is closed at the end; every error of it becomes one line without secrets.

    Raises
    ------
    InputError
        When the cluster can't be reached or refuses: names the bootstrap servers and what the client said.
    """
    # At level debug the client writes its whole configuration to the log; its warnings repeat what is raised here.
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    try:
        patience = {"request_timeout_ms": REQUEST_MS, "bootstrap_timeout_ms": REQUEST_MS}
        client = KafkaAdminClient(**(patience | dict(options)))
        try:
            yield cast(Admin, _Client(client))
        finally:
            client.close()
    except (KafkaError, OSError, ValueError, AssertionError, ImportError) as error:
        # The chained traceback holds the options.
        raise InputError(_one_line(error, options)) from None


def _one_line(error: Exception, options: Mapping[str, object]) -> str:
    text = " ".join(str(error).split()) or "no further text"
    for secret in secrets(options):
        text = text.replace(secret, "***")
    servers, name = options.get("bootstrap_servers"), type(error).__name__
    said = text if text.startswith(name) else f"{name}: {text}"
    return f"cannot read kafka://{servers}: {said}; check bootstrap_servers, client_config and the network"


def topology(admin: Admin) -> Iterator[Record]:
    """Records of the cluster's id, brokers, topics, partitions, reassignments in flight, and configs of topics."""
    cluster = admin.describe_cluster()
    if cluster.get("cluster_id"):
        yield Record("cluster_id", 0, {"kafka_cluster_id": cluster["cluster_id"]})
    yield from (Record("broker", 0, broker) for broker in _brokers(cluster))
    # Before the topics: a move that ends in between is then still told as one.
    in_flight = {(tp.topic, tp.partition): state for tp, state in admin.list_partition_reassignments().items()}
    topics = sorted(admin.describe_topics(), key=lambda topic: str(topic["name"]))
    names = [str(topic["name"]) for topic in topics]
    configs = _described(admin, ConfigResourceType.TOPIC, names)
    yield from _untold("topic", [name for name in names if not configs.get(name)])
    for topic in topics:
        yield _topic(topic, configs.get(topic["name"], {}))
        for partition in sorted(topic["partitions"], key=lambda p: int(p["partition_index"])):
            yield _partition(topic["name"], partition, in_flight.get((topic["name"], partition["partition_index"])))
    yield from (_reassignment(*place, state) for place, state in sorted(in_flight.items()))
    yield from _configs("topics", configs)


def live_and_fenced(admin: Admin) -> list[dict[str, Any]]:
    """Payloads of the registered brokers, ascending by id."""
    return _brokers(admin.describe_cluster())


def _brokers(cluster: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same, of a description; in KRaft it names any living broker as the controller, so that is not known."""
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


def of_brokers(admin: Admin, broker_ids: Sequence[int], *, defaults: bool) -> Iterator[Record]:
    """Records of log directories, their replicas, and dynamic configs of some brokers.

    A broker that doesn't answer becomes a ``malformed`` record: the others are still read. With ``defaults`` the
    dynamic configs that hold for every broker are told too, as the first broker sees them.
    """
    for position, broker_id in enumerate(broker_ids):
        try:
            yield from _log_dirs(admin, broker_id)
            configs = described_broker(admin, broker_id)
        except KafkaError as error:
            yield malformed(
                line=0,
                expected=f"log directories and configs of broker {broker_id}",
                reason=f"broker {broker_id} did not answer: {type(error).__name__}",
                remedy="start the broker, or allow DESCRIBE and DESCRIBE_CONFIGS on the cluster",
                text=f"broker {broker_id}",
            )
            continue
        yield from _untold("broker", [name for name, found in configs.items() if not found])
        yield from _configs("brokers", configs)
        if defaults and position == 0:
            yield from _configs("cluster", configs)


def described_broker(admin: Admin, broker_id: int) -> dict[str, dict[str, Any]]:
    """All configs of a broker, by its id and the config's name; raises the client's error where it does not answer."""
    return _described(admin, ConfigResourceType.BROKER, [str(broker_id)])


def broker_configs(admin: Admin, broker_id: int) -> list[Record] | None:
    """Records of the dynamic configs of a broker; None where it does not tell any config, not even Kafka's defaults."""
    try:
        found = described_broker(admin, broker_id)
    except KafkaError:
        return None
    return list(_configs("brokers", found)) if any(found.values()) else None


def _topic(topic: Mapping[str, Any], configs: Mapping[str, Any]) -> Record:
    """The configs are those that kafka-topics.sh shows: all that are not Kafka's default."""
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
    """Kafka's own spelling of a UUID: base64url without padding; brokers before 2.8 have none."""
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


def _described(admin: Admin, kind: ConfigResourceType, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """All configs of some entities: by entity, then by name."""
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(names), _ENTITIES_A_REQUEST):
        batch = [ConfigResource(kind, name) for name in names[start : start + _ENTITIES_A_REQUEST]]
        found |= admin.describe_configs(batch, config_filter="all").get(kind.name.lower(), {})
    return found


def _untold(noun: str, names: Sequence[str]) -> Iterator[Record]:
    """Entities of which no config was told, not even Kafka's defaults: the user may not see them."""
    if names:
        told = f"no config of {plural(len(names), noun)} was told ({', '.join(names[:5])})"
        yield malformed(
            line=0,
            expected=f"configs of {noun}s",
            reason=f"{told}: throttles may stand there unseen",
            remedy="allow DESCRIBE_CONFIGS on the cluster and its topics",
            text="",
            rule="readable",
            severity="warning",
        )


def _configs(entity_type: str, described: Mapping[str, Mapping[str, Any]]) -> Iterator[Record]:
    """Dynamic configs of one kind of entity, and of a broker's own file those that a plan meets."""
    for entity, configs in sorted(described.items()):
        for name, config in sorted(configs.items()):
            is_static = config["config_source"] == "STATIC_BROKER_CONFIG"
            of_file = is_static and entity_type == "brokers" and _STATIC_TOLD.fullmatch(name) is not None
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
    for found in sorted(admin.log_dirs_of(broker_id), key=lambda d: str(d["log_dir"])):
        error = for_code(found["error_code"]).__name__ if found["error_code"] else None
        place = {"broker_id": broker_id, "log_dir": found["log_dir"]}
        room = {f"{kind}_bytes": _known(found.get(f"{kind}_bytes")) for kind in ("total", "usable")}
        yield Record("log_dir", 0, {**place, "error": error, **room, "is_cordoned": found.get("is_cordoned")})
        replicas = [(t["name"], p) for t in found["topics"] for p in t["partitions"]]
        for topic, replica in sorted(replicas, key=lambda pair: (pair[0], pair[1]["partition_index"])):
            payload = {
                **place,
                "topic": topic,
                "partition": replica["partition_index"],
                "size_bytes": replica["partition_size"],
                "offset_lag": replica["offset_lag"],
                "is_future": replica["is_future_key"],
            }
            yield Record("log_dir_replica", 0, payload)


def _known(size_bytes: int | None) -> int | None:
    """Brokers before 3.3 don't tell (-1)."""
    return size_bytes if size_bytes is not None and size_bytes >= 0 else None
