"""The gate of emit: audits every plan from its documents, before a file is written."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from operator import attrgetter

import pandas as pd

from optimizer.audit import (
    REPORT_BUG,
    AuditBroker,
    AuditClaims,
    AuditFile,
    AuditPartition,
    audit_files,
    audit_plan,
    brokers_from_rows,
    partitions_from_rows,
)
from optimizer.domain import NOT_LIVE, WHOLE_PLAN
from optimizer.emit.rows import FigureRow
from optimizer.errors import AuditFailed, KafkaError
from optimizer.kafka.execute import check_execute
from optimizer.planning.unexplained import audit_limits
from optimizer.settings import Settings
from optimizer.stages.emit.gather import tables_of
from optimizer.stages.shared.gathered import gather_rows
from optimizer.stages.stage import Frames, Refusals, Run

_CLAIMED = [field.name for field in fields(AuditClaims)]


def _claims(rows: Iterable[FigureRow]) -> AuditClaims:
    """Figures of the summary that the audit checks. They are integers, stored as doubles that hold them exactly."""
    after = {row.figure: row.after for row in rows}
    return AuditClaims(**{name: None if (value := after.get(name)) is None else round(value) for name in _CLAIMED})


def _texts(files: Iterable[AuditFile], kind: str, has_wave: Callable[[int], bool]) -> list[str]:
    selected = [file for file in files if file.kind == kind and has_wave(file.wave)]
    return [file.content for file in sorted(selected, key=attrgetter("wave"))]


def _refusals(
    brokers: Iterable[AuditBroker], partitions: Iterable[AuditPartition], texts: Iterable[str], subject: str
) -> Iterator[str]:
    """Messages about the documents of the plan or the rollback that Kafka's tool would refuse."""
    live = {broker.broker_id for broker in brokers if broker.state not in NOT_LIVE}
    known: dict[str, set[int]] = {}
    for partition in partitions:
        known.setdefault(partition.topic, set()).add(partition.partition)
    for text in texts:
        try:
            check_execute(text, live_broker_ids=live, partitions_per_topic=known)
        except KafkaError as error:
            yield f"Kafka would refuse the {subject}: {error}; nothing was written; {REPORT_BUG}"


def audit_cluster(group: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    """Reasons why the documents of one cluster may not be published: cluster_id, message."""
    tables = tables_of(group)
    cluster_id = str(group["cluster_id"].iloc[0])
    brokers, partitions = brokers_from_rows(tables["instance_brokers"]), partitions_from_rows(tables["instance"])
    files = [AuditFile(row["path"], row["kind"], row["wave"], row["content"]) for row in tables["documents"]]
    waves = _texts(files, "reassignment", lambda wave: wave != WHOLE_PLAN)
    whole = _texts(files, "reassignment", lambda wave: wave == WHOLE_PLAN)
    rollback = _texts(files, "rollback", lambda wave: wave == WHOLE_PLAN)
    dir_moves = _texts(files, "dir_moves", lambda _: True)
    back = [text for kind in ("rollback", "rollback_dir_moves") for text in _texts(files, kind, lambda _: True)]
    refusals = [
        *_refusals(brokers, partitions, [*whole, *waves, *dir_moves], "plan"),
        *_refusals(brokers, partitions, back, "rollback"),
    ]
    messages = list(dict.fromkeys(refusals))
    limits = replace(audit_limits(settings, cluster_id), max_unexplained=settings.policy.max_unexplained)
    verdict = audit_plan(
        brokers=brokers,
        partitions=partitions,
        waves=waves,
        whole=whole[0] if whole else None,
        rollback=rollback or None,
        limits=limits,
        claims=_claims(FigureRow.of(tables["plan_summary"])),
        dir_moves=dir_moves,
    )
    of_files = audit_files(brokers=brokers, partitions=partitions, limits=limits, files=files)
    try:
        replace(verdict, violations=(*verdict.violations, *of_files)).raise_if_failed()
    except AuditFailed as error:
        messages.append(str(error))
    rows = [(cluster_id, message) for message in messages]
    return pd.DataFrame(rows, columns=["cluster_id", "message"])


def gate(frames: Frames, run: Run) -> Refusals:
    """Clusters whose documents fail the audit, or that Kafka's tool would refuse."""
    audited = {name: frames[name] for name in ("instance", "instance_brokers", "plan_summary")}
    not_audited = "'runbook', 'report', 'summary', 'manifest', 'sums'"
    audited["documents"] = frames["documents"].filter(f"kind NOT IN ({not_audited})")
    settings = run.settings

    def of_cluster(group: pd.DataFrame) -> pd.DataFrame:
        return audit_cluster(group, settings=settings)

    failed = gather_rows(audited).groupBy("cluster_id").applyInPandas(of_cluster, "cluster_id string, message string")
    messages: dict[str, list[str]] = {}
    for row in failed.orderBy("cluster_id", "message").collect():
        messages.setdefault(row.cluster_id, []).append(f"cluster {row.cluster_id}: {row.message}")
    return {cluster: AuditFailed("\n".join(lines)) for cluster, lines in messages.items()}
