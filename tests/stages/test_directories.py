"""Validate: directories of brokers, what they hold and how large they are, and what the tables make of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from optimizer.domain import Cause
from optimizer.stages.snapshot import snapshot
from optimizer.stages.validate import validate
from sources.record import Record
from tests.stages import bronze
from tests.stages.bronze import (
    LISTS,
    brokers,
    capacity,
    directory,
    healthy,
    load,
    partition,
    partitions,
    size,
    sizes,
    without,
)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A cluster with directories, and the expected findings and capacities.

    Parameters
    ----------
    details : mapping
        Part of what each rule says that it breaks, by rule; no other rule is broken.
    disks : mapping, optional
        Disk capacity by broker, of brokers 1 to 3; None where it does not matter.
    dirs : mapping
        Capacity of each directory, of those that matter.
    held : mapping
        Directory and size of replicas, by partition and broker, of those that matter.
    used : mapping, optional
        Bytes by directory; None where it does not matter.
    logs : mapping
        Logs of directories, of those that matter.
    closed : set, optional
        Directories in which Kafka creates no log; None where it does not matter.
    older : sequence of Record
        Of an output that was taken an hour before.
    newest_by : str
        What shows that: ``written``, the time of its file; ``captured``; or, of equal times, its ``name``.
    """

    records: Sequence[Record]
    details: Mapping[str, str] = field(default_factory=dict)
    disks: Mapping[int, int | None] | None = None
    dirs: Mapping[tuple[int, str], int | None] = field(default_factory=dict)
    held: Mapping[tuple[int, int], tuple[str | None, int | None]] = field(default_factory=dict)
    used: Mapping[tuple[int, str], int] | None = None
    logs: Mapping[tuple[int, str], int] = field(default_factory=dict)
    closed: set[tuple[int, str]] | None = None
    older: Sequence[Record] = ()
    newest_by: str = "written"


def on_disks(disks: Mapping[int, Mapping[str, int | None]], *capacities: Record) -> list[Record]:
    """A healthy cluster with these directories of its brokers, and what the brokers say of their sizes."""
    rest = [r for r in healthy() if r.kind not in ("log_dir", "capacity")]
    return [*rest, *(directory(b, path, size) for b, dirs in disks.items() for path, size in dirs.items()), *capacities]


def default(**sizes: int) -> list[Record]:
    """Directories of broker -1: d=500 is /d of 500 bytes."""
    return [capacity(-1, size, f"/{name}") for name, size in sizes.items()]


def resized(broker_id: int, number: int, *logs: Record) -> list[Record]:
    """A healthy cluster with other logs of one replica, and a second directory of its broker."""
    rest = [
        r
        for r in healthy()
        if r.kind != "log_dir_replica" or (r.payload["broker_id"], r.payload["partition"]) != (broker_id, number)
    ]
    return [*rest, directory(broker_id, "/e"), *logs]


def bucket(name: str, **more: Any) -> list[Record]:
    """A directory of every broker that is none, with far more in it than on the disks."""
    directories = [Record("log_dir", 3, {**directory(b, name).payload, **more}) for b in (1, 2, 3)]
    return [*directories, *(size(b, p, 10**6, log_dir=name) for p, replicas in LISTS.items() for b in replicas)]


def planned(name: str) -> list[Record]:
    """A healthy cluster without directories, known by an assignment that names one for its first replicas."""
    rest = [r for r in healthy() if r.kind not in ("partition", "log_dir", "log_dir_replica", "partition_load")]
    lists = [
        Record("assignment", 1, {"topic": "t", "partition": p, "replicas": r, "log_dirs": [name, "any", "/e"]})
        for p, r in LISTS.items()
    ]
    return [*rest, *lists, *(load(p, size_bytes=100) for p in LISTS)]


