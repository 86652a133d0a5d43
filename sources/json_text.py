"""JSON documents inside a text: a whole file, or the parts between a tool's banners, prompts and prose.

A document starts with ``{`` or ``[`` at the beginning of a line (or after a znode path, a broker id or a heading of
Kafka's tool). A broken document that looks like a known input is reported with line and column, as one piece: its inner
lines are not taken for documents.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sources.record import UNREADABLE_FILE, Record, malformed

_PREFIX = (
    r"\S*/brokers/ids/\d+|\S*/admin/reassign_partitions|[Bb]roker[ _-]?\d+|\"?\d+\"?"
    r"|Current partition replica assignment|Proposed partition reassignment configuration"
)
_START = re.compile(rf"^[ \t]*(?:(?:{_PREFIX})[ \t]*[:=]?[ \t]*)?(?=\{{\s*[\"}}\w]|\[\s*\{{)", re.MULTILINE)
# The start of a document directly after another one, where lines were joined.
_NEXT = re.compile(rf"[ \t]*(?:(?:{_PREFIX})[ \t]*[:=]?[ \t]*)?(?=\{{\s*[\"}}\w]|\[\s*\{{)")
_QUOTED = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\]]')
_BOUNDARY = re.compile(r"\n(?=[ \t]*(?:```|\$ |Topic: ?\S|Current partition|Proposed partition|Save this))")
_KNOWN_KEYS = re.compile(
    r"(?:listener_security_protocol_map|logDirs?|replicas|brokerCapacities|endpoints|jmx_port|controllerid"
    r"|networkInbound)\"?\s*:"
)
_UNIQUE_KEYS = re.compile(r'"(?:logDirs?|isFuture|brokerCapacities|jmx_port|controllerid|originating_broker)"\s*:')
_CONTEXT = 400  # characters before and after a document that are searched for its heading


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A JSON document, or a piece of text that can't be decoded as one.

    Parameters
    ----------
    line : int
        Line of its first character, from 1.
    value : object
        The decoded value; None when ``error`` is set.
    error : str or None
        Why it could not be decoded, with line and column.
    text : str
        The document, undecoded.
    before, after : str
        The last characters between the previous document and this one, and the first characters after it.
    """

    line: int
    value: object
    error: str | None
    text: str
    before: str
    after: str

    def lines_of(self, key: str) -> Iterator[int]:
        """Lines of the successive occurrences of ``key``, then the document's first line without end."""
        needle, position, line = f'"{key}"', 0, self.line
        while (start := self.text.find(needle, position)) >= 0:
            line += self.text.count("\n", position, start)
            yield line
            position = start + len(needle)
            line += self.text.count("\n", start, position)
        while True:
            yield self.line

    def refusal(self, *, expected: str, remedy: str, rule: str | None = UNREADABLE_FILE) -> Record:
        """The malformed record of a document that can't be decoded, by default with the rule of unreadable files."""
        reason = self.error or "invalid JSON"
        return malformed(line=self.line, expected=expected, reason=reason, remedy=remedy, text=self.text, rule=rule)


def as_json(piece: object) -> str:
    """A piece of a document as text, for a malformed record."""
    try:
        return piece if isinstance(piece, str) else json.dumps(piece, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to show)"


def documents(text: str) -> Iterator[JsonDocument]:
    """Yield every JSON document of a text, and every broken document that looks like a known input.

    References
    ----------
    Real cases: two banner lines before the JSON of ``kafka-log-dirs.sh``; invalid reassignment files.
    """
    clean = _QUOTED.sub("", text) if ">" in text else text
    position, previous_end, line, counted = 0, 0, 1, 0
    while match := (_NEXT.match(clean, position) if 0 < position == previous_end else None) or _START.search(
        clean, position
    ):
        start = match.end()
        line += clean.count("\n", counted, start)
        counted = start
        value, end, error = decode(clean, start)
        if error is not None:
            end = _end_of_broken(clean, start)
        piece = clean[start:end]
        if error is not None and not _KNOWN_KEYS.search(piece):
            position = _next_line(clean, start)
            continue
        before, after = clean[max(previous_end, start - _CONTEXT) : start], clean[end : end + _CONTEXT]
        yield JsonDocument(line, value, error, piece, before, after)
        position = previous_end = end


def unknown_documents(text: str, records: Sequence[Record]) -> Iterator[Record]:
    """Yield a malformed record per document with keys of a known input from which no parser made any of ``records``."""
    if not _UNIQUE_KEYS.search(text):
        return
    lines = sorted({record.line for record in records})
    keys_outside = len(_UNIQUE_KEYS.findall(text))
    for document in documents(text):
        keys = _UNIQUE_KEYS.findall(document.text)
        keys_outside -= len(keys)
        if document.error is not None or not keys:
            continue
        last = document.line + document.text.count("\n")
        first = bisect_left(lines, document.line)
        if first == len(lines) or lines[first] > last:
            reason = "this JSON has keys of a known tool, but not the structure that the tool prints"
            yield _unknown_document(document.line, reason)
    if keys_outside > 0 and not any(record.kind == "malformed" for record in records):
        yield _unknown_document(1, "JSON with keys of a known tool does not start at the beginning of a line")


def _unknown_document(line: int, reason: str) -> Record:
    remedy = "supply the complete, unchanged output of the tool"
    return malformed(line=line, expected="the JSON output of a tool", reason=reason, remedy=remedy, text="")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_NAN_DECODER = json.JSONDecoder()


def decode(text: str, start: int, *, allows_nan: bool = False) -> tuple[object, int, str | None]:
    """The JSON value at a position, the position after it, and why it can't be decoded (None if it can).

    Parameters
    ----------
    allows_nan : bool
        Accept ``NaN`` and ``Infinity``, which are not JSON but which some tools write.
    """
    try:
        value, end = (_NAN_DECODER if allows_nan else _DECODER).raw_decode(text, start)
    except json.JSONDecodeError as error:
        return None, start, f"invalid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        return None, start, "the JSON is nested too deeply to be read"
    except ValueError as error:
        return None, start, f"invalid JSON: {error}"
    return value, end, None


def _end_of_broken(text: str, start: int) -> int:
    """End of a broken document: where its brackets balance, or where something that is not JSON begins."""
    boundary = _BOUNDARY.search(text, start)
    limit = boundary.start() if boundary else len(text)
    depth = 0
    for token in _TOKEN.finditer(text, start, limit):
        kind = token[0][0]
        depth += (kind in "{[") - (kind in "}]")
        if depth <= 0 and kind in "}]":
            return token.end()
    return limit


def _next_line(text: str, position: int) -> int:
    newline = text.find("\n", position)
    return len(text) if newline < 0 else newline + 1
