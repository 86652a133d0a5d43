"""Other plans for the same cluster: the alternatives, and the curve of moves against bytes."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.units import human_bytes, human_count, human_hours, human_percent, human_ratio

THIS_PLAN = "this plan"


COLUMNS: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("moved_bytes", "bytes copied", human_bytes),
    ("replicas_moved", "replicas copied", human_count),
    ("waves", "waves", human_count),
    ("estimated_hours", "time", human_hours),
    ("fullest_disk_percent", "fullest disk", human_percent),
    ("disk_max_over_mean", "fullest disk, over the mean", human_ratio),
    ("rack_violations", "break the rack rule", human_count),
    ("replicas_on_leaving_brokers", "on brokers to empty", human_count),
    ("stopped_by_worst_rack", "stopped by the worst rack", human_count),
)


@dataclass(frozen=True)
class OtherPlan:
    """One row: name, what differs, and the cells of the columns."""

    name: str
    knobs: str
    cells: Sequence[str]


def other_plans(plan: ClusterPlan, fullest_percent: float | None) -> tuple[list[str], list[OtherPlan]]:
    """Headings of the columns, and a row for this plan and for each alternative; no rows without alternatives.

    Parameters
    ----------
    fullest_percent : float, optional
        The fullest disk after this plan, in percent of its capacity.
    """
    values: dict[str, dict[str, float | None]] = defaultdict(dict)
    knobs: dict[str, str] = {}
    for row in sorted(plan.alternatives, key=lambda row: row.position):
        values[row.alternative][row.figure] = row.value
        knobs[row.alternative] = row.knobs
    if not values:
        return [], []
    own = {name: plan.figure(name) for name, _, _ in COLUMNS if name != "fullest_disk_percent"}
    own["fullest_disk_percent"] = fullest_percent
    rows = {THIS_PLAN: own, **values}
    columns = list(_known(rows))
    texts = [
        OtherPlan(name, knobs.get(name, ""), [_text(figures.get(figure), show) for figure, _, show in columns])
        for name, figures in rows.items()
    ]
    return [label for _, label, _ in columns], texts


def _known(rows: dict[str, dict[str, float | None]]) -> Iterator[tuple[str, str, Callable[[float], str]]]:
    """Columns with a value in some row; disks over the mean only where percents are unknown."""
    has_percent = any(figures.get("fullest_disk_percent") is not None for figures in rows.values())
    for column in COLUMNS:
        is_known = any(figures.get(column[0]) is not None for figures in rows.values())
        if is_known and not (column[0] == "disk_max_over_mean" and has_percent):
            yield column


def _text(value: float | None, show: Callable[[float], str]) -> str:
    return "-" if value is None else show(value)
