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
REMEDY = "supply the whole output of kcat -L, or of kcat -L -J"

_BROKER = re.compile(r"[\s>#]*broker (?P<id>-?[0-9]{1,19}) at (?P<name>\S+)(?P<controller> \(controller\))?\s*")
_TOPIC = re.compile(r"[\s>#]*topic \"(?P<topic>[^\"]*)\" with (?P<count>[0-9]{1,9}) partitions:(?!.*, leader ).*")
_COUNT = re.compile(r"[\s>#]*(?P<count>[0-9]{1,9}) (?P<kind>broker|topic)s:\s*")
_PARTITION = re.compile(
    r"[\s>#]*partition (?P<partition>[0-9]{1,10}), leader (?P<leader>-?[0-9]{1,19}), "
    r"replicas: (?P<replicas>[-0-9,]*), isrs: (?P<isr>[-0-9,]*)(?:, .*)?\s*"
)


_BEGINS = re.compile(
    r"[\s>#]*(?:[0-9]+ (?:broker|topic)s:\s*\S|broker -?[0-9]+ at |partition [0-9]+, l"
    r"|topic \"(?:[^\"]*\" with [0-9]|[A-Za-z0-9._-]*\"?$))|[ \t>#]{2,}(?:broker|partition) -?[0-9]"
)


@dataclass(slots=True)
class _List:
    """A list as its heading announces it in ``line``, line ``number`` of the text: of ``said`` lines, of which
    ``read`` could be read so far."""

    number: int
    line: str
    said: int
    read: int = 0


def recognises(text: str) -> bool:
    """Whether the text has kcat's heading, or a line as only kcat writes it."""
    return "Metadata for " in text or (", isrs: " in text and ", leader " in text)


def parse(text: str) -> Iterator[Record]:
    """Brokers, topics and partitions in the order of the text, and each list that is shorter than it says."""
    topic: str | None = None
    lists: dict[str, _List] = {}
    inside = False
    for number, line in enumerate(lines_of(text), 1):
        record = None
        if (match := _COUNT.fullmatch(line)) is not None:
            yield from _short(lists.get(match["kind"]))
            lists[match["kind"]] = _List(number, line, int(match["count"]))
        elif (match := _BROKER.fullmatch(line)) is not None:
            record = _broker(number, match)
        elif (match := _TOPIC.fullmatch(line)) is not None:
            fault = topic_fault(match["topic"])
            topic = None if fault else match["topic"]
            record = _fault(number, line, fault) if fault else _topic(number, match)
        elif ", isrs: " in line:
            record = _partition(number, line, topic)
        elif _BEGINS.match(line) or (inside and line.startswith("  ") and line.strip()):
            record = _fault(number, line, "the line of a broker, a topic or a partition is cut off or damaged")
        inside = record is not None
        if record is not None:
            yield record
            if record.kind in lists:
                lists[record.kind].read += 1
    for one in lists.values():
        yield from _short(one)


def _short(one: _List | None) -> Iterator[Record]:
    if one is not None and one.read < one.said:
        yield _fault(one.number, one.line, f"{one.said} are announced, {one.read} can be read")


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
        return _fault(number, line, "not 'partition N, leader N, replicas: 1,2, isrs: 1,2'")
    if topic is None:
        return _fault(number, line, "no legal topic stands above this partition")
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
    }
    return Record("partition", number, payload)


def _fault(number: int, line: str, reason: str) -> Record:
    return malformed(line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=line)
