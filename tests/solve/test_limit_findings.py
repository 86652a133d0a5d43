"""What a limit is told to be the reason of."""

import numpy as np

from optimizer.domain import Bands, Cause, FindingCode
from optimizer.solve.findings.finding import Finding
from optimizer.solve.findings.limit_findings import Cut, with_limit
from optimizer.solve.rules.bands import is_outside
from optimizer.wishes import MoveLimit
from tests.solve.clusters import make_brokers, make_partitions

LOWER_BYTES = 10.0**12


def test_a_band_is_missed_where_it_is_told_to_be() -> None:
    """The limit is the cause of every finding about a band that the uncut plan meets, however little is missing."""
    ends = Bands(("disk",), np.full((2, 1), LOWER_BYTES), np.full((2, 1), 2 * LOWER_BYTES))
    after, whole = np.array([[LOWER_BYTES - 500_000], [LOWER_BYTES]]), np.full((2, 1), LOWER_BYTES)
    assert is_outside(after, ends).ravel().tolist() == [True, False]
    told = Finding(FindingCode.BAND, "broker 0 disk", "after", "it is below", "wait", broker_id=0, resource="disk")
    brokers, partitions = make_brokers([0, 1]), make_partitions([[0, 1]], [500_000])
    cut = Cut(MoveLimit(moves=0), 500_000, 1, whole)
    band, limited = with_limit([told], cut, brokers, ends, after, partitions=partitions, held_back=np.array([True]))
    assert band.cause == Cause.MOVE_LIMIT
    assert "1 load outside a band that the uncut plan meets" in limited.detail
