"""SVG geometry of the load charts: a column per broker, a panel per placement, one scale per resource."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.rows import LoadRow
from optimizer.units import human_bytes, human_count, human_rate

WIDTH, HEIGHT = 1000.0, 110.0  # pixels, as the report shows them
_LABELS = 40  # with more brokers, their ids do not fit
_TITLES = 150  # with more brokers, tooltips would make the page too large


@dataclass(frozen=True)
class Column:
    """One broker's column: a rectangle and its tooltip."""

    x: float
    y: float
    width: float
    height: float
    title: str
    leaving: bool


@dataclass(frozen=True)
class Panel:
    """The columns of one placement.

    Parameters
    ----------
    path : str
        Columns of the brokers that stay, as one SVG path.
    leaving : str
        Columns of the brokers to empty, as one SVG path.
    """

    caption: str
    path: str
    leaving: str
    hover: Sequence[Column]


@dataclass(frozen=True)
class Chart:
    """One resource: panels on one scale, the mean, racks, and broker ids if they fit.

    Parameters
    ----------
    band : str
        The band of each broker, as an SVG path; empty if the tables have no band of the resource.
    """

    title: str
    top: str
    mean_y: float
    mean: str
    band: str
    panels: Sequence[Panel]
    labels: Sequence[tuple[float, str]]
    racks: Sequence[tuple[float, float, str]]


_Load = Callable[[LoadRow], int]


@dataclass(frozen=True)
class _Resource:
    """A chart's title, the load of a row, the format of a load, and whether the tables have its band."""

    title: str
    load: _Load
    show: Callable[[float], str]
    has_band: bool = False


_RESOURCES = (
    _Resource("Disk", lambda row: row.disk_bytes, human_bytes, has_band=True),
    _Resource("Replicas", lambda row: row.replicas, human_count),
    _Resource("Preferred leaders", lambda row: row.leaders, human_count),
    _Resource("Bytes in per second", lambda row: row.in_bytes_per_s, human_rate),
    _Resource("Bytes out per second", lambda row: row.out_bytes_per_s, human_rate),
)
_PLACEMENTS = (("before", "before"), ("baseline", "Kafka's default"), ("after", "this plan"))


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _path(columns: Sequence[Column]) -> str:
    return "".join(
        f"M{_n(c.x)} {_n(c.y)}h{_n(c.width)}v{_n(c.height)}h{_n(-c.width)}z" for c in columns if c.height > 0
    )


def _ordered(rows: Sequence[LoadRow]) -> list[LoadRow]:
    return sorted(rows, key=lambda row: (row.rack is None, row.rack or "", row.broker_id))


def _panel(
    caption: str, rows: Sequence[LoadRow], load: _Load, top: float, show: Callable[[float], str], leaving: set[int]
) -> Panel:
    step = WIDTH / len(rows)
    width = step * (0.8 if len(rows) <= 200 else 1.0)
    columns = []
    for i, row in enumerate(rows):
        height = HEIGHT * load(row) / top
        title = f"{row.broker_id}: {show(load(row))}"
        x = i * step + (step - width) / 2
        columns.append(Column(x, HEIGHT - height, width, height, title, row.broker_id in leaving))
    staying = [c for c in columns if not c.leaving]
    hover = columns if len(columns) <= _TITLES else []
    return Panel(caption, _path(staying), _path([c for c in columns if c.leaving]), hover)


def _racks(rows: Sequence[LoadRow]) -> list[tuple[float, float, str]]:
    """Start, width and name of each rack's columns; empty if no broker has a rack."""
    step, runs = WIDTH / len(rows), list[tuple[float, float, str]]()
    for i, row in enumerate(rows):
        if row.rack is None:
            continue
        if runs and runs[-1][2] == row.rack:
            start, width, name = runs[-1]
            runs[-1] = (start, width + step, name)
        else:
            runs.append((i * step, step, row.rack))
    return runs


def _band(rows: Sequence[LoadRow], top: float, leaving: set[int]) -> str:
    """The disk bands as one path, except for brokers to empty and brokers without a band."""
    step = WIDTH / len(rows)
    parts = []
    for i, row in enumerate(rows):
        upper, lower = min(row.disk_upper_bytes, top), row.disk_lower_bytes
        if row.broker_id not in leaving and 0 <= lower <= upper:
            y, height = HEIGHT * (1 - upper / top), HEIGHT * (upper - lower) / top
            parts.append(f"M{_n(i * step)} {_n(y)}h{_n(step)}v{_n(height)}h{_n(-step)}z")
    return "".join(parts)


def _chart(plan: ClusterPlan, resource: _Resource) -> Chart | None:
    load, show = resource.load, resource.show
    rows_of_placement = {name: _ordered([r for r in plan.balance if r.placement == name]) for name, _ in _PLACEMENTS}
    top = max((load(row) for rows in rows_of_placement.values() for row in rows), default=0)
    if not top:
        return None
    leaving = {b.broker_id for b in plan.brokers if b.must_empty}
    accepting = {b.broker_id for b in plan.brokers if b.accepts_replicas}
    after = rows_of_placement["after"]
    mean = sum(load(r) for r in after if r.broker_id in accepting) / max(len(accepting), 1)
    step = WIDTH / len(after)
    labels = [((i + 0.5) * step, str(r.broker_id)) for i, r in enumerate(after)] if len(after) <= _LABELS else []
    panels = [_panel(caption, rows_of_placement[name], load, top, show, leaving) for name, caption in _PLACEMENTS]
    band = _band(after, top, leaving) if resource.has_band else ""
    return Chart(resource.title, show(top), HEIGHT * (1 - mean / top), show(mean), band, panels, labels, _racks(after))


def charts(plan: ClusterPlan) -> list[Chart]:
    """A chart for each resource that has any load."""
    resource_charts = (_chart(plan, resource) for resource in _RESOURCES)
    return [chart for chart in resource_charts if chart is not None]
