"""JSON documents inside a text: a whole file, or the part between a tool's banners, prompts and prose.

A document starts at ``{`` or ``[`` that begins a line (or follows a znode path, a broker id or a heading of Kafka's
tool). What can't be decoded but looks like an input of ours is reported with line and column, as one piece: its inner
lines are never mistaken for documents of their own.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sources.record import UNREADABLE_FILE, Record, malformed

_PREFIX = (
    r"\S*/brokers/ids/\d+|[Bb]roker[ _-]?\d+|\"?\d+\"?"
    r"|Current partition replica assignment|Proposed partition reassignment configuration"
)
_START = re.compile(rf"^[ \t]*(?:(?:{_PREFIX})[ \t]*[:=]?[ \t]*)?(?=\{{\s*[\"}}\w]|\[\s*\{{)", re.MULTILINE)
# Where joined lines put a document behind another.
_NEXT = re.compile(rf"[ \t]*(?:(?:{_PREFIX})[ \t]*[:=]?[ \t]*)?(?=\{{\s*[\"}}\w]|\[\s*\{{)")
_QUOTED = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\]]')
_BOUNDARY = re.compile(r"\n(?=[ \t]*(?:```|\$ |Topic: ?\S|Current partition|Proposed partition|Save this))")
_OURS = re.compile(
    r"(?:listener_security_protocol_map|logDirs?|replicas|brokerCapacities|endpoints|jmx_port|controllerid"
    r"|networkInbound)\"?\s*:"
)
_UNMISTAKABLE = re.compile(r'"(?:logDirs?|isFuture|brokerCapacities|jmx_port|controllerid|originating_broker)"\s*:')
_CONTEXT = 400  # characters beside a document in which its heading stands


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """One JSON document, or a piece that should have been one.

    Parameters
    ----------
    line : int
        Line of its first character, from 1.
    value : object
        What it decodes to; None when ``error`` is set.
    error : str or None
        Why it could not be decoded, with line and column.
    text : str
        The document as it stands.
    before, after : str
        The end of what stands between the previous document and this one, and the start of what follows.
    """

    line: int
    value: object
    error: str | None
    text: str
    before: str
    after: str

    def lines_of(self, key: str) -> Iterator[int]:
        """Lines of the successive occurrences of the key ``key``, then the document's line for ever."""
        needle, position, line = f'"{key}"', 0, self.line
        while (found := self.text.find(needle, position)) >= 0:
            line += self.text.count("\n", position, found)
            yield line
            position = found + len(needle)
            line += self.text.count("\n", found, position)
        while True:
            yield self.line

    def refusal(self, *, expected: str, remedy: str, rule: str | None = UNREADABLE_FILE) -> Record:
        """The malformed record of a document that could not be decoded: as grave as a file that can't be read."""
        reason = self.error or "not JSON"
        return malformed(line=self.line, expected=expected, reason=reason, remedy=remedy, text=self.text, rule=rule)


def as_json(piece: object) -> str:
    """A piece of a document as text, for a malformed record."""
    try:
        return piece if isinstance(piece, str) else json.dumps(piece, ensure_ascii=False)
    except RecursionError:
        return "(nested too deep to show)"


def documents(text: str) -> Iterator[JsonDocument]:
    """Every JSON document of a text, and every piece that looks like a broken one of ours.

    References
    ----------
    The traps are real: two banner lines before the JSON of ``kafka-log-dirs.sh``; invalid reassignment files.
    """
    clean = _QUOTED.sub("", text) if ">" in text else text
    position, previous_end, line, counted = 0, 0, 1, 0
    while match := (_NEXT.match(clean, position) if 0 < position == previous_end else None) or _START.search(
        clean, position
    ):
        start = match.end()
        line += clean.count("\n", counted, start)
        counted = start
        value, end, error = _decode(clean, start)
        if error is not None:
            end = _end_of_broken(clean, start)
        piece = clean[start:end]
        if error is not None and not _OURS.search(piece):
            position = _next_line(clean, start)
            continue
        before, after = clean[max(previous_end, start - _CONTEXT) : start], clean[end : end + _CONTEXT]
        yield JsonDocument(line, value, error, piece, before, after)
        position = previous_end = end


def unclaimed(text: str, records: Sequence[Record]) -> Iterator[Record]:
    """Documents that name what only an input of ours has, and of which no parser made anything of ``records``."""
    if not _UNMISTAKABLE.search(text):
        return
    lines = sorted({record.line for record in records})
    left = len(_UNMISTAKABLE.findall(text))
    for document in documents(text):
        left -= len(found := _UNMISTAKABLE.findall(document.text))
        if document.error is not None or not found:
            continue
        last = document.line + document.text.count("\n")
        first = bisect_left(lines, document.line)
        if first == len(lines) or lines[first] > last:
            reason = "JSON with the names of an input, in a shape that none of them has"
            yield _unclaimed(document.line, reason)
    if left > 0 and not any(record.kind == "malformed" for record in records):
        yield _unclaimed(1, "JSON with the names of an input, that does not start at the start of a line")


def _unclaimed(line: int, reason: str) -> Record:
    remedy = "supply the tool's output as it was printed, whole"
    return malformed(line=line, expected="JSON of a tool", reason=reason, remedy=remedy, text="")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _decode(text: str, start: int) -> tuple[object, int, str | None]:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return None, start, f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        return None, start, "not JSON that can be read: nested too deep"
    except ValueError as error:
        return None, start, f"not JSON: {error}"
    return value, end, None


def _end_of_broken(text: str, start: int) -> int:
    """Where a broken document ends: its brackets balance, or something that isn't JSON begins."""
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
