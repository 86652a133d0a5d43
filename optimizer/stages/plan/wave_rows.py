"""Waves of one cluster and their measures: pandas functions that call ``optimizer.schedule``."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from pyspark.sql import types as T

from optimizer.domain import REASONS, REORDERED, Ints
from optimizer.planning.arrays import replica_matrix
from optimizer.planning.exposed import COLUMNS as EXPOSED
from optimizer.schedule.balanced_waves import balanced_waves
from optimizer.schedule.estimate import Traffic, traffic
from optimizer.schedule.network_room import UNKNOWN, NetworkLoad, network_room, rate_with_room
from optimizer.schedule.sharing import copies_of, copy_rates
from optimizer.schedule.simulate import wave_time
from optimizer.schedule.throttle_rate import (
    BYTES_PER_KB,
    BYTES_PER_MB,
    Rates,
    common_rate,
    copy_rate_bytes_per_s,
    is_below_floor,
    rates_per_broker,
)
from optimizer.schedule.wave_bound import least_total_bytes
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker, urgency_of, wave_changes_between
from optimizer.schedule.wave_order import disk_limits
from optimizer.schedule.waves import UNPLACED
from optimizer.settings import Schedule, Settings
from optimizer.units import NEVER_SECONDS
from schemas.output import PLAN, WAVES
from schemas.planning import INSTANCE
from schemas.spark import schema_of

# Changed rows of ``plan``, with columns that the throttle rates need, and those that ``exposure`` needs.
SCHEDULED = T.StructType(
    [
        *schema_of(PLAN).fields,
        T.StructField("in_sync_followers", T.IntegerType()),
        T.StructField("copy_bytes_per_s", T.LongType()),
        *(field for field in schema_of(INSTANCE) if field.name in EXPOSED and field.name not in PLAN.names),
    ]
)


def broker_ids(hosts: pd.DataFrame) -> Ints:
    """Ids of the brokers, ascending: the order of every broker array in this module."""
    return np.sort(hosts["broker_id"].to_numpy(dtype=np.int64))


def to_changes(rows: pd.DataFrame, ids: Ints) -> WaveChanges:
    """Arrays from rows of ``SCHEDULED``, in their order."""
    leader = rows["leader"].to_numpy(dtype="float64", na_value=-1.0).astype(np.int64)
    return wave_changes_between(
        replica_matrix(rows["current_replicas"], ids),
        replica_matrix(rows["proposed_replicas"], ids),
        ids,
        topic=rows["topic"].to_numpy(),
        partition=rows["partition"].to_numpy(dtype=np.int64),
        size_bytes=rows["size_bytes"].to_numpy(dtype=np.int64),
        in_bytes_per_s=rows["in_bytes_per_s"].to_numpy(dtype=np.int64),
        leader=np.where(leader >= 0, np.searchsorted(ids, leader), -1),
        in_sync_followers=rows["in_sync_followers"].to_numpy(dtype=np.int64),
        urgency=np.array([urgency_of(reasons) for reasons in rows["reason_codes"]], dtype=np.int64),
    )


def rates_of(load: Traffic, copy_bytes_per_s: int, style: str) -> Rates:
    """Rates in the style that the runbook uses: one for each broker, or Kafka's common rate."""
    if style == "careful":
        return rates_per_broker(load, copy_bytes_per_s=copy_bytes_per_s)
    common = np.full(len(load.out_bytes), common_rate(load, copy_bytes_per_s=copy_bytes_per_s), dtype=np.int64)
    return Rates(leader=common, follower=common)


def _network_load(hosts: pd.DataFrame) -> NetworkLoad:
    by_id = hosts.sort_values("broker_id")
    capacity = [by_id[f"{way}_capacity_bytes_per_s"].astype("Int64").fillna(UNKNOWN) for way in ("in", "out")]
    used = [by_id[f"{way}_used_bytes_per_s"] for way in ("in", "out")]
    return NetworkLoad(*(np.stack([np.asarray(x, dtype=np.int64) for x in both], axis=1) for both in (capacity, used)))


def _disk_limits(hosts: pd.DataFrame, headroom: float) -> Ints:
    """Most bytes on each broker at any time, (B,), ascending by id."""
    capacity = hosts.sort_values("broker_id")["disk_capacity_bytes"].astype("Int64").fillna(-1)
    return disk_limits(np.asarray(capacity, dtype=np.int64), headroom)


def disk_used(hosts: pd.DataFrame) -> Ints:
    """Bytes on each broker before the plan, (B,), ascending by id."""
    return hosts.sort_values("broker_id")["disk_used_bytes"].to_numpy(dtype=np.int64)


