"""The rules of waves inside brokers: replicas that move to another log directory of their broker.

``dir-moves.json`` of such a wave is a reassignment that changes no list and names the new directory of each replica
that moves. ``rollback-dir-moves.json`` names the old ones. Kafka copies a replica inside its broker, so both copies
count on disk until the wave has ended.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from optimizer.audit.claims import FIXED, FREE, ONLY, WHOLE_PLAN, AuditFile, AuditPartition, Key, Violation
from optimizer.audit.dir_move_throttles import check_dir_move_throttles
from optimizer.audit.instance import Instance
from optimizer.audit.log_dir_bytes import Place
from optimizer.audit.log_dirs import bytes_after
from optimizer.audit.read_documents import Entry, PlanDocument, name, read_document
from optimizer.kafka.reassignment_json import ANY_DIR

NAMES = {"dir_moves": "dir-moves.json", "rollback_dir_moves": "rollback-dir-moves.json"}  # file name by kind


@dataclass(frozen=True, slots=True)
class _Move:
    """One replica that moves from the directory ``source`` of its broker to ``target``; ``any`` is unknown."""

    partition: AuditPartition
    broker: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class _Wave:
    """One wave inside brokers, its two documents, and its moves of known partitions."""

    number: int
    folder: str
    forward: PlanDocument
    back: PlanDocument
    moves: Sequence[_Move]


def check_dir_moves(
    instance: Instance, documents: Mapping[str, PlanDocument], files: Sequence[AuditFile]
) -> Iterator[Violation]:
    """Check the waves inside brokers, with their rollbacks and throttles.

    Parameters
    ----------
    documents : mapping
        The reassignment documents by path.
    files : sequence of AuditFile
        All documents of the cluster.
    """
    pairs, violations = _pairs(files)
    yield from violations
    if not pairs:
        return
    read = [_read_wave(instance, wave, pair) for wave, pair in sorted(pairs.items())]
    unreadable = {wave.number: (*wave.forward.violations, *wave.back.violations) for wave in read}
    yield from (violation for of_wave in unreadable.values() for violation in of_wave)
    waves = [wave for wave in read if not unreadable[wave.number]]
    yield from _order(waves, files)
    yield from _once(waves, documents, files)
    for wave in waves:
        for entry in wave.forward.entries:
            yield from _entry(instance, wave.forward.label, entry)
        for move in wave.moves:
            yield from _move(instance, wave.forward.label, move)
        yield from _rollback(wave)
    yield from _space(instance, waves, documents, files)
    scripts = {file.path: file.content for file in files if file.kind == "throttle"}
    for wave in waves:
        moved_bytes: Counter[int] = Counter()
        for move in wave.moves:
            moved_bytes[move.broker] += move.partition.size_bytes
        yield from check_dir_move_throttles(instance, moved_bytes, wave.folder, scripts)


def _pairs(files: Sequence[AuditFile]) -> tuple[dict[int, dict[str, AuditFile]], list[Violation]]:
    """The two documents of each wave by kind. Each has its name and is in the folder of its wave."""
    of_waves = sorted((file for file in files if file.wave != WHOLE_PLAN), key=lambda file: file.wave)
    cluster_folder = of_waves[0].folder.rpartition("/")[0] if of_waves else ""
    digits = max(2, len(str(of_waves[-1].wave))) if of_waves else 2  # 2: the first wave is in wave-01
    found: dict[int, dict[str, AuditFile]] = {}
    violations = []
    for file in (f for f in files if f.kind in NAMES):
        of_wave = found.setdefault(file.wave, {})
        path = f"{cluster_folder}/wave-{file.wave:0{digits}d}/{NAMES[file.kind]}"
        if file.wave == WHOLE_PLAN or file.path != path or file.kind in of_wave:
            violations.append(Violation("dir_moves", file.path, f"no wave {file.wave} has such a document"))
        else:
            of_wave[file.kind] = file
    for wave, of_wave in sorted(found.items()):
        missing = [document for kind, document in NAMES.items() if kind not in of_wave]
        if len(missing) == 1:
            violations.append(Violation("dir_moves", f"wave {wave}", f"it lacks {missing[0]}"))
    return {wave: of_wave for wave, of_wave in found.items() if len(of_wave) == len(NAMES)}, violations


def _read_wave(instance: Instance, number: int, pair: Mapping[str, AuditFile]) -> _Wave:
    forward, back = (read_document(pair[kind].content, label=pair[kind].path) for kind in NAMES)
    moves = [
        _Move(partition, broker, instance.log_dir_before(partition, broker), path)
        for entry in forward.entries
        if (partition := instance.partitions.get(entry.key)) and partition.replicas == entry.replicas
        for broker, path in entry.named
    ]
    return _Wave(number, pair["dir_moves"].folder, forward, back, moves)


def _order(waves: Sequence[_Wave], files: Sequence[AuditFile]) -> Iterator[Violation]:
    """Waves inside brokers come after all waves with reassignments."""
    last = max((file.wave for file in files if file.kind == "reassignment"), default=WHOLE_PLAN)
    for wave in waves:
        if wave.number <= last:
            yield Violation("dir_move_order", wave.forward.label, f"wave {last} has a reassignment")


def _once(
    waves: Sequence[_Wave], documents: Mapping[str, PlanDocument], files: Sequence[AuditFile]
) -> Iterator[Violation]:
    """A partition that moves inside brokers does so in one wave, and is in no reassignment."""
    reassigned = {e.key for f in files if f.kind == "reassignment" for e in documents[f.path].entries}
    wave_of: dict[Key, int] = {}
    for wave in waves:
        for entry in wave.forward.entries:
            if entry.key in reassigned:
                detail = f"{wave.forward.label} names it, and a reassignment too"
                yield Violation("dir_move_reassigned", name(entry.key), detail)
            if wave_of.setdefault(entry.key, wave.number) != wave.number:
                detail = f"{wave.forward.label} names it, and wave {wave_of[entry.key]} too"
                yield Violation("dir_move_twice", name(entry.key), detail)


def _entry(instance: Instance, label: str, entry: Entry) -> Iterator[Violation]:
    """The partition is known and may move. Its list stays, and at least one replica has a new directory."""
    subject, partition = name(entry.key), instance.partitions.get(entry.key)
    if partition is None:
        yield Violation("known_partition", subject, f"{label}: the cluster has no such partition")
        return
    if entry.replicas != partition.replicas:
        detail = f"{label}: its replicas are {list(partition.replicas)}, not {list(entry.replicas)}"
        yield Violation("dir_move_replicas", subject, detail)
    if not entry.named:
        yield Violation("dir_move_needless", subject, f"{label} names no directory of it")
    if partition.mobility != FREE and (partition.mobility, partition.fixed_cause) != (FIXED, ONLY):
        reason = partition.fixed_cause or "no cause is known"
        yield Violation("dir_move_fixed", subject, f"{label}: it is {partition.mobility} ({reason}) and must not move")
    for broker in partition.replicas:
        if broker not in instance.living:
            detail = f"{label}: broker {broker} is down: Kafka refuses the document"
            yield Violation("living_broker", subject, detail)


def _move(instance: Instance, label: str, move: _Move) -> Iterator[Violation]:
    """A replica moves between two directories of a broker that stays, and that has only open directories."""
    subject, broker = name(move.partition.key), move.broker
    log_dirs = instance.log_dirs.get(broker, {})
    if broker in instance.to_empty or instance.brokers[broker].state == "draining":
        yield Violation("dir_move_broker", subject, f"{label}: broker {broker} is to be emptied")
    if move.target not in log_dirs:
        detail = f"{label}: {move.target} is not one of several directories of broker {broker}"
        yield Violation("dir_move_target", subject, detail)
    if move.source == move.target:
        yield Violation("dir_move_needless", subject, f"{label}: it is in {move.target} of broker {broker} already")
    elif log_dirs and move.source not in log_dirs:
        known = "unknown" if move.source == ANY_DIR else f"{move.source}, which the broker does not have"
        yield Violation("dir_move_source", subject, f"{label}: its directory on broker {broker} is {known}")
    closed = sorted(path for path, log_dir in log_dirs.items() if not log_dir.is_open)
    if closed:
        detail = f"{label}: broker {broker} has directories that have failed or are cordoned: {closed}"
        yield Violation("dir_move_open", subject, detail)


def _rollback(wave: _Wave) -> Iterator[Violation]:
    """The rollback names the same replicas with their old directories, and nothing else."""
    old = {(*move.partition.key, move.broker): move.source for move in wave.moves}
    expected = {
        entry.key: (entry.replicas, tuple(old.get((*entry.key, broker), ANY_DIR) for broker in entry.replicas))
        for entry in wave.forward.entries
    }
    restored = {
        entry.key: (entry.replicas, entry.log_dirs or (ANY_DIR,) * len(entry.replicas)) for entry in wave.back.entries
    }
    for key in sorted(expected.keys() | restored.keys()):
        if expected.get(key) != restored.get(key):
            detail = f"it has {restored.get(key, 'nothing')}, expected {expected.get(key, 'nothing')}"
            yield Violation("dir_move_rollback", name(key), f"{wave.back.label}: {detail}")


def _space(
    instance: Instance, waves: Sequence[_Wave], documents: Mapping[str, PlanDocument], files: Sequence[AuditFile]
) -> Iterator[Violation]:
    """A directory is within its limit in each wave in which replicas move there; both copies count."""
    held = bytes_after(instance, documents, files)
    for wave in waves:
        copied: Counter[Place] = Counter()
        removed: Counter[Place] = Counter()
        for move in wave.moves:
            copied[move.broker, move.target] += move.partition.size_bytes
            removed[move.broker, move.source] += move.partition.size_bytes
        for subject, problem in held.add(copied):
            yield Violation("dir_move_capacity", subject, f"{wave.forward.label}: {problem}")
        held.remove(removed)
