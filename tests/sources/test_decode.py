"""Decoding of bytes: the supported encodings; no byte is replaced."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.decode import NotText, decoded
from sources.detect import parse_file

LINE = "\tTopic: t\tPartition: {}\tLeader: 1\tReplicas: 1,2\tIsr: 1,2"
TEXT = "\r\n".join(
    ["Topic: t\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: ", *(LINE.format(i) for i in range(3))]
)
ENCODED = {
    "UTF-8": TEXT.encode(),
    "UTF-8 with mark": codecs.BOM_UTF8 + TEXT.encode(),
    "UTF-16 LE with mark": codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
    "UTF-16 BE with mark": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
    "UTF-16 LE": TEXT.encode("utf-16-le"),
    "UTF-16 BE": TEXT.encode("utf-16-be"),
    "LF": TEXT.replace("\r", "").encode(),
    "lone CR": TEXT.replace("\n", "").encode(),
    "lone CR and one LF": TEXT.replace("\n", "").encode() + b"\n",
    "CRLF made twice": TEXT.replace("\r", "\r\r").encode(),
    "UTF-16 with lone CR": codecs.BOM_UTF16_LE + TEXT.replace("\n", "").encode("utf-16-le"),
}


@pytest.mark.parametrize("content", ENCODED.values(), ids=ENCODED)
def test_an_encoding_changes_nothing(content: bytes) -> None:
    """A description gives the same records with the same lines in every encoding and with every end of line."""
    records = parse_file(content, name="x")
    assert [(record.kind, record.line) for record in records] == [("topic", 1), *(("partition", i) for i in (2, 3, 4))]


def test_joined_files_keep_no_marks() -> None:
    """A byte order mark in the middle, where files were joined, hides neither a line nor a document."""
    versions = "\ufeffh:9092 (id: 1 rack: a) -> (\n)\n\ufeff".encode()
    records = parse_file(versions + b'{"brokerCapacities":[{"brokerId":"1","capacity":{"DISK":"1"}}]}', name="x")
    assert [(record.kind, record.line) for record in records] == [("broker", 1), ("capacity", 3)]
    assert records[0].payload["host"] == "h"


BROKEN = {
    "Latin-1": (TEXT.encode() + "\r\ngr\xfc\xdfe".encode("latin-1"), "not valid UTF-8 text: byte {} can't be decoded"),
    "cut off in a character": (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le")[:-1], "not valid UTF-16 text"),
    "a zero byte": (TEXT.encode()[:20] + b"\0" + TEXT.encode(), "not valid UTF-8 text: byte 21 "),
    "UTF-16 after UTF-8": (TEXT.encode() + codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), "not valid UTF-8 text"),
    "UTF-8 after UTF-16": (
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le") + TEXT.replace("\r", "").encode() + b"\n\n",
        "not valid UTF-16 text",
    ),
    "gzip": (b"\x1f\x8b\x08" + bytes(range(256)), "a gzip archive"),
    "zip": (b"PK\x03\x04\xff", "a zip archive"),
    "a key store": (b"\xfe\xed\xfe\xed\x00\x00", "a Java key store"),
    "noise": (bytes(range(254, 0, -1)), "not valid UTF-8 text: byte 1 "),
}


@pytest.mark.parametrize(("content", "reason"), BROKEN.values(), ids=BROKEN)
def test_bytes_that_are_not_text_are_refused(content: bytes, reason: str) -> None:
    """Nothing is replaced or read in part: the reason has the file's name, its size and the first wrong byte."""
    (record,) = parse_file(content, name="sub/x.bin")
    assert (record.payload["rule"], record.payload["severity"], record.payload["text"]) == ("known_format", "error", "")
    expected = reason.format(len(TEXT) + 5)
    assert record.payload["reason"].startswith(f"sub/x.bin ({len(content):,} bytes) is {expected}")


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_are_refused(content: bytes) -> None:
    """No bytes make decoding raise, and no replacement character is added."""
    text = decoded(content)
    assert isinstance(text, NotText) or "\0" not in text
    if isinstance(text, str) and b"\xef\xbf\xbd" not in content and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        assert "\ufffd" not in text or b"\xfd\xff" in content or b"\xff\xfd" in content


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="\0\r"), min_size=1))
def test_plain_text_survives(text: str) -> None:
    """ASCII stays the same in UTF-8 and in both kinds of UTF-16 with a byte order mark."""
    assert decoded(text.encode()) == text
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        assert decoded(mark + text.encode(name)) == text
