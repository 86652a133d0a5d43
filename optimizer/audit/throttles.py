"""Checks of a wave's throttle scripts: copies must be in the lists, and brokers that copy must have a rate."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from optimizer.audit.claims import Violation
from optimizer.audit.instance import Instance
from optimizer.audit.read_documents import PlanDocument
from optimizer.kafka.size_limits import ARGUMENT_BYTES, CONFIG_VALUE_CHARACTERS, TOPICS_PER_REQUEST

STYLES = ("careful", "kafka")
LEADER, FOLLOWER = "leader.replication.throttled.", "follower.replication.throttled."
Entries = dict[tuple[str, str, str], str]
_SET = re.compile(r"configs (topics|brokers) '([A-Za-z0-9._-]+)' --add-config '([^']*)'")
_CONFIG = re.compile(r"([a-z.]+)=(?:\[([^\]]*)\]|([^,\]]*))(?:,|$)")
_TABLE = re.compile(r"wanted\" <<'END'\n(.*?)^END$", re.DOTALL | re.MULTILINE)
_LIST = re.compile(r"\d+:\d+(,\d+:\d+)*|")


def check_throttles(
    instance: Instance, wave: PlanDocument, folder: str, scripts: Mapping[str, str]
) -> Iterator[Violation]:
    """Check the throttle documents in a wave's folder. A wave that copies nothing needs none."""
    names = [f"throttle-{style}.sh" for style in STYLES] + [f"unthrottle-{style}.sh" for style in STYLES]
    missing = [name for name in ("throttle.json", *names) if f"{folder}/{name}" not in scripts]
    if missing:
        if len(missing) < len(names) + 1 or any(size for _, _, size in _copies(instance, wave)):
            yield Violation("throttle_missing", folder, f"it lacks {', '.join(missing)}")
        return
    data = _data(scripts[f"{folder}/throttle.json"])
    dead = {str(broker) for broker in instance.brokers if broker not in instance.living}
    for style in STYLES:
        path = f"{folder}/throttle-{style}.sh"
        entries = read_script(scripts[path])
        required = {key: value for key, (value, _) in data.get(style, {}).items() if not _is_of(key, dead)}
        if entries != required:
            differ = sorted(key for key in entries.keys() | required.keys() if entries.get(key) != required.get(key))
            yield Violation("throttle_data", path, f"throttle.json differs in {differ[:3]}")
        yield from _lists(instance, wave, entries, path)
        yield from _rates(instance, wave, entries, path)
        yield from _values(entries, scripts[path], path)
        before = {key: previous for key, (_, previous) in data.get(style, {}).items()}
        unthrottle = f"{folder}/unthrottle-{style}.sh"
        yield from _restored(entries, before, scripts[unthrottle], unthrottle)


def read_script(text: str) -> Entries:
    """The configs that a script sets: value by entity type, entity and config."""
    return {
        (kind, name, config): listed or plain
        for kind, name, configs in (match.groups() for match in map(_SET.fullmatch, text.splitlines()) if match)
        for config, listed, plain in _CONFIG.findall(configs)
    }


def _data(text: str) -> dict[str, dict[tuple[str, str, str], tuple[str, str | None]]]:
    """Entries of ``throttle.json`` by form: value and previous value; empty if it can't be read."""
    try:
        content: Any = json.loads(text)
        return {
            style: {
                (row["entity_type"], row["entity_name"], row["config"]): (row["value"], row["previous_value"])
                for row in content[style]
            }
            for style in STYLES
        }
    except (ValueError, KeyError, TypeError):
        return {}


def _is_of(key: tuple[str, str, str], brokers: set[str]) -> bool:
    return key[0] == "brokers" and key[1] in brokers


def _copies(instance: Instance, wave: PlanDocument) -> Iterator[tuple[tuple[str, int], set[int], int]]:
    """Key, receiving brokers and bytes of a replica, of each partition that the wave copies."""
    for entry in wave.entries:
        before = instance.partitions.get(entry.key)
        added = set(entry.replicas) - set(before.replicas) if before else set()
        if before and added:
            yield entry.key, added, before.size_bytes


def _lists(instance: Instance, wave: PlanDocument, entries: Entries, path: str) -> Iterator[Violation]:
    """Every copy is in its topic's follower list, and every replica that may send it in the leader list."""
    listed = {key: set(value.split(",")) for key, value in entries.items() if key[0] == "topics"}
    for (topic, partition), added, _ in _copies(instance, wave):
        for side, brokers in ((FOLLOWER, added), (LEADER, instance.partitions[topic, partition].replicas)):
            missing = [
                b for b in brokers if f"{partition}:{b}" not in listed.get(("topics", topic, f"{side}replicas"), ())
            ]
            if missing:
                yield Violation("throttle_lists", f"{topic}-{partition}", f"{path}: {side}replicas lacks {missing}")


def _rates(instance: Instance, wave: PlanDocument, entries: Entries, path: str) -> Iterator[Violation]:
    """Each live broker that may send has a leader rate above zero, each that receives a follower rate."""
    senders: set[int] = set()
    receivers: set[int] = set()
    for key, added, _ in _copies(instance, wave):
        senders |= set(instance.partitions[key].replicas) & instance.living
        receivers |= added & instance.living
    for side, brokers in ((LEADER, senders), (FOLLOWER, receivers)):
        for broker in sorted(brokers):
            value = entries.get(("brokers", str(broker), f"{side}rate"), "")
            if not value.isdecimal() or int(value) < 1:
                yield Violation("throttle_rates", f"broker {broker}", f"{path}: {side}rate is {value or 'missing'}")


def _values(entries: Entries, text: str, path: str) -> Iterator[Violation]:
    """Lists have the right form. Their length, their number and the arguments are within the limits."""
    for (kind, name, config), value in entries.items():
        if kind == "topics" and not _LIST.fullmatch(value):
            yield Violation("throttle_value", name, f"{path}: {config} is not a list of partition:broker")
        if len(value) > CONFIG_VALUE_CHARACTERS:
            detail = f"{path}: {config} has {len(value)} characters, Kafka accepts {CONFIG_VALUE_CHARACTERS}"
            yield Violation("throttle_value", name, detail)
    topics = {name for kind, name, _ in entries if kind == "topics"}
    if len(topics) > TOPICS_PER_REQUEST:
        detail = f"lists of {len(topics)} topics, Kafka accepts {TOPICS_PER_REQUEST} in one request"
        yield Violation("throttle_value", path, detail)
    longest = max((len(match[3].encode()) for match in map(_SET.fullmatch, text.splitlines()) if match), default=0)
    if longest > ARGUMENT_BYTES:
        yield Violation("throttle_value", path, f"an argument has {longest} bytes, a process accepts {ARGUMENT_BYTES}")


def _restored(
    entries: Entries, before: Mapping[tuple[str, str, str], str | None], text: str, path: str
) -> Iterator[Violation]:
    """The unthrottle script restores the previous value of each config that is set."""
    table = _TABLE.search(text)
    rows = [line.split(" ") for line in table[1].splitlines()] if table else []
    restored = {(row[0], row[1], row[2]): row[3] if len(row) > 3 else None for row in rows if len(row) in (3, 4)}
    for key in entries:
        if key not in restored:
            yield Violation("unthrottle", key[1], f"{path}: {key[2]} is set and never removed")
        elif restored[key] != before.get(key):
            detail = f"{path}: {key[2]} gets {restored[key]}, but was {before.get(key)} before"
            yield Violation("unthrottle", key[1], detail)
