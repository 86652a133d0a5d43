"""Each partition's current, default and proposed list, and how they differ."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from optimizer.domain import REORDERED, TIERED_SOURCES, Bools
from optimizer.planning.arrays import bytes_to, replica_matrix
from optimizer.planning.late_waves import MOMENTS

# Of a wave: bytes per second of its copies, as planned and as requested; with windows also the moments in seconds of
# Unix time, and the index of its window.
TIMES = ("copy_bytes_per_s", "requested_bytes_per_s", *MOMENTS, "window")
# Columns about Kafka's default; null for a partition without one.
DEFAULT = {
    "replicas": "baseline_replicas",
    "moved_bytes": "default_moved_bytes",
    "added_replicas": "default_added_replicas",
    "leader_changed": "default_leader_changed",
}
# Sums over the partitions of a cluster: the figures of the summary that lists alone decide.
TOTALS = (
    *("total_bytes", "partitions", "moved_bytes", "replicas_moved", "partitions_changed"),
    *("tiered_stored_bytes", "tiered_moved_bytes"),
    *("leader_changes", "followers_reordered", "factor_changes", "default_moved_bytes", "default_replicas_moved"),
    *("default_partitions_changed", "default_leader_changes", "default_factor_changes", "min_isr_unknown"),
    "baseline_refused",
)

Lists = Sequence[list[int]]


def compare_lists(rows: pd.DataFrame, hosts: pd.DataFrame) -> pd.DataFrame:
    """Partitions with the changes of the plan and their reasons; no waves yet. Each row is compared alone.

    Parameters
    ----------
    rows : DataFrame
        Columns of ``instance``, with ``current_replicas`` instead of ``replicas``; the columns of ``DEFAULT``;
        ``proposed_replicas``; and ``move_reasons``, the codes of a partition's moves, ascending. Lists that are null:
        no default; as now; no move.
    hosts : DataFrame
        Rows of ``instance_brokers``.
    """
    current = [*map(_ids, rows["current_replicas"])]
    default = [*map(_ids, rows["baseline_replicas"])]
    proposed = [_ids(ids) if np.ndim(ids) else now for ids, now in zip(rows["proposed_replicas"], current, strict=True)]
    changed = np.array([new != old for new, old in zip(proposed, current, strict=True)], dtype=bool)
    ids = np.sort(hosts["broker_id"].to_numpy(dtype=np.int64))
    adding, removing = _only_in(proposed, current), _only_in(current, proposed)
    reasons = [
        ([*codes] if np.ndim(codes) else [REORDERED]) if differs else []
        for codes, differs in zip(rows["move_reasons"], changed, strict=True)
    ]
    return rows.assign(
        current_replicas=_objects(current, rows),
        baseline_replicas=_objects(default, rows),
        proposed_replicas=_objects(proposed, rows),
        adding_replicas=_objects(adding, rows),
        removing_replicas=_objects(removing, rows),
        moved_bytes=bytes_to(rows, hosts, replica_matrix(pd.Series(adding, dtype=object), ids)).sum(axis=1),
        is_changed=changed,
        leader_changed=_first_differs(proposed, current),
        default_changed=[bool(new) and new != old for new, old in zip(default, current, strict=True)],
        reason_codes=_objects(reasons, rows),
        reasons=_objects([",".join(codes) for codes in reasons], rows),
        in_sync_followers=[_followers(leader, isr) for leader, isr in zip(rows["leader"], rows["isr"], strict=True)],
        wave=None,
        planned_log_dirs=None,
        **dict.fromkeys(TIMES),
    )


def with_totals(compared: pd.DataFrame) -> pd.DataFrame:
    """The columns of ``TOTALS``, whole numbers for each row of ``compare_lists``; null without a default."""
    now, default, new = (
        compared[name].map(len) for name in ("current_replicas", "baseline_replicas", "proposed_replicas")
    )
    copies, removals = (compared[name].map(len) for name in ("adding_replicas", "removing_replicas"))
    is_changed, leader_changed = compared["is_changed"].astype(bool), compared["leader_changed"].astype(bool)
    only_followers = is_changed & ~leader_changed & (copies + removals == 0)
    has_default = compared["default_moved_bytes"].notna()
    is_tiered = compared["copy_source"].isin(TIERED_SOURCES)
    totals = {
        "total_bytes": compared["size_bytes"] * now,
        "partitions": 1,
        "tiered_stored_bytes": (compared["size_bytes"] * copies).where(is_tiered, 0),
        "tiered_moved_bytes": compared["moved_bytes"].where(is_tiered, 0),
        "replicas_moved": copies,
        "partitions_changed": is_changed,
        "leader_changes": leader_changed,
        "followers_reordered": only_followers,
        "factor_changes": (new > 0) & (new != now),
        "default_replicas_moved": compared["default_added_replicas"],
        "default_partitions_changed": compared["default_changed"].where(has_default),
        "default_leader_changes": compared["default_leader_changed"],
        "default_factor_changes": ((default > 0) & (default != now)).where(has_default),
        "min_isr_unknown": compared["min_insync_replicas"].isna(),
        "baseline_refused": (default == 0).where(has_default),
    }
    columns = {name: pd.Series(values, compared.index).astype("Int64") for name, values in totals.items()}
    return compared.assign(**columns)


def joined_lists(instance: pd.DataFrame, proposal: pd.DataFrame, moves: pd.DataFrame) -> pd.DataFrame:
    """Rows for ``compare_lists`` of one cluster, without Kafka's default, from rows of these tables.

    ``given_log_dirs`` are the ``planned_log_dirs`` of a proposal, if it has them.
    """
    key = ["topic", "partition"]
    proposed = proposal.rename(columns={"replicas": "proposed_replicas", "planned_log_dirs": "given_log_dirs"})
    proposed = proposed[[name for name in (*key, "proposed_replicas", "given_log_dirs") if name in proposed]]
    reasons = moves.groupby(key)["reason"].agg(lambda codes: sorted(set(codes))).rename("move_reasons")
    rows = instance.rename(columns={"replicas": "current_replicas"}).assign(**dict.fromkeys(DEFAULT.values()))
    for part in (proposed, reasons.reset_index()):
        rows = rows.merge(part.astype({"partition": rows["partition"].dtype}), on=key, how="left")
    return rows


def _ids(brokers: Iterable[int] | float | None) -> list[int]:
    return [int(b) for b in brokers] if isinstance(brokers, Iterable) else []


def _objects(values: Sequence[object], rows: pd.DataFrame) -> pd.Series:
    column = np.empty(len(rows), dtype=object)
    column[:] = values
    return pd.Series(column, rows.index)


def _only_in(lists: Lists, others: Lists) -> list[list[int]]:
    """The brokers of each list that the other list lacks, ascending."""
    pairs = zip(lists, others, strict=True)
    return [sorted({*brokers} - {*other}) if brokers != other else [] for brokers, other in pairs]


def _first_differs(new: Lists, old: Lists) -> Bools:
    return np.array([n[:1] != o[:1] for n, o in zip(new, old, strict=True)], dtype=bool)


def _followers(leader: float | None, isr: Iterable[int]) -> int:
    """In-sync replicas without the leader; 0 without a leader."""
    return 0 if pd.isna(leader) else len({int(b) for b in isr} - {int(leader)})
