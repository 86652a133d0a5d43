"""The checks of ``kafka-reassign-partitions --execute``.

References
----------
org.apache.kafka.tools.reassign.ReassignPartitionsCommand (executeAssignment, verifyBrokerIds,
getReplicaAssignmentForPartitions, alterReplicaLogDirs), org.apache.kafka.common.protocol.Errors, Kafka 4.3.1.
"""

from collections.abc import Collection, Mapping, Sequence

from optimizer.errors import KafkaError
from optimizer.kafka.generate import check_topics, describe_order
from optimizer.kafka.java import (
    hash_map_order,
    hash_set_capacity,
    integer_hash,
    topic_partition_hash,
)
from optimizer.kafka.reassignment_json import (
    Replica,
    TopicPartition,
    parse_reassignment,
    partition_name,
)


def check_execute(
    text: str,
    *,
    live_broker_ids: Collection[int],
    partitions_per_topic: Mapping[str, Collection[int]],
) -> None:
    """Raise the first error that ``--execute`` would raise.

    Parameters
    ----------
    text : str
        The reassignment JSON.
    live_broker_ids : collection of int
        Brokers that the cluster describes; fenced brokers are not included.
    partitions_per_topic : mapping
        Ids of the existing partitions by topic, for example a ``range``.

    Raises
    ------
    KafkaError
        With Kafka's exception class and message.
    """
    plan = parse_reassignment(text)
    keys = hash_map_order(plan.replicas, topic_partition_hash)
    live = set(live_broker_ids)
    brokers = dict.fromkeys(broker for key in keys for broker in plan.replicas[key])
    unknown = [broker for broker in hash_map_order(brokers, integer_hash) if broker not in live]
    if unknown:
        raise KafkaError("AdminCommandFailedException", f"Unknown broker id {unknown[0]}")
    check_topics(describe_order(topic for topic, _ in keys), partitions_per_topic)
    _check_partitions(keys, partitions_per_topic)


def log_dir_not_found(replica: Replica) -> KafkaError:
    """How ``--execute`` ends for a directory that the broker does not have; reassignments have started by then."""
    cause = "LogDirNotFoundException: The user-specified log directory is not found in the broker config."
    return KafkaError(
        "AdminCommandFailedException", f"Failed to alter dir for {partition_name(replica[:2])}-{replica[2]}: {cause}"
    )


def _check_partitions(keys: Sequence[TopicPartition], partitions_per_topic: Mapping[str, Collection[int]]) -> None:
    if all(partition in partitions_per_topic[topic] for topic, partition in keys):
        return
    ordered = hash_map_order(keys, topic_partition_hash, capacity=hash_set_capacity(len(keys)))
    missing = [key for key in ordered if key[1] not in partitions_per_topic[key[0]]]
    names = ", ".join(map(partition_name, missing))
    raise KafkaError("UnknownTopicOrPartitionException", f"Unable to find partition: {names}")
