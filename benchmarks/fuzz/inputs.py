"""Mutated inputs: data that is written but not read must be refused, or another source must show it.

Each mutated folder has one of five verdicts, or it fails:

==========  ==========================================================================================
whole       all written data was read
reported    data is missing, and a ``malformed`` record of the file reports it
contradict  data is missing, and the sources contradict each other about it
traceless   data is missing, the file has no trace of it, and no other source has it
silent      data is missing, the file has a trace of it, and nothing reports it
==========  ==========================================================================================

A folder fails if it is silent, raises, or takes longer than ``MAX_SECONDS`` of CPU time. Rules across sources belong to
validate; this check only finds the contradictions that those rules can use.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.fuzz.folders import Folder, folder
from benchmarks.fuzz.mutate import MUTATIONS
from sources.detect import parse_file
from sources.record import Record

MAX_SECONDS = 2.0  # CPU seconds of one folder; a folder of this size needs much less
CLUSTERS = 200  # folders to mutate: many more shapes than the parsers distinguish
WHOLE, REPORTED, CONTRADICT, TRACELESS, SILENT = "whole", "reported", "contradict", "traceless", "silent"
RAISED, SLOW = "raised", "slow"
BAD = (SILENT, RAISED, SLOW)
Entries = dict[str, Counter[tuple[object, ...]]]

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
# Text that marks a line or an entry of a kind.
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
    mutation, file : str
        The mutation, and the file that it changed.
    before, after : bytes
        The content of this file.
    verdict : str
    lost : tuple of str
        Kinds with missing data; or the error that was raised.
    """

    cluster: int
    mutation: str
    file: str
    before: bytes
    after: bytes
    verdict: str
    lost: tuple[str, ...]


def read(name: str, content: bytes) -> list[Record]:
    """Records of a file, as ingest reads it."""
    return parse_file(content, name=name)


def structure(records: Sequence[Record]) -> Entries:
    """How often each key was read, by kind; the part of ``capacity`` that has no directory."""
    entries: Entries = {kind: Counter() for kind in _KEYS}
    for record in records:
        if record.kind in _KEYS:
            entries[record.kind][tuple(record.payload[name] for name in _KEYS[record.kind])] += 1
    return entries


def lost_of(written: Mapping[str, frozenset[tuple[object, ...]]], entries: Entries) -> tuple[str, ...]:
    """Kinds with missing data."""
    return tuple(kind for kind, keys in written.items() if not keys <= entries[kind].keys())


def contradictions(records: Sequence[Record]) -> set[str]:
    """Kinds for which the sources disagree, so that validate can detect missing data."""
    entries = structure(records)
    payloads = {kind: [r.payload for r in records if r.kind == kind] for kind in _KEYS}
    described = {(p["topic"], p["partition"]): p for p in payloads["partition"]}
    counts = Counter(topic for topic, _ in described)
    disagreeing: set[str] = set()
    headed = {p["topic"]: p["partition_count"] for p in payloads["topic"]}
    stored = {(p["topic"], p["partition"]) for p in payloads["log_dir_replica"]}
    if stored - described.keys() or any(counts[topic] != count for topic, count in headed.items()):
        disagreeing |= {"topic", "partition"}
    if counts.keys() - headed.keys():
        disagreeing.add("topic")
    brokers_named = {b for p in payloads["partition"] for b in (*p["replicas"], *p["isr"])} | {
        b for b, _ in entries["log_dir"]
    }
    if brokers_named - {b for (b,) in entries["broker"]}:
        disagreeing.add("broker")
    holds = {(topic, number, b) for b, _, topic, number in entries["log_dir_replica"]}
    expected = {(*key, b) for key, p in described.items() for b in p["replicas"]}
    if expected - holds:
        disagreeing |= {"log_dir", "log_dir_replica"}
    if {b for (b,) in entries["broker"]} - {b for b, _ in entries["log_dir"]}:
        disagreeing.add("log_dir")
    if {b for (b,) in entries["broker"]} - {b for (b,) in entries["capacity"]} - {-1}:
        disagreeing.add("capacity")
    return disagreeing | _twice(entries)


def _twice(entries: Entries) -> set[str]:
    """Kinds with a repeated key."""
    return {kind for kind in ("config", "partition", "log_dir") if any(n > 1 for n in entries[kind].values())}


def _is_traceless(kind: str, content: bytes, entries: Entries) -> bool:
    """Whether a file has no more traces of a kind than entries that were read."""
    text = content.decode("utf-8", "replace")
    return not _shows_a_gap(text) and len(_TRACES[kind].findall(text)) <= entries[kind].total()


def _shows_a_gap(text: str) -> bool:
    """Whether a text shows that something is missing: a tool's error, or dots next to an input line."""
    if _ERROR.search(text):
        return True
    lines = text.splitlines()
    near_dots = (line for i, dots in enumerate(lines) if _DOTS.fullmatch(dots) for line in lines[max(i - 1, 0) : i + 2])
    return any(trace.search(line) for line in near_dots for trace in _TRACES.values())


def judge(name: str, content: bytes, other_records: Sequence[Record], whole: Folder) -> tuple[str, tuple[str, ...]]:
    """The verdict on a folder with one changed file."""
    started = time.process_time()
    try:
        records = read(name, content)
    except Exception as error:
        return RAISED, (repr(error)[:200],)
    if time.process_time() - started > MAX_SECONDS:
        return SLOW, ()
    everything = [*other_records, *records]
    entries = structure(everything)
    lost = lost_of(whole.written, entries)
    is_reported = any(record.kind == "malformed" for record in records)
    if not lost:
        return (
            (SILENT, ("error",))
            if _ERROR.search(content.decode("utf-8", "replace")) and not is_reported
            else (WHOLE, ())
        )
    if is_reported:
        return REPORTED, lost
    disagreeing = contradictions(everything)
    unnoticed = tuple(kind for kind in lost if kind not in disagreeing)
    if not unnoticed:
        return CONTRADICT, lost
    with_traces = tuple(kind for kind in unnoticed if not _is_traceless(kind, content, entries))
    return (SILENT, with_traces) if with_traces else (TRACELESS, unnoticed)


def cases(count: int, seed: int) -> Iterator[Case]:
    """``count`` mutated folders of some hundred clusters, each with one mutated file."""
    draw, names = random.Random(seed), tuple(MUTATIONS)
    pool = [folder(number) for number in range(CLUSTERS)]
    read_whole = [{name: read(name, text.encode()) for name, text in original.files.items()} for original in pool]
    for number in range(count):
        cluster = draw.randrange(len(pool))
        whole, mutation = pool[cluster], names[number % len(names)]
        name = draw.choice(tuple(whole.files))
        before = whole.files[name].encode()
        twins = [
            text for original in pool for key, text in original.files.items() if key == name and original is not whole
        ]
        after = MUTATIONS[mutation](draw, before, draw.choice(twins).encode())
        other_records = [r for key, records in read_whole[cluster].items() if key != name for r in records]
        yield Case(cluster, mutation, name, before, after, *judge(name, after, other_records, whole))
