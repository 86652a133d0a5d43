"""Capacities as CSV: a broker (or a directory of one) a row.

Columns: ``broker_id`` (-1, ``default`` or ``*``: every broker without a row of its own), ``log_dir`` (optional),
``disk_<unit>``, ``in_<unit>_per_s``, ``out_<unit>_per_s`` with the unit bytes, kb, mb, gb, tb (powers of 1000) or kib,
mib, gib, tib (of 1024). An empty cell is unknown. A column without a unit, or with another, is refused.
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
REMEDY = "columns: broker_id, log_dir, disk_bytes (or disk_mb, disk_gib, ...), in_bytes_per_s, out_bytes_per_s"

# Least and most that a broker may have: over it an amount is likely in a smaller unit than the file says.
_DISK = (10**9, 10**15, human_bytes)
_RATE = (10**6, 10**11, human_rate)  # 800 Gbit/s
_SMALLER = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("bytes", 1))  # bytes in each unit
_UNITS = {"bytes": 1}  # bytes in each unit: kb and the like are powers of 1000, kib of 1024
_UNITS |= {f"{prefix}b": 1000 ** (power + 1) for power, prefix in enumerate("kmgt")}
_UNITS |= {f"{prefix}ib": 1024 ** (power + 1) for power, prefix in enumerate("kmgt")}
_COLUMN = re.compile(rf"(disk|in|out)(?:_capacity)?_({'|'.join(_UNITS)})(?:_per_s(?:ec)?)?")
_OF_NO_UNIT = re.compile(
    rf"(?:disk|in|out|size|capacity)(?:_(?:capacity|size|rate))?(?:_{UNIT_LIKE})?(?:_rate)?(?:_per_s(?:ec(?:ond)?)?)?"
)
_LOG_DIR = ("log_dir", "logdir", "dir", "path")
_DEFAULTS = frozenset({"default", "*"})
_FIELDS = {"disk": "disk_bytes", "in": "in_bytes_per_s", "out": "out_bytes_per_s"}
_NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE]\+?[0-9]{1,2})?")


def recognises(text: str) -> bool:
    """Whether the first line is a header with a broker's id and a capacity."""
    header = header_of(text)
    told = bool(_amounts(header)) or any(_OF_NO_UNIT.fullmatch(name) for name in header)
    return first_of(header, BROKER_ID) is not None and "topic" not in header and told


def parse(text: str) -> Iterator[Record]:
    """One record a row; one for the table where a column has no unit that is known."""
    header = header_of(text)
    known = {name for name, _ in _amounts(header).values()}
    unknown = [name for name in header if name not in known and _OF_NO_UNIT.fullmatch(name)]
    if unknown:
        reason = f"the columns {unknown} have no unit, or an unknown one: name them with one of {', '.join(_UNITS)}"
        yield malformed(
            line=1, expected=EXPECTED, reason=reason, remedy=REMEDY, text=", ".join(header), rule=UNREADABLE_FILE
        )
        return
    for row in rows_of(text):
        yield _record(row, header)


def unread(text: str) -> Iterator[Record]:
    """A finding for columns of a table about brokers that mean nothing here: one may be misspelt."""
    header = header_of(text)
    known = (*COLUMNS, *_LOG_DIR)
    names = [n for n in header if n not in known and not _COLUMN.fullmatch(n) and not _OF_NO_UNIT.fullmatch(n)]
    if names:
        reason = f"the columns {names} are not read"
        yield malformed(
            line=1, expected=EXPECTED, reason=reason, remedy=REMEDY, text="", rule="readable", severity="warning"
        )


def amount(text: str, *, unit: int) -> int | None:
    """Bytes of a non-negative decimal number of ``unit`` bytes, rounded down; None where it isn't one."""
    if not _NUMBER.fullmatch(text.strip()):
        return None
    try:
        value = Decimal(text.strip()) * unit
    except InvalidOperation:
        return None
    return int(value) if value >= 0 else None


def doubt(name: str, amount_bytes: int | None, *, unit: int, is_disk: bool) -> str | None:
    """Why an amount is likely in another unit than ``unit`` bytes, in words; None where it may be right.

    >>> doubt("DISK 4000000000000 MB", 4000000000000 * 2**20, unit=2**20, is_disk=True)
    'DISK 4000000000000 MB would be 4194.30 PB: it is likely in bytes (4.00 TB)'
    """
    least, most, human = _DISK if is_disk else _RATE
    if amount_bytes is None or amount_bytes <= most:
        return None
    number = amount_bytes / unit
    smaller = [(prefix, number * size) for prefix, size in _SMALLER if size < unit and least <= number * size <= most]
    likely = " or ".join(f"in {prefix} ({human(value)})" for prefix, value in smaller)
    return f"{name} would be {human(amount_bytes)}" + (f": it is likely {likely}" if likely else "")


def written(doubts: Iterable[str | None], names: Iterable[str]) -> dict[str, str | None]:
    """The fields of a capacity that tell how the file writes it, and what is doubtful of it."""
    doubtful = "; ".join(found for found in doubts if found)
    return {"as_written": ", ".join(names) or None, "doubt": doubtful or None}


def _amounts(header: tuple[str, ...]) -> dict[str, tuple[str, int]]:
    """Column and bytes of its unit, by field."""
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
    for field, (column, unit) in _amounts(header).items():
        cell = row.cells.get(column, "")
        amounts[field] = amount(cell, unit=unit) if cell else None
        if cell and amounts[field] is None:
            faults.append(f"{column} {cell!r} is not a number from 0 up")
        if cell:
            names.append(f"{column} {cell}")
            doubts.append(doubt(names[-1], amounts[field], unit=unit, is_disk=field == "disk_bytes"))
    if faults:
        text = str(row.cells)
        return malformed(line=row.line, expected=EXPECTED, reason="; ".join(faults), remedy=REMEDY, text=text)
    place = {"broker_id": broker_id, "log_dir": log_dir or None}
    return Record("capacity", row.line, {**place, **amounts, **written(doubts, names)})
