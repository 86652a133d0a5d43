"""Checks of the throttles of a wave and of its rollback: copies are in the lists, brokers that copy have a rate."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.audit.claims import Key, Violation
from optimizer.audit.instance import Instance
from optimizer.audit.read_documents import PlanDocument
from optimizer.kafka.size_limits import ARGUMENT_BYTES, CONFIG_VALUE_CHARACTERS, TOPICS_PER_REQUEST

STYLES = ("careful", "kafka")
LEADER, FOLLOWER = "leader.replication.throttled.", "follower.replication.throttled."
DATA, ROLLBACK_DATA = "throttle.json", "rollback-throttle.json"
# Every wave that is throttled has all of them.
DOCUMENTS = (DATA, *(f"{verb}-{style}.sh" for verb in ("throttle", "unthrottle") for style in STYLES))
ConfigKey = tuple[str, str, str]  # entity type, entity, config
Entries = dict[ConfigKey, str]
FormEntries = Mapping[ConfigKey, tuple[str, str | None]]  # value and previous value
_SET = re.compile(r"configs (topics|brokers) '([A-Za-z0-9._-]+)' --add-config '([^']*)'")
_CONFIG = re.compile(r"([a-z.]+)=(?:\[([^\]]*)\]|([^,\]]*))(?:,|$)")
_TABLE = re.compile(r"wanted\" <<'END'\n(.*?)^END$", re.DOTALL | re.MULTILINE)
_LIST = re.compile(r"\d+:\d+(,\d+:\d+)*|")


@dataclass(frozen=True, slots=True)
class _Copy:
    """The copies of one partition: brokers that may send, brokers that receive, and the bytes of a replica."""

    key: Key
    senders: Collection[int]
    receivers: Collection[int]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ThrottleData:
    """Entries of ``throttle.json`` by form: value and previous value; and the rate of copies, None if unknown."""

    entries: Mapping[str, FormEntries]
    copy_bytes_per_s: int | None


def check_throttles(
    instance: Instance, wave: PlanDocument, folder: str, scripts: Mapping[str, str]
) -> Iterator[Violation]:
    """Check the throttle documents in a wave's folder. A wave that copies nothing needs none."""
    missing = missing_documents(folder, scripts)
    copies = _copies(instance, wave)
    if missing:
        if len(missing) < len(DOCUMENTS) or any(copy.size_bytes for copy in copies):
            yield Violation("throttle_missing", folder, f"it lacks {', '.join(missing)}")
        return
    data = read_data(scripts[f"{folder}/{DATA}"])
    for style in STYLES:
        path = f"{folder}/throttle-{style}.sh"
        entries = read_script(scripts[path])
        yield from check_script(instance, data, folder, style, scripts)
        yield from _lists(copies, entries, path)
        yield from _rates(instance, copies, entries, path)


def missing_documents(folder: str, scripts: Mapping[str, str]) -> list[str]:
    """Names of the throttle documents that a wave's folder lacks; those of its rollback do not count."""
    return [name for name in DOCUMENTS if f"{folder}/{name}" not in scripts]


def check_script(
    instance: Instance, data: ThrottleData, folder: str, style: str, scripts: Mapping[str, str]
) -> Iterator[Violation]:
    """A throttle script sets the entries of ``throttle.json``, and its unthrottle script restores the values before.

    Configs of brokers that are down are left out. Kafka and a process accept the values.
    """
    path, unthrottle = f"{folder}/throttle-{style}.sh", f"{folder}/unthrottle-{style}.sh"
    entries, of_form = read_script(scripts[path]), data.entries.get(style, {})
    dead = {str(broker) for broker in instance.brokers if broker not in instance.living}
    required = {key: value for key, (value, _) in of_form.items() if not _is_of(key, dead)}
    if entries != required:
        differ = sorted(key for key in entries.keys() | required.keys() if entries.get(key) != required.get(key))
        yield Violation("throttle_data", path, f"throttle.json differs in {differ[:3]}")
    yield from _values(entries, scripts[path], path)
    yield from _restored(entries, of_form, scripts[unthrottle], unthrottle)


def check_rollback_throttles(
    instance: Instance, wave: PlanDocument, folder: str, scripts: Mapping[str, str]
) -> Iterator[Violation]:
    """Check ``rollback-throttle.json``. A wave has it if its rollback copies; no other wave has it."""
    path = f"{folder}/{ROLLBACK_DATA}"
    copies = _copies_back(instance, wave)
    is_required = bool(copies)
    if is_required != (path in scripts):
        rule, verb = ("throttle_missing", "lacks") if is_required else ("throttle_extra", "needs no")
        yield Violation(rule, folder, f"it {verb} {ROLLBACK_DATA}")
    if not is_required or path not in scripts:
        return
    data, of_wave = read_data(scripts[path]), read_data(scripts.get(f"{folder}/{DATA}", ""))
    rate = data.copy_bytes_per_s
    if not isinstance(rate, int) or rate < 1:
        yield Violation("throttle_data", path, "it cannot be read, or has no rate of copies")
        return
    if of_wave.copy_bytes_per_s not in (None, rate):
        detail = f"it copies {rate} bytes per second, the wave {of_wave.copy_bytes_per_s}"
        yield Violation("throttle_data", path, detail)
    for style, values in data.entries.items():
        entries = {key: value for key, (value, _) in values.items()}
        yield from _lists(copies, entries, path)
        yield from _rates(instance, copies, entries, path, least=rate)
        yield from _values(entries, "", path)
        before = {key: previous for key, (_, previous) in of_wave.entries.get(style, {}).items()}
        differ = sorted(key for key, (_, previous) in values.items() if before.get(key, previous) != previous)
        if differ:
            yield Violation("throttle_data", path, f"throttle.json has other previous values of {differ[:3]}")


