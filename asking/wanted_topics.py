"""Which partitions are wanted, by the options of ``./ballast place`` or by a file."""

import argparse
import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from asking.run_facts import RunFacts
from optimizer.errors import ConfigError
from optimizer.setting_checks import Problems
from optimizer.similar import did_you_mean
from optimizer.units import plural

COLUMNS = ("topic", "partitions", "add", "factor", "like", "size_bytes", "in_bytes_per_s", "out_bytes_per_s")
_NUMBERS = tuple(name for name in COLUMNS if name not in ("topic", "like"))
_LOADS = COLUMNS[-3:]
_LARGEST = 10**18  # bytes, and any other number
_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")  # ``org.apache.kafka.common.internals.Topic``
_MOST_PARTITIONS = 10_000  # of one topic: more than that in one request is refused by Kafka


@dataclass(frozen=True)
class Wanted:
    """New partitions of a topic.

    Parameters
    ----------
    first, count, factor : int
        The first new partition, how many, and the replicas of each.
    like : str
        The topic whose other facts they have; "" for none.
    size_bytes, in_bytes_per_s, out_bytes_per_s : int
        Expected of each partition.
    existing : tuple of tuple of int
        Replicas of the partitions that are there.
    """

    topic: str
    first: int
    count: int
    factor: int
    like: str
    size_bytes: int
    in_bytes_per_s: int
    out_bytes_per_s: int
    existing: tuple[tuple[int, ...], ...] = ()


def wanted_of(options: argparse.Namespace, facts: RunFacts) -> list[Wanted]:
    """The new partitions of a command line.

    Raises
    ------
    ConfigError
        With all problems of all topics.
    """
    given = {name: getattr(options, name) for name in COLUMNS if getattr(options, name) is not None}
    if bool(options.file) == bool(given):
        raise ConfigError("give the new partitions by --topic and its options, or for several topics by --file FILE")
    rows = [*_of_file(options.file)] if options.file else [("", given)]
    problems, wanted = Problems(), list[Wanted]()
    for where, row in rows:
        problems.collect(partial(_add, wanted, where, row, facts))
    problems.raise_any()
    if not wanted:
        raise ConfigError(f"--file {options.file} has no topic")
    topics = [new.topic for new in wanted]
    if repeated := sorted({topic for topic in topics if topics.count(topic) > 1}):
        raise ConfigError(f"{options.file}: topic {repeated[0]} is there twice: write it on one line")
    return wanted


def _add(wanted: list[Wanted], where: str, row: Mapping[str, Any], facts: RunFacts) -> None:
    wanted.append(_checked(where, row, facts))


def _of_file(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a CSV with some of ``COLUMNS``; empty fields are not given."""
    try:
        with Path(name).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            unknown = [column for column in reader.fieldnames or () if column not in COLUMNS]
            if unknown or "topic" not in (reader.fieldnames or ()):
                what = f"column {unknown[0]!r}" if unknown else "a head without topic"
                raise ConfigError(f"{name}, line 1: {what}: the head has topic, and some of {', '.join(COLUMNS[1:])}")
            for row in reader:
                yield f"{name}, line {reader.line_num}: ", {key: value for key, value in row.items() if value}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--file {name} can't be read: {error}") from error


def _checked(where: str, row: Mapping[str, Any], facts: RunFacts) -> Wanted:
    numbers = {name: _number(where, name, row[name]) for name in _NUMBERS if name in row}
    topic, counts = row.get("topic", ""), facts.partitions
    own = counts[counts["topic"] == topic].sort_values("partition")
    is_new = own.empty
    if topic and is_new and not _NAME.fullmatch(topic):
        raise ConfigError(
            f"{where}topic {topic!r}: Kafka takes 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'"
        )
    if not topic or ("partitions" in row) == ("add" in row):
        raise ConfigError(f"{where}{topic or 'a topic'}: give --partitions for a new topic, or --add for an old one")
    if is_new != ("partitions" in row):
        known = did_you_mean(topic, set(counts["topic"])) if is_new else f": it has {plural(len(own), 'partition')}"
        text = "does not exist; --add needs an old topic" if is_new else "exists; give --add for more partitions"
        raise ConfigError(f"{where}topic {topic} {text}{known}")
    first = 0 if is_new else int(own["partition"].max()) + 1
    if first != len(own):
        raise ConfigError(f"{where}topic {topic}: the run does not know all of its partitions")
    count = numbers["partitions"] if is_new else numbers["add"]
    factor = numbers.get("factor", 0 if is_new else len(own["replicas"].iloc[0]))
    if not is_new and factor != len(own["replicas"].iloc[0]):
        has = plural(len(own["replicas"].iloc[0]), "replica")
        raise ConfigError(f"{where}topic {topic}: its partitions have {has}, and Kafka adds none with {factor}")
    _check_sizes(where, topic, count, factor, facts)
    like = row.get("like", "" if is_new else topic)
    loads = {**_loads_like(where, like, counts), **{name: numbers[name] for name in _LOADS if name in numbers}}
    if "size_bytes" not in loads:
        raise ConfigError(f"{where}topic {topic}: how large will a partition be? Give --like TOPIC or --size BYTES")
    existing = tuple(tuple(int(b) for b in ids) for ids in own["replicas"])
    return Wanted(topic, first, count, factor, like, **{**dict.fromkeys(_LOADS, 0), **loads}, existing=existing)


def _number(where: str, name: str, value: Any) -> int:
    try:
        number = int(value)
    except ValueError:
        number = -1
    least = 0 if name in _LOADS else 1
    if not least <= number <= _LARGEST:
        raise ConfigError(f"{where}{name} {value!r}: give a whole number from {least} to {_LARGEST:,}")
    return number


def _check_sizes(where: str, topic: str, count: int, factor: int, facts: RunFacts) -> None:
    if count > _MOST_PARTITIONS:
        raise ConfigError(f"{where}topic {topic}: {count:,} partitions: give at most {_MOST_PARTITIONS:,} at once")
    if not factor:
        raise ConfigError(f"{where}topic {topic}: how many replicas? Give --factor")
    live = facts.brokers[facts.brokers["state"] == "alive"]
    racks = sorted(set(live["rack"].dropna()))
    if factor > len(live):
        raise ConfigError(f"{where}topic {topic}: {factor} replicas, but {plural(len(live), 'broker')} are alive")
    if racks and facts.settings.policy.rack_policy == "spread" and factor > len(racks):
        raise ConfigError(
            f"{where}topic {topic}: {factor} replicas, but {plural(len(racks), 'rack')} ({', '.join(racks)}): two "
            f"would share one; give at most {len(racks)}"
        )


def _loads_like(where: str, like: str, partitions: pd.DataFrame) -> dict[str, int]:
    """The mean of another topic's partitions."""
    if not like:
        return {}
    rows = partitions[partitions["topic"] == like]
    if rows.empty:
        raise ConfigError(f"{where}--like {like}: there is no such topic{did_you_mean(like, set(partitions['topic']))}")
    return {name: round(float(rows[name].astype("float64").mean())) for name in _LOADS}
