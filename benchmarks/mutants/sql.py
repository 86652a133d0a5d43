"""Faults in conditions of SQL that stand in string literals, f-strings too."""

import re
import tokenize
from collections.abc import Iterator
from io import BytesIO

from benchmarks.mutants.operators import Edit, Source

# A literal with one of these is SQL that decides something; messages are sentences.
_CONDITION = re.compile(r"\bIS (NOT )?NULL\b|\bNOT \w|\bBETWEEN\b|\bAND\b|\bOR\b|[a-z0-9)] (=|<>|<=|>=|<|>) [a-z0-9'(]")
_SKIPPED = re.compile(r"\{[^}]*\}|BETWEEN \S+ AND|RLIKE '[^']*'|->")
_QUOTED = re.compile(r"'[^']*'")
_OPPOSITES = {
    **{"<=": "<", ">=": ">", "<": "<=", ">": ">=", "=": "<>", "<>": "="},
    **{"AND": "OR", "OR": "AND", "IS NOT NULL": "IS NULL", "IS NULL": "IS NOT NULL"},
}
_FAULTS = (
    ("comparison", re.compile(r" (<=|>=|<>|=|<|>) ")),
    ("logic", re.compile(r"\b(AND|OR|IS NOT NULL|IS NULL|NOT(?! NULL))\b")),
    ("constant", re.compile(r"(?<![\w.'])(\d+)(?![\w.'])")),
    ("constant", re.compile(r"('[^'\s]+')")),
)


def sql_edits(source: Source) -> Iterator[Edit]:
    """Every fault of a module's conditions in SQL."""
    for token in tokenize.tokenize(BytesIO(source.content).readline):
        if token.type != tokenize.STRING or token.string.startswith(('"""', "'''")) or not token.string.isascii():
            continue
        if _CONDITION.search(token.string):
            start = source.offset(token.start[0], len(token.line[: token.start[1]].encode()))
            yield from (Edit(f"SQL {kind}", start + a, start + b, text) for kind, a, b, text in _faults(token.string))


def _faults(text: str) -> Iterator[tuple[str, int, int, str]]:
    sentences = [found for found in _QUOTED.finditer(text) if re.search(r"\s", found[0])]
    skipped = [found.span() for found in (*_SKIPPED.finditer(text), *sentences)]
    for kind, pattern in _FAULTS:
        for found in pattern.finditer(text, 1, len(text) - 1):
            start, end = found.span(1)
            if not any(first < end and start < last for first, last in skipped):
                yield kind, start, end, _OPPOSITES.get(found[1]) or _constant(found[1])


def _constant(text: str) -> str:
    if text == "NOT":
        return ""
    return f"{text[:-1]}_'" if text.startswith("'") else str(int(text) + 1)
