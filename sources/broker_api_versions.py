"""``kafka-broker-api-versions.sh``: brokers with rack and, from Kafka 4.0 on, whether they are fenced.

``host:9092 (id: 13 rack: ap-south-1c isFenced: false) -> (``; the lines of API versions between are passed over. The
tool asks live brokers only, so a dead one is missing. A broker that is listed and does not answer
(``-> ERROR: ...``) is a broker all the same, and is named. Where the versions stand between the lines of brokers, each
list of them ends in ``)``: one that doesn't was cut off, and brokers may be missing.

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
    r"\(id: (?P<id>-?[0-9]{1,19}) rack: (?P<rack>\S+)(?: isFenced: (?P<fenced>true|false))?\) ->(?P<answer>.*)"
)
_BEGINS = re.compile(r"[\s>#]*\S+:-?[0-9]{1,9} \(")
_FAILED = re.compile(r"\s*ERROR: *(?:[a-z]\w*\.)*(?P<error>\w*).*")
_VERSION = re.compile(r"[\s>#]*\w+\(\d+\): .*")
_END = re.compile(r"[\s>#]*\)\s*")


def recognises(text: str) -> bool:
    """Whether the text has a broker's line."""
    return " (id: " in text and ") ->" in text


def parse(text: str) -> Iterator[Record]:
    """One record a broker; one more for a broker that did not answer, and for a list of versions that has no end."""
    open_line, lines = 0, lines_of(text)
    for number, line in enumerate([*lines, ""], 1):
        if _VERSION.fullmatch(line):
            open_line = number
        elif _END.fullmatch(line):
            open_line = 0
        elif open_line:
            yield _fault(
                open_line, lines[open_line - 1], "the list of versions was cut off, and brokers may be missing"
            )
            open_line = 0
        if " (id: " in line and (") ->" in line or _BEGINS.match(line)):
            yield from _records(number, line)


def _records(number: int, line: str) -> Iterator[Record]:
    match = _LINE.fullmatch(line)
    if match is None:
        yield _fault(number, line, "not 'host:port (id: N rack: R) -> ('")
        return
    payload = {
        "broker_id": int(match["id"]),
        "host": match["host"],
        "port": int(match["port"]),
        "rack": None if match["rack"] == "null" else match["rack"],
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
