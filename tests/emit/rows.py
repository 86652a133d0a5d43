"""Rows for tests of documents."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from optimizer.emit.rows import TableRow

R = TypeVar("R", bound=TableRow)


def rows_of(cls: type[R], *rows: Mapping[str, Any]) -> list[R]:
    """Rows of which a test gives the columns that matter to it: all others are null."""
    nothing = dict.fromkeys(field.name for field in fields(cls))
    return [cls(**(nothing | dict(row))) for row in rows]
