"""The meaning of the columns of a metrics table."""

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
        "pod,topic,partition,Instance,size_gb",
        Columns(1, 2, None, None, None, None, ((4, Measure("size_bytes", 10**9)),), 3),
    ),
    ("pod,topic,partition,size_gb", Columns(1, 2, None, None, None, None, ((3, Measure("size_bytes", 10**9)),), 0)),
    (
        "topic_name,partition,bytes-in-per-sec,note",
        Columns(0, 1, None, None, None, None, ((2, Measure("in_bytes_per_s", 1)),)),
    ),
]


@pytest.mark.parametrize(("header", "columns"), HEADERS)
def test_a_header_is_understood(header: str, columns: Columns) -> None:
    """Case, quotes, dashes, blanks, a byte order mark and other columns make no difference."""
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
def test_a_header_with_missing_or_ambiguous_columns_is_refused(header: str, reason: str) -> None:
    """The message names missing columns, duplicates and columns without a known unit."""
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
    """Prefixes are decimal; prefixes with an i are binary."""
    assert MEASURES[name] == Measure(metric, factor)


def test_every_name_measures_a_known_metric() -> None:
    """Every name maps to a known metric, and every metric has a name."""
    assert {m.metric for m in MEASURES.values()} == set(METRICS)
    assert all(MEASURES[name] == Measure(name, 1) for name in METRICS)