UNTOLD: dict[str, int | None] = {"/d": None, "/e": None}
CASES = {
    "default-of-more-disks": Case(
        on_disks({1: UNTOLD, 2: {"/d": None}, 3: UNTOLD}, *default(d=3_000, e=4_000)),
        disks={1: 7_000, 2: 3_000, 3: 7_000},
        dirs={(1, "/d"): 3_000, (1, "/e"): 4_000, (2, "/d"): 3_000},
    ),
    "default-of-one-that-nobody-has": Case(
        on_disks({1: UNTOLD, 2: UNTOLD, 3: UNTOLD}, *default(d=3_000, e=4_000, gone=9_000)),
        {"capacity_of_known_log_dir": "no broker has the directory /gone of the default capacity; they have /d, /e"},
        {1: 7_000, 2: 7_000, 3: 7_000},
    ),
    "default-where-one-tells-of-none": Case(
        on_disks({1: UNTOLD, 2: UNTOLD}, *default(d=3_000, e=4_000, f=5_000)),
        {"holder_tells_of_directories": "broker 3 holds 4 replicas, but reports no log directory"},
        {1: 7_000, 2: 7_000, 3: 12_000},
    ),
    "default-of-some-disks": Case(
        on_disks({1: UNTOLD, 2: {"/d": None}, 3: {"/d": None}}, *default(d=3_000)),
        {
            "disks_have_capacity": "broker 1 has directories without a known capacity: /e; only its other "
            "directories count, 3000 bytes"
        },
        {1: 3_000, 2: 3_000, 3: 3_000},
        {(1, "/d"): 3_000, (1, "/e"): None},
    ),
    "own-of-a-directory-that-is-gone": Case(
        on_disks(
            {1: {"/d": None}, 2: {"/d": None}, 3: {"/d": 6_000}},
            *(capacity(1, size, path) for path, size in (("/d", 3_000), ("/gone", 9_000))),
            *(capacity(b, 9_000, "/gone") for b in (2, 3)),
            capacity(-1, 5_000),
        ),
        {"capacity_of_known_log_dir": "broker 1 has no directory /gone; it has /d"},
        {1: 3_000, 2: 5_000, 3: 6_000},
    ),
    "own-before-what-the-broker-says": Case(
        on_disks(
            {1: {"/d": 1_000, "/e": 8_000}, 2: {"/d": 1_000, "/e": 8_000}, 3: {"/d": 1_000, "/e": None}},
            *(capacity(b, 2_000, "/d") for b in (1, 2)),
            capacity(2, 9_500),
            *default(d=600, e=700),
        ),
        disks={1: 10_000, 2: 9_500, 3: 1_700},
        dirs={(1, "/d"): 2_000, (1, "/e"): 8_000, (2, "/e"): 8_000, (3, "/d"): 1_000, (3, "/e"): 700},
    ),
    "an-own-capacity-leaves-no-default": Case(
        on_disks(
            {1: UNTOLD, 2: UNTOLD, 3: UNTOLD}, capacity(1, 9_000), capacity(2, 3_000, "/d"), *default(d=600, e=700)
        ),
        {
            "disks_have_capacity": "broker 2 has directories without a known capacity: /e; only its other "
            "directories count, 3000 bytes"
        },
        {1: 9_000, 2: 3_000, 3: 1_300},
        {(1, "/d"): None, (2, "/d"): 3_000, (2, "/e"): None, (3, "/e"): 700},
    ),
    "object-storage": Case(
        [*healthy(), *bucket("remote://bucket")],
        {"log_dir_is_disk": "remote://bucket of broker 1 is not a disk: its content does not count"},
        {1: 10_000, 2: 10_000, 3: 10_000},
        held={(0, 1): ("/d", 100), (0, 2): ("/d", 101)},
        used={(1, "/d"): 403, (2, "/d"): 405, (3, "/d"): 404},
    ),
    "object-storage-that-tells-more": Case(
        [
            *healthy(),
            *bucket("S3A://bucket/x", total_bytes=7, error="unreachable", is_cordoned=True),
            capacity(1, 10**20, "S3A://bucket/x"),
        ],
        {
            "log_dir_is_disk": "S3A://bucket/x of broker 1 is not a disk",
            "capacity_of_known_log_dir": "the capacity of broker 1 names S3A://bucket/x, which is not a disk",
        },
        {1: 10_000, 2: 10_000, 3: 10_000},
        held={(0, 1): ("/d", 100)},
        used={(1, "/d"): 403, (2, "/d"): 405, (3, "/d"): 404},
    ),
    "object-storage-of-brokers-that-tell-of-nothing": Case(
        [
            *planned("remote://bucket"),
            *(capacity(1, 3_000, name) for name in ("/d", "remote://bucket")),
            capacity(-1, 4_000, "remote://bucket"),
        ],
        {"capacity_of_known_log_dir": "names remote://bucket, which is not a disk"},
        {1: 3_000, 2: 10_000, 3: 10_000},
        held={(0, 1): (None, None), (0, 2): (None, None), (0, 3): ("/e", None)},
    ),
    "a-drive-is-a-disk": Case(
        resized(1, 0, size(1, 0, 300, log_dir="C://kafka"), directory(1, "C://kafka")),
        held={(0, 1): ("C://kafka", 300)},
        used={(1, "/d"): 303, (1, "/e"): 0, (1, "C://kafka"): 300, (2, "/d"): 405, (3, "/d"): 404},
    ),
    "moved-between-outputs": Case(
        resized(1, 0, size(1, 0, 60, log_dir="/e")),
        {"replica_size_once": "t-0 on broker 1 has a size in moved-between-outputs.txt, too"},
        held={(0, 1): ("/e", 60)},
        used={(1, "/d"): 303, (1, "/e"): 60, (2, "/d"): 405, (3, "/d"): 404},
        older=[size(1, 0, 100), size(1, 0, 40, log_dir="/e", is_future=True)],
    ),
    "moved-back-between-outputs": Case(
        resized(1, 0, size(1, 0, 60)),
        {"replica_size_once": "t-0 on broker 1 has a size in"},
        held={(0, 1): ("/d", 60)},
        used={(1, "/d"): 363, (1, "/e"): 0, (2, "/d"): 405, (3, "/d"): 404},
        older=[size(1, 0, 900, log_dir="/e"), size(1, 0, 100)],
        newest_by="captured",
    ),
    "a-disk-that-is-gone": Case(
        on_disks({1: {"/d": None}, 2: UNTOLD, 3: UNTOLD}, *default(d=3_000, e=4_000)),
        disks={1: 3_000, 2: 7_000, 3: 7_000},
        used={(1, "/d"): 403, (2, "/d"): 405, (2, "/e"): 0, (3, "/d"): 404, (3, "/e"): 0},
        older=[Record("log_dir", 3, {**directory(1, "/e").payload, "error": "KafkaStorageException"}), directory(1)],
        newest_by="name",
    ),
    "twice-in-one-output": Case(
        resized(1, 0, size(1, 0, 100), size(1, 0, 300, log_dir="/e")),
        {
            "replica_in_one_directory": "t-0 on broker 1 is in two directories of one output, /e and /d; the larger "
            "size is used"
        },
        held={(0, 1): ("/e", 300)},
        used={(1, "/d"): 303, (1, "/e"): 300, (2, "/d"): 405, (3, "/d"): 404},
    ),
}
WIDE = {p: LISTS[p % 4] for p in range(40)}
CASES |= {
    "capacity-of-a-stranger": Case(
        [*healthy(), capacity(8, 5_000), capacity(9, 5_000, "/d")],
        {"capacity_of_known_broker": "there is a capacity for broker 8, but the cluster does not have this broker"},
        {1: 10_000, 2: 10_000, 3: 10_000},
        {(1, "/d"): None},
    ),
    "capacity-in-two-files": Case(
        [*on_disks({1: UNTOLD, 2: UNTOLD, 3: {"/d": None}}), *default(d=3_000, e=4_000)],
        disks={1: 7_000, 2: 7_000, 3: 3_000},
        older=default(d=3_000, e=4_000),
    ),
    "a-size-that-no-disk-has": Case(
        [
            *without(healthy(), "log_dir"),
            *(directory(b, "/d", 9_000) for b in (1, 2, 3)),
            directory(1, "/e", -5),
            *(directory(1, f"/{number}", 10) for number in range(200)),
        ],
        {"log_dir_size_in_range": "directory /e of broker 1 has an impossible size: -5"},
        {1: 11_000, 2: 9_000, 3: 9_000},
    ),
    "a-partition-without-a-size": Case(
        [*brokers(), *partitions(WIDE), *(s for s in sizes(WIDE) if s.payload["partition"] > 0), capacity(-1, 30_000)]
        + [load(p) for p in WIDE],
        {
            "size_known": "t-0 has no size",
            "replica_has_log": "t-0 is in sync on brokers [1,2,3], which report no log of it",
        },
        {1: 30_000, 2: 30_000, 3: 30_000},
        held={(0, 1): (None, None), (1, 1): ("/d", 102)},
    ),
    "a-leader-that-is-no-replica": Case(
        [r for r in healthy() if r.kind != "partition" or r.payload["partition"] != 0]
        + [partition(0, LISTS[0], leader=9, isr=[1, 2, 9])],
        {
            "isr_within_replicas": "t-0: ISR [1,2,9] is not within replicas [1,2,3]",
            "leader_within_replicas": "t-0: leader 9 is not within replicas [1,2,3]",
        },
    ),
}
FUTURE = {"log_dir": "/e", "is_future": True}
CORDONED = {"entity_type": "brokers", "name": "cordoned.log.dirs", "sensitive": False}
CASES |= {
    "cordoned-in-part": Case(
        [
            *(r for r in healthy() if r.kind != "log_dir" or r.payload["broker_id"] == 3),
            *(directory(b, path) for b in (1, 2) for path in ("/d", "/e", "/f")),
            Record("config", 6, {**CORDONED, "entity_name": "1", "value": "/d, /f"}),
            Record("config", 6, {**CORDONED, "entity_name": "3", "value": "*"}),
            Record("log_dir", 3, {**directory(2, "/g").payload, "is_cordoned": True}),
        ],
        {"not_cordoned": "broker 1 has cordoned directories: /d, /f; its other directories receive replicas"},
        closed={(1, "/d"), (1, "/f"), (2, "/g"), (3, "/d")},
    ),
    "failed-in-part": Case(
        [*healthy(), Record("log_dir", 3, {**directory(1, "/e").payload, "error": "KafkaStorageException"})],
        {"log_dir_healthy": "directory /e of broker 1 has failed"},
        closed={(1, "/e")},
    ),
}
CASES |= {
    "moves-between-disks": Case(
        [*healthy(), *(directory(b, "/e") for b in (1, 2)), size(1, 0, 40, **FUTURE), size(2, 0, 0, **FUTURE)],
        {"no_move_between_disks": "2 replicas move between disks of a broker, 201 bytes: t-0 on broker 1 to /e"},
        held={(0, 1): (None, 100), (0, 2): (None, 101), (0, 3): ("/d", 102), (1, 1): ("/d", 102)},
        used={(1, "/d"): 403, (1, "/e"): 40, (2, "/d"): 405, (2, "/e"): 0, (3, "/d"): 404},
        logs={(1, "/d"): 4, (1, "/e"): 1, (2, "/d"): 4, (2, "/e"): 1, (3, "/d"): 4},
    ),
    "a-move-that-has-ended": Case(
        resized(1, 0, size(1, 0, 100, log_dir="/e")),
        {"replica_size_once": "t-0 on broker 1 has a size in"},
        held={(0, 1): ("/e", 100)},
        older=[size(1, 0, 100), size(1, 0, 40, **FUTURE)],
    ),
    "a-move-that-has-begun": Case(
        resized(1, 0, size(1, 0, 100), size(1, 0, 0, **FUTURE)),
        {
            "no_move_between_disks": "1 replica moves between disks of a broker, 100 bytes: t-0 on broker 1 to /e",
            "replica_size_once": "t-0 on broker 1 has a size in",
        },
        held={(0, 1): (None, 100)},
        used={(1, "/d"): 403, (1, "/e"): 0, (2, "/d"): 405, (3, "/d"): 404},
        older=[size(1, 0, 900)],
        newest_by="name",
    ),
    "a-move-of-an-assignment": Case(
        [*planned("/d"), size(1, 0, 40), size(1, 0, 40, **FUTURE)],
        {"no_move_between_disks": "1 replica moves between disks of a broker, 40 bytes"},
        held={(0, 1): (None, 40), (1, 2): ("/d", None), (0, 3): ("/e", None)},
    ),
}


