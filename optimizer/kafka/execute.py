"""``kafka-reassign-partitions --execute``: what it refuses, what it prints, which configs it sets.

References
----------
org.apache.kafka.tools.reassign.ReassignPartitionsCommand (executeAssignment, verifyBrokerIds,
getReplicaAssignmentForPartitions, modifyReassignmentThrottle, modifyLogDirThrottle), Kafka 4.3.1.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from optimizer.errors import KafkaError
from optimizer.kafka.generate import assignment_json, check_topics, describe_order
from optimizer.kafka.java import (
    hash_map_order,
    hash_set_capacity,
    integer_hash,
    topic_partition_hash,
    utf16_key,
)
from optimizer.kafka.partition_state import InFlight
from optimizer.kafka.reassignment_json import (
    Reassignment,
    Replica,
    TopicPartition,
    parse_reassignment,
    partition_name,
    partition_order,
)
from optimizer.kafka.throttle import LOG_DIR_RATE, ConfigEntry, config_entries, tool_throttles

_ALREADY_RUNNING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
_RUN_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)


@dataclass(frozen=True)
class ToolExecution:
    """What the tool does with a document that it accepts.

    Parameters
    ----------
    reassignment : Reassignment
        What it asks the cluster for.
    configs : list of (entity type, entity name, config, value)
    stdout : str
        What it prints.
    """

    reassignment: Reassignment
    configs: list[ConfigEntry]
    stdout: str


def check_execute(
    text: str,
    *,
    live_broker_ids: Collection[int],
    partitions_per_topic: Mapping[str, Collection[int]],
    reassigning: bool = False,
    additional: bool = False,
) -> None:
    """Refuse what ``--execute`` would refuse; the first refusal is the tool's own.

    Parameters
    ----------
    text : str
        The reassignment JSON.
    live_broker_ids : collection of int
        Brokers that the cluster describes; a fenced one is not among them.
    partitions_per_topic : mapping
        Ids of the existing partitions by topic; a ``range`` will do.
    reassigning : bool
        Some partition of the cluster is in flight.
    additional : bool
        Whether ``--additional`` is given.

    Raises
    ------
    KafkaError
        With the class and the message of Kafka.
    """
    plan = parse_reassignment(text)
    if reassigning and not additional:
        raise KafkaError("TerseException", _ALREADY_RUNNING)
    keys = hash_map_order(plan.replicas, topic_partition_hash)
    live = set(live_broker_ids)
    brokers = dict.fromkeys(broker for key in keys for broker in plan.replicas[key])
    unknown = [broker for broker in hash_map_order(brokers, integer_hash) if broker not in live]
    if unknown:
        raise KafkaError("AdminCommandFailedException", f"Unknown broker id {unknown[0]}")
    check_topics(describe_order(topic for topic, _ in keys), partitions_per_topic)
    _check_partitions(keys, partitions_per_topic)


def _check_partitions(keys: Sequence[TopicPartition], partitions_per_topic: Mapping[str, Collection[int]]) -> None:
    if all(partition in partitions_per_topic[topic] for topic, partition in keys):
        return
    ordered = hash_map_order(keys, topic_partition_hash, capacity=hash_set_capacity(len(keys)))
    missing = [key for key in ordered if key[1] not in partitions_per_topic[key[0]]]
    names = ", ".join(map(partition_name, missing))
    raise KafkaError("UnknownTopicOrPartitionException", f"Unable to find partition: {names}")


def execute(
    text: str,
    *,
    live_broker_ids: Collection[int],
    topics: Mapping[str, Sequence[Sequence[int]]],
    in_flight: Mapping[TopicPartition, InFlight] | None = None,
    additional: bool = False,
    throttle_bytes_per_s: int = -1,
    log_dir_throttle_bytes_per_s: int = -1,
    log_dirs: Mapping[Replica, str] | None = None,
) -> ToolExecution:
    """Configs and output of ``--execute``.

    Parameters
    ----------
    topics : mapping
        Current replicas, partition by partition from 0, by topic.
    throttle_bytes_per_s, log_dir_throttle_bytes_per_s : int
        Negative: none. 0 is taken, and does not stop the move.
    log_dirs : mapping, optional
        Current directory by (topic, partition, broker), for the rollback JSON.

    Raises
    ------
    KafkaError
        As ``check_execute``.
    """
    counts = {topic: range(len(lists)) for topic, lists in topics.items()}
    check_execute(
        text,
        live_broker_ids=live_broker_ids,
        partitions_per_topic=counts,
        reassigning=bool(in_flight),
        additional=additional,
    )
    plan = parse_reassignment(text)
    current = {key: topics[key[0]][key[1]] for key in plan.replicas}
    configs: list[ConfigEntry] = []
    if throttle_bytes_per_s >= 0:
        throttles = tool_throttles(plan.replicas, current, in_flight=in_flight)
        configs += config_entries(throttles, throttle_bytes_per_s, throttle_bytes_per_s)
    if log_dir_throttle_bytes_per_s >= 0:
        brokers = sorted({broker for _, _, broker in plan.log_dirs})
        configs += [("brokers", str(b), LOG_DIR_RATE, str(log_dir_throttle_bytes_per_s)) for b in brokers]
    lines = [
        f"Current partition replica assignment\n\n{assignment_json(current, log_dirs or {})}",
        "\nSave this to use as the --reassignment-json-file option during rollback",
        *_throttle_lines(throttle_bytes_per_s, log_dir_throttle_bytes_per_s),
        *_started_lines(plan),
    ]
    return ToolExecution(plan, configs, "".join(f"{line}\n" for line in lines))


def _throttle_lines(throttle: int, log_dir_throttle: int) -> Iterable[str]:
    if throttle >= 0 or log_dir_throttle >= 0:
        yield _RUN_VERIFY
    if throttle >= 0:
        yield f"The inter-broker throttle limit was set to {throttle} B/s"
    if log_dir_throttle >= 0:
        yield f"The replica-alter-dir throttle limit was set to {log_dir_throttle} B/s"


def _started_lines(plan: Reassignment) -> Iterable[str]:
    names = ",".join(map(partition_name, sorted(plan.replicas, key=partition_order)))
    yield f"Successfully started partition reassignment{'' if len(plan.replicas) == 1 else 's'} for {names}"
    for topic, partition, broker in sorted(plan.log_dirs, key=lambda r: (r[2], utf16_key(r[0]), r[1])):
        directory = plan.log_dirs[topic, partition, broker]
        # The blank before the line end is Kafka's.
        yield (
            f"Successfully started moving log directory to {directory} "
            f"for replica {topic}-{partition} with broker {broker} "
        )
