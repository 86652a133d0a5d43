"""Linear programs: those on which the dual simplex stalls are solved all the same."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from optimizer.domain import Floats
from optimizer.solve.ortools.glop import OutOfTime, minimise

DATA = Path(__file__).with_name("data")
LIMIT = 10.0  # a tenth of the default: an attempt that stalls takes as many seconds as it is given


def stored(name: str) -> tuple[Floats, Floats, Floats, Floats, sp.csr_matrix]:
    """Cost, upper limits, limits of rows and matrix of a program that a planned night met."""
    with np.load(DATA / f"{name}.npz") as file:
        shape = (len(file["row_low"]), len(file["cost"]))
        columns = sp.csc_matrix((file["data"], file["indices"].astype(np.int32), file["indptr"]), shape=shape)
        return file["cost"], file["upper"], file["row_low"], file["row_high"], columns.tocsr()


@pytest.mark.parametrize(
    ("name", "objective"), [("stalls_small", 0.34574311848156947), ("stalls_large", 0.1456703541551436)]
)
def test_a_program_that_stalls_is_solved(name: str, objective: float) -> None:
    """Programs of planned nights on which the dual simplex goes round and round until the limit of a shard ends it."""
    cost, upper, low, high, matrix = stored(name)
    values, duals, found = minimise(cost, upper, low, high, matrix, time_limit=LIMIT)
    assert found == pytest.approx(objective, rel=1e-6) == cost @ values
    assert ((values >= -1e-9) & (values <= upper + 1e-9)).all()
    assert ((matrix @ values >= low - 1e-6) & (matrix @ values <= high + 1e-6)).all()
    reduced = cost - matrix.T @ duals
    assert (reduced[values < upper - 1e-6] > -1e-6).all()


def test_a_program_is_given_up_after_its_whole_limit() -> None:
    """With no time for either simplex, the message gives the size and the limit that was set."""
    with pytest.raises(OutOfTime, match=r"90 rows and 232 columns did not end in 1e-05 of deterministic time"):
        minimise(*stored("stalls_small"), time_limit=1e-5)
