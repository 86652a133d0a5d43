"""``kafka-get-offsets.sh``: lines ``topic:partition:offset``. They do not say which offsets; the name of the file does.

===============================================  ==========================
name of the file                                 option of the tool
===============================================  ==========================
``offsets-earliest.txt``                         ``--time earliest`` (-2)
``offsets-earliest-local.txt``                   ``--time earliest-local`` (-4)
``offsets-earliest-pending-upload.txt``          ``--time earliest-pending-upload`` (-6)
``offsets-latest.txt``                           ``--time latest`` (-1)
===============================================  ==========================

References
----------
``org.apache.kafka.tools.GetOffsetShell`` (4.3); KIP-405 (earliest-local), KIP-1023 (earliest-pending-upload).
"""

import re
from collections.abc import Iterator

from sources.record import Record, malformed
from sources.text import integer, lines_of, topic_fault

EXPECTED = "kafka-get-offsets.sh"
TIERED = "remote.storage.enable"  # the config of topics with records in tiered storage, whose offsets a plan needs
EARLIEST, EARLIEST_LOCAL, PENDING_UPLOAD, LATEST = TIMES = (
    *("earliest", "earliest_local", "earliest_pending_upload", "latest"),
)
REPLICA_LATEST = "replica_latest"  # the end of one replica, which no output of the tool has
_NAMED = re.compile(r"(?:.*/)?offsets-(earliest(?:-local|-pending-upload)?|latest)\.[^/]*")
_LINE = re.compile(r"[ \t>#]*(\S+):([0-9]{1,10}):(-?[0-9]{0,40})[ \t]*")
_HEAD = 1_000  # characters: a line has at most 300


def recognises(text: str) -> bool:
    """Whether one of the first lines has the form of the tool's; times of day have it too."""
    return any(map(_LINE.fullmatch, lines_of(text[:_HEAD])))


def parse(text: str, name: str) -> Iterator[Record]:
    """Yield one record per line; an offset that Kafka does not know is null."""
    named = _NAMED.fullmatch(name)
    if named is None:
        return  # ``refused_formats`` explains a file with such lines alone
    time = named[1].replace("-", "_")
    for number, line in enumerate(lines_of(text), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        fault = topic_fault(match[1]) if match else "the line does not have the form 'topic:partition:offset'"
        if match is None or fault:
            remedy = "supply the complete output of kafka-get-offsets.sh"
            yield malformed(line=number, expected=EXPECTED, reason=str(fault), remedy=remedy, text=line)
            continue
        offset = integer(match[3])
        payload = {"topic": match[1], "partition": int(match[2]), "time": time, "broker_id": None}
        yield Record("offset", number, {**payload, "offset": None if offset == -1 else offset})
