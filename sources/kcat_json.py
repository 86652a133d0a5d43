"""``kcat -L -J`` (kafkacat): brokers, topics and partitions as JSON; no racks, no configs.

References
----------
``metadata_print_json`` of kcat's ``json.c`` (1.3 to 1.7).
"""

from collections.abc import Iterator
from typing import Any

from sources.json_text import JsonDocument, as_json, documents
from sources.record import Record, malformed
from sources.text import integer, is_integer, topic_fault

EXPECTED = "kcat -L -J"
REMEDY = "supply the complete, unchanged output of kcat -L -J"


def recognises(text: str) -> bool:
    """Whether the text has a key that only kcat's JSON has."""
    return '"originating_broker"' in text or '"controllerid"' in text


def parse(text: str) -> Iterator[Record]:
    """Yield brokers, then each topic with its partitions."""
    for document in documents(text):
        value = document.value
        if document.error is not None:
            if "controllerid" in document.text or "isrs" in document.text:
                yield document.refusal(expected=EXPECTED, remedy=REMEDY)
        elif isinstance(value, dict) and ("originating_broker" in value or "controllerid" in value):
            yield from _metadata(document, value)


def endpoint(name: str) -> tuple[str, int | None]:
    """Host and port of ``[protocol://]host:port``."""
    host, _, port = name.rpartition("://")[2].rpartition(":")
    return (host, integer(port)) if host else (name, None)


def _metadata(document: JsonDocument, value: dict[str, Any]) -> Iterator[Record]:
    controller = value.get("controllerid")
    for key, read in (("brokers", _broker), ("topics", _topic)):
        entries = value.get(key, [])
        if not isinstance(entries, list):
            yield _malformed(document.line, f"{key!r} is not a list", entries)
            continue
        lines = document.lines_of("name" if key == "brokers" else "topic")
        for entry in entries:
            yield from read(entry, next(lines) if key == "topics" else document.line, controller)


def _broker(entry: Any, line: int, controller: Any) -> Iterator[Record]:
    if not isinstance(entry, dict) or not is_integer(entry.get("id")):
        yield _malformed(line, "a broker has no integer 'id'", entry)
        return
    host, port = endpoint(str(entry.get("name", "")))
    payload = {
        "broker_id": entry["id"],
        "host": host or None,
        "port": port,
        "rack": None,
        "fenced": None,
        "is_controller": entry["id"] == controller if is_integer(controller) else None,
    }
    yield Record("broker", line, payload)


def _topic(entry: Any, line: int, _controller: Any) -> Iterator[Record]:
    topic = entry.get("topic") if isinstance(entry, dict) else None
    partitions = entry.get("partitions") if isinstance(entry, dict) else None
    fault = topic_fault(topic)
    if fault is None and not isinstance(partitions, list):
        fault = f"'partitions' of {topic} is not a list"
    if fault is not None or not isinstance(partitions, list):
        yield _malformed(line, fault or "no partitions", entry)
        return
    payload = {
        "topic": topic,
        "topic_id": None,
        "partition_count": len(partitions),
        "replication_factor": None,
        "configs": None,
        "marked_for_deletion": False,
    }
    yield Record("topic", line, payload)
    for partition in partitions:
        yield _partition(str(topic), partition, line)


def _partition(topic: str, entry: Any, line: int) -> Record:
    number = entry.get("partition") if isinstance(entry, dict) else None
    replicas = _ids(entry.get("replicas")) if isinstance(entry, dict) else None
    isr = _ids(entry.get("isrs", [])) if isinstance(entry, dict) else None
    leader = entry.get("leader", -1) if isinstance(entry, dict) else None
    if not is_integer(number) or replicas is None or isr is None or not is_integer(leader):
        return _malformed(line, f"a partition of {topic} has no valid partition, leader, replicas or isrs", entry)
    payload = {
        "topic": topic,
        "partition": number,
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
    return Record("partition", line, payload)


def _ids(entries: Any) -> list[int] | None:
    if not isinstance(entries, list):
        return None
    ids = [entry.get("id") if isinstance(entry, dict) else None for entry in entries]
    known = [broker for broker in ids if isinstance(broker, int) and is_integer(broker)]
    return known if len(known) == len(ids) else None


def _malformed(line: int, reason: str, piece: object) -> Record:
    return malformed(line=line, expected=EXPECTED, reason=reason, remedy=REMEDY, text=as_json(piece))
