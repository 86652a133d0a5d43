"""Bytes of a file to text: UTF-8 or UTF-16 (PowerShell's ``>`` writes it), with a byte order mark or without one.

No byte is replaced: bytes that can't be decoded are reported by their position, never by their content. Lines may end
with LF, CRLF or a lone CR (old Macs, some terminals); the result has LF only.

References
----------
Unicode 15.0, section 23.8 (byte order marks); PowerShell's ``about_Character_Encoding``.
"""

import codecs
import re
from dataclasses import dataclass

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MARK = "\ufeff"
_SAMPLE = 4096  # bytes from which the encoding is detected: a page of text
# Output of Kafka's tools is nearly all ASCII: in UTF-16 every second byte of it is zero.
_EVIDENT = 0.8
# Line ends that were converted to CRLF twice have two CRs.
_LINE_ENDS = ("\r\r\n", "\r\n", "\r")
# A run of ASCII pairs, each read as one UTF-16 character: a UTF-8 file was appended.
_TWO_IN_ONE = re.compile(r"[\u0a20-\u7e7e]{16}")
_ASCII = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}  # bytes of printed text: characters, tab, line ends
_MAGIC = (
    (b"\x1f\x8b", "a gzip archive"),
    (b"PK\x03\x04", "a zip archive or an office document"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"(\xb5/\xfd", "a zstd archive"),
    (b"PAR1", "a Parquet file that is damaged or has no name ending in .parquet"),
    (b"\xfe\xed\xfe\xed", "a Java key store"),
    (b"SQLite format 3", "a database"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
)


@dataclass(frozen=True, slots=True)
class NotText:
    """Bytes that are not text, and what they look like."""

    looks_like: str


def decoded(content: bytes) -> str | NotText:
    """The text of a file with LF line ends and without byte order marks, or why it is not text."""
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
    """The text without byte order marks (joined files have several), with LF line ends."""
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
        zeros, letters = head[start::2], head[1 - start :: 2]
        if zeros and zeros.count(0) >= _EVIDENT * len(zeros) and not letters.count(0):
            return encoding
    return "utf-8"


def _mixed(text: str) -> int | None:
    """Position where a UTF-16 text continues in UTF-8, or None."""
    for match in _TWO_IN_ONE.finditer(text):
        if all(ord(pair) >> 8 in _ASCII and ord(pair) & 0xFF in _ASCII for pair in match[0]):
            return match.start()
    return None


def _no_text(content: bytes, encoding: str, position: int) -> NotText:
    format_name = next((name for magic, name in _MAGIC if content.startswith(magic)), None)
    encoding_name = encoding.upper().removesuffix("-LE").removesuffix("-BE")
    return NotText(format_name or f"not valid {encoding_name} text: byte {position + 1:,} can't be decoded")
