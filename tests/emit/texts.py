"""The pages of a plan as text, without the other documents; and the tables of pages as rows."""

import itertools
import re
from collections.abc import Sequence
from html.parser import HTMLParser

from optimizer.emit.cluster_plan import ClusterPlan, Document
from optimizer.emit.decision import decision_of
from optimizer.emit.report.page import report
from optimizer.emit.runbook import runbook
from optimizer.emit.summary import summary_text


def summary_of(plan: ClusterPlan) -> str:
    """``summary.txt``."""
    return summary_text(plan, decision_of(plan), [])


def runbook_of(plan: ClusterPlan) -> str:
    """``runbook.md``."""
    return runbook(plan, decision_of(plan))


def report_of(plan: ClusterPlan, written: Sequence[Document] = ()) -> str:
    """``report.html``."""
    return report(plan, decision_of(plan), written, manifest_sha256="f" * 64)


Row = dict[str, str]  # cells by header
# Classes of cells that say nothing.
_LAYOUT = {"num", "line", "name", "plan", "draw", "short", "wide", "same", "extra", "remedy", "key"}
_SHAPES = {"rect", "line", "circle"}
_WIDTH = 14  # characters of a figure in summary.txt
_FIGURE = "(-|[0-9,.]+x?(?: %| [kMGTP]?B)?)"
_SIZES = ("x", "cx", "x1", "x2", "width")


class _Tables(HTMLParser):
    """Collects the rows of all tables, also of tables in cells."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[list[list[str]]]] = {}
        self._open: list[list[list[list[str]]]] = []  # tables, rows, cells, texts of a cell
        self._caption, self._in_cell, self._svg = "", False, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        classes = named.get("class", "").split()
        if "aria-label" in named and tag in ("div", "table"):
            self._caption = named["aria-label"]
        if tag == "table":
            assert self._caption not in self.found, f"two tables are named {self._caption!r}"
            self._open.append(self.found.setdefault(self._caption, []))
        elif tag == "tr":
            if named.get("class") != "groups":  # heads above those of the columns
                self._open[-1].append([])
        elif tag in ("td", "th"):
            if not self._open[-1]:
                return
            also = int(named.get("colspan", "1")) - 1
            self._open[-1][-1] += [*([] for _ in range(also)), [name for name in classes if name not in _LAYOUT]]
            self._in_cell = True
        elif tag == "svg":
            self._svg += 1
        elif self._in_cell and tag in _SHAPES:
            sizes = [named[name].removesuffix("%") for name in _SIZES if name in named]
            self._add(":".join([*classes, *sizes]))
        elif self._in_cell and tag == "a":
            self._add(f"<{named['href']}>")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._open.pop()
            self._in_cell = bool(self._open)
        elif tag in ("td", "th"):
            self._in_cell = False
        elif tag == "svg":
            self._svg -= 1

    def handle_data(self, data: str) -> None:
        if self._in_cell and not self._svg and data.strip():
            self._add(data.strip())

    def _add(self, text: str) -> None:
        self._open[-1][-1][-1].append(text)


def html_tables(page: str) -> dict[str, list[Row]]:
    """The rows of each table of a page by its label: the texts that a browser shows, by header.

    A link is ``<target> text``. A shape is its classes, positions and width in percent. Before them come classes that
    mark a cell.
    """
    reader = _Tables()
    reader.feed(page)
    tables = ([[" ".join(texts) for texts in cells] for cells in rows] for rows in reader.found.values())
    return {name: by_header(*rows) for name, rows in zip(reader.found, tables, strict=True)}


def markdown_tables(page: str) -> list[list[Row]]:
    """The rows of each table of a page in Markdown, by header."""
    parts = re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE)
    tables = ([[cell.strip() for cell in line[1:-1].split("|")] for line in part.splitlines()] for part in parts)
    return [by_header(header, *rows) for header, _, *rows in tables]


def text_table(text: str, first: str) -> list[Row]:
    """The rows of a table of ``summary.txt`` by header: below the header that starts so, while a line has figures."""
    header, *lines = text[text.index(f"\n  {first:<48}") + 1 :].splitlines()
    names = [header[: -3 * _WIDTH], *(header[-n * _WIDTH :][:_WIDTH] for n in (3, 2, 1))]
    found = itertools.takewhile(bool, (re.fullmatch(rf"  (.+?) +{_FIGURE} +{_FIGURE} +{_FIGURE}", x) for x in lines))
    return by_header([name.strip() for name in names], *(line.groups() for line in found if line))


def by_header(header: Sequence[str], *rows: Sequence[str]) -> list[Row]:
    """Rows by header. A header that comes again has the one before it in front: ``replicas: after``."""
    names: list[str] = []
    for number, name in enumerate(header):
        names.append(f"{header[number - 1]}: {name}" if name in names else name)
    return [dict(zip(names, row, strict=True)) for row in rows]