def schedule_cluster(changed: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    """Assign a wave to each changed partition of one cluster; null if the disks have no room for it in any order.

    Parameters
    ----------
    changed : DataFrame
        Rows of ``SCHEDULED`` without waves.
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``disk_used_bytes`` and the bytes per second that brokers receive and send.
    """
    rows = changed.sort_values(["topic", "partition"], kind="stable")
    if rows.empty:
        return rows
    changes = to_changes(rows, broker_ids(hosts))
    requested = copy_rate_bytes_per_s(settings.schedule)
    rate = rate_with_room(requested, network_room(changes, _network_load(hosts)))
    waves = _waves(changes, hosts, settings, rate)
    if rate < requested and (waves == UNPLACED).any():  # solve has tried the requested rate: it places every change
        waves = _waves(changes, hosts, settings, requested)
    placed = pd.Series(waves, index=rows.index, dtype="Int32").mask(waves == UNPLACED)
    return rows.assign(wave=placed, copy_bytes_per_s=rate)


def _waves(changes: WaveChanges, hosts: pd.DataFrame, settings: Settings, copy_bytes_per_s: int) -> Ints:
    schedule = settings.schedule
    return balanced_waves(
        changes,
        disk_used=disk_used(hosts),
        disk_limit=_disk_limits(hosts, settings.policy.disk_headroom),
        schedule=Schedule(
            waves=schedule.waves,
            window_hours=schedule.window_hours,
            throttle_mb_per_s=copy_bytes_per_s / BYTES_PER_MB,
            max_moves_per_wave=schedule.max_moves_per_wave,
        ),
    )


def _wave_row(part: WaveChanges, ids: Ints, copy_bytes_per_s: int, settings: Settings) -> dict[str, object]:
    load = traffic(part, len(ids))
    rates = rates_of(load, copy_bytes_per_s, settings.emit.throttle_style)
    busiest = int(load.busiest.argmax())
    free = copy_rates(load, leader_rate=rates.leader, follower_rate=rates.follower)
    time = wave_time(copies_of(part), free, batch_bytes=round(settings.schedule.batch_kb * BYTES_PER_KB))
    return {
        "partitions": len(part),
        "replicas_moved": int(part.copies.sum()),
        "moved_bytes": int(part.endpoint_bytes.sum()),
        "busiest_broker": int(ids[busiest]) if load.busiest[busiest] else None,
        "busiest_bytes": int(load.busiest[busiest]),
        "throttle_bytes_per_s": common_rate(load, copy_bytes_per_s=copy_bytes_per_s),
        "estimated_seconds": _whole_seconds(time.expected_seconds),
        "below_floor": is_below_floor(load, rates),
        "least_seconds": _whole_seconds(time.least_seconds),
        "most_seconds": _whole_seconds(time.most_seconds),
        "copy_bytes_per_s": copy_bytes_per_s,
    }


def _whole_seconds(seconds: float) -> int:
    return int(np.ceil(min(seconds, NEVER_SECONDS)))


def _least_total_bytes(changes: WaveChanges, wave_of: Ints, n_brokers: int) -> int:
    """The bound for the waves that have a change other than a reorder."""
    copying = changes.urgency != REASONS.index(REORDERED)
    return least_total_bytes(changes.select(copying), n_brokers, len(np.unique(wave_of[copying])))


def wave_rates(placed: pd.DataFrame) -> dict[int, int]:
    """The rate of copies of each wave, from rows of ``SCHEDULED`` with waves."""
    least = placed.groupby("wave", as_index=False)["copy_bytes_per_s"].min()
    return dict(zip(least["wave"].astype(int).tolist(), least["copy_bytes_per_s"].tolist(), strict=True))


def wave_parts(changes: WaveChanges, wave_of: Ints, used: Ints) -> Iterator[tuple[int, WaveChanges, Ints]]:
    """Each wave's number, its changes, and the bytes on each broker while its old and new replicas exist, (B,)."""
    for wave in range(1, int(wave_of.max()) + 1):
        part = changes.select(wave_of == wave)
        peak = used + bytes_per_broker(part.added, part.size_bytes, len(used))
        used = peak - bytes_per_broker(part.removed, part.size_bytes, len(used))
        yield wave, part, peak


def wave_rows(scheduled: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    """Rows of ``waves`` of one cluster, from rows of ``SCHEDULED`` with waves."""
    placed = scheduled[scheduled["wave"].notna()]
    if placed.empty:
        return pd.DataFrame(columns=WAVES.names)
    ids = broker_ids(hosts)
    changes = to_changes(placed, ids)
    wave_of = placed["wave"].to_numpy(dtype=np.int64)
    rates = wave_rates(placed)
    rows = [
        {"wave": wave, "peak_disk_bytes": int(peak.max()), **_wave_row(part, ids, rates[wave], settings)}
        for wave, part, peak in wave_parts(changes, wave_of, disk_used(hosts))
    ]
    frame = pd.DataFrame(rows).astype({"busiest_broker": "Int32"})
    room = network_room(changes, _network_load(hosts))
    frame["network_broker"] = pd.Series(int(ids[room.broker]) if room else None, index=frame.index, dtype="Int32")
    frame["network_left_bytes_per_s"] = pd.Series(room and room.left_bytes_per_s, index=frame.index, dtype="Int64")
    frame["least_total_bytes"] = _least_total_bytes(changes, wave_of, len(ids))
    frame["cluster_id"], frame["run_id"] = hosts["cluster_id"].iloc[0], hosts["run_id"].iloc[0]
    return frame[WAVES.names]
