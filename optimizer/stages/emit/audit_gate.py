"""The gate of EMIT: every plan is audited from its documents before a file is written."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace

import pandas as pd

from optimizer.audit import (
    AuditClaims,
    AuditFile,
    audit_files,
    audit_plan,
    brokers_from_rows,
    partitions_from_rows,
)
from optimizer.domain import NOT_LIVE, WHOLE_PLAN
from optimizer.errors import AuditFailed, KafkaError
from optimizer.kafka.execute import check_execute
from optimizer.settings import Settings
from optimizer.stages.emit.gather import Tables, gathered, tables_of
from optimizer.stages.shared.unexplained import audit_limits
from optimizer.stages.stage import Frames, Refusals, Run

_CLAIMED = [field.name for field in fields(AuditClaims)]


def _claims(tables: Tables) -> AuditClaims:
    """What the summary says about the plan; a figure is an integer, stored as a double that holds it exactly."""
    after = {row["figure"]: row["after"] for row in tables["plan_summary"]}
    return AuditClaims(**{name: None if after.get(name) is None else round(after[name]) for name in _CLAIMED})


def _texts(tables: Tables, kind: str, wave: Callable[[int], bool]) -> list[str]:
    rows = [row for row in tables["documents"] if row["kind"] == kind and wave(row["wave"])]
    return [row["content"] for row in sorted(rows, key=lambda row: row["wave"])]


def _refusals(tables: Tables, texts: Iterable[str], subject: str) -> Iterator[str]:
    """What Kafka's tool would answer to each document of the plan or the rollback."""
    live = {row["broker_id"] for row in tables["instance_brokers"] if row["state"] not in NOT_LIVE}
    partitions: dict[str, set[int]] = {}
    for row in tables["instance"]:
        partitions.setdefault(row["topic"], set()).add(row["partition"])
    for text in texts:
        try:
            check_execute(text, live_broker_ids=live, partitions_per_topic=partitions)
        except KafkaError as error:
            yield f"Kafka would refuse the {subject}: {error}; nothing was written"


def audit_cluster(group: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    """Reasons why the documents of one cluster may not be handed over: cluster_id, message."""
    tables = tables_of(group)
    cluster_id = str(group["cluster_id"].iloc[0])
    waves = _texts(tables, "reassignment", lambda wave: wave != WHOLE_PLAN)
    whole = _texts(tables, "reassignment", lambda wave: wave == WHOLE_PLAN)
    rollback = _texts(tables, "rollback", lambda wave: wave == WHOLE_PLAN)
    back = _texts(tables, "rollback", lambda _: True)
    refusals = (*_refusals(tables, [*whole, *waves], "plan"), *_refusals(tables, back, "rollback"))
    messages = list(dict.fromkeys(refusals))
    brokers, partitions = brokers_from_rows(tables["instance_brokers"]), partitions_from_rows(tables["instance"])
    limits = replace(audit_limits(settings, cluster_id), max_unexplained=settings.policy.max_unexplained)
    verdict = audit_plan(
        brokers=brokers,
        partitions=partitions,
        waves=waves,
        whole=whole[0] if whole else None,
        rollback=rollback or None,
        limits=limits,
        claims=_claims(tables),
    )
    files = [AuditFile(row["path"], row["kind"], row["wave"], row["content"]) for row in tables["documents"]]
    more = audit_files(brokers=brokers, partitions=partitions, limits=limits, files=files)
    try:
        replace(verdict, violations=(*verdict.violations, *more)).raise_if_failed()
    except AuditFailed as error:
        messages.append(str(error))
    rows = [(cluster_id, message) for message in messages]
    return pd.DataFrame(rows, columns=["cluster_id", "message"])


def gate(frames: Frames, run: Run) -> Refusals:
    """Audit every cluster from its documents: those that do not pass, or that Kafka's tool would refuse."""
    judged = {name: frames[name] for name in ("instance", "instance_brokers", "plan_summary")}
    judged["documents"] = frames["documents"].filter("kind NOT IN ('runbook', 'report', 'summary', 'manifest')")
    settings = run.settings

    def of_cluster(group: pd.DataFrame) -> pd.DataFrame:
        return audit_cluster(group, settings=settings)

    failed = gathered(judged).groupBy("cluster_id").applyInPandas(of_cluster, "cluster_id string, message string")
    told: dict[str, list[str]] = {}
    for row in failed.orderBy("cluster_id", "message").collect():
        told.setdefault(row.cluster_id, []).append(f"cluster {row.cluster_id}: {row.message}")
    return {cluster: AuditFailed("\n".join(messages)) for cluster, messages in told.items()}