def _older(records: DataFrame) -> DataFrame:
    """Records of the older output of each case: its file has a later name unless the name shows that it is older."""

    def is_by(how: str) -> Column:
        return F.col("cluster_id").isin([name for name, case in CASES.items() if case.newest_by == how])

    hour = F.expr("captured_at - INTERVAL 1 HOUR")
    return records.withColumns(
        {
            "source": F.concat(F.when(is_by("name"), "a-").otherwise("zz-"), "source"),
            "captured_at": F.when(is_by("captured"), hour).otherwise(F.col("captured_at")),
            "written_at": F.when(is_by("written"), hour).otherwise(F.col("written_at")),
        }
    )


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Mapping[str, Sequence[Row]]:
    """One run over every case, each a cluster of its own: rows by table."""
    settings = bronze.settings_of(list(CASES))
    records = bronze.bronze(spark, {name: case.records for name, case in CASES.items()})
    before = bronze.bronze(spark, {name: case.older for name, case in CASES.items()})
    written = {"written_at": F.col("captured_at")}
    inputs = {
        "bronze_records": records.withColumns(written).unionByName(_older(before.withColumns(written))),
        "bronze_metrics": bronze.metrics(spark, []),
    }
    run = bronze.run_of(spark, settings)
    silver = {name: frame.localCheckpoint() for name, frame in validate.build(inputs, run).items()}
    frames = {**silver, **snapshot.build(silver, run)}
    names = ("input_findings", "quality_results", "brokers", "log_dirs", "replicas", "instance", "instance_brokers")
    return {name: [row.asDict() for row in frames[name].collect()] for name in names}


