"""Metric files in Spark: samples and quarantined rows."""

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from optimizer.stages.ingest.metric_files import read_metrics
from optimizer.stages.validate.metric_topics import from_records

Rows = list[Row]


def _read(spark: SparkSession, paths: list[Path], **options: Any) -> tuple[Rows, Rows]:
    samples, quarantined = read_metrics(spark, [str(p) for p in paths], cluster_id="c", run_id="r", **options)
    return samples.orderBy("source", "line", "metric").collect(), quarantined.orderBy(
        "source", "line", "rule"
    ).collect()


def _write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_wide_form(spark: SparkSession, tmp_path: Path) -> None:
    """Each value of a line is a sample, in bytes, with its line number; blanks and comments are skipped."""
    file = _write(
        tmp_path / "a b%20+é.csv",
        "# exported by us",
        "topic;partition;broker_id;observed_at;size_kb;in_bytes_per_s;pod",
        "orders;0;7;2026-01-01T00:00:00Z;1.5;20;x",
        "",
        "orders;1;-1;2026-01-01 01:00:00+01:00;;3E2;y",
        "topic;partition;broker_id;observed_at;size_kb;in_bytes_per_s;pod",
        "orders;1;;1767225600;7;;",
    )
    samples, quarantined = _read(spark, [file])
    midnight = datetime(2026, 1, 1)
    assert quarantined == []
    assert [tuple(row)[2:] for row in samples] == [
        ("a b%20+é.csv", 3, "in_bytes_per_s", "orders", 0, 7, midnight, 20.0, "x"),
        ("a b%20+é.csv", 3, "size_bytes", "orders", 0, 7, midnight, 1500.0, "x"),
        ("a b%20+é.csv", 5, "in_bytes_per_s", "orders", 1, None, midnight, 300.0, "y"),
        ("a b%20+é.csv", 7, "size_bytes", "orders", 1, None, midnight, 7000.0, None),
    ]


def test_the_long_form(spark: SparkSession, tmp_path: Path) -> None:
    """A column has the metric's name with its unit; unknown metrics are left out with a warning."""
    file = _write(
        tmp_path / "long.csv",
        "ts,topic,partition,metric,value",
        '1767225600000,"a,b",0,Size MB,2',
        "1767225600000,a,0,bytes_in_total,5",
        "1767225600000,a,0,messages_in,5",
        "1767225600000,a,0,size_bytes,",
    )
    samples, quarantined = _read(spark, [file])
    assert [(r.topic, r.metric, r.value) for r in samples] == [("a,b", "size_bytes", 2e6), ("a", "in_bytes_total", 5.0)]
    assert [(r.line, r.rule, r.severity) for r in quarantined] == [
        (4, "value_known", "warning"),
        (5, "value_given", "error"),
    ]


def test_every_broken_rule_is_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    """Every broken rule of a line is a row with value and line; the other values of the line are used."""
    lines = [
        ("a,-1,x,never,1,2", ["broker_valid", "partition_valid", "time_valid"]),
        (",0,,2026-01-01,1,2", ["topic_given"]),
        ("a,0,,2026-01-01,NaN,-2", ["in_bytes_per_s_not_negative", "size_bytes_is_number"]),
        ("a,0,,2026-01-01,1E19,many", ["in_bytes_per_s_is_number", "size_bytes_in_range"]),
        ("a,0,,2026-01-01,-5,2", ["size_bytes_not_negative"]),
        ("a,0,2026-01-01,1", ["columns_match_header"]),
        ("a,0,,2026-01-01,1,2,3", ["columns_match_header"]),
        ("a,0,,,1,2", ["time_valid"]),
        ("a,99999999999,,2026-01-01,1,2", ["partition_valid"]),
        ("a,0.5,,20260101,1,2", ["partition_valid", "time_valid"]),
        ("a\ufffd,0,,2026-01-01,1,2", ["line_is_text"]),
        ("a,0,,2026-01-01,9E15,9.1E15", ["in_bytes_per_s_in_range"]),
    ]
    header = "topic,partition,broker_id,observed_at,size_bytes,in_bytes_per_s"
    samples, quarantined = _read(spark, [_write(tmp_path / "bad.csv", header, *(text for text, _ in lines))])
    rules_by_line = {i: [r.rule for r in quarantined if r.line == i + 2] for i in range(len(lines))}
    assert rules_by_line == {i: rules for i, (_, rules) in enumerate(lines)}
    expected = [(6, "in_bytes_per_s", 2.0), (13, "size_bytes", 9e15)]
    assert [(r.line, r.metric, r.value) for r in samples] == expected
    assert all(r.payload == lines[r.line - 2][0] and r.reason and r.remedy and r.kind == "metric" for r in quarantined)
    assert any("'99999999999'" in r.reason for r in quarantined)


