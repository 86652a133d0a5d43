"""Tiered topics: the bytes of a copy from the leader's size and offsets, and the brokers that skip tiered segments."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from optimizer.settings import Metrics
from optimizer.stages.snapshot import snapshot
from optimizer.stages.validate import validate
from sources.record import Record
from tests.stages import bronze
from tests.stages.bronze import RACKS, brokers, partition, size

KB = 1000
FLAG = "follower.fetch.last.tiered.offset.enable"


@dataclass(frozen=True)
class Case:
    """A partition of a tiered topic, on the brokers 1, 2 and 3; broker 1 leads.

    Parameters
    ----------
    sizes : tuple of int
        KB of the replicas on the brokers 1, 2 and 3.
    offsets : mapping
        Earliest, earliest-local, earliest-pending-upload and latest, as far as they are known.
    copied : tuple
        KB of a copy to a broker that skips nothing, and to one that skips what is tiered; and where they are from.
    """

    sizes: tuple[int, ...]
    offsets: dict[str, int | None]
    copied: tuple[float, float | None, str]


def at(local: int | None, pending: int | None, latest: int | None, earliest: int = 0) -> dict[str, int | None]:
    """Offsets of a partition."""
    return {"earliest": earliest, "earliest_local": local, "earliest_pending_upload": pending, "latest": latest}


# Measured on Kafka 4.3.1 (issue of tiered storage): the first number is the size of the leader in log directories.
CASES = {
    "uploaded, a third is local": Case((21340,) * 3, at(4160, 6240, 6291), (21340, 510.75, "offsets")),
    "all is still local": Case((63010,) * 3, at(0, 6240, 6291), (63010, 63010, "offsets")),
    "records were deleted": Case((43220,) * 3, at(2000, 6240, 6291, earliest=2000), (43220, 513.70, "offsets")),
    "half is not uploaded": Case((21310,) * 3, at(4160, 5200, 6291), (21310, 10909.99, "offsets")),
    "nothing is uploaded": Case((28000,) * 3, at(3500, 3500, 6291), (28000, 28000, "offsets")),
    "the leader is fresh": Case((510, 21340, 21340), at(6240, 6240, 6291), (510, 510, "offsets")),
    "more was uploaded since": Case((100,) * 3, at(4160, 6300, 6291), (100, 0, "offsets")),
    "an empty log": Case((0,) * 3, at(6291, 6291, 6291), (0, 0, "offsets")),
    "before Kafka 4.3": Case((500, 600, 600), at(4160, None, 6291), (500, None, "offsets")),
    "no offsets": Case((500, 600, 600), {}, (600, None, "upper_bound")),
    "an unknown offset": Case((500, 600, 600), at(None, 6240, 6291), (600, None, "upper_bound")),
    "contradicting offsets": Case((500, 600, 600), at(7000, 7000, 6291), (600, None, "upper_bound")),
}


# The ends of the replicas of the first partition; the leader's is above its high watermark, 6,291.
ENDS = {3: 6291, 2: 6000, 1: 6300}


def _records(configs: str) -> Iterator[Record]:
    fields = {"topic_id": "id", "partition_count": len(CASES), "replication_factor": 3, "marked_for_deletion": False}
    yield from brokers(RACKS)
    yield Record("topic", 1, {"topic": "t", "configs": configs, **fields})
    for number, case in enumerate(CASES.values()):
        yield partition(number, [1, 2, 3])
        yield from (size(broker, number, kb * KB) for broker, kb in enumerate(case.sizes, start=1))
        for line, (time, offset) in enumerate(case.offsets.items(), start=10 * number + 1):
            yield Record("offset", line, {"topic": "t", "partition": number, "time": time, "offset": offset})
    for broker, end in ENDS.items():
        payload = {"topic": "t", "partition": 0, "time": "replica_latest", "broker_id": broker, "offset": end}
        yield Record("offset", 900 + broker, payload)
    yield Record("offset", 999, {"topic": "gone", "partition": 0, "time": "latest", "offset": 5})


def _config(entity_type: str, entity: str, value: str, *, is_static: bool = False) -> Record:
    key = {"entity_type": entity_type, "entity_name": entity, "name": FLAG}
    return Record("config", 7, {**key, "value": value, "sensitive": False, "is_static": is_static})


# Of each cluster the configs, and the brokers that skip what is tiered.
FLAGS: dict[str, tuple[list[Record], dict[int, bool | None]]] = {
    "unset": ([], {1: None, 2: None, 3: None}),
    "one": ([_config("brokers", "2", "true")], {1: None, 2: True, 3: None}),
    "all": ([_config("cluster", "<default>", "true")], {1: True, 2: True, 3: True}),
    "order": (
        [
            *(_config("cluster", "<default>", "true"), _config("brokers", "1", "false")),
            _config("brokers", "2", "false", is_static=True),
        ],
        {1: False, 2: True, 3: True},
    ),
    "file": ([_config("brokers", "3", "true", is_static=True)], {1: None, 2: None, 3: True}),
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, list[Any]]:
    """Quarantine, instance and its brokers: a cluster for each of FLAGS, and ``plain`` whose topic is not tiered."""
    tiered = list(_records("cleanup.policy=delete,remote.storage.enable=true"))
    clusters = {name: [*tiered, *configs] for name, (configs, _) in FLAGS.items()}
    clusters["plain"] = [*_records("remote.storage.enable=false"), _config("cluster", "<default>", "true")]
    run = bronze.run_of(spark, bronze.settings_of([*clusters], metrics=Metrics(rates_required=False)))
    inputs = {"bronze_records": bronze.bronze(spark, clusters), "bronze_metrics": bronze.metrics(spark, [])}
    silver = {name: frame.localCheckpoint() for name, frame in validate.build(inputs, run).items()}
    frames = {**silver, **snapshot.build(silver, run)}
    names = ("quarantine", "instance", "instance_brokers", "quality_results")
    return {name: frames[name].collect() for name in names}


def _copies(tables: dict[str, list[Any]], cluster: str) -> dict[str, tuple[Any, ...]]:
    rows = sorted((row for row in tables["instance"] if row.cluster_id == cluster), key=lambda row: row.partition)
    return {
        name: (row.size_bytes, row.copy_bytes, row.tiered_copy_bytes, row.copy_source)
        for name, row in zip(CASES, rows, strict=True)
    }


def test_a_copy_has_the_bytes_that_kafka_transfers(tables: dict[str, list[Any]]) -> None:
    """The leader's size, and of it the share of records that are not in tiered storage; an upper bound without offsets.

    The size of the partition stays that of its largest replica.
    """
    copies = _copies(tables, "unset")
    for name, case in CASES.items():
        size_bytes, plain, tiered, source = copies[name]
        expected_plain, expected_tiered, expected_source = case.copied
        assert (size_bytes, plain, source) == (max(case.sizes) * KB, expected_plain * KB, expected_source), name
        known = None if expected_tiered is None else pytest.approx(expected_tiered * KB, rel=1e-3)
        assert tiered == known, name
    assert all(_copies(tables, cluster) == copies for cluster in FLAGS)


def test_a_topic_that_is_not_tiered_is_copied_whole(tables: dict[str, list[Any]]) -> None:
    """Whatever offsets and brokers say: the plan is as without them."""
    assert _copies(tables, "plain") == {
        name: (max(case.sizes) * KB, max(case.sizes) * KB, None, "size") for name, case in CASES.items()
    }


def test_what_a_replica_lacks_is_counted_from_its_own_end(tables: dict[str, list[Any]]) -> None:
    """Of all records on the leader's disk, tiered or not; a replica whose end was never read is in no list."""
    for cluster in ("unset", "plain"):
        rows = sorted((row for row in tables["instance"] if row.cluster_id == cluster), key=lambda row: row.partition)
        lags = {
            name: (row.log_records, row.lag_brokers, row.lag_records) for name, row in zip(CASES, rows, strict=True)
        }
        assert lags.pop("uploaded, a third is local") == (6300 - 4160, [1, 2, 3], [0, 300, 9])
        known = {"no offsets": None, "an unknown offset": 6291, "contradicting offsets": 6291}
        expected: dict[str, tuple[Any, ...]] = {
            name: (6291 - (case.offsets.get("earliest_local") or 0), None, None) for name, case in CASES.items()
        }
        expected |= {name: (records, None, None) for name, records in known.items()}
        assert lags == {name: expected[name] for name in lags}


@pytest.mark.parametrize("cluster", FLAGS)
def test_the_config_of_each_broker_decides_for_its_copies(cluster: str, tables: dict[str, list[Any]]) -> None:
    """The broker's dynamic value comes before the cluster's, and that before the broker's own file."""
    rows = [row for row in tables["instance_brokers"] if row.cluster_id == cluster]
    assert {row.broker_id: row.skips_tiered for row in rows} == FLAGS[cluster][1]


def test_bad_offsets_are_quarantined_and_the_run_continues(tables: dict[str, list[Any]]) -> None:
    """Each contradiction is one row, with both offsets."""
    rows = [(row.rule, row.severity, row.reason) for row in tables["quarantine"] if row.cluster_id == "one"]
    number = [*CASES].index("contradicting offsets")
    order = f"t-{number}: earliest-local 7000 is not between earliest 0 and latest 6291"
    assert sorted(row for row in rows if row[0].startswith("offset")) == [
        ("offset_of_known_partition", "warning", "there is an offset of gone-0, but no description has this partition"),
        ("offsets_in_order", "error", order),
    ]
    assert not [row for row in tables["quality_results"] if row.severity == "critical" and not row.success]
