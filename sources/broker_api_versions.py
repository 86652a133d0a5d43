"""``kafka-broker-api-versions.sh``: brokers with rack and, from Kafka 4.0 on, whether they are fenced.

``host:9092 (id: 13 rack: ap-south-1c isFenced: false) -> (``; the lines of API versions between are passed over. A rack
is free text: it may hold blanks and brackets, or be empty. The tool asks live brokers only, so a dead one is missing. A
broker that is listed and does not answer (``-> ERROR: ...``) is a broker all the same, and is named. Where the versions
stand between the lines of brokers, each list of them ends in ``)``: one that doesn't was cut off, and brokers may be
missing.

References
----------
``org.apache.kafka.common.Node.toString`` (0.10.0 to 4.3); ``kafka.admin.BrokerApiVersionsCommand``.
"""

import re
from collections.abc import Iterator

from sources.record import TOOL_ERROR, Record, malformed
from sources.text import lines_of

EXPECTED = "kafka-broker-api-versions.sh"
REMEDY = "supply the tool's output as it was printed: host:port (id: N rack: R isFenced: false) -> ("

_LINE = re.compile(
    r"[\s>#]*(?P<host>\S+):(?P<port>-?[0-9]{1,9}) "
    r"\(id: (?P<id>-?[0-9]{1,19}) rack:(?: (?P<rack>(?:(?!isFenced:).)*?))?(?: isFenced: (?P<fenced>true|false))?\) ->"
    r"(?P<answer> ?\(.*| ?ERROR:.*|\s*)"
)
_BEGINS = re.compile(r"[\s>#]*\S+:-?[0-9]{1,9} \(|.*(?:\) ->|\bisFenced:)")
# Beside a broker's line: the start of another, which was cut off before it says anything.
_CUT = re.compile(r"[\s>#]*[A-Za-z0-9.-]+(?::[0-9]*)?(?: (?:\(.*)?)?")
_CUT_BELOW_END = re.compile(r"[\s>#]*[A-Za-z0-9.-]+:[0-9]*(?: (?:\(.*)?)?")
_FAILED = re.compile(r"\s*ERROR: *(?:[a-z]\w*\.)*(?P<error>\w*).*")
_VERSION = re.compile(r"[\s>#]*\w+\(\d+\): .*")
_END = re.compile(r"[\s>#]*\)\s*")


def recognises(text: str) -> bool:
    """Whether the text has a broker's line."""
    return " (id: " in text and ") ->" in text


def parse(text: str) -> Iterator[Record]:
    """One record a broker; one more for a broker that did not answer, and for a list of versions that has no end."""
    lines = [*lines_of(text), ""]
    looks = [False, *(_looks(line) for line in lines), False]
    versions, below_end = 0, False
    for number, line in enumerate(lines, 1):
        ends = _END.fullmatch(line) is not None
        is_version = _VERSION.fullmatch(line) is not None
        if versions and not ends and not is_version:
            yield _fault(versions, lines[versions - 1], "the list of versions was cut off, and brokers may be missing")
        if is_version and not versions and not looks[number - 1]:
            yield _fault(number, line, "no line of a broker that can be read stands above these versions")
        versions = number if is_version else 0
        beside = (looks[number - 1] or looks[number + 1]) and _CUT.fullmatch(line)
        if looks[number] or beside or (below_end and _CUT_BELOW_END.fullmatch(line)):
            yield from _records(number, line)
        below_end = ends


def _looks(line: str) -> bool:
    """Whether a line has what only those of brokers have."""
    told = "(" in line and (" (id: " in line or "isFenced:" in line or ") ->" in line)
    return told and _BEGINS.match(line) is not None


def _records(number: int, line: str) -> Iterator[Record]:
    match = _LINE.fullmatch(line)
    if match is None or line.count(" (id: ") > 1:
        yield _fault(number, line, "not 'host:port (id: N rack: R) -> ('")
        return
    payload = {
        "broker_id": int(match["id"]),
        "host": match["host"],
        "port": int(match["port"]),
        "rack": None if match["rack"] == "null" else match["rack"] or "",
        "fenced": None if match["fenced"] is None else match["fenced"] == "true",
        "is_controller": None,
    }
    yield Record("broker", number, payload)
    failed = _FAILED.fullmatch(match["answer"])
    if failed is not None:
        reason = (
            f"broker {match['id']} at {match['host']}:{match['port']} did not answer: {failed['error'] or 'no reason'}"
        )
        remedy = "look after the broker: it is registered, but the tool could not reach it"
        yield malformed(
            line=number, expected=EXPECTED, reason=reason, remedy=remedy, text=line, rule=TOOL_ERROR, severity="warning"
        )


def _fault(number: int, line: str, reason: str) -> Record:
    return malformed(line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=line)