def of(rows: Sequence[Row], cluster: str) -> list[Row]:
    """Rows of one cluster."""
    return [row for row in rows if row["cluster_id"] == cluster]


@pytest.mark.parametrize("name", CASES)
def test_directories_that_do_not_fit_are_findings(tables: Mapping[str, Sequence[Row]], name: str) -> None:
    """Each case breaks the rules that it should and no other, and none stops the run."""
    expected = CASES[name].details
    failed = {row["rule"]: row["severity"] for row in of(tables["quality_results"], name) if not row["success"]}
    assert failed.keys() <= expected.keys()
    assert "critical" not in failed.values()
    details = {row["rule"]: row["detail"] for row in of(tables["input_findings"], name)}
    assert {rule: expected.get(rule, "?") in detail for rule, detail in details.items()} == dict.fromkeys(
        expected, True
    )


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.disks])
def test_only_directories_that_a_broker_has_count(tables: Mapping[str, Sequence[Row]], name: str) -> None:
    """What is given for others is left out of the capacity that is planned with; a directory gets what is its own."""
    for table in ("brokers", "instance_brokers"):
        disks = {row["broker_id"]: row["disk_capacity_bytes"] for row in of(tables[table], name)}
        assert disks == CASES[name].disks
    dirs = {(row["broker_id"], row["log_dir"]): row["capacity_bytes"] for row in of(tables["log_dirs"], name)}
    assert {key: dirs[key] for key in CASES[name].dirs} == CASES[name].dirs


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.disks or case.used or case.closed])
def test_the_plan_knows_the_directories_of_brokers(tables: Mapping[str, Sequence[Row]], name: str) -> None:
    """With capacity, bytes and logs of table ``log_dirs``; null where unknown.

    A single directory has the capacity of its broker, where it has none of its own.
    """
    silver = {(row["broker_id"], row["log_dir"]): row for row in of(tables["log_dirs"], name)}
    planned = {row["broker_id"]: row["log_dirs"] for row in of(tables["instance_brokers"], name)}
    disks = {row["broker_id"]: row["disk_capacity_bytes"] for row in of(tables["instance_brokers"], name)}
    dirs = Counter(broker for broker, _ in silver)
    entries = {(b, entry.path): entry for b, dirs in planned.items() if dirs is not None for entry in dirs}
    assert {key: entry.asDict() for key, entry in entries.items()} == {
        (b, path): {
            "path": path,
            "capacity_bytes": row["capacity_bytes"] or (disks[b] if dirs[b] == 1 else None),
            "used_bytes": row["used_bytes"],
            "logs": row["logs"],
            "is_open": row["error"] is None and not row["is_cordoned"],
        }
        for (b, path), row in silver.items()
    }
    assert {b for b, dirs in planned.items() if dirs is None} == planned.keys() - {b for b, _ in silver}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.held])
