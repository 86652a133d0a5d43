"""Offsets that a plan needs, read from the brokers as records (see sources/record.py).

Of tiered topics: the offsets of the leader. Of partitions with living replicas that are out of sync, and of topics
whose producers do not wait for followers: the end of each of these replicas, then the leader's own. The
``offset_lag`` of log directories can't serve: it compares the end of a replica with the high watermark that the same
replica knows, which is never larger.

References
----------
KIP-405 (earliest-local: ListOffsets 8), KIP-1023 (earliest-pending-upload: ListOffsets 11, Kafka 4.3);
``kafka.server.ReplicaManager.getLogEndOffsetLag`` and ``fetchOffset`` (4.3): only the leader answers a consumer, up to
the high watermark; a request for debugging is answered by every replica, with the end of its log.
"""

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence

from optimizer.topic_policy import matches
from optimizer.units import first_of, plural
from sources.kafka_admin import CLIENT_ERRORS, AskingAdmin
from sources.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, PENDING_UPLOAD, REPLICA_LATEST, TIERED
from sources.record import Record, malformed

with warnings.catch_warnings():
    # The client library calls a deprecated function when it loads its message schemas.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import IncompatibleBrokerVersion, for_code
    from kafka.protocol.consumer import ListOffsetsRequest

# The value of a timestamp that requests these offsets, and the first version of ListOffsets that knows it.
_REQUESTS = {
    EARLIEST: (-2, 1),
    LATEST: (-1, 1),
    REPLICA_LATEST: (-1, 1),
    EARLIEST_LOCAL: (-4, 8),
    PENDING_UPLOAD: (-6, 11),
}
_CONSUMER, _DEBUGGING = -1, -2  # replica ids of ListOffsetsRequest
_PARTITIONS_PER_REQUEST = 5_000
_UNKNOWN = -1


_Wanted = dict[tuple[int, str], list[tuple[str, int]]]  # partitions by broker to ask and kind of offset


def _wanted(topology: Sequence[Record], acks_one: Sequence[str]) -> tuple[_Wanted, _Wanted]:
    """What to ask of replicas, and of leaders."""
    rows = {kind: [r.payload for r in topology if r.kind == kind] for kind in ("broker", "topic", "partition")}
    living = {row["broker_id"] for row in rows["broker"] if not row["fenced"]}
    configs = {row["topic"]: row["configs"].split(",") for row in rows["topic"]}
    tiered = {topic for topic, entries in configs.items() if f"{TIERED}=true" in entries}
    every_replica = {topic for topic in configs if matches(topic, acks_one)}
    of_replicas: _Wanted = defaultdict(list)
    of_leaders: _Wanted = defaultdict(list)
    for row in rows["partition"]:
        topic, leader = row["topic"], row["leader"]
        if leader is None:
            continue
        followers = (living & {*row["replicas"]}) - {leader}
        asked = followers if topic in every_replica else followers - {*row["isr"]}
        for broker in asked:
            of_replicas[broker, REPLICA_LATEST].append((topic, row["partition"]))
        # A consumer's LATEST is the high watermark, and the end of the log may be later.
        times = {EARLIEST, REPLICA_LATEST} if asked else set[str]()
        if topic in tiered:
            times = (times - {EARLIEST}) | {EARLIEST_LOCAL, PENDING_UPLOAD, LATEST}
        for time in times:
            of_leaders[leader, time].append((topic, row["partition"]))
    return of_replicas, of_leaders


def offsets(admin: AskingAdmin, topology: Sequence[Record], acks_one: Sequence[str] = ()) -> Iterator[Record]:
    """Yield the records ``offset`` of partitions that have a leader.

    What leaders do not answer becomes one warning; a replica that does not answer has no record. A broker before Kafka
    4.3 has no earliest-pending-upload: it needs none.

    Parameters
    ----------
    topology : sequence of Record
        Of ``kafka_admin.topology``.
    acks_one : sequence of str
        Regular expressions for whole names of topics: of these also the replicas that are in sync are asked.
    """
    of_replicas, of_leaders = _wanted(topology, acks_one)
    failures = list[str]()
    for asked, failed in ((of_replicas, list[str]()), (of_leaders, failures)):
        for (broker, time), partitions in sorted(asked.items()):
            for start in range(0, len(partitions), _PARTITIONS_PER_REQUEST):
                yield from _offsets(admin, broker, time, partitions[start : start + _PARTITIONS_PER_REQUEST], failed)
    if failures:
        yield malformed(
            line=0,
            expected="offsets of leaders",
            reason=f"{plural(len(failures), 'offset')} can't be read ({first_of(failures)})",
            remedy="start the brokers, or allow DESCRIBE on these topics; until then copies of tiered topics and losses"
            " count as larger",
            text="",
            rule="readable",
            severity="warning",
        )


def _offsets(
    admin: AskingAdmin, broker: int, time: str, partitions: Sequence[tuple[str, int]], failures: list[str]
) -> Iterator[Record]:
    """Records of some partitions that a broker has; adds to ``failures`` what it does not report."""
    timestamp, version = _REQUESTS[time]
    asks_replica = time == REPLICA_LATEST
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                for number in numbers
            ],
        )
        for topic, numbers in by_topic.items()
    ]
    try:
        request = ListOffsetsRequest(
            replica_id=_DEBUGGING if asks_replica else _CONSUMER,
            isolation_level=0,
            topics=topics,
            min_version=version,
        )
        answer = admin.answer_of(broker, request)
    except IncompatibleBrokerVersion:
        return
    except CLIENT_ERRORS as error:
        failures.extend(f"{type(error).__name__} for {topic}-{number}" for topic, number in partitions)
        return
    for topic in answer.topics:
        for row in topic.partitions:
            if row.error_code:
                failures.append(f"{for_code(row.error_code).__name__} for {topic.name}-{row.partition_index}")
                continue
            payload = {
                "topic": topic.name,
                "partition": row.partition_index,
                "time": time,
                "broker_id": broker if asks_replica else None,
                "offset": None if row.offset == _UNKNOWN else row.offset,
            }
            yield Record("offset", 0, payload)
