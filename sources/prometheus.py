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
lists the sizes that can't be used: those under other names, and sums over partitions (kminion's).

References
----------
Text format 0.0.4 and OpenMetrics 1.0 (there time stamps are seconds, and the text ends with ``# EOF``);
Kafka 4.3 kafka.server.BrokerTopicMetrics, kafka.log.LogMetricNames.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from optimizer.units import plural
from sources.record import UNREADABLE_FILE, Record, malformed

EXPECTED = "Prometheus text exposition"
_SAMPLE = re.compile(
    r'(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"[ \t]+(?P<value>\S+)(?:[ \t]+(?P<time>-?[0-9.]+))?(?:[ \t]+#.*)?\s*"
)
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_PREFIXES = ("kafka_", "kminion_kafka_")
_COMMENT = re.compile(r"# (?:HELP|TYPE) (?:kminion_)?kafka_[a-z]", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(.)")
_SIZE = re.compile(r"kafka_log(?:_log)?_size(?:_bytes)?(?:_value)?")
_SIZE_BY_LABEL = re.compile(r"kafka_log(?:_log)?_value")
# Words in the name of a metric that may be a size on disk, and words that show that it is not.
_ON_DISK = ("log", "partition", "topic", "disk")
_NOT_ON_DISK = ("remote", "fetch", "record", "request", "batch", "message")
_UNUSED_SIZE = "unused size"
_NAMED = 5  # names in one message
_BYTES = re.compile(r"bytes(in|out)(?:persec)?")
# By preference: the shorter the window, the closer the rate is to a sample. The mean since the start is not used.
_RATES = {"oneminuterate": 0, "fiveminuterate": 1, "fifteenminuterate": 2}
_BROKER_LABELS = ("broker_id", "brokerid", "kafka_broker_id", "broker", "kafka_broker", "node_id")
_POD_LABELS = ("pod", "pod_name", "kubernetes_pod_name")
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
    return any(_COMMENT.match(line) or _is_kafka_sample(line) for line in text.split("\n")[:2000])


def parse(text: str) -> Iterator[Record]:
    """Yield ``metric`` records, and ``malformed`` records for damaged lines with a known metric.

    One more malformed record names the sizes that can't be used. A scrape without known metrics or sizes yields
    nothing.
    """
    samples: list[Sample] = []
    problems: list[Record] = []
    seconds = False
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        seconds = seconds or line.startswith("# EOF")
        if not line.lower().startswith(_PREFIXES):
            continue
        sample = _sample(number, line, is_last=number == len(lines))
        if isinstance(sample, Record):
            problems.append(sample)
        elif sample:
            samples.append(sample)
    used = [sample for sample in samples if sample.metric != _UNUSED_SIZE]
    best: dict[str, int] = {}
    for sample in used:
        best[sample.metric] = min(sample.rank, best.get(sample.metric, sample.rank))
    records = [_record(s, seconds=seconds) for s in used if s.rank == best[s.metric]]
    problems += _unused_sizes(samples, is_all=not records)
    yield from sorted([*records, *problems], key=lambda record: record.line)


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
        return _malformed(number, line, 'the line does not have the form name{label="value"} value [time]')
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
        return "size_bytes", 0
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
    named = ", ".join(f"{name} ({plural(count, 'sample')})" for name, count in counts.most_common(_NAMED))
    rest = f" and {plural(len(counts) - _NAMED, 'more name')}" if len(counts) > _NAMED else ""
    reason = (
        f"these sizes can't be used: {named}{rest}. Only kafka_log_Log_Size with the labels topic and partition is "
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
