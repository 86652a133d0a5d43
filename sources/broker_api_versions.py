"""``kafka-broker-api-versions.sh``: brokers with rack and, from Kafka 4.0 on, whether they are fenced.

``host:9092 (id: 13 rack: ap-south-1c isFenced: false) -> (``; the lines of API versions between are passed over. The
tool asks live brokers only, so a dead one is missing.

References
----------
``org.apache.kafka.common.Node.toString`` (0.10.0 to 4.3); ``kafka.admin.BrokerApiVersionsCommand``.
"""

import re
from collections.abc import Iterator

from sources.record import Record, malformed
from sources.text import lines_of

EXPECTED = "kafka-broker-api-versions.sh"
REMEDY = "supply the tool's output as it was printed: host:port (id: N rack: R isFenced: false) -> ("

_LINE = re.compile(
    r"[\s>#]*(?P<host>\S+):(?P<port>-?[0-9]{1,9}) "
    r"\(id: (?P<id>-?[0-9]{1,19}) rack: (?P<rack>\S+)(?: isFenced: (?P<fenced>true|false))?\) ->.*"
)


def recognises(text: str) -> bool:
    """Whether the text has a broker's line."""
    return " (id: " in text and ") ->" in text


def parse(text: str) -> Iterator[Record]:
    """One record a broker."""
    for number, line in enumerate(lines_of(text), 1):
        if " (id: " in line and ") ->" in line:
            yield _record(number, line)


def _record(number: int, line: str) -> Record:
    match = _LINE.fullmatch(line)
    if match is None:
        reason = "not 'host:port (id: N rack: R) -> ('"
        return malformed(line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=line)
    payload = {
        "broker_id": int(match["id"]),
        "host": match["host"],
        "port": int(match["port"]),
        "rack": None if match["rack"] == "null" else match["rack"],
        "fenced": None if match["fenced"] is None else match["fenced"] == "true",
        "is_controller": None,
    }
    return Record("broker", number, payload)
