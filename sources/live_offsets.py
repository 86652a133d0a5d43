"""Offsets of the partitions of tiered topics, read from their leaders, as records (see sources/record.py).

References
----------
KIP-405 (earliest-local: ListOffsets 8), KIP-1023 (earliest-pending-upload: ListOffsets 11, Kafka 4.3).
"""

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence

from optimizer.units import first_of, plural
from sources.kafka_admin import CLIENT_ERRORS, AskingAdmin
from sources.offsets import EARLIEST_LOCAL, LATEST, PENDING_UPLOAD, TIERED
from sources.record import Record, malformed

with warnings.catch_warnings():
    # The client library calls a deprecated function when it loads its message schemas.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import IncompatibleBrokerVersion, for_code
    from kafka.protocol.consumer import ListOffsetsRequest

# The value of a timestamp that requests these offsets, and the first version of ListOffsets that knows it.
_REQUESTS = {LATEST: (-1, 1), EARLIEST_LOCAL: (-4, 8), PENDING_UPLOAD: (-6, 11)}
_PARTITIONS_PER_REQUEST = 5_000
_UNKNOWN = -1


def tiered_offsets(admin: AskingAdmin, topology: Sequence[Record]) -> Iterator[Record]:
    """Yield the records ``offset`` of all partitions of tiered topics that have a leader.

    What can't be read becomes one warning. A broker before Kafka 4.3 has no earliest-pending-upload: it needs none.

    Parameters
    ----------
    topology : sequence of Record
        Of ``kafka_admin.topology``.
    """
    tiered = {
        record.payload["topic"]
        for record in topology
        if record.kind == "topic" and f"{TIERED}=true" in record.payload["configs"].split(",")
    }
    led: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for record in topology:
        row = record.payload
        if record.kind == "partition" and row["topic"] in tiered and row["leader"] is not None:
            led[row["leader"]].append((row["topic"], row["partition"]))
    failures: list[str] = []
    for broker, partitions in sorted(led.items()):
        for time in _REQUESTS:
            for start in range(0, len(partitions), _PARTITIONS_PER_REQUEST):
                yield from _offsets(admin, broker, time, partitions[start : start + _PARTITIONS_PER_REQUEST], failures)
    if failures:
        yield malformed(
            line=0,
            expected="offsets of tiered topics",
            reason=f"{plural(len(failures), 'offset')} can't be read ({first_of(failures)})",
            remedy="start the brokers, or allow DESCRIBE on these topics; until then their copies count as larger",
            text="",
            rule="readable",
            severity="warning",
        )


def _offsets(
    admin: AskingAdmin, broker: int, time: str, partitions: Sequence[tuple[str, int]], failures: list[str]
) -> Iterator[Record]:
    """Records of some partitions that a broker leads; adds to ``failures`` what it does not report."""
    timestamp, version = _REQUESTS[time]
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
        answer = admin.answer_of(broker, ListOffsetsRequest(isolation_level=0, topics=topics, min_version=version))
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
            payload = {"topic": topic.name, "partition": row.partition_index, "time": time}
            yield Record("offset", 0, {**payload, "offset": None if row.offset == _UNKNOWN else row.offset})
