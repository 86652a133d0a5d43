"""Moves inside brokers of one cluster: rows of ``dir_moves``, and of the tables that their waves change."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from optimizer.cluster_policy import DIRS, NO_LIMIT, ClusterPolicy
from optimizer.domain import NOT_LIVE, Cause, FindingCode, Ints
from optimizer.kafka.throttle import LOG_DIR_RATE
from optimizer.planning.finish import finding_row
from optimizer.planning.late_waves import MOMENTS
from optimizer.schedule.inside_waves import InsideWaves, inside_waves, span_seconds
from optimizer.settings import Settings
from optimizer.solve.dirs.dir_bands import NO_MOVE, DirBands, dir_bands
from optimizer.solve.dirs.inside import moves_inside
from optimizer.solve.findings.finding import Finding

# Columns of the partitions that ``dir_move_rows`` reads.
COLUMNS = ("topic", "partition", "current_replicas", "log_dirs", "size_bytes", "mobility", "fixed_cause", "is_changed")
_STYLES = ("careful", "kafka")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Before:
    """The snapshot, and the waves before those inside brokers.

    Parameters
    ----------
    waves : int
    ends_at : int, optional
        Seconds of Unix time at which the last one ends, or its night if it never ends; None without windows or waves.
    captured_at : int, optional
        Seconds of Unix time of the snapshot.
    """

    waves: int
    ends_at: int | None
    captured_at: int | None


@dataclass(frozen=True)
class _Broker:
    """A broker whose directories are balanced: their paths, ascending, bytes after the other waves, and bands."""

    paths: tuple[str, ...]
    load_bytes: Ints
    bands: DirBands


class _Move(NamedTuple):
    """A replica that moves inside its broker, with the indices of its directories."""

    topic: str
    partition: int
    broker_id: int
    replicas: tuple[int, ...]
    source: int
    target: int
    size_bytes: int
    wave: int = 0  # 0: not placed yet


def dir_move_rows(
    rows: pd.DataFrame,
    hosts: pd.DataFrame,
    dir_balance: Sequence[Row],
    settings: Settings,
    before: Before,
    given: pd.DataFrame | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Rows of ``dir_moves`` and of the tables that its waves change, without columns that name cluster and run.

    The tables are ``dir_balance``, ``waves``, ``throttles`` and ``wave_findings``. ``dir_balance`` has all its rows,
    with the moves; the other tables have only what is new.

    Parameters
    ----------
    rows : DataFrame
        Partitions with ``COLUMNS``.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    dir_balance : sequence of mapping
        Rows of the table without moves inside brokers.
    given : DataFrame, optional
        The moves of another tool, with columns of ``dir_moves`` except ``wave``, instead of moves that balance. A path
        is None if it is not known.
    """
    only = settings.cluster_policies().get(str(hosts["cluster_id"].iloc[0]), ClusterPolicy()).only
    brokers = dict(_brokers(dir_balance, hosts, settings.policy.dir_band, every=given is not None))
    movable = _movable(rows, brokers, hosts, only)
    chosen = _chosen(movable, brokers) if given is None else _given(given, brokers)
    moves = sorted(_as_moves(chosen), key=lambda move: _urgency(move, brokers))
    placed = inside_waves(
        np.array([move.broker_id for move in moves], dtype=np.int64),
        np.array([move.size_bytes for move in moves], dtype=np.int64),
        [(move.topic, move.partition) for move in moves],
        settings.schedule,
        ends_at=_utc(before.ends_at),
        captured_at=_utc(before.captured_at),
    )
    moves = [move._replace(wave=before.waves + wave) for move, wave in zip(moves, placed.wave_of.tolist(), strict=True)]
    by_wave = [list(part) for _, part in groupby(sorted(moves, key=lambda move: move.wave), lambda move: move.wave)]
    waves = [
        {**_wave_row(part, rate, brokers), **_times(placed, number, settings)}
        for number, (part, rate) in enumerate(zip(by_wave, placed.rates, strict=True))
    ]
    balance = [*_with_moves(dir_balance, brokers, by_wave)]
    return {
        "dir_moves": [_row(move, brokers) for move in sorted(moves)],
        "dir_balance": balance,
        "waves": waves,
        "throttles": [*_throttles(by_wave, placed.rates)],
        "wave_findings": [*map(finding_row, (*_outside(balance, movable, moves), *_not_balanced(balance, hosts)))],
    }


