"""Each table of a comparison has its values in the right column, on the page and on the terminal."""

from dataclasses import replace
from typing import Any

import pandas as pd

from asking.comparison import (
    ADDED,
    DONE,
    IN_FLIGHT,
    NEITHER,
    ONLY_A,
    ONLY_B,
    OTHER_LIST,
    REMOVED,
    SAME_LIST,
    Change,
    Comparison,
    PartitionChanges,
    PlanDifferences,
    Progress,
    Totals,
    WaveTime,
)
from asking.comparison_words import SHOWN, answer
from asking.sections import Document, Dots, Drawing, Grid, Section, page, text_lines
from tests.asking.small_runs import CLUSTER, run_rows
from tests.emit.texts import by_header, html_tables

GB, MB = 10**9, 10**6
LONG = [f"topic-{number}" for number in range(9)]


def _loads(names: list[str]) -> pd.DataFrame:
    """Topics whose bytes and rates differ, each by other values."""
    columns = ("size_bytes", "in_bytes_per_s", "out_bytes_per_s")
    sides = [f"{name}_{run}" for name in columns for run in "ab"]
    rows = [
        {"topic": topic, **{side: (100 + 10 * number) * n * MB for n, side in enumerate(sides, 1)}}
        for number, topic in enumerate(names)
    ]
    return pd.DataFrame(rows)


def _partition(number: int, kind: str, *, is_done: bool = False, **given: Any) -> dict[str, Any]:
    """A partition with lists, reasons and bytes of its own in both plans."""
    names = ("current_replicas", "proposed_replicas", "reason_codes")
    texts = {f"{name}_{run}": f"{name[:2]} {run}{number}" for name in names for run in "ab"}
    sizes = {"moved_bytes_a": (10 + number) * GB, "moved_bytes_b": (20 + number) * GB}
    key = {"topic": "t<b>", "partition": number, "kind": kind, "is_done": is_done}
    return {**key, **texts, **sizes, **given}


