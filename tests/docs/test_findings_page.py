"""docs/findings.md names every code and every cause of a finding."""

import re

from optimizer.domain import Cause, FindingCode
from optimizer.emit.findings import FACTS, WORST_FIRST
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| \S.* \| \S.* \|$", re.MULTILINE)


def rows_of(section: str) -> list[str]:
    """First cells of the table of a section, of rows with a meaning and a remedy."""
    table = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = ROW.findall(table)
    assert len(rows) == table.count("\n| `")
    return rows


def test_every_code_is_told_once_in_the_order_of_pages() -> None:
    """None is missing, none is there twice, and none that no finding has."""
    told = rows_of("Codes")
    assert sorted(told) == sorted(FindingCode)
    assert told == [*WORST_FIRST, *FACTS]


def test_every_cause_is_told_once() -> None:
    """In the order in which the code has them."""
    assert rows_of("Causes") == list(Cause)
