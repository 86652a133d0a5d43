"""The rules of log directories: which replicas a document may name, with which directory, and its space.

``log-dirs.json`` of a wave has the directory of each replica that arrives at a broker with several directories.
``rollback-log-dirs.json`` has the old directory of each replica that a rollback of the wave brings back.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from optimizer.audit.claims import WHOLE_PLAN, AuditFile, Key, Replica, Violation
from optimizer.audit.instance import Instance
from optimizer.audit.log_dir_bytes import LogDirBytes, Place
from optimizer.audit.read_documents import Entry, PlanDocument, name, read_log_dirs
from optimizer.kafka.reassignment_json import ANY_DIR

FORWARD, BACK = "log-dirs.json", "rollback-log-dirs.json"
Directories = Mapping[Replica, str]


@dataclass(frozen=True, slots=True)
class _Document:
    """The directories that a document names; none if it does not exist or can't be read."""

    path: str
    log_dirs: Directories
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class _Wave:
    """The entries of a wave, without partitions that the cluster lacks, and its two documents of directories."""

    entries: Mapping[Key, Entry]
    forward: _Document
    back: _Document


def check_log_dirs(
    instance: Instance, documents: Mapping[str, PlanDocument], files: Sequence[AuditFile]
) -> Iterator[Violation]:
    """Check the documents of directories, and the directories in reassignment documents.

    Parameters
    ----------
    documents : mapping
        The reassignment and rollback documents by path.
    files : sequence of AuditFile
        All documents of the cluster.
    """
    waves, violations = _read_waves(instance, documents, files)
    yield from violations
    for wave in waves:
        yield from _arrivals(instance, wave)
        yield from _returns(instance, wave)
    yield from _missing_arrivals(instance, waves)
    yield from _space(instance, waves)
    yield from _reassignments(instance, documents, files, waves)


def bytes_after(instance: Instance, documents: Mapping[str, PlanDocument], files: Sequence[AuditFile]) -> LogDirBytes:
    """The bytes in each directory after all waves with reassignments; arguments as for ``check_log_dirs``.

    A replica that arrives counts if its wave names its directory.
    """
    held = LogDirBytes(instance)
    for wave in _read_waves(instance, documents, files)[0]:
        held.add(_arriving_bytes(instance, wave))
        held.remove(_leaving_bytes(instance, wave))
    return held


def _read_waves(
    instance: Instance, documents: Mapping[str, PlanDocument], files: Sequence[AuditFile]
) -> tuple[list[_Wave], list[Violation]]:
    """The waves with reassignments in their order, and violations in the documents of directories."""
    steps = sorted((f for f in files if f.kind == "reassignment" and f.wave != WHOLE_PLAN), key=lambda f: f.wave)
    wave_of_path = {f"{step.folder}/{name}": step.wave for step in steps for name in (FORWARD, BACK)}
    read: dict[str, _Document] = {}
    violations: list[Violation] = []
    for file in files:
        if file.kind == "log_dirs":
            if file.path in read or wave_of_path.get(file.path) != file.wave:
                violations.append(Violation("log_dirs", file.path, f"no wave {file.wave} has such a document"))
                continue
            log_dirs, unreadable = read_log_dirs(file.content, label=file.path)
            read[file.path] = _Document(file.path, log_dirs, is_readable=not unreadable)
            violations += unreadable
    waves = []
    for step in steps:
        forward, back = (read.get(path) or _Document(path, {}) for path in _paths(step.folder))
        entries = {e.key: e for e in documents[step.path].entries if e.key in instance.partitions}
        waves.append(_Wave(entries, forward, back))
    return waves, violations


def _paths(folder: str) -> tuple[str, str]:
    return f"{folder}/{FORWARD}", f"{folder}/{BACK}"


def _arriving(instance: Instance, entry: Entry) -> list[int]:
    """Brokers that are in the new list of a partition and not in the old one."""
    before = instance.partitions[entry.key].replicas
    return [broker for broker in entry.replicas if broker not in before]


def _returning(instance: Instance, entry: Entry) -> list[int]:
    """Brokers that are in the old list of a partition and not in the new one."""
    return [broker for broker in instance.partitions[entry.key].replicas if broker not in entry.replicas]


def _is_reversible(instance: Instance, entry: Entry) -> bool:
    """Whether the old list has only live brokers: Kafka refuses the rollback of any other partition."""
    return instance.living.issuperset(instance.partitions[entry.key].replicas)


def _arrivals(instance: Instance, wave: _Wave) -> Iterator[Violation]:
    """Only replicas that arrive in this wave are named, each with an open directory of its broker."""
    for (topic, partition, broker), path in wave.forward.log_dirs.items():
        key = (topic, partition)
        entry = wave.entries.get(key)
        if entry is None or broker not in _arriving(instance, entry):
            detail = f"{wave.forward.path}: no replica arrives at broker {broker} in this wave"
            yield Violation("log_dir_arrival", name(key), detail)
            continue
        log_dir = instance.log_dirs.get(broker, {}).get(path)
        if log_dir is None:
            detail = f"{wave.forward.path}: {path} is not one of several directories of broker {broker}"
            yield Violation("known_log_dir", name(key), detail)
        elif not log_dir.is_open:
            detail = f"{wave.forward.path}: {path} of broker {broker} has failed or is cordoned"
            yield Violation("open_log_dir", name(key), detail)


