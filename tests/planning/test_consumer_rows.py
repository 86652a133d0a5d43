"""What a plan means for consumer groups: racks, leaders, copies, and what nobody can know."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optimizer.planning.consumer_rows import consumer_rows

RACKS: Mapping[int, str | None] = {1: "a", 2: "b", 3: "c", 4: "a"}
NOTICED = ("rack_set_changes", "rack_list_changes", "leader_changes", "copied")


def partition(number: int, before: list[int], after: list[int] | None = None, **more: Any) -> dict[str, Any]:
    """A partition of topic t; it changes in wave 1 if ``after`` is given."""
    added = set(after or before) - set(before)
    row = {"topic": "t", "partition": number, "current_replicas": before, "proposed_replicas": after or before}
    fixed = {"leader": before[0], "wave": None if after is None else 1, "moved_bytes": 5 * len(added)}
    return {**row, **fixed, "in_bytes_per_s": 10, **more}


def group(**more: Any) -> dict[str, Any]:
    """Group g."""
    stated = {"protocol": "classic", "state": "Stable", "assignor": "range", "coordinator_id": 1, "members": None}
    return {"group_id": "g", **stated, "epoch": None, "topics": [], "lag_messages": 7, "is_complete": True, **more}


def member(name: str, *numbers: int, **more: Any) -> dict[str, Any]:
    """A member of group g with partitions of topic t."""
    about = {"group_id": "g", "member_id": name, "client_id": "c", "host": "/h", "instance_id": None}
    return {**about, "partitions": None, "assigned": [{"topic": "t", "partitions": list(numbers)}], **more}


def impact(
    partitions: Sequence[Mapping[str, Any]],
    listed: Sequence[Mapping[str, Any]] = (),
    racks: Mapping[int, str | None] = RACKS,
    **of_group: Any,
) -> dict[str, Any]:
    """The row of group g."""
    stated = group(**{"members": len(listed), **of_group})
    [row] = consumer_rows(pd.DataFrame(partitions), [stated], listed, racks)["consumer_impact"]
    return row


@pytest.mark.parametrize(
    ("before", "after", "noticed"),
    [
        ([1, 2], [3, 2], (1, 1, 1, 1)),  # another rack, and another leader
        ([2, 1], [2, 3], (1, 1, 0, 1)),  # another rack
        ([2, 1], [2, 4], (0, 1, 0, 1)),  # inside rack a: both are in the list while it is copied
        ([1, 2], [2, 1], (0, 0, 1, 0)),  # only another leader
        ([1, 2], [1], (1, 1, 0, 0)),  # a replica less
        ([1, 2, 4], [1, 2], (0, 1, 0, 0)),  # a replica less, whose rack stays
        ([1, 2], None, (0, 0, 0, 0)),
    ],
)
def test_what_readers_of_a_partition_notice(
    before: list[int], after: list[int] | None, noticed: tuple[int, ...]
) -> None:
    """The set of racks, the list of racks, the leader, and a copy from the leader."""
    row = impact([partition(0, before, after)], [member("m", 0)])
    assert tuple(row[name] for name in NOTICED) == noticed
    assert [wave["wave"] for wave in row["waves"]] == ([] if after is None else [1])


@pytest.mark.parametrize("racks", [{}, dict.fromkeys(RACKS)])
def test_without_racks_nothing_is_claimed(racks: Mapping[int, str | None]) -> None:
    """Leaders and copies are known without racks."""
    row = impact([partition(0, [1, 2], [3, 2])], [member("m", 0)], racks)
    assert tuple(row[name] for name in NOTICED) == (None, None, 1, 1)


def test_brokers_without_a_rack_count_as_one() -> None:
    """Kafka compares a missing rack as a value of its own."""
    racks = {1: "a", 2: None, 3: None}
    assert impact([partition(0, [1, 2], [1, 3])], [member("m", 0)], racks)["rack_set_changes"] == 0
    assert impact([partition(0, [2, 3], [2, 1])], [member("m", 0)], racks)["rack_set_changes"] == 1


def test_the_leader_that_metadata_names_counts() -> None:
    """A leader that is not the first replica changes if the plan makes the first one lead."""
    row = impact([partition(0, [1, 2], [1, 3], leader=2), partition(1, [1, 2], leader=2)], [member("m", 0, 1)])
    assert row["leader_changes"] == 1


def test_partitions_that_nobody_holds_are_not_noticed() -> None:
    """Only what members hold counts; a partition that no description names has no figures."""
    row = impact([partition(0, [1, 2], [3, 2]), partition(1, [1, 2])], [member("m", 1, 9)])
    assert (row["partitions"], row["leader_changes"], row["topics"], row["changed_topics"]) == (1, 0, ["t"], [])


@pytest.mark.parametrize(("rate", "assignor", "moved"), [(10, "range", 1), (0, "range", 1), (10, "uniform", None)])
def test_what_moves_if_the_busiest_member_leaves(rate: int, assignor: str, moved: int | None) -> None:
    """Also without rates; only with an assignor that is known."""
    held = [member("a", 0), member("b", 1)]
    row = impact([partition(number, [1, 2], in_bytes_per_s=rate) for number in range(2)], held, assignor=assignor)
    assert row["moved_if_busiest_leaves"] == moved


@pytest.mark.parametrize(
    ("members", "is_complete"),
    [
        ([], False),
        ([member("a", 0)], False),
        ([member("a", 0), member("b", assigned=None)], True),
    ],
)
def test_a_group_that_is_not_known(members: Sequence[Mapping[str, Any]], is_complete: bool) -> None:
    """If a source does not say what all members hold, nothing is claimed about the group."""
    row = impact([partition(0, [1, 2], [3, 2])], members, is_complete=is_complete)
    assert not row["is_known"]
    assert [row[name] for name in (*NOTICED, "partitions", "busiest_over_mean")] == [None] * 6
    assert [row[name] for name in ("topics", "changed_topics", "waves")] == [[], [], []]


@pytest.mark.parametrize(
    ("members", "count"),
    [
        ([member("a", 0, 1)], None),  # only the holders are known: others may hold nothing
        ([member("a", 0, 1)], 2),
        ([member("a", 0), member("b")], 2),  # nobody holds partition 1
        ([member("a", 0, 1), member("b", 1)], 2),  # both hold partition 1
    ],
)
def test_without_a_mean_of_all_members(members: Sequence[Mapping[str, Any]], count: int | None) -> None:
    """How evenly members read is only said if their number is known and each partition has one holder."""
    row = impact([partition(0, [1, 2], [3, 2]), partition(1, [1, 2])], members, members=count)
    assert (row["is_known"], row["leader_changes"], row["members"]) == (True, 1, count)
    assert (row["busiest_over_mean"], row["possible_over_mean"], row["range_over_mean"]) == (None, None, None)


def test_empty_replicas_are_copied_too() -> None:
    """A copy of no bytes is a copy: the partition may get some meanwhile."""
    assert impact([partition(0, [1, 2], [3, 2], moved_bytes=0)], [member("m", 0)])["copied"] == 1


def test_a_group_without_members_notices_nothing() -> None:
    """It reads nothing now."""
    row = impact([partition(0, [1, 2], [3, 2])], members=0)
    assert (row["is_known"], row["members"], row["leader_changes"], row["busiest_over_mean"]) == (True, 0, 0, None)


def test_without_rates_nothing_is_said_about_bytes() -> None:
    """Rates that are all 0 are unknown; numbers of partitions are still known."""
    partitions = [partition(number, [1, 2], in_bytes_per_s=0) for number in range(3)]
    listed = [member("a", 0, 1), member("b", 2)]
    made = consumer_rows(pd.DataFrame(partitions), [group(members=2)], listed, RACKS)
    assert [(row["partitions"], row["in_bytes_per_s"]) for row in made["consumer_load"]] == [(2, None), (1, None)]
    assert made["consumer_impact"][0]["in_bytes_per_s"] is None
    assert made["consumer_impact"][0]["busiest_over_mean"] is None


def test_members_read_from_leaders_before_and_after() -> None:
    """A member keeps its partitions; the plan changes the brokers that lead them. No leader is no broker."""
    partitions = [partition(0, [1, 2], [3, 2]), partition(1, [2, 1]), partition(2, [4, 1], leader=None)]
    [row] = consumer_rows(pd.DataFrame(partitions), [group()], [member("m", 2, 1, 0)], RACKS)["consumer_load"]
    assert (row["brokers"], row["brokers_after"], row["in_bytes_per_s"]) == ([1, 2], [2, 3], 30)


def test_static_members_are_ordered_by_their_instance() -> None:
    """Kafka's assignors sort static members before dynamic ones, by instance id."""
    partitions = [partition(number, [1, 2], in_bytes_per_s=rate) for number, rate in enumerate((50, 30, 20))]
    dynamic = impact(partitions, [member("a", 0), member("b", 1, 2)])
    static = impact(partitions, [member("a", 0), member("b", 1, 2, instance_id="first")])
    assert (dynamic["range_over_mean"], static["range_over_mean"]) == (1.6, 1.6)
    assert (dynamic["round_robin_over_mean"], static["round_robin_over_mean"]) == (1.4, 1.4)


