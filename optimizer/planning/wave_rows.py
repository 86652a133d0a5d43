"""Waves of one cluster and their measures: pandas functions that call ``optimizer.schedule``."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pandas as pd

from optimizer.domain import REASONS, REORDERED, Ints
from optimizer.planning.arrays import bytes_to, replica_matrix
from optimizer.planning.compared_lists import TIMES
from optimizer.planning.directory_rows import directories_in, named, with_directories
from optimizer.planning.late_waves import MOMENTS
from optimizer.schedule.estimate import traffic
from optimizer.schedule.network_room import UNKNOWN, NetworkLoad, network_room
from optimizer.schedule.throttle_rate import common_rate, is_below_floor, rates_in_style
from optimizer.schedule.timed_waves import Cuts, TimedWaves, seconds_of, timed_waves
from optimizer.schedule.wave_bound import least_total_bytes
from optimizer.schedule.wave_changes import WaveChanges, bytes_per_broker, urgency_of, wave_changes_between
from optimizer.schedule.wave_order import disk_limits
from optimizer.schedule.waves import UNPLACED
from optimizer.settings import Schedule, Settings
from optimizer.units import NEVER_SECONDS
from schemas.output import WAVES


def broker_ids(hosts: pd.DataFrame) -> Ints:
    """Ids of the brokers, ascending: the order of every broker array in this module."""
    return np.sort(hosts["broker_id"].to_numpy(dtype=np.int64))


def to_changes(rows: pd.DataFrame, hosts: pd.DataFrame) -> WaveChanges:
    """Arrays from rows of ``compare_lists``, in their order, and of ``instance_brokers``."""
    ids = broker_ids(hosts)
    after = replica_matrix(rows["proposed_replicas"], ids)
    leader = rows["leader"].to_numpy(dtype="float64", na_value=-1.0).astype(np.int64)
    return wave_changes_between(
        replica_matrix(rows["current_replicas"], ids),
        after,
        ids,
        topic=rows["topic"].to_numpy(),
        partition=rows["partition"].to_numpy(dtype=np.int64),
        size_bytes=rows["size_bytes"].to_numpy(dtype=np.int64),
        copy_bytes=bytes_to(rows, hosts, after),
        in_bytes_per_s=rows["in_bytes_per_s"].to_numpy(dtype=np.int64),
        leader=np.where(leader >= 0, np.searchsorted(ids, leader), -1),
        in_sync_followers=rows["in_sync_followers"].to_numpy(dtype=np.int64),
        urgency=np.array([urgency_of(reasons) for reasons in rows["reason_codes"]], dtype=np.int64),
    )


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
    """Assign a wave to each changed partition of one cluster, and a directory to each replica that arrives.

    The wave is null if the disks have no room for it in any order.

    Parameters
    ----------
    changed : DataFrame
        Rows of ``compare_lists`` without waves, with ``log_dirs``.
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``disk_used_bytes`` and the bytes per second that brokers receive and send.
    """
    rows = changed.sort_values(["topic", "partition"], kind="stable")
    if rows.empty:
        return rows
    changes = to_changes(rows, hosts)
    limit = _disk_limits(hosts, settings.policy.disk_headroom)
    cuts = Cuts(changes, disk_used(hosts), limit, settings.schedule, settings.emit.throttle_style)
    room = network_room(changes, _network_load(hosts))
    make_waves = partial(timed_waves, room=room, captured_at=captured_at(hosts))
    timed, planned_log_dirs = make_waves(cuts), None
    if directories := directories_in(rows, changes, hosts, settings.policy.disk_headroom):
        timed, chosen = with_directories(directories, cuts, timed, make_waves)
        after = replica_matrix(rows["proposed_replicas"], broker_ids(hosts), width=chosen.shape[1])
        planned_log_dirs = pd.Series(named(directories, after, chosen), index=rows.index, dtype=object)
    placed = pd.Series(timed.wave_of, index=rows.index, dtype="Int32").mask(timed.wave_of == UNPLACED)
    by_wave = pd.DataFrame([_times(timed, wave) for wave in timed.rates], index=[*timed.rates], columns=TIMES)
    times = by_wave.astype("Int64").reindex(timed.wave_of).set_axis(rows.index)
    return rows.assign(wave=placed, planned_log_dirs=planned_log_dirs, **times)


def captured_at(hosts: pd.DataFrame) -> datetime | None:
    """The oldest capture of the snapshot; None if no source has one."""
    seconds = hosts["captured_at"].iloc[0]
    return None if pd.isna(seconds) else datetime.fromtimestamp(int(seconds), UTC)


def _times(timed: TimedWaves, wave: int) -> tuple[int | None, ...]:
    """The values of ``TIMES`` for a wave."""
    slot = timed.slots.get(wave)
    if slot is None:
        return timed.rates[wave], timed.requested[wave], None, None, None, None
    end = int(slot.end.timestamp()) if slot.end else None
    times = (int(slot.start.timestamp()), end, int(slot.night.end.timestamp()))
    return timed.rates[wave], timed.requested[wave], *times, slot.night.window


def _wave_row(part: WaveChanges, ids: Ints, copy_bytes_per_s: int, settings: Settings) -> dict[str, object]:
    load, style = traffic(part, len(ids)), settings.emit.throttle_style
    busiest = int(load.busiest.argmax())
    time = seconds_of(part, len(ids), copy_bytes_per_s, style=style, batch_kb=settings.schedule.batch_kb)
    return {
        "partitions": len(part),
        "replicas_moved": int(part.copies.sum()),
        "moved_bytes": int(part.endpoint_bytes.sum()),
        "busiest_broker": int(ids[busiest]) if load.busiest[busiest] else None,
        "busiest_bytes": int(load.busiest[busiest]),
        "throttle_bytes_per_s": common_rate(load, copy_bytes_per_s=copy_bytes_per_s),
        "estimated_seconds": _whole_seconds(time.expected_seconds),
        "below_floor": is_below_floor(load, rates_in_style(load, copy_bytes_per_s, style)),
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


def wave_times(placed: pd.DataFrame) -> pd.DataFrame:
    """``TIMES`` of each wave, by its number, from rows of ``compare_lists`` with waves."""
    return placed.groupby(placed["wave"].astype("int64"))[list(TIMES)].first().astype("Int64")


def _calendar(times: pd.DataFrame, schedule: Schedule) -> dict[str, pd.Series]:
    """The columns of ``waves`` about windows, from ``wave_times``; null without windows."""
    zones = {number: window.time_zone for number, window in enumerate(schedule.windows)}
    moments = {name: pd.to_datetime(times[name], unit="s") for name in MOMENTS}
    return {**moments, "time_zone": times["window"].map(zones).astype(object)}


def wave_parts(changes: WaveChanges, wave_of: Ints, used: Ints) -> Iterator[tuple[int, WaveChanges, Ints]]:
    """Each wave's number, its changes, and the bytes on each broker while its old and new replicas exist, (B,)."""
    for wave in range(1, int(wave_of.max()) + 1):
        part = changes.select(wave_of == wave)
        peak = used + bytes_per_broker(part.added, part.size_bytes, len(used))
        used = peak - bytes_per_broker(part.removed, part.size_bytes, len(used))
        yield wave, part, peak


