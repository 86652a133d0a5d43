"""The page about all clusters of a run."""

import re
from typing import Any

from optimizer.emit.decision import TAGS
from optimizer.emit.fleet_page import ClusterResult, fleet_page
from tests.emit.texts import by_header, html_tables

AGE = "2026-10-05 02:00 valid until 2026-10-06 02:00"


def decided(state: str, headline: str = "The plan reaches all goals.", **changes: Any) -> dict[str, Any]:
    """The content of a ``decision.json``."""
    copying = {"waves": 2, "nights": None, "words": "1 h to 2 h"}
    figures = {
        "gap_percent": {"before": None, "after": 0.25, "worst_moment": 0.25},
        "stopped_by_worst_rack": {"before": 20.0, "after": 4.0, "worst_moment": 1200.0},
    }
    return {
        "captured_at": "2026-10-05T02:00:00+00:00",
        "valid_until": "2026-10-06T02:00:00+00:00",
        "verdict": {"state": state, "headline": headline},
        "copying": copying,
        "has_racks": True,
        "figures": figures,
        **changes,
    }


def planned(name: str, moved_bytes: int, state: str, **changes: Any) -> ClusterResult:
    """A cluster with a plan and a report."""
    decision = decided(state, **changes)
    return ClusterResult(name, "planned", None, None, moved_bytes, decision, [(f"{name}/report.html", "Report")])


def stopped(name: str, verdict: str = "refused", reason: str = "no sizes\nsecond line") -> ClusterResult:
    """A cluster without a plan."""
    return ClusterResult(name, verdict, "validate", reason, None, None, ())


