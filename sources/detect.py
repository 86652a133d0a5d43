"""Read every known format in a text: one file may be a transcript with the outputs of several tools.

Nothing is lost silently. A file of unknown format, a file without any readable part, and each damaged line of a known
format become ``malformed`` records.
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
    consumer_groups,
    instance_json,
    kcat_json,
    kcat_text,
    log_dirs,
    offsets,
    partition_loads,
    prometheus,
    reassignments,
    tool_errors,
    topics_describe,
    zookeeper_brokers,
)
from sources.consumer_notices import EXPECTED as CONSUMER_GROUPS
from sources.decode import NotText, decoded, with_plain_lines
from sources.json_text import unknown_documents
from sources.record import UNREADABLE_FILE, Record, malformed
from sources.refused_formats import (
    Refusal,
    explain,
    explain_empty_output,
    explain_without_bytes,
    is_consumer_file,
    not_text,
)

KNOWN_FORMAT = "a known format"
RULE = UNREADABLE_FILE


@dataclass(frozen=True, slots=True)
class Parser:
    """One input format.

    Parameters
    ----------
    name : str
        The tool that prints it, or the kind of file.
    recognises : callable
        ``(text) -> bool``: a cheap test of the content; True does not guarantee that there is a record.
    parse : callable
        ``(text, name) -> iterator of Record``: all records of this format in the text. It skips the rest and never
        raises.
    """

    name: str
    recognises: Callable[[str], bool]
    parse: Callable[[str, str], Iterator[Record]]


def _ignoring_name(parse: Callable[[str], Iterator[Record]]) -> Callable[[str, str], Iterator[Record]]:
    """Adapt a parser that needs no file name."""

    def parse_named(text: str, _name: str) -> Iterator[Record]:
        return parse(text)

    return parse_named


def _zookeeper(text: str, name: str) -> Iterator[Record]:
    return zookeeper_brokers.parse(text, name=name)


def _consumer_groups(text: str, name: str) -> Iterator[Record]:
    return consumer_groups.parse(text, name=name)


PARSERS: tuple[Parser, ...] = (
    Parser("kafka-topics.sh --describe", topics_describe.recognises, _ignoring_name(topics_describe.parse)),
    Parser("kafka-log-dirs.sh --describe", log_dirs.recognises, _ignoring_name(log_dirs.parse)),
    Parser("kafka-broker-api-versions.sh", broker_api_versions.recognises, _ignoring_name(broker_api_versions.parse)),
    Parser("kafka-cluster.sh list-endpoints", cluster_endpoints.recognises, _ignoring_name(cluster_endpoints.parse)),
    Parser("kcat -L -J", kcat_json.recognises, _ignoring_name(kcat_json.parse)),
    Parser("kcat -L", kcat_text.recognises, _ignoring_name(kcat_text.parse)),
    Parser("ZooKeeper /brokers/ids", zookeeper_brokers.recognises, _zookeeper),
    Parser("brokers CSV", brokers_csv.recognises, _ignoring_name(brokers_csv.parse)),
    Parser("kafka-configs.sh --describe", configs.recognises, _ignoring_name(configs.parse)),
    Parser("kafka-reassign-partitions.sh --list", reassignments.recognises, _ignoring_name(reassignments.parse)),
    Parser(CONSUMER_GROUPS, consumer_groups.recognises, _consumer_groups),
    Parser("partition assignment JSON", assignment_json.recognises, _ignoring_name(assignment_json.parse)),
    Parser("Cruise Control capacity JSON", capacity_json.recognises, _ignoring_name(capacity_json.parse)),
    Parser(prometheus.EXPECTED, prometheus.recognises, _ignoring_name(prometheus.parse)),
    Parser(partition_loads.EXPECTED, partition_loads.recognises, _ignoring_name(partition_loads.parse)),
    Parser("benchmark instance JSON", instance_json.recognises, _ignoring_name(instance_json.parse)),
    Parser(offsets.EXPECTED, offsets.recognises, offsets.parse),
    Parser("capacity CSV", capacity_csv.recognises, _ignoring_name(capacity_csv.parse)),
    Parser("id of the cluster", cluster_ids.recognises, _ignoring_name(cluster_ids.parse)),
)


def parse_file(content: bytes, *, name: str) -> list[Record]:
    """All records of a file (see ``parse_any``), or one ``malformed`` record if it is not text."""
    text = decoded(content)
    if isinstance(text, NotText):
        return [refused(not_text(text.looks_like), name=name, size_bytes=len(content))]
    return parse_any(text, name=name, size_bytes=len(content))


def parse_any(text: str, *, name: str, size_bytes: int | None = None) -> list[Record]:
    """All records of a text, by line. Unreadable parts become ``malformed`` records; nothing raises.

    Parameters
    ----------
    text : str
        The content of one file.
    name : str
        Path of the file. It may contain the broker id of a saved znode, and messages name it.
    size_bytes : int, optional
        Size of the file; by default the size of the text in UTF-8.

    Returns
    -------
    list of Record
        Ascending by line. If nothing in the text can be read: one ``malformed`` record with ``expected`` =
        ``KNOWN_FORMAT``, ``rule`` and ``severity``. Empty only if the tool reports that there is nothing (no
        reassignment, no config, no member of a consumer group).
    """
    content = with_plain_lines(text)
    by_parser = {parser.name: [*parser.parse(content, name)] for parser in PARSERS if parser.recognises(content)}
    records = [record for records_of_parser in by_parser.values() for record in records_of_parser]
    answered = reassignments.is_none_in_flight(content) or configs.has_heading(content)
    has_only_groups = [name for name, given in by_parser.items() if given] == [CONSUMER_GROUPS]
    if not records and not answered:
        answered = has_only_groups = consumer_groups.has_header(content)
    errors = [*tool_errors.parse(content, has_only_groups=has_only_groups)]
    if not records and not any(error.payload["severity"] == "warning" for error in errors):
        refusal = explain_empty_output(content) if answered else explain(content, name)
        if refusal:
            size = len(text.encode(errors="surrogatepass")) if size_bytes is None else size_bytes
            return [refused(refusal, name=name, size_bytes=size)]
    if by_parser.get(prometheus.EXPECTED) == []:
        records.append(_without_bytes(content))
    records += [*errors, *unknown_documents(content, records)]
    records += reassignments.contradictions(content, records)
    if brokers_csv.recognises(content) or capacity_csv.recognises(content):
        records += capacity_csv.unknown_columns(content)
    return _mark_unreadable(assignment_json.resolve_begun(sorted(records, key=lambda record: record.line)), name)


def refused(refusal: Refusal, *, name: str, size_bytes: int) -> Record:
    """The ``malformed`` record of a file that is not read.

    It never contains the file's content, which may be a secret (client properties, a key). It is a warning if the name
    is that of an output about consumer groups.
    """
    reason = f"{name} ({size_bytes:,} bytes) is {refusal.reason}"
    return malformed(
        line=1,
        expected=KNOWN_FORMAT,
        reason=reason,
        remedy=refusal.remedy,
        text="",
        rule=RULE,
        severity="warning" if is_consumer_file(name) else refusal.severity,
    )


def _without_bytes(content: str) -> Record:
    """The record of a Prometheus scrape without any metric in bytes, in a text with other readable parts."""
    refusal, expected = explain_without_bytes(content), f"{prometheus.EXPECTED} with sizes or rates in bytes"
    return malformed(
        line=1, expected=expected, reason=refusal.reason, remedy=refusal.remedy, text="", rule=UNREADABLE_FILE
    )


def _mark_unreadable(records: Sequence[Record], name: str) -> list[Record]:
    """Give all records of a file without any readable part the rule of unreadable files, and drop its content."""
    if any(record.kind != "malformed" for record in records):
        return list(records)
    defaults = {"rule": RULE, "severity": "error"}
    fixed = {"text": "", "severity": "warning"} if is_consumer_file(name) else {"text": ""}
    return [replace(record, payload={**defaults, **record.payload, **fixed}) for record in records]