def wave_rows(scheduled: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> pd.DataFrame:
    """Rows of ``waves`` of one cluster, from rows of ``compare_lists`` with waves."""
    placed = scheduled[scheduled["wave"].notna()]
    if placed.empty:
        return pd.DataFrame(columns=WAVES.names)
    ids = broker_ids(hosts)
    changes = to_changes(placed, hosts)
    wave_of = placed["wave"].to_numpy(dtype=np.int64)
    times = wave_times(placed)
    rows = [
        {
            "wave": wave,
            "peak_disk_bytes": int(peak.max()),
            **_wave_row(part, ids, int(times["copy_bytes_per_s"][wave]), settings),
        }
        for wave, part, peak in wave_parts(changes, wave_of, disk_used(hosts))
    ]
    frame = pd.DataFrame(rows).astype({"busiest_broker": "Int32"})
    times = times.loc[frame["wave"]].reset_index(drop=True)
    frame["requested_bytes_per_s"] = times["requested_bytes_per_s"]
    room = network_room(changes, _network_load(hosts))
    if room and not room.is_known and (frame["copy_bytes_per_s"] == frame["requested_bytes_per_s"]).all():
        room = None  # an end with an unknown capacity may have less
    frame["network_broker"] = pd.Series(int(ids[room.broker]) if room else None, index=frame.index, dtype="Int32")
    frame["network_left_bytes_per_s"] = pd.Series(room and room.left_bytes_per_s, index=frame.index, dtype="Int64")
    frame = frame.assign(**_calendar(times, settings.schedule))
    frame["inside_brokers"] = False
    frame["least_total_bytes"] = _least_total_bytes(changes, wave_of, len(ids))
    frame["cluster_id"], frame["run_id"] = hosts["cluster_id"].iloc[0], hosts["run_id"].iloc[0]
    return frame[WAVES.names]
