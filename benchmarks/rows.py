"""Table rows for tests and benchmarks: missing values are null, or the empty value of the column's type.

A new nullable column needs no change here or in the callers.
"""

from collections.abc import Sequence
from typing import Any

import schemas
from optimizer.domain import MOBILITY, As, Cause, Cluster, Column, Ints
from optimizer.planning.arrays import COLUMNS, replica_lists
from optimizer.solve.rules.pins import group_by_pins

# Values of missing columns that may not be null.
_EMPTY: dict[str, Any] = {"string": "", "int": 0, "bigint": 0, "double": 0.0, "boolean": False}


def row(table: str, **values: Any) -> dict[str, Any]:
    """A row of a table, with its columns in order.

    Raises
    ------
    ValueError
        If the table has no such column.
    """
    contract = schemas.ALL[table]
    unknown = sorted(values.keys() - set(contract.names))
    if unknown:
        raise ValueError(f"table {table} has no columns {unknown}")
    return {column.name: values.get(column.name, _default(column)) for column in contract.columns}


def _default(column: schemas.Column) -> Any:
    if column.nullable:
        return None
    return [] if column.type.startswith("array<") else _EMPTY[column.type]


def partition_row(replicas: Sequence[int], **values: Any) -> dict[str, Any]:
    """A row of ``instance``: a partition that may move, led by its first replica, all in sync; nothing is requested.

    One that may not move is of an excluded topic.
    """
    defaults = {
        "log_dirs": ["any"] * len(replicas),
        "leader": replicas[0],
        "isr": sorted(replicas),
        "replication_factor": len(replicas),
        "mobility": "free",
        "fixed_cause": None if values.get("mobility", "free") == "free" else Cause.TOPIC_EXCLUDED.value,
    }
    return row("instance", replicas=list(replicas), **defaults | values)


def broker_row(broker_id: int, **values: Any) -> dict[str, Any]:
    """A row of ``instance_brokers``: a living broker that accepts replicas, unless ``state`` says otherwise."""
    state = values.get("state", "alive")
    accepts = state in ("alive", "new")
    defaults = {
        "state": state,
        "accepts_replicas": accepts,
        "accepts_leadership": accepts,
        "must_empty": state in ("draining", "dead"),
    }
    return row("instance_brokers", broker_id=broker_id, **defaults | values)


def partition_rows(cluster: Cluster) -> list[dict[str, Any]]:
    """Rows of ``instance`` for the partitions of a cluster, in their order, with their pins.

    This is the inverse of ``optimizer.planning.arrays.to_partitions``.
    """
    partitions, ids = cluster.partitions, cluster.brokers.ids
    groups = group_by_pins(cluster.brokers, partitions.topic)
    columns = {name: _values(column, getattr(partitions, name), ids) for name, column in COLUMNS.items()}
    columns["pinned_brokers"] = [ids[groups.allowed[group]].tolist() if group else None for group in groups.of]
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [partition_row(values.pop("replicas"), cluster_id=cluster.cluster_id, **values) for values in rows]


def _values(column: Column, array: Any, ids: Ints) -> list[Any]:
    """A column of ``instance`` from the array of a field."""
    if column.how is As.REPLICAS:
        return replica_lists(array, ids)
    values = array.tolist()
    if column.how is As.MOBILITY:
        return [MOBILITY[value] for value in values]
    if column.missing is not None:
        values = [None if value == column.missing else value for value in values]
    if column.how is As.BROKER:
        return [None if value is None else int(ids[value]) for value in values]
    return list(values)
