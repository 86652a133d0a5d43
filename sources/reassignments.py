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
REMEDY = "supply the tool's output as it was printed, whole"
NONE_IN_FLIGHT = "No partition reassignments found."

# What a loop, a container or somebody's notes put before a line: a time, a name, a bullet.
_BEFORE = r"(?:[^\n]*?[\s>#|\])])?"
_LINE = re.compile(
    _BEFORE + r"(?P<name>[^\s>#|\])]+): replicas: (?P<replicas>[^.a-z]*)\."
    r"(?: adding: (?P<adding>[^.a-z]*)\.)?(?: removing: (?P<removing>[^.a-z]*)\.)?\s*"
)
_LOOKS_LIKE = re.compile(
    _BEFORE + r"(?:\S+-\d+: repl(?:icas: .*|\w*)|\S+: replicas: .*\. (?:adding|removing): .*)|[\s>#]*\S+-\S+: repl.*"
)
_HEADING = "Current partition reassignments:"
# A poll loop may print the time before each line, or on a line of its own.
_TIME = re.compile(r"[\s>#]*\[?(?:\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?\]?:?\s*")
# Below the heading or another line: one that was cut off or damaged.
_DAMAGED = re.compile(r".*\b(?:replicas|adding|removing):.*|[\s>#]*[._-]*[A-Za-z0-9][A-Za-z0-9._-]*(?: *:.*)?")


def recognises(text: str) -> bool:
    """Whether the text has a line of the list."""
    return ": replicas: " in text or _HEADING in text


def parse(text: str) -> Iterator[Record]:
    """One record a partition in flight."""
    inside = False
    for number, line in enumerate(lines_of(text), 1):
        heading = _HEADING in line
        listed = ": repl" in line and (heading or _LOOKS_LIKE.fullmatch(line) is not None)
        if listed or (inside and _is_damaged(line)):
            yield _record(number, line)
        inside = listed or heading


def _is_damaged(line: str) -> bool:
    """Whether a line below the list's, without its time, is one of them that was cut off or damaged."""
    time = _TIME.match(line)
    rest = line[time.end() :] if time else line
    is_answer = NONE_IN_FLIGHT in line
    return not is_answer and bool(_DAMAGED.fullmatch(rest) or ELISION.match(rest))


def contradictions(text: str, records: Sequence[Record]) -> Iterator[Record]:
    """One record if the text says both that nothing is in flight, and what is."""
    listed = next((record for record in records if record.kind == "reassignment"), None)
    if listed is None or NONE_IN_FLIGHT not in text:
        return
    number, line = next((n, line) for n, line in enumerate(lines_of(text), 1) if NONE_IN_FLIGHT in line)
    named = f"{listed.payload['topic']}-{listed.payload['partition']}"
    reason = (
        f"line {number} says {NONE_IN_FLIGHT!r}, but line {listed.line} lists {named}: only one of the two holds now"
    )
    remedy = "keep the newest answer of kafka-reassign-partitions.sh --list in the file, and only that one"
    yield malformed(
        line=number, expected="one answer", reason=reason, remedy=remedy, text=line, rule=TWO_ANSWERS, severity="error"
    )


def _record(number: int, line: str) -> Record:
    match = _LINE.fullmatch(line) if line.count("replicas:") == 1 else None
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
