"""``kafka-reassign-partitions.sh --list``: reassignments in flight.

References
----------
``org.apache.kafka.tools.reassign.ReassignPartitionsCommand.curReassignmentsToString`` (2.6 to 4.3).
"""

import re
from collections.abc import Iterator, Sequence

from sources.record import TWO_ANSWERS, Record, malformed
from sources.text import ELISION, broker_ids, lines_of, topic_partition

EXPECTED = "kafka-reassign-partitions.sh --list"
REMEDY = "supply the complete, unchanged output of kafka-reassign-partitions.sh --list"
NONE_IN_FLIGHT = "No partition reassignments found."
# ZooKeeper's answer before Kafka 2.6: no such znode, or an empty list in it.
_NONE_IN_ZOOKEEPER = re.compile(
    r"^Node does not exist: /admin/reassign_partitions|/admin/reassign_partitions\b[^\n]*\s+\{[^{}\[]*\[\s*\][^{}]*\}",
    re.MULTILINE,
)

# A prefix from a loop, a container or notes: a time, a name, a bullet.
_BEFORE = r"(?:[^\n]*?[\s>#|\])])?"
_LINE = re.compile(
    _BEFORE + r"(?P<name>[^\s>#|\])]+): replicas: (?P<replicas>[^.a-z]*)\."
    r"(?: adding: (?P<adding>[^.a-z]*)\.)?(?: removing: (?P<removing>[^.a-z]*)\.)?\s*"
)
_LOOKS_LIKE = re.compile(
    _BEFORE + r"(?:\S+-\d+: repl(?:icas: .*|\w*)|\S+: replicas: .*\. (?:adding|removing): .*)|[\s>#]*\S+-\S+: repl.*"
)
_HEADING = "Current partition reassignments:"
# A poll loop may print the time before each line, or on a separate line.
_TIME = re.compile(r"[\s>#]*\[?(?:\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?\]?:?\s*")
# Below the heading or another line: a line that is cut off or damaged.
_DAMAGED = re.compile(r".*\b(?:replicas|adding|removing):.*|[\s>#]*[._-]*[A-Za-z0-9][A-Za-z0-9._-]*(?: *:.*)?")


def is_none_in_flight(text: str) -> bool:
    """Whether the text says that nothing is in flight."""
    return NONE_IN_FLIGHT in text or _NONE_IN_ZOOKEEPER.search(text) is not None


def recognises(text: str) -> bool:
    """Whether the text has a line of the list."""
    return ": replicas: " in text or _HEADING in text


def parse(text: str) -> Iterator[Record]:
    """Yield one record per partition in flight."""
    inside = False
    for number, line in enumerate(lines_of(text), 1):
        heading = _HEADING in line
        listed = ": repl" in line and (heading or _LOOKS_LIKE.fullmatch(line) is not None)
        if listed or (inside and _is_damaged(line)):
            yield _record(number, line)
        inside = listed or heading


def _is_damaged(line: str) -> bool:
    """Whether a line inside the list is a damaged or cut off line of the list; a time before it is ignored."""
    time = _TIME.match(line)
    rest = line[time.end() :] if time else line
    is_empty_list = NONE_IN_FLIGHT in line
    return not is_empty_list and bool(_DAMAGED.fullmatch(rest) or ELISION.match(rest))


def contradictions(text: str, records: Sequence[Record]) -> Iterator[Record]:
    """Yield one malformed record if the text says that nothing is in flight and also lists reassignments."""
    listed = next((record for record in records if record.kind == "reassignment"), None)
    if listed is None or NONE_IN_FLIGHT not in text:
        return
    number, line = next((n, line) for n, line in enumerate(lines_of(text), 1) if NONE_IN_FLIGHT in line)
    named = f"{listed.payload['topic']}-{listed.payload['partition']}"
    reason = f"line {number} says {NONE_IN_FLIGHT!r}, but line {listed.line} lists {named}: only one can be current"
    remedy = "keep only the newest output of kafka-reassign-partitions.sh --list in the file"
    yield malformed(
        line=number, expected="one answer", reason=reason, remedy=remedy, text=line, rule=TWO_ANSWERS, severity="error"
    )


def _record(number: int, line: str) -> Record:
    match = _LINE.fullmatch(line) if line.count("replicas:") == 1 else None
    named = topic_partition(match["name"]) if match else None
    lists = [broker_ids(match[key] or "") for key in ("replicas", "adding", "removing")] if match else []
    if named is None or any(ids is None for ids in lists):
        reason = "the line does not have the form 'topic-N: replicas: 1,2. adding: 3. removing: 1.'"
        return malformed(line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=line)
    payload = {
        "topic": named[0],
        "partition": named[1],
        "replicas": lists[0],
        "adding": lists[1],
        "removing": lists[2],
    }
    return Record("reassignment", number, payload)
