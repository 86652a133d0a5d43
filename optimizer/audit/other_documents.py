"""Every document beside the plan's own: ways back of waves, what has none, elections, and throttles."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from optimizer.audit.claims import AuditBroker, AuditLimits, AuditPartition, Key, Violation
from optimizer.audit.instance import Instance
from optimizer.audit.plan_rules import check_rollback
from optimizer.audit.read_documents import PlanDocument, name, read_document, read_keys, read_parts
from optimizer.audit.throttles import check_throttles
from optimizer.kafka.size_limits import PARTITIONS_PER_REQUEST
from optimizer.units import plural

WHOLE_PLAN = 0  # number of the wave that stands for the plan as one


@dataclass(frozen=True, slots=True)
class AuditFile:
    """One document, as the table ``documents`` has it."""

    path: str
    kind: str
    wave: int
    content: str


def audit_files(
    *,
    brokers: Sequence[AuditBroker],
    partitions: Sequence[AuditPartition],
    limits: AuditLimits,
    files: Sequence[AuditFile],
) -> tuple[Violation, ...]:
    """What does not hold in the documents of one cluster that ``audit_plan`` is not given.

    Parameters
    ----------
    files : sequence of AuditFile
        All documents of the cluster; those that a person reads are passed over.
    """
    instance = Instance(brokers=brokers, partitions=partitions, limits=limits)
    plan = _whole(files, "reassignment")
    waves = {file.wave: _read(file) for file in files if file.kind == "reassignment" and file.wave != WHOLE_PLAN}
    scripts = {file.path: file.content for file in files if file.kind == "throttle"}
    return (
        *_request_sizes(files),
        *_wave_rollbacks(instance, waves, files),
        *_not_possible(instance, plan, files),
        *_elections(instance, plan, files),
        *_topics(plan, files),
        *(
            violation
            for file in files
            if file.kind == "reassignment" and file.wave != WHOLE_PLAN
            for violation in check_throttles(instance, waves[file.wave], file.path.rpartition("/")[0], scripts)
        ),
    )


def _read(file: AuditFile) -> PlanDocument:
    return read_document(file.content, label=file.path)


def _whole(files: Sequence[AuditFile], kind: str) -> PlanDocument:
    """The documents of the whole plan of one kind, as one."""
    texts = [file.content for file in files if file.kind == kind and file.wave == WHOLE_PLAN]
    return read_parts(texts, label=kind)


def _request_sizes(files: Sequence[AuditFile]) -> Iterator[Violation]:
    """No document names more partitions than one request holds, but for the whole plan, which nobody has to execute."""
    for file in files:
        if file.kind in ("reassignment", "rollback", "leader_election") and (file.kind, file.wave) != (
            "reassignment",
            WHOLE_PLAN,
        ):
            keys, _ = read_keys(file.content, label=file.path)
            if len(keys) > PARTITIONS_PER_REQUEST:
                detail = f"names {len(keys)} partitions, a request holds {PARTITIONS_PER_REQUEST}"
                yield Violation("request_size", file.path, detail)


def _wave_rollbacks(
    instance: Instance, waves: dict[int, PlanDocument], files: Sequence[AuditFile]
) -> Iterator[Violation]:
    """Each wave's way back gives its partitions what they had before it, and names no other."""
    backs = {file.wave: _read(file) for file in files if file.kind == "rollback" and file.wave != WHOLE_PLAN}
    for wave in sorted(waves.keys() | backs.keys()):
        step, back = waves.get(wave), backs.get(wave)
        broken = (*(back.violations if back else ()), *check_rollback(instance, step, back))
        yield from (replace(one, rule="wave_rollback", detail=f"wave {wave}: {one.detail}") for one in broken)


def _not_possible(instance: Instance, plan: PlanDocument, files: Sequence[AuditFile]) -> Iterator[Violation]:
    """What no way back has is in a document of its own: changed partitions with an old list that Kafka refuses now."""
    parts = _whole(files, "rollback_not_possible")
    told = {entry.key: entry.replicas for entry in parts.entries}
    before = {e.key: instance.partitions[e.key].replicas for e in plan.entries if e.key in instance.partitions}
    stuck = {key: replicas for key, replicas in before.items() if not instance.living.issuperset(replicas)}
    yield from parts.violations
    for key in sorted(stuck.keys() | told.keys()):
        if told.get(key) != stuck.get(key):
            detail = f"it says {told.get(key, 'nothing')}, without a way back is {stuck.get(key, 'nothing')}"
            yield Violation("rollback_not_possible", name(key), detail)


def _elections(instance: Instance, plan: PlanDocument, files: Sequence[AuditFile]) -> Iterator[Violation]:
    """Elections name the partitions where another replica leads on, each once; the one elected is first, and lives."""
    named: list[Key] = []
    for file in files:
        if file.kind == "leader_election":
            keys, broken = read_keys(file.content, label=file.path)
            named += keys
            yield from broken
    first = {entry.key: entry.replicas[0] for entry in plan.entries}
    asked = {entry.key for entry in plan.entries if _led_by_another(instance, entry.key, entry.replicas)}
    for key, count in sorted(Counter(named).items()):
        if count > 1:
            yield Violation("election", name(key), f"is named {count} times")
    for key in sorted(set(named) ^ asked):
        detail = "no election is needed" if key in first else "the plan does not name it"
        yield Violation("election", name(key), "another replica leads on" if key in asked else detail)
    for key in sorted(asked):
        if first[key] not in instance.living:
            yield Violation("election", name(key), f"the first replica {first[key]} does not live")


def _topics(plan: PlanDocument, files: Sequence[AuditFile]) -> Iterator[Violation]:
    """The document of topics to move names those of the plan, each once."""
    planned = sorted({entry.key[0] for entry in plan.entries})
    for file in files:
        if file.kind == "topics_to_move":
            try:
                named = sorted(row["topic"] for row in json.loads(file.content)["topics"])
            except (ValueError, KeyError, TypeError) as error:
                yield Violation("topics_to_move", file.path, f"not what Kafka reads: {error!r}")
                continue
            if named != planned:
                yield Violation(
                    "topics_to_move", file.path, f"names {plural(len(named), 'topic')}, the plan {len(planned)}"
                )


def _led_by_another(instance: Instance, key: Key, replicas: tuple[int, ...]) -> bool:
    before = instance.partitions.get(key)
    return before is not None and before.leader in replicas[1:]
