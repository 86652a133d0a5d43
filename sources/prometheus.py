"""Prometheus text exposition of Kafka's metrics, as the JMX exporter prints them.

These metrics are read, in upper or lower case, with the labels ``topic``, ``partition`` and a broker's id if present:

- size of a replica: ``kafka_log_log_size``, ``kafka_log_Log_Size`` and the same with ``_Value`` (Aiven) or ``_bytes``,
  ``kafka_log_Log_Value{name="Size"}``;
- counters of bytes: ``kafka_server_brokertopicmetrics_bytesin_total`` (also ``bytesinpersec_total``, ``..._count``,
  and ``kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec"}``), the same with ``bytesout``;
- rates: ``..._bytesinpersec_oneminuterate``, or else the five or fifteen minute rate; never the mean rate, which is the
  mean since the broker's start.

A series without a topic is the total of its broker; one without a partition is the total of its topic on that broker.
kafka_exporter prints offsets: they count messages, not bytes, so they give neither sizes nor rates. One record
lists the sizes that can't be used: those under other names, and sums over partitions (kminion's). Another record lists
the sizes of future replicas, which move to another directory of their broker.

The outputs of ``promtool query instant``, ``promtool query range`` and ``promtool tsdb dump``, the JSON of Prometheus'
API and the JSON lines of VictoriaMetrics' ``/api/v1/export`` have the same samples in other forms (``_lines``).

References
----------
Text format 0.0.4 and OpenMetrics 1.0 (there time stamps are seconds, and the text ends with ``# EOF``);
Kafka 4.3 kafka.server.BrokerTopicMetrics, kafka.log.LogMetricNames; KAFKA-14544 (``is-future=true`` stays in the name
after the move). Prometheus 2.42 model.Vector and model.Matrix (``String``), cmd/promtool/tsdb.go; VictoriaMetrics
lib/protoparser/vmimport.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from optimizer.units import first_of, plural
from sources.json_text import decode
from sources.record import UNREADABLE_FILE, Record, malformed

EXPECTED = "Prometheus text exposition"
_SAMPLE = re.compile(
    r'(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"[ \t]+(?P<value>\S+)(?:[ \t]+(?P<time>-?[0-9.]+))?(?:[ \t]+#.*)?\s*"
)
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_PREFIXES = ("kafka_", "kminion_kafka_")
# Other forms of a sample. Times of promtool's queries are seconds, and a series of a range is a line without a value.
_DUMPED = re.compile(
    r'\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*?)__name__="(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)"(?:, *)?(?P<rest>.*)'
)
_QUERIED = re.compile(r"(?P<series>.*\S) =>\s*(?:(?P<value>\S+) @\[(?P<time>[0-9]+(?:\.[0-9]+)?)\])?\s*")
_IN_RANGE = re.compile(r"(?P<value>\S+) @\[(?P<time>[0-9]+(?:\.[0-9]+)?)\]\s*")
_JSON_SERIES = re.compile(r'"metric"\s*:\s*\{')
_JSON_NAME = re.compile(r'"__name__"\s*:\s*"(?:kminion_)?kafka_', re.IGNORECASE)
_JSON_START = re.compile(r'^[ \t]*(?=\{\s*"|\[\s*\{)', re.MULTILINE)
_COMMENT = re.compile(r"# (?:HELP|TYPE) (?:kminion_)?kafka_[a-z]", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)")
_SIZE = re.compile(r"kafka_log(?:_log)?_size(?:_bytes)?(?:_value)?")
_SIZE_BY_LABEL = re.compile(r"kafka_log(?:_log)?_value")
# Words in the name of a metric that may be a size on disk, and words that show that it is not.
_ON_DISK = ("log", "partition", "topic", "disk")
_NOT_ON_DISK = ("remote", "fetch", "record", "request", "batch", "message")
_UNUSED_SIZE = "unused size"
_FUTURE_SIZE = "size of a future replica"
# The JMX exporter's usual rule partition=(.+) takes the rest of the bean's name into the label.
_FUTURE_PARTITION = re.compile(r"\d+\s*,\s*is[-_]?future=true", re.IGNORECASE)
_NAMED = 5  # names in one message
_BYTES = re.compile(r"bytes(in|out)(?:persec)?")
# By preference: the shorter the window, the closer the rate is to a sample. The mean since the start is not used.
_RATES = {"oneminuterate": 0, "fiveminuterate": 1, "fifteenminuterate": 2}
_BROKER_LABELS = ("broker_id", "brokerid", "kafka_broker_id", "broker", "kafka_broker", "node_id")
_POD_LABELS = ("pod", "pod_name", "kubernetes_pod_name")
# By preference: labels that tell brokers apart, but do not have a broker's id.
_INSTANCE_LABELS = ("instance", *_POD_LABELS, "exported_instance", "host", "hostname", "node", "nodename", "server")
# Largest size or rate, as for every input; a counter may be any int64.
_LARGEST, _LARGEST_TOTAL = 2**53, 2**63 - 1


@dataclass(frozen=True, slots=True)
class Sample:
    """A line with a known metric; ``rank`` 0 is the preferred form of the metric."""

    line: int
    text: str
    metric: str
    rank: int
    labels: Mapping[str, str]
    value: str
    time: str | None


def recognises(text: str) -> bool:
    """Whether a text has metrics of Kafka in Prometheus' format."""
    lines = text.split("\n", 2000)[:2000]
    if any(_COMMENT.match(line) or _is_kafka_sample(line) for line in _text_lines(lines)):
        return True
    return bool(_JSON_SERIES.search(text) and _JSON_NAME.search(text))


