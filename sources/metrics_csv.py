"""Tables of metrics (CSV or Parquet): the meaning and unit of each column. optimizer/stages/ingest reads the rows.

A table has the columns ``topic``, ``partition``, optionally ``broker_id``, ``instance`` and ``observed_at``, and either
one column per metric (wide: ``size_mb``, ``in_bytes_per_s``, ...) or the two columns ``metric`` and ``value`` (long).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizer.errors import InputError

# Decimal prefixes are powers of 1,000, binary ones of 1,024 (IEC 80000-13).
UNITS = {
    "bytes": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
METRICS = ("size_bytes", "in_bytes_per_s", "out_bytes_per_s", "in_bytes_total", "out_bytes_total")
DELIMITERS = (",", ";", "\t")

# Matches anything that looks like a unit in a column name, supported or not.
UNIT_LIKE = r"(?:bytes?|bits?|[kmgtpe]i?b?(?:its?|ytes?)?|[kmgtp]?b?ps)"
_SECONDS = r"(?:_per_(?:s|sec|second))?"
_SIZE_LIKE = re.compile(rf"(?:(?:log_)?size|disk)(?:_{UNIT_LIKE})?")
_RATE_LIKE = re.compile(rf"(?:{UNIT_LIKE}_)?(?P<direction>in|out)(?:_rate)?(?:_{UNIT_LIKE})?(?:_rate)?{_SECONDS}")

_TOPIC = ("topic", "topic_name")
_PARTITION = ("partition", "partition_id")
_BROKER = ("broker_id", "broker", "node_id")
_INSTANCE = ("instance", "pod")  # by preference; both may be there
_TIME = ("observed_at", "timestamp", "time", "ts")
_METRIC = ("metric", "metric_name")
_VALUE = ("value", "metric_value")


@dataclass(frozen=True)
class Measure:
    """The meaning of a name: a metric, and the factor that converts its values to the metric's unit."""

    metric: str
    factor: int


@dataclass(frozen=True)
class Columns:
    """Column indices of a table; None for a column that the table does not have.

    Parameters
    ----------
    topic, partition : int
    broker_id, observed_at : int or None
    metric, value : int or None
        The long form; both or neither.
    wide : tuple of (int, Measure)
        The wide form; empty in the long one.
    instance : int or None
    """

    topic: int
    partition: int
    broker_id: int | None
    observed_at: int | None
    metric: int | None
    value: int | None
    wide: tuple[tuple[int, Measure], ...]
    instance: int | None = None


def _names() -> Iterator[tuple[str, Measure]]:
    for unit, factor in UNITS.items():
        for name in (f"size_{unit}", f"log_size_{unit}"):
            yield name, Measure("size_bytes", factor)
        for direction in ("in", "out"):
            for second in ("s", "sec", "second"):
                for name in (f"{direction}_{unit}_per_{second}", f"{unit}_{direction}_per_{second}"):
                    yield name, Measure(f"{direction}_bytes_per_s", factor)
            for name in (f"{direction}_{unit}_total", f"{unit}_{direction}_total"):
                yield name, Measure(f"{direction}_bytes_total", factor)


MEASURES = dict(_names())


def normalise(name: str) -> str:
    """A column or metric name in the form used for comparison.

    >>> normalise(' "Bytes In per-sec"')
    'bytes_in_per_sec'
    """
    return "_".join(name.strip().strip("\ufeff\"'").strip().lower().replace("-", " ").replace("_", " ").split())


def delimiter(header: str) -> str:
    """The delimiter that a header line uses most; a comma if it uses none."""
    return max(DELIMITERS, key=header.count)


def split_header(header: str) -> list[str]:
    """Column names of a header line, normalised."""
    return [normalise(name) for name in header.rstrip("\r\n").split(delimiter(header))]


def recognises(header: str) -> bool:
    """Whether a line is the header of a table about partitions, usable or not."""
    names = set(split_header(header))
    return not names.isdisjoint(_TOPIC) and not names.isdisjoint(_PARTITION)


def _refuse_without_unit(names: Sequence[str]) -> None:
    """Refuse metric columns without a known unit: no unit is guessed."""
    for name in names:
        if name in MEASURES:
            continue
        rate = _RATE_LIKE.fullmatch(name)
        if rate:
            names_with_unit = (
                f"{rate['direction']}_<unit>_per_s (a rate) or {rate['direction']}_<unit>_total (a counter)"
            )
        elif _SIZE_LIKE.fullmatch(name):
            names_with_unit = "size_<unit>"
        else:
            continue
        units = ", ".join(UNITS)
        raise InputError(
            f"the column {name!r} has no unit or an unknown unit: name it {names_with_unit}; <unit> is one of {units}"
        )


def map_columns(header: Sequence[str]) -> Columns:
    """Find the column of each field.

    Parameters
    ----------
    header : sequence of str
        Column names in order; case, blanks and dashes are ignored.

    Raises
    ------
    InputError
        When a required column is missing, two columns have the same meaning, or a column has no known unit.
    """
    names = [normalise(name) for name in header]
    wide = tuple((i, MEASURES[name]) for i, name in enumerate(names) if name in MEASURES)
    topic, partition = _find(names, _TOPIC), _find(names, _PARTITION)
    metric, value = _find(names, _METRIC), _find(names, _VALUE)
    if topic is None or partition is None:
        raise InputError(f"the columns {names} do not include topic and partition: add them")
    _refuse_without_unit(names)
    if (metric is None) != (value is None) or (metric is None) == (not wide):
        raise InputError(
            f"the columns {names} are no metrics: use the columns metric and value, or columns such as {METRICS[:3]}"
        )
    measured = [measure.metric for _, measure in wide]
    twice = sorted({m for m in measured if measured.count(m) > 1})
    if twice:
        raise InputError(f"the columns {names} contain {twice} twice: keep one column for each")
    instance = next((names.index(name) for name in _INSTANCE if name in names), None)
    return Columns(topic, partition, _find(names, _BROKER), _find(names, _TIME), metric, value, wide, instance)


def _find(names: Sequence[str], synonyms: Sequence[str]) -> int | None:
    indices = [i for i, name in enumerate(names) if name in synonyms]
    if len(indices) > 1:
        raise InputError(f"the columns {[names[i] for i in indices]} have the same meaning: keep one of them")
    return indices[0] if indices else None