EMPTY = pd.DataFrame()
REASONS = {
    **{"reason": "drain", "partitions_a": 1, "copies_a": 2, "bytes_a": 3 * GB},
    **{"partitions_b": 4, "copies_b": 5, "bytes_b": 6 * GB},
}
PLANS = PlanDifferences(
    pd.DataFrame([
        _partition(1, OTHER_LIST),
        _partition(2, ONLY_A, current_replicas_b="cu a2"),
        _partition(3, ONLY_B),
        _partition(4, ONLY_A, is_done=True),
        _partition(5, SAME_LIST),
    ]),
    pd.DataFrame([REASONS]),
)  # fmt: skip
STATES = pd.DataFrame([
    {"topic": "t<b>", "partition": number, "current_replicas": f"old {number}", "proposed_replicas": f"new {number}",
     "now": f"now {number}", "moved_bytes": 2**number * GB, "state": state, "is_reordered": number == 4}
    for number, state in enumerate((DONE, IN_FLIGHT, IN_FLIGHT, NEITHER, NEITHER))
])  # fmt: skip
COMPARISON = Comparison(
    CLUSTER,
    (run_rows("r1", {}), run_rows("r2", {})),
    requests=(Change("policy.<b>", "setting", 1, 2), Change("topics", "setting", LONG[:7], LONG[1:])),
    brokers=(
        Change("3", "rack", "a<b>", "z<i>"),
        Change("4", "disk_capacity_bytes", GB, None),
        Change("5", ADDED),
        Change("6", REMOVED),
    ),
    topics=tuple(Change(f"t<b>{number:02d}", "partitions", number, 50 + number) for number in range(SHOWN + 2)),
    partitions=PartitionChanges(
        (Totals(1, 2, 3 * GB, 4 * MB, 5 * MB, 6, 7, 8), Totals(11, 12, 13 * GB, 14 * MB, 15 * MB, 16, 17, 18)),
        added=EMPTY,
        removed=EMPTY,
        lists=EMPTY,
        sizes=EMPTY,
        rates=EMPTY,
        topics=_loads(["one<b>", "two"]),
    ),
    figures=pd.DataFrame(
        [("moved_bytes", GB, 2 * GB, 3 * GB, 4 * GB), ("brokers_outside_bands", 5, 6, 7, None)],
        columns=["figure", "before_a", "after_a", "before_b", "after_b"],
    ),
    plans=PLANS,
    progress=Progress(STATES, other_changes=3),
    waves=(
        WaveTime("r1", 1, 10, GB, 7, 600, 540, 720, has_ended=True, measured_seconds=660.0),
        WaveTime("r1", 2, 20, 2 * GB, 0, 1200, 1140, 1320, has_ended=True, measured_seconds=None),
        WaveTime("r2", 1, 30, 3 * GB, None, 1800, 1740, 1920, has_ended=False, measured_seconds=None),
    ),
)
TABLES = {
    "Requests, part 1": by_header(
        ("setting", "A", "B"),
        ["policy.<b>", "1", "2"],
        ["topics", '["topic-0"] and 6 in both', '["topic-7", "topic-8"] and 6 in both'],
    ),
    "Cluster, part 1": by_header(
        ("", "A", "B"),
        ["Partitions", "1", "11"],
        ["Replicas", "2", "12"],
        ["Bytes on all brokers", "3.00 GB", "13.0 GB"],
        ["Produced per second", "4.00 MB/s", "14.0 MB/s"],
        ["Consumed per second", "5.00 MB/s", "15.0 MB/s"],
        ["Partitions with a replica out of sync", "6", "16"],
        ["Partitions without a leader", "7", "17"],
        ["Partitions being reassigned", "8", "18"],
    ),
    "Cluster, part 2": by_header(
        ("broker", "difference", "A", "B"),
        ["3", "rack", "a<b>", "z<i>"],
        ["4", "disk capacity", "1.00 GB", "-"],
        ["5", "only in B", "", ""],
        ["6", "only in A", "", ""],
    ),
    "Cluster, part 3": by_header(
        ("topic", "difference", "A", "B"),
        *([f"t<b>{number:02d}", "partitions", str(number), str(50 + number)] for number in range(SHOWN)),
    ),
    "Cluster, part 6": by_header(
        ("topics whose bytes changed most", "A", "B"),
        ["one<b>", "100 MB", "200 MB"],
        ["two", "110 MB", "220 MB"],
    ),
    "Cluster, part 7": by_header(
        ("topics whose rates changed most", "produced A", "produced B", "consumed A", "consumed B"),
        ["two", "330 MB/s", "440 MB/s", "550 MB/s", "660 MB/s"],
        ["one<b>", "300 MB/s", "400 MB/s", "500 MB/s", "600 MB/s"],
    ),
    "Plans, part 1": by_header(
        ("", "A", "B"),
        ["Bytes copied", "2.00 GB", "4.00 GB"],
        ["Brokers outside bands (replicas, disk, bytes in)", "5 -> 6", "7 -> -"],
    ),
    "Plans, part 2": by_header(
        ("reason", "partitions A", "copies A", "bytes A", "partitions B", "copies B", "bytes B"),
        ["drain", "1", "2", "3.00 GB", "4", "5", "6.00 GB"],
    ),
    "Plans, part 3": by_header(
        ("changed by", "partitions", "bytes A", "bytes B"),
        ["both plans, to the same list", "1", "15.0 GB", "25.0 GB"],
        ["both plans, to another list", "1", "11.0 GB", "21.0 GB"],
        ["only plan A", "2", "26.0 GB", "46.0 GB"],
        ["of them, done before run B", "1", "14.0 GB", "24.0 GB"],
        ["only plan B", "1", "13.0 GB", "23.0 GB"],
    ),
    "Plans, part 4": by_header(
        ("largest differences", "list in A", "list in B", "plan A", "reason", "plan B", "reason", "bytes"),
        ["t<b>-1", "cu a1", "cu b1", "pr a1", "re a1", "pr b1", "re b1", "21.0 GB"],
        ["t<b>-2", "cu a2", "same", "pr a2", "re a2", "-", "-", "22.0 GB"],
        ["t<b>-3", "cu a3", "cu b3", "-", "-", "pr b3", "re b3", "23.0 GB"],
    ),
    "From plan A to run B, part 2": by_header(
        ("partitions of plan A that", "partitions", "bytes to copy"),
        ["have the list of plan A", "1", "1.00 GB"],
        ["are being reassigned to it", "2", "6.00 GB"],
        ["still have the list before plan A", "0", "0 B"],
        ["have neither list", "2", "24.0 GB"],
        ["do not exist any more", "0", "0 B"],
    ),
    "From plan A to run B, part 3": by_header(
        ("neither list", "before plan A", "plan A", "in B"),
        ["t<b>-3", "old 3", "new 3", "now 3"],
        ["t<b>-4", "old 4", "new 4", "now 4"],
    ),
    "Times of waves, part 1": by_header(
        ("plan", "wave", "partitions", "done in B", "bytes", "predicted", "interval", "measured"),
        ["A", "1", "10", "7", "1.00 GB", "10 min", "9 min to 12 min", "11 min"],
        ["A", "2", "20", "0", "2.00 GB", "20 min", "19 min to 22 min", "not measured"],
        ["B", "1", "30", "-", "3.00 GB", "30 min", "29 min to 32 min", "-"],
    ),
}


