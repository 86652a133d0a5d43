"""A finding about tiered partitions whose copies are not known: their bytes are an upper bound."""

import pytest

from asking.answer import answer
from asking.question import Question
from optimizer.domain import OFFSETS, UPPER_BOUND, FindingCode
from tests.asking.small_run import BROKERS, GB, make_facts, partition


@pytest.mark.parametrize(
    ("skips", "sources", "unknown"),
    [
        pytest.param(False, (OFFSETS, OFFSETS), 0, id="offsets are known"),
        pytest.param(False, (OFFSETS, UPPER_BOUND), 1, id="one has no offsets"),
        pytest.param(True, (OFFSETS, OFFSETS), 2, id="the bytes of a target that skips are unknown"),
    ],
)
def test_bytes_that_are_an_upper_bound_are_told(*, skips: bool, sources: tuple[str, str], unknown: int) -> None:
    """How many partitions, and of which topics; nothing if all copies are known."""
    rows = [
        partition("t", number, [1, 3, 5], copy_source=source, tiered_copy_bytes=None, copy_bytes=40 * GB)
        for number, source in enumerate(sources)
    ]
    plan = answer(make_facts([{**row, "skips_tiered": skips} for row in BROKERS], rows), Question()).plan
    assert plan is not None
    found = plan.tables["findings"]
    amounts = found.loc[found["code"] == FindingCode.TIERED_UPPER_BOUND.value, "amount"].tolist()
    assert amounts == ([unknown] if unknown else [])
