"""Offsets from leaders and from replicas that lag, with a fake client that answers with the library's own responses."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from kafka.errors import IncompatibleBrokerVersion, KafkaConnectionError
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from sources.kafka_admin import AskingAdmin
from sources.live_offsets import offsets
from sources.record import Record

TIMES = {-1: "latest", -2: "earliest", -4: "earliest_local", -6: "earliest_pending_upload"}
VERSIONS = {-1: 1, -2: 1, -4: 8, -6: 11}


class Leaders:
    """Brokers that answer with offsets; ``newest`` is the newest version of ListOffsets that they know.

    ``ends``: of a replica that is asked itself, by topic, partition and broker.
    """

    def __init__(
        self,
        offsets: Mapping[tuple[str, int], Mapping[int, int]],
        newest: int = 11,
        ends: Mapping[tuple[str, int, int], int] | None = None,
    ) -> None:
        self.offsets, self.newest, self.ends = offsets, newest, ends or {}
        self.asked: list[tuple[int, int, list[tuple[str, list[int]]]]] = []

    def answer_of(self, broker_id: int, request: ListOffsetsRequest) -> Any:
        """The answer of a broker, encoded and decoded; broker 9 does not answer."""
        topics = [(topic.name, [p.partition_index for p in topic.partitions]) for topic in request.topics]
        (timestamp,) = {p.timestamp for topic in request.topics for p in topic.partitions}
        assert request._min_version == VERSIONS[timestamp]
        self.asked.append((broker_id, timestamp, topics))
        if broker_id == 9:
            raise KafkaConnectionError("gone")
        if VERSIONS[timestamp] > self.newest:
            raise IncompatibleBrokerVersion("too old")
        topic_of = ListOffsetsResponse.ListOffsetsTopicResponse
        assert request.replica_id in (-1, -2)
        of = {(topic, n): {timestamp: end} for (topic, n, b), end in self.ends.items() if b == broker_id}
        known = of if request.replica_id == -2 else self.offsets
        answers = [
            topic_of(name=name, partitions=[_partition(topic_of, known.get((name, n)), n, timestamp) for n in numbers])
            for name, numbers in topics
        ]
        answer = ListOffsetsResponse(throttle_time_ms=0, topics=answers)
        return ListOffsetsResponse.decode(bytes(answer.encode(version=8)), version=8)


def _partition(topic_of: Any, known: Mapping[int, int] | None, number: int, timestamp: int) -> Any:
    return topic_of.ListOffsetsPartitionResponse(
        partition_index=number,
        error_code=0 if known else 29,
        timestamp=-1,
        offset=known[timestamp] if known else -1,
        leader_epoch=0,
    )


def topology(**topics: tuple[str, Sequence[int | None]]) -> list[Record]:
    """Topics with their configs and the leader of each partition, which is its only replica."""
    return [
        *(Record("broker", 0, {"broker_id": broker, "fenced": broker == 8}) for broker in range(1, 10)),
    ] + [
        record
        for topic, (configs, leaders) in topics.items()
        for record in (
            Record("topic", 0, {"topic": topic, "configs": configs}),
            *(placed(topic, number, leader, [leader], [leader]) for number, leader in enumerate(leaders)),
        )
    ]


def placed(
    topic: str, number: int, leader: int | None, replicas: Sequence[int | None], isr: Sequence[int | None]
) -> Record:
    """A partition."""
    payload = {"topic": topic, "partition": number, "leader": leader, "replicas": replicas, "isr": isr}
    return Record("partition", 0, payload)


TIERED = "remote.storage.enable=true,retention.ms=5"
TOPICS = topology(t=(TIERED, [2, 1, None]), u=(TIERED, [2]), plain=("remote.storage.enable=false", [1]), old=("", [1]))
OFFSETS = {("t", 0): {-1: 9, -4: 4, -6: 7}, ("t", 1): {-1: 8, -4: 0, -6: -1}, ("u", 0): {-1: 1, -4: 1, -6: 1}}


def read(admin: Leaders, records: Sequence[Record] = TOPICS, *acks_one: str) -> list[Record]:
    """What the brokers report."""
    return list(offsets(cast(AskingAdmin, admin), records, acks_one))


def offsets_of(records: Sequence[Record]) -> dict[tuple[str, int], dict[str, int | None]]:
    """Offsets by partition and time."""
    result: dict[tuple[str, int], dict[str, int | None]] = {}
    for row in (record.payload for record in records if record.kind == "offset"):
        result.setdefault((row["topic"], row["partition"]), {})[row["time"]] = row["offset"]
    return result


def test_each_leader_is_asked_for_its_partitions_of_tiered_topics() -> None:
    """Plain topics are not asked for, and -1 means that Kafka does not know the offset."""
    admin = Leaders(OFFSETS)
    records = read(admin)
    known = {key: {TIMES[t]: None if n == -1 else n for t, n in row.items()} for key, row in OFFSETS.items()}
    assert offsets_of(records) == known
    assert [record.kind for record in records] == ["offset"] * 9
    assert sorted(admin.asked) == sorted(
        (broker, timestamp, topics)
        for timestamp in (-1, -4, -6)
        for broker, topics in ((1, [("t", [1])]), (2, [("t", [0]), ("u", [0])]))
    )


def test_a_cluster_without_tiered_topics_is_asked_nothing() -> None:
    """It pays nothing for them."""
    admin = Leaders({})
    assert (read(admin, topology(plain=("", [1]))), admin.asked) == ([], [])


def test_a_broker_before_kafka_4_3_has_no_earliest_pending_upload() -> None:
    """It is not a warning: such a broker cannot skip what is in tiered storage."""
    records = read(Leaders(OFFSETS, newest=10))
    assert {time for row in offsets_of(records).values() for time in row} == {"latest", "earliest_local"}
    assert {record.kind for record in records} == {"offset"}


@pytest.mark.parametrize(
    ("records", "offsets", "reason"),
    [
        (topology(t=(TIERED, [1])), {}, "3 offsets can't be read (TopicAuthorizationFailedError for t-0 and 2 more)"),
        (topology(t=(TIERED, [9])), OFFSETS, "3 offsets can't be read (KafkaConnectionError for t-0 and 2 more)"),
    ],
)
def test_what_cannot_be_read_is_one_warning(
    records: list[Record], offsets: Mapping[tuple[str, int], Mapping[int, int]], reason: str
) -> None:
    """The run goes on with an upper bound."""
    (warning,) = read(Leaders(offsets), records)
    assert (warning.payload["reason"], warning.payload["severity"]) == (reason, "warning")


LAGGING = [
    *topology(plain=("", []), loose=("", []), strict=("", [])),
    placed("plain", 0, 1, [1, 2, 3, 8, 9], [1, 3]),  # 2 and 9 are out of sync, 8 is fenced, 9 does not answer
    placed("plain", 1, None, [2, 3], [2]),
    placed("loose", 0, 1, [1, 2], [1, 2]),
    placed("strict", 0, 1, [1, 2], [1, 2]),
]
ENDS = {("plain", 0, 1): 100, ("plain", 0, 2): 40, ("loose", 0, 1): 97, ("loose", 0, 2): 95}


def test_replicas_that_lag_are_asked_for_their_own_ends() -> None:
    """The living ones out of sync, and of topics with acks=1 also those in sync; then the leader's start and end.

    A consumer gets the leader's high watermark, which in-sync replicas always have.
    """
    admin = Leaders({("plain", 0): {-2: 10}, ("loose", 0): {-2: 0}}, ends=ENDS)
    records = read(admin, LAGGING, "lo+se")
    names = ("topic", "time", "broker_id", "offset")
    assert {record.kind for record in records} == {"offset"}
    assert sorted([record.payload[name] for name in names] for record in records if record.payload["broker_id"]) == [
        ["loose", "replica_latest", 1, 97],
        ["loose", "replica_latest", 2, 95],
        ["plain", "replica_latest", 1, 100],
        ["plain", "replica_latest", 2, 40],
    ]
    assert sorted(
        [record.payload[name] for name in names] for record in records if not record.payload["broker_id"]
    ) == [
        ["loose", "earliest", None, 0],
        ["plain", "earliest", None, 10],
    ]
    assert [broker for broker, *_ in admin.asked] == [2, 9, 1, 1]  # the leaders last: the difference is never too small