def _brokers(
    dir_balance: Sequence[Row], hosts: pd.DataFrame, band: float, *, every: bool
) -> Iterator[tuple[int, _Broker]]:
    """Brokers that stay, and of which every directory is open; or every broker, for moves of another tool.

    Kafka refuses moves inside a broker while one of its directories is offline.
    """
    staying = _staying(hosts)
    for broker_id, group in groupby(sorted(dir_balance, key=_place), lambda row: int(row["broker_id"])):
        dirs = list(group)
        if not every and (broker_id not in staying or not all(row["is_open"] for row in dirs)):
            continue
        load = np.array([row["after_bytes"] for row in dirs], dtype=np.int64)
        capacities = [row["capacity_bytes"] for row in dirs]
        limits = [NO_LIMIT if row["limit_bytes"] is None else row["limit_bytes"] for row in dirs]
        bands = dir_bands(
            load,
            whole_bytes=np.array(capacities if all(capacities) else [1] * len(dirs), dtype=np.float64),
            limit_bytes=np.array(limits, dtype=np.int64),
            band=band,
        )
        yield broker_id, _Broker(tuple(row["log_dir"] for row in dirs), load, bands)


def _staying(hosts: pd.DataFrame) -> set[int]:
    """Live brokers that nobody empties, in this plan or, under ``only``, in another one."""
    leaves = hosts["state"].isin((*NOT_LIVE, "draining")) | hosts["must_empty"].astype(bool)
    return {int(broker) for broker in hosts.loc[~leaves, "broker_id"]}


