"""The file with the copies of a plan."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from time import process_time

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.documents import documents, moves_csv
from optimizer.emit.rows import MoveRow, PlanRow
from tests.emit.rows import rows_of
from tests.emit.test_pages import page, synthetic

HEADER = "topic,partition,from_broker,to_broker,size_bytes,leader_read,reason,wave\n"


def plan_of(changed: Sequence[tuple[str, int, int | None, int]], moves: list[MoveRow]) -> ClusterPlan:
    """A plan of partitions (topic, number, leader, wave) and moves."""
    names = ("topic", "partition", "leader", "wave")
    rows = rows_of(PlanRow, *(dict(zip(names, row, strict=True)) for row in changed))
    return replace(synthetic(3, partitions=1), changed=rows, moves=moves)


def test_each_copy_is_a_row() -> None:
    """Sorted by wave, topic, partition number and target, whatever the order of the moves."""
    changed = [("a", 2, 7, 2), ("a", 10, 1, 1), ("b", 0, 3, 1)]
    moves = [
        MoveRow("b", 0, 3, 4, 30, "drain"),
        MoveRow("a", 2, 2, 9, 5, "balance"),
        MoveRow("a", 10, 1, 11, 20, "rack"),
        MoveRow("a", 10, 2, 5, 20, "balance"),
    ]
    (document,) = moves_csv(plan_of(changed, moves))
    assert (document.path, document.kind, document.wave) == ("c/moves.csv", "moves", 0)
    assert document.content == (
        f"{HEADER}a,10,2,5,20,1,balance,1\na,10,1,11,20,1,rack,1\nb,0,3,4,30,3,drain,1\na,2,2,9,5,7,balance,2\n"
    )
    assert moves_csv(plan_of(changed, moves[::-1])) == [document]


def test_what_there_is_not_is_empty() -> None:
    """No broker loses a replica if the factor grows, and a partition may have no leader."""
    (document,) = moves_csv(plan_of([("a", 0, None, 1)], [MoveRow("a", 0, None, 4, 30, "replication")]))
    assert document.content == f"{HEADER}a,0,,4,30,,replication,1\n"


def test_a_removal_is_no_copy() -> None:
    """A replica that only goes has no row; without copies there is no file."""
    removal = MoveRow("a", 0, 4, None, 0, "replication")
    copy = MoveRow("a", 0, 1, 2, 30, "dead")
    (document,) = moves_csv(plan_of([("a", 0, 1, 1)], [removal, copy]))
    assert document.content == f"{HEADER}a,0,1,2,30,1,dead,1\n"
    only_removal = plan_of([("a", 0, 1, 1)], [removal])
    assert moves_csv(only_removal) == []


def test_a_comma_is_quoted() -> None:
    """Every CSV reader gets the same cells back."""
    (document,) = moves_csv(plan_of([('x,"y"', 0, 1, 1)], [MoveRow('x,"y"', 0, 1, 2, 30, "dead")]))
    assert document.content.splitlines()[1] == '"x,""y""",0,1,2,30,1,dead,1'
    (row,) = csv.DictReader(io.StringIO(document.content))
    assert (row["topic"], row["to_broker"], row["wave"]) == ('x,"y"', "2", "1")


def test_the_summary_lists_the_file_and_the_manifest_does_not() -> None:
    """It is for people: an approval does not depend on it."""
    plan = synthetic(3, partitions=101)
    (document,) = moves_csv(plan)
    assert len(document.content.splitlines()) == 102
    assert "  c/moves.csv          each copy: brokers, size, reason, wave\n" in page(plan, "summary.txt")
    assert "moves.csv" not in page(plan, "manifest.json")
    assert document.sha256 not in page(plan, "manifest.json")
    assert document.sha256 == sha256(page(plan, "moves.csv").encode()).hexdigest()
    without = replace(plan, moves=[])
    assert "c/moves.csv" not in {d.path for d in documents(without)}
    assert "moves.csv" not in page(without, "summary.txt")


def test_many_copies_take_little_time() -> None:
    """50,000 rows take under 3 s of CPU time, with a wide margin for a busy machine; 0.2 s is usual."""
    changed = [("topic", number, 1, 1 + number % 7) for number in range(50_000)]
    moves = [MoveRow("topic", number, 1, 2, 10**9, "balance") for number in reversed(range(50_000))]
    plan = plan_of(changed, moves)
    start = process_time()
    (document,) = moves_csv(plan)
    assert process_time() - start < 3
    assert document.content.count("\n") == 50_001
