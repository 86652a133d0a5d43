"""The tables of stages solve and plan of one cluster, in this process and without Spark."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd

from optimizer.domain import FindingCode, Floats
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
from optimizer.planning.throttle_rows import throttle_rows
from optimizer.planning.wave_rows import schedule_cluster, wave_rows
from optimizer.settings import Settings
from optimizer.solve import driver

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
    """
    cluster_id = str(hosts["cluster_id"].iloc[0])
    loads = {} if also_allowed is None else {cluster_id: also_allowed}
    solved = driver.solve(in_memory(instance, {cluster_id: to_brokers(hosts)}), settings, also_allowed=loads)
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
    hosts = with_load(hosts, rows).assign(captured_at=captured_at.timestamp() if captured_at else None)
    compared = with_totals(compare_lists(rows))
    scheduled = schedule_cluster(compared[compared["is_changed"]], hosts, settings=settings)
    if "given_log_dirs" in scheduled:
        scheduled = scheduled.assign(planned_log_dirs=scheduled["given_log_dirs"])
    planned = compared.astype(dict.fromkeys(("wave", *TIMES), "Int64"))
    if len(scheduled):
        planned = pd.concat([planned[~planned["is_changed"]], scheduled.astype({"wave": "Int64"})])
    waves = wave_rows(scheduled, hosts, settings=settings)
    measured = measure(planned.assign(replicas=planned["current_replicas"]), hosts, settings.policy, placements)
    version = settings.kafka_versions().get(cluster_id, "")
    exposure, findings = exposure_rows(planned, hosts, needs_whole_min_isr=needs_whole_min_isr(version))
    flows, throttles = flow_rows(scheduled, hosts, settings=settings), throttle_rows(scheduled, hosts)
    is_given = given_inside is not None and len(given_inside) > 0
    if is_given or (moves_inside and "dir_balance" in flows and balances_dirs(settings, cluster_id)):
        end = waves["ends_at"].fillna(waves["night_ends_at"]).max() if len(waves) else None
        ends_at = None if pd.isna(end) else int(pd.Timestamp(end).timestamp())
        before = Before(len(waves), ends_at, int(captured_at.timestamp()) if captured_at else None)
        balance = records(flows["dir_balance"]) if "dir_balance" in flows else []
        inside = dir_move_rows(planned, hosts, balance, settings, before, given_inside if is_given else None)
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