@pytest.mark.all_only
def test_two_hundred_thousand_partitions_in_seconds() -> None:
    """The cost is linear in what members hold."""
    count, members = 200_000, 500
    rng = np.random.default_rng(1)
    brokers = rng.integers(0, 300, (count, 3)).tolist()
    frame = pd.DataFrame(
        {
            "topic": [f"t{number // 400:04d}" for number in range(count)],
            "partition": [number % 400 for number in range(count)],
            "current_replicas": brokers,
            "proposed_replicas": brokers,
            "leader": [ids[0] for ids in brokers],
            "wave": None,
            "moved_bytes": 0,
            "in_bytes_per_s": rng.integers(1, 1000, count),
        }
    )
    held: dict[int, list[dict[str, Any]]] = {}
    for topic in range(count // 400):
        numbers = {"topic": f"t{topic:04d}", "partitions": list(range(400))}
        held.setdefault(topic % members, []).append(numbers)
    rows = [member(f"m{number:04d}", assigned=assigned) for number, assigned in held.items()]
    began = time.process_time()
    made = consumer_rows(frame, [group(members=members)], rows, {broker: "abc"[broker % 3] for broker in range(300)})
    assert made["consumer_impact"][0]["partitions"] == count
    assert made["consumer_impact"][0]["busiest_over_mean"] is not None
    assert time.process_time() - began < 10
