"""What a move does to real consumer groups, what their members get, and what the live source reads of them."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kafka import KafkaConsumer

from optimizer.kafka.assignors import Key, Member, range_assignment, round_robin_assignment
from optimizer.planning.consumer_rows import consumer_rows
from setup.jars import KAFKA, is_ready
from sources import kafka_admin
from sources.live_consumers import consumer_groups
from sources.record import Record
from tests.kafka import topics
from tests.kafka.consumers import classic, consuming, generation, kip_848
from tests.kafka.lab import RACKS, until
from tour.cluster import Cluster, running

pytestmark = [pytest.mark.kafka, pytest.mark.all_only]

# One topic has more partitions; racks differ between partitions, so that the range assignor uses them.
TOPICS = {
    "read-t": {0: [1, 2], 1: [1, 2], 2: [3, 2], 3: [2, 3], 4: [1, 3]},
    "read-u": {0: [1, 4, 2], 1: [3, 1, 2], 2: [2, 3, 1]},
}
COUNTS = {topic: len(replicas) for topic, replicas in TOPICS.items()}
WITH_RACKS, PLAIN, NEXT, NEXT_WITH_RACK, EMPTY = "with racks", "plain group", "next", "next with rack", "empty group"
CONSUMERS = [
    classic(WITH_RACKS, "racks 1", "RangeAssignor", client_rack="a"),
    classic(WITH_RACKS, "racks 2", "RangeAssignor", client_rack="b"),
    classic(WITH_RACKS, "racks 3", "RangeAssignor", client_rack="c", group_instance_id="static-1"),
    classic(PLAIN, "plain 1", "RoundRobinAssignor", group_instance_id="static-2"),
    classic(PLAIN, "plain 2", "RoundRobinAssignor"),
    kip_848(NEXT, "next 1"),
    kip_848(NEXT, "next 2"),
    kip_848(NEXT_WITH_RACK, "next racks", client_rack="a"),
]
NEXT_MEMBERS = ("next 1", "next 2", "next racks")
GROUPS = (WITH_RACKS, PLAIN, NEXT, NEXT_WITH_RACK)
SETTLE_SECONDS = 2  # four times the period of heartbeats and metadata here: nothing happens afterwards
LONGEST_SECONDS = 40  # until a rebalance is seen that should happen
HELD_BYTES_PER_S = 50_000  # rate of a copy that must last until all groups have seen its beginning
STATE = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """A change of one partition, and the rebalances that it causes: while it lasts, and in all.

    Parameters
    ----------
    during, total : tuple of int
        For each of ``GROUPS``.
    """

    partition: Key
    replicas: list[int]
    during: tuple[int, ...]
    total: tuple[int, ...]


CASES = {
    "inside a rack": Case(("read-t", 0), [4, 2], (0, 0, 1, 1), (0, 0, 2, 2)),
    "to another rack": Case(("read-t", 1), [1, 3], (1, 0, 1, 1), (2, 0, 2, 2)),
    "to one rack more": Case(("read-u", 0), [1, 3, 2], (1, 0, 1, 1), (1, 0, 2, 2)),
}


@dataclass
class Seen:
    """What the module's groups did."""

    cluster: Cluster
    logs: dict[str, Path]
    before: list[Record] = field(default_factory=list)
    after: list[Record] = field(default_factory=list)
    rebalances: dict[str, tuple[Counts, Counts]] = field(default_factory=dict)
    joined: dict[str, int] = field(default_factory=dict)

    def logged(self, client_id: str) -> str:
        """What a member has logged since all groups were stable."""
        return self.logs[client_id].read_text()[self.joined[client_id] :]

    def generations(self) -> dict[str, int]:
        """Generation or epoch of each group."""
        return {group: generation(self.cluster, group) for group in GROUPS}

    def records(self) -> list[Record]:
        """The records of the live source."""
        with kafka_admin.connected({"bootstrap_servers": self.cluster.bootstrap}) as admin:
            return list(consumer_groups(admin))

    def since(self, begin: Counts, expected: Counts) -> dict[str, int]:
        """Rebalances since ``begin``, after the expected ones, and a while for others."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < deadline:
            now = self.generations()
            if all(now[group] - begin[group] >= expected[group] for group in GROUPS):
                break
            time.sleep(0.2)
        time.sleep(SETTLE_SECONDS)
        return {group: number - begin[group] for group, number in self.generations().items()}

    def wait_for_members(self) -> None:
        """Wait until each group is stable with all its members, and each KIP-848 member has partitions."""
        sizes = {group: sum(each.group == group for each in CONSUMERS) for group in (WITH_RACKS, PLAIN)}

        def is_stable() -> bool:
            failed = [text for text in (log.read_text() for log in self.logs.values()) if "] ERROR " in text]
            assert failed == []
            groups = {r.payload["group"]: r.payload for r in self.records() if r.kind == "consumer_group"}
            states = [groups.get(group, {}).get("state") for group in GROUPS]
            counted = all(groups.get(g, {}).get("members") == size for g, size in sizes.items())
            return states == ["Stable"] * 4 and counted and all(map(self.owned, NEXT_MEMBERS))

        until(is_stable)

    def wait_for_silence(self) -> None:
        """Wait until no member has logged anything for a while: each has taken what its coordinator assigned."""

        def is_silent() -> bool:
            begin = {name: log.stat().st_size for name, log in self.logs.items()}
            time.sleep(SETTLE_SECONDS)
            return begin == {name: log.stat().st_size for name, log in self.logs.items()}

        until(is_silent)

    def owned(self, client_id: str) -> list[str]:
        """The partitions of a KIP-848 member after its last reconciliation, from its log."""
        assigned = re.findall(r"Assigned partitions:\s+\[([^\]]*)\]", self.logs[client_id].read_text())
        return re.findall(r"\S+-\d+", assigned[-1]) if assigned else []

    def move(self, case: Case) -> tuple[Counts, Counts]:
        """Move a partition slowly until its groups had time to see both its replica sets; then let it end."""
        begin, partition = self.generations(), topics.TopicPartition(*case.partition)
        (target,) = set(case.replicas) - set(TOPICS[partition.topic][partition.partition])
        with topics.client(self.cluster) as admin:
            with held(admin, partition.topic, target):
                admin.alter_partition_reassignments({partition: case.replicas})
                during = self.since(begin, dict(zip(GROUPS, case.during, strict=True)))
                assert admin.list_partition_reassignments(), "the copy ended too early"
            until(lambda: not admin.list_partition_reassignments())
        return during, self.since(begin, dict(zip(GROUPS, case.total, strict=True)))

    def change_leader(self, topic: str, partition: int, replicas: list[int]) -> Counts:
        """Reverse a list, and let its first replica become the leader."""
        begin = self.generations()
        with topics.client(self.cluster) as admin:
            admin.alter_partition_reassignments({topics.TopicPartition(topic, partition): replicas})
            until(lambda: not admin.list_partition_reassignments())

            def leader() -> int:
                rows = admin.describe_topics([topic])[0]["partitions"]
                return next(int(row["leader_id"]) for row in rows if row["partition_index"] == partition)

            assert leader() != replicas[0]
            admin.elect_leaders(0, {topic: [partition]})
            until(lambda: leader() == replicas[0])
        return self.since(begin, dict.fromkeys(GROUPS, 0))


@contextmanager
def held(admin: Any, topic: str, broker: int) -> Iterator[None]:
    """Throttle copies of a topic to a broker."""
    kinds = topics.ConfigResourceType
    replicas, rate = "follower.replication.throttled.replicas", "follower.replication.throttled.rate"

    def alter(**configs: Any) -> None:
        resources = [
            topics.ConfigResource(kinds.TOPIC, topic, configs={replicas: configs["replicas"]}),
            topics.ConfigResource(kinds.BROKER, str(broker), configs={rate: configs["rate"]}),
        ]
        admin.alter_configs(resources, raise_on_unknown=False)

    alter(replicas="*", rate=str(HELD_BYTES_PER_S))
    time.sleep(0.5)
    try:
        yield
    finally:
        alter(replicas=("DELETE", None), rate=("DELETE", None))


def leave_empty(kafka: Cluster, topic: str) -> None:
    """Join the group that is to be empty, and leave it."""
    consumer = KafkaConsumer(topic, group_id=EMPTY, bootstrap_servers=kafka.bootstrap)
    try:
        until(lambda: bool(consumer.poll(timeout_ms=200) or consumer.assignment()))
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """All cases, one after the other, with the same groups, on a cluster without other topics."""
    if not is_ready(KAFKA):
        pytest.skip(f"JARs of {KAFKA.name} are not there: run setup/kafka-jars.sh")
    home = tmp_path_factory.mktemp("consumers")
    with running(home / "kafka", RACKS) as kafka:
        topics.create(kafka, TOPICS)
        # More than the one response that a throttled copy gets at once.
        topics.fill(kafka, "read-t", {0: 3, 1: 3, 2: 0, 3: 0, 4: 0})
        topics.fill(kafka, "read-u", {0: 3, 1: 0, 2: 0})
        with consuming(kafka, home / "logs", "read-[tu]", CONSUMERS) as logs:
            result = Seen(kafka, logs)
            leave_empty(kafka, "read-u")
            result.wait_for_members()
            result.wait_for_silence()
            result.before = result.records()
            result.joined = {name: len(log.read_text()) for name, log in logs.items()}
            for name, case in CASES.items():
                result.rebalances[name] = result.move(case)
            result.rebalances["leader"] = ({}, result.change_leader("read-t", 1, [3, 1]))
            result.after = result.records()
            yield result


@pytest.mark.parametrize("name", CASES)
def test_which_groups_rebalance_when_replicas_move(seen: Seen, name: str) -> None:
    """A classic group compares sets of racks if its leader has a rack; KIP-848 counts racks, also without a rack.

    A classic group sees the racks while a replica is added, and those at the end. The coordinator of a KIP-848 group
    also sees a second replica in the same rack, so that its epoch rises twice at every move.
    """
    case = CASES[name]
    during, total = seen.rebalances[name]
    assert (tuple(during.values()), tuple(total.values())) == (case.during, case.total)


@pytest.mark.parametrize("name", CASES)
def test_the_table_says_which_groups_rebalance(name: str) -> None:
    """Changed sets of racks are those at which the classic group rebalanced; changed lists those of KIP-848."""
    case = CASES[name]
    topic, number = case.partition
    before = TOPICS[topic][number]
    row = {"topic": topic, "partition": number, "current_replicas": before, "proposed_replicas": case.replicas}
    partitions = pd.DataFrame([{**row, "leader": before[0], "wave": 1, "moved_bytes": 1, "in_bytes_per_s": 1}])
    unknown = dict.fromkeys(("protocol", "state", "assignor", "members", "lag_messages"))
    group = {"group_id": "g", **unknown, "is_complete": True}
    member = {"group_id": "g", "member_id": "m", "client_id": None, "host": None, "instance_id": None}
    held = {**member, "assigned": [{"topic": topic, "partitions": [number]}]}
    [impact] = consumer_rows(partitions, [group], [held], RACKS)["consumer_impact"]
    rebalanced = dict(zip(GROUPS, case.total, strict=True))
    assert bool(impact["rack_set_changes"]) == bool(rebalanced[WITH_RACKS])
    assert bool(impact["rack_list_changes"]) == bool(rebalanced[NEXT]) == bool(rebalanced[NEXT_WITH_RACK])


def test_no_group_rebalances_when_a_leader_changes(seen: Seen) -> None:
    """The order of a list and its leader matter to no group."""
    assert set(seen.rebalances["leader"][1].values()) == {0}


def test_the_logs_give_the_reason(seen: Seen) -> None:
    """The leader of the classic group names the racks before and after; no member of the other one does."""
    reasons = {name: re.findall(r"cached metadata has changed from .*", seen.logged(name)) for name in seen.logs}
    texts = [text for name in ("racks 1", "racks 2", "racks 3") for text in reasons.pop(name)]
    assert len(texts) == sum(total[WITH_RACKS] for _, total in seen.rebalances.values()) == 3
    changes = [re.findall(r"racks=\[[^\]]*\]", text) for text in texts]
    moved = {pair for racks in changes for pair in zip(racks[: len(racks) // 2], racks[len(racks) // 2 :], strict=True)}
    assert {pair for pair in moved if pair[0] != pair[1]} == {
        ("racks=[a, b]", "racks=[a, b, c]"),
        ("racks=[a, b, c]", "racks=[a, c]"),
    }
    assert set(map(len, reasons.values())) == {0}


def test_members_of_kip_848_keep_their_partitions(seen: Seen) -> None:
    """Epochs rise; of two members, none revokes or gets anything. Kafka's tool reports the epochs of the logs."""
    shared = [seen.owned(name) for name in ("next 1", "next 2")]
    assert all(shared)
    assert sorted(shared[0] + shared[1]) == [f"{t}-{p}" for t, replicas in TOPICS.items() for p in replicas]
    for name in NEXT_MEMBERS:
        assert "Reconciling assignment" in seen.logs[name].read_text()
        assert "Reconciling assignment" not in seen.logged(name)
    text = seen.cluster.tool(STATE, "--describe", "--state", "--verbose", "--group", NEXT, "--group", NEXT_WITH_RACK)
    epochs = {row[0]: int(row[1]) for row in re.findall(r"(?m)^(next[a-z ]*?)  .* Stable +(\d+) ", text)}
    assert epochs == {group: generation(seen.cluster, group) for group in (NEXT, NEXT_WITH_RACK)}


