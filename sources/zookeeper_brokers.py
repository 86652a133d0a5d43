"""ZooKeeper's ``/brokers/ids/N``: one JSON document per broker, versions 1 to 5.

The document does not contain its broker id. The id comes from the znode's path or a ``broker N`` before it (``get
/brokers/ids/3``), from the key of an object with several brokers, or, for a file with one document, from the file's
name. Without an id the document is refused.

References
----------
``kafka.zk.BrokerIdZNode.encode`` and ``decode`` (3.9): version 1 to 5; ``host`` null and ``port`` -1 without a plain
listener.
"""

import re
from collections.abc import Iterator
from typing import Any

from sources.json_text import JsonDocument, documents
from sources.kcat_json import endpoint
from sources.record import Record, malformed
from sources.text import is_integer

EXPECTED = "ZooKeeper /brokers/ids JSON"
REMEDY = (
    "put 'get /brokers/ids/N' on the line before the JSON, or save each broker in its own file, as brokers_ids_N.json"
)

_PATH = re.compile(
    r"/brokers/ids/([0-9]{1,19})|^[ \t]*(?:[Bb]roker[ _-]?)?\"?([0-9]{1,19})\"?[ \t]*[:=]?\s*\Z", re.MULTILINE
)
_NAMED = re.compile(r"/brokers/ids/([0-9]{1,10})\b")
_KEY = re.compile(r"(?:.*/)?([0-9]{1,19})")
_FILE = re.compile(r"(?:.*/|(?:.*[/_.-])?(?:brokers?|ids?|nodes?)[/_.-]?)?([0-9]{1,19})(?:\.[A-Za-z]+)?")


def recognises(text: str) -> bool:
    """Whether the text has a key of a registered broker."""
    return '"jmx_port"' in text or '"endpoints"' in text


def parse(text: str, *, name: str = "") -> Iterator[Record]:
    """Yield one record per broker.

    Parameters
    ----------
    name : str
        Path of the file. Its last number is the broker's id if the text has one document and no id.
    """
    unread = {int(broker_id) for broker_id in _NAMED.findall(text)}
    candidates = [document for document in documents(text) if document.error is not None or _nodes(document.value)]
    for document in candidates:
        if document.error is not None:
            if any(name in document.text for name in ("jmx_port", "endpoints", "listener_security_protocol_map")):
                yield document.refusal(expected=EXPECTED, remedy=REMEDY)
            continue
        for key, node in _nodes(document.value):
            broker_id = _key_id(key) if key is not None else _id_before(document)
            if broker_id is None and key is None and len(candidates) == 1:
                broker_id = _file_id(name)
            unread -= {broker_id}
            yield _broker(document, node, broker_id)
    for broker_id in sorted(unread):
        line = text.count("\n", 0, text.find(f"/brokers/ids/{broker_id}")) + 1
        reason = f"broker {broker_id} is named here, but the text has no readable JSON of it"
        yield malformed(line=line, expected=EXPECTED, reason=reason, remedy=REMEDY, text="")


def _nodes(value: object) -> list[tuple[str | None, dict[str, Any]]]:
    """The znodes in a JSON value, each with its key or None."""
    if _is_node(value) and isinstance(value, dict):
        return [(None, value)]
    if isinstance(value, dict) and value and all(_is_node(node) for node in value.values()):
        return [(str(key), node) for key, node in value.items()]
    return []


def _is_node(value: object) -> bool:
    return (
        isinstance(value, dict)
        and "host" in value
        and "port" in value
        and ("jmx_port" in value or "endpoints" in value)
    )


def _key_id(key: str) -> int | None:
    match = _KEY.fullmatch(key)
    return int(match[1]) if match else None


def _id_before(document: JsonDocument) -> int | None:
    ids = [match[1] or match[2] for match in _PATH.finditer(document.before)]
    return int(ids[-1]) if ids else None


def _file_id(name: str) -> int | None:
    match = _FILE.fullmatch(name)
    return int(match[1]) if match else None


def _broker(document: JsonDocument, node: dict[str, Any], broker_id: int | None) -> Record:
    if broker_id is None:
        reason = "the id of this broker is unknown: there is no znode path and no 'broker N' before the JSON"
        return _malformed(document, reason)
    host, port = node["host"], node["port"]
    endpoints = node.get("endpoints")
    if isinstance(endpoints, list) and endpoints and (not isinstance(host, str) or not is_integer(port) or port < 0):
        host, port = endpoint(str(endpoints[0]))
    rack = node.get("rack")
    payload = {
        "broker_id": broker_id,
        "host": host if isinstance(host, str) else None,
        "port": port if is_integer(port) else None,
        "rack": rack if isinstance(rack, str) and rack else None,
        "fenced": None,
        "is_controller": None,
    }
    return Record("broker", document.line, payload)


def _malformed(document: JsonDocument, reason: str) -> Record:
    return malformed(line=document.line, expected=EXPECTED, reason=reason, remedy=REMEDY, text=document.text)
