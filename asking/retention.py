"""What a plan copies if topics keep their records for a shorter time: Kafka deletes what a plan would copy."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from asking.run_facts import resized
from asking.sections import Grid, Section
from optimizer.errors import ConfigError
from optimizer.units import human_bytes, human_time, plural

_DEFAULT_MS = 7 * 24 * 3600 * 1000  # retention.ms of Kafka
_FOREVER = -1
_RETENTION = re.compile(r"(?:^|[,\s])retention[.]ms=(-?\d+)")
_POLICY = re.compile(r"(?:^|[,\s])cleanup[.]policy=((?:compact|delete)(?:,(?:compact|delete))*)")
_TOOL = 'kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type topics'


@dataclass(frozen=True)
class Kept:
    """How long a topic keeps its records, and the bytes that it keeps then.

    Parameters
    ----------
    before_ms : int or None
        Its own ``retention.ms``; None without one.
    sizes : Series of int
        Bytes of each partition then, by the index of the partitions.
    by_rate : bool
        Whether they follow from the rates; else they are in proportion to the times.
    """

    topic: str
    seconds: int
    before_ms: int | None
    sizes: pd.Series
    by_rate: bool


def kept_by_topic(partitions: pd.DataFrame, wanted: Mapping[str, int]) -> list[Kept]:
    """What topics keep then; only those from which Kafka deletes by time.

    Parameters
    ----------
    wanted : mapping
        Seconds by pattern of whole names.

    Raises
    ------
    ConfigError
        When a pattern matches no such topic.
    """
    found: dict[str, Kept] = {}
    for pattern, seconds in wanted.items():
        own = [
            _kept(str(topic), rows, seconds)
            for topic, rows in partitions.groupby("topic", sort=True)
            if re.fullmatch(pattern, str(topic)) and _deletes(rows)
        ]
        if not own:
            raise ConfigError(f"--retention {pattern}: no topic of this name has cleanup.policy=delete")
        found |= {kept.topic: kept for kept in own}
    return [found[topic] for topic in sorted(found)]


def shrunk(partitions: pd.DataFrame, wanted: Mapping[str, int]) -> pd.DataFrame:
    """The partitions with the sizes that they have then."""
    sizes = partitions["size_bytes"].copy()
    for kept in kept_by_topic(partitions, wanted):
        sizes.loc[kept.sizes.index] = kept.sizes
    return resized(partitions, sizes)


def _deletes(rows: pd.DataFrame) -> bool:
    return "delete" in (_config(rows, _POLICY) or "delete")


def _config(rows: pd.DataFrame, pattern: re.Pattern[str]) -> str | None:
    configs = rows["configs"].iloc[0]
    match = pattern.search(configs) if isinstance(configs, str) else None
    return match[1] if match else None


def _kept(topic: str, rows: pd.DataFrame, seconds: int) -> Kept:
    """Of a partition with a rate what it gets in the time; else its share of the time. Never more than now."""
    text = _config(rows, _RETENTION)
    before_ms = int(text) if text else None
    size, rate = rows["size_bytes"].astype("float64"), rows["in_bytes_per_s"].astype("float64")
    now_ms = _DEFAULT_MS if before_ms is None else before_ms
    is_longer = now_ms not in (_FOREVER, 0) and 1000 * seconds >= now_ms
    share = 1.0 if now_ms == _FOREVER else min(1.0, 1000 * seconds / max(now_ms, 1))
    by_rate = bool((rate > 0).any()) and not is_longer
    sizes = (rate * seconds).where((rate > 0) & by_rate, size * share)
    return Kept(topic, seconds, before_ms, sizes.clip(upper=size).round().astype("int64"), by_rate)


def sections(partitions: pd.DataFrame, wanted: Mapping[str, int]) -> Iterator[Section]:
    """What each topic keeps, and the commands that set its time and restore it; nothing without topics."""
    if not wanted:
        return
    topics, commands = list[list[str]](), list[list[str]]()
    guessed = list[str]()
    for kept in kept_by_topic(partitions, wanted):
        before = int(partitions.loc[kept.sizes.index, "size_bytes"].sum())
        how = "by rate" if kept.by_rate else "in proportion"
        sizes = [human_bytes(size) for size in (before, int(kept.sizes.sum()))]
        topics.append([kept.topic, plural(len(kept.sizes), "partition"), *sizes, human_time(kept.seconds), how])
        guessed += [kept.topic] if kept.before_ms is None and not kept.by_rate else []
        entity = f"{_TOOL} --entity-name {kept.topic}"
        old = "--delete-config retention.ms"
        if kept.before_ms is not None:
            old = f"--add-config retention.ms={kept.before_ms}"
        commands.append([f"{entity} --add-config retention.ms={kept.seconds * 1000}"])
        commands.append([f"{entity} {old}"])
    header = ["topic", "partitions", "now, one replica of each", "then", "kept for", "computed"]
    notes = [
        "Older records are deleted for ever. Kafka deletes whole segments, so of each partition up to one more stays."
    ]
    notes += [f"retention.ms of {', '.join(guessed)} is unknown: seven days are assumed."] if guessed else []
    yield Section("Retention", [Grid(header, topics, texts=(0, 5)), *notes])
    yield Section("To set it, and to restore it after the plan", [Grid(["command"], commands)])
