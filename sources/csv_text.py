"""Tables as text: the header determines the delimiter; rows keep their line numbers."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.units import plural
from sources.text import lines_of

_DELIMITERS = (",", ";", "\t")
BROKER_ID = ("broker_id", "id", "broker", "brokerid", "node_id")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One row: its line number, its cells by column, and its error or None."""

    line: int
    cells: dict[str, str]
    error: str | None


def header_of(text: str) -> tuple[str, ...]:
    """Column names of the first line that is neither blank nor a comment; empty if it is no header."""
    for line in _content(text[:20_000]):
        cells = [line[1].split(delimiter) for delimiter in _DELIMITERS]
        names = tuple(_name(cell) for cell in max(cells, key=len))
        return names if len(names) > 1 and all(names) and len(set(names)) == len(names) else ()
    return ()


def rows_of(text: str) -> Iterator[CsvRow]:
    """Rows below the header; blank lines and comments are skipped."""
    content, header = list(_content(text)), header_of(text)
    if not header:
        return
    delimiter = max(_DELIMITERS, key=content[0][1].count)
    for number, line in content[1:]:
        try:
            cells = next(csv.reader(io.StringIO(line), delimiter=delimiter, strict=True), [])
        except csv.Error as error:
            yield CsvRow(number, {}, f"the row can't be read: {error}")
            continue
        by_column = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        fault = None
        if len(cells) != len(header):
            fault = f"the row has {plural(len(cells), 'cell')}, but the header has {len(header)}"
        yield CsvRow(number, by_column, fault)


def first_of(header: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """The first of ``names`` that is in the header."""
    return next((name for name in names if name in header), None)


def _content(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines_of(text), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _name(cell: str) -> str:
    return cell.strip().strip("\"'").strip().lower().replace(" ", "_").replace("-", "_").replace(".", "_")
