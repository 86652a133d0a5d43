"""What Spark and Delta throw: one clear line, or another try."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from optimizer.errors import BallastError

# What Delta answers to one of two processes that make or change a table at once; the second try finds it done.
_MADE_AT_ONCE = re.compile(r"DELTA_PROTOCOL_CHANGED|DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION|DELTA_METADATA_CHANGED")
_PAUSE_SECONDS = (0.5, 1.0, 2.0, 4.0)  # between attempts: other writers of a table are done in seconds


def again(work: Callable[[], None], pauses: Sequence[float] = _PAUSE_SECONDS) -> None:
    """Do something again where another process made or changed the table in between."""
    try:
        return work()
    except (PySparkException, Py4JJavaError) as error:
        if not pauses or not _MADE_AT_ONCE.search(str(error)):
            raise
    time.sleep(pauses[0])
    return again(work, pauses[1:])


@contextmanager
def one_line(table: str) -> Iterator[None]:
    """Turn what Spark and Delta throw into one clear line: the last of their named conditions, the most precise."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        told = re.findall(r"\[[A-Z][A-Z_.]+\][^\n]*", text) or re.findall(
            r"^(?:Caused by)?: ([^\n]+)", text, re.MULTILINE
        )
        told = told or text.splitlines()[:1]
        raise BallastError(f"table {table}: {' '.join(told[-1:])}") from error
