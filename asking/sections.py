"""An answer to a question as sections of sentences and tables; printed as plain text or as one HTML page."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from optimizer.emit.decision_text import paragraph
from optimizer.emit.pages import render, text_of
from optimizer.folders import STYLE


@dataclass(frozen=True)
class Grid:
    """A table.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequence of str
    texts : sequence of int
        Columns of text, aligned to the left. The other columns are figures, aligned to the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: Sequence[int] = (0,)


def split(grid: Grid, is_same: Callable[[Sequence[str]], bool]) -> tuple[list[Grid], list[Grid]]:
    """The rows that differ, and the others, each as a table; no table without rows."""
    differing = [row for row in grid.rows if not is_same(row)]
    same = [row for row in grid.rows if is_same(row)]
    return [replace(grid, rows=differing)] if differing else [], [replace(grid, rows=same)] if same else []


@dataclass(frozen=True)
class Dots:
    """A drawn row: a dot for each broker before the plan, and one after it, in percent of 0 to 100."""

    label: str
    before: Sequence[float]
    after: Sequence[float]


@dataclass(frozen=True)
class Drawing:
    """Rows of dots on one scale; only pages have it."""

    caption: str
    rows: Sequence[Dots]


@dataclass(frozen=True)
class Section:
    """A title, and sentences, tables and drawings in their order."""

    title: str
    parts: Sequence[str | Grid | Drawing]


@dataclass(frozen=True)
class Document:
    """A sentence that answers the question, lines directly below it, and sections."""

    title: str
    head: Sequence[str]
    sections: Sequence[Section]


def text_lines(document: Document) -> Iterator[str]:
    """The answer for a terminal: sentences have at most 96 columns, tables as many as they need."""
    yield from paragraph(document.title, first="")
    for line in document.head:
        yield from paragraph(line)
    for section in document.sections:
        parts = [part for part in section.parts if not isinstance(part, Drawing)]
        if not parts:
            continue
        yield from ("", section.title)
        for number, part in enumerate(parts):
            if isinstance(part, str):
                yield from paragraph(part)
            else:
                yield from ([""] if number else [])
                yield from _grid(part)


def page(document: Document) -> str:
    """The answer as an HTML page; it has the style sheet and links it, because some servers forbid styles in a page."""
    return render("answer.html.j2", answer=document)


def write_page(name: str, document: Document) -> None:
    """Write the answer as a page, and next to it the style sheet, unless there is one."""
    path = Path(name)
    path.write_text(page(document), encoding="utf-8")
    if not (sheet := path.with_name(STYLE)).exists():
        sheet.write_text(text_of(STYLE), encoding="utf-8")


def _grid(grid: Grid) -> Iterator[str]:
    lines = [grid.header, *grid.rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(width) if column in grid.texts else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()
