"""Copies between racks, and what other leaders would keep inside racks."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.rows import broker_row
from optimizer.planning.arrays import to_brokers
from optimizer.schedule.flows import cross_rack_bytes, known_racks, near_leader_bytes, rack_flow, takes_part
from tests.schedule.test_waves import Row, changes_from_rows

RACKS = np.array([0, 0, 1, 1, 2, -1])  # of brokers 0 to 5


def flows(rows: list[Row], waves: list[int]) -> list[tuple[int, ...]]:
    """Wave, from, to, copies and bytes of each row."""
    flow = rack_flow(changes_from_rows(rows), np.array(waves, dtype=np.int64), RACKS)
    columns = (flow.wave, flow.from_rack, flow.to_rack, flow.copies, flow.copied_bytes)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_copies_are_summed_by_wave_and_racks() -> None:
    """Each copy goes from its leader's rack; copies in one rack count, and waves stay apart."""
    rows: list[Row] = [
        ("balance", 5, 0, [2, 4], []),
        ("drain", 7, 1, [3], [0]),
        ("drain", 11, 0, [1], [2]),
        ("balance", 13, 4, [0], []),
        ("balance", 17, 1, [2], []),
    ]
    assert flows(rows, [1, 1, 1, 2, 2]) == [
        (1, 0, 0, 1, 11),
        (1, 0, 1, 2, 12),
        (1, 0, 2, 1, 5),
        (2, 0, 1, 1, 17),
        (2, 2, 0, 1, 13),
    ]


@pytest.mark.parametrize(
    "row", [("leader", 5, 0, [], []), ("dead", 5, -1, [2], []), ("balance", 5, 5, [2], []), ("balance", 5, 2, [5], [])]
)
def test_copies_without_two_known_racks_have_no_flow(row: Row) -> None:
    """A reorder copies nothing, a leaderless partition has no source, and broker 5 has no rack."""
    assert flows([row], [1]) == []


def crossing(row: Row, candidates: list[int] | None = None) -> int:
    """Bytes of one change that cross racks, at least those with the best of the candidates."""
    changes = changes_from_rows([row])
    ends = (changes.added, changes.source, changes.copy_bytes, RACKS)
    if candidates is None:
        return int(cross_rack_bytes(*ends)[0])
    return int(near_leader_bytes(*ends, np.array([candidates], dtype=np.int64))[0])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("balance", 5, 0, [1], []), 0),
        (("balance", 5, 0, [2], []), 5),
        (("balance", 5, 0, [2, 4, 1], []), 10),
        (("balance", 5, 0, [2, 5], []), 5),
        (("balance", 5, 5, [2], []), 0),
        (("balance", 5, -1, [2], []), 0),
        (("leader", 5, 0, [], []), 0),
    ],
)
def test_bytes_cross_racks_if_both_racks_are_known_and_differ(row: Row, expected: int) -> None:
    """Every copy to another rack counts with the partition's size."""
    assert crossing(row) == expected


@pytest.mark.parametrize(
    ("added", "candidates", "expected"),
    [
        ([2], [], 5),
        ([2], [-1], 5),
        ([2], [3], 0),
        ([2], [4], 5),
        ([2], [-1, 3], 0),
        ([2], [3, -1], 0),
        ([2, 4], [3], 5),
        ([1, 2], [3], 5),
        ([1], [3], 0),
        ([1, 2, 3], [3], 5),
    ],
)
def test_the_best_leader_counts(added: list[int], candidates: list[int], expected: int) -> None:
    """A candidate in the target's rack saves its copy, but not if the copies of the present leader then cross."""
    assert crossing(("balance", 5, 0, added, []), candidates) == expected


def test_a_leaderless_partition_gets_no_other_leader() -> None:
    """It has no source, so nothing crosses racks, whatever could lead."""
    assert crossing(("dead", 5, -1, [2], []), [0]) == 0


def test_both_ends_of_a_copy_take_part() -> None:
    """Also if a copy is empty; a broker that only loses a replica or leads a reorder does not take part."""
    rows: list[Row] = [("balance", 0, 1, [2], [0]), ("leader", 5, 3, [], []), ("dead", 5, -1, [4], [])]
    assert np.flatnonzero(takes_part(changes_from_rows(rows), 6)).tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("racks", "expected"),
    [
        (["b", "a", "b"], [1, 0, 1]),
        ([None, "a", "b"], [-1, 1, 2]),
        (["a", None, "b"], [-1, -1, -1]),
        ([None, None, None], [-1, -1, -1]),
    ],
)
def test_racks_are_known_if_they_matter(racks: list[str | None], expected: list[int]) -> None:
    """Broker 0 is dead: it may lack a rack. If a living broker lacks one, racks do not matter."""
    states = ["dead", "alive", "alive"]
    hosts = [broker_row(b, rack=rack, state=state) for b, (rack, state) in enumerate(zip(racks, states, strict=True))]
    brokers = to_brokers(pd.DataFrame(hosts))
    known = known_racks(brokers)
    assert known.tolist() == expected
    named = [brokers.rack_names[number] if number >= 0 else None for number in known]
    assert named == (racks if max(expected) >= 0 else [None] * 3)
