"""Rows of the small tables of stage solve."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from optimizer.solve import driver

DIGITS = 9  # decimals of a violation: more digits would be rounding errors of sums
Rows = Iterable[Mapping[str, object]]


def small_tables(solved: driver.Solved[Any]) -> dict[str, Rows]:
    """Rows of the tables that are small: ``shard_results``, ``bounds`` and ``curve``."""
    return {"shard_results": _shard_rows(solved), "bounds": _bound_rows(solved), "curve": _curve_rows(solved)}


def _shard_rows(solved: driver.Solved[Any]) -> Iterator[dict[str, object]]:
    for shard in solved.shards:
        yield {**vars(shard.status), "round": shard.round, "shard_id": shard.shard_id}


def _bound_rows(solved: driver.Solved[Any]) -> Iterator[dict[str, object]]:
    for cluster_id, rows in solved.bounds.rows.items():
        yield from ({"cluster_id": cluster_id, **vars(row)} for row in rows)


def _curve_rows(solved: driver.Solved[Any]) -> Iterator[dict[str, object]]:
    for cluster_id, cluster in solved.clusters.items():
        for point in cluster.progress.curve:
            yield {
                "cluster_id": cluster_id,
                "move_price": point.move_price,
                "moves": point.moves,
                "moved_bytes": round(point.cost),
                "violation": round(point.violation, DIGITS),
            }
