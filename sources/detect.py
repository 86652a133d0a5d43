"""Every format that a text holds: one file may be a transcript with the outputs of several tools.

What a file holds is read, or named: a file of no known format, one of which nothing can be read, and each line that
looks like a format's and can't be read are ``malformed`` records.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sources import (
    assignment_json,
    broker_api_versions,
    brokers_csv,
    capacity_csv,
    capacity_json,
    cluster_endpoints,
    cluster_ids,
    configs,
    instance_json,
    kcat_json,
    kcat_text,
    log_dirs,
    partition_loads,
    prometheus,
    reassignments,
    tool_errors,
    topics_describe,
    zookeeper_brokers,
)
from sources.decode import NoText, decoded, with_plain_lines
from sources.json_text import unclaimed
from sources.record import UNREADABLE_FILE, Record, malformed
from sources.refused_formats import Refusal, explain, not_text, why_no_answer, without_bytes

KNOWN_FORMAT = "a known format"
RULE = UNREADABLE_FILE


@dataclass(frozen=True, slots=True)
class Parser:
    """One input format.

    Parameters
    ----------
    name : str
        What produces it.
    recognises : callable
        ``(text) -> bool``: a cheap look at the content; True may turn out to be nothing.
    parse : callable
        ``(text, name) -> iterator of Record``: all of this format in the text; passes over the rest, never raises.
    """

    name: str
    recognises: Callable[[str], bool]
    parse: Callable[[str, str], Iterator[Record]]


def _of_text(parse: Callable[[str], Iterator[Record]]) -> Callable[[str, str], Iterator[Record]]:
    """A parser that needs no file name, as one that takes it."""

    def parse_named(text: str, _name: str) -> Iterator[Record]:
        return parse(text)

    return parse_named


def _zookeeper(text: str, name: str) -> Iterator[Record]:
    return zookeeper_brokers.parse(text, name=name)


PARSERS: tuple[Parser, ...] = (
    Parser("kafka-topics.sh --describe", topics_describe.recognises, _of_text(topics_describe.parse)),
    Parser("kafka-log-dirs.sh --describe", log_dirs.recognises, _of_text(log_dirs.parse)),
    Parser("kafka-broker-api-versions.sh", broker_api_versions.recognises, _of_text(broker_api_versions.parse)),
    Parser("kafka-cluster.sh list-endpoints", cluster_endpoints.recognises, _of_text(cluster_endpoints.parse)),
    Parser("kcat -L -J", kcat_json.recognises, _of_text(kcat_json.parse)),
    Parser("kcat -L", kcat_text.recognises, _of_text(kcat_text.parse)),
    Parser("ZooKeeper /brokers/ids", zookeeper_brokers.recognises, _zookeeper),
    Parser("brokers CSV", brokers_csv.recognises, _of_text(brokers_csv.parse)),
    Parser("kafka-configs.sh --describe", configs.recognises, _of_text(configs.parse)),
    Parser("kafka-reassign-partitions.sh --list", reassignments.recognises, _of_text(reassignments.parse)),
    Parser("partition assignment JSON", assignment_json.recognises, _of_text(assignment_json.parse)),
    Parser("Cruise Control capacity JSON", capacity_json.recognises, _of_text(capacity_json.parse)),
    Parser(prometheus.EXPECTED, prometheus.recognises, _of_text(prometheus.parse)),
    Parser(partition_loads.EXPECTED, partition_loads.recognises, _of_text(partition_loads.parse)),
    Parser("benchmark instance JSON", instance_json.recognises, _of_text(instance_json.parse)),
    Parser("capacity CSV", capacity_csv.recognises, _of_text(capacity_csv.parse)),
    Parser("id of the cluster", cluster_ids.recognises, _of_text(cluster_ids.parse)),
)


def parse_file(content: bytes, *, name: str) -> list[Record]:
    """All records of a file: ``parse_any`` of its text, or one record that says why it is none."""
    text = decoded(content)
    if isinstance(text, NoText):
        return [refused(not_text(text.looks_like), name=name, size_bytes=len(content))]
    return parse_any(text, name=name, size_bytes=len(content))


def parse_any(text: str, *, name: str, size_bytes: int | None = None) -> list[Record]:
    """All records of a text, by line; what can't be read is a ``malformed`` record, never an exception.

    Parameters
    ----------
    text : str
        The content of one file.
    name : str
        Its path: names the broker of a saved znode, and the file where it is refused.
    size_bytes : int, optional
        Size of the file; that of the text in UTF-8 where it is not given.

    Returns
    -------
    list of Record
        Ascending by line. One ``malformed`` record with ``expected`` = ``KNOWN_FORMAT``, and ``rule`` and ``severity``
        beside it, where the text holds nothing that is read here; empty only where the text itself says that there is
        nothing (no reassignment, no config).
    """
    content = with_plain_lines(text)
    found = {parser.name: [*parser.parse(content, name)] for parser in PARSERS if parser.recognises(content)}
    records = [record for of_parser in found.values() for record in of_parser]
    answered = reassignments.NONE_IN_FLIGHT in content or configs.has_heading(content)
    if not records:
        refusal = why_no_answer(content) if answered else explain(content, name)
        if refusal:
            size = len(text.encode(errors="surrogatepass")) if size_bytes is None else size_bytes
            return [refused(refusal, name=name, size_bytes=size)]
    if found.get(prometheus.EXPECTED) == []:
        records.append(_without_bytes(content))
    records += [*tool_errors.parse(content), *unclaimed(content, records)]
    records += reassignments.contradictions(content, records)
    if brokers_csv.recognises(content) or capacity_csv.recognises(content):
        records += capacity_csv.unread(content)
    return _of_unreadable(assignment_json.settled(sorted(records, key=lambda record: record.line)))


def refused(refusal: Refusal, *, name: str, size_bytes: int) -> Record:
    """The record of a file that is not read.

    What an unknown file holds may be a secret (a client's properties, a key): it is named, never copied.
    """
    reason = f"{name} ({size_bytes:,} bytes) is {refusal.reason}"
    return malformed(
        line=1,
        expected=KNOWN_FORMAT,
        reason=reason,
        remedy=refusal.remedy,
        text="",
        rule=RULE,
        severity=refusal.severity,
    )


def _without_bytes(content: str) -> Record:
    """The record of metrics for Prometheus, none of which counts bytes, beside something that is read."""
    of, expected = without_bytes(content), f"{prometheus.EXPECTED} with sizes or rates in bytes"
    return malformed(line=1, expected=expected, reason=of.reason, remedy=of.remedy, text="", rule=UNREADABLE_FILE)


def _of_unreadable(records: Sequence[Record]) -> list[Record]:
    """The records, those of a file of which nothing could be read with the rule of such files, and nothing of it."""
    if any(record.kind != "malformed" for record in records):
        return list(records)
    judged = {"rule": RULE, "severity": "error"}
    return [replace(record, payload=judged | {**record.payload, "text": ""}) for record in records]
