"""The tables of stages solve and plan of one cluster, in this process and without Spark."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from optimizer.domain import NOT_LIVE, WHOLE_PLAN, FindingCode, Floats
from optimizer.kafka.throttle import ConfigEntry, careful_throttles, config_entries, tool_throttles
from optimizer.kafka.versions import needs_whole_min_isr
from optimizer.planning.arrays import to_brokers, with_nulls
from optimizer.planning.balance_rows import PLACEMENTS, measure
from optimizer.planning.compared_lists import TIMES, TOTALS, compare_lists, joined_lists, with_totals
from optimizer.planning.dir_move_rows import Before, balances_dirs, dir_move_rows
from optimizer.planning.exposed import exposure_rows
from optimizer.planning.finish import TABLES
from optimizer.planning.flow_rows import flow_rows
from optimizer.planning.late_waves import MOMENTS, late_rows
from optimizer.planning.memory_placement import MemoryPlacement, in_memory
from optimizer.planning.solved_rows import small_tables
from optimizer.planning.summary_rows import SIDES, summary_rows
from optimizer.planning.wave_rows import broker_ids, schedule_cluster, to_changes, wave_rows
from optimizer.schedule.estimate import traffic
from optimizer.schedule.throttle_rate import common_rate, rates_per_broker
from optimizer.settings import Settings, start_policy, with_policy
from optimizer.solve import driver
from schemas.output import THROTTLES

# Columns of ``throttles`` without the previous value.
COLUMNS = tuple(name for name in THROTTLES.names if name != "previous_value")
_ENTRY_COLUMNS = ["wave", "style", "entity_type", "entity_name", "config_name", "config_value"]


def _lists_by_partition(rows: pd.DataFrame, column: str) -> dict[tuple[str, int], list[int]]:
    keys = zip(rows["topic"], rows["partition"], strict=True)
    return {(topic, int(number)): [int(b) for b in x] for (topic, number), x in zip(keys, rows[column], strict=True)}


def _settable(entries: list[ConfigEntry], down: set[str]) -> list[ConfigEntry]:
    """The entries without configs of brokers that are down, which nobody can set, and without empty values."""
    return [
        entry
        for entry in entries
        if entry[3] and not (entry[0] == "brokers" and entry[1] in down)
    ]  # fmt: skip


def _throttle_entries(
    rows: pd.DataFrame, hosts: pd.DataFrame, down: set[str]
) -> Iterator[tuple[str, list[ConfigEntry]]]:
    """Throttle entries in both styles for the partitions of ``rows``; none if no replica is copied."""
    changes = to_changes(rows, hosts)
    ids = broker_ids(hosts)
    load = traffic(changes, len(ids))
    rate = int(rows["copy_bytes_per_s"].min())
    # Also if the partitions were empty at the snapshot: they may have grown since.
    if not changes.copies.any():
        return
    proposed, current = _lists_by_partition(rows, "proposed_replicas"), _lists_by_partition(rows, "current_replicas")
    common = max(common_rate(load, copy_bytes_per_s=rate), rate)
    yield "kafka", config_entries(tool_throttles(proposed, current), common, common)
    rates = rates_per_broker(load, copy_bytes_per_s=rate)
    # A follower may become the leader: without a rate it would send at full speed.
    leader = dict(zip(ids.tolist(), np.maximum(rates.leader, rate).tolist(), strict=True))
    follower = dict(zip(ids.tolist(), np.maximum(rates.follower, rate).tolist(), strict=True))
    careful = careful_throttles(proposed, current)
    yield "careful", _settable(config_entries(careful, leader, follower), down)


def throttle_rows(scheduled: pd.DataFrame, hosts: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``COLUMNS`` of one cluster; wave 0 is the whole plan at once.

    Parameters
    ----------
    scheduled : DataFrame
        Changed rows of ``compare_lists`` with waves.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    """
    placed = scheduled[scheduled["wave"].notna()].sort_values(["topic", "partition"], kind="stable")
    if placed.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    down = {str(b) for b in hosts.loc[hosts["state"].isin(NOT_LIVE), "broker_id"]}
    parts = [
        (WHOLE_PLAN, placed),
        *((w, placed[placed["wave"] == w]) for w in sorted({int(w) for w in placed["wave"]})),
    ]
    content = [
        (wave, style, *entry)
        for wave, rows in parts
        for style, entries in _throttle_entries(rows, hosts, down)
        for entry in entries
    ]
    frame = pd.DataFrame(content, columns=_ENTRY_COLUMNS)
    frame["cluster_id"], frame["run_id"] = hosts["cluster_id"].iloc[0], hosts["run_id"].iloc[0]
    return frame[list(COLUMNS)]


Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class MemoryPlan:
    """The plan of one cluster.

    Parameters
    ----------
    solved : Solved
        Of a fleet of one cluster.
    tables : mapping by name
        Tables of stages solve and plan, without columns that only name cluster and run, and without Kafka's default.
        ``compared`` has the rows of ``plan`` with the columns of ``instance``; ``measured`` those of
        ``broker_balance`` and more.
    """

    solved: driver.Solved[MemoryPlacement]
    tables: Tables


