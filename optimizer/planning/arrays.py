"""Rows of ``instance`` and ``instance_brokers`` as the arrays of ``optimizer.domain``, and back."""

from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

import numpy as np
import pandas as pd

from optimizer.domain import (
    MOBILITY,
    As,
    Bools,
    Brokers,
    Cluster,
    Column,
    Ints,
    LogDir,
    Partitions,
    PinMask,
    only_in,
)

# The fields of ``Partitions``: how each is made from the column of ``instance`` of its name.
COLUMNS: dict[str, Column] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Partitions, include_extras=True).items()
}
# Columns of ``instance`` that a plan of one cluster needs.
PARTITION_COLUMNS = tuple(COLUMNS)


def _ints(column: pd.Series) -> Ints:
    return np.asarray(column, dtype=np.int64)


def _capacity(column: pd.Series) -> Ints:
    return _ints(column.astype("Int64").fillna(-1))


def _pins(rows: pd.DataFrame) -> tuple[PinMask, ...]:
    named = [set(patterns) for patterns in rows["pinned_topics"]]
    masks = {pattern: np.array([pattern in names for names in named]) for pattern in set().union(*named)}
    return tuple(PinMask(pattern, masks[pattern]) for pattern in sorted(masks))


def to_brokers(frame: pd.DataFrame) -> Brokers:
    """Brokers of one cluster from rows of ``instance_brokers``; racks matter if every living broker has one.

    If others have a rack, brokers without one are dead: each is alone in a rack without a name.
    """
    rows = frame.sort_values("broker_id", kind="stable")
    ids = _ints(rows["broker_id"])
    racks_matter = bool(rows.loc[rows["accepts_replicas"], "rack"].notna().all() and rows["rack"].notna().any())
    labels = rows["rack"] if racks_matter else rows["broker_id"].map("{:010d}".format)
    unnamed = labels.isna().to_numpy()
    named = sorted(set(labels[~unnamed].astype(str)))
    rack = np.array([named.index(label) if isinstance(label, str) else 0 for label in labels], dtype=np.int64)
    rack = np.where(unnamed, np.cumsum(unnamed) - 1, rack + unnamed.sum())
    return Brokers(
        ids=ids,
        rack=rack,
        rack_names=("",) * int(unnamed.sum()) + tuple(named),
        accepts_replicas=rows["accepts_replicas"].to_numpy(dtype=bool),
        accepts_leadership=rows["accepts_leadership"].to_numpy(dtype=bool),
        must_empty=rows["must_empty"].to_numpy(dtype=bool),
        disk_capacity_bytes=_capacity(rows["disk_capacity_bytes"]),
        in_capacity_bytes_per_s=_capacity(rows["in_capacity_bytes_per_s"]),
        out_capacity_bytes_per_s=_capacity(rows["out_capacity_bytes_per_s"]),
        state=tuple(rows["state"]),
        racks_matter=racks_matter,
        skips_tiered=rows["skips_tiered"].eq(True).to_numpy(dtype=bool),
        pins=_pins(rows),
        log_dirs=log_dirs_of(rows),
    )


def log_dirs_of(frame: pd.DataFrame) -> tuple[tuple[LogDir, ...], ...]:
    """Directories of each broker of one cluster, ascending by broker id, from rows of ``instance_brokers``."""
    return tuple(_log_dirs(structs) for structs in frame.sort_values("broker_id", kind="stable")["log_dirs"])


def _log_dirs(structs: Any) -> tuple[LogDir, ...]:
    """Directories of a broker; empty if they are unknown."""
    return tuple(LogDir(**_mapping(struct)) for struct in structs) if isinstance(structs, Iterable) else ()


def _mapping(row: Any) -> dict[str, Any]:
    """The fields of a struct, as Spark or pandas passes it."""
    return dict(row) if isinstance(row, Mapping) else row.asDict()


def _listed(ids: Any) -> Any:
    """A list cell; empty for null."""
    return ids if isinstance(ids, Iterable) else ()


def replica_matrix(lists: pd.Series, ids: Ints, *, width: int = 1) -> Ints:
    """Replica lists of broker ids as broker indices, (P, W), padded with -1 to at least ``width``; ids ascend."""
    lengths = lists.map(len).to_numpy(dtype=np.int64)
    width = int(lengths.max(initial=width))
    matrix = np.full((len(lists), width), -1, dtype=np.int64)
    if len(lists) and lengths.sum():
        flat = np.concatenate([np.asarray(x, dtype=np.int64) for x in lists])
        matrix[np.arange(width) < lengths[:, None]] = np.searchsorted(ids, flat)
    return matrix


def replica_lists(matrix: Ints, ids: Ints) -> list[list[int]]:
    """Lists of broker ids from a matrix of indices."""
    return [[int(ids[b]) for b in row if b >= 0] for row in matrix]