def read_script(text: str) -> Entries:
    """The configs that a script sets: value by entity type, entity and config."""
    return {
        (kind, name, config): listed or plain
        for kind, name, configs in (match.groups() for match in map(_SET.fullmatch, text.splitlines()) if match)
        for config, listed, plain in _CONFIG.findall(configs)
    }


def read_data(text: str) -> ThrottleData:
    """The content of ``throttle.json``; empty if it can't be read."""
    try:
        content: Any = json.loads(text)
        entries = {
            style: {
                (row["entity_type"], row["entity_name"], row["config"]): (row["value"], row["previous_value"])
                for row in content[style]
            }
            for style in STYLES
        }
        if all(isinstance(value, str) for of_style in entries.values() for value, _ in of_style.values()):
            return ThrottleData(entries, content["copy_bytes_per_s"])
    except (ValueError, KeyError, TypeError):
        pass
    return ThrottleData({}, None)


def _is_of(key: ConfigKey, brokers: set[str]) -> bool:
    return key[0] == "brokers" and key[1] in brokers


def _copies(instance: Instance, wave: PlanDocument) -> list[_Copy]:
    """The copies of each partition that the wave copies: from the old replicas to the new ones."""
    result = []
    for entry in wave.entries:
        before = instance.partitions.get(entry.key)
        added = set(entry.replicas) - set(before.replicas) if before else set()
        if before and added:
            result.append(_Copy(entry.key, before.replicas, added, before.size_bytes))
    return result


def _copies_back(instance: Instance, wave: PlanDocument) -> list[_Copy]:
    """The copies of the wave's rollback, from the new replicas to the removed ones.

    Partitions with a broker that is down in their old list have no rollback.
    """
    result = []
    for entry in wave.entries:
        before = instance.partitions.get(entry.key)
        removed = set(before.replicas) - set(entry.replicas) if before else set()
        if before and removed and instance.living.issuperset(before.replicas):
            result.append(_Copy(entry.key, entry.replicas, removed, before.size_bytes))
    return result


def _lists(copies: Sequence[_Copy], entries: Entries, path: str) -> Iterator[Violation]:
    """Every copy is in its topic's follower list, and every replica that may send it in the leader list."""
    listed = {key: set(value.split(",")) for key, value in entries.items() if key[0] == "topics"}
    for copy in copies:
        topic, partition = copy.key
        for side, brokers in ((FOLLOWER, copy.receivers), (LEADER, copy.senders)):
            missing = [
                b for b in brokers if f"{partition}:{b}" not in listed.get(("topics", topic, f"{side}replicas"), ())
            ]
            if missing:
                yield Violation("throttle_lists", f"{topic}-{partition}", f"{path}: {side}replicas lacks {missing}")


def _rates(
    instance: Instance, copies: Sequence[_Copy], entries: Entries, path: str, *, least: int = 1
) -> Iterator[Violation]:
    """Each live broker that may send has a leader rate, each that receives a follower rate, of at least ``least``."""
    senders = {broker for copy in copies for broker in copy.senders} & instance.living
    receivers = {broker for copy in copies for broker in copy.receivers} & instance.living
    for side, brokers in ((LEADER, senders), (FOLLOWER, receivers)):
        for broker in sorted(brokers):
            value = entries.get(("brokers", str(broker), f"{side}rate"), "")
            if not value.isdecimal() or int(value) < least:
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


def _restored(entries: Entries, data: FormEntries, text: str, path: str) -> Iterator[Violation]:
    """The unthrottle script knows the value of each config that is set, and restores the previous value."""
    table = _TABLE.search(text)
    rows = [line.split(" ") for line in table[1].splitlines()] if table else []
    restored = {(row[0], row[1], row[2]): (row[3], row[4] if row[4] != "-" else None) for row in rows if len(row) == 5}
    for key in entries:
        if key not in restored:
            yield Violation("unthrottle", key[1], f"{path}: {key[2]} is set and never removed")
            continue
        own, previous = restored[key]
        value, before = data.get(key, (None, None))
        if own != value:
            yield Violation("unthrottle", key[1], f"{path}: {key[2]} is set to {value}, but {own} is removed")
        if previous != before:
            yield Violation("unthrottle", key[1], f"{path}: {key[2]} gets {previous}, but was {before} before")
