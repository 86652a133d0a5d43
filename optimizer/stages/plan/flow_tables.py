"""The tables ``rack_flow`` and ``broker_waves``: one pandas function for each cluster makes the rows of both."""

from functools import partial

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from optimizer.domain import Ints
from optimizer.planning.arrays import to_brokers
from optimizer.schedule.estimate import traffic
from optimizer.schedule.flows import known_racks, rack_flow, takes_part
from optimizer.schedule.sharing import copies_of, copy_rates, end_seconds
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker
from optimizer.settings import Settings
from optimizer.stages.plan.wave_rows import broker_ids, rates_of, to_changes
from optimizer.units import NEVER_SECONDS
from schemas.keys import CLUSTER_RUN
from schemas.output import BROKER_WAVES, RACK_FLOW
from schemas.spark import schema_of

_TABLE = "table_name"
# Rows of both tables: the columns of one are null in rows of the other.
_FIELDS = {field.name: field.dataType for table in (RACK_FLOW, BROKER_WAVES) for field in schema_of(table)}
BOTH = T.StructType(
    [T.StructField(_TABLE, T.StringType()), *(T.StructField(name, kind) for name, kind in _FIELDS.items())]
)
_BROKER_COLUMNS = ("wave", "broker_id", "out_bytes", "in_bytes", "busy_seconds", "peak_disk_bytes")


def flow_tables(scheduled: DataFrame, hosts: DataFrame, settings: Settings) -> dict[str, DataFrame]:
    """The frames of both tables by name; they are computed once.

    Parameters
    ----------
    scheduled : DataFrame
        Rows of ``SCHEDULED`` with waves.
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``disk_used_bytes``.
    """
    by_cluster = scheduled.groupBy("cluster_id").cogroup(hosts.groupBy("cluster_id"))
    both = by_cluster.applyInPandas(partial(flow_rows, settings=settings), BOTH).persist()
    return {
        table.name: both.filter(F.col(_TABLE) == table.name).select(*table.names) for table in (RACK_FLOW, BROKER_WAVES)
    }


def flow_rows(scheduled: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    """Rows of ``BOTH`` of one cluster; parameters as for ``flow_tables``."""
    placed = scheduled[scheduled["wave"].notna()]
    if placed.empty:
        return pd.DataFrame(columns=BOTH.fieldNames())
    changes = to_changes(placed, broker_ids(hosts))
    wave_of = placed["wave"].to_numpy(dtype=np.int64)
    frames = {
        "rack_flow": _between_racks(changes, wave_of, hosts),
        "broker_waves": _of_brokers(changes, wave_of, hosts, settings),
    }
    tagged = [frame.assign(**{_TABLE: name}) for name, frame in frames.items() if len(frame)]
    if not tagged:
        return pd.DataFrame(columns=BOTH.fieldNames())
    both = pd.concat(tagged).reindex(columns=BOTH.fieldNames())
    return both.assign(**{name: hosts[name].iloc[0] for name in CLUSTER_RUN})


def _between_racks(changes: WaveChanges, wave_of: Ints, hosts: pd.DataFrame) -> pd.DataFrame:
    brokers = to_brokers(hosts)
    flow = rack_flow(changes, wave_of, known_racks(brokers))
    names = np.array(brokers.rack_names, dtype=object)
    frame = {
        "wave": flow.wave,
        "from_rack": names[flow.from_rack],
        "to_rack": names[flow.to_rack],
        "copies": flow.copies,
        "copied_bytes": flow.copied_bytes,
    }
    return pd.DataFrame(frame).astype(_nullable(frame))


def _of_brokers(changes: WaveChanges, wave_of: Ints, hosts: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """The rows of each wave's brokers; a disk also counts what the waves before added and removed."""
    ordered = hosts.sort_values("broker_id")
    ids, used = broker_ids(hosts), ordered["disk_used_bytes"].to_numpy(dtype=np.int64)
    parts = []
    for wave in range(1, int(wave_of.max()) + 1):
        part = changes.select(wave_of == wave)
        peak = used + bytes_per_broker(part.added, part.size_bytes, len(ids))
        used = peak - bytes_per_broker(part.removed, part.size_bytes, len(ids))
        load = traffic(part, len(ids))
        rates = rates_of(load, settings)
        free = copy_rates(load, leader_rate=rates.leader, follower_rate=rates.follower)
        time = np.maximum(*end_seconds(copies_of(part), free))
        seconds = np.ceil(np.minimum(time, NEVER_SECONDS)).astype(np.int64)
        columns = (np.full(len(ids), wave), ids, load.out_bytes, load.in_bytes, seconds, peak)
        parts.append(np.stack(columns, axis=1)[takes_part(part, len(ids))])
    return pd.DataFrame(np.concatenate(parts), columns=list(_BROKER_COLUMNS), dtype="Int64")


def _nullable(columns: dict[str, np.ndarray]) -> dict[str, str]:
    """Numbers as nullable integers: the rows of the other table have none of them."""
    return {name: "Int64" for name, values in columns.items() if values.dtype.kind == "i"}
