"""The first of several causes that is true: its code for tables, its reason for people."""

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from optimizer.domain import Cause


def first_cause(causes: Iterable[tuple[Column, Cause, Column]]) -> Column:
    """A struct of ``cause`` and ``reason`` for the first condition that is true; null if none is true."""
    structs = (
        F.when(condition, F.struct(F.lit(cause.value).alias("cause"), reason.alias("reason")))
        for condition, cause, reason in causes
    )
    return F.coalesce(*structs)