def test_a_header_without_a_metric_is_one_row(spark: SparkSession, tmp_path: Path) -> None:
    """An unusable file is quarantined with its reason, and the other files are read."""
    bad = _write(tmp_path / "bad.csv", "topic,partition,rack", "a,0,r1")
    empty = _write(tmp_path / "empty.csv", "")
    good = _write(tmp_path / "good.csv", "topic,partition,size_bytes", "a,0,1")
    samples, quarantined = _read(spark, [bad, empty, good])
    assert [(r.source, r.observed_at) for r in samples] == [("good.csv", None)]
    assert [(r.source, r.rule, r.line) for r in quarantined] == [
        ("bad.csv", "known_format", 1),
        ("empty.csv", "known_format", 1),
    ]
    assert "are no metrics" in quarantined[0].reason


def test_a_total_of_a_broker_has_no_topic(spark: SparkSession, tmp_path: Path) -> None:
    """A line without topic and partition is the total of its broker."""
    samples, quarantined = _read(spark, [_write(tmp_path / "t.csv", "topic,partition,broker,in_mb_per_s", ",,3,2")])
    assert quarantined == []
    assert [(r.topic, r.partition, r.broker_id, r.value) for r in samples] == [(None, None, 3, 2e6)]


def test_lines_are_numbered_across_splits(spark: SparkSession, tmp_path: Path) -> None:
    """Lines have their numbers also in a file that Spark reads in many tasks, and in a compressed file."""
    (tmp_path / "deep").mkdir()
    lines = ["topic,partition,size_bytes", *(f"t,{i},{i}" for i in range(5000))]
    plain = _write(tmp_path / "deep" / "plain.csv", *lines)
    packed = tmp_path / "deep" / "packed.csv.gz"
    packed.write_bytes(gzip.compress(("\r\n".join(lines) + "\r\n").encode()))
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4096")
    try:
        samples, quarantined = read_metrics(
            spark, [str(plain), str(packed)], cluster_id="c", run_id="r", root=str(tmp_path)
        )
        wrong = samples.where("line <> partition + 2").count()
        counts = {r.source: r["count"] for r in samples.groupBy("source").count().collect()}
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before or "128m")
    assert (wrong, quarantined.count()) == (0, 0)
    assert counts == {"deep/plain.csv": 5000, "deep/packed.csv.gz": 5000}


def test_parquet(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet's own types are read as the same table, numbered by row, and broken rows are shown as JSON."""
    path = tmp_path / "m.parquet"
    spark.sql(
        "SELECT * FROM VALUES ('a', 0L, TIMESTAMP '2026-01-01', 5L, 1.5D), ('a', -2L, TIMESTAMP '2026-01-01', 6L, 2D) "
        "AS t(topic, partition, observed_at, size_mb, in_bytes_per_s)"
    ).coalesce(1).write.parquet(str(path))
    samples, quarantined = _read(spark, [path])
    assert [(r.line, r.metric, r.value, r.observed_at) for r in samples] == [
        (1, "in_bytes_per_s", 1.5, datetime(2026, 1, 1)),
        (1, "size_bytes", 5e6, datetime(2026, 1, 1)),
    ]
    assert [(r.line, r.rule) for r in quarantined] == [(2, "partition_valid")]
    assert '"partition":-2' in quarantined[0].payload


def test_no_files_give_no_rows(spark: SparkSession) -> None:
    """Without a file both tables are empty."""
    assert _read(spark, []) == ([], [])


@pytest.mark.parametrize("at", ["2026-01-01T00:00:00.500Z", None])
def test_records_of_an_exposition(spark: SparkSession, at: str | None) -> None:
    """Records of kind metric become samples; other kinds are left out."""
    fields = {"metric": "size_bytes", "topic": "a", "partition": 1, "broker_id": None, "observed_at": at, "value": 2.0}
    payload = json.dumps({**fields, "instance": "x"})
    records = spark.createDataFrame(
        [("c", "r", "p.txt", 4, "metric", payload), ("c", "r", "p.txt", 5, "malformed", "{}")],
        "cluster_id string, run_id string, source string, line int, kind string, payload string",
    )
    (row,) = from_records(records).collect()
    expected = datetime(2026, 1, 1, 0, 0, 0, 500_000) if at else None
    assert tuple(row) == ("c", "r", "p.txt", 4, "size_bytes", "a", 1, None, expected, 2.0, "x")
