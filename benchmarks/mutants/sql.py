"""Faults in SQL conditions within string literals, also f-strings."""

import re
import tokenize
from collections.abc import Iterator
from io import BytesIO

from benchmarks.mutants.operators import Edit, Source

# A literal that matches is an SQL condition, not a message.
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
    """Every fault of the SQL conditions of a module."""
    for token in tokenize.tokenize(BytesIO(source.content).readline):
        if token.type != tokenize.STRING or token.string.startswith(('"""', "'''")) or not token.string.isascii():
            continue
        if _CONDITION.search(token.string):
            start = source.offset(token.start[0], len(token.line[: token.start[1]].encode()))
            yield from (Edit(f"SQL {kind}", start + a, start + b, text) for kind, a, b, text in _faults(token.string))


def _faults(text: str) -> Iterator[tuple[str, int, int, str]]:
    sentences = [match for match in _QUOTED.finditer(text) if re.search(r"\s", match[0])]
    skipped = [match.span() for match in (*_SKIPPED.finditer(text), *sentences)]
    for kind, pattern in _FAULTS:
        for match in pattern.finditer(text, 1, len(text) - 1):
            start, end = match.span(1)
            if not any(first < end and start < last for first, last in skipped):
                yield kind, start, end, _OPPOSITES.get(match[1]) or _constant(match[1])


def _constant(text: str) -> str:
    if text == "NOT":
        return ""
    return f"{text[:-1]}_'" if text.startswith("'") else str(int(text) + 1)
