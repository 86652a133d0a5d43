"""Rows of ``rack_flow``, ``broker_waves`` and ``dir_balance`` of one cluster: which bytes go where in each wave."""

import numpy as np
import pandas as pd

from optimizer.domain import Ints
from optimizer.planning.arrays import to_brokers
from optimizer.planning.directory_rows import directories_in, directory_rows
from optimizer.planning.wave_rows import broker_ids, disk_used, to_changes, wave_parts, wave_times
from optimizer.schedule.estimate import traffic
from optimizer.schedule.flows import known_racks, rack_flow, takes_part
from optimizer.schedule.sharing import copies_of, copy_rates, end_seconds
from optimizer.schedule.throttle_rate import rates_in_style
from optimizer.schedule.wave_changes import WaveChanges
from optimizer.settings import Settings
from optimizer.units import NEVER_SECONDS

_BROKER_COLUMNS = ("wave", "broker_id", "out_bytes", "in_bytes", "busy_seconds", "peak_disk_bytes")


def flow_rows(scheduled: pd.DataFrame, hosts: pd.DataFrame, *, settings: Settings) -> dict[str, pd.DataFrame]:
    """Rows of ``rack_flow``, ``broker_waves`` and ``dir_balance`` of one cluster, without columns that name it.

    Parameters
    ----------
    scheduled : DataFrame
        Changed rows of ``compare_lists`` with waves.
    hosts : DataFrame
        Rows of ``instance_brokers`` with ``disk_used_bytes``.
    """
    placed = scheduled[scheduled["wave"].notna()]
    changes = to_changes(placed, hosts)
    wave_of = placed["wave"].to_numpy(dtype=np.int64)
    directories = directories_in(placed, changes, hosts, settings.policy.disk_headroom)
    dealt = directory_rows(directories, hosts, wave_of, placed["planned_log_dirs"].to_list())
    frames = {} if dealt is None else {"dir_balance": dealt}
    if placed.empty:
        return frames
    return {
        "rack_flow": _between_racks(changes, wave_of, hosts),
        "broker_waves": _of_brokers(changes, placed, hosts, settings),
        **frames,
    }


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


def _of_brokers(changes: WaveChanges, placed: pd.DataFrame, hosts: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """The rows of each wave's brokers; a disk also counts what the waves before added and removed."""
    ids, parts, wave_of = broker_ids(hosts), [], placed["wave"].to_numpy(dtype=np.int64)
    copy_rate = wave_times(placed)["copy_bytes_per_s"]
    for wave, part, peak in wave_parts(changes, wave_of, disk_used(hosts)):
        load = traffic(part, len(ids))
        rates = rates_in_style(load, int(copy_rate[wave]), settings.emit.throttle_style)
        free = copy_rates(load, leader_rate=rates.leader, follower_rate=rates.follower)
        time = np.maximum(*end_seconds(copies_of(part), free))
        seconds = np.ceil(np.minimum(time, NEVER_SECONDS)).astype(np.int64)
        columns = (np.full(len(ids), wave), ids, load.out_bytes, load.in_bytes, seconds, peak)
        parts.append(np.stack(columns, axis=1)[takes_part(part, len(ids))])
    return pd.DataFrame(np.concatenate(parts), columns=list(_BROKER_COLUMNS), dtype="Int64")


def _nullable(columns: dict[str, np.ndarray]) -> dict[str, str]:
    """Numbers as nullable integers: the rows of the other table have none of them."""
    return {name: "Int64" for name, values in columns.items() if values.dtype.kind == "i"}
