"""Prometheus text exposition."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources import prometheus
from sources.detect import parse_any
from sources.record import KINDS, UNREADABLE_FILE

LINES = [
    # text, (metric, topic, partition, broker_id, observed_at, value)
    (
        'kafka_log_log_size{topic="orders",partition="0",} 1.26257873E8',
        ("size_bytes", "orders", 0, None, None, 126257873.0),
    ),
    ('kafka_log_Log_Size{partition="3",topic="a.b-c"} 7', ("size_bytes", "a.b-c", 3, None, None, 7.0)),
    (
        'kafka_log_Log_Size_Value{cloud="x",host="kafka-3",partition="0",service="k",topic="orders"} 1000000000',
        ("size_bytes", "orders", 0, None, None, 1e9),
    ),
    ('KAFKA_LOG_LOG_SIZE_VALUE{partition="0",topic="o"} 8', ("size_bytes", "o", 0, None, None, 8.0)),
    ('kafka_log_log_size_bytes{partition="0",topic="o"} 8', ("size_bytes", "o", 0, None, None, 8.0)),
    ('kafka_log_size{partition="0",topic="o"} 8', ("size_bytes", "o", 0, None, None, 8.0)),
    ('kafka_log_value{name="SIZE",partition="0",topic="o"} 8', ("size_bytes", "o", 0, None, None, 8.0)),
    (
        'kafka_server_BrokerTopicMetrics_BytesInPerSec_Count{host="kafka-2",topic="clicks"} 5',
        ("in_bytes_total", "clicks", None, None, None, 5.0),
    ),
    ('kafka_log_Log_Value{name="Size",topic="a",partition="1",} 12.0', ("size_bytes", "a", 1, None, None, 12.0)),
    (
        'kafka_server_brokertopicmetrics_bytesin_total{topic="a",} 5E3 1790000000500',
        ("in_bytes_total", "a", None, None, "2026-09-21T14:13:20.500Z", 5000.0),
    ),
    ("kafka_server_brokertopicmetrics_bytesout_total 9", ("out_bytes_total", None, None, None, None, 9.0)),
    (
        'kafka_server_BrokerTopicMetrics_Count{name="BytesOutPerSec",topic="a",broker_id="12"} 4',
        ("out_bytes_total", "a", None, 12, None, 4.0),
    ),
    (
        'kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesInPerSec",topic="a"} 2.5',
        ("in_bytes_per_s", "a", None, None, None, 2.5),
    ),
    (
        'kafka_server_brokertopicmetrics_bytesinpersec_fiveminuterate{topic="a",pod="main-kafka-2"} 2.5',
        ("in_bytes_per_s", "a", None, 2, None, 2.5),
    ),
    (
        r'kafka_log_log_size{note="a \"quoted\" } brace\\",topic="t",partition="0"} 1 # {id="x"} 1',
        ("size_bytes", "t", 0, None, None, 1.0),
    ),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_line_becomes_a_metric(line: str, expected: tuple[object, ...]) -> None:
    """Every form of a known metric gives its name, topic, partition, broker, time and value."""
    text = f"# HELP x y\n# TYPE kafka_x gauge\n{line}\njvm_threads 4\n"
    (record,) = prometheus.parse(text)
    assert prometheus.recognises(text)
    assert (record.kind, record.line) == ("metric", 3)
    assert tuple(record.payload.values())[:6] == expected


@pytest.mark.parametrize(
    ("labels", "broker_id", "instance"),
    [
        ('instance="10.0.0.1:7071"', None, "10.0.0.1:7071"),
        ('instance="10.0.0.1:7071",pod="kafka-3"', 3, "10.0.0.1:7071"),
        ('instance="10.0.0.1:7071",broker_id="7"', 7, "10.0.0.1:7071"),
        ('pod="kafka-x7f",host="h"', None, "kafka-x7f"),
        ('host="kafka-3"', None, "kafka-3"),
        ('instance="",job="kafka"', None, None),
    ],
)
def test_the_labels_that_tell_brokers_apart(labels: str, broker_id: int | None, instance: str | None) -> None:
    """The broker's id has its own labels; instance, pod and host only tell brokers apart."""
    (record,) = prometheus.parse(f'kafka_log_log_size{{{labels},topic="a",partition="0"}} 1')
    assert (record.payload["broker_id"], record.payload["instance"]) == (broker_id, instance)


