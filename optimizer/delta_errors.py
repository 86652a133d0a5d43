"""Errors of Spark and Delta: shortened to one line, or answered by a retry."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from optimizer.errors import BallastError

# Delta's errors if two processes create or change a table at the same time. Nothing was written then: a retry finds the
# work done, or repeats it on the new version.
_CONFLICT = re.compile(
    r"DELTA_PROTOCOL_CHANGED|DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION|DELTA_METADATA_CHANGED|DELTA_CONCURRENT_"
)
_PAUSE_SECONDS = (0.5, 1.0, 2.0, 4.0)  # between attempts: another writer of the table finishes within seconds


def retry_conflicts(work: Callable[[], None], pauses: Sequence[float] = _PAUSE_SECONDS) -> None:
    """Call ``work``; repeat it if another process created or changed the table at the same time."""
    try:
        return work()
    except (PySparkException, Py4JJavaError) as error:
        if not pauses or not _CONFLICT.search(str(error)):
            raise
    time.sleep(pauses[0])
    return retry_conflicts(work, pauses[1:])


@contextmanager
def short_errors(table: str) -> Iterator[None]:
    """Turn errors of Spark and Delta into a BallastError of one line: the last named condition, the most precise."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        conditions = re.findall(r"\[[A-Z][A-Z_.]+\][^\n]*", text)
        causes = conditions or re.findall(r"^(?:Caused by)?: ([^\n]+)", text, re.MULTILINE) or text.splitlines()[:1]
        raise BallastError(f"table {table}: {' '.join(causes[-1:])}") from error
