"""An answer to a question as sections of sentences and tables; printed as plain text or as one HTML page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from optimizer.emit.decision_text import WIDTH
from optimizer.emit.pages import render


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
    """A title, lines directly below it, and sections."""

    title: str
    head: Sequence[str]
    sections: Sequence[Section]


def text_lines(document: Document) -> Iterator[str]:
    """The answer for a terminal: sentences have at most ``WIDTH`` columns, tables as many as they need."""
    yield document.title
    for line in document.head:
        yield from _paragraph(line)
    for section in document.sections:
        parts = [part for part in section.parts if not isinstance(part, Drawing)]
        if not parts:
            continue
        yield from ("", section.title)
        for number, part in enumerate(parts):
            if isinstance(part, str):
                yield from _paragraph(part)
            else:
                yield from ([""] if number else [])
                yield from _grid(part)


def page(document: Document) -> str:
    """The answer as one HTML page that needs no other file."""
    return render("answer.html.j2", answer=document)


def _paragraph(text: str) -> list[str]:
    return wrap(
        text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _grid(grid: Grid) -> Iterator[str]:
    lines = [grid.header, *grid.rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(width) if column in grid.texts else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()
