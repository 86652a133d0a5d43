"""Findings on the pages: order, folding, and counts that stay true."""

from dataclasses import replace
from typing import Any

import pytest

from optimizer.domain import FindingCode
from optimizer.emit.cluster_plan import ClusterPlan
from optimizer.emit.findings import fixed_or_noted, open_findings
from optimizer.emit.proofs import LEAVES_NO_MORE, proof
from optimizer.emit.rows import FigureRow, FindingRow, InputFindingRow
from tests.emit.rows import rows_of
from tests.emit.test_pages import synthetic
from tests.emit.texts import report_of, runbook_of, summary_of


def finding(code: str, subject: str, when: str = "both", detail: str = "d", **fields: Any) -> dict[str, Any]:
    """A row of ``findings``."""
    lines = {"rule": code, "code": code, "subject": subject, "when": when, "detail": detail, "remedy": "r"}
    return lines | fields


EXCLUDED = [
    finding("not_free", f"audit-{p}", cause="topic_excluded", remedy="take it out of exclude_topics")
    for p in range(90)
]  # fmt: skip
STRANDED = [
    finding("not_emptied", f"t-{p} on {b}", detail=f"a replica stays on broker {b} (draining)", topic="t", broker_id=b)
    for b in (3, 17)
    for p in range(30)
]


def band(broker: int, **fields: Any) -> dict[str, Any]:
    """A broker outside a band, at another distance than any other."""
    about: dict[str, Any] = {
        "detail": f"disk {broker} {('GB', 'TB')[broker % 2]}",
        "resource": "disk",
        "broker_id": broker,
    }
    return finding("band", f"broker {broker} disk", **(about | fields))


def planned(*rows: dict[str, Any]) -> ClusterPlan:
    """A plan with these findings, in the order of their words."""
    ordered = sorted(rows, key=lambda r: (r["code"], r["subject"], r["when"]))
    return replace(synthetic(12), findings=rows_of(FindingRow, *ordered))


def test_the_worst_is_told_first() -> None:
    """What the plan leaves broken comes before facts and requests; what it fixes is listed separately."""
    rows = (
        finding("rack_spread", "mended partitions", "before"),
        finding("dead_broker", "broker 4", "before"),
        finding("no_rates", "cluster"),
        EXCLUDED[0],
        finding("not_free", "t-1", cause="in_flight"),
        finding("shard_failed", "shard 1 of round 1", "after"),
        finding("band", "broker 3 disk", "after"),
        finding("topic_spread", "t on broker 3"),
        finding("rack_spread", "t-3"),
        finding("not_pinned", "t-2 pinned off 9"),
        finding("not_emptied", "t-2 on 9"),
        finding("left_for_disk", "t-4 left", "after"),
        finding("limited", "max_moves = 3", "after"),
        finding("unexplained", "t-9", "after"),
    )
    assert [line.subject for line in fixed_or_noted(planned(*rows))] == ["mended partitions", "broker 4"]
    assert [line.subject for line in open_findings(planned(*rows))] == [
        "t-9",
        "max_moves = 3",
        "t-2 on 9",
        "t-3",
        "t-2 pinned off 9",
        "t-4 left",
        "t on broker 3",
        "broker 3 disk",
        "shard 1 of round 1",
        "t-1",
        "cluster",
        "audit-0",
    ]


def test_a_limited_plan_is_proven_among_plans_that_leave_no_more_undone() -> None:
    """Its finding decides."""
    figure = {"figure": "gap_percent", "label": "", "before": None, "baseline": None, "after": 1.0}
    bound = {"figure": "bound_bytes", "label": "", "before": None, "baseline": None, "after": 1.0}
    limited = planned(finding("limited", "max_moves = 3", "after"))
    proofs = [proof(replace(plan, summary=rows_of(FigureRow, figure, bound))) for plan in (limited, planned())]
    assert [LEAVES_NO_MORE in text for text in proofs] == [True, False]