SIZE = '"__name__":"kafka_log_log_size","instance":"b","partition":"0"'
TOPIC = r'"topic":"o\"x"'
API = '{"status":"success","data":{"resultType":"%s","result":[{"metric":{%s,%s},%s},{"metric":{"topic":"a"}}]}}'
LABELS = r'instance="b", partition="0", topic="o\"x"'
EXPORTS = {
    "query instant": f"kafka_log_log_size{{{LABELS}}} => 1.5e+09 @[1790000000.5]",
    "query range": f"kafka_log_log_size{{{LABELS}}} =>\n1500000000 @[1790000000.5]\nup{{}} =>\n1 @[1]",
    "tsdb dump": f'{{__name__="kafka_log_log_size", {LABELS}}} 1.5e+09 1790000000500',
    "labels before the name": f'{{A="}}", __name__="kafka_log_log_size", {LABELS}}} 1.5e9 1790000000500',
    "an ended series": f'{{__name__="kafka_log_log_size", {LABELS}}} 1.5e+09 1790000000500\n'
    f'{{__name__="kafka_log_log_size", {LABELS}}} NaN 1790000060500',
    "VictoriaMetrics": '{"metric":{"__name__":"up"},"values":[1],"timestamps":[1]}\n'
    f'{{"metric":{{{SIZE},{TOPIC}}},"values":[1500000000,null],"timestamps":[1790000000500,1790000060500]}}',
    "API, vector": API % ("vector", SIZE, TOPIC, '"value":[1790000000.5,"1.5e9"]'),
    "API, matrix": API % ("matrix", SIZE, TOPIC, '"values":[[1790000000.5,"1.5e9"],[1790000060,"NaN"]]'),
    "promtool -o json": f'[\n  {{\n "metric": {{{SIZE},{TOPIC}}},\n "value": [1790000000.5,"1500000000"]}}\n]',
}


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("name", EXPORTS)
def test_exports_of_prometheus_and_victoriametrics(name: str, end: str) -> None:
    """Each form of an exported series gives the sample that the text exposition gives."""
    (record,) = parse_any(EXPORTS[name] + end, name="x")
    assert tuple(record.payload.values()) == ("size_bytes", 'o"x', 0, None, "2026-09-21T14:13:20.500Z", 1.5e9, "b")


def test_each_series_of_an_export_has_its_own_samples() -> None:
    """The lines of a range belong to the series before them, and a line of JSON has several samples."""
    series = 'kafka_server_brokertopicmetrics_bytesin_total{instance="%s", topic="o"} =>\n10 @[%d]\n20 @[%d]\n'
    line = '{"metric":{"__name__":"kafka_server_brokertopicmetrics_bytesin_total","instance":"%s","topic":"o"},%s\n'
    ranges = series % ("b", 60, 120) + series % ("c", 60, 120)
    lines = "".join(line % (name, '"values":[10,20],"timestamps":[60000,120000]}') for name in "bc")
    for text in (ranges, lines):
        payloads = [record.payload for record in parse_any(text, name="x")]
        assert [(p["instance"], p["observed_at"][14:19], p["value"]) for p in payloads] == [
            (name, at, value) for name in "bc" for at, value in (("01:00", 10.0), ("02:00", 20.0))
        ]


NOT_USABLE = [
    ('{"metric":{"__name__":"kafka_log_log_size","topic":"a","partition":"0"},"values":[7],"times', "cut off"),
    ('{"metric":{"__name__":"kafka_log_log_size"},"values":[7],"timestamps":[1,2]}', "do not fit its times"),
    ('{"metric":{"__name__":"kafka_log_log_size"},"values":7}', "do not fit its times"),
    ('{topic="o"} => 5 @[1790000000]', "an export of Prometheus"),
    (API % ("vector", '"topic":"o"', '"a":"b"', '"value":[1790000000,"1"]'), "an export of Prometheus"),
    ('{"metric":{"__name__":"kafka_topic_partition_current_offset"},"values":[7],"timestamps":[1]}', "an export of"),
    ('{__name__="kafka_log_log_size", partition="0", topic="o"}', "an export of Prometheus"),
    ("kafka_log_log_size,o,0,5,1790000000", "VictoriaMetrics' CSV export"),
]


@pytest.mark.parametrize(("text", "reason"), NOT_USABLE)
def test_an_export_without_usable_samples_is_named(text: str, reason: str) -> None:
    """It is one unreadable file, named for what it is."""
    (record,) = parse_any(text + "\n", name="x")
    assert record.payload["rule"] == UNREADABLE_FILE
    assert reason in record.payload["reason"]


@pytest.mark.parametrize(
    "labels", ['partition="3, is-future=true"', 'partition="3,is-future=true"', 'partition="3",is_future="true"']
)
def test_sizes_of_future_replicas_are_named_and_not_used(labels: str) -> None:
    """They are one warning with their number, also in a file without any other size."""
    future = f'kafka_log_log_size{{broker_id="2",topic="a",{labels}}} 9\n' * 2
    current = 'kafka_log_log_size{topic="a",partition="3",is_future="false"} 7\n'
    for text, values in ((future, []), (current + future, [7.0])):
        records = parse_any(text, name="x")
        assert [r.payload["value"] for r in records if r.kind == "metric"] == values
        (warning,) = [r.payload for r in records if r.kind == "malformed"]
        assert (warning["severity"], warning["rule"]) == ("warning", UNREADABLE_FILE)
        assert "2 samples with is-future=true, such as a-3" in warning["reason"]


