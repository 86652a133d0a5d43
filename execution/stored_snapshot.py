"""The state of a cluster in the snapshot of a finished run, read from its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from execution.observed import Observed, Stored, Throttle, TopicPartition, is_throttle
from execution.planned import Plan, in_words
from optimizer.errors import ConfigError, StageError
from optimizer.kafka.reassignment_json import ANY_DIR
from stored.runs import StoredRun
from stored.tables import Warehouse

_LISTS = ("topic", "partition", "replicas")


@dataclass(frozen=True)
class Snapshot:
    """What a plan is compared with: the cluster now, or a later snapshot.

    Parameters
    ----------
    name : str
        In messages.
    state : Observed
    has_throttles : bool
        Whether ``state`` has the cluster's throttles.
    captured_at : datetime or None
        None: now, or the inputs have no time.
    directories : Stored or None
        What the directories of brokers have; None: unknown.
    is_live : bool
        Whether this is the cluster now; else nobody can ask again for what the snapshot does not have.
    """

    name: str
    state: Observed
    has_throttles: bool = True
    captured_at: datetime | None = None
    directories: Stored | None = None
    is_live: bool = True


def planned_from(warehouse: Warehouse, plan: Plan) -> dict[TopicPartition, tuple[int, ...]]:
    """The replica list of every partition in the snapshot of a plan; of a partition in flight the target.

    Empty if the rows were deleted from the tables.
    """
    rows = StoredRun(warehouse, plan.run_id, plan.cluster_id).rows("instance", *_LISTS)
    return {_key(row): tuple(row["replicas"]) for row in rows}


def later_snapshot(warehouse: Warehouse, plan: Plan, run_id: str) -> Snapshot:
    """The snapshot of a later run of the plan's cluster.

    Raises
    ------
    ConfigError
        When the snapshot of the run is not newer than that of the plan.
    Refused
        When the run did not accept its snapshot: it ended without a plan.
    StageError
        When there is no such run or cluster in it, or the rows of its snapshot were deleted.
    """
    stored = StoredRun(warehouse, run_id, plan.cluster_id).planned()
    before, after = StoredRun(warehouse, plan.run_id, plan.cluster_id).captured_at[-1:], stored.captured_at[-1:]
    if run_id == plan.run_id or (before and after and after <= before):
        raise ConfigError(f"--later-run-id {run_id}: give a run whose snapshot is newer than that of run {plan.run_id}")
    rows = stored.rows("instance", *_LISTS, "controller_replicas", "leader", "isr", "log_dirs", "size_bytes")
    if not rows:
        raise StageError(f"the snapshot of run {run_id!r} was deleted from table instance: name another run")
    throttles, directories = _throttles(stored), _directories(rows)
    return Snapshot(
        name=", ".join([f"the snapshot of run {run_id}", *map(in_words, after)]),
        state=replace(_state(rows, stored.rows("brokers"), stored.rows("topics"), throttles), stored=directories),
        has_throttles=bool(throttles) or _has_configs(stored),
        captured_at=after[0] if after else None,
        directories=directories,
        is_live=False,
    )


def _state(
    partitions: Sequence[Mapping[str, Any]],
    brokers: Sequence[Mapping[str, Any]],
    topics: Sequence[Mapping[str, Any]],
    throttles: Mapping[Throttle, str],
) -> Observed:
    return Observed(
        alive=frozenset(row["broker_id"] for row in brokers if row["state"] == "alive"),
        silent=frozenset(),
        topic_ids={**{row["topic"]: None for row in partitions}, **{row["topic"]: row["topic_id"] for row in topics}},
        replicas={_key(row): tuple(row["controller_replicas"] or row["replicas"]) for row in partitions},
        in_sync={_key(row): frozenset(row["isr"]) for row in partitions},
        leaders={_key(row): row["leader"] for row in partitions},
        in_flight={_key(row): tuple(row["replicas"]) for row in partitions if row["controller_replicas"] is not None},
        throttles=throttles,
        min_isr={},
    )


def _directories(partitions: Sequence[Mapping[str, Any]]) -> Stored | None:
    """The directory of each replica, with the size of its partition; None if the inputs have none.

    Moves inside brokers that run are not in the tables.
    """
    replicas = {
        (*_key(row), broker): (path, row["size_bytes"])
        for row in partitions
        for broker, path in zip(row["replicas"], row["log_dirs"], strict=True)
        if path != ANY_DIR
    }
    if not replicas:
        return None
    sizes = {replica: size_bytes for replica, (_, size_bytes) in replicas.items()}
    return Stored(sizes, {}, log_dirs={replica: path for replica, (path, _) in replicas.items()})


def _throttles(stored: StoredRun) -> dict[Throttle, str]:
    """Throttles that are set in Kafka, not in a broker's file, as a live cluster shows them."""
    return {
        (row["entity_type"], row["entity_name"], row["config_name"]): row["config_value"]
        for row in stored.rows("throttles_found")
        if is_throttle(row["config_name"]) and not row["is_static"]
    }


def _has_configs(stored: StoredRun) -> bool:
    """Whether the inputs of a run have configs of topics or brokers: without them nobody knows the throttles."""
    is_live = any(row["source"].startswith("kafka://") for row in stored.rows("sources", "source"))
    return is_live or len(stored.table("bronze_records", "kind", kind="config")) > 0


def _key(row: Mapping[str, Any]) -> TopicPartition:
    return row["topic"], row["partition"]
