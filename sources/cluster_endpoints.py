"""``kafka-cluster.sh list-endpoints``: brokers with rack and state, also fenced ones (``--include-fenced-brokers``).

::

    ID         HOST             PORT       RACK       STATE      ENDPOINT_TYPE
    5          broker-5.example 9092       c          fenced     broker

Columns are padded to the longest value, not to the header, so they need not stand below it. A rack may hold blanks;
``null`` is none. The state may be missing. With ``--bootstrap-controller`` the tool lists controllers: they
hold no replica, so they are named and not read.

References
----------
``org.apache.kafka.tools.ClusterTool.listEndpoints`` (4.x).
"""

import re
from collections.abc import Iterator

from optimizer.units import plural
from sources.record import UNREADABLE_FILE, Record, malformed
from sources.text import lines_of

EXPECTED = "kafka-cluster.sh list-endpoints"
REMEDY = "supply the tool's output as it was printed, whole: ID HOST PORT RACK STATE ENDPOINT_TYPE"
_OF_CONTROLLERS = "run it with --bootstrap-server and --include-fenced-brokers"

_HEADER = re.compile(r"[\s>#]*ID\s+HOST\s+PORT\s+RACK(?P<state>\s+STATE)?\s+ENDPOINT_TYPE\s*")
_LIKE_HEADER = re.compile(r"[\s>#]*ID\s+HOST\b")
_START = re.compile(r"[\s>#]*(?P<id>[0-9]{1,19})\s+(?P<host>\S+)\s+(?P<port>-?[0-9]{1,9})(?=\s)")
_WITH_STATE = re.compile(r"[\s>#]*[0-9].*\s(?:un)?fenced\s+broker\b")
_BEGINS = re.compile(r"[\s>#]*-?[0-9]")
_STATES = {"fenced": True, "unfenced": False}
# In what was taken for a rack: the end of one line and the start of the next.
_JOINED = re.compile(r"(?:^|\s)(?:broker|controller)\s*[0-9]")


def recognises(text: str) -> bool:
    """Whether the text has the header, or words of a line."""
    return "ENDPOINT_TYPE" in text or "fenced " in text


def parse(text: str) -> Iterator[Record]:
    """One record a broker; one that names controllers; one for a header that was damaged or has no line below it."""
    header, inside, has_state, controllers = 0, False, True, list[tuple[int, str]]()
    for number, line in enumerate([*lines_of(text), ""], 1):
        if (inside and _BEGINS.match(line)) or _WITH_STATE.match(line):
            header = 0
            found = _broker(number, line, has_state=has_state)
            if isinstance(found, str):
                controllers.append((number, found))
            else:
                yield found
            continue
        if header:
            yield _fault(header, line, "no broker stands below the header")
        match = _HEADER.fullmatch(line)
        inside = _LIKE_HEADER.match(line) is not None
        has_state = match is None or match["state"] is not None
        header = number if match else 0
        if inside and not match:
            yield _fault(number, line, "not the header 'ID HOST PORT RACK STATE ENDPOINT_TYPE'")
    if controllers:
        yield _controllers(controllers)


def _broker(number: int, line: str, *, has_state: bool) -> Record | str:
    """The broker of a line, or the id of a controller."""
    start = _START.match(line)
    rest, _, node_type = line[start.end() :].rstrip().rpartition(" ") if start else ("", "", "")
    if start and node_type == "controller":
        return start["id"]
    state = (rest.split() or [""])[-1] if has_state else ""
    rack = rest.strip().removesuffix(state).strip()
    if start is None or node_type != "broker" or (has_state and state not in _STATES) or _JOINED.search(rack):
        return _fault(number, line, "not 'ID HOST PORT RACK STATE ENDPOINT_TYPE'")
    payload = {
        "broker_id": int(start["id"]),
        "host": start["host"],
        "port": int(start["port"]),
        "rack": None if rack == "null" else rack,
        "fenced": _STATES.get(state),
        "is_controller": None,
    }
    return Record("broker", number, payload)


def _controllers(listed: list[tuple[int, str]]) -> Record:
    ids = ", ".join(broker_id for _, broker_id in listed)
    reason = f"it lists {plural(len(listed), 'controller')} ({ids}), which hold no replica, and no broker"
    return malformed(
        line=listed[0][0],
        expected=EXPECTED,
        reason=reason,
        remedy=_OF_CONTROLLERS,
        text="",
        rule=UNREADABLE_FILE,
        severity="warning",
    )


def _fault(number: int, line: str, reason: str) -> Record:
    return malformed(line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=line)
