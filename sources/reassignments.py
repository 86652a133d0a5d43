"""``kafka-reassign-partitions.sh --list``: reassignments in flight.

References
----------
``org.apache.kafka.tools.reassign.ReassignPartitionsCommand.curReassignmentsToString`` (2.6 to 4.3).
"""

import re
from collections.abc import Iterator

from sources.record import Record, malformed
from sources.text import ELISION, broker_ids, lines_of, topic_partition

EXPECTED = "kafka-reassign-partitions.sh --list"
REMEDY = "supply the tool's output as it was printed, whole"
NONE_IN_FLIGHT = "No partition reassignments found."

_LINE = re.compile(
    r"[\s>#]*(?P<name>\S+): replicas: (?P<replicas>[^.a-z]*)\."
    r"(?: adding: (?P<adding>[^.a-z]*)\.)?(?: removing: (?P<removing>[^.a-z]*)\.)?\s*"
)
_LOOKS_LIKE = re.compile(r"[\s>#]*\S+-\S+: repl.*|[\s>#]*\S+: replicas: .*\. (?:adding|removing): .*")
_HEADING = "Current partition reassignments:"
# Below the heading or another line: one that was cut off or damaged.
_DAMAGED = re.compile(r".*\b(?:replicas|adding|removing):.*|[\s>#]*[A-Za-z0-9._-]+(?: *:.*)?")


def recognises(text: str) -> bool:
    """Whether the text has a line of the list."""
    return ": replicas: " in text or _HEADING in text


def parse(text: str) -> Iterator[Record]:
    """One record a partition in flight."""
    inside = False
    for number, line in enumerate(lines_of(text), 1):
        heading = _HEADING in line
        listed = ": repl" in line and (heading or _LOOKS_LIKE.fullmatch(line) is not None)
        if listed or (inside and (_DAMAGED.fullmatch(line) or ELISION.match(line))):
            yield _record(number, line)
        inside = listed or heading


def _record(number: int, line: str) -> Record:
    match = _LINE.fullmatch(line)
    named = topic_partition(match["name"]) if match else None
    lists = [broker_ids(match[key] or "") for key in ("replicas", "adding", "removing")] if match else []
    if named is None or any(ids is None for ids in lists):
        reason = "not 'topic-N: replicas: 1,2. adding: 3. removing: 1.'"
        return malformed(line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=line)
    payload = {
        "topic": named[0],
        "partition": named[1],
        "replicas": lists[0],
        "adding": lists[1],
        "removing": lists[2],
    }
    return Record("reassignment", number, payload)