def test_a_replica_is_where_its_newest_log_is(tables: Mapping[str, Sequence[Row]], name: str) -> None:
    """Directory and size of a replica; what is no disk has no part in it, and is in no document."""
    rows = of(tables["replicas"], name)
    held = {(row["partition"], row["broker_id"]): (row["log_dir"], row["size_bytes"]) for row in rows}
    assert {key: held[key] for key in CASES[name].held} == CASES[name].held
    planned = {row["partition"]: (row["replicas"], row["log_dirs"]) for row in of(tables["instance"], name)}
    dirs = {(p, b): path for p, lists in planned.items() for b, path in zip(*lists, strict=True)}
    assert {key: dirs[key] for key in CASES[name].held} == {
        key: path or "any" for key, (path, _) in CASES[name].held.items()
    }


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.used])
def test_a_log_fills_one_directory(tables: Mapping[str, Sequence[Row]], name: str) -> None:
    """Every directory is in the table, and what its replicas and future copies fill; nothing counts twice."""
    used = {(row["broker_id"], row["log_dir"]): row["used_bytes"] for row in of(tables["log_dirs"], name)}
    assert used == CASES[name].used


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.used or case.logs])
def test_kafka_counts_logs_and_future_copies(tables: Mapping[str, Sequence[Row]], name: str) -> None:
    """Every replica counts where its log is, and once more where it is copied to."""
    logs = {(row["broker_id"], row["log_dir"]): row["logs"] for row in of(tables["log_dirs"], name)}
    assert {key: logs[key] for key in CASES[name].logs} == CASES[name].logs
    settled = Counter((row["broker_id"], row["log_dir"]) for row in of(tables["replicas"], name) if row["log_dir"])
    assert all(logs[key] >= count for key, count in settled.items())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.closed is not None])
