"""Samples -> loads of partitions, and the names of topics."""

from datetime import datetime, timedelta

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from optimizer.settings import Metrics
from optimizer.stages.validate.metric_rates import loads_in_window
from optimizer.stages.validate.metric_topics import resolve_topics
from tests.stages.tables import table

START = datetime(2026, 1, 1)
Sample = tuple[str, str | None, int | None, int | None, int | None, float]
Rows = dict[str, list[Row]]


def _samples(spark: SparkSession, cases: dict[str, list[Sample]]) -> DataFrame:
    """Samples of (metric, topic, partition, broker_id, minutes or None, value); each case is a separate cluster.

    Each sample of a case is a line of a file of its own.
    """
    rows = [
        (case, "r", f"f{line}", line, *sample[:4], None if at is None else START + timedelta(minutes=at), sample[5])
        for case, samples in cases.items()
        for line, sample in enumerate(samples, start=1)
        for at in [sample[4]]
    ]
    return table(spark, "bronze_metrics", rows)


def _by_case(rows: list[Row]) -> Rows:
    by_case: Rows = {}
    for row in rows:
        by_case.setdefault(row.cluster_id, []).append(row)
    return by_case


GAUGES: list[Sample] = [("in_bytes_per_s", "a", 0, None, i, float(i)) for i in range(101)]
RATES: list[tuple[str, list[Sample], tuple[int | None, ...] | None]] = [
    ("no rates: only a size", [("size_bytes", "a", 0, None, None, 9.0)], (9, None, None, 0)),
    ("percentile 95 of 0..100", GAUGES, (None, 95, None, 101)),
    (
        "interpolated and rounded",
        [("out_bytes_per_s", "a", 0, None, i, v) for i, v in ((0, 0.0), (1, 10.0))],
        (None, None, 10, 2),
    ),
    (
        "the newest size of the largest replica",
        [("size_bytes", "a", 0, b, m, v) for b, m, v in ((1, 0, 50.0), (1, 1, 7.0), (2, 0, 8.0))],
        (8, None, None, 0),
    ),
    (
        "a counter is a rate, the restart counts from 0",
        [("in_bytes_total", "a", 0, 1, m, v) for m, v in ((0, 600.0), (1, 1200.0), (2, 600.0))],
        (None, 10, None, 2),
    ),
    (
        "counters of two brokers are two series",
        [("in_bytes_total", "a", 0, b, m, v) for b, m, v in ((1, 0, 0.0), (2, 0, 9e9), (1, 1, 60.0), (2, 1, 9e9))],
        (None, 1, None, 1),
    ),
    ("one sample of a counter gives no rate", [("in_bytes_total", "a", 0, 1, 0, 600.0)], None),
    (
        "the same sample twice counts once",
        [("in_bytes_total", "a", 0, 1, m, v) for m, v in ((0, 0.0), (0, 0.0), (1, 60.0), (1, 60.0))],
        (None, 1, None, 1),
    ),
    (
        "a sample before the window is left out",
        [("in_bytes_per_s", "a", 0, None, m, v) for m, v in ((0, 1e9), (61, 4.0), (24 * 60, 4.0))],
        (None, 4, None, 2),
    ),
    (
        "totals of brokers and sizes of topics are no loads",
        [("size_bytes", "a", None, 1, 0, 5.0), ("in_bytes_per_s", None, None, 1, 0, 5.0)],
        None,
    ),
]
TOPIC_RATES: list[tuple[str, list[Sample], tuple[int | None, ...]]] = [
    (
        "the rate of a topic is the sum over its brokers",
        [("in_bytes_per_s", "a", None, b, m, v) for b, m, v in ((1, 0, 5.0), (1, 1, 5.0), (2, 0, 7.0))],
        (12, None, 2),
    ),
    (
        "counters of a topic are rates of each broker",
        [("out_bytes_total", "a", None, b, m, 60.0 * b * m) for b in (1, 2) for m in (0, 1)],
        (None, 3, 1),
    ),
    (
        "scrapes without broker and time are a broker each",
        [("in_bytes_per_s", "a", None, None, None, 5.0)] * 3,
        (15, None, 1),
    ),
    (
        "without a broker one series is the whole topic",
        [("in_bytes_per_s", "a", None, None, m, 5.0) for m in (0, 1)],
        (5, None, 2),
    ),
]


