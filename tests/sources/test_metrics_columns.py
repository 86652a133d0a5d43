"""Which column of a metrics table means what."""

import re

import pytest

from optimizer.errors import InputError
from sources import metrics_csv
from sources.metrics_csv import MEASURES, METRICS, Columns, Measure

HEADERS = [
    (
        "observed_at,topic,partition,in_bytes_per_s,out_bytes_per_s",
        Columns(1, 2, None, 0, None, None, ((3, Measure("in_bytes_per_s", 1)), (4, Measure("out_bytes_per_s", 1)))),
    ),
    ("\ufeffTopic;Partition;Size MB", Columns(0, 1, None, None, None, None, ((2, Measure("size_bytes", 10**6)),))),
    ('"topic"\t"partition"\tbroker\tts\tmetric\tvalue', Columns(0, 1, 2, 3, 4, 5, ())),
    (
        "topic_name,partition,bytes-in-per-sec,note",
        Columns(0, 1, None, None, None, None, ((2, Measure("in_bytes_per_s", 1)),)),
    ),
]


@pytest.mark.parametrize(("header", "columns"), HEADERS)
def test_a_header_is_understood(header: str, columns: Columns) -> None:
    """Case, quotes, dashes, blanks, a byte order mark and other columns do not hide what a header says."""
    assert metrics_csv.recognises(header)
    assert metrics_csv.map_columns(metrics_csv.split_header(header)) == columns


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("partition,size_bytes", "do not include topic and partition"),
        ("topic,size_bytes", "do not include topic and partition"),
        ("topic,partition,rack", "are no metrics"),
        ("topic,partition,metric", "are no metrics"),
        ("topic,partition,metric,value,size_mb", "are no metrics"),
        ("topic,partition,size_mb,size_bytes", "size_bytes'] twice"),
        ("topic,partition,broker,node_id,size_mb", "have the same meaning"),
        ("broker_id,rack,host", "do not include topic and partition"),
        ("topic,partition,size", "the column 'size' has no unit .* name it size_<unit>; .* mib, gib, tib"),
        ("topic,partition,size_pb,in_mb_per_s", "the column 'size_pb' has no unit or an unknown unit"),
        (
            "topic,partition,size_mb,in",
            "the column 'in' .* name it in_<unit>_per_s (a rate) or in_<unit>_total (a counter)",
        ),
        ("topic,partition,size_mb,bytes_out", "the column 'bytes_out'"),
        ("topic,partition,size_mb,in_mbps", "the column 'in_mbps'"),
        ("topic,partition,disk,size_mb", "the column 'disk'"),
    ],
)
def test_a_header_that_says_too_little_or_too_much_is_refused(header: str, reason: str) -> None:
    """What is missing, given twice or of no known unit is named, and a table about partitions is known as one."""
    assert metrics_csv.recognises(header) == ("topic" in header and "partition" in header)
    with pytest.raises(InputError, match=re.escape(reason).replace(r"\ \.\*\ ", " .* ").replace(r"\.\*", ".*")):
        metrics_csv.map_columns(metrics_csv.split_header(header))


@pytest.mark.parametrize(
    ("name", "metric", "factor"),
    [
        ("size_bytes", "size_bytes", 1),
        ("size_kb", "size_bytes", 1000),
        ("size_mb", "size_bytes", 1000**2),
        ("size_gb", "size_bytes", 1000**3),
        ("size_tb", "size_bytes", 1000**4),
        ("size_mib", "size_bytes", 1024**2),
        ("size_gib", "size_bytes", 1024**3),
        ("size_tib", "size_bytes", 1024**4),
        ("in_mb_per_s", "in_bytes_per_s", 10**6),
        ("kib_out_per_second", "out_bytes_per_s", 1024),
        ("bytes_in_total", "in_bytes_total", 1),
    ],
)
def test_a_unit_becomes_a_factor(name: str, metric: str, factor: int) -> None:
    """Prefixes are decimal, those with an i binary."""
    assert MEASURES[name] == Measure(metric, factor)


def test_every_name_measures_a_known_metric() -> None:
    """No name leads to a metric that the table of metrics does not have, and each metric has its own name."""
    assert {m.metric for m in MEASURES.values()} == set(METRICS)
    assert all(MEASURES[name] == Measure(name, 1) for name in METRICS)
