"""The page of a run is made from verdicts and decisions, and links the files that are there."""

import re
from pathlib import Path
from typing import Any

import pytest

from optimizer.folders import RUN_PAGE, quality_page, write_page
from optimizer.run_page import write_run_page
from tests.emit.test_fleet_page import decided

STOPPED = (("a", "refused", "validate"), ("b", "unreadable", "ingest"), ("c", "refused", "validate"))
FIGURES = decided("green")["figures"] | {"moved_bytes": {"after": 3e9}}


def verdict(name: str, moved_bytes: int | None = None, reason: str | None = None) -> dict[str, Any]:
    """A row of ``verdicts``."""
    return {"verdict": name, "stage": None, "reason": reason, "moved_bytes": moved_bytes}


def test_only_pages_of_this_attempt_are_linked(tmp_path: Path) -> None:
    """A cluster that cannot be read any more keeps the quality page of an earlier attempt, but no link to it."""
    for name in ("a", "b"):
        write_page(quality_page(tmp_path, name), "x")
    verdicts = {name: verdict(kind) | {"stage": stage} for name, kind, stage in STOPPED}
    write_run_page(tmp_path, "r", verdicts, {})
    page = (tmp_path / RUN_PAGE).read_text(encoding="utf-8")
    assert [*dict.fromkeys(re.findall(r'href="([^"]+)"', page))] == ["report.css", "quality/a.html"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (verdict("planned", 2 * 10**9), ["✔ Ready to approve", "2.00 GB"]),
        (verdict("failed", reason="disk full"), ["✖ Failed", "-"]),
        (verdict("started"), ["… Started", "-"]),
    ],
    ids=["planned", "failed after its files were published", "killed"],
)
def test_a_decision_counts_if_its_plan_counts(tmp_path: Path, row: dict[str, Any], expected: list[str]) -> None:
    """Files of a plan may be there although the run failed later: it is no plan."""
    decision = decided("green", figures=FIGURES)
    write_run_page(tmp_path, "r", {"a": row}, {"a": decision})
    page = (tmp_path / RUN_PAGE).read_text(encoding="utf-8")
    tag = re.findall(r'<span class="tag">([^<]+)</span>', page)
    size = re.findall(r'<td class="num plan" data-label="copies">([^<]+)</td>', page)
    assert [*tag, *size] == expected
