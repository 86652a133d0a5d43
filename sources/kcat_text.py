"""``kcat -L`` (kafkacat) as text: brokers, topics and partitions; no racks, no configs.

References
----------
``metadata_print`` of kcat's ``kcat.c`` (1.3 to 1.7).
"""

import re
from collections.abc import Iterator

from sources.kcat_json import endpoint
from sources.record import Record, malformed
from sources.text import broker_ids, lines_of, topic_fault

EXPECTED = "kcat -L"
REMEDY = "supply the whole output of kcat -L, or of kcat -L -J"

_BROKER = re.compile(r"[\s>#]*broker (?P<id>-?[0-9]{1,19}) at (?P<name>\S+)(?P<controller> \(controller\))?\s*")
_TOPIC = re.compile(r"[\s>#]*topic \"(?P<topic>[^\"]*)\" with (?P<count>[0-9]{1,9}) partitions:.*")
_PARTITION = re.compile(
    r"[\s>#]*partition (?P<partition>[0-9]{1,10}), leader (?P<leader>-?[0-9]{1,19}), "
    r"replicas: (?P<replicas>[-0-9,]*), isrs: (?P<isr>[-0-9,]*)(?:, .*)?\s*"
)


_BEGINS = re.compile(
    r"[\s>#]*(?:broker -?[0-9]+ at |topic \"[^\"]*\" with [0-9]|partition [0-9]+, l|topic \"[A-Za-z0-9._-]*\"?$)"
)


def recognises(text: str) -> bool:
    """Whether the text has kcat's heading, or a line as only kcat writes it."""
    return "Metadata for " in text or (", isrs: " in text and ", leader " in text)


def parse(text: str) -> Iterator[Record]:
    """Brokers, topics and partitions in the order of the text."""
    topic: str | None = None
    for number, line in enumerate(lines_of(text), 1):
        if (match := _BROKER.fullmatch(line)) is not None:
            yield _broker(number, match)
        elif (match := _TOPIC.fullmatch(line)) is not None:
            fault = topic_fault(match["topic"])
            topic = None if fault else match["topic"]
            yield _fault(number, line, fault) if fault else _topic(number, match)
        elif ", leader " in line and ", isrs: " in line:
            yield _partition(number, line, topic)
        elif _BEGINS.match(line):
            yield _fault(number, line, "the line of a broker, a topic or a partition is cut off or damaged")


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