def test_each_table_of_a_comparison_has_its_columns() -> None:
    """All cells differ, so no run, plan or column can stand for another; hostile names stay text."""
    text = page(answer(COMPARISON))
    assert html_tables(text) == TABLES
    assert f"And {len(COMPARISON.topics or ()) - SHOWN} more: --json lists all." in text
    assert "1 of these has the brokers of plan A in another order." in text


def test_a_comparison_begins_with_what_changed() -> None:
    """Counts of what changed, and what the plans copy; only two runs without any difference changed nothing."""
    assert answer(COMPARISON).title == (
        "2 settings, 4 brokers and 12 topics changed; plan A copies 65.0 GB, plan B 115 GB."
    )
    same_plans = replace(PLANS, partitions=PLANS.partitions[PLANS.partitions["kind"] == SAME_LIST])
    equal = replace(COMPARISON, requests=(), brokers=(), topics=(), plans=same_plans)
    assert answer(equal).title == "Nothing changed."
    assert answer(replace(equal, topics=None)).title.startswith("Nothing changed in what can be compared: ")
    assert answer(replace(equal, brokers=(Change("5", ADDED),))).title == "1 broker changed; both plans are the same."


def test_equal_figures_come_last() -> None:
    """Rows that differ are in their section, and equal rows in the last one."""
    assert COMPARISON.partitions and COMPARISON.figures is not None
    totals = COMPARISON.partitions.totals
    half = replace(COMPARISON.partitions, totals=(totals[0], replace(totals[0], replicas=99)))
    document = answer(replace(COMPARISON, partitions=half))
    [first] = [part for part in document.sections[1].parts if isinstance(part, Grid)][:1]
    assert [row[0] for row in first.rows] == ["Replicas"]
    assert document.sections[-1].title == "The same in both runs"
    [grid] = document.sections[-1].parts
    assert isinstance(grid, Grid) and len(grid.rows) == 7


DOTS = Drawing("Disks <b>", [Dots("--drain <i>", [10.4, 20.8], [31.2]), Dots("other", [41.6], [52.0, 62.4])])
GRID = Grid(("", "now", "after <u>"), [["Waves <b>", "1", "22"], ["Time", "", "-> 4 h"], ["Bytes", "5 B", "66 GB"]])
DOCUMENT = Document("Title <b>", ["head <i>"], [Section("Plans", ["Text.", GRID]), Section("Disks", [DOTS])])


def test_the_page_of_an_answer_has_the_cells_of_its_tables() -> None:
    """Each cell below its header; dots of each plan before and after."""
    assert html_tables(page(DOCUMENT)) == {
        "Plans, part 2": by_header(GRID.header, *GRID.rows),
        "Disks <b>": by_header(
            ("plan", "drawn,"),
            ["--drain <i>", "from:10 from:20 to:low:30"],
            ["other", "from:40 to:low:50 to:low:60"],
        ),
    }


def test_the_text_of_an_answer_has_the_cells_of_its_tables() -> None:
    """Texts start below their header, figures end below it; only pages have drawings."""
    assert list(text_lines(DOCUMENT)) == [
        *("Title <b>", "  head <i>", "", "Plans", "  Text.", ""),
        "             now  after <u>",
        "  Waves <b>    1         22",
        "  Time               -> 4 h",
        "  Bytes      5 B      66 GB",
    ]