def to_partitions(frame: pd.DataFrame, ids: Ints) -> Partitions:
    """Partitions of one cluster from rows of ``instance``, ascending by topic and partition.

    ``replicas`` is wide enough for the current lists and for the requested replication factors.
    """
    rows = frame.sort_values(["topic", "partition"], kind="stable")
    width = _ints(rows["replication_factor"]).max(initial=1)
    return Partitions(**{name: _array(column, name, rows, ids, width=int(width)) for name, column in COLUMNS.items()})


def _array(column: Column, name: str, rows: pd.DataFrame, ids: Ints, *, width: int) -> Any:
    """The array of one field."""
    values = rows[name]
    if isinstance(column.missing, str):
        other = _array(COLUMNS[column.missing], column.missing, rows, ids, width=width)
        return np.where(values.isna(), other, _ints(values.astype("Int64").fillna(0)))
    if column.how is As.OBJECT:
        return values.to_numpy(dtype=object)
    if column.how is As.REPLICAS:
        return replica_matrix(values.map(_listed), ids, width=width)
    if column.how is As.MOBILITY:
        return _ints(values.map(MOBILITY.index))
    numbers = _ints(values if column.missing is None else values.astype("Int64").fillna(column.missing))
    if column.how is As.BROKER:
        return np.where(np.isin(numbers, ids), np.searchsorted(ids, numbers).clip(0, len(ids) - 1), -1)
    return numbers


def bytes_to(rows: pd.DataFrame, hosts: pd.DataFrame, lists: Ints) -> Ints:
    """Bytes of a copy of each partition to each broker of its list, (P, W); 0 at the padding.

    Parameters
    ----------
    rows, hosts : DataFrame
        Columns of ``instance`` and ``instance_brokers`` of one cluster.
    lists : (P, W) int64
        Broker indices, padded with -1.
    """
    skips_tiered = hosts.sort_values("broker_id")["skips_tiered"].eq(True).to_numpy(dtype=bool)[lists]
    plain, tiered = (
        _array(COLUMNS[name], name, rows, np.zeros(0, dtype=np.int64), width=0)[:, None]
        for name in ("copy_bytes", "tiered_copy_bytes")
    )
    return np.where(lists >= 0, np.where(skips_tiered, tiered, plain), 0)


def split_rows(frame: pd.DataFrame, ids: Ints) -> tuple[pd.DataFrame, Partitions, Ints]:
    """Split rows of ``instance`` with ``current``, of one cluster.

    Returns
    -------
    tuple
        The rows, ascending by topic and partition; their partitions; and their current replicas, (P, W), slot by slot
        against those before the plan.
    """
    rows = frame.sort_values(["topic", "partition"], kind="stable").reset_index(drop=True)
    partitions = to_partitions(rows, ids)
    return rows, partitions, replica_matrix(rows["current"], ids, width=partitions.replicas.shape[1])


def stuck_replicas(frame: pd.DataFrame, current: Ints, ids: Ints) -> Bools:
    """Replicas of ``current`` that were out of sync before the plan, (P, W): ``Partitions.stuck`` of rows that need not
    be sorted. Only rows with fewer replicas in sync than in their list take time."""
    stuck = np.zeros(current.shape, dtype=bool)
    at = np.flatnonzero(frame["isr"].map(len).to_numpy() < frame["replicas"].map(len).to_numpy())
    before, isr = (replica_matrix(frame[name].iloc[at], ids) for name in ("replicas", "isr"))
    stuck[at] = only_in(current[at], isr) & ~only_in(current[at], before)
    return stuck


def stable_number(topic: pd.Series, partition: pd.Series) -> Ints:
    """A number for each partition that depends only on its topic and number."""
    hashed = pd.util.hash_array(topic.to_numpy(dtype=object)) >> np.uint64(33)
    return hashed.astype(np.int64) + partition.to_numpy(dtype=np.int64)


def to_cluster(partitions: pd.DataFrame, brokers: pd.DataFrame, cluster_id: str) -> Cluster:
    """One cluster from its rows of both tables."""
    hosts = to_brokers(brokers)
    return Cluster(cluster_id, hosts, to_partitions(partitions, hosts.ids))


def column_names(schema: str) -> list[str]:
    """The columns of a schema as text, in order.

    >>> column_names("cluster_id string, prices array<double>")
    ['cluster_id', 'prices']
    """
    return [field.split()[0] for field in schema.split(", ")]


def with_nulls(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace every missing value by None: Spark rejects NaN for text and arrays."""
    columns = {
        name: [None if missing else value for value, missing in zip(frame[name], frame[name].isna(), strict=True)]
        for name in frame
    }
    return pd.DataFrame(columns, dtype=object)
