"""Shared by the parsers: lines, integers, lists of broker ids, topic names.

References
----------
Topic names: ``org.apache.kafka.common.internals.Topic`` (3.9): 1 to 249 of ``[a-zA-Z0-9._-]``, not ``.`` or ``..``.
"""

import re
from functools import lru_cache
from typing import TypeGuard

_INTEGER = re.compile(r"-?[0-9]{1,40}")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# Marks lines that somebody left out.
ELISION = re.compile(r"[\s>#]*[\[(<]?(?:\.\.\.|…)")
_TOPIC_PARTITION = re.compile(r"(.*)-([0-9]{1,10})", re.DOTALL)


def lines_of(text: str) -> list[str]:
    """Lines as an editor counts them: split at LF only; a CR before LF is removed."""
    return text.replace("\r\n", "\n").split("\n")


def integer(text: str) -> int | None:
    """The integer written in ASCII digits, or None."""
    stripped = text.strip()
    return int(stripped) if _INTEGER.fullmatch(stripped) else None


def broker_ids(text: str) -> list[int] | None:
    """Ids of a comma-separated list; empty for an empty text; None if an element is not an integer."""
    ids = _broker_ids(text)
    return None if ids is None else list(ids)


@lru_cache(maxsize=65_536)
def _broker_ids(text: str) -> tuple[int, ...] | None:
    """Cached: a file has hundreds of thousands of lists, but few distinct ones."""
    parts = [integer(part) for part in text.split(",")] if text.strip() else []
    known = tuple(part for part in parts if part is not None)
    return known if len(known) == len(parts) else None


def topic_fault(name: object) -> str | None:
    """Why ``name`` is not a valid topic name, or None if it is."""
    if not isinstance(name, str):
        return f"the topic is {name!r}, not a string"
    return _name_fault(name)


@lru_cache(maxsize=4_096)
def _name_fault(name: str) -> str | None:
    if name in {".", ".."} or not _TOPIC.fullmatch(name):
        return f"{name[:80]!r} is not a valid topic name (1 to 249 letters, digits, '.', '_' or '-')"
    return None


def topic_partition(text: str) -> tuple[str, int] | None:
    """Topic and partition of ``topic-N``, split at the last dash, because a topic's name may end in ``-3``."""
    match = _TOPIC_PARTITION.fullmatch(text)
    if match is None or topic_fault(match[1]) is not None:
        return None
    return match[1], int(match[2])


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a decoded JSON value is an integer (``true`` is not)."""
    return isinstance(value, int) and not isinstance(value, bool)