@pytest.fixture(scope="module")
def loads(spark: SparkSession) -> Rows:
    """Loads of all cases, from one job; the window is 23 hours."""
    samples = _samples(spark, {name: samples for name, samples, _ in (*RATES, *TOPIC_RATES)})
    return _by_case(loads_in_window(samples, Metrics(window_hours=23)).collect())


@pytest.mark.parametrize(("name", "expected"), [(name, expected) for name, _, expected in RATES])
def test_the_load_of_a_partition(loads: Rows, name: str, expected: tuple[int | None, ...] | None) -> None:
    """Size, rates and samples of one partition, by a table of cases."""
    assert [tuple(row)[1:] for row in loads.get(name, [])] == ([("r", "a", 0, *expected)] if expected else [])


@pytest.mark.parametrize(("name", "expected"), [(name, expected) for name, _, expected in TOPIC_RATES])
def test_the_rates_of_a_topic(loads: Rows, name: str, expected: tuple[int | None, ...]) -> None:
    """Rates and samples of a whole topic, by a table of cases: it has no size and no partition."""
    assert [tuple(row)[1:] for row in loads[name]] == [("r", "a", None, None, *expected)]


def test_the_order_of_samples_does_not_matter(spark: SparkSession) -> None:
    """The same samples in another order and other tasks give the same loads."""
    metrics = ("in_bytes_total", "out_bytes_per_s", "size_bytes")
    samples: list[Sample] = [(m, "a", i % 3, 1, i, float(i * i % 17)) for i in range(60) for m in metrics]
    once = loads_in_window(_samples(spark, {"c": samples}), Metrics())
    again = loads_in_window(_samples(spark, {"c": samples[::-1]}).repartition(7), Metrics())
    rows = sorted(map(tuple, once.collect()))
    assert rows == sorted(map(tuple, again.collect()))
    assert len(rows) == 3


TOPICS = ["foo.bar", "foo_bar", "x.y_z", "x_y.z", "only.dots", "plain"]
NAMES: list[tuple[str | None, list[str | None], str | None]] = [
    # exported name, names of the samples afterwards, severity of the report
    ("plain", ["plain"], None),
    ("only_dots", ["only.dots"], None),
    ("only.dots", ["only.dots"], None),
    ("foo_bar", ["foo_bar"], "warning"),
    ("foo.bar", ["foo.bar"], None),
    ("x_y_z", [], "error"),
    ("unknown_one", ["unknown_one"], None),
    (None, [None], None),
]


@pytest.fixture(scope="module")
def resolutions(spark: SparkSession) -> tuple[Rows, Rows]:
    """Samples and reports of all cases, from one job."""
    cases = [str(exported) for exported, _, _ in NAMES]
    known = spark.createDataFrame(
        [(case, "r", topic) for case in cases for topic in TOPICS], "cluster_id string, run_id string, topic string"
    )
    exported: dict[str, list[Sample]] = {
        case: [("size_bytes", NAMES[i][0], 0, None, None, 1.0)] for i, case in enumerate(cases)
    }
    samples, reports = resolve_topics(_samples(spark, exported), known)
    return _by_case(samples.collect()), _by_case(reports.collect())


@pytest.mark.parametrize(("exported", "resolved", "severity"), NAMES)
def test_names_of_topics(
    resolutions: tuple[Rows, Rows], exported: str | None, resolved: list[str | None], severity: str | None
) -> None:
    """The exact name is used first; underscores match dots only if exactly one topic matches; doubts are reported."""
    samples, reports = (rows.get(str(exported), []) for rows in resolutions)
    assert [r.topic for r in samples] == resolved
    assert [(r.severity, r.payload) for r in reports] == ([(severity, exported)] if severity else [])
    assert all("may mean" in r.reason and ": 1 sample " in r.reason for r in reports)
