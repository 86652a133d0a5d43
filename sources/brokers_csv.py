"""Brokers as CSV.

Columns in any order: ``broker_id`` (or ``id``, ``broker``);
``rack``, ``host``, ``port``, ``fenced``, ``is_controller``.
"""

from collections.abc import Iterator

from sources.csv_text import BROKER_ID, CsvRow, first_of, header_of, rows_of
from sources.record import Record, malformed
from sources.text import integer

EXPECTED = "brokers CSV"
REMEDY = "use the columns broker_id, rack, host, port, fenced (true or false), is_controller (true or false)"

_RACK, _HOST, _PORT = ("rack", "broker_rack", "az", "zone"), ("host", "hostname"), ("port",)
_FENCED, _CONTROLLER = ("fenced", "is_fenced", "isfenced"), ("is_controller", "controller")
_MISSING = frozenset({"", "null", "none", "-", "n/a"})
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


COLUMNS = frozenset({*BROKER_ID, *_RACK, *_HOST, *_PORT, *_FENCED, *_CONTROLLER})


def recognises(text: str) -> bool:
    """Whether the header has a broker id and at least a rack, a host or a fenced flag."""
    header = header_of(text)
    details = (*_RACK, *_HOST, *_FENCED)
    return first_of(header, BROKER_ID) is not None and first_of(header, details) is not None and "topic" not in header


def parse(text: str) -> Iterator[Record]:
    """Yield one record per row."""
    header = header_of(text)
    columns = {
        "broker_id": first_of(header, BROKER_ID),
        "rack": first_of(header, _RACK),
        "host": first_of(header, _HOST),
        "port": first_of(header, _PORT),
        "fenced": first_of(header, _FENCED),
        "is_controller": first_of(header, _CONTROLLER),
    }
    for row in rows_of(text):
        yield _record(row, columns)


def _record(row: CsvRow, columns: dict[str, str | None]) -> Record:
    cells = {name: row.cells.get(column, "") if column else "" for name, column in columns.items()}
    given = {name: None if cell.lower() in _MISSING else cell for name, cell in cells.items()}
    broker_id, port = integer(cells["broker_id"]), integer(given["port"] or "")
    flags = {name: _FLAGS.get((given[name] or "").lower()) for name in ("fenced", "is_controller")}
    faults = [row.error] if row.error else []
    if broker_id is None:
        faults.append(f"broker id {cells['broker_id']!r} is not an integer")
    if given["port"] is not None and port is None:
        faults.append(f"port {cells['port']!r} is not an integer")
    faults += [f"{name} {cells[name]!r} is not true or false" for name in flags if given[name] and flags[name] is None]
    if faults:
        text = str(row.cells)
        return malformed(line=row.line, expected=EXPECTED, reason="; ".join(faults), remedy=REMEDY, text=text)
    payload = {"broker_id": broker_id, "host": given["host"], "port": port, "rack": given["rack"], **flags}
    return Record("broker", row.line, payload)
