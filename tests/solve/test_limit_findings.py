"""Findings that have a limit as their cause."""

import numpy as np

from optimizer.cluster_policy import MoveLimit
from optimizer.domain import Bands, Cause, FindingCode
from optimizer.solve.findings.finding import Finding
from optimizer.solve.findings.limit_findings import OverLimits, with_limit
from optimizer.solve.rules.bands import is_outside
from tests.in_full import in_full
from tests.solve.clusters import make_brokers, make_partitions

LOWER_BYTES = 10.0**12


def test_a_band_is_missed_as_reported() -> None:
    """The limit is the cause of every finding about a band that the uncut plan meets, however little is missing."""
    ends = Bands(("disk",), np.full((2, 1), LOWER_BYTES), np.full((2, 1), 2 * LOWER_BYTES))
    after, whole = np.array([[LOWER_BYTES - 500_000], [LOWER_BYTES]]), np.full((2, 1), LOWER_BYTES)
    assert is_outside(after, ends).ravel().tolist() == [True, False]
    facts = {"width": 0.1, "widest": 0.1}
    band_finding = Finding(FindingCode.BAND, "after", broker_id=0, resource="disk", amount=1, limit=2, facts=facts)
    brokers, partitions = make_brokers([0, 1]), make_partitions([[0, 1]], [500_000])
    over_limits = OverLimits(MoveLimit(moves=0), 500_000, 1, whole)
    held_back = np.array([True])
    band, limited = in_full(
        with_limit([band_finding], over_limits, brokers, ends, after, partitions=partitions, held_back=held_back)
    )
    assert band.cause == Cause.MOVE_LIMIT
    assert band.detail.endswith("; the limit leaves it for a later run")
    assert band.remedy == limited.remedy == "execute this plan and run again, or raise the limit"
    assert limited.subject == "max_moves = 0"
    assert limited.detail == (
        "the whole plan would copy 500 kB in 1 move; the 1 least important change is left out: 1 load outside a "
        "band that the whole plan meets"
    )