def members_of(records: list[Record], group: str) -> tuple[list[Member], dict[str, list[Key]]]:
    """The members of a group as the assignor gets them, and their partitions in the order of topics and numbers."""
    rows = [r.payload for r in records if r.kind == "consumer_member" and r.payload["group"] == group]
    racks = {each.client_id: each.rack for each in CONSUMERS}
    members = [Member(row["member_id"], tuple(COUNTS), row["instance_id"], racks[row["client_id"]]) for row in rows]
    pairs = {row["member_id"]: [(a["topic"], p) for a in row["assigned"] for p in a["partitions"]] for row in rows}
    assert [row["partitions"] for row in rows] == [len(pairs[row["member_id"]]) for row in rows]
    return members, pairs


def in_order(assigned: Mapping[str, list[Key]]) -> dict[str, list[Key]]:
    """Topics and numbers ascending."""
    return {member: sorted(keys) for member, keys in assigned.items()}


def racks_of(replicas: Mapping[str, topics.Replicas]) -> dict[Key, frozenset[str]]:
    """The racks of each partition."""
    return {
        (t, p): frozenset(RACKS[b] for b in brokers) for t, lists in replicas.items() for p, brokers in lists.items()
    }


def test_the_range_assignor_gives_what_the_code_predicts(seen: Seen) -> None:
    """Three members on three racks, one of them static: before the moves, and with the racks after them."""
    moved: dict[str, dict[int, list[int]]] = {topic: {**lists} for topic, lists in TOPICS.items()}
    for case in CASES.values():
        moved[case.partition[0]][case.partition[1]] = case.replicas
    for records, replicas in ((seen.before, TOPICS), (seen.after, moved)):
        members, assigned = members_of(records, WITH_RACKS)
        assert sorted(member.instance_id or "" for member in members) == ["", "", "static-1"]
        predicted = range_assignment(COUNTS, members, partition_racks=racks_of(replicas))
        assert assigned == in_order(predicted)
        assert assigned != in_order(range_assignment(COUNTS, members)), "the racks must matter"


