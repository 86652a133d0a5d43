"""The quality page: failed checks are first, an unjudged check is not passed, the page is small and complete."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from optimizer.emit.quality_page import EXAMPLES, PAGE_BYTES, quality_page
from tests.emit.texts import by_header, html_tables

FIGURES = {"log_is_described": "undescribed_partitions"}


def result(rule: str, **changed: Any) -> dict[str, Any]:
    """A row of quality_results: a passed check of ten rows."""
    row = {
        "table_name": "replicas", "rule": rule, "severity": "critical", "success": True, "observed": "0 of 10 rows",
        "threshold": "no row", "unexpected_count": 0, "least": None, "most": 0.0, "judged_rows": 10,
        "remedy": f"fix {rule}",
    }  # fmt: skip
    return {**row, **changed}


def figure(rule: str, observed: str, **changed: Any) -> dict[str, Any]:
    """A row of quality_results: a figure of the whole cluster."""
    return result(rule, **{"observed": observed, "threshold": "at most 2", "judged_rows": None, **changed})


def failed(rule: str, broken: int, judged: int = 10, **changed: Any) -> dict[str, Any]:
    """A row of quality_results: a failed check."""
    observed = f"{broken} of {judged} rows"
    return result(rule, success=False, observed=observed, unexpected_count=broken, judged_rows=judged, **changed)


def quarantined(
    check: str, total: int, *, source: str = "a.txt", reason: str = "", remedy: str = "do it"
) -> list[dict[str, Any]]:
    """The first rows of a check."""
    row = {"check": check, "total": total, "source": source, "remedy": remedy}
    lines = range(1, min(total, EXAMPLES) + 1)
    return [{**row, "line": line, "reason": reason or f"{check} is wrong ({line})"} for line in lines]


def page(
    results: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]] = (), *, consequences: Sequence[str] = ()
) -> str:
    """The page of cluster c."""
    return quality_page(results, rows, cluster_id="c", run_id="r1", consequences=consequences, figures_of_rules=FIGURES)


def sections(text: str) -> dict[str, str]:
    """Heading and text of each section, without tags, in the order of the page; the first has no heading."""
    found = {}
    for section in re.findall(r"<section>(.*?)</section>", text, re.DOTALL):
        heading = re.search(r"<h2>(.*?)</h2>", section)
        found[heading[1] if heading else ""] = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", section)).strip()
    return found


def counts(text: str) -> list[int]:
    """Numbers of checks: failed and stopping, failed and reported, not judged, passed."""
    return [int(number) for number in re.findall(r'<td class="num">(\d+)</td><td>[A-Z]', text)]


def test_it_leads_to_the_page_of_its_run() -> None:
    """A reader who comes from a mail finds the plan and the other clusters."""
    assert '<a href="../index.html">run r1</a>' in page([result("a")])


def test_failed_checks_come_first() -> None:
    """Order: causes of a refusal, their consequences, failures that are only reported, not judged, passed."""
    text = page(
        [
            result("a_passes"),
            failed("b_is_reported", 1, severity="warning"),
            failed("c_follows", 2),
            result("d_has_no_rows", judged_rows=0, observed="0 of 0 rows"),
            failed("e_stops", 3),
        ],
        consequences=["c_follows"],
    )
    assert [*sections(text)] == ["", "e_stops", "c_follows", "b_is_reported", "Not judged (1)", "Passed (1)"]
    assert counts(text) == [2, 1, 1, 1]
    assert "Refused: 2 failed checks stop the plan." in sections(text)[""]
    assert [name for name, shown in sections(text).items() if "Another failed check may be the cause" in shown] == [
        "c_follows"
    ]
    assert [name for name, shown in sections(text).items() if "Refuses the cluster : " in shown] == [
        "e_stops", "c_follows"
    ]  # fmt: skip
    assert "Reported : 1 of 10 rows broken; allowed: no row." in sections(text)["b_is_reported"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (result("x", judged_rows=0, observed="0 of 0 rows"), "Not judged (1)"),
        (result("x", judged_rows=1, observed="0 of 1 row"), "Passed (1)"),
        (failed("x", 0, 0), "x"),
        (figure("x", "not judged", judged_rows=0), "Not judged (1)"),
        (figure("x", "0"), "Passed (1)"),
        (figure("x", "3", success=False), "x"),
        (figure("x", "not judged", judged_rows=0, success=False), "x"),
    ],
)
def test_nothing_judged_is_not_passed(row: dict[str, Any], expected: str) -> None:
    """A check of no rows and a figure without a value are not judged; a failure is always a failure."""
    text = page([row])
    assert [*sections(text)] == ["", expected]
    assert ("Refused: 1 failed check stops the plan." in text) == (expected == "x")


@pytest.mark.parametrize(("judged_rows", "expected"), [(0, "Not judged (2)"), (4, "Passed (2)")])
def test_a_figure_is_judged_as_the_rules_that_it_counts(judged_rows: int, expected: str) -> None:
    """No undescribed partition among no logs is not passed."""
    rows = [result("log_is_described", judged_rows=judged_rows), figure("undescribed_partitions", "0")]
    assert [*sections(page(rows))] == ["", expected]


def test_a_failed_check_shows_rows_and_remedy() -> None:
    """Observed value, limit and remedy as in the row; five examples, and the number of all other rows."""
    text = page([failed("size_known", 1234, 5678)], quarantined("size_known", 1234))
    shown = sections(text)["size_known"]
    assert "1,234 of 5,678 rows broken; allowed: no row." in shown
    assert "What to do: fix size_known" in shown
    assert [f"a.txt:{n} size_known is wrong ({n})" in shown for n in range(1, 7)] == [True] * 5 + [False]
    assert "And 1,229 more rows in table quarantine" in shown


def test_the_number_of_rows_fits_the_limit() -> None:
    """If a check requires a share of good rows, the page shows the good rows; a figure has its value."""
    rows = [
        failed("coverage", 3, 1000, least=0.999, most=None, threshold="at least 99.90% of the rows"),
        failed("share", 3, 1000, threshold="at most 0.10% of the rows"),
        figure("factor", "1000", success=False),
    ]
    shown = sections(page(rows))
    assert "997 of 1,000 rows good; allowed: at least 99.90% of the rows." in shown["coverage"]
    assert "3 of 1,000 rows broken; allowed: at most 0.10% of the rows." in shown["share"]
    assert "Refuses the cluster : 1000; allowed: at most 2." in shown["factor"]


def test_exactly_five_rows_are_all() -> None:
    """If the page shows every row, it names no others."""
    shown = sections(page([failed("x", 5)], quarantined("x", 5)))["x"]
    assert "a.txt:5" in shown
    assert "more" not in shown


def test_a_passed_check_shows_its_broken_rows() -> None:
    """Rows under the limit are left out, too; passed checks are folded, and those with broken rows are first."""
    text = page([result("a"), result("b", unexpected_count=1, observed="1 of 10 rows")], quarantined("b", 1))
    passed = text[text.index("<details>") : text.index("</details>")]
    assert passed.index("b is wrong (1)") < passed.index("<td>a")
    assert "b is wrong" not in text.replace(passed, "")


def test_a_passed_figure_does_not_repeat_rows_of_rules() -> None:
    """Rows that a passed figure counts belong to the rules."""
    rows = [*quarantined("log_is_described", 1), *quarantined("undescribed_partitions", 1)]
    text = page([failed("log_is_described", 1, severity="warning"), figure("undescribed_partitions", "1")], rows)
    assert text.count("is wrong") == 2
    assert "undescribed_partitions is wrong" not in text


def test_rows_of_a_parser_have_a_section() -> None:
    """A rule without a result of its own is not lost."""
    rows = quarantined("known_format", 7, remedy="remove the file")
    shown = [*sections(page([failed("x", 1, severity="warning"), result("y")], rows)).items()]
    assert [name for name, _ in shown] == ["", "x", "known_format", "Passed (1)"]
    assert "7 rows could not be used as given" in shown[2][1]
    assert "remove the file" in shown[2][1]
    assert "And 2 more rows" in shown[2][1]


def test_values_of_the_input_are_text() -> None:
    """Tags and quotes of the input are escaped everywhere."""
    evil = "<script>alert('x')</script>\"&"
    row = figure("x", evil, success=False, threshold=evil, remedy=evil, table_name=evil)
    text = page([row], quarantined("x", 1, source=evil, reason=evil))
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&#34;&amp;") == 6


def test_each_table_has_its_columns() -> None:
    """Numbers of checks, rows that were left out, checks that were not judged or passed: no two columns are swapped."""
    kinds = {"fails": 4, "warns": 3, "skips": 2, "passes": 5}
    rows = {kind: [f"{kind} <b>{n}" for n in range(count)] for kind, count in kinds.items()}
    texts = {
        rule: {"table_name": f"table of {rule}", "threshold": f"limit of {rule}"} for of in rows.values() for rule in of
    }
    text = page(
        [
            *(failed(rule, 6, 13, **texts[rule]) for rule in rows["fails"]),
            *(failed(rule, 7, 17, severity="warning", **texts[rule]) for rule in rows["warns"]),
            *(result(rule, judged_rows=0, **texts[rule]) for rule in rows["skips"]),
            *(result(rule, unexpected_count=n, judged_rows=19, **texts[rule]) for n, rule in enumerate(rows["passes"])),
        ],
        [*quarantined("fails <b>1", 2, source="<i>a.txt"), *quarantined("passes <b>3", 1)],
    )
    tables = html_tables(text)
    assert [(row["Checks"], row["Number"]) for row in tables.pop("Numbers of checks")] == [
        ("bad failed, refuse the cluster", "4"),
        ("failed, only reported", "3"),
        ("not judged", "2"),
        ("passed", "5"),
    ]
    ordered = ("passes <b>3", *(rule for rule in rows["passes"] if rule != "passes <b>3"))
    where = ("Where", "What is wrong")
    assert tables == {
        "fails <b>1: first rows": by_header(where, *([f"<i>a.txt:{n}", f"fails <b>1 is wrong ({n})"] for n in (1, 2))),
        "Checks that were not judged": by_header(
            ("Check", "Checked table", "Allowed"),
            *([rule, f"table of {rule}", f"limit of {rule}"] for rule in rows["skips"]),
        ),
        "Passed checks": by_header(
            ("Check", "Checked table", "Result", "Allowed"),
            *([rule, f"table of {rule}", f"{rule[-1]} of 19 rows broken", f"limit of {rule}"] for rule in ordered),
        ),
        "passes <b>3: first rows": by_header(where, ["a.txt:1", "passes <b>3 is wrong (1)"]),
    }


def test_a_page_needs_nothing_else() -> None:
    """No script, no inline style, and one request: the style sheet, for servers that forbid styles inside a page. The
    other address is that of the run's page."""
    text = page([failed("x", 9), result("y")], quarantined("x", 9))
    assert re.findall(r"<script|<link|<img|<iframe|style=|src=|href=|@import|url\(|https?:", text) == [
        "<link",
        "href=",
        "href=",
    ]
    assert '<link rel="stylesheet" href="../report.css">' in text


