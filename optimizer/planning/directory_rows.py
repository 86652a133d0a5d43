"""Log directories of one cluster: what the waves put where, and the rows of table ``dir_balance``."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import Ints, LogDir
from optimizer.kafka.reassignment_json import ANY_DIR
from optimizer.planning.arrays import log_dirs_of
from optimizer.schedule.directories import NO_DIRECTORY, Directories
from optimizer.schedule.directory_plan import NO_ROUND, DirectoryPlan, directory_plan
from optimizer.schedule.timed_waves import Cuts, TimedWaves
from optimizer.schedule.wave_changes import WaveChanges
from optimizer.schedule.waves import UNPLACED

_NUMBERS = (
    *("capacity_bytes", "limit_bytes", "before_bytes", "default_bytes", "default_peak_bytes", "after_bytes"),
    *("peak_bytes", "peak_wave"),
)
_COLUMNS = ("broker_id", "log_dir", "is_open", *_NUMBERS)


def directories_in(
    rows: pd.DataFrame, changes: WaveChanges, hosts: pd.DataFrame, headroom: float
) -> DirectoryPlan | None:
    """The directories for some changes; None if no broker has several.

    Parameters
    ----------
    rows : DataFrame
        The rows of ``changes``, with ``log_dirs``.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    """
    log_dirs = log_dirs_of(hosts)
    if not any(len(dirs) > 1 for dirs in log_dirs):
        return None
    return directory_plan(changes, log_dirs, rows["log_dirs"].to_list(), headroom)


def with_directories(
    plan: DirectoryPlan, cuts: Cuts, timed: TimedWaves, make_waves: Callable[[Cuts], TimedWaves]
) -> tuple[TimedWaves, Ints]:
    """Deal the directories; where they would get too full, some changes come in later waves.

    Parameters
    ----------
    timed : TimedWaves
        Of ``cuts``.
    make_waves : callable
        Makes the waves of other cuts.

    Returns
    -------
    tuple
        The waves, and the directory of each added replica, (N, W): none, so that Kafka chooses, if no dealing keeps all
        limits.
    """
    chosen = plan.deal(timed.wave_of)
    if not plan.over_limit(timed.wave_of, chosen):
        return timed, chosen
    rounds = plan.rounds()
    # ``solve`` has left out what fits nowhere. A plan of another tool may have it.
    round_of = np.where(rounds.round_of == NO_ROUND, rounds.round_of.max(), rounds.round_of)
    later = make_waves(replace(cuts, round_of=round_of))
    timed = timed if (later.wave_of == UNPLACED).any() else later
    chosen = plan.deal(timed.wave_of)
    over = np.isin(plan.changes.added, plan.over_limit(timed.wave_of, chosen))
    chosen = np.where(over, rounds.chosen, chosen)
    if plan.over_limit(timed.wave_of, chosen):
        chosen = np.full_like(chosen, NO_DIRECTORY)
    return timed, chosen


def named(plan: DirectoryPlan, after: Ints, chosen: Ints) -> list[list[str] | None]:
    """The directory of each replica, by name; None for a change without any.

    Parameters
    ----------
    after : (N, W) int64
        Broker indices after the plan, in the slots of ``chosen``, padded with -1.
    """
    return [
        [_path(plan, broker, index) for broker, index in zip(brokers, row, strict=True) if broker >= 0]
        if max(row) != NO_DIRECTORY
        else None
        for brokers, row in zip(after.tolist(), chosen.tolist(), strict=True)
    ]


def _path(plan: DirectoryPlan, broker: int, index: int) -> str:
    return ANY_DIR if index == NO_DIRECTORY else plan.brokers[broker].paths[index]


def directory_rows(
    plan: DirectoryPlan | None, hosts: pd.DataFrame, wave_of: Ints, planned: Sequence[Iterable[str] | None]
) -> pd.DataFrame | None:
    """Rows of ``dir_balance``, without columns that name the cluster; None if no broker has several directories.

    Parameters
    ----------
    planned : of each change
        ``planned_log_dirs`` of table ``plan``.
    """
    if plan is None:
        return None
    ids, log_dirs = np.sort(hosts["broker_id"].to_numpy()), log_dirs_of(hosts)
    chosen, default = _numbers(plan, planned), plan.kafka_choice(wave_of)
    rows = [
        row
        for index, directories in plan.brokers.items()
        for row in _rows(
            int(ids[index]),
            directories,
            log_dirs[index],
            *(plan.loads(index, wave_of, numbers) for numbers in (np.where(chosen < 0, default, chosen), default)),
        )
    ]
    frame = pd.DataFrame(rows, columns=list(_COLUMNS), dtype=object).astype(dict.fromkeys(_NUMBERS, "Int64"))
    return frame.assign(lower_bytes=None, upper_bytes=None)


def _numbers(plan: DirectoryPlan, planned: Sequence[Iterable[str] | None]) -> Ints:
    """The directory of each added replica, (N, W), from the names."""
    chosen = np.full_like(plan.changes.added, NO_DIRECTORY)
    for row, names in enumerate(planned):
        for slot, name in enumerate(names if isinstance(names, Iterable) else ()):
            broker = int(plan.changes.added[row, slot])
            if broker in plan.brokers and name != ANY_DIR:
                chosen[row, slot] = plan.brokers[broker].paths.index(name)
    return chosen


def _rows(
    broker_id: int, directories: Directories, log_dirs: Sequence[LogDir], loads: Ints, default: Ints
) -> Iterable[tuple[object, ...]]:
    for d, log_dir in enumerate(log_dirs):
        limit = int(directories.limit_bytes[d])
        peak = int(loads[d].max())
        in_wave = int(loads[d].argmax()) + 1 if peak > log_dir.used_bytes else None
        yield (
            *(broker_id, log_dir.path, log_dir.is_open, log_dir.capacity_bytes),
            *(None if limit == NO_LIMIT else limit, log_dir.used_bytes, int(default[d, -1]), int(default[d].max())),
            *(int(loads[d, -1]), peak, in_wave),
        )