def _utc(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _place(row: Row) -> tuple[int, str]:
    return int(row["broker_id"]), str(row["log_dir"])


def _numbers(brokers: Mapping[int, _Broker]) -> dict[tuple[int, str], int]:
    """The index of each directory, by broker and path."""
    return {(broker, path): number for broker, x in brokers.items() for number, path in enumerate(x.paths)}


def _movable(rows: pd.DataFrame, brokers: Mapping[int, _Broker], hosts: pd.DataFrame, only: str) -> pd.DataFrame:
    """Replicas that may move inside these brokers, with the index of their directory, by broker and then partition.

    They are those of partitions that the plan does not change, but might. With ``only = "dirs"`` these are fixed, for
    that reason alone. Kafka's tool refuses a document that names a broker that is down.
    """
    down = {int(broker) for broker in hosts.loc[hosts["state"].isin(NOT_LIVE), "broker_id"]}
    rows = rows[np.array([down.isdisjoint(replicas) for replicas in rows["current_replicas"]], dtype=bool)]
    is_free = rows["fixed_cause"] == Cause.ONLY.value if only == DIRS else rows["mobility"] == "free"
    free = rows[is_free & ~rows["is_changed"].astype(bool) & (rows["size_bytes"] > 0)]
    each = free.assign(broker_id=free["current_replicas"], log_dir=free["log_dirs"]).explode(["broker_id", "log_dir"])
    each = each[each["broker_id"].isin([*brokers])]
    numbers = _numbers(brokers)
    places = zip(each["broker_id"], each["log_dir"], strict=True)
    each = each.assign(directory=[numbers.get((int(broker), path), NO_MOVE) for broker, path in places])
    return each[each["directory"] != NO_MOVE].sort_values(["broker_id", "topic", "partition"], kind="stable")


def _chosen(movable: pd.DataFrame, brokers: Mapping[int, _Broker]) -> pd.DataFrame:
    """The replicas that move, with the index of their new directory."""
    broker_of, size, directory = (
        movable[name].to_numpy(dtype=np.int64) for name in ("broker_id", "size_bytes", "directory")
    )
    target = np.full(len(movable), NO_MOVE, dtype=np.int64)
    for broker_id in np.unique(broker_of).tolist():
        part, broker = broker_of == broker_id, brokers[broker_id]
        target[part] = moves_inside(broker.bands, broker.load_bytes, size_bytes=size[part], directory=directory[part])
    return movable.assign(target=target)[target != NO_MOVE]


def _given(given: pd.DataFrame, brokers: Mapping[int, _Broker]) -> pd.DataFrame:
    """The moves of another tool, with the indices of their directories."""
    numbers = _numbers(brokers)
    source, target = (
        [numbers.get(place, NO_MOVE) for place in zip(given["broker_id"], given[path], strict=True)]
        for path in ("from_log_dir", "to_log_dir")
    )
    return given.assign(current_replicas=given["replicas"], directory=source, target=target)


def _as_moves(rows: pd.DataFrame) -> Iterator[_Move]:
    """Moves without waves."""
    columns = ("topic", "partition", "broker_id", "current_replicas", "directory", "target", "size_bytes")
    for topic, partition, broker, replicas, *numbers in zip(*(rows[name] for name in columns), strict=True):
        yield _Move(topic, int(partition), int(broker), tuple(int(b) for b in replicas), *map(int, numbers))


def _urgency(move: _Move, brokers: Mapping[int, _Broker]) -> tuple[bool, int, _Move]:
    """Out of directories over their limits first, then the largest."""
    is_over = False
    if move.source != NO_MOVE:
        broker = brokers[move.broker_id]
        is_over = bool(broker.load_bytes[move.source] > broker.bands.limit_bytes[move.source])
    return not is_over, -move.size_bytes, move


def _row(move: _Move, brokers: Mapping[int, _Broker]) -> dict[str, Any]:
    """A row of ``dir_moves``."""
    source, target = (None if n == NO_MOVE else brokers[move.broker_id].paths[n] for n in (move.source, move.target))
    return {
        "topic": move.topic,
        "partition": move.partition,
        "broker_id": move.broker_id,
        "replicas": [*move.replicas],
        "from_log_dir": source,
        "to_log_dir": target,
        "size_bytes": move.size_bytes,
        "wave": move.wave,
    }


def _with_moves(
    dir_balance: Sequence[Row], brokers: Mapping[int, _Broker], by_wave: Sequence[Sequence[_Move]]
) -> Iterator[dict[str, Any]]:
    """The rows of ``dir_balance`` with bands and moves; what leaves makes space one wave later."""
    load = {broker_id: broker.load_bytes.copy() for broker_id, broker in brokers.items()}
    peaks: dict[tuple[int, int], tuple[int, int]] = {}
    for wave_moves in by_wave:
        part = [move for move in wave_moves if move.target != NO_MOVE]
        for move in part:
            load[move.broker_id][move.target] += move.size_bytes
        for broker, place in {(move.broker_id, move.target) for move in part}:
            peak = (int(load[broker][place]), part[0].wave)
            peaks[broker, place] = max(peaks.get((broker, place), peak), peak)
        for move in part:
            load[move.broker_id][move.source] -= move.size_bytes
    numbers = _numbers(brokers)
    for row in sorted(dir_balance, key=_place):
        broker_id, number = int(row["broker_id"]), numbers.get(_place(row))
        if number is None:
            yield {**row, "lower_bytes": None, "upper_bytes": None}
            continue
        peak_bytes, wave = peaks.get((broker_id, number), (0, 0))
        is_higher, bands = peak_bytes > row["peak_bytes"], brokers[broker_id].bands
        yield {
            **row,
            "after_bytes": int(load[broker_id][number]),
            "peak_bytes": peak_bytes if is_higher else row["peak_bytes"],
            "peak_wave": wave if is_higher else row["peak_wave"],
            "lower_bytes": int(bands.lower_bytes[number]),
            "upper_bytes": int(bands.upper_bytes[number]),
        }


def _wave_row(part: Sequence[_Move], rate: int, brokers: Mapping[int, _Broker]) -> dict[str, Any]:
    """A row of ``waves``, without times of windows."""
    by_broker = Counter[int]()
    for move in part:
        by_broker[move.broker_id] += move.size_bytes
    busiest = min(by_broker, key=lambda broker: (-by_broker[broker], broker))
    least, most = span_seconds(by_broker[busiest], rate)
    return {
        "wave": part[0].wave,
        "partitions": len({(move.topic, move.partition) for move in part}),
        "replicas_moved": len(part),
        "moved_bytes": by_broker.total(),
        "busiest_broker": busiest,
        "busiest_bytes": by_broker[busiest],
        "throttle_bytes_per_s": rate,
        "estimated_seconds": int(np.ceil(by_broker[busiest] / rate)),
        "below_floor": False,
        "peak_disk_bytes": max(
            (int(brokers[b].load_bytes.sum()) + size for b, size in by_broker.items() if b in brokers), default=None
        ),
        "least_seconds": int(least),
        "most_seconds": int(np.ceil(most)),
        "copy_bytes_per_s": rate,
        "requested_bytes_per_s": rate,
        "inside_brokers": True,
    }


def _times(placed: InsideWaves, number: int, settings: Settings) -> dict[str, Any]:
    """The columns of ``waves`` about windows; null without."""
    if not placed.slots:
        return dict.fromkeys((*MOMENTS, "time_zone"))
    slot = placed.slots[number]
    moments = (slot.start, slot.end, slot.night.end)
    seconds = (None if moment is None else pd.Timestamp(int(moment.timestamp()), unit="s") for moment in moments)
    zone = settings.schedule.windows[slot.night.window].time_zone
    return {**dict(zip(MOMENTS, seconds, strict=True)), "time_zone": zone}


def _throttles(by_wave: Sequence[Sequence[_Move]], rates: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Rows of ``throttles`` without previous values: the same rate for each broker, in both styles."""
    for part, rate in zip(by_wave, rates, strict=True):
        for broker in sorted({move.broker_id for move in part}):
            for style in _STYLES:
                yield {
                    "wave": part[0].wave,
                    "style": style,
                    "entity_type": "brokers",
                    "entity_name": str(broker),
                    "config_name": LOG_DIR_RATE,
                    "config_value": str(rate),
                }


def _outside(dir_balance: Sequence[Row], movable: pd.DataFrame, moves: Sequence[_Move]) -> Iterator[Finding]:
    """Directories that stay outside their bands, with the cause."""
    moved = {(move.topic, move.partition, move.broker_id) for move in moves}
    keys = zip(movable["topic"], movable["partition"], movable["broker_id"], strict=True)
    stays = movable[np.array([key not in moved for key in keys], dtype=bool)]
    least: dict[tuple[int, str], int] = {}
    for broker, path, size in zip(stays["broker_id"], stays["log_dir"], stays["size_bytes"], strict=True):
        least[int(broker), path] = min(int(size), least.get((int(broker), path), NO_LIMIT))
    for row in dir_balance:
        if row["lower_bytes"] is None or row["lower_bytes"] <= row["after_bytes"] <= row["upper_bytes"]:
            continue
        is_above = row["after_bytes"] > row["upper_bytes"]
        yield Finding(
            FindingCode.DIR_BAND,
            "after",
            cause=_cause(row, [other for other in dir_balance if other["broker_id"] == row["broker_id"]], least),
            broker_id=int(row["broker_id"]),
            amount=row["after_bytes"],
            limit=row["upper_bytes"] if is_above else row["lower_bytes"],
            facts={"log_dir": row["log_dir"]},
        )


def _cause(row: Row, of_broker: Sequence[Row], least: Mapping[tuple[int, str], int]) -> Cause:
    """Why a directory stays outside its band.

    Parameters
    ----------
    of_broker : rows of ``dir_balance``
        Of all directories of the broker.
    least : mapping of (broker, path) to bytes
        The smallest replica that might move, but stays.
    """
    here, others = _place(row), [other for other in of_broker if other is not row]
    if row["after_bytes"] < row["lower_bytes"]:
        may_come = any(_place(other) in least for other in others)
        return Cause.STEPS_TOO_LARGE if may_come else Cause.MAY_NOT_COME
    if here not in least:
        return Cause.MAY_NOT_LEAVE
    limits = (NO_LIMIT if other["limit_bytes"] is None else other["limit_bytes"] for other in others)
    most = max(limit - other["after_bytes"] for limit, other in zip(limits, others, strict=True))
    return Cause.NO_DIRECTORY_ROOM if most < least[here] else Cause.STEPS_TOO_LARGE


def _not_balanced(dir_balance: Sequence[Row], hosts: pd.DataFrame) -> Iterator[Finding]:
    """Brokers that stay, with a directory that has failed or is cordoned."""
    closed = {int(row["broker_id"]) for row in dir_balance if not row["is_open"]}
    for broker in sorted(closed & _staying(hosts)):
        yield Finding(FindingCode.DIRS_NOT_BALANCED, "both", cause=Cause.FAILED_DIRECTORY, broker_id=broker)


def balances_dirs(settings: Settings, cluster_id: str) -> bool:
    """Whether replicas of a cluster move inside their brokers."""
    only = settings.cluster_policies().get(cluster_id, ClusterPolicy()).only
    return only == DIRS or (settings.policy.balance_dirs and not only)