def _returns(instance: Instance, wave: _Wave) -> Iterator[Violation]:
    """The replicas that come back are named with their old directories, and no others.

    A replica may be left out if its directory is unknown or no longer open.
    """
    expected = _old_directories(instance, (e for e in wave.entries.values() if _is_reversible(instance, e)))
    for (topic, partition, broker), path in wave.back.log_dirs.items():
        old = expected.get((topic, partition, broker))
        if old != path:
            reason = f"the replica was in {old}" if old else "no replica comes back to a known directory there"
            detail = f"{wave.back.path}: {path} on broker {broker}, but {reason}"
            yield Violation("log_dir_return", name((topic, partition)), detail)
    if wave.back.is_readable:
        for topic, partition, broker in sorted(expected.keys() - wave.back.log_dirs.keys()):
            log_dir = instance.log_dirs[broker].get(expected[topic, partition, broker])
            if log_dir is not None and log_dir.is_open:
                detail = f"{wave.back.path} lacks its old directory on broker {broker}, {log_dir.path}"
                yield Violation("log_dir_missing", name((topic, partition)), detail)


def _old_directories(instance: Instance, entries: Iterable[Entry]) -> dict[Replica, str]:
    """The known directories of replicas that the entries remove from brokers with several directories."""
    removed = ((entry.key, broker) for entry in entries for broker in _returning(instance, entry))
    old = {
        (*key, broker): instance.log_dir_before(instance.partitions[key], broker)
        for key, broker in removed
        if broker in instance.log_dirs
    }
    return {replica: path for replica, path in old.items() if path != ANY_DIR}


def _missing_arrivals(instance: Instance, waves: Sequence[_Wave]) -> Iterator[Violation]:
    """If any wave names a directory, every replica has one that arrives at a broker with several, one of them open."""
    if not any(wave.forward.log_dirs for wave in waves):
        return
    dealt = {b for b, log_dirs in instance.log_dirs.items() if any(log_dir.is_open for log_dir in log_dirs.values())}
    for wave in waves:
        for key, entry in wave.entries.items() if wave.forward.is_readable else ():
            for broker in _arriving(instance, entry):
                if broker in dealt and (*key, broker) not in wave.forward.log_dirs:
                    detail = f"{wave.forward.path} names no directory on broker {broker}"
                    yield Violation("log_dir_missing", name(key), detail)


def _space(instance: Instance, waves: Sequence[_Wave]) -> Iterator[Violation]:
    """A directory is within its limit in each wave in which replicas arrive there."""
    held = LogDirBytes(instance)
    for wave in waves:
        for subject, problem in held.add(_arriving_bytes(instance, wave)):
            yield Violation("log_dir_capacity", subject, f"{wave.forward.path}: {problem}")
        held.remove(_leaving_bytes(instance, wave))


def _arriving_bytes(instance: Instance, wave: _Wave) -> Counter[Place]:
    """The bytes that arrive in the wave in each directory that it names."""
    arriving: Counter[Place] = Counter()
    for (topic, partition, broker), path in wave.forward.log_dirs.items():
        entry = wave.entries.get((topic, partition))
        if entry and broker in _arriving(instance, entry):
            arriving[broker, path] += instance.partitions[entry.key].size_bytes
    return arriving


def _leaving_bytes(instance: Instance, wave: _Wave) -> Counter[Place]:
    """The bytes of the replicas that the wave removes from known directories."""
    leaving: Counter[Place] = Counter()
    for (topic, partition, broker), path in _old_directories(instance, wave.entries.values()).items():
        leaving[broker, path] += instance.partitions[topic, partition].size_bytes
    return leaving


def _reassignments(
    instance: Instance, documents: Mapping[str, PlanDocument], files: Sequence[AuditFile], waves: Sequence[_Wave]
) -> Iterator[Violation]:
    """A reassignment or rollback names no directory, or exactly those of the documents of directories.

    The rollback of a partition that cannot be rolled back now may name the old directories.
    """
    forward = {replica: path for wave in waves for replica, path in wave.forward.log_dirs.items()}
    back = {replica: path for wave in waves for replica, path in wave.back.log_dirs.items()}
    stuck = [e for wave in waves for e in wave.entries.values() if not _is_reversible(instance, e)]
    back |= _old_directories(instance, stuck)
    for file in files:
        document = documents.get(file.path)
        if document and any(entry.log_dirs for entry in document.entries):
            yield from _names(document, forward if file.kind == "reassignment" else back)


def _names(document: PlanDocument, expected: Directories) -> Iterator[Violation]:
    for entry in document.entries:
        required = [expected.get((*entry.key, broker), ANY_DIR) for broker in entry.replicas]
        named = list(entry.log_dirs) or [ANY_DIR] * len(entry.replicas)
        if named != required:
            detail = f"{document.label}: log_dirs are {named}, expected {required}"
            yield Violation("reassignment_log_dirs", name(entry.key), detail)
