"""Damage that real files have: of bytes, lines, structure and encodings, and files of another cluster.

Each mutation takes a random generator, the bytes of a file and those of its twin (the same source of another cluster),
and returns the damaged bytes.
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

Mutation = Callable[[random.Random, bytes, bytes], bytes]
ERRORS = (
    "Error while executing topic command : The AdminClient thread has exited. Call: describeTopics",
    "[2026-10-05 02:00:00,000] ERROR org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node "
    "assignment. Call: describeTopics (org.apache.kafka.tools.TopicCommand)",
    'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
    "\tat org.apache.kafka.tools.TopicCommand.main(TopicCommand.java:87)",
)
INSERTED = (
    b"\x00",
    b"\r",
    b"\xef\xbb\xbf",
    b'"',
    b"\t",
    b"\xa0",
    b"\xff",
    b",",
    b"-",
    b"{",
    b"}",
    b":",
    b" ",
    b"\n",
    b"7",
)


def _span(draw: random.Random, data: bytes, max_bytes: int) -> tuple[int, int]:
    start = draw.randrange(len(data)) if data else 0
    return start, min(len(data), start + draw.randint(1, max_bytes))


def flip_bytes(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """One to three bytes change."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        if changed:
            changed[draw.randrange(len(changed))] = draw.choice((draw.randrange(256), draw.randrange(32, 127)))
    return bytes(changed)