def test_the_round_robin_assignor_gives_what_the_code_predicts(seen: Seen) -> None:
    """Two members, one of them static, on topics of five and three partitions; moves change nothing."""
    members, assigned = members_of(seen.before, PLAIN)
    assert sorted(member.instance_id or "" for member in members) == ["", "static-2"]
    assert assigned == in_order(round_robin_assignment(COUNTS, members))
    assert members_of(seen.after, PLAIN) == (members, assigned)


def test_the_live_source_reads_real_groups(seen: Seen) -> None:
    """Classic groups with members, an empty group, and KIP-848 groups without their members; no warning."""
    groups = {r.payload["group"]: r.payload for r in seen.before if r.kind == "consumer_group"}
    facts = {
        group: tuple(groups[group].values())[1:4] + tuple(groups[group].values())[5:] for group in (*GROUPS, EMPTY)
    }
    assert facts == {
        WITH_RACKS: ("classic", "Stable", "range", 3, None, True),
        PLAIN: ("classic", "Stable", "roundrobin", 2, None, True),
        NEXT: ("consumer", "Stable", None, None, None, False),
        NEXT_WITH_RACK: ("consumer", "Stable", None, None, None, False),
        EMPTY: ("classic", "Empty", None, 0, None, True),
    }
    rows = [r.payload for r in seen.before if r.kind == "consumer_member" and r.payload["group"] == PLAIN]
    assert {(row["client_id"], row["instance_id"], row["host"], row["protocol"]) for row in rows} == {
        ("plain 1", "static-2", "/127.0.0.1", "classic"),
        ("plain 2", None, "/127.0.0.1", "classic"),
    }
    assert [record for record in seen.before if record.kind == "malformed"] == []


def test_the_coordinator_is_the_one_that_kafka_names(seen: Seen) -> None:
    """The broker that lists a group coordinates it."""
    text = seen.cluster.tool(STATE, "--describe", "--state", "--all-groups")
    named = dict(re.findall(r"(?m)^(\S.*?)  +\S+:\d+ +\((\d)\)", text))
    groups = {r.payload["group"]: r.payload["coordinator_id"] for r in seen.after if r.kind == "consumer_group"}
    assert {group: int(named[group]) for group in (*GROUPS, EMPTY)} == {g: groups[g] for g in (*GROUPS, EMPTY)}
