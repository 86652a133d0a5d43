"""Capacities as CSV: one row per broker, or per log directory of a broker.

Columns: ``broker_id`` (-1, ``default`` or ``*``: every broker without its own row), ``log_dir`` (optional),
``disk_<unit>``, ``in_<unit>_per_s``, ``out_<unit>_per_s``. Units are bytes, kb, mb, gb, tb (powers of 1000), kib, mib,
gib, tib (powers of 1024). An empty cell is unknown. A column without a known unit is refused.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation

from optimizer.units import human_bytes, human_rate
from sources.brokers_csv import COLUMNS
from sources.csv_text import BROKER_ID, CsvRow, first_of, header_of, rows_of
from sources.metrics_csv import UNIT_LIKE
from sources.record import UNREADABLE_FILE, Record, malformed
from sources.text import integer

EXPECTED = "capacity CSV"
REMEDY = "use the columns broker_id, log_dir, disk_bytes (or disk_mb, disk_gib, ...), in_bytes_per_s, out_bytes_per_s"

# Smallest and largest plausible capacity of a broker. Above it, the value is probably in a smaller unit.
_DISK = (10**9, 10**15, human_bytes)
_RATE = (10**6, 10**11, human_rate)  # 800 Gbit/s
_SMALLER = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("bytes", 1))  # bytes in each unit
_UNITS = {"bytes": 1}  # bytes in each unit: kb and the like are powers of 1000, kib of 1024
_UNITS |= {f"{prefix}b": 1000 ** (power + 1) for power, prefix in enumerate("kmgt")}
_UNITS |= {f"{prefix}ib": 1024 ** (power + 1) for power, prefix in enumerate("kmgt")}
_COLUMN = re.compile(rf"(disk|in|out)(?:_capacity)?_({'|'.join(_UNITS)})(?:_per_s(?:ec)?)?")
_WITHOUT_UNIT = re.compile(
    rf"(?:disk|in|out|size|capacity)(?:_(?:capacity|size|rate))?(?:_{UNIT_LIKE})?(?:_rate)?(?:_per_s(?:ec(?:ond)?)?)?"
)
_LOG_DIR = ("log_dir", "logdir", "dir", "path")
_DEFAULTS = frozenset({"default", "*"})
_FIELDS = {"disk": "disk_bytes", "in": "in_bytes_per_s", "out": "out_bytes_per_s"}
_NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE]\+?[0-9]{1,2})?")


def recognises(text: str) -> bool:
    """Whether the header has a broker id and a capacity."""
    header = header_of(text)
    has_capacity = bool(_amount_columns(header)) or any(_WITHOUT_UNIT.fullmatch(name) for name in header)
    return first_of(header, BROKER_ID) is not None and "topic" not in header and has_capacity


def parse(text: str) -> Iterator[Record]:
    """Yield one record per row, or one malformed record for the table if a column has no known unit."""
    header = header_of(text)
    known = {name for name, _ in _amount_columns(header).values()}
    unknown = [name for name in header if name not in known and _WITHOUT_UNIT.fullmatch(name)]
    if unknown:
        reason = f"the columns {unknown} have no unit or an unknown unit; the unit must be one of {', '.join(_UNITS)}"
        yield malformed(
            line=1, expected=EXPECTED, reason=reason, remedy=REMEDY, text=", ".join(header), rule=UNREADABLE_FILE
        )
        return
    for row in rows_of(text):
        yield _record(row, header)


def unknown_columns(text: str) -> Iterator[Record]:
    """Yield a warning that names unknown columns of a table about brokers: a column may be misspelt."""
    header = header_of(text)
    known = (*COLUMNS, *_LOG_DIR)
    names = [n for n in header if n not in known and not _COLUMN.fullmatch(n) and not _WITHOUT_UNIT.fullmatch(n)]
    if names:
        reason = f"the columns {names} are unknown and are ignored"
        remedy = "correct their spelling (docs/formats.md lists all columns), or remove them"
        yield malformed(
            line=1, expected=EXPECTED, reason=reason, remedy=remedy, text="", rule="readable", severity="warning"
        )


def amount(text: str, *, unit: int) -> int | None:
    """Bytes of a non-negative decimal number in units of ``unit`` bytes, rounded down; None if ``text`` is not one."""
    if not _NUMBER.fullmatch(text.strip()):
        return None
    try:
        value = Decimal(text.strip()) * unit
    except InvalidOperation:
        return None
    return int(value) if value >= 0 else None


def unit_doubt(name: str, amount_bytes: int | None, *, unit: int, is_disk: bool) -> str | None:
    """Why an amount is probably not in units of ``unit`` bytes; None if it is plausible.

    >>> unit_doubt("DISK 4000000000000 MB", 4000000000000 * 2**20, unit=2**20, is_disk=True)
    'DISK 4000000000000 MB would be 4194.30 PB: the value is probably in bytes (4.00 TB)'
    """
    least, most, human = _DISK if is_disk else _RATE
    if amount_bytes is None or amount_bytes <= most:
        return None
    number = amount_bytes / unit
    smaller = [(prefix, number * size) for prefix, size in _SMALLER if size < unit and least <= number * size <= most]
    likely = " or ".join(f"in {prefix} ({human(value)})" for prefix, value in smaller)
    return f"{name} would be {human(amount_bytes)}" + (f": the value is probably {likely}" if likely else "")


def origin_fields(doubts: Iterable[str | None], names: Iterable[str]) -> dict[str, str | None]:
    """The fields ``as_written`` and ``doubt`` of a capacity."""
    doubtful = "; ".join(doubt for doubt in doubts if doubt)
    return {"as_written": ", ".join(names) or None, "doubt": doubtful or None}


def _amount_columns(header: tuple[str, ...]) -> dict[str, tuple[str, int]]:
    """By field: the name of its column, and the bytes of its unit."""
    matches = {name: _COLUMN.fullmatch(name) for name in header}
    return {_FIELDS[match[1]]: (name, _UNITS[match[2]]) for name, match in matches.items() if match}


def _record(row: CsvRow, header: tuple[str, ...]) -> Record:
    id_text = row.cells.get(first_of(header, BROKER_ID) or "", "")
    broker_id = -1 if id_text.lower() in _DEFAULTS else integer(id_text)
    log_dir = row.cells.get(first_of(header, _LOG_DIR) or "", "")
    faults = [row.error] if row.error else []
    if broker_id is None:
        faults.append(f"broker id {id_text!r} is not an integer")
    amounts: dict[str, int | None] = dict.fromkeys(_FIELDS.values())
    names, doubts = list[str](), list[str | None]()
    for field, (column, unit) in _amount_columns(header).items():
        cell = row.cells.get(column, "")
        amounts[field] = amount(cell, unit=unit) if cell else None
        if cell and amounts[field] is None:
            faults.append(f"{column} {cell!r} is not a non-negative number")
        if cell:
            names.append(f"{column} {cell}")
            doubts.append(unit_doubt(names[-1], amounts[field], unit=unit, is_disk=field == "disk_bytes"))
    if faults:
        text = str(row.cells)
        return malformed(line=row.line, expected=EXPECTED, reason="; ".join(faults), remedy=REMEDY, text=text)
    owner = {"broker_id": broker_id, "log_dir": log_dir or None}
    return Record("capacity", row.line, {**owner, **amounts, **origin_fields(doubts, names)})