@pytest.mark.parametrize("character", ["x", "<", "\N{SNOWMAN}"])
@pytest.mark.parametrize("checks", [1, 30, 100])
def test_a_page_is_small(checks: int, character: str) -> None:
    """Long values, many checks and thousands of rows do not make a large page; no check and no number is lost."""
    long = character * 20_000
    rules = [f"rule_{number}" for number in range(checks)]
    rows = [row for rule in rules for row in quarantined(rule, 4000, source=long, reason=long)]
    text = page([failed(rule, 4000, 9000) for rule in rules], rows)
    assert len(text.encode()) <= PAGE_BYTES
    assert [*sections(text)] == ["", *rules]
    assert text.count("4,000 of 9,000 rows broken") == checks
    examples = text.count("<tr><td><code>") // checks
    expected = f"And {4000 - examples:,} more rows" if examples else "4,000 rows"
    assert text.count(f"{expected} in table") == checks
    assert examples == (EXAMPLES if checks == 1 else examples)


def test_a_long_value_is_shortened() -> None:
    """The start of a reason and the end of a path are useful; the page says how much is missing."""
    text = page([failed("x", 1)], quarantined("x", 1, source="d" * 500 + "/end.txt", reason="start" + "r" * 500))
    assert "d/end.txt:1</code>" in text
    assert "<code>...ddd" in text
    assert "<td>startr" in text
    assert "r... (105 more characters)" in text


def test_a_line_of_a_live_cluster_has_no_number() -> None:
    """Rows without lines name only their source."""
    [row] = quarantined("x", 1, source="kafka://host:9092")
    assert "<code>kafka://host:9092</code>" in page([failed("x", 1)], [{**row, "line": 0}])
