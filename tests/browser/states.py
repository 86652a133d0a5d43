"""Pages that the browser opens: reports of plans in every state, and one page of every other kind."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from asking.sections import Document, Dots, Drawing, Grid, Section
from asking.sections import page as answer_page
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.fleet_page import fleet_page
from optimizer.emit.inside_sentences import Copied
from optimizer.emit.rows import (
    AlternativeRow,
    BoundRow,
    BrokerWaveRow,
    ConsumerImpactRow,
    ConsumerLoadRow,
    CurveRow,
    FigureRow,
    InputFindingRow,
    QualityRow,
    RackFlowRow,
)
from optimizer.emit.site_pages import Imbalance, Night, RunLine, cluster_lines, index_page, nights_page
from tests.emit.rows import rows_of
from tests.emit.test_findings import finding, planned
from tests.emit.test_fleet_page import planned as planned_result
from tests.emit.test_fleet_page import stopped
from tests.emit.test_pages import GB, synthetic
from tests.emit.test_quality_page import failed, quarantined, result
from tests.emit.test_quality_page import page as quality_page
from tests.emit.test_readers import GROUPS, RACKS, RATIOS, group
from tests.emit.test_report import HOUR, full, page

FILES = ("runbook.md", "reassignment.json", "rollback.json", "moves.csv")
MANY = 1000  # brokers


def ready(n_brokers: int = 13, **changes: Any) -> ClusterPlan:
    """A plan that reaches its requests and has a row in every section."""
    base = full(n_brokers)
    stopped = [
        FigureRow(f"stopped_by_{which}", which, 20.0, None, 4.0, 24.0)
        for which in ("some_broker", "worst_broker", "some_rack", "worst_rack")
    ]
    others = [
        AlternativeRow(position, name, "disk_band = 0.1", figure, value)
        for position, name in enumerate(("bands x 2", "only urgent"))
        for figure, value in (("moved_bytes", 200.0 * GB), ("brokers_outside_bands", 3.0), ("disk_max_over_mean", 1.2))
    ]
    doubts = {"rule": "r", "standing": "left_out", "subject": "topics.txt", "detail": "d", "remedy": "", "rows": 1}
    check = {"table_name": "t", "rule": "r", "severity": "warning", "success": False}
    plan = replace(
        base,
        moves=base.moves[:40],
        brokers=[replace(row, must_empty=False, accepts_replicas=True) for row in base.brokers],
        waves=[replace(row, below_floor=False, least_seconds=4000, most_seconds=9000 * row.wave) for row in base.waves],
        summary=[*base.summary, *stopped],
        alternatives=others,
        curve=[CurveRow(moves, (200 - moves) * GB, moves / 10) for moves in (100, 50)],
        bounds=[BoundRow("forced", GB, False, "d"), BoundRow("lagrangian", 250 * GB, True, "d")],
        input_findings=rows_of(InputFindingRow, doubts),
        quality=rows_of(QualityRow, check),
        findings=[],
    )
    return replace(plan, **changes)


def _with_findings(*codes: str) -> ClusterPlan:
    rows = [finding(code, f"orders-{n}", "after") for n, code in enumerate(codes)]
    return ready(findings=planned(*rows).findings)


def _not_reached() -> ClusterPlan:
    """Broker 0 is not empty after the plan, and thirty partitions say why."""
    rows = [finding("not_emptied", f"t-{p} on 0", "after", topic="t", broker_id=0) for p in range(30)]
    plan = ready(brokers=full(13).brokers, findings=planned(*rows).findings)
    return replace(
        plan, balance=[replace(row, disk_bytes=50 * GB) if not row.broker_id else row for row in plan.balance]
    )


def _in_racks(count: int) -> ClusterPlan:
    names = [f"rack-{n:02d}" for n in range(count)]
    flow = [RackFlowRow(a, b, (1 + n) * GB) for n, a in enumerate(names) for b in names]
    return ready(rack_flow=flow, brokers=[replace(row, rack=names[row.broker_id % count]) for row in ready(26).brokers])


def _hostile() -> ClusterPlan:
    """A script as a rack, and topics of 249 letters, the most that Kafka allows."""
    rack, topic = "<script>alert(1)</script>", "t" * 249
    plan = ready(findings=planned(finding("not_free", f"{topic}-1", topic=topic)).findings)
    return replace(
        plan,
        changed=[replace(row, topic=topic) for row in plan.changed],
        moves=[replace(row, topic=topic) for row in plan.moves],
        brokers=[replace(row, rack=rack) for row in plan.brokers],
        rack_flow=[RackFlowRow(rack, rack, GB)],
    )


def many() -> ClusterPlan:
    """A thousand brokers, and more copies than a page shows."""
    plan = ready(MANY, moves=synthetic(MANY, partitions=2100).moves)
    copied = {"wave": 1, "out_bytes": GB, "in_bytes": GB, "peak_disk_bytes": 150 * GB}
    rows = [copied | {"broker_id": b, "busy_seconds": HOUR * b} for b in range(MANY)]
    return replace(plan, broker_waves=rows_of(BrokerWaveRow, *rows))


def _with_consumers() -> ClusterPlan:
    """Groups of every kind, one of them uneven, and members with long names that read from all brokers."""
    member = {
        "client_id": "a-client-with-a-long-name-" * 8,
        "host": "/10.0.0.1",
        "partitions": 12,
        "in_bytes_per_s": 10**7,
    }
    brokers = {"brokers": range(1, 13), "brokers_after": range(1, 13)}
    members = [{"group_id": "orders-app", "member_id": f"m{number}", **member, **brokers} for number in range(20)]
    uneven = group("uneven-" * 20, RACKS, **RATIOS, range_over_mean=2.1, round_robin_over_mean=1.2, lag_messages=10**12)
    groups = rows_of(ConsumerImpactRow, *GROUPS, uneven)
    return ready(consumer_groups=groups, consumer_members=rows_of(ConsumerLoadRow, *members))


REPORTS: Mapping[str, Callable[[], ClusterPlan]] = {
    "ready": ready,
    "not_reached": _not_reached,
    "do_first": lambda: ready(sources=[]),
    "nothing_to_do": lambda: ready(changed=[], moves=[], waves=[]),
    "emptied_rack": lambda: _with_findings("rack_emptied", "stops_writes", "newly_exposed"),
    "no_capacities": lambda: ready(brokers=[replace(row, disk_capacity_bytes=None) for row in ready().brokers]),
    "no_racks": lambda: ready(rack_flow=[], brokers=[replace(row, rack=None) for row in ready().brokers]),
    "thirteen_racks": lambda: _in_racks(13),
    "many_waves": lambda: ready(waves=[replace(ready().waves[0], wave=wave) for wave in range(1, 201)]),
    "hostile": _hostile,
    "strips": lambda: ready(61),
    "many_brokers": many,
    "consumers": _with_consumers,
}


def _quality() -> str:
    rows = [failed("sizes_are_known", 3), result("racks_are_known", judged_rows=0), result("ids_are_unique")]
    return quality_page(rows, quarantined("sizes_are_known", 9))


def _answer() -> str:
    parts = (
        "Copies 300 GB.",
        Grid(("figure", "run", "answer"), (("bytes", "300 GB", "200 GB"),)),
        Drawing("Disks in percent of their capacity", (Dots("a", (10, 90), (50, 50)), Dots("b", (40,), (45,)))),
    )
    return answer_page(Document("What if a rack is emptied?", ("run r",), (Section("Figures", parts),)))


def _fleet() -> str:
    """Twenty clusters, and every kind of verdict."""
    states = ("red", "amber", "green") * 6
    results = [planned_result(f"cluster-{n}", 10 ** (n // 2 + 5), state) for n, state in enumerate(states)]
    return fleet_page("20260101T010000", [*results, stopped("a.b"), stopped("c", "failed", "disk full")])


def _night(number: int) -> Night:
    """A night that planned more than it did; the newest is refused."""
    is_planned = number < 29
    return Night(
        run_id=f"202601{number + 1:02d}T010000",
        at=datetime(2026, 1, number + 1, 1, tzinfo=UTC),
        cluster_id="orders",
        verdict="planned" if is_planned else "refused",
        approved_by=("ann", "bob") if is_planned else (),
        waves=6 if is_planned else 0,
        waves_executed=number % 7 if is_planned else 0,
        planned=Copied((30 - number) * 10**12, number % 3 * 10**10) if is_planned else None,
        done=Copied(number % 7 * 10**11 if is_planned else 0, 0),
        disk="75 → 51 %" if is_planned else "",
        outside=Imbalance(40, 0) if is_planned else None,
        predicted_seconds=(9 * HOUR, 12 * HOUR) if is_planned else None,
        measured_seconds=10.5 * HOUR if number % 7 else None,
        waves_measured=number % 7,
    )


def _nights() -> str:
    rows = [_night(number) for number in reversed(range(30))]
    links = {row.run_id: f"../{row.run_id}/orders/report.html" for row in rows[::2]}
    return nights_page("orders", rows, links, home="../index.html", sheet="report.css")


def _site() -> str:
    rows = [
        RunLine(
            run_id=night.run_id,
            at=night.at,
            page=f"{night.run_id}/index.html",
            links={"orders": f"{night.run_id}/orders/report.html", "audit": ""},
            verdicts="1 planned, 1 refused",
            approved_by="ann (1 of 2)",
            waves=6,
            waves_executed=2,
            planned=night.planned,
            done=night.done,
        )
        for night in map(_night, reversed(range(30)))
    ]
    newest = [planned_result("orders", 10**12, "amber", goals=[{"is_reached": True}]), stopped("audit")]
    newest = [replace(each, links=[(f"clusters/{each.cluster_id}.html", "Nights")]) for each in newest]
    nights = {each.cluster_id: [_night(number) for number in reversed(range(30))] for each in newest}
    return index_page(rows, cluster_lines(newest, nights), most_names=3, sheet="report.css")


def pages() -> Mapping[str, Callable[[], str]]:
    """The makers of all pages, by name."""

    def of(plan: Callable[[], ClusterPlan]) -> Callable[[], str]:
        return lambda: page(plan(), *FILES)

    others = {"quality": _quality, "answer": _answer, "fleet": _fleet, "site": _site, "nights": _nights}
    return {**{name: of(plan) for name, plan in REPORTS.items()}, **others}
