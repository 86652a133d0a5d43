"""Mutated inputs: what was written, less what was read, must be refused, or be seen in another source.

A mutated folder ends in one of five ways:

==========  ==========================================================================================
whole       as much was read as was written
said        something is missing, and a ``malformed`` record of the file says so
crossed     something is missing, and the sources that were read contradict each other about it
traceless   something is missing, no trace of it is left in the file, and no other source could tell of it
silent      something is missing, a trace of it is in the file, and nothing says so
==========  ==========================================================================================

None may be silent, raise, or take longer than ``MOST_SECONDS`` of processor time. Rules across sources are validate's;
here it is only asked whether there is anything for them to see.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.fuzz.folders import Folder, folder
from benchmarks.fuzz.mutate import WAYS
from sources.detect import parse_file
from sources.record import Record

MOST_SECONDS = 2.0  # CPU seconds of one folder: many times what any folder of this size should take
CLUSTERS = 200  # folders that mutations are made of: many more shapes than parsers tell apart
WHOLE, SAID, CROSSED, TRACELESS, SILENT = "whole", "said", "crossed", "traceless", "silent"
RAISED, SLOW = "raised", "slow"
BAD = (SILENT, RAISED, SLOW)
Found = dict[str, Counter[tuple[object, ...]]]

_KEYS = {
    "topic": ("topic",),
    "partition": ("topic", "partition"),
    "broker": ("broker_id",),
    "log_dir": ("broker_id", "log_dir"),
    "log_dir_replica": ("broker_id", "log_dir", "topic", "partition"),
    "config": ("entity_name", "name"),
    "reassignment": ("topic", "partition"),
    "capacity": ("broker_id",),
}
# What a line or an entry of a kind can be told by.
_TRACES = {
    "topic": re.compile(r"PartitionCount:"),
    "partition": re.compile(r"\bLeader:"),
    "broker": re.compile(r"\(id: |^\d+,", re.MULTILINE),
    "log_dir": re.compile(r'"logDir"'),
    "log_dir_replica": re.compile(r'"isFuture"'),
    "config": re.compile(r"\bsensitive=|^\s*Configs for ", re.MULTILINE),
    "reassignment": re.compile(r": replicas:"),
    "capacity": re.compile(r'"brokerId"|^\d+;', re.MULTILINE),
}
_ERROR = re.compile(r"Error while executing|\bERROR\b|^Exception in thread|^\s*at org\.apache", re.MULTILINE)
_DOTS = re.compile(r"\[?(?:\.\.\.|\u2026)\]?")


@dataclass(frozen=True)
class Case:
    """One mutated folder.

    Parameters
    ----------
    cluster : int
        Number of its folder (``folders.folder``).
    way, file : str
        How which file was changed.
    before, after : bytes
        That file.
    verdict : str
    lost : tuple of str
        Kinds of which something is missing; the error where one was raised.
    """

    cluster: int
    way: str
    file: str
    before: bytes
    after: bytes
    verdict: str
    lost: tuple[str, ...]


def read(name: str, content: bytes) -> list[Record]:
    """Records of a file, as ingest reads it."""
    return parse_file(content, name=name)


def structure(records: Sequence[Record]) -> Found:
    """How often each key was read, by kind; the part of ``capacity`` that has no directory."""
    found: Found = {kind: Counter() for kind in _KEYS}
    for record in records:
        if record.kind in _KEYS:
            found[record.kind][tuple(record.payload[name] for name in _KEYS[record.kind])] += 1
    return found


def lost_of(written: Mapping[str, frozenset[tuple[object, ...]]], found: Found) -> tuple[str, ...]:
    """Kinds of which something that was written is missing."""
    return tuple(kind for kind, keys in written.items() if not keys <= found[kind].keys())


def contradictions(records: Sequence[Record]) -> set[str]:
    """Kinds about which the sources that were read disagree, so that validate can see that something is missing."""
    found = structure(records)
    of = {kind: [r.payload for r in records if r.kind == kind] for kind in _KEYS}
    described = {(p["topic"], p["partition"]): p for p in of["partition"]}
    counts = Counter(topic for topic, _ in described)
    seen: set[str] = set()
    headed = {p["topic"]: p["partition_count"] for p in of["topic"]}
    stored = {(p["topic"], p["partition"]) for p in of["log_dir_replica"]}
    if stored - described.keys() or any(counts[topic] != count for topic, count in headed.items()):
        seen |= {"topic", "partition"}
    if counts.keys() - headed.keys():
        seen.add("topic")
    named = {b for p in of["partition"] for b in (*p["replicas"], *p["isr"])} | {b for b, _ in found["log_dir"]}
    if named - {b for (b,) in found["broker"]}:
        seen.add("broker")
    holds = {(topic, number, b) for b, _, topic, number in found["log_dir_replica"]}
    wanted = {(*key, b) for key, p in described.items() for b in p["replicas"]}
    if wanted - holds:
        seen |= {"log_dir", "log_dir_replica"}
    if {b for (b,) in found["broker"]} - {b for b, _ in found["log_dir"]}:
        seen.add("log_dir")
    if {b for (b,) in found["broker"]} - {b for (b,) in found["capacity"]} - {-1}:
        seen.add("capacity")
    return seen | _twice(found)


def _twice(found: Found) -> set[str]:
    """Kinds of which one key stands twice."""
    return {kind for kind in ("config", "partition", "log_dir") if any(n > 1 for n in found[kind].values())}


def _is_traceless(kind: str, content: bytes, found: Found) -> bool:
    """Whether a file holds no more traces of a kind than were read."""
    text = content.decode("utf-8", "replace")
    return not _admits(text) and len(_TRACES[kind].findall(text)) <= found[kind].total()


def _admits(text: str) -> bool:
    """Whether a text says itself that something is missing: a tool's error, or dots beside a line of an input."""
    if _ERROR.search(text):
        return True
    lines = text.splitlines()
    beside = (line for i, dots in enumerate(lines) if _DOTS.fullmatch(dots) for line in lines[max(i - 1, 0) : i + 2])
    return any(trace.search(line) for line in beside for trace in _TRACES.values())


