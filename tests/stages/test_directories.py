"""Validate: directories of brokers, what they hold and how large they are, and what the tables make of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import SparkSession

from optimizer.stages.validate import validate
from sources.record import Record
from tests.stages import bronze
from tests.stages.bronze import capacity, directory, healthy

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """What is told of directories.

    Parameters
    ----------
    told : mapping
        Part of what each rule says that it breaks, by rule; no other rule is broken.
    disks : mapping, optional
        Disk capacity by broker, of brokers 1 to 3; None where it does not matter.
    dirs : mapping
        Capacity of each directory, of those that matter.
    """

    records: Sequence[Record]
    told: Mapping[str, str] = field(default_factory=dict)
    disks: Mapping[int, int | None] | None = None
    dirs: Mapping[tuple[int, str], int | None] = field(default_factory=dict)


def on_disks(disks: Mapping[int, Mapping[str, int | None]], *capacities: Record) -> list[Record]:
    """A healthy cluster with these directories of its brokers, and what the brokers say of their sizes."""
    rest = [r for r in healthy() if r.kind not in ("log_dir", "capacity")]
    return [*rest, *(directory(b, path, size) for b, dirs in disks.items() for path, size in dirs.items()), *capacities]


def default(**sizes: int) -> list[Record]:
    """Directories of broker -1: d=500 is /d of 500 bytes."""
    return [capacity(-1, size, f"/{name}") for name, size in sizes.items()]


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
        {"holder_tells_of_directories": "broker 3 holds 4 replicas, but tells of no directory"},
        {1: 7_000, 2: 7_000, 3: 12_000},
    ),
    "default-of-some-disks": Case(
        on_disks({1: UNTOLD, 2: {"/d": None}, 3: {"/d": None}}, *default(d=3_000)),
        {"disks_have_capacity": "broker 1 has directories without a known capacity: /e; its disks count 3000 bytes"},
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
        {"disks_have_capacity": "broker 2 has directories without a known capacity: /e; its disks count 3000 bytes"},
        {1: 9_000, 2: 3_000, 3: 1_300},
        {(1, "/d"): None, (2, "/d"): 3_000, (2, "/e"): None, (3, "/e"): 700},
    ),
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Mapping[str, Sequence[Row]]:
    """One run over every case, each a cluster of its own: rows by table."""
    settings = bronze.settings_of(list(CASES))
    inputs = {
        "bronze_records": bronze.bronze(spark, {name: case.records for name, case in CASES.items()}),
        "bronze_metrics": bronze.metrics(spark, []),
    }
    frames = validate.build(inputs, bronze.run_of(spark, settings))
    names = ("brokers", "input_findings", "log_dirs", "quality_results", "quarantine", "replicas")
    return {name: [row.asDict() for row in frames[name].collect()] for name in names}


def of(rows: Sequence[Row], cluster: str) -> list[Row]:
    """Rows of one cluster."""
    return [row for row in rows if row["cluster_id"] == cluster]


@pytest.mark.parametrize("name", CASES)
def test_directories_that_do_not_fit_are_findings(tables: Mapping[str, Sequence[Row]], name: str) -> None:
    """Each case breaks the rules that it should and no other, and none stops the run."""
    told = CASES[name].told
    results = of(tables["quality_results"], name)
    assert {row["rule"] for row in results if not row["success"]} == set(told)
    assert not [row["rule"] for row in results if not row["success"] and row["severity"] == "critical"]
    details = {row["rule"]: row["detail"] for row in of(tables["input_findings"], name)}
    assert {rule: part in details.get(rule, "") for rule, part in told.items()} == dict.fromkeys(told, True), details


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.disks])
def test_only_directories_that_a_broker_has_count(tables: Mapping[str, Sequence[Row]], name: str) -> None:
    """What is given for others is left out of the broker's capacity; a directory gets what is given for it."""
    disks = {row["broker_id"]: row["disk_capacity_bytes"] for row in of(tables["brokers"], name)}
    assert disks == CASES[name].disks
    dirs = {(row["broker_id"], row["log_dir"]): row["capacity_bytes"] for row in of(tables["log_dirs"], name)}
    assert {key: dirs[key] for key in CASES[name].dirs} == CASES[name].dirs