def of_input(rule: str, standing: str, rows: int = 1) -> dict[str, Any]:
    """A row of ``input_findings``."""
    return {"rule": rule, "standing": standing, "subject": "f.txt:3", "detail": "d", "remedy": "r", "rows": rows}


def test_what_is_wrong_with_the_input_comes_before_the_plan() -> None:
    """Doubtful input, with its rows, comes before what the plan leaves broken. What is only noted, and what the plan
    fixes, comes after the figures."""
    rows = [of_input("a", "contradicts"), of_input("b", "left_out", 9), of_input("c", "broken"), of_input("d", "noted")]
    fixed, open_ = finding("rack_spread", "mended partitions", "before"), finding("rack_spread", "t-3")
    plan = replace(planned(fixed, open_), input_findings=rows_of(InputFindingRow, *rows))
    lines = [f"{line.rule} ({line.when})" for line in open_findings(plan)]
    assert lines == ["a (contradicts)", "b (left out, 9 rows)", "c (broken)", "rack_spread (before and after)"]
    assert [f"{line.rule} ({line.when})" for line in fixed_or_noted(plan)] == ["rack_spread (before only)", "d (noted)"]
    summary, html, book = summary_of(plan), report_of(plan), runbook_of(plan)
    figures = {summary: "Kafka default     this plan", book: "| wave |"}
    for page, figure in figures.items():
        assert page.index("Check first") < page.index("left out, 9 rows") < page.index(figure)
    sections = ("Kafka default     this plan", "Also found", "before only)", "noted)")
    for page, parts in ((summary, sections), (html, ("left out, 9 rows", "Also found", ">before only<", ">noted<"))):
        assert sorted(parts, key=page.index) == list(parts)
    assert html.index("3 findings about the input:") < html.index('class="cards"')
    assert "  Check first (4):\n" in summary
    assert "  Also found (2):\n" in summary
    assert "<h2>Left broken, and doubtful input (4)</h2>" in html
    assert "Also found: fixed by the plan, or only noted (2)" in html
    assert "**Check first (4):**" in book


def test_what_is_left_without_a_reason_is_told_before_the_input() -> None:
    """Eight input findings, as many as a page shows, hide no unexplained partition."""
    broken = rows_of(InputFindingRow, *(of_input(f"rule_{n}", "broken") for n in range(8)))
    plan = replace(planned(finding("unexplained", "orders-7", "after"), finding("band", "x")), input_findings=broken)
    assert [line.rule for line in open_findings(plan)][:2] == ["unexplained", "rule_0"]
    emptied = rows_of(FindingRow, finding("rack_emptied", "rack a", "after"))
    assert open_findings(replace(plan, findings=[*plan.findings, *emptied]))[0].rule == "rack_emptied"
    summary, html, book = summary_of(plan), report_of(plan), runbook_of(plan)
    for page, after in {summary: "Kafka default     this plan", book: "| wave |"}.items():
        assert page.index("Check first") < page.index("orders-7") < page.index("rule_0") < page.index(after)
    assert html.index("Left broken") < html.index("orders-7") < html.index("rule_0</td>")


IN_ORDER = (
    *("stops_writes", "rack_emptied", "newly_exposed", "unexplained", "under_replicated", "loses_records"),
    "wave_too_long",
    *("limited", "not_emptied", "rack_spread", "not_pinned", "not_resized"),
    *("left_for_disk", "log_dir_fills", "log_dir_over"),
    *("pin", "replication_factor", "no_spare_replica", "copied_for_sync", "topic_spread", "band", "leader_band"),
    "topic_leader_spread",
    *("dir_band", "dirs_not_balanced"),
    *(
        "shard_failed",
        "shard_out_of_time",
        "pin_unused",
        "factor_unused",
        "topics_unused",
        "exclude_unused",
        "acks_unused",
        "not_free",
    ),
    *("dead_broker", "fenced_broker", "no_racks", "nested_racks", "no_disk_capacity", "no_log_dir_capacity"),
    *("no_network_capacity", "no_rates", "tiered_upper_bound"),
    "not_asked_now",
    "one_replica",
    "waits_to_start",
)


