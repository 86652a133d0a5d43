"""Log directories on the pages: the fullest ones, what Kafka alone would fill, and what second copies cost."""

import json
from dataclasses import replace

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.directory_lines import SecondCopies, fullest_directories, overfilled_by_kafka, second_copies
from optimizer.emit.kafka_files import kafka_documents
from optimizer.emit.manifest import manifest
from optimizer.emit.rows import DirectoryRow, FigureRow
from tests.emit.test_pages import synthetic
from tests.emit.texts import report_of, runbook_of

GB = 10**9
DIRS = [{"path": path, "is_open": True} for path in ("/a", "/b")]


def row(
    broker: int, path: str, capacity: int | None, *, before: int, after: int, peak: int, kafka: int
) -> DirectoryRow:
    """A directory with its bytes in GB; its limit is nine tenths."""
    return DirectoryRow(
        broker_id=broker,
        log_dir=path,
        is_open=path != "/closed",
        capacity_bytes=None if capacity is None else capacity * GB,
        limit_bytes=None if capacity is None else capacity * GB * 9 // 10,
        before_bytes=before * GB,
        default_bytes=kafka * GB,
        default_peak_bytes=kafka * GB,
        after_bytes=after * GB,
        peak_bytes=peak * GB,
        peak_wave=1 if peak > before else None,
    )


ROWS = [
    row(1, "/a", 100, before=50, after=60, peak=70, kafka=105),
    row(1, "/closed", 100, before=95, after=95, peak=95, kafka=95),
    row(2, "/a", None, before=5, after=5, peak=5, kafka=5),
    row(2, "/b", 100, before=0, after=0, peak=0, kafka=0),
]


def plan_of(*, names: bool = False, rows: list[DirectoryRow] | None = None) -> ClusterPlan:
    """Three replicas of 1 GB arrive at brokers 1, 2 and 3; two of them get a directory."""
    plan = synthetic(4, partitions=3)
    changed = [
        replace(change, planned_log_dirs=["/a"] if change.proposed_replicas[0] < 3 else None) for change in plan.changed
    ]
    brokers = [replace(broker, log_dirs=DIRS) for broker in plan.brokers]
    figures = [FigureRow("fullest_directory_percent", "Fullest log directory", 50.0, None, 60.0, 70.0)]
    return replace(
        plan,
        changed=changed,
        brokers=brokers,
        directories=ROWS if rows is None else rows,
        plan_log_dirs=names,
        summary=[*plan.summary, *figures],
    )


def test_the_fullest_come_first_and_unknown_ones_last() -> None:
    """An empty directory is not an unknown one."""
    assert [(d.broker_id, d.log_dir) for d in fullest_directories(plan_of())] == [
        *[(1, "/closed"), (1, "/a"), (2, "/b")],
        (2, "/a"),
    ]
    html = report_of(plan_of())
    assert html.index("/closed</td>") < html.index("/a</td>") < html.index("/b</td>")
    assert "failed or cordoned, over its limit" in html
    assert "have no limit" not in html
    assert "have no limit" in report_of(plan_of(rows=ROWS[2:3]))
    assert "log directories" not in report_of(plan_of(rows=[]))


def test_what_kafka_alone_would_overfill_is_a_warning() -> None:
    """Not one that was as full before."""
    assert overfilled_by_kafka(plan_of()) == ROWS[0]
    assert overfilled_by_kafka(plan_of(rows=ROWS[1:])) is None
    assert "/a of broker 1 could fill to 105 % of its capacity" in runbook_of(plan_of())
    quiet = runbook_of(plan_of(rows=ROWS[1:]))
    assert ("do not execute this plan by hand" in quiet, "`log-dirs.json` of a wave" in quiet) == (False, True)
    assert "**Directories.**" not in runbook_of(plan_of(rows=[]))


def test_names_for_kafkas_tool_cost_second_copies_at_a_rate() -> None:
    """Two replicas of 1 GB; the busier broker copies 1 GB at 50 MB/s. The rollback copies twice, too."""
    assert second_copies(plan_of()) is None
    plan = plan_of(names=True)
    assert second_copies(plan) == SecondCopies(replicas=2, size_bytes=2 * GB, seconds=GB / plan.copy_bytes_per_s)
    book = runbook_of(plan)
    commands = [line for line in book.splitlines() if "--execute" in line and line.startswith("kafka-")]
    assert len(commands) >= 2
    assert all(line.endswith('--replica-alter-log-dirs-throttle "$RATE"') for line in commands)
    assert "--delete-config replica.alter.log.dirs.io.max.bytes.per.second" in book
    assert "log-dirs-throttle" not in runbook_of(plan_of())


def test_the_documents_are_sorted_and_the_manifest_has_the_fullest() -> None:
    """By partition and broker, whatever the order of the rows."""
    plan = plan_of()
    back_to_front = replace(plan, changed=plan.changed[::-1])
    texts = {d.path: d.content for d in kafka_documents(back_to_front)}
    entries = json.loads(texts["c/wave-01/log-dirs.json"])["replicas"]
    assert [(e["partition"], e["broker"], e["log_dir"]) for e in entries] == [(0, 1, "/a"), (1, 2, "/a")]
    fullest = json.loads(manifest(plan, []).content)["fullest_directory_percent"]
    assert fullest == {"before": 50.0, "after": 60.0, "worst_moment": 70.0}
