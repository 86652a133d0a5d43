"""Whether plans have changed: what a digest notices, which differences are reported, and missing records."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import as_before
from benchmarks.as_before import Columns, Digests, by_cluster, differences, digest, main

pytestmark = pytest.mark.all_only

Rows = list[dict[str, Any]]
SHARDS: Rows = [
    {"cluster_id": "c", "round": 0, "shard_id": shard, "status": "solved", "moves": moves, "message": None}
    for shard, moves in ((0, 3), (1, 5), (2, 5))
]
REST = {
    **dict.fromkeys(("brokers", "partitions", "candidates", "objective_bytes", "search_bytes"), 1),
    **dict.fromkeys(("bound_bytes", "violation_before", "violation_after"), 0.5),
}


def shards(*changed: dict[str, Any], run: str = "r", cpu_seconds: float = 1.0) -> Rows:
    """Rows of ``shard_results``, the first of them with other values."""
    measured = {"run_id": run, "cpu_seconds": cpu_seconds, "peak_memory_bytes": int(cpu_seconds)}
    changes = [*changed, *[{}] * (len(SHARDS) - len(changed))]
    return [{**row, **REST, **measured, **change} for row, change in zip(SHARDS, changes, strict=True)]


def changed_columns(rows: Rows) -> list[str]:
    """Columns whose digest is not that of the usual rows."""
    before, after = digest("shard_results", shards()), digest("shard_results", rows)
    assert before.keys() == after.keys()
    return [name for name in before if before[name] != after[name]]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (shards(), []),
        (shards()[::-1], []),
        (shards(run="another", cpu_seconds=7.0), []),
        (shards({"moves": 4}), ["moves"]),
        (shards({"moves": 5}, {"moves": 3}), ["moves"]),
        (shards({"moves": 4, "message": "m"}), ["message", "moves"]),
        (shards({"message": "None"}), ["message"]),
        (shards({"bound_bytes": 0.5000000000000001}), ["bound_bytes"]),
    ],
)
def test_a_digest_sees_what_a_column_holds_and_in_which_row(rows: Rows, names: list[str]) -> None:
    """The order of rows, the name of the run and what is measured do not count; every other value does."""
    assert changed_columns(rows) == names


def test_a_row_less_is_told_apart() -> None:
    """The number of rows is in the digest as it is."""
    assert "(rows)" in changed_columns(shards()[:2])
    assert digest("shard_results", [])["(rows)"] == "0"


def test_what_is_measured_has_no_digest() -> None:
    """Every column of the contract has one but the run and the volatile ones."""
    unseen = {"run_id", "cpu_seconds", "peak_memory_bytes"}
    assert set(digest("shard_results", shards())) == {*shards()[0], "(rows)"} - unseen


def test_each_cluster_has_a_digest_of_its_own() -> None:
    """Rows of several clusters in any order are digested as if each cluster were alone."""
    here, there = shards(), shards({"moves": 9})
    for row in there:
        row["cluster_id"] = "another"
    mixed = [row for pair in zip(here, there, strict=True) for row in pair]
    alone = {"c": digest("shard_results", here), "another": digest("shard_results", there)}
    assert dict(by_cluster("shard_results", mixed)) == alone


def recorded(**columns: str) -> Digests:
    """The plan of a cluster: one table with these columns, and another."""
    moves: Columns = {"(rows)": "2", **columns}
    return {"c": {"moves": moves, "waves": {"(rows)": "1"}}}


BEFORE = recorded(reason="a", size_bytes="b")


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (BEFORE, []),
        (recorded(size_bytes="b", reason="a"), []),
        (recorded(reason="A", size_bytes="b"), ["c moves: changed: reason"]),
        (recorded(reason="A", size_bytes="B"), ["c moves: changed: reason, size_bytes"]),
        (recorded(reason="a", size_bytes="b", urgency="c"), ["c moves: new: urgency"]),
        (recorded(reason="a"), ["c moves: gone: size_bytes"]),
        (recorded(reason="A", urgency="c"), ["c moves: changed: reason; new: urgency; gone: size_bytes"]),
        ({"c": {"moves": BEFORE["c"]["moves"]}}, ["c waves: gone: (rows)"]),
        ({**BEFORE, "d": {"waves": {"(rows)": "1"}}}, ["d waves: new: (rows)"]),
        ({}, ["c moves: gone: (rows), reason, size_bytes", "c waves: gone: (rows)"]),
    ],
)
def test_differences_are_reported_by_table(after: Digests, expected: list[str]) -> None:
    """New columns, missing columns and changed values are reported separately, for tables and clusters too."""
    assert list(differences(BEFORE, after)) == expected


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> dict[str, Digests]:
    """What the plans of two groups are now."""
    now = {"S": recorded(reason="a"), "M": recorded(reason="m")}
    monkeypatch.setattr(as_before, "GROUPS", {group: lambda group=group: now[group] for group in now})
    return now


def test_what_was_recorded_is_compared(
    plans: dict[str, Digests], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code says whether anything differs, the lines say what; each group has a record of its own."""
    file = ["--file", str(tmp_path / "not yet" / "record.json")]
    assert main(["record", "--only", "S", *file]) == 0
    assert main(["record", "--only", "M", *file]) == 0
    assert main(["compare", *file]) == 0
    assert capsys.readouterr().out.count("as before") == 2
    plans["M"] = recorded(reason="other")
    assert main(["compare", "--only", "S", *file]) == 0
    assert main(["compare", *file]) == 1
    out = capsys.readouterr().out
    assert "M: 1 tables differ" in out
    assert "  c moves: changed: reason\n" in out


def test_a_record_that_is_not_there_is_named_before_anything_is_planned(
    plans: dict[str, Digests], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the groups without a record, and the command that makes it on the code of before."""
    file = tmp_path / "my record.json"
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "--file", str(file)])
    assert f"{file} has no record of S, M" in capsys.readouterr().err
    main(["record", "--only", "S", "--file", str(file)])
    plans.clear()
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "--file", str(file)])
    message = capsys.readouterr().err
    assert f"{file} has no record of M: " in message
    assert f"python -m benchmarks.as_before record --only M --file '{file}'\n" in message
