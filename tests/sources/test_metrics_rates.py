"""Samples -> loads of partitions, and the names of topics."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from optimizer import windows_setting
from optimizer.errors import ConfigError
from optimizer.settings import ClusterInput, InstanceBroker, Metrics
from optimizer.stages.validate.metric_rates import loads_in_window
from optimizer.stages.validate.metric_topics import resolve_topics, with_brokers
from optimizer.windows_setting import DAYS, Window
from tests.stages.tables import table

START = datetime(2026, 1, 1)
Sample = tuple[str, str | None, int | None, int | str | None, float | None, float]
Rows = dict[str, list[Row]]


def _samples(spark: SparkSession, cases: dict[str, list[Sample]]) -> DataFrame:
    """Samples of (metric, topic, partition, broker_id or instance, minutes or None, value); each case is a cluster.

    Each sample of a case is a line of a file of its own.
    """
    rows = []
    for case, samples in cases.items():
        for line, (*names, reporter, minutes, value) in enumerate(samples, start=1):
            broker, instance = (None, reporter) if isinstance(reporter, str) else (reporter, None)
            at = None if minutes is None else START + timedelta(minutes=minutes)
            rows.append((case, "r", f"f{line}", line, *names, broker, at, float(value), instance))
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
    (
        "counters of two instances are two series",
        [
            ("in_bytes_total", "a", 0, b, m, v)
            for b, m, v in (("x", 0, 0.0), ("y", 0, 9e9), ("x", 1, 60.0), ("y", 1, 9e9))
        ],
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


def _gauge(reporter: int | str, minutes: Iterable[float], value: float) -> list[Sample]:
    return [("in_bytes_per_s", "a", None, reporter, minute, value) for minute in minutes]


def _counter(reporter: int | str, minutes: Iterable[float], value: float, start: float = 0) -> list[Sample]:
    return [("in_bytes_total", "a", None, reporter, minute, start + 60 * value * minute) for minute in minutes]


FORMS = (("gauges", _gauge, 0), ("counters", _counter, 1))
# The rate of a topic: the same at percentile 1 and 100, and the number of its times.
SUMS: list[tuple[str, list[Sample], tuple[int, int]]] = [
    *(
        (f"{name} of {len(reporters)} reporters at the same times", rows, (10 * len(reporters), 6 - first))
        for name, form, first in FORMS
        for reporters in ((1, 2), ("x", "y", "z"))
        for rows in [[row for reporter in reporters for row in form(reporter, range(6), 10)]]
    ),
    *(
        (f"{name} with an offset for each broker", rows, (40, 6 - first))
        for name, form, first in FORMS
        for rows in [
            [row for offset in (0, 1, 4, 9) for row in form(offset, [minute + offset / 10 for minute in range(6)], 10)]
        ]
    ),
    *(
        (f"{name} that are a little early or late", form(1, range(21), 10) + form(2, late, 10), (20, 21 - first))
        for name, form, first in FORMS
        for late in [[minute + (minute * 7 % 5 - 2) / 50 for minute in range(21)]]
    ),
    ("gauges and a new leader", _gauge(1, range(11), 100) + _gauge(2, range(11, 21), 100), (100, 21)),
    ("counters and a new leader", _counter("x", range(11), 100) + _counter("y", range(10, 21), 100, 7e9), (100, 20)),
    (
        "gauges with an offset and a new leader",
        _gauge(1, range(11), 100) + _gauge(2, [minute + 0.3 for minute in range(10, 20)], 100),
        (100, 21),
    ),
    (
        "the leader is away for five samples",
        _gauge(1, [*range(6), *range(11, 21)], 100) + _gauge(2, range(6, 11), 100),
        (100, 21),
    ),
    ("a gauge misses one scrape", _gauge(1, range(21), 10) + _gauge(2, {*range(21)} - {7}, 10), (20, 21)),
    (
        "a counter misses three scrapes",
        _counter(1, range(21), 10) + _counter(2, {*range(21)} - {7, 8, 9}, 10),
        (20, 20),
    ),
    ("one sample of each broker", _gauge(1, [0], 5) + _gauge(2, [0.2], 7), (12, 1)),
    ("instances without a time", [("in_bytes_per_s", "a", None, b, None, 5.0) for b in ("x", "y", "x")], (10, 1)),
    (
        "a broker without a time counts at every time",
        [("in_bytes_per_s", "a", None, 1, None, 5.0), *_gauge(2, range(3), 7)],
        (12, 3),
    ),
]


@pytest.fixture(scope="module")
def sums(spark: SparkSession) -> dict[int, Rows]:
    """Loads of the cases of ``SUMS`` at percentiles 1 and 100."""
    samples = _samples(spark, {name: samples for name, samples, _ in SUMS})
    percentiles = (1, 100)
    return {p: _by_case(loads_in_window(samples, Metrics(rate_percentile=p)).collect()) for p in percentiles}


@pytest.mark.parametrize(("name", "expected"), [(name, expected) for name, _, expected in SUMS])
def test_the_rate_of_a_topic_is_the_sum_at_each_time(
    sums: dict[int, Rows], name: str, expected: tuple[int, int]
) -> None:
    """Every time counts every broker that has the series once, whatever the moment of its samples."""
    for percentile, rows in sums.items():
        assert [(row.in_bytes_per_s, row.samples) for row in rows[name]] == [expected], percentile


@pytest.fixture(scope="module")
def loads(spark: SparkSession) -> Rows:
    """Loads of all cases, from one job; the window is 23 hours."""
    samples = _samples(spark, {name: samples for name, samples, _ in (*RATES, *TOPIC_RATES)})
    return _by_case(loads_in_window(samples, Metrics(window_hours=23)).collect())


@pytest.mark.parametrize(("name", "expected"), [(name, expected) for name, _, expected in RATES])
def test_the_load_of_a_partition(loads: Rows, name: str, expected: tuple[int | None, ...] | None) -> None:
    """Size, rates and samples of one partition, by a table of cases."""
    rows = [("r", "a", 0, *expected, None, None)] if expected else []
    assert [tuple(row)[1:] for row in loads.get(name, [])] == rows


@pytest.mark.parametrize(("name", "expected"), [(name, expected) for name, _, expected in TOPIC_RATES])
def test_the_rates_of_a_topic(loads: Rows, name: str, expected: tuple[int | None, ...]) -> None:
    """Rates and samples of a whole topic, by a table of cases: it has no size and no partition."""
    assert [tuple(row)[1:] for row in loads[name]] == [("r", "a", None, None, *expected, None, None)]


# Samples of a partition by UTC time, and its rate in the windows of a schedule.
NIGHT = Window(days=("fri",), start="22:00", end="06:00", time_zone="UTC")
DUBLIN = Window(days=("sat",), start="22:00", end="06:00", time_zone="Europe/Dublin")
Times = dict[str, float]
IN_WINDOWS: list[tuple[str, tuple[Window, ...], Times, int | None]] = [
    (
        "from the start of Friday night to before its end",
        (NIGHT,),
        {
            "2026-11-27 21:59:59": 90, "2026-11-27 22:00:00": 1, "2026-11-28 00:00:00": 2, "2026-11-28 05:59:59": 3,
            "2026-11-28 06:00:00": 91,
        },
        3,
    ),
    ("the night of another day is outside", (NIGHT,), {"2026-11-28 23:00:00": 1, "2026-11-27 03:00:00": 2}, None),
    (
        "Sunday night ends on Monday",
        (Window(days=("sun",), start="22:00", end="06:00", time_zone="UTC"),),
        {"2026-11-29 23:00:00": 1, "2026-11-30 05:00:00": 2, "2026-11-30 23:00:00": 90},
        2,
    ),
    (
        "a window inside a day",
        (Window(days=("mon", "wed"), start="09:00", end="17:30", time_zone="UTC"),),
        {"2026-11-30 09:00:00": 1, "2026-12-02 17:29:00": 2, "2026-12-01 10:00:00": 90, "2026-12-02 17:30:00": 91},
        2,
    ),
    (
        "equal times are a whole day",
        (Window(days=("sat",), start="12:00", end="12:00", time_zone="UTC"),),
        {"2026-11-28 12:00:00": 1, "2026-11-29 11:59:00": 2, "2026-11-28 11:59:00": 90, "2026-11-29 12:00:00": 91},
        2,
    ),
    (
        "in summer Dublin's night begins at 21:00 UTC",
        (DUBLIN,),
        {"2026-07-04 20:59:00": 90, "2026-07-04 21:00:00": 1, "2026-07-05 04:59:00": 2, "2026-07-05 05:00:00": 91},
        2,
    ),
    (
        "summer time ends in the night, which lasts nine hours",
        (DUBLIN,),
        {"2026-10-24 20:59:00": 90, "2026-10-24 21:00:00": 1, "2026-10-25 05:59:00": 2, "2026-10-25 06:00:00": 91},
        2,
    ),
    (
        "the local day counts, not that of UTC",
        (Window(days=("mon",), start="00:00", end="02:00", time_zone="Asia/Tokyo"),),
        {"2026-11-29 15:00:00": 1, "2026-11-29 16:59:00": 2, "2026-11-30 00:00:00": 90, "2026-11-29 17:00:00": 91},
        2,
    ),
    (
        "the busiest of several windows counts",
        (NIGHT, Window(days=("sat",), start="09:00", end="10:00", time_zone="UTC")),
        {"2026-11-27 23:00:00": 5, "2026-11-28 09:30:00": 7, "2026-11-28 12:00:00": 90},
        7,
    ),
]  # fmt: skip
# The same instants with several series: Friday 21:00, 22:00, 23:00 and 24:00 are minutes 0, 60, 120 and 180 of START.
START_OF_SERIES = datetime(2026, 11, 27, 21)
IN_SERIES: list[tuple[str, list[Sample], tuple[int | None, int | None]]] = [
    (
        "a counter's rate has the time of its later sample",
        [("in_bytes_total", "a", 0, 1, m, v) for m, v in ((-60, 0.0), (0, 7200e3), (60, 7200e3 + 3600.0))],
        (1, None),
    ),
    (
        "both rates, each of its own samples",
        [("in_bytes_per_s", "a", 0, None, 60, 4.0), ("out_bytes_per_s", "a", 0, None, 0, 9.0)],
        (4, None),
    ),
    (
        "the largest of a partition's brokers",
        [("out_bytes_per_s", "a", 0, b, 60 * b, 10.0 - b) for b in (1, 2)],
        (None, 9),
    ),
    (
        "the sum of a topic's brokers",
        [("in_bytes_per_s", "a", None, b, m, v) for b in (1, 2) for m, v in ((0, 90.0), (60, 2.0 + b))],
        (7, None),
    ),
    ("samples without a time are in no window", [("in_bytes_per_s", "a", 0, 1, None, 4.0)], (None, None)),
]


@pytest.mark.parametrize("windows", {windows: None for _, windows, _, _ in IN_WINDOWS}, ids=str)
def test_rates_in_the_windows_of_the_schedule(spark: SparkSession, windows: tuple[Window, ...]) -> None:
    """The percentile of the samples in each window, the largest of the windows; null without a sample in them."""
    cases = [(name, times, expected) for name, given, times, expected in IN_WINDOWS if given == windows]
    samples = [
        (
            name,
            "r",
            "f",
            line,
            "in_bytes_per_s",
            "a",
            0,
            None,
            datetime.fromisoformat(f"{at}+00:00"),
            float(value),
            None,
        )
        for name, times, _ in cases
        for line, (at, value) in enumerate(times.items())
    ]
    settings = Metrics(rate_percentile=100)
    made = loads_in_window(table(spark, "bronze_metrics", samples), settings, windows).collect()
    assert {row.cluster_id: row.window_in_bytes_per_s for row in made} == {name: rate for name, _, rate in cases}
    assert {row.cluster_id: row.in_bytes_per_s for row in made} == {
        name: max(times.values()) for name, times, _ in cases
    }


def test_rates_of_brokers_in_a_window(spark: SparkSession) -> None:
    """Several series of a partition or topic in one window, by a table of cases."""
    shift = F.col("observed_at") + F.lit(START_OF_SERIES - START)
    samples = _samples(spark, {name: samples for name, samples, _ in IN_SERIES}).withColumn("observed_at", shift)
    made = loads_in_window(samples, Metrics(rate_percentile=100), (NIGHT,)).collect()
    assert {row.cluster_id: (row.window_in_bytes_per_s, row.window_out_bytes_per_s) for row in made} == {
        name: rates for name, _, rates in IN_SERIES
    }


def test_a_percentile_in_a_window_is_that_of_its_samples(spark: SparkSession) -> None:
    """Percentile 50 of 1, 2 and 9 at night; the larger ones of the day are not among them."""
    values = {60: 1.0, 120: 2.0, 180: 9.0, 0: 50.0, -60: 60.0, -120: 70.0, -180: 80.0}
    samples = _samples(spark, {"c": [("in_bytes_per_s", "a", 0, None, m, v) for m, v in values.items()]})
    shifted = samples.withColumn("observed_at", F.col("observed_at") + F.lit(START_OF_SERIES - START))
    (row,) = loads_in_window(shifted, Metrics(rate_percentile=50), (NIGHT,)).collect()
    assert (row.in_bytes_per_s, row.window_in_bytes_per_s, row.samples) == (50, 2, 7)


def test_spark_knows_every_time_zone_of_a_window(spark: SparkSession) -> None:
    """Java has a database of its own, and names that it does not know are refused. Both show the same time."""
    at = datetime(2022, 1, 15, 12)
    names = sorted(windows_setting._time_zones())
    zones = spark.createDataFrame([(name,) for name in names], "name string")
    local = F.from_utc_timestamp(F.lit(f"{at:%Y-%m-%d %H:%M:%S}"), F.col("name"))
    offsets = {row.name: row.seconds for row in zones.select("name", F.unix_seconds(local).alias("seconds")).collect()}
    utc = at.replace(tzinfo=ZoneInfo("UTC"))
    known = {name: utc.astimezone(ZoneInfo(name)).replace(tzinfo=ZoneInfo("UTC")).timestamp() for name in names}
    assert {name: (offsets[name], known[name]) for name in names if offsets[name] != known[name]} == {}
    assert len(names) > 500
    for name, other in windows_setting._UNKNOWN_TO_JAVA.items():
        assert name in available_timezones()
        assert other in names
        with pytest.raises(ConfigError, match=f"give {other}, which has the same time"):
            Window(days=DAYS, start="22:00", end="06:00", time_zone=name)


def test_the_order_of_samples_does_not_matter(spark: SparkSession) -> None:
    """The same samples in another order and other tasks give the same loads."""
    metrics = ("in_bytes_total", "out_bytes_per_s", "size_bytes")
    samples: list[Sample] = [(m, "a", i % 3, 1, i, float(i * i % 17)) for i in range(60) for m in metrics]
    samples += [("in_bytes_per_s", "a", None, i % 3, i / 7, i * 0.1) for i in range(60)]
    once = loads_in_window(_samples(spark, {"c": samples}), Metrics())
    again = loads_in_window(_samples(spark, {"c": samples[::-1]}).repartition(7), Metrics())
    rows = sorted(map(tuple, once.collect()), key=str)
    assert rows == sorted(map(tuple, again.collect()), key=str)
    assert len(rows) == 4


def test_the_broker_of_an_instance(spark: SparkSession) -> None:
    """The table of a cluster gives its instances a broker, over that in the metrics; other clusters keep theirs."""
    table_of_c = (InstanceBroker(instance="x", broker=3), InstanceBroker(instance="y", broker=3))
    clusters = (ClusterInput(id="c", input="i", instances=table_of_c), ClusterInput(id="d", input="i"))
    samples = _samples(spark, {name: [("size_bytes", "a", 0, r, 0, 1.0) for r in ("x", "y", "z", 7)] for name in "cd"})
    same = samples.where("broker_id = 7").withColumns({"line": F.lit(9), "instance": F.lit("x")})
    rows = with_brokers(samples.unionByName(same), clusters).collect()
    expected = {
        "c": [(1, 3), (2, 3), (3, None), (4, 7), (9, 3)],
        "d": [(1, None), (2, None), (3, None), (4, 7), (9, 7)],
    }
    assert {name: sorted((r.line, r.broker_id) for r in rows if r.cluster_id == name) for name in "cd"} == expected
    assert with_brokers(samples, clusters[1:]) is samples


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