def test_a_directory_that_has_failed_or_is_cordoned_is_not_open(tables: Mapping[str, Sequence[Row]], name: str) -> None:
    """Kafka creates no log there, so that what arrives goes to the others."""
    planned = {row["broker_id"]: row["log_dirs"] for row in of(tables["instance_brokers"], name)}
    assert {(b, entry.path) for b, dirs in planned.items() for entry in dirs if not entry.is_open} == CASES[name].closed


def test_object_storage_is_one_finding_and_closes_no_broker(tables: Mapping[str, Sequence[Row]]) -> None:
    """Its errors are not those of a disk, and every log in it is the same finding. Nor does a disk that is gone."""
    name = "object-storage-that-tells-more"
    assert {row["closed_cause"] for row in of(tables["brokers"], "a-disk-that-is-gone")} == {None}
    findings = of(tables["input_findings"], name)
    assert {row["rule"]: row["rows"] for row in findings} == {"log_dir_is_disk": 3, "capacity_of_known_log_dir": 1}
    assert {row["closed_cause"] for row in of(tables["brokers"], name)} == {None}


def test_what_does_not_count_is_not_planned_with(tables: Mapping[str, Sequence[Row]]) -> None:
    """A partition without a size is planned as an empty one; one whose leader is no replica is left where it is, and
    brokers outside of its replicas are not in sync."""
    unsized = {row["partition"]: row for row in of(tables["instance"], "a-partition-without-a-size")}
    assert (unsized[0]["size_bytes"], unsized[0]["mobility"], unsized[1]["size_bytes"]) == (0, "free", 102)
    led = {row["partition"]: row for row in of(tables["instance"], "a-leader-that-is-no-replica")}
    assert (led[0]["leader"], led[0]["isr"], led[0]["mobility"]) == (None, [1, 2], "fixed")
    assert (led[0]["fixed_cause"], led[1]["mobility"]) == (Cause.LEADERLESS, "free")
