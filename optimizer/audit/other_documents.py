"""Checks of the other documents: rollbacks, elections, topics, throttles, log directories and moves inside brokers."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from optimizer.audit.claims import WHOLE_PLAN, AuditBroker, AuditFile, AuditLimits, AuditPartition, Key, Violation
from optimizer.audit.dir_moves import check_dir_moves
from optimizer.audit.instance import Instance
from optimizer.audit.log_dirs import check_log_dirs
from optimizer.audit.plan_rules import check_rollback
from optimizer.audit.read_documents import PlanDocument, join_parts, name, read_document, read_keys
from optimizer.audit.throttles import check_rollback_throttles, check_throttles
from optimizer.kafka.size_limits import PARTITIONS_PER_REQUEST
from optimizer.units import plural

_REASSIGN = ("reassignment", "rollback", "rollback_not_possible")
_REQUESTS = ("reassignment", "rollback", "leader_election", "dir_moves", "rollback_dir_moves")


def audit_files(
    *,
    brokers: Sequence[AuditBroker],
    partitions: Sequence[AuditPartition],
    limits: AuditLimits,
    files: Sequence[AuditFile],
) -> tuple[Violation, ...]:
    """Check the documents of one cluster that ``audit_plan`` does not check.

    Parameters
    ----------
    files : sequence of AuditFile
        All documents of the cluster. Pages for people are ignored.
    """
    instance = Instance(brokers=brokers, partitions=partitions, limits=limits)
    documents = {file.path: read_document(file.content, label=file.path) for file in files if file.kind in _REASSIGN}
    plan = _whole(documents, files, "reassignment")
    waves = _of_waves(documents, files, "reassignment")
    scripts = {file.path: file.content for file in files if file.kind == "throttle"}
    return (
        *_request_sizes(files),
        *_wave_rollbacks(instance, waves, _of_waves(documents, files, "rollback")),
        *_not_possible(instance, plan, _whole(documents, files, "rollback_not_possible")),
        *_elections(instance, plan, files),
        *_topics(plan, files),
        *check_log_dirs(instance, documents, files),
        *check_dir_moves(instance, documents, files),
        *(
            violation
            for file in files
            if file.kind == "reassignment" and file.wave != WHOLE_PLAN
            for check in (check_throttles, check_rollback_throttles)
            for violation in check(instance, waves[file.wave], file.folder, scripts)
        ),
    )


def _whole(documents: Mapping[str, PlanDocument], files: Sequence[AuditFile], kind: str) -> PlanDocument:
    """The parts of the whole plan's document of one kind, joined."""
    parts = [documents[file.path] for file in files if file.kind == kind and file.wave == WHOLE_PLAN]
    return join_parts(parts, label=kind)


def _of_waves(documents: Mapping[str, PlanDocument], files: Sequence[AuditFile], kind: str) -> dict[int, PlanDocument]:
    return {file.wave: documents[file.path] for file in files if file.kind == kind and file.wave != WHOLE_PLAN}


def _request_sizes(files: Sequence[AuditFile]) -> Iterator[Violation]:
    """No document names more partitions than one request may have, except the whole plan, which nobody must execute."""
    for file in files:
        if file.kind in _REQUESTS and (file.kind, file.wave) != ("reassignment", WHOLE_PLAN):
            keys, _ = read_keys(file.content, label=file.path)
            if len(keys) > PARTITIONS_PER_REQUEST:
                detail = f"names {len(keys)} partitions, a request may have {PARTITIONS_PER_REQUEST}"
                yield Violation("request_size", file.path, detail)


def _wave_rollbacks(
    instance: Instance, waves: Mapping[int, PlanDocument], rollbacks: Mapping[int, PlanDocument]
) -> Iterator[Violation]:
    """Each wave's rollback restores the old lists of the wave's partitions, and of no others."""
    for wave in sorted(waves.keys() | rollbacks.keys()):
        step, rollback = waves.get(wave), rollbacks.get(wave)
        violations = (*(rollback.violations if rollback else ()), *check_rollback(instance, step, rollback))
        yield from (replace(v, rule="wave_rollback", detail=f"wave {wave}: {v.detail}") for v in violations)


def _not_possible(instance: Instance, plan: PlanDocument, parts: PlanDocument) -> Iterator[Violation]:
    """Changed partitions with an old list that Kafka refuses now are in ``rollback-not-possible.json``, no others."""
    listed = {entry.key: entry.replicas for entry in parts.entries}
    before = {e.key: instance.partitions[e.key].replicas for e in plan.entries if e.key in instance.partitions}
    required = {key: replicas for key, replicas in before.items() if not instance.living.issuperset(replicas)}
    yield from parts.violations
    for key in sorted(required.keys() | listed.keys()):
        if listed.get(key) != required.get(key):
            detail = f"it has {listed.get(key, 'nothing')}, expected {required.get(key, 'nothing')}"
            yield Violation("rollback_not_possible", name(key), detail)


def _elections(instance: Instance, plan: PlanDocument, files: Sequence[AuditFile]) -> Iterator[Violation]:
    """Elections name the partitions that another replica still leads, each once. The first replica must be live."""
    listed: list[Key] = []
    for file in files:
        if file.kind == "leader_election":
            keys, violations = read_keys(file.content, label=file.path)
            listed += keys
            yield from violations
    first_replica = {entry.key: entry.replicas[0] for entry in plan.entries}
    needed = {entry.key for entry in plan.entries if _led_by_another(instance, entry.key, entry.replicas)}
    for key, count in sorted(Counter(listed).items()):
        if count > 1:
            yield Violation("election", name(key), f"is named {count} times")
    for key in sorted(set(listed) ^ needed):
        detail = "no election is needed" if key in first_replica else "the plan does not name it"
        yield Violation(
            "election", name(key), "another replica still leads, but no election names it" if key in needed else detail
        )
    for key in sorted(needed):
        if first_replica[key] not in instance.living:
            yield Violation("election", name(key), f"the first replica {first_replica[key]} is down")


def _topics(plan: PlanDocument, files: Sequence[AuditFile]) -> Iterator[Violation]:
    """The document of topics to move names the topics of the plan, each once."""
    planned = sorted({entry.key[0] for entry in plan.entries})
    for file in files:
        if file.kind == "topics_to_move":
            try:
                topics = sorted(row["topic"] for row in json.loads(file.content)["topics"])
            except (ValueError, KeyError, TypeError) as error:
                yield Violation("topics_to_move", file.path, f"Kafka cannot read it: {error!r}")
                continue
            if topics != planned:
                yield Violation(
                    "topics_to_move", file.path, f"names {plural(len(topics), 'topic')}, the plan {len(planned)}"
                )


def _led_by_another(instance: Instance, key: Key, replicas: tuple[int, ...]) -> bool:
    before = instance.partitions.get(key)
    return before is not None and before.leader in replicas[1:]
