"""What differs between two runs of one cluster: the requests, the cluster, the plans, and what was executed between."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from asking.run_rows import RunRows
from optimizer.domain import REASONS

KEY = ["topic", "partition"]
_REQUESTS = ("policy", "solver", "schedule")  # sections; storage and emit request nothing of the plan
_LEFT_OUT = {"policy.start_at": 0.0}  # what stored settings leave out at its default
_FACTS_OF_CLUSTER = ("id", "captured_at")  # in a cluster's entry, but no requests
_LOADS = ("size_bytes", "in_bytes_per_s", "out_bytes_per_s")
ADDED, REMOVED = "added", "removed"
# Where a partition that plan A changes is in run B.
DONE, IN_FLIGHT, OLD, NEITHER, NO_PARTITION = STATES = ("proposal", "in_flight", "old", "neither", "no_partition")
# Which plans change a partition.
SAME_LIST, OTHER_LIST, ONLY_A, ONLY_B = KINDS = ("same_list", "other_list", "only_a", "only_b")


@dataclass(frozen=True)
class Change:
    """One property that differs: of a setting, a broker or a topic.

    Parameters
    ----------
    name : str
        Setting, broker id or topic.
    what : str
        ``added``, ``removed``, or the column or setting that differs.
    before, after : object
        None if unknown.
    """

    name: str
    what: str
    before: Any = None
    after: Any = None


@dataclass(frozen=True)
class Totals:
    """The size and state of the cluster in one run; bytes are those of all replicas."""

    partitions: int
    replicas: int
    total_bytes: int
    in_bytes_per_s: int
    out_bytes_per_s: int
    out_of_sync: int
    without_leader: int
    in_flight: int


@dataclass(frozen=True)
class PartitionChanges:
    """What differs between the partitions of the two runs.

    Parameters
    ----------
    totals : tuple of Totals
        Of run A and of run B.
    added, removed : DataFrame
        Partitions that only run B has, or only run A.
    lists, sizes, rates : DataFrame
        Partitions with another replica list, size or rate, with both values.
    topics : DataFrame
        Topics with another load, with both loads, the largest difference in bytes first.
    """

    totals: tuple[Totals, Totals]
    added: pd.DataFrame
    removed: pd.DataFrame
    lists: pd.DataFrame
    sizes: pd.DataFrame
    rates: pd.DataFrame
    topics: pd.DataFrame


@dataclass(frozen=True)
class PlanDifferences:
    """How the plans differ.

    Parameters
    ----------
    partitions : DataFrame
        Each partition that a plan changes: its ``kind``, and list before, proposal, bytes and reasons in both plans.
        ``is_done``: only plan A changes it, and in run B it has this list already. The largest copies come first.
    by_reason : DataFrame, optional
        Partitions, copies and bytes of both plans by reason, the most urgent first; None without ``moves``.
    """

    partitions: pd.DataFrame
    by_reason: pd.DataFrame | None


@dataclass(frozen=True)
class Progress:
    """How far the cluster went towards plan A until run B.

    Parameters
    ----------
    partitions : DataFrame
        Each partition that plan A changes: wave, old list, proposal, list now, bytes to copy and ``state``. In state
        ``neither``, ``is_reordered`` says that it has the brokers of the proposal in another order.
    other_changes : int
        Partitions with another list that plan A does not change.
    """

    partitions: pd.DataFrame
    other_changes: int

    def count(self, state: str) -> int:
        """Number of partitions in a state."""
        return int((self.partitions["state"] == state).sum())

    def bytes(self, state: str) -> int:
        """Bytes that plan A copies for the partitions in a state."""
        return int(self.partitions.loc[self.partitions["state"] == state, "moved_bytes"].sum())


@dataclass(frozen=True)
class WaveTime:
    """The times of one wave.

    Parameters
    ----------
    done : int, optional
        Partitions that have the proposal in the later run; None for waves of the later run, or if unknown.
    has_ended : bool
        Whether it was executed, has ended and was not cancelled.
    measured_seconds : float, optional
        None if it was not measured.
    """

    run_id: str
    wave: int
    partitions: int
    moved_bytes: int
    done: int | None
    estimated_seconds: int
    least_seconds: int
    most_seconds: int
    has_ended: bool
    measured_seconds: float | None


@dataclass(frozen=True)
class Comparison:
    """What differs between two runs. A part whose rows are gone is None; ``notes`` of the runs say why."""

    cluster_id: str
    runs: tuple[RunRows, RunRows]
    requests: tuple[Change, ...] | None
    brokers: tuple[Change, ...] | None
    topics: tuple[Change, ...] | None
    partitions: PartitionChanges | None
    figures: pd.DataFrame | None
    plans: PlanDifferences | None
    progress: Progress | None
    waves: tuple[WaveTime, ...]


def compare(cluster_id: str, a: RunRows, b: RunRows) -> Comparison:
    """Compare two runs of a cluster; ``a`` is the earlier one."""
    brokers, topics, instance, plan, figures = (
        (a.tables[name], b.tables[name]) if name in a.tables and name in b.tables else None
        for name in ("brokers", "topics", "instance", "plan", "plan_summary")
    )
    moves = [run.tables.get("moves") for run in (a, b)]
    has_progress = "plan" in a.tables and "instance" in b.tables
    progress = towards(a.tables["plan"], b.tables["instance"]) if has_progress else None
    return Comparison(
        cluster_id,
        (a, b),
        changed_requests(a.settings, b.settings, cluster_id) if a.settings and b.settings else None,
        changes(*brokers, "broker_id") if brokers else None,
        changes(*topics, "topic") if topics else None,
        partition_changes(*instance) if instance else None,
        figures[0].merge(figures[1], "outer", on="figure", suffixes=("_a", "_b")) if figures else None,
        plan_differences(*plan, *moves) if plan else None,
        progress,
        (*wave_times(a, progress), *wave_times(b, None)),
    )


def changed_requests(a: Mapping[str, Any], b: Mapping[str, Any], cluster_id: str) -> tuple[Change, ...]:
    """Settings of two configurations that differ, of the policy, the solver, the schedule and the cluster's entry."""
    before, after = _requests(a, cluster_id), _requests(b, cluster_id)
    return tuple(
        Change(name, "setting", before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


def _requests(settings: Mapping[str, Any], cluster_id: str) -> dict[str, Any]:
    """Value by name, such as ``policy.disk_band`` or ``clusters.orders.only``."""
    entries = [entry for entry in settings["clusters"] if entry["id"] == cluster_id]
    sections = {name: settings.get(name, {}) for name in _REQUESTS} | {
        f"clusters.{cluster_id}": {key: value for key, value in entry.items() if key not in _FACTS_OF_CLUSTER}
        for entry in entries
    }
    found = {f"{section}.{key}": value for section, knobs in sections.items() for key, value in knobs.items()}
    return {**_LEFT_OUT, **found}


def changes(a: pd.DataFrame, b: pd.DataFrame, key: str) -> tuple[Change, ...]:
    """Added and removed rows, then each column that differs, in the order of the key.

    An unknown topic id is equal to any other.
    """
    both = a.merge(b, "outer", on=key, suffixes=("_a", "_b"), indicator=True).sort_values(key)
    result = [Change(str(name), ADDED) for name in both.loc[both["_merge"] == "right_only", key]]
    result += [Change(str(name), REMOVED) for name in both.loc[both["_merge"] == "left_only", key]]
    kept = both[both["_merge"] == "both"]
    for column in a.columns.drop(key):
        before, after = kept[f"{column}_a"], kept[f"{column}_b"]
        differ = (before != after) & ~(before.isna() & after.isna())
        if column == "topic_id":
            differ &= before.notna() & after.notna()
        values = zip(kept.loc[differ, key], before[differ], after[differ], strict=True)
        result += [Change(str(name), column, plain(old), plain(new)) for name, old, new in values]
    return tuple(result)


def plain(value: Any) -> Any:
    """A value of pandas for JSON: None if it is missing, an int if it is a whole number."""
    if pd.isna(value):
        return None
    value = value.item() if hasattr(value, "item") else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def partition_changes(a: pd.DataFrame, b: pd.DataFrame) -> PartitionChanges:
    """Compare the partitions in table ``instance`` of two runs."""
    both = a.merge(b, "outer", on=KEY, suffixes=("_a", "_b"), indicator=True).sort_values(KEY)
    kept = both[both["_merge"] == "both"]
    differing = partial(_differing, kept)
    return PartitionChanges(
        (_totals(a), _totals(b)),
        both.loc[both["_merge"] == "right_only", KEY],
        both.loc[both["_merge"] == "left_only", KEY],
        differing(["replicas"]),
        differing(["size_bytes"]),
        differing(["in_bytes_per_s", "out_bytes_per_s"]),
        _topic_loads(a, b),
    )


def _differing(kept: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Partitions with another value in one of the columns, with both values; loads are whole numbers again."""
    differ = pd.concat([kept[f"{name}_a"] != kept[f"{name}_b"] for name in columns], axis=1).any(axis=1)
    names = [f"{name}_{run}" for name in columns for run in "ab"]
    result = kept.loc[differ, [*KEY, *names]]
    return result.astype({name: "int64" for name in names if name[:-2] in _LOADS})


def _count(lists: pd.Series) -> pd.Series:
    """Number of brokers in each list."""
    return lists.str.count(",") + (lists != "")


def _totals(instance: pd.DataFrame) -> Totals:
    replicas = _count(instance["replicas"])
    in_flight = instance["controller_replicas"].notna()
    return Totals(
        partitions=len(instance),
        replicas=int(replicas.sum()),
        total_bytes=int((instance["size_bytes"] * replicas).sum()),
        in_bytes_per_s=int(instance["in_bytes_per_s"].sum()),
        out_bytes_per_s=int(instance["out_bytes_per_s"].sum()),
        out_of_sync=int(((_count(instance["isr"]) < replicas) & ~in_flight).sum()),
        without_leader=int(instance["leader"].isna().sum()),
        in_flight=int(in_flight.sum()),
    )


def _topic_loads(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    loads = [
        each.assign(size_bytes=each["size_bytes"] * _count(each["replicas"])).groupby("topic")[list(_LOADS)].sum()
        for each in (a, b)
    ]
    both = loads[0].join(loads[1], how="outer", lsuffix="_a", rsuffix="_b").fillna(0).astype("int64")
    difference = sum((both[f"{name}_a"] - both[f"{name}_b"]).abs() for name in _LOADS)
    growth = (both["size_bytes_b"] - both["size_bytes_a"]).abs()
    both = both.assign(growth=growth)[difference > 0].reset_index()
    return both.sort_values(["growth", "topic"], ascending=[False, True]).drop(columns="growth")


def plan_differences(
    a: pd.DataFrame, b: pd.DataFrame, moves_a: pd.DataFrame | None, moves_b: pd.DataFrame | None
) -> PlanDifferences:
    """Compare table ``plan`` of two runs, and the reasons in ``moves``."""
    both = a.merge(b, "outer", on=KEY, suffixes=("_a", "_b"))
    in_a, in_b = both["is_changed_a"].eq(True), both["is_changed_b"].eq(True)
    same = both["proposed_replicas_a"] == both["proposed_replicas_b"]
    both["kind"] = OTHER_LIST
    for kind, rows in ((SAME_LIST, in_a & in_b & same), (ONLY_A, in_a & ~in_b), (ONLY_B, in_b & ~in_a)):
        both.loc[rows, "kind"] = kind
    both["is_done"] = (both["kind"] == ONLY_A) & (both["proposed_replicas_a"] == both["current_replicas_b"])
    both["largest"] = both[["moved_bytes_a", "moved_bytes_b"]].max(axis=1)
    changed = both[in_a | in_b].sort_values(["largest", *KEY], ascending=[False, True, True])
    columns = ("current_replicas", "proposed_replicas", "moved_bytes", "reason_codes")
    partitions = changed[[*KEY, "kind", "is_done", *(f"{name}_{run}" for run in "ab" for name in columns)]]
    has_moves = moves_a is not None and moves_b is not None
    return PlanDifferences(partitions, _reasons([(a, moves_a), (b, moves_b)]) if has_moves else None)


def _reasons(plans: Sequence[tuple[pd.DataFrame, Any]]) -> pd.DataFrame:
    columns = {}
    for run, (plan, moves) in zip("ab", plans, strict=True):
        codes = plan.loc[plan["is_changed"], "reason_codes"]
        columns[f"partitions_{run}"] = codes.str.split(",").explode().value_counts()
        columns[f"copies_{run}"] = moves.groupby("reason")["to_broker"].count()
        columns[f"bytes_{run}"] = moves.groupby("reason")["size_bytes"].sum()
    table = pd.DataFrame(columns, index=pd.Index(REASONS, name="reason")).fillna(0).astype("int64")
    return table[table.any(axis=1)].reset_index()


def towards(plan: pd.DataFrame, instance: pd.DataFrame) -> Progress:
    """How far the cluster in ``instance`` went towards ``plan``, which an earlier run made."""
    columns = {"replicas": "now", "controller_replicas": "in_flight"}
    now = instance[[*KEY, *columns]].rename(columns=columns)
    both = plan.merge(now, "left", on=KEY, indicator=True)
    exists = both["_merge"] == "both"
    reached = exists & (both["now"] == both["proposed_replicas"])
    both["state"] = NEITHER
    for state, rows in (
        (NO_PARTITION, ~exists),
        (OLD, exists & (both["now"] == both["current_replicas"])),
        (DONE, reached & both["in_flight"].isna()),
        (IN_FLIGHT, reached & both["in_flight"].notna()),
    ):
        both.loc[rows, "state"] = state
    changed = both[both["is_changed"]].sort_values(["moved_bytes", *KEY], ascending=[False, True, True])
    partitions = changed.assign(wave=changed["wave"].fillna(0).astype("int64"), is_reordered=_reordered(changed))
    other = ~both["is_changed"] & exists & (both["now"] != both["current_replicas"])
    names = [*KEY, "wave", "current_replicas", "proposed_replicas", "now", "moved_bytes", "state", "is_reordered"]
    return Progress(partitions[names], int(other.sum()))


def _reordered(changed: pd.DataFrame) -> pd.Series:
    """Whether a partition with neither list has the brokers of the proposal in another order."""
    neither = changed[changed["state"] == NEITHER]
    now, proposed = (neither[name].map(lambda text: sorted(text.split(","))) for name in ("now", "proposed_replicas"))
    return (now == proposed).reindex(changed.index, fill_value=False)


def wave_times(run: RunRows, progress: Progress | None) -> list[WaveTime]:
    """Predicted and measured times of a run's waves, and the partitions that have the proposal since."""
    done: Any = {}
    if progress:
        done = progress.partitions.loc[progress.partitions["state"] == DONE, "wave"].value_counts()
    rows = run.tables["waves"].sort_values("wave") if "waves" in run.tables else pd.DataFrame()
    return [
        WaveTime(
            run.run_id,
            int(row["wave"]),
            int(row["partitions"]),
            int(row["moved_bytes"]),
            int(done.get(row["wave"], 0)) if progress else None,
            int(row["estimated_seconds"]),
            int(row["least_seconds"]),
            int(row["most_seconds"]),
            row["wave"] in run.measured,
            run.measured.get(int(row["wave"])),
        )
        for row in rows.to_dict("records")
    ]