def judge(name: str, content: bytes, others: Sequence[Record], whole: Folder) -> tuple[str, tuple[str, ...]]:
    """Verdict on a folder of which one file has another content."""
    started = time.process_time()
    try:
        records = read(name, content)
    except Exception as error:
        return RAISED, (repr(error)[:200],)
    if time.process_time() - started > MOST_SECONDS:
        return SLOW, ()
    everything = [*others, *records]
    found = structure(everything)
    lost = lost_of(whole.written, found)
    is_said = any(record.kind == "malformed" for record in records)
    if not lost:
        return (
            (SILENT, ("error",)) if _ERROR.search(content.decode("utf-8", "replace")) and not is_said else (WHOLE, ())
        )
    if is_said:
        return SAID, lost
    seen = contradictions(everything)
    unseen = tuple(kind for kind in lost if kind not in seen)
    if not unseen:
        return CROSSED, lost
    left = tuple(kind for kind in unseen if not _is_traceless(kind, content, found))
    return (SILENT, left) if left else (TRACELESS, unseen)


def cases(count: int, seed: int) -> Iterator[Case]:
    """So many mutated folders, each of one of a few hundred clusters, with one file changed in one way."""
    draw, names = random.Random(seed), tuple(WAYS)
    pool = [folder(number) for number in range(CLUSTERS)]
    read_whole = [{name: read(name, text.encode()) for name, text in one.files.items()} for one in pool]
    for number in range(count):
        at = draw.randrange(len(pool))
        whole, way = pool[at], names[number % len(names)]
        name = draw.choice(tuple(whole.files))
        before = whole.files[name].encode()
        twins = [text for one in pool for key, text in one.files.items() if key == name and one is not whole]
        after = WAYS[way](draw, before, draw.choice(twins).encode())
        others = [r for key, records in read_whole[at].items() if key != name for r in records]
        yield Case(at, way, name, before, after, *judge(name, after, others, whole))