REFUSED = [
    ('kafka_log_log_size{a b="x",topic="a",partition="0"} 1', "does not have the form name{label"),
    ('kafka_log_log_size{topic="a",partition="0"} NaN', "NaN"),
    ('kafka_log_log_size{topic="a",partition="0"} -1', "-1"),
    ('kafka_log_log_size{topic="a",partition="0"} 1E19', "1E19"),
    ('kafka_log_log_size{topic="a",partition="x"} 1', "partition 'x'"),
    ('kafka_log_log_size{topic="a",partition="0"} one', "one"),
    ('kafka_log_log_size{topic="a",partition="0} 1', "value [time]"),
    ('kafka_log_log_size{topic="a",partition="0"}', "value [time]"),
    ('kafka_log_log_size{topic="a",partition="0"} 1 99999999999999999999', "out of range"),
]
WITHOUT_BYTES = [
    ('kafka_topic_partition_current_offset{topic="a",partition="0"} 5', "offsets count messages"),
    ("kafka_server_replicamanager_leadercount 5", "without metrics in bytes of a partition"),
    ("kafka_server_brokertopicmetrics_replicationbytesin_total 5", "without metrics in bytes of a partition"),
    ('kafka_server_brokertopicmetrics_bytesinpersec_meanrate{topic="a"} 5', "without metrics in bytes of a partition"),
]


@pytest.mark.parametrize(("line", "reason"), REFUSED)
def test_an_unusable_line_is_malformed(line: str, reason: str) -> None:
    """It is refused with the value or the reason; it neither raises nor disappears."""
    (record,) = prometheus.parse(line)
    assert record.kind == "malformed"
    assert reason in record.payload["reason"]
    assert record.payload["text"].startswith("kafka_")


@pytest.mark.parametrize(("line", "reason"), WITHOUT_BYTES)
def test_a_scrape_without_bytes_is_reported_next_to_other_outputs(line: str, reason: str) -> None:
    """It gives one malformed record with the rule of unreadable files."""
    assert [*prometheus.parse(line)] == []
    topic = "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1"
    refused, partition = parse_any(f"{line}\n{topic}\n", name="x")
    assert (partition.kind, refused.kind, refused.payload["rule"]) == ("partition", "malformed", UNREADABLE_FILE)
    assert reason in refused.payload["reason"]
    assert refused.payload["text"] == ""


NO_SIZE = [
    'kafka_log_Log_Size_Sum{topic="a",partition="0"} 5',
    'kafka_logs_Partition_size{topic="a",partition="0"} 5',
    'kminion_kafka_topic_log_dir_size_total_bytes{topic_name="a"} 9.026554258e+09',
    'kminion_kafka_broker_log_dir_size_total_bytes{address="b",broker_id="9",port="9092"} 8.3e+11',
    'kafka_log_Log_Size{topic="a"} 5',
    'kafka_log_Log_Size_Value{partition="3"} 5',
]


@pytest.mark.parametrize("line", NO_SIZE)
def test_unusable_sizes_are_reported_once(line: str) -> None:
    """Sizes under other names and sums over partitions are one record with their number and a remedy."""
    text = "\n".join([line] * 3) + "\n"
    size = 'kafka_log_Log_Size{topic="b",partition="1"} 7\n'
    for before, severity in (("", None), (size, "warning"), (size.replace("\n", "\r\n"), "warning")):
        faults = [r for r in parse_any(before + text, name="x") if r.kind == "malformed"]
        assert len(faults) == 1
        assert f"{line.partition('{')[0]} (3 samples)" in faults[0].payload["reason"]
        assert "kafka-log-dirs.sh --describe" in faults[0].payload["remedy"]
        assert faults[0].payload["rule"] == UNREADABLE_FILE
        assert severity is None or faults[0].payload["severity"] == severity


def test_a_text_with_only_unusable_sizes_is_an_error() -> None:
    """The record names a few of the sizes, and the number of the rest."""
    text = "\n".join(f'kafka_log_Log_Size_{n}{{topic="a",partition="0"}} 5' for n in range(7))
    (record,) = parse_any(text + "\n", name="x")
    assert record.payload["severity"] == "error"
    assert "kafka_log_Log_Size_4 (1 sample) and 2 more. " in record.payload["reason"]