def plan_in_memory(
    instance: pd.DataFrame,
    hosts: pd.DataFrame,
    settings: Settings,
    *,
    captured_at: datetime | None = None,
    also_allowed: Floats | None = None,
    moves_inside: bool = True,
    started: bool = False,
) -> MemoryPlan:
    """Solve and plan one cluster.

    Parameters
    ----------
    instance, hosts : DataFrame
        Rows of ``instance`` and ``instance_brokers`` of one cluster.
    settings : Settings
        With the cluster.
    captured_at : datetime, optional
        UTC, of the snapshot.
    also_allowed : (B, D) float, optional
        Loads that the bands also include; brokers ascend by id.
    moves_inside : bool
        As for ``planned_tables``.
    started : bool
        Whether the cluster does not wait for ``start_at``.
    """
    cluster_id = str(hosts["cluster_id"].iloc[0])
    loads = {} if also_allowed is None else {cluster_id: also_allowed}
    placement = in_memory(instance, {cluster_id: to_brokers(hosts)})
    solved = driver.solve(placement, settings, also_allowed=loads, started=[cluster_id] if started else [])
    tables = {name: solved.tables[name] for name in TABLES}
    tables |= {name: pd.DataFrame(list(rows)) for name, rows in small_tables(solved).items()}
    planned = planned_tables(instance, hosts, tables, settings, captured_at=captured_at, moves_inside=moves_inside)
    return MemoryPlan(solved, {**tables, **planned})


def planned_tables(
    instance: pd.DataFrame,
    hosts: pd.DataFrame,
    solved: Tables,
    settings: Settings,
    *,
    captured_at: datetime | None = None,
    moves_inside: bool = True,
    given_inside: pd.DataFrame | None = None,
) -> dict[str, pd.DataFrame]:
    """The tables of stage plan of one cluster.

    Parameters
    ----------
    instance, hosts, settings, captured_at :
        As for ``plan_in_memory``.
    solved : mapping
        ``proposal``, ``moves``, ``findings``, ``bounds`` and ``leader_bounds``. A proposal of another tool may have
        ``planned_log_dirs``.
    moves_inside : bool
        Whether replicas move inside brokers, if the settings request it.
    given_inside : DataFrame, optional
        Moves of another tool inside brokers, as for ``dir_move_rows``.
    """
    rows = joined_lists(instance, solved["proposal"], solved["moves"])
    return tables_of_lists(
        rows,
        hosts,
        solved,
        settings,
        placements=("before", "after"),
        captured_at=captured_at,
        moves_inside=moves_inside,
        given_inside=given_inside,
    )


