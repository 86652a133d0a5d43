"""docs/findings.md names every code and every cause of a finding."""

import re

from optimizer.domain import Cause, FindingCode
from optimizer.emit.findings import FACTS, WORST_FIRST
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| \S.* \| \S.* \|$", re.MULTILINE)


def rows_of(section: str) -> list[str]:
    """First cells of a section's table. Every row must have a meaning and a remedy."""
    table = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = ROW.findall(table)
    assert len(rows) == table.count("\n| `")
    return rows


def test_every_code_has_a_row_in_the_order_of_pages() -> None:
    """No code is missing, repeated or unknown."""
    codes = rows_of("Codes")
    assert sorted(codes) == sorted(FindingCode)
    assert codes == [*WORST_FIRST, *FACTS]


def test_every_cause_has_a_row() -> None:
    """The rows have the order of the enum."""
    assert rows_of("Causes") == list(Cause)