def rows(page: str) -> dict[str, list[str]]:
    """Texts of the cells by cluster, in the order of the page."""
    found = {}
    for row in re.findall(r"<tr class=.*?</tr>", page):
        cells = [re.sub(r"<[^>]+>", " ", cell).split() for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
        found[cells[0][0]] = [" ".join(cell) for cell in cells]
    return found


def test_the_worst_comes_first() -> None:
    """No plan, not ended, red, amber, green, nothing to do; among equals the one that copies most."""
    results = [
        ClusterResult("calm", "nothing_to_do", None, None, 0, decided("grey"), ()),
        planned("small", 10**9, "green"),
        planned("large", 10**12, "green"),
        planned("wait", 1, "amber"),
        planned("risk", 1, "red"),
        ClusterResult("unknown", "started", None, None, None, None, ()),
        stopped("broken", "failed"),
    ]
    page = fleet_page("r", results)
    assert [*rows(page)] == ["broken", "unknown", "risk", "wait", "large", "small", "calm"]
    assert fleet_page("r", reversed(results)) == page
    assert "7 clusters · 1.00 TB to copy" in page


def test_a_row_has_the_figures_of_the_decision() -> None:
    """Bytes, waves or nights, hours, what is over the least possible, and what one failure stops."""
    nights = {"waves": 9, "nights": 6, "words": "38 h to 56 h"}
    page = fleet_page("r", [planned("a", 2 * 10**12, "red", headline="NOT reached: racks.", copying=nights)])
    [row] = rows(page).values()
    expected = ["a ✖ Think twice", "2.00 TB", "", "6 nights 38 h to 56 h", AGE, "0.250 %"]
    assert row == [*expected, "rack: 20 → 1,200 → 4", "NOT reached: racks.", "Report"]
    broker = {"stopped_by_worst_broker": {"before": 3.0, "after": 1.0, "worst_moment": None}}
    without = decided("green")["figures"] | broker
    [row] = rows(fleet_page("r", [planned("a", 1, "green", figures=without, has_racks=False)])).values()
    assert row[3:7] == ["2 waves 1 h to 2 h", AGE, "0.250 %", "broker: 3 → - → 1"]


def test_a_refused_cluster_says_why() -> None:
    """The stage and the first line of the reason; hostile names stay text."""
    page = fleet_page("<r>", [stopped("a", reason="<script>alert(1)</script>\nmore")])
    assert "In stage validate. &lt;script&gt;alert(1)&lt;/script&gt;</td>" in page
    assert "more" not in page
    assert "<script>" not in page
    assert rows(page)["a"][0] == "a ✖ Refused"


def test_copies_inside_brokers_count() -> None:
    """In the order, in the bars and in the sum."""
    figures = decided("green")["figures"] | {"dir_moved_bytes": {"after": 3e9}}
    page = fleet_page("r", [planned("between", 10**9, "green"), planned("inside", 0, "green", figures=figures)])
    assert {name: row[1] for name, row in rows(page).items()} == {
        "inside": "3.00 GB inside brokers",
        "between": "1.00 GB",
    }
    assert "1.00 GB and 3.00 GB inside brokers to copy" in page
    assert re.findall(r'width="([0-9.]+)%"', page) == ["100", "33.3"]


def test_a_plan_without_its_files_still_has_its_verdict() -> None:
    """A later attempt with other clusters moves them away; then the table has only verdict, bytes and reason."""
    for reason, text in (("NOT reached: racks: 1", " NOT reached: racks: 1"), (None, "")):
        result = ClusterResult("a", "planned", None, reason, 10**9, None, ())
        [row] = rows(fleet_page("r", [result])).values()
        assert row == ["a ? Planned", "1.00 GB", "", "-", "-", "-", "-", f"Its files are not here.{text}", ""]


def test_each_cell_is_below_its_header() -> None:
    """Of clusters with other values in each column; hostile names stay text, and each link has its own text."""
    figures = {
        "gap_percent": {"before": 11.0, "after": 12.0, "worst_moment": 13.0},
        "stopped_by_worst_broker": {"before": 21.0, "after": 22.0, "worst_moment": 23.0},
        "stopped_by_worst_rack": {"before": 31.0, "after": 32.0, "worst_moment": 33.0},
    }
    of_broker = {name: row for name, row in figures.items() if not name.endswith("rack")} | {
        "gap_percent": {"after": 0.0}
    }
    links = [("a<b>/report.html", "Report"), ("a<b>/runbook.md", "Runbook"), ("quality/a<b>.html", "Checks")]
    copying = {"waves": 7, "nights": 3, "words": "5 h to 6 h"}
    decision = decided("amber", "Go <i>", copying=copying, figures=figures)
    results = [
        ClusterResult("a<b>", "planned", None, None, 8 * 10**9, decision, links),
        ClusterResult(
            "b",
            "planned",
            None,
            None,
            4 * 10**9,
            decided("green", figures=of_broker, captured_at=None, valid_until=None),
            (),
        ),
        ClusterResult("c", "refused", "ingest", "no <u>", None, None, links[2:]),
    ]
    quoted = ["<a%3Cb%3E/report.html>", "<a%3Cb%3E/runbook.md>", "<quality/a%3Cb%3E.html>"]
    pages = " ".join(f"{path} {text}" for path, (_, text) in zip(quoted, links, strict=True))
    header = ("cluster, verdict", "copies", "drawn", "time", "snapshot (UTC)", "over the least possible",
              "one failure stops partitions",
              "result, or why there is no plan", "pages")  # fmt: skip
    sign, tag = TAGS["amber"]
    assert html_tables(fleet_page("r", results))["Clusters"] == by_header(
        header,
        [f"{quoted[2]} c ✖ Refused", "-", "bar:0", *"----", "In stage ingest. no <u>", f"{quoted[2]} Checks"],
        [f"{quoted[0]} a<b> {sign} {tag}", "8.00 GB", "bar:100", "3 nights 5 h to 6 h", AGE, "12 %",
         "rack: 31 → 33 → 32", "Go <i>", pages],
        ["b ✔ Ready to approve", "4.00 GB", "bar:50", "2 waves 1 h to 2 h", "unknown never expires", "0 %",
         "broker: 21 → 23 → 22", "The plan reaches all goals.", ""],
    )  # fmt: skip


def test_no_link_leads_out_of_the_run() -> None:
    """An archived run stays whole: links are relative, never go up, and ids that need escapes work."""
    results = [planned("a b", 1, "green"), planned("c", 1, "green")]
    links = re.findall(r'href="([^"]+)"', fleet_page("r", results))
    assert links == ["report.css", "a%20b/report.html", "a%20b/report.html", "c/report.html", "c/report.html"]
    assert not re.findall(r"style=|src=|<script|https?:", fleet_page("r", results))
