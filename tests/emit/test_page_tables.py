"""Each table of the pages has the values of its rows: in the right column, with the right unit, in the right order."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

import pytest

from optimizer.emit import rows
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.units import human_bytes, human_moment, human_percent, human_ratio, human_times
from tests.emit.texts import Row, by_header, html_tables, markdown_tables, report_of, runbook_of, summary_of, text_table
from tests.emit.unsafe import CAPACITY, GB, HOUR, MB, WINDOW_HOURS, unsafe

PLAN = unsafe()
MANY = unsafe(70, [f"rack {n:02d}<b>" for n in range(14)])  # more brokers and racks than one drawing shows
HOT = 85  # percent: five below the limit
MARKS = {2: "drain", 3: "dead", 4: "fenced", 5: "closed", 6: "new", 11: "dead"}


@cache
def _tables(page: str) -> dict[str, list[Row]]:
    return html_tables(report_of({"report": PLAN, "many": MANY}[page]))


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / GB:,.0f}"


def _mb(rate: float | None) -> str:
    return "-" if rate is None else f"{rate / MB:,.1f}"


def _dash(value: object) -> str:
    return "-" if value is None else f"{value}"


def _at(percent: float) -> str:
    """A position in a drawing whose width is 104 %."""
    return f"{percent / 1.04:.1f}".removesuffix(".0")


def _bar(part: float, whole: float) -> str:
    return f"bar:{100 * part / whole:.1f}".removesuffix(".0")


def _loads(plan: ClusterPlan, broker: int) -> tuple[rows.LoadRow, rows.LoadRow]:
    found = {row.placement: row for row in plan.balance if row.broker_id == broker}
    return found["before"], found["after"]


def _peak(plan: ClusterPlan, broker: int) -> float:
    copying = [row.peak_disk_bytes for row in plan.broker_waves if row.broker_id == broker]
    return max(*copying, *(row.disk_bytes for row in _loads(plan, broker)), 0)


def _busy(plan: ClusterPlan, broker: int) -> int:
    return sum(row.busy_seconds for row in plan.broker_waves if row.broker_id == broker)


def _drawn(plan: ClusterPlan, broker: int) -> str:
    """Its band, its way to the peak, its way, and its two dots."""
    before, after = _loads(plan, broker)
    old, new, peak = (100 * size / CAPACITY for size in (before.disk_bytes, after.disk_bytes, _peak(plan, broker)))
    lower, upper = (100 * size / CAPACITY for size in (after.disk_lower_bytes, after.disk_upper_bytes))
    marks = [f"area:{_at(lower)}:{_at(upper - lower)}"] if MARKS.get(broker) not in ("drain", "dead") else []
    marks += [f"peak:{_at(max(old, new))}:{_at(peak)}"] if peak > max(old, new) + 0.3 else []
    return " ".join([*marks, f"way:{_at(old)}:{_at(new)}", f"from:{_at(old)}", f"to:{_at(new)}"])


def _broker(plan: ClusterPlan, host: rows.BrokerRow, *, brief: bool = False) -> list[str]:
    broker = host.broker_id
    before, after = _loads(plan, broker)
    busiest = max(_busy(plan, row.broker_id) for row in plan.brokers)
    sizes = (before.disk_bytes, after.disk_bytes, _peak(plan, broker))
    percents = [f"{100 * size / CAPACITY:.0f}" for size in sizes]
    disk = [_drawn(plan, broker), *percents[:2], ("hot " if sizes[2] / CAPACITY > HOT / 100 else "") + percents[2]]
    waves = [row for row in plan.broker_waves if row.broker_id == broker]
    mark = MARKS.get(broker, "")
    was = "" if before.in_band or mark or brief else "was outside"
    outside = was if after.in_band else "outside"
    return [
        " ".join(filter(None, (f"{broker}", mark, outside))),
        host.rack or "-",
        *(disk if host.disk_capacity_bytes else ["", "-", "-", "-"]),
        _gb(sum(row.in_bytes for row in waves)),
        _gb(sum(row.out_bytes for row in waves)),
        _bar(_busy(plan, broker), busiest),
        f"{_busy(plan, broker) / HOUR:.1f}",
        *(f"{row.leaders:,}" for row in (before, after)),
    ]


BROKER = ("broker", "rack", "drawn,", "before", "after", "peak", "gets", "sends", "drawn", "copying",
          "before", "after")  # fmt: skip


def _by_rack(plan: ClusterPlan) -> list[rows.BrokerRow]:
    return sorted(plan.brokers, key=lambda row: (row.rack or "", row.broker_id))


def _with_sum(plan: ClusterPlan, shown: Sequence[rows.BrokerRow], *, brief: bool = False) -> list[Row]:
    ids = {row.broker_id for row in shown}
    waves = [row for row in plan.broker_waves if row.broker_id in ids]
    leaders = [sum(row.leaders for row in plan.balance if row.broker_id in ids and row.placement == side)
               for side in ("before", "after")]  # fmt: skip
    copies = (_gb(sum(row.in_bytes for row in waves)), _gb(sum(row.out_bytes for row in waves)))
    total = ["sum", "", "", "", "", "", *copies, "", "", *(f"{count:,}" for count in leaders)]
    return by_header(BROKER, *(_broker(plan, host, brief=brief) for host in shown), total)


def brokers(plan: ClusterPlan) -> list[Row]:
    """All brokers, by rack and id; many ones without what was before."""
    return _with_sum(plan, _by_rack(plan), brief=plan is MANY)


def most_loaded(plan: ClusterPlan) -> list[Row]:
    """The ten fullest while copying, then the ten busiest others."""

    def fullest(row: rows.BrokerRow) -> tuple[float, int]:
        return -_peak(plan, row.broker_id), row.broker_id

    def busiest(row: rows.BrokerRow) -> tuple[float, int]:
        return -_busy(plan, row.broker_id), row.broker_id

    first = sorted((row for row in plan.brokers if row.broker_id != _DEAD), key=fullest)[:10]
    others = sorted((row for row in plan.brokers if row not in first), key=busiest)[:10]
    return _with_sum(plan, [*first, *others])


_DEAD = 3  # its capacity is unknown


def racks_drawn(plan: ClusterPlan) -> list[Row]:
    """A dot for each broker before and after; least and most of each rack."""
    found = []
    for rack in sorted({row.rack or "" for row in plan.brokers}):
        hosts = [row for row in plan.brokers if (row.rack or "") == rack]
        known = [row.broker_id for row in hosts if row.disk_capacity_bytes]
        shares = [
            [100 * size / CAPACITY for size in (*(row.disk_bytes for row in _loads(plan, b)), _peak(plan, b))]
            for b in sorted(known)
        ]
        dots = " ".join(f"from:{_at(old)} to:low:{_at(new)}" for old, new, _ in shares)
        ends = [f"{min(values):.0f} to {max(values):.0f}" for values in zip(*shares, strict=True)]
        found.append([rack or "-", str(len(hosts)), dots, *ends])
    return by_header(("rack", "brokers", "drawn,", "before, %", "after, %", "peak, %"), *found)


def other_loads(plan: ClusterPlan) -> list[Row]:
    """Replicas and rates before and after."""
    found = []
    for host in _by_rack(plan):
        sides = _loads(plan, host.broker_id)
        counts = [f"{side.replicas:,}" for side in sides]
        rates = [_mb(getattr(side, f"{way}_bytes_per_s")) for way in ("in", "out") for side in sides]
        found.append([str(host.broker_id), host.rack or "-", *counts, *rates])
    header = ("broker", "rack", "replicas", "after", "MB/s in", "after", "MB/s out", "after")
    return by_header(header, *found)


def directories(plan: ClusterPlan) -> list[Row]:
    """The fullest moment first, in percent; unknown capacities last."""
    states = {
        107: "open",
        114: "failed or cordoned, over its limit, outside its band",
        121: "open, over its limit",
        128: "open, outside its band",
    }

    def percent(row: rows.DirectoryRow, size: int) -> str:
        return f"{100 * size / row.capacity_bytes:.0f}" if row.capacity_bytes else "-"

    ordered = sorted(plan.directories, key=lambda row: (row.capacity_bytes is None, -row.peak_bytes))
    return by_header(
        ("broker", "directory", "before, GB", "after, GB", "peak, GB", "before, %", "after, %", "peak, %",
         "peak by Kafka, %", "fullest in wave", "limit, GB", "band, GB", "state"),
        *(
            [
                str(row.broker_id), row.log_dir, *map(_gb, (row.before_bytes, row.after_bytes, row.peak_bytes)),
                *(percent(row, s) for s in (row.before_bytes, row.after_bytes, row.peak_bytes, row.default_peak_bytes)),
                _dash(row.peak_wave), "-" if row.limit_bytes is None else _gb(row.limit_bytes),
                "-" if row.lower_bytes is None else f"{_gb(row.lower_bytes)} to {_gb(row.upper_bytes or 0)}",
                states[row.broker_id],
            ]
            for row in ordered
        ),
    )  # fmt: skip


def waves(plan: ClusterPlan) -> list[Row]:
    """Night, sizes, time and window of each wave, and its fullest disk."""
    nights = ["Sat 2026-10-31 22:30", "Sun 2026-11-01 21:30", "-", "-"]
    fits = ["may overrun", "fits", "may never end", "fits"]
    lengths = [8 * HOUR, 8 * HOUR, WINDOW_HOURS * HOUR, WINDOW_HOURS * HOUR]
    found = []
    for row, night, fit, length in zip(plan.waves, nights, fits, lengths, strict=True):
        span = row.least_seconds, row.most_seconds
        least, most, window = (100 * seconds / (8.16 * HOUR) for seconds in (*span, length))
        ends = [f"{x:.1f}".rstrip("0").rstrip(".") for x in (least, most - least, window)]
        peaks = [
            (p.peak_disk_bytes / CAPACITY, p.broker_id)
            for p in plan.broker_waves
            if p.wave == row.wave and p.broker_id != _DEAD
        ]
        fullest = max(peaks, default=None)
        found.append([
            f"wave-0{row.wave}{' inside' if row.inside_brokers else ''}", night, f"{row.partitions:,}",
            human_bytes(row.moved_bytes), f"bar:{ends[0]} upto:{ends[0]}:{ends[1]} limit:{ends[2]}:{ends[2]}",
            human_times(*span), fit, _dash(row.busiest_broker), _gb(row.busiest_bytes),
            f"{100 * fullest[0]:.0f} % ({fullest[1]})" if fullest else "-",
        ])  # fmt: skip
    header = ("wave", "night", "partitions", "bytes", "drawn", "time", "window", "busiest broker", "its GB",
              "fullest disk (broker)")  # fmt: skip
    return by_header(header, *found)


def _flow(plan: ClusterPlan) -> Counter[tuple[str, str]]:
    flow = Counter[tuple[str, str]]()
    for row in plan.rack_flow:
        flow[row.from_rack, row.to_rack] += row.copied_bytes
    return flow


def matrix(plan: ClusterPlan) -> list[Row]:
    """From the rack of the row to the rack of the column."""
    flow = _flow(plan)
    names, largest = sorted({row.rack for row in plan.brokers if row.rack}), max(flow.values())

    def cell(size: int) -> str:
        return f"heat{min(1 + int(4 * size / largest), 4)} {human_bytes(size)}" if size else "0"

    return by_header(("from", *names), *([a, *(cell(flow[a, b]) for b in names)] for a in names))


def _amounts(name: str, counted: str, *found: tuple[str, int, int]) -> list[Row]:
    largest = max(size for _, _, size in found)
    header = [name, *([counted] if counted else []), "drawn", "bytes"]
    cells = (
        [text, *([f"{n:,}"] if counted else []), _bar(size, largest), human_bytes(size)] for text, n, size in found
    )
    return by_header(header, *cells)


def pairs(plan: ClusterPlan) -> list[Row]:
    """The twenty largest."""
    largest = sorted(_flow(plan).items(), key=lambda pair: (-pair[1], pair[0]))[:20]
    return _amounts("racks", "", *((f"{a} → {b}", 0, size) for (a, b), size in largest))


def _sums(items: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """Number and sum by name."""
    found: dict[str, tuple[int, int]] = {}
    for name, size in items:
        count, total = found.get(name, (0, 0))
        found[name] = count + 1, total + size
    return found


def reasons(plan: ClusterPlan) -> list[Row]:
    """The most urgent first."""
    names = {
        "rack": "repair racks",
        "drain": "empty a broker",
        "replication": "change the replication factor",
        "balance": "balance",
    }
    sums = _sums((row.reason, row.size_bytes) for row in plan.moves if row.to_broker is not None)
    return _amounts("reason", "copies", *((text, *sums[name]) for name, text in names.items()))


def topics(plan: ClusterPlan) -> list[Row]:
    """Most bytes first."""
    sums = _sums((row.topic, row.moved_bytes) for row in plan.changed if row.moved_bytes)
    return _amounts("topic", "partitions", *((name, *sums[name]) for name in ("large<b>", "small<i>")))


def inside_by_broker(plan: ClusterPlan) -> list[Row]:
    """Most bytes first."""
    sums = _sums((str(row.broker_id), row.size_bytes) for row in plan.dir_moves)
    return _amounts("broker", "replicas", *((name, *sums[name]) for name in ("6", "5")))


def copies(plan: ClusterPlan) -> list[Row]:
    """The largest first; each with the wave of its partition."""
    wave_of = {(row.topic, row.partition): row.wave for row in plan.changed}
    copied = sorted((row for row in plan.moves if row.to_broker is not None), key=lambda row: -row.size_bytes)
    return by_header(
        ("partition", "GB", "from", "to", "reason", "wave"),
        *(
            [f"{row.topic}-{row.partition}", _gb(row.size_bytes), _dash(row.from_broker), str(row.to_broker),
             row.reason, str(wave_of[row.topic, row.partition])]
            for row in copied
        ),
    )  # fmt: skip


def inside(plan: ClusterPlan) -> list[Row]:
    """The largest first."""
    return by_header(
        ("partition", "GB", "broker", "from directory", "to directory", "wave"),
        *(
            [f"{row.topic}-{row.partition}", _gb(row.size_bytes), str(row.broker_id), row.from_log_dir, row.to_log_dir,
             str(row.wave)]
            for row in sorted(plan.dir_moves, key=lambda row: -row.size_bytes)
        ),
    )  # fmt: skip


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"


def groups(plan: ClusterPlan) -> list[Row]:
    """Racks before leaders before copies; the consumer protocol ignores racks; unknown ones last."""
    found = {row.group_id.rpartition(">")[2]: row for row in plan.consumer_groups}
    bold = {"3": "rack_set_changes", "6": "rack_set_changes"}  # who may rebalance
    assert [name for name, row in found.items() if row.may_rebalance] == [*bold]
    waves_of = {"3": "1, 2", "6": "3", "2": "1, 3", "4": "2", "1": "1", "5": "-", "7": "-"}
    return by_header(
        ("group", "racks change", "leaders change", "copied", "waves", "state", "assignor", "members", "partitions",
         "MB/s", "busiest / mean", "possible", "lag"),
        *(
            [
                row.group_id, *map(_number, (row.rack_set_changes, row.leader_changes, row.copied)), text,
                _dash(row.state), _dash(row.assignor), _number(row.members), _number(row.partitions),
                _mb(row.in_bytes_per_s), f"{row.busiest_over_mean:.2f}", f"{row.possible_over_mean:.2f}",
                _number(row.lag_messages),
            ]
            for row, text in ((found[name], text) for name, text in waves_of.items())
        ),
    )  # fmt: skip


def notice(_: ClusterPlan) -> list[Row]:
    """Groups of the consumer protocol rebalance never."""
    header = ("wave", "groups", "may rebalance", "get new leaders", "names")
    found = {1: (3, 1, 1, "123"), 2: (2, 1, 2, "34"), 3: (2, 1, 1, "26")}
    return by_header(
        header,
        *(
            [str(wave), *map(str, numbers), ", ".join(f"group_id <b>{name}" for name in names)]
            for wave, (*numbers, names) in found.items()
        ),
    )


def members(plan: ClusterPlan) -> list[Row]:
    """The busiest first; a member without a client id has its own."""
    first, second, third = plan.consumer_members
    return by_header(
        ("group", "client", "host", "partitions", "MB/s", "reads from brokers", "after the plan"),
        *(
            [row.group_id, row.client_id or row.member_id, _dash(row.host), _number(row.partitions),
             _mb(row.in_bytes_per_s), ", ".join(map(str, row.brokers)), ", ".join(map(str, row.brokers_after))]
            for row in (second, first, third)
        ),
    )  # fmt: skip


def alternatives(plan: ClusterPlan) -> list[Row]:
    """This plan first, then the others by position."""
    fullest = max(_loads(plan, row.broker_id)[1].disk_bytes for row in plan.brokers if row.disk_capacity_bytes)
    own = {name: row.after for name, row in plan.figures.items()} | {"fullest_disk_percent": 100 * fullest / CAPACITY}
    found = {"this plan": own}
    for position in (1, 2):
        its = [row for row in plan.alternatives if row.position == position]
        found[its[0].alternative] = {row.figure: row.value for row in its}

    least, most = (sum(getattr(row, f"{end}_seconds") for row in plan.waves) / HOUR for end in ("least", "most"))
    own |= {"least_hours": least, "most_hours": most}

    def hours(its: dict[str, float | None]) -> str:
        if its["most_hours"] is None:
            return "-"
        return human_times(*(HOUR * (its[name] or 0.0) for name in ("least_hours", "most_hours")))

    columns: dict[str, tuple[str, Callable[[float], str]]] = {
        "bytes copied": ("moved_bytes", human_bytes), "replicas copied": ("replicas_moved", _number),
        "waves": ("waves", _number), "time": ("most_hours", _number),
        "fullest disk": ("fullest_disk_percent", human_percent),
        "brokers outside the bands of this plan": ("brokers_outside_bands", _number),
        "break the rack rule": ("rack_violations", _number),
        "on brokers to empty": ("replicas_on_leaving_brokers", _number),
        "stopped by the worst rack": ("stopped_by_worst_rack", _number),
    }  # fmt: skip

    def cell(value: float | None, show: Callable[[float], str]) -> str:
        return "-" if value is None else show(value)

    cells = (
        [name if name == "this plan" else f"{name} knobs {name[6:]}",
         *(hours(its) if key == "most_hours" else cell(its[key], show) for key, show in columns.values())]
        for name, its in found.items()
    )  # fmt: skip
    return by_header(["plan", *columns], *cells)


def curve(plan: ClusterPlan) -> list[Row]:
    """In the order of the table."""
    header = ("copies", "bytes", "load left outside bands")
    return by_header(
        header, *([str(row.moves), human_bytes(row.moved_bytes), f"{row.violation:.1f}"] for row in plan.curve)
    )


_WHEN = {"both": "before and after", "before": "before only", "after": "after only", "during": "while it moves"}


def _finding(row: rows.FindingRow | rows.InputFindingRow, when: str, count: int = 1) -> list[str]:
    similar = f"{count} similar findings, the first: " if count > 1 else ""
    return [row.remedy, f"{similar}{row.subject}: {row.detail}", when, str(count), row.rule]


_FINDING = ("what", "when", "findings", "code")


def _by_remedy(*found: list[str]) -> list[Row]:
    """Below a head for each remedy, the findings that it helps."""
    remedies = dict.fromkeys(remedy for remedy, *_ in found)
    lines = [
        line
        for remedy in remedies
        for line in (
            ["", "", "", f"What to do: {remedy}" if remedy else "Only noted"],
            *(cells for other, *cells in found if other == remedy),
        )
    ]
    return by_header(_FINDING, *lines)


def open_findings(plan: ClusterPlan) -> list[Row]:
    """Dangers, doubtful input, what a limit leaves, then the others by severity; similar ones are counted."""
    found, inputs = {row.code: row for row in reversed(plan.findings)}, {r.standing: r for r in plan.input_findings}
    when = {"contradicts": "contradicts, 603 rows", "left_out": "left out, 602 rows", "broken": "broken"}
    return _by_remedy(
        _finding(found["stops_writes"], _WHEN["during"]),
        *(_finding(inputs[standing], text) for standing, text in when.items()),
        _finding(found["limited"], _WHEN["after"]),
        _finding(found["not_emptied"], _WHEN["after"], 4),
        *(_finding(found[code], _WHEN[found[code].when]) for code in ("not_pinned", "band", "dead_broker")),
    )


def fixed_findings(plan: ClusterPlan) -> list[Row]:
    """What the plan fixes, then what is noted."""
    [fixed] = [row for row in plan.findings if row.when == "before"]
    return _by_remedy(_finding(fixed, "before only"), _finding(plan.input_findings[0], "noted, 600 rows"))


def _shown(figure: str, value: float | None) -> str:
    if value is None:
        return "-"
    if figure.endswith("_bytes"):
        return human_bytes(value)
    ratio = "over_mean" in figure or figure == "busiest_after_broker_loss"
    return human_percent(value) if figure.endswith("percent") else human_ratio(value) if ratio else _number(value)


COMPARED = (
    *("moved_bytes", "moved_share_percent", "cross_rack_bytes", "replicas_moved", "partitions_changed", "dir_moves"),
    *("dir_moved_bytes", "followers_reordered", "leader_changes", "factor_changes", "baseline_refused"),
    *("rack_violations", "replicas_on_leaving_brokers", "brokers_outside_bands", "disk_max_over_mean"),
    *("disk_min_over_mean", "in_max_over_mean", "out_max_over_mean", "replicas_spread", "leaders_spread"),
    *("dirs_outside_bands", "fullest_directory_percent"),
)
LOST = (
    *("stopped_without_loss", "stopped_by_some_broker", "stopped_by_worst_broker", "stopped_by_some_rack"),
    *("stopped_by_worst_rack", "stopped_by_worst_two_brokers", "lost_by_worst_broker_bytes"),
    *("lost_by_worst_rack_bytes", "only_on_worst_broker_bytes", "busiest_after_broker_loss"),
)


def _sides(plan: ClusterPlan, header: Sequence[str], figures: Sequence[str], sides: Sequence[str]) -> list[Row]:
    chosen = [plan.figures[name] for name in figures]
    return by_header(
        header, *([row.label, *(_shown(row.figure, getattr(row, side)) for side in sides)] for row in chosen)
    )


def figures(plan: ClusterPlan, name: str = "figure", default: str = "Kafka's default") -> list[Row]:
    """Cost and balance; a figure that is 0 everywhere is left out; the fullest disk in percent."""
    found = _sides(plan, (name, "before", default, "this plan"), COMPARED, ("before", "baseline", "after"))
    place = COMPARED.index("disk_max_over_mean")
    found[place] = {name: "Fullest broker's disk"} | {
        column: human_percent(_fullest(plan, side))
        for column, side in (("before", "before"), (default, "baseline"), ("this plan", "after"))
    }
    return found


def _fullest(plan: ClusterPlan, side: str) -> float:
    """The fullest disk of a known capacity, in percent."""
    known = {row.broker_id for row in plan.brokers if row.disk_capacity_bytes}
    return max(
        100 * row.disk_bytes / CAPACITY for row in plan.balance if row.broker_id in known and row.placement == side
    )


def losses(plan: ClusterPlan, name: str = "if a broker or a rack fails") -> list[Row]:
    """Before, at the worst moment, after."""
    return _sides(plan, (name, "before", "worst moment", "after"), LOST, ("before", "worst_moment", "after"))


def bounds(plan: ClusterPlan) -> list[Row]:
    """What each bound proves has other tests."""
    marks = ("flow", "lagrangian (best)")
    rows_ = zip(marks, plan.bounds, strict=True)
    return by_header(
        ("bound", "copies at least", "how it was computed"),
        *([name, human_bytes(row.bound_bytes), row.detail] for name, row in rows_),
    )


def sources(plan: ClusterPlan) -> list[Row]:
    """Each with its own time."""
    return by_header(
        ("source", "records", "captured"),
        *([row.source, str(row.records), human_moment(row.captured_at)] for row in plan.sources),
    )


TABLES: dict[str, Callable[[ClusterPlan], list[Row]]] = {
    "Brokers": brokers,
    "Log directories, the fullest first": directories,
    "Other loads": other_loads,
    "Waves": waves,
    "Bytes between racks": matrix,
    "Reasons": reasons,
    "Topics": topics,
    "Copies inside brokers": inside_by_broker,
    "If a broker or a rack fails": losses,
    "Consumer groups, those that notice most first": groups,
    "Who notices each wave": notice,
    "Members, the busiest first": members,
    "Alternatives": alternatives,
    "Fewer copies for more bytes": curve,
    "Left broken, and doubtful input": open_findings,
    "Also found": fixed_findings,
    "Copies": copies,
    "Copies inside brokers, the largest first": inside,
    "All figures": figures,
    "Bounds": bounds,
    "Sources": sources,
}
OF_MANY: dict[str, Callable[[ClusterPlan], list[Row]]] = {
    "Disks of each rack, a dot for each broker: before above, after below": racks_drawn,
    "The fullest and the busiest brokers": most_loaded,
    "All brokers": brokers,
    "Other loads": other_loads,
    "Bytes between racks": pairs,
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_the_report_has_its_rows(name: str) -> None:
    """Each cell is the value of its row, by header; hostile names stay text."""
    found = _tables("report")[name]
    if name == "Bounds":
        assert [row.pop("what it proves")[:5] for row in found] == ["Bytes", "A low"]
    assert found == TABLES[name](PLAN)


@pytest.mark.parametrize("name", OF_MANY)
def test_a_table_of_many_brokers_and_racks_has_its_rows(name: str) -> None:
    """A strip for each rack, the most loaded brokers and the largest pairs of racks."""
    assert _tables("many")[name] == OF_MANY[name](MANY)


def test_no_table_of_the_report_is_without_a_test() -> None:
    """A new table needs a line above."""
    assert [*_tables("report")] == [*TABLES]
    assert {*OF_MANY} >= {*_tables("many")} - {*TABLES}


def test_the_tables_of_the_runbook_have_their_rows() -> None:
    """Waves with times, rate and form; the calendar in the time zone of each window."""
    found = markdown_tables(runbook_of(PLAN))
    forms = ("careful", "careful", "none", "careful, inside brokers")
    assert found[0] == by_header(
        ("wave", "partitions", "copies", "bytes", "time", "throttle, bytes/s", "form"),
        *(
            [f"wave-0{row.wave}", str(row.partitions), str(row.replicas_moved), human_bytes(row.moved_bytes),
             human_times(row.least_seconds, row.most_seconds),
             str(row.throttle_bytes_per_s), form]
            for row, form in zip(PLAN.waves, forms, strict=True)
        ),
    )  # fmt: skip
    assert found[1:] == [
        by_header(
            ("wave", "day", "start", "done by", "window ends", "time zone"),
            ["wave-01", "Sat 2026-10-31", "22:30", "Sun 2026-11-01 07:30 (too late)", "06:30", "Europe/Paris"],
            ["wave-02", "Sun 2026-11-01", "21:30", "00:30", "05:30", "UTC"],
        )
    ]


def test_the_tables_of_the_summary_have_their_rows() -> None:
    """The same figures and losses as in the report."""
    text = summary_of(PLAN)
    lost = "If a broker or a rack fails"
    assert text_table(text, "") == figures(PLAN, "", "Kafka default")
    assert text_table(text, lost) == losses(PLAN, lost)


def test_the_size_of_the_cluster_is_above_the_tables() -> None:
    """Brokers, partitions, replicas and bytes before the plan."""
    assert summary_of(PLAN).startswith("c: 670 partitions, 680 replicas, 690 GB on 8 brokers\n")
    text = report_of(PLAN)
    assert (
        "8 brokers · 670 partitions · 690 GB · Kafka version unknown · "
        "snapshot 2026-10-31 21:20 UTC, valid until 2026-11-01 21:20 UTC · run r<" in text
    )
    assert "5 checks of the input: 2 failed." in " ".join(text.split())


@pytest.mark.parametrize("moment", ["", "before", "worst_moment", "after"])
def test_a_failure_that_stops_partitions_at_any_moment_is_shown(moment: str) -> None:
    """Only a plan that is safe before, after and in between has a sentence instead of the table."""
    safe = {"before": 0.0, "baseline": None, "after": 0.0, "worst_moment": 0.0}
    values = safe | ({moment: 3.0} if moment else {})
    row = rows.FigureRow("stopped_by_some_broker", "x", **values)
    found = html_tables(report_of(replace(PLAN, summary=[row])))
    assert ("If a broker or a rack fails" in found) == bool(moment)
