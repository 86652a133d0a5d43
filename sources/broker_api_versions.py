"""``kafka-broker-api-versions.sh``: brokers with rack and, from Kafka 4.0 on, whether they are fenced.

``host:9092 (id: 13 rack: ap-south-1c isFenced: false) -> (``; the lines of API versions in between are skipped. A rack
is free text: it may contain blanks and brackets, or be empty. The tool asks only live brokers, so a dead broker is
missing. A listed broker that does not answer (``-> ERROR: ...``) is still a broker, and a warning names it. Each list
of API versions ends with ``)``: a list without this end was cut off, and brokers may be missing.

References
----------
``org.apache.kafka.common.Node.toString`` (0.10.0 to 4.3); ``kafka.admin.BrokerApiVersionsCommand``.
"""

import re
from collections.abc import Iterator

from sources.record import TOOL_ERROR, Record, malformed
from sources.text import lines_of

EXPECTED = "kafka-broker-api-versions.sh"
REMEDY = "supply the complete, unchanged output; a broker's line is 'host:port (id: N rack: R isFenced: false) -> ('"

_LINE = re.compile(
    r"[\s>#]*(?P<host>\S+):(?P<port>-?[0-9]{1,9}) "
    r"\(id: (?P<id>-?[0-9]{1,19}) rack:(?: (?P<rack>(?:(?!isFenced:).)*?))?(?: isFenced: (?P<fenced>true|false))?\) ->"
    r"(?P<answer> ?\(.*| ?ERROR:.*|\s*)"
)
_LINE_START = re.compile(r"[\s>#]*\S+:-?[0-9]{1,9} \(|.*(?:\) ->|\bisFenced:)")
# Next to a broker's line: the start of another broker's line, which was cut off.
_CUT_LINE = re.compile(r"[\s>#]*[A-Za-z0-9.-]+(?::[0-9]*)?(?: (?:\(.*)?)?")
_CUT_BELOW_END = re.compile(r"[\s>#]*[A-Za-z0-9.-]+:[0-9]*(?: (?:\(.*)?)?")
_FAILED = re.compile(r"\s*ERROR: *(?:[a-z]\w*\.)*(?P<error>\w*).*")
_VERSION = re.compile(r"[\s>#]*\w+\(\d+\): .*")
_END = re.compile(r"[\s>#]*\)\s*")


def recognises(text: str) -> bool:
    """Whether the text has a broker's line."""
    return " (id: " in text and ") ->" in text


def parse(text: str) -> Iterator[Record]:
    """Yield one record per broker, and a malformed one for each broker without an answer and each unclosed list."""
    lines = [*lines_of(text), ""]
    like_broker = [False, *(_looks_like_broker(line) for line in lines), False]
    last_version, below_end = 0, False
    for number, line in enumerate(lines, 1):
        ends = _END.fullmatch(line) is not None
        is_version = _VERSION.fullmatch(line) is not None
        if last_version and not ends and not is_version:
            yield _malformed(
                last_version, lines[last_version - 1], "this list of API versions has no end: brokers may be missing"
            )
        if is_version and not last_version and not like_broker[number - 1]:
            yield _malformed(number, line, "there is no readable broker line above these API versions")
        last_version = number if is_version else 0
        is_cut = (like_broker[number - 1] or like_broker[number + 1]) and _CUT_LINE.fullmatch(line)
        if like_broker[number] or is_cut or (below_end and _CUT_BELOW_END.fullmatch(line)):
            yield from _records(number, line)
        below_end = ends


def _looks_like_broker(line: str) -> bool:
    has_label = "(" in line and (" (id: " in line or "isFenced:" in line or ") ->" in line)
    return has_label and _LINE_START.match(line) is not None


def _records(number: int, line: str) -> Iterator[Record]:
    match = _LINE.fullmatch(line)
    if match is None or line.count(" (id: ") > 1:
        yield _malformed(number, line, "the line does not have the form 'host:port (id: N rack: R) -> ('")
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
        error = failed["error"] or "no reason given"
        reason = f"broker {match['id']} at {match['host']}:{match['port']} did not answer: {error}"
        remedy = "check this broker: it is registered, but the tool could not connect to it"
        yield malformed(
            line=number, expected=EXPECTED, reason=reason, remedy=remedy, text=line, rule=TOOL_ERROR, severity="warning"
        )


def _malformed(number: int, line: str, reason: str) -> Record:
    return malformed(line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=line)
