"""The quality page of a cluster from rows of its tables, without Spark: the same bytes as the job's page.

``optimizer.stages.validate.quality_pages`` has the same choice of rows as a query.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from optimizer.emit.quality_causes import FIGURES_OF_RULES, SHARE, UNREAD_RULES, consequences_of
from optimizer.emit.quality_page import EXAMPLES, quality_page

Row = Mapping[str, Any]
_ORDER = ("source", "line", "kind", "rule", "payload")
_UNREAD_FIGURES = {rule: figure for figure, rule in UNREAD_RULES.items()}


def page_of(results: Sequence[Row], first: Sequence[Row], *, cluster_id: str, run_id: str) -> str:
    """The quality page of a cluster.

    Parameters
    ----------
    results : sequence of rows
        Rows of ``quality_results`` of the cluster, by table and rule.
    first : sequence of rows
        ``first_rows`` of its quarantine.
    """
    stopping = {row["rule"] for row in results if row["severity"] == "critical" and not row["success"]}
    return quality_page(
        results,
        first,
        cluster_id=cluster_id,
        run_id=run_id,
        consequences=consequences_of(stopping),
        figures_of_rules=FIGURES_OF_RULES,
    )


def in_order(results: Iterable[Row]) -> list[Row]:
    """Rows of ``quality_results`` of one cluster in the order of its page."""
    return sorted(results, key=lambda row: (_key(row["table_name"]), _key(row["rule"])))


def first_rows(quarantine: Iterable[Row]) -> list[dict[str, Any]]:
    """The first rows of each check of one cluster, with the number of all its rows; by check, in Spark's order.

    A row belongs to its own rule and to each figure that counts it. Figures of unread input have no rule with a result
    of its own, so such a row belongs to the figure alone. Only the returned rows are in memory.
    """
    totals: dict[str, int] = {}
    first: dict[str, list[Row]] = {}
    for row in quarantine:
        for check in _checks(row):
            totals[check] = totals.get(check, 0) + 1
            rows = first.setdefault(check, [])
            insort(rows, row, key=_place)
            del rows[EXAMPLES:]
    return [
        {**row, "check": check, "total": totals[check]} for check in sorted(first, key=_key) for row in first[check]
    ]


def _checks(row: Row) -> Iterator[str]:
    rule, is_error = row["rule"], row["severity"] == "error"
    own = (_UNREAD_FIGURES.get(rule) if is_error else None) or rule
    yield from (check for check in (own, FIGURES_OF_RULES.get(rule), SHARE if is_error else None) if check is not None)


def _place(row: Row) -> tuple[tuple[bool, bytes | int], ...]:
    return tuple(_key(row[name]) for name in _ORDER)


def _key(value: str | int | None) -> tuple[bool, bytes | int]:
    """A sort key with Spark's ascending order: null first, texts by their bytes in UTF-8."""
    if isinstance(value, str):
        return True, value.encode()
    return value is not None, value or 0
