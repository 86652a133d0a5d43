"""Why something is so, as the first of several causes that holds: its code for tables, its words for people."""

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from optimizer.domain import Cause


def first_cause(causes: Iterable[tuple[Column, Cause, Column]]) -> Column:
    """A struct of ``cause`` and ``reason``: those of the first condition that is true; null where none is."""
    told = (
        F.when(holds, F.struct(F.lit(cause.value).alias("cause"), words.alias("reason")))
        for holds, cause, words in causes
    )
    return F.coalesce(*told)