def cut_bytes(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """A piece is missing."""
    start, end = _span(draw, data, draw.choice((1, 4, 40, 400)))
    return data[:start] + data[end:]


def insert_bytes(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """Unusual bytes are inserted."""
    at = draw.randint(0, len(data))
    return data[:at] + draw.choice(INSERTED) * draw.choice((1, 1, 2, 50)) + data[at:]


def repeat_bytes(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """A piece is repeated."""
    start, end = _span(draw, data, 200)
    return data[:end] + data[start:]


def blank_block(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """A block of zeros, as after a full disk or a power failure."""
    start, end = _span(draw, data, 300)
    return data[:start] + b"\x00" * (end - start) + data[end:]


def truncate(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """The file ends early."""
    return data[: draw.randint(0, len(data))]


def behead(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """The file begins late."""
    return data[draw.randint(0, len(data)) :]


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def drop_lines(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """Whole lines are missing."""
    lines = _lines(data)
    start = draw.randint(0, len(lines))
    return b"".join(lines[:start] + lines[start + draw.choice((1, 1, 2, 8)) :])


def double_line(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """A line is repeated."""
    lines = _lines(data)
    at = draw.randrange(max(len(lines), 1))
    return b"".join(lines[: at + 1] + lines[at:])


def shuffle_lines(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """Two lines change places."""
    lines = _lines(data)
    if len(lines) > 1:
        first, second = draw.sample(range(len(lines)), 2)
        lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def join_lines(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """The end of a line is missing."""
    ends = [at for at, byte in enumerate(data) if byte == 10]
    at = draw.choice(ends) if ends else 0
    return data[:at] + data[at + 1 :]


def wrap_line(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """A terminal or a mail program breaks a line."""
    at = draw.randint(0, len(data))
    return data[:at] + draw.choice((b"\n", b"\r\n", b"\n    ")) + data[at:]


def narrow(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """Every line is broken, or ends, at the width of a terminal."""
    width, drops_rest = draw.choice((60, 80, 120)), draw.random() < 0.5
    lines = [line.rstrip(b"\n") for line in _lines(data)]
    if drops_rest:
        return b"".join(line[:width] + b"\n" for line in lines)
    pieces = [line[i : i + width] for line in lines for i in range(0, max(len(line), 1), width)]
    return b"".join(piece + b"\n" for piece in pieces)


def tool_dies(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """Between two lines the tool prints an error; then it ends or continues."""
    lines = _lines(data)
    at = draw.randint(0, len(lines))
    rest = lines[at:] if draw.random() < 0.3 else []
    return b"".join([*lines[:at], draw.choice(ERRORS).encode() + b"\n", *rest])


def elide(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """Somebody replaced lines by dots."""
    lines = _lines(data)
    at = draw.randint(0, len(lines))
    dots = draw.choice((b"...\n", b"[...]\n", "\u2026\n".encode()))
    return b"".join([*lines[:at], dots, *lines[at + draw.randint(1, 5) :]])


def other_encoding(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """Another encoding, of the whole file or of its end, as if another tool appended it."""
    code = draw.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32"))
    text = data.decode("utf-8", "replace")
    at = draw.choice((0, 0, draw.randint(0, len(text))))
    return text[:at].encode() + text[at:].encode(code)


def other_line_ends(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """Line ends of another system."""
    return data.replace(b"\n", draw.choice((b"\r\n", b"\r", b"\n\r", b"\r\r\n", b"\xc2\x85", b"\xe2\x80\xa8", b"\x0b")))


def other_blanks(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """Tabs become blanks, blanks disappear or become no-break spaces, or each line starts with > or #."""
    old, new = draw.choice(
        (
            (b"\t", b" "),
            (b"\t", b""),
            (b" ", b""),
            (b": ", b":\xc2\xa0"),
            (b"\n", b"\n> "),
            (b"\n", b"\n# "),
            (b",", b", "),
        )
    )
    return data.replace(old, new)


def other_case(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """A line in lower or upper case."""
    lines = _lines(data)
    at = draw.randrange(max(len(lines), 1))
    return b"".join(draw.choice((line.lower(), line.upper())) if i == at else line for i, line in enumerate(lines))


def typed_over(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """A frequent word is changed, once or everywhere."""
    words = (
        b"Topic",
        b"Partition",
        b"Leader",
        b"Replicas",
        b"Isr",
        b"logDir",
        b"partitions",
        b"broker",
        b"size",
        b"id",
    )
    more = (
        b"sensitive",
        b"configs",
        b"Configs",
        b"replicas",
        b"brokerId",
        b"capacity",
        b"PartitionCount",
        b"->",
        b"are",
    )
    word = draw.choice([w for w in (*words, *more) if w in data] or [b"\n"])
    new = draw.choice((word[:-1], word + b"s", word.swapcase(), b"", word[:1] + b" " + word[1:]))
    at = data.find(word, draw.randrange(max(len(data), 1)))
    return data.replace(word, new) if draw.random() < 0.3 or at < 0 else data[:at] + new + data[at + len(word) :]


def other_json(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """A JSON document in which an element is missing, repeated, renamed, null or of another type."""
    start = data.find(b"{")
    try:
        value, end = json.JSONDecoder().raw_decode(data[start:].decode())
    except ValueError:
        return flip_bytes(draw, data, twin)
    _damage(draw, value)
    text = json.dumps(value, indent=draw.choice((None, 1)))
    return data[:start] + text.encode() + data[start:][end:]


def _damage(draw: random.Random, value: Any) -> None:
    """Change one element at any depth."""
    inner = value
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        if not keys:
            return
        key = draw.choice(keys)
        if not isinstance(inner[key], dict | list) or draw.random() < 0.15:
            break
        inner = inner[key]
    kind = draw.randrange(4)
    if kind == 0:
        del inner[key]
    elif kind == 1:
        inner[key] = draw.choice((None, "", -1, 10**20, 1.5, True, [], {}, "x", [inner[key]], str(inner[key])))
    elif kind == 2 and isinstance(inner, dict):
        inner[f"{key}s"] = inner.pop(key)
    else:
        inner[key] = [inner[key], inner[key]]


def emptied(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """An empty file, blanks, or only a prompt."""
    return draw.choice((b"", b"\n\n", b"$ \n", b"\x00" * 20, b"command not found: kafka-topics.sh\n"))


def of_twin(draw: random.Random, data: bytes, twin: bytes) -> bytes:
    """The file of another cluster, whole or in part."""
    lines, twin_lines = _lines(data), _lines(twin)
    kind = draw.randrange(3)
    if kind == 0:
        return twin
    if kind == 1:
        return data + twin
    at = draw.randint(0, len(lines))
    return b"".join(lines[:at] + twin_lines[draw.randint(0, len(twin_lines)) :])


MUTATIONS: Mapping[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        *(flip_bytes, cut_bytes, insert_bytes, repeat_bytes, blank_block, truncate, behead),
        *(drop_lines, double_line, shuffle_lines, join_lines, wrap_line, narrow, tool_dies, elide),
        *(other_encoding, other_line_ends, other_blanks, other_case, typed_over, other_json, emptied, of_twin),
    )
}
