"""Bytes of a file to text: UTF-8 or UTF-16 (PowerShell's ``>`` writes it), with a byte order mark or without one.

Nothing is replaced: bytes that are no such text are refused with their place, never with their content. Lines end at
LF, CRLF, or a lone CR (old Macs, some terminals); afterwards they end at LF alone.

References
----------
Unicode 15.0, section 23.8 (byte order marks); PowerShell's ``about_Character_Encoding``.
"""

import codecs
import re
from dataclasses import dataclass

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MARK = "\ufeff"
_SAMPLE = 4096  # bytes that the encoding is told by: a page of text
# Of text that is nearly all ASCII, as Kafka's tools print it, every other byte is zero.
_EVIDENT = 0.8
# A file whose line ends were made CRLF twice has two CRs.
_LINE_ENDS = ("\r\r\n", "\r\n", "\r")
# Two ASCII letters, read as one sign of UTF-16, over and over: another file in UTF-8 was appended.
_TWO_IN_ONE = re.compile(r"[\u0a20-\u7e7e]{16}")
_ASCII = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}  # bytes of printed text: signs, tab, line ends
_MAGIC = (
    (b"\x1f\x8b", "a gzip archive"),
    (b"PK\x03\x04", "a zip archive or an office document"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"(\xb5/\xfd", "a zstd archive"),
    (b"PAR1", "Parquet that can't be read, or whose name does not end in .parquet"),
    (b"\xfe\xed\xfe\xed", "a Java key store"),
    (b"SQLite format 3", "a database"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
)


@dataclass(frozen=True, slots=True)
class NoText:
    """Bytes that are no text: what they look like, and what is wrong with them."""

    looks_like: str


def decoded(content: bytes) -> str | NoText:
    """The text of a file, its lines ended by LF and without byte order marks; else why it is none."""
    encoding = _encoding(content)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        return _no_text(content, encoding, error.start)
    zero = text.find("\0")
    if zero >= 0:
        return _no_text(content, encoding, len(text[:zero].encode(encoding)))
    if encoding != "utf-8" and (mixed := _mixed(text)) is not None:
        return _no_text(content, encoding, len(text[:mixed].encode(encoding)))
    return with_plain_lines(text)


def with_plain_lines(text: str) -> str:
    """The text without byte order marks (each file of a joined one has its own), its lines ended by LF."""
    plain = text.replace(_MARK, "")
    for end in _LINE_ENDS:
        plain = plain.replace(end, "\n")
    return plain


def _encoding(content: bytes) -> str:
    marked = next((encoding for mark, encoding in _MARKS if content.startswith(mark)), None)
    if marked is not None:
        return marked
    head = content[:_SAMPLE]
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = head[start::2], head[1 - start :: 2]
        if zeros and zeros.count(0) >= _EVIDENT * len(zeros) and not others.count(0):
            return encoding
    return "utf-8"


def _mixed(text: str) -> int | None:
    """Where a text in UTF-16 goes on in UTF-8, or None."""
    for match in _TWO_IN_ONE.finditer(text):
        if all(ord(sign) >> 8 in _ASCII and ord(sign) & 0xFF in _ASCII for sign in match[0]):
            return match.start()
    return None


def _no_text(content: bytes, encoding: str, place: int) -> NoText:
    known = next((name for magic, name in _MAGIC if content.startswith(magic)), None)
    named = encoding.upper().removesuffix("-LE").removesuffix("-BE")
    return NoText(known or f"no text in {named}: byte {place + 1:,} can't be read")
