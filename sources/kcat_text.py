"""``kcat -L`` (kafkacat) as text: brokers, topics and partitions; no racks, no configs.

References
----------
``metadata_print`` of kcat's ``kcat.c`` (1.3 to 1.7).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sources.kcat_json import endpoint
from sources.record import Record, malformed
from sources.text import broker_ids, lines_of, topic_fault

EXPECTED = "kcat -L"
REMEDY = "supply the complete, unchanged output of kcat -L or kcat -L -J"

_BROKER = re.compile(r"[\s>#]*broker (?P<id>-?[0-9]{1,19}) at (?P<name>\S+)(?P<controller> \(controller\))?\s*")
_TOPIC = re.compile(r"[\s>#]*topic \"(?P<topic>[^\"]*)\" with (?P<count>[0-9]{1,9}) partitions:(?!.*, leader ).*")
_COUNT = re.compile(r"[\s>#]*(?P<count>[0-9]{1,9}) (?P<kind>broker|topic)s:\s*")
_PARTITION = re.compile(
    r"[\s>#]*partition (?P<partition>[0-9]{1,10}), leader (?P<leader>-?[0-9]{1,19}), "
    r"replicas: (?P<replicas>[-0-9,]*), isrs: (?P<isr>[-0-9,]*)(?:, .*)?\s*"
)


_LINE_START = re.compile(
    r"[\s>#]*(?:[0-9]+ (?:broker|topic)s:\s*\S|broker -?[0-9]+ at |partition [0-9]+, l"
    r"|topic \"(?:[^\"]*\" with [0-9]|[A-Za-z0-9._-]*\"?$))|[ \t>#]{2,}(?:broker|partition) -?[0-9]"
)


@dataclass(slots=True)
class _List:
    """A list of brokers or topics: its heading in line ``number`` announces ``announced`` entries; ``read`` so far."""

    number: int
    line: str
    announced: int
    read: int = 0


def recognises(text: str) -> bool:
    """Whether the text has kcat's heading, or a line that only kcat writes."""
    return "Metadata for " in text or (", isrs: " in text and ", leader " in text)


def parse(text: str) -> Iterator[Record]:
    """Yield brokers, topics and partitions in order, and a malformed record per list with missing entries."""
    topic: str | None = None
    lists: dict[str, _List] = {}
    inside = False
    for number, line in enumerate(lines_of(text), 1):
        record = None
        if (match := _COUNT.fullmatch(line)) is not None:
            yield from _missing_entries(lists.get(match["kind"]))
            lists[match["kind"]] = _List(number, line, int(match["count"]))
        elif (match := _BROKER.fullmatch(line)) is not None:
            record = _broker(number, match)
        elif (match := _TOPIC.fullmatch(line)) is not None:
            fault = topic_fault(match["topic"])
            topic = None if fault else match["topic"]
            record = _malformed(number, line, fault) if fault else _topic(number, match)
        elif ", isrs: " in line:
            record = _partition(number, line, topic)
        elif _LINE_START.match(line) or (inside and line.startswith("  ") and line.strip()):
            record = _malformed(number, line, "this broker, topic or partition line is cut off or damaged")
        inside = record is not None
        if record is not None:
            yield record
            if record.kind in lists:
                lists[record.kind].read += 1
    for entries in lists.values():
        yield from _missing_entries(entries)


def _missing_entries(entries: _List | None) -> Iterator[Record]:
    if entries is not None and entries.read < entries.announced:
        reason = f"the heading announces {entries.announced} entries, but only {entries.read} can be read"
        yield _malformed(entries.number, entries.line, reason)


def _broker(number: int, match: re.Match[str]) -> Record:
    host, port = endpoint(match["name"])
    payload = {
        "broker_id": int(match["id"]),
        "host": host,
        "port": port,
        "rack": None,
        "fenced": None,
        "is_controller": match["controller"] is not None,
    }
    return Record("broker", number, payload)


def _topic(number: int, match: re.Match[str]) -> Record:
    payload = {
        "topic": match["topic"],
        "topic_id": None,
        "partition_count": int(match["count"]),
        "replication_factor": None,
        "configs": None,
        "marked_for_deletion": False,
    }
    return Record("topic", number, payload)


def _partition(number: int, line: str, topic: str | None) -> Record:
    match = _PARTITION.fullmatch(line)
    replicas, isr = (broker_ids(match["replicas"]), broker_ids(match["isr"])) if match else (None, None)
    if match is None or replicas is None or isr is None:
        return _malformed(
            number, line, "the line does not have the form 'partition N, leader N, replicas: 1,2, isrs: 1,2'"
        )
    if topic is None:
        return _malformed(number, line, "there is no valid topic line above this partition")
    leader = int(match["leader"])
    payload = {
        "topic": topic,
        "partition": int(match["partition"]),
        "leader": None if leader == -1 else leader,
        "replicas": replicas,
        "isr": isr,
        "adding": None,
        "removing": None,
        "offline": None,
        "elr": None,
        "last_known_elr": None,
        "observers": None,
    }
    return Record("partition", number, payload)


def _malformed(number: int, line: str, reason: str) -> Record:
    return malformed(line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=line)