def parse(text: str) -> Iterator[Record]:
    """Yield ``metric`` records, and ``malformed`` records for damaged lines with a known metric.

    One more malformed record names the sizes that can't be used, and one those of future replicas. A scrape without
    known metrics or sizes yields nothing.
    """
    samples: list[Sample] = []
    problems: list[Record] = []
    seconds = False
    lines = text.split("\n")
    for number, line in chain(enumerate(_text_lines(lines), start=1), _json_lines(text)):
        seconds = seconds or line.startswith("# EOF")
        if not line.lower().startswith(_PREFIXES):
            continue
        sample = _sample(number, line, is_last=number == len(lines))
        if isinstance(sample, Record):
            problems.append(sample)
        elif sample:
            samples.append(sample)
    used = [sample for sample in samples if sample.metric not in (_UNUSED_SIZE, _FUTURE_SIZE)]
    best: dict[str, int] = {}
    for sample in used:
        best[sample.metric] = min(sample.rank, best.get(sample.metric, sample.rank))
    records = [_record(s, seconds=seconds) for s in used if s.rank == best[s.metric]]
    problems += [*_unused_sizes(samples, is_all=not records), *_future_sizes(samples)]
    yield from sorted([*records, *problems], key=lambda record: record.line)


def _text_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines; samples in a form of promtool as lines of the exposition. A dump shows the end of a series as NaN."""
    series = ""
    for line in lines:
        if line.startswith("{") and (dumped := _DUMPED.match(line)):
            is_end = dumped["rest"].rpartition("}")[2].lstrip().startswith("NaN")
            yield "" if is_end else f"{dumped['name']}{{{dumped['labels']}{dumped['rest']}"
        elif line.endswith("]") and (found := _IN_RANGE.fullmatch(line) or _QUERIED.fullmatch(line)):
            name = found.groupdict().get("series", series)
            yield f"{name} {found['value']} {float(found['time']) * 1000:.0f}"
        elif line.endswith(" =>"):
            series = line.removesuffix(" =>")
            yield ""
        else:
            yield line


def _json_lines(text: str) -> Iterator[tuple[int, str]]:
    """The samples in the JSON of Prometheus and VictoriaMetrics as lines of the exposition, with their line."""
    position, line, counted = 0, 1, 0
    while _JSON_SERIES.search(text, position) and (match := _JSON_START.search(text, position)):
        start = match.end()
        line, counted = line + text.count("\n", counted, start), start
        value, position, error = decode(text, start, allows_nan=True)
        if error is not None:
            position = text.find("\n", start) + 1 or len(text)
            name = _JSON_NAME.search(text, start, position)
            yield line, f"kafka_{text[start:position].rstrip()}" if name else ""
            continue
        for sample in _json_samples(value):
            yield line, sample


def _json_samples(value: object) -> Iterator[str]:
    data = value.get("data") if isinstance(value, dict) else None
    series = data.get("result") if isinstance(data, dict) else value
    for entry in series if isinstance(series, list) else [series]:
        metric = entry.get("metric") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(metric, dict):
            continue
        name = str(metric.get("__name__"))
        if not name.lower().startswith(_PREFIXES):
            continue
        labels = ",".join(f"{label}={json.dumps(str(text), ensure_ascii=False)}" for label, text in metric.items())
        try:
            points = _json_points(entry)
        except (LookupError, TypeError, ValueError, OverflowError):
            yield f"{name}{json.dumps(entry)}"
            continue
        # A series that ends has null or NaN.
        yield from (f"{name}{{{labels}}} {x} {ms:.0f}" for ms, x in points if x is not None and str(x).lower() != "nan")


def _json_points(series: Mapping[str, Any]) -> list[tuple[float, object]]:
    """Milliseconds and values of a series; raises if the JSON has another form."""
    if "timestamps" in series:
        return [(float(ms), x) for ms, x in zip(series["timestamps"], series["values"], strict=True)]
    pairs = series["values"] if "values" in series else [series["value"]]
    return [(float(seconds) * 1000, x) for seconds, x in pairs]


def _is_kafka_sample(line: str) -> bool:
    match = _SAMPLE.fullmatch(line) if line.lower().startswith(_PREFIXES) else None
    return match is not None and _number(match["value"]) is not None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _sample(number: int, line: str, *, is_last: bool) -> Sample | Record | None:
    """A sample, a malformed record, or None for a line with another metric.

    The last line of the text, if it has no line end, may be cut off.
    """
    name = re.split(r"[{\s]", line, maxsplit=1)[0]
    match = _SAMPLE.fullmatch(line)
    labels = _labels(match["labels"] or "") if match else None
    # The labels of a broken line are unreadable: the metric's name alone decides whether it is reported.
    metric = _metric(name.lower(), labels or {})
    damaged = (match is None or labels is None) and ("{" in line or is_last)
    if metric is None and not damaged:
        return None
    if metric is None or match is None or labels is None:
        of_json = "the JSON of this series is cut off, or its values do not fit its times"
        of_text = 'the line does not have the form name{label="value"} value [time]'
        return _malformed(number, line, of_json if _JSON_SERIES.search(line) else of_text)
    return Sample(number, line, metric[0], metric[1], labels, match["value"], match["time"])


def _labels(text: str) -> dict[str, str] | None:
    labels: dict[str, str] = {}
    position = 0
    while text[position:].strip():
        match = _LABEL.match(text, position)
        if match is None:
            return None
        labels[match[1].lower()] = _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], match[2])
        position = match.end()
    return labels


def _metric(name: str, labels: Mapping[str, str]) -> tuple[str, int] | None:
    """Our metric and the rank of its form, for a lower-case name; ``_UNUSED_SIZE`` for a size with an unknown name.

    >>> _metric("kafka_server_brokertopicmetrics_bytesin_total", {})
    ('in_bytes_total', 0)
    >>> _metric("kafka_server_brokertopicmetrics_oneminuterate", {"name": "BytesOutPerSec"})
    ('out_bytes_per_s', 0)
    """
    label = labels.get("name", "").lower()
    if _SIZE.fullmatch(name) or (label == "size" and _SIZE_BY_LABEL.fullmatch(name)):
        return (_FUTURE_SIZE if _is_future(labels) else "size_bytes"), 0
    if "size" in name and any(w in name for w in _ON_DISK) and not any(w in name for w in _NOT_ON_DISK):
        return _UNUSED_SIZE, 0
    prefix = "kafka_server_brokertopicmetrics_"
    if not name.startswith(prefix):
        return None
    first, _, form = name.removeprefix(prefix).partition("_")
    if label:
        first, form = label, form or first
    direction = _BYTES.fullmatch(first)
    if direction is None:
        return None
    if form in ("total", "count", "count_total"):
        return f"{direction[1]}_bytes_total", 0
    return (f"{direction[1]}_bytes_per_s", _RATES[form]) if form in _RATES else None


def _is_future(labels: Mapping[str, str]) -> bool:
    """Whether a replica is on its way to another directory of its broker."""
    is_named = labels.get("is_future", labels.get("isfuture", "")).lower() == "true"
    return is_named or _FUTURE_PARTITION.fullmatch(labels.get("partition", "").strip()) is not None


def _future_sizes(samples: Sequence[Sample]) -> Iterator[Record]:
    """One warning for all sizes of future replicas."""
    sizes = [sample for sample in samples if sample.metric == _FUTURE_SIZE]
    if sizes:
        first = min(sizes, key=lambda sample: sample.line)
        partition = first.labels.get("partition", "").partition(",")[0].strip()
        yield malformed(
            line=first.line,
            expected=EXPECTED,
            reason=f"the sizes of future replicas ({plural(len(sizes), 'sample')} with is-future=true, such as "
            f"{first.labels.get('topic')}-{partition}) are not used: they move to another directory of their broker",
            remedy="nothing to do; old releases of Kafka print is-future=true after the move, until a restart",
            text="",
            rule=UNREADABLE_FILE,
            severity="warning",
        )


def _unused_sizes(samples: Sequence[Sample], *, is_all: bool) -> Iterator[Record]:
    """One malformed record for all sizes that can't be used; an error if the text has no usable sample.

    They have an unknown name, or are sums over partitions.
    """
    sums = [
        s for s in samples if s.metric == "size_bytes" and not (s.labels.get("topic") and s.labels.get("partition"))
    ]
    unused = [*(s for s in samples if s.metric == _UNUSED_SIZE), *sums]
    if not unused:
        return
    counts = Counter(re.split(r"[{\s]", sample.text, maxsplit=1)[0] for sample in unused)
    named = first_of((f"{name} ({plural(count, 'sample')})" for name, count in counts.most_common()), _NAMED)
    reason = (
        f"these sizes can't be used: {named}. Only kafka_log_Log_Size with the labels topic and partition is "
        "read; the sum of a topic or a broker does not give the size of a partition"
    )
    yield malformed(
        line=min(sample.line for sample in unused),
        expected=EXPECTED,
        reason=reason,
        remedy="supply kafka-log-dirs.sh --describe, or export kafka_log_Log_Size per partition with the JMX exporter",
        text="",
        rule=UNREADABLE_FILE,
        severity="error" if is_all else "warning",
    )


def _record(sample: Sample, *, seconds: bool) -> Record:
    value = _number(sample.value)
    partition = sample.labels.get("partition", "")
    largest = _LARGEST_TOTAL if sample.metric.endswith("_total") else _LARGEST
    if value is None or not math.isfinite(value) or not 0 <= value <= largest:
        return _malformed(sample.line, sample.text, f"value {sample.value} is not a number from 0 to {largest}")
    if partition and not partition.isdecimal():
        return _malformed(sample.line, sample.text, f"partition {partition!r} is not a number")
    observed_at = _observed_at(sample.time, seconds=seconds)
    if sample.time and observed_at is None:
        return _malformed(sample.line, sample.text, f"time {sample.time} is out of range")
    payload = {
        "metric": sample.metric,
        "topic": sample.labels.get("topic") or None,
        "partition": int(partition) if partition else None,
        "broker_id": _broker_id(sample.labels),
        "observed_at": observed_at,
        "value": value,
        "instance": next((sample.labels[label] for label in _INSTANCE_LABELS if sample.labels.get(label)), None),
    }
    return Record("metric", sample.line, payload)


def _broker_id(labels: Mapping[str, str]) -> int | None:
    """The broker's id from a label, or the ordinal of a Kubernetes pod, which is the id if an operator runs Kafka."""
    for name in _BROKER_LABELS:
        if labels.get(name, "").isdecimal():
            return int(labels[name])
    for name in _POD_LABELS:
        ordinal = labels.get(name, "").rpartition("-")[2]
        if ordinal.isdecimal():
            return int(ordinal)
    return None


def _observed_at(time: str | None, *, seconds: bool) -> str | None:
    number = _number(time) if time else None
    if number is None:
        return None
    try:
        moment = datetime.fromtimestamp(number if seconds else number / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _malformed(line: int, text: str, reason: str) -> Record:
    remedy = "export the metric again, or remove the line"
    return malformed(line=line, expected=EXPECTED, reason=reason, remedy=remedy, text=text)