def tables_of_lists(
    rows: pd.DataFrame,
    hosts: pd.DataFrame,
    solved: Tables,
    settings: Settings,
    *,
    placements: Collection[str] = tuple(PLACEMENTS),
    captured_at: datetime | None = None,
    moves_inside: bool = True,
    given_inside: pd.DataFrame | None = None,
) -> dict[str, pd.DataFrame]:
    """The same from lists that are joined already, and perhaps with Kafka's default: what stage plan stores.

    Parameters
    ----------
    rows : DataFrame
        As for ``compare_lists``; perhaps with ``given_log_dirs``, the directories of another tool.
    solved : mapping
        ``findings``, ``bounds`` and ``leader_bounds``.
    placements : collection of str
        Of ``balance_rows.PLACEMENTS``, those to measure.
    """
    cluster_id = str(hosts["cluster_id"].iloc[0])
    waits = (solved["findings"]["code"] == FindingCode.WAITS_TO_START.value).any()
    tonight = with_policy(settings, start_policy(settings.policy)) if waits else settings
    hosts = with_load(hosts, rows).assign(captured_at=captured_at.timestamp() if captured_at else None)
    compared = with_totals(compare_lists(rows, hosts))
    scheduled = schedule_cluster(compared[compared["is_changed"]], hosts, settings=settings)
    if "given_log_dirs" in scheduled:
        scheduled = scheduled.assign(planned_log_dirs=scheduled["given_log_dirs"])
    planned = compared.astype(dict.fromkeys(("wave", *TIMES), "Int64"))
    if len(scheduled):
        planned = pd.concat([planned[~planned["is_changed"]], scheduled.astype({"wave": "Int64"})])
    waves = wave_rows(scheduled, hosts, settings=settings)
    measured = measure(planned.assign(replicas=planned["current_replicas"]), hosts, tonight.policy, placements)
    version = settings.kafka_versions().get(cluster_id, "")
    exposure, findings = exposure_rows(
        planned,
        hosts,
        needs_whole_min_isr=needs_whole_min_isr(version),
        acks_one=settings.policy.acks_one_topics,
    )
    flows, throttles = flow_rows(scheduled, hosts, settings=settings), throttle_rows(scheduled, hosts)
    is_given = given_inside is not None and len(given_inside) > 0
    if is_given or (moves_inside and "dir_balance" in flows and balances_dirs(settings, cluster_id)):
        end = waves["ends_at"].fillna(waves["night_ends_at"]).max() if len(waves) else None
        ends_at = None if pd.isna(end) else int(pd.Timestamp(end).timestamp())
        before = Before(len(waves), ends_at, int(captured_at.timestamp()) if captured_at else None)
        balance = records(flows["dir_balance"]) if "dir_balance" in flows else []
        given = given_inside if is_given else None
        inside = dir_move_rows(planned, hosts, balance, tonight, before, given)
        if waits and inside["dir_moves"]:  # Directories start for themselves.
            inside = dir_move_rows(planned, hosts, balance, settings, before, given)
        waves, throttles = _with_rows(waves, inside["waves"]), _with_rows(throttles, inside["throttles"])
        findings = _with_rows(findings, inside["wave_findings"])
        flows |= {name: pd.DataFrame(inside[name]) for name in ("dir_balance", "dir_moves")}
    tables = {
        "compared": planned,
        "waves": waves,
        **flows,
        "throttles": throttles,
        "measured": measured,
        "exposure": exposure,
        "wave_findings": pd.concat([findings, *_late(waves, settings)], ignore_index=True),
    }
    return {**tables, "plan_summary": _summary(planned, {**solved, **tables})}


def _with_rows(frame: pd.DataFrame, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The frame with more rows."""
    if not rows:
        return frame
    added = pd.DataFrame(rows).reindex(columns=frame.columns)
    return pd.concat([frame.astype(object), added.astype(object)], ignore_index=True) if len(frame) else added


def _late(waves: pd.DataFrame, settings: Settings) -> list[pd.DataFrame]:
    if not settings.schedule.windows or waves.empty:
        return []
    # A difference of times does not depend on their unit, and an unknown time stays unknown.
    seconds = {name: (pd.to_datetime(waves[name]) - pd.Timestamp(0)) / pd.Timedelta(seconds=1) for name in MOMENTS}
    return [late_rows(waves.assign(**seconds))]


def _summary(planned: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    sums = planned[list(TOTALS)].sum(min_count=1)
    totals = {name: None if pd.isna(sums[name]) else int(sums[name]) for name in TOTALS}
    names = ("measured", "bounds", "leader_bounds", "waves", "exposure")
    rows = {name: records(tables[name]) for name in names}
    rows |= {name: records(tables[name]) if name in tables else [] for name in ("dir_balance", "dir_moves")}
    unexplained = int((tables["findings"]["code"] == FindingCode.UNEXPLAINED.value).sum())
    return pd.DataFrame(summary_rows(totals, **rows, unexplained=unexplained), columns=["figure", *SIDES], dtype=object)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as mappings, with None for missing values."""
    return [{str(name): value for name, value in row.items()} for row in with_nulls(frame).to_dict("records")]


def with_load(hosts: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The brokers with what they hold, and with what they receive and send before the plan, in the windows if known."""
    followers = rows["current_replicas"].map(len) - 1
    received, consumed = (_in_windows(rows, name) for name in ("in_bytes_per_s", "out_bytes_per_s"))
    held = rows[["current_replicas", "leader", "size_bytes"]].assign(
        in_bytes_per_s=received, sent=consumed + followers * received
    )
    each = held.explode("current_replicas")
    each["sent"] = each["sent"].where(each["current_replicas"] == each["leader"], 0)
    sums = each.groupby("current_replicas")[["size_bytes", "in_bytes_per_s", "sent"]].sum()
    columns = {"size_bytes": "disk_used_bytes", "in_bytes_per_s": "in_used_bytes_per_s", "sent": "out_used_bytes_per_s"}
    used = sums.rename(columns=columns).reindex(hosts["broker_id"]).fillna(0).astype("int64")
    return hosts.assign(**{name: used[name].to_numpy() for name in columns.values()})


def _in_windows(instance: pd.DataFrame, name: str) -> pd.Series:
    """The rate in the windows of the schedule; the usual rate where no sample is in them."""
    in_windows = instance.get(f"window_{name}", pd.Series(None, instance.index, dtype="Int64"))
    return in_windows.astype("Int64").fillna(instance[name]).astype("int64")
