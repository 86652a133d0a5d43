"""``kafka-cluster.sh list-endpoints``: brokers with rack and state, also fenced ones (``--include-fenced-brokers``).

::

    ID         HOST             PORT       RACK       STATE      ENDPOINT_TYPE
    5          broker-5.example 9092       c          fenced     broker

Columns are padded to the longest value, so they need not align with the header. A rack may contain blanks; ``null``
means no rack. The column STATE may be missing. With ``--bootstrap-controller`` the tool lists controllers: they hold no
replicas, so a warning names them and they are not read.

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
REMEDY = "supply the complete, unchanged output, with the header ID HOST PORT RACK STATE ENDPOINT_TYPE"
_CONTROLLERS_REMEDY = "run kafka-cluster.sh list-endpoints with --bootstrap-server and --include-fenced-brokers"

_HEADER = re.compile(r"[\s>#]*ID\s+HOST\s+PORT\s+RACK(?P<state>\s+STATE)?\s+ENDPOINT_TYPE\s*")
_LIKE_HEADER = re.compile(r"[\s>#]*ID\s+HOST\b")
_START = re.compile(r"[\s>#]*(?P<id>[0-9]{1,19})\s+(?P<host>\S+)\s+(?P<port>-?[0-9]{1,9})(?=\s)")
_WITH_STATE = re.compile(r"[\s>#]*[0-9].*\s(?:un)?fenced\s+broker\b")
_LINE_START = re.compile(r"[\s>#]*-?[0-9]")
_STATES = {"fenced": True, "unfenced": False}
# A "rack" with this pattern shows that two lines were joined.
_JOINED = re.compile(r"(?:^|\s)(?:broker|controller)\s*[0-9]")


def recognises(text: str) -> bool:
    """Whether the text has the header, or words of a line."""
    return "ENDPOINT_TYPE" in text or "fenced " in text


def parse(text: str) -> Iterator[Record]:
    """Yield one record per broker, and a malformed one for controllers and for each header that is damaged or alone."""
    header_line, inside, has_state, controllers = 0, False, True, list[tuple[int, str]]()
    for number, line in enumerate([*lines_of(text), ""], 1):
        if (inside and _LINE_START.match(line)) or _WITH_STATE.match(line):
            header_line = 0
            record = _broker(number, line, has_state=has_state)
            if isinstance(record, str):
                controllers.append((number, record))
            else:
                yield record
            continue
        if header_line:
            yield _malformed(header_line, line, "no broker line follows this header")
        match = _HEADER.fullmatch(line)
        inside = _LIKE_HEADER.match(line) is not None
        has_state = match is None or match["state"] is not None
        header_line = number if match else 0
        if inside and not match:
            yield _malformed(
                number, line, "the header is damaged; it should be 'ID HOST PORT RACK STATE ENDPOINT_TYPE'"
            )
    if controllers:
        yield _controllers(controllers)


def _broker(number: int, line: str, *, has_state: bool) -> Record | str:
    """The record of a line; only the id if the line names a controller."""
    start = _START.match(line)
    rest, _, node_type = line[start.end() :].rstrip().rpartition(" ") if start else ("", "", "")
    if start and node_type == "controller":
        return start["id"]
    state = (rest.split() or [""])[-1] if has_state else ""
    rack = rest.strip().removesuffix(state).strip()
    if start is None or node_type != "broker" or (has_state and state not in _STATES) or _JOINED.search(rack):
        return _malformed(number, line, "the line does not have the columns 'ID HOST PORT RACK STATE ENDPOINT_TYPE'")
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
    ids = ", ".join(controller_id for _, controller_id in listed)
    reason = f"the output lists {plural(len(listed), 'controller')} ({ids}); controllers hold no replicas"
    return malformed(
        line=listed[0][0],
        expected=EXPECTED,
        reason=reason,
        remedy=_CONTROLLERS_REMEDY,
        text="",
        rule=UNREADABLE_FILE,
        severity="warning",
    )


def _malformed(number: int, line: str, reason: str) -> Record:
    return malformed(line=number, expected=EXPECTED, reason=reason, remedy=REMEDY, text=line)