@pytest.mark.parametrize(
    "line",
    [
        'kafka_server_brokertopicmetrics_remotelogsizebytes{topic="a"} 5',
        'kafka_consumer_fetch_size_avg{topic="a",partition="0"} 5',
        'kafka_producer_topic_record_size_max{topic="a"} 5',
    ],
)
def test_sizes_of_something_else_are_skipped(line: str) -> None:
    """Sizes of remote logs, fetches and records are not sizes of a replica."""
    assert [*prometheus.parse(line + "\n")] == []


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('kafka_log_lo{topic="a\n', [1]),
        ("kafka_log_lo", [1]),
        ("kafka_log_lo\n", []),
        ('kafka_log_lo{topic="a"} 1\n', []),
        ("kafka_log_lo 1", []),
    ],
)
def test_a_cut_line_is_refused_whatever_its_metric(text: str, refused: list[int]) -> None:
    """It may be a known metric if its labels are broken, or if it is the last line and has no line end."""
    malformed = [record for record in prometheus.parse(text) if record.payload["expected"] == prometheus.EXPECTED]
    assert [record.line for record in malformed] == refused


@pytest.mark.parametrize(("lines", "recognised"), [(1999, True), (2000, False)])
def test_the_format_is_recognised_in_the_first_two_thousand_lines(lines: int, recognised: bool) -> None:
    """A sample further down in a long text is ignored."""
    assert prometheus.recognises("\n" * lines + LINES[0][0]) is recognised


def test_all_bad_lines_are_reported_next_to_the_good_ones() -> None:
    """Two bad lines and a good line give three records in the order of the text."""
    lines = [f'kafka_log_log_size{{topic="a",partition="{p}"}} {v}' for p, v in ((0, "NaN"), (1, "1"), (2, "-3"))]
    assert [(r.kind, r.line) for r in prometheus.parse("\n".join(lines))] == [
        ("malformed", 1),
        ("metric", 2),
        ("malformed", 3),
    ]


def test_the_rate_with_the_shortest_window_is_used() -> None:
    """The other rates of the same meter are skipped."""
    name = "kafka_server_brokertopicmetrics_bytesinpersec"
    forms = ("meanrate", "fifteenminuterate", "oneminuterate", "fiveminuterate")
    text = "\n".join(f'{name}_{form}{{topic="a"}} {i}' for i, form in enumerate(forms))
    assert [r.payload["value"] for r in prometheus.parse(text)] == [2.0]


def test_times_of_openmetrics_are_seconds() -> None:
    """In a text that ends with # EOF a time stamp is in seconds."""
    (record,) = prometheus.parse('kafka_log_log_size{topic="a",partition="0"} 1 1790000000.5\n# EOF\n')
    assert record.payload["observed_at"] == "2026-09-21T14:13:20.500Z"


@pytest.mark.parametrize("text", ["", "Topic: a\tPartition: 0", "# Notes about kafka_log_log_size\n", "kafka_ 1 2 3 4"])
def test_other_texts_are_not_recognised(text: str) -> None:
    """Text that only mentions a metric is not an exposition."""
    assert not prometheus.recognises(text)


@given(st.text(alphabet='kafkalogsize_{}="\\, 0123456789.eE+-#\n', max_size=200))
def test_no_text_raises(text: str) -> None:
    """Any text gives records of known kinds."""
    assert {r.kind for r in prometheus.parse("kafka_log_log_size" + text)} <= set(KINDS)


@given(st.text(alphabet='{}[]",: metricvalusp017=>@\n', max_size=100))
def test_no_export_raises(text: str) -> None:
    """Any text after the start of a series gives records of known kinds."""
    for start in (
        '{"metric":{"__name__":"kafka_log_log_size"}',
        '{__name__="kafka_log_log_size"',
        "kafka_log_log_size{} =>\n",
    ):
        assert {r.kind for r in prometheus.parse(start + text)} <= set(KINDS)


@given(st.text(min_size=1, max_size=20), st.integers(0, 2**31 - 1), st.floats(0, 1e15))
def test_a_printed_sample_is_read_back(topic: str, partition: int, value: float) -> None:
    """Label values with quotes, backslashes and line feeds stay unchanged."""
    escaped = topic.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    (record,) = prometheus.parse(f'kafka_log_log_size{{topic="{escaped}",partition="{partition}",}} {value!r}')
    assert (record.payload["topic"], record.payload["partition"], record.payload["value"]) == (topic, partition, value)


@pytest.mark.shared
def test_the_example_file_is_read(shared: Path) -> None:
    """The JMX exporter's old output gives a size and two counters."""
    path = next((shared / "cases/S06_prometheus").glob("jmx_exporter*"))
    records = list(prometheus.parse(path.read_text()))
    assert [r.payload["metric"] for r in records] == ["size_bytes", "out_bytes_total", "in_bytes_total"]