def test_every_finding_has_one_place() -> None:
    """Each code is listed once."""
    assert sorted(IN_ORDER) == sorted(FindingCode)
    plan = planned(*(finding(code, "s", "after") for code in reversed(IN_ORDER)))
    assert tuple(line.rule for line in open_findings(plan)) == IN_ORDER


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        (EXCLUDED, [90]),
        (STRANDED, [60]),
        (EXCLUDED[:3], [1, 1, 1]),
        (EXCLUDED[:4], [4]),
        ([finding("not_free", f"t-{p}", cause=c) for c in ("in_flight", "leaderless") for p in range(5)], [5, 5]),
        ([finding("band", f"broker {b} disk", w) for b in range(5) for w in ("after", "both")], [5, 5]),
        ([band(b, amount=b, limit=9) for b in range(6)], [6]),
        ([band(b, amount=8 + 2 * (b % 2), limit=9) for b in range(8)], [4, 4]),
        ([band(b, resource=("in", "disk")[b % 2], amount=1, limit=9) for b in range(8)], [4, 4]),
        ([finding("not_asked_now", name, cause="only", amount=1) for name in ("a", "b", "c", "d")], [1, 1, 1, 1]),
        ([finding("topic_spread", f"t on broker {b}", topic="t", broker_id=b) for b in range(4)]
         + [finding("topic_spread", "further topics")], [1, 4]),
        ([finding("replication_factor", f"t{x}", detail=f"t{x} has {n}") for n, x in enumerate("abcde")], [5]),
    ],
)  # fmt: skip
def test_many_alike_are_one_line(rows: list[dict[str, Any]], counts: list[int]) -> None:
    """More than three findings that differ only in names and numbers are one line."""
    assert [line.count for line in open_findings(planned(*rows))] == counts


def test_pages_show_what_matters_and_the_true_count() -> None:
    """Summary and report count every finding, and neither hides a broken rule behind ninety excluded partitions."""
    plan = planned(*EXCLUDED, *STRANDED, finding("not_pinned", "t-2 on 9"), finding("rack_spread", "t-3"))
    summary, html = summary_of(plan), report_of(plan)
    assert "  Check first (152):\n  - 60 similar findings, the first: t-0 on 17" in summary
    assert "(not_emptied, before and after)" in summary
    assert summary.index("- t-2 on 9") < summary.index("90 similar findings, the first: audit-0:")
    assert "more: the tables" not in summary
    assert "<h2>Left broken, and doubtful input (152)</h2>" in html
    assert html.index(">rack_spread</td>") < html.index(">not_pinned</td>") < html.index("90 similar findings")


def test_pages_say_what_helps_what_is_open() -> None:
    """Each open finding is below its remedy. In the summary, findings that the plan fixes have none."""
    fixed = finding("rack_spread", "mended partitions", when="before", remedy="execute the plan")
    stays = finding("not_emptied", "t-0 on 7", detail="it stays", remedy="add a broker")
    excluded = finding("not_free", "t-1", detail="it is fixed", remedy="")
    page = report_of(planned(stays, fixed, excluded))
    for remedy, text in (("What to do: add a broker", "t-0 on 7: it stays"), ("Only noted", "t-1: it is fixed")):
        row = f'{remedy}</th></tr>\n<tr><td class="name">{text}</td><td data-label="when">before and after</td>'
        assert row in page
    text = summary_of(planned(stays, fixed))
    assert "  - t-0 on 7: it stays. What to do: add a broker (not_emptied, before and after)\n" in text
    assert "execute the plan" not in text


def test_what_is_not_shown_is_counted_by_finding() -> None:
    """A summary with too many lines says how many findings are not in it, those behind folded lines included."""
    several = [finding("pin", f"t-{n}", cause=f"cause {n}") for n in range(8)]
    assert "  and 90 more: the tables findings and input_findings list every finding\n" in summary_of(
        planned(*several, *EXCLUDED)
    )
