"""Linear programs through OR-Tools' GLOP, from sparse arrays."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from ortools.linear_solver.python import model_builder_helper as mbh

from optimizer.domain import Floats


class OutOfTime(ArithmeticError):
    """A linear program did not end within its limit."""


def minimise(
    cost: Floats,
    upper: Floats,
    row_low: Floats,
    row_high: Floats,
    matrix: sp.csr_matrix,
    *,
    limit_seconds: float = math.inf,
) -> tuple[Floats, Floats, float]:
    """Minimise cost x, 0 <= x <= upper, row_low <= matrix x <= row_high: values, duals, objective.

    Parameters
    ----------
    limit_seconds : float
        In OR-Tools' deterministic time, which counts operations: the same on every machine.

    Raises
    ------
    OutOfTime
        When there is a limit and GLOP ends NOT_SOLVED or ABNORMAL: it does either there.
    ArithmeticError
        When GLOP does not end OPTIMAL.
    """
    helper = mbh.ModelBuilderHelper()
    model: tuple[Any, ...] = (np.zeros(len(cost)), upper, cost, row_low, row_high, matrix)
    helper.fill_model_from_sparse_data(*model)
    solver = mbh.ModelSolverHelper("GLOP")
    limit = "" if math.isinf(limit_seconds) else f" max_deterministic_time: {limit_seconds}"
    solver.set_solver_specific_parameters(f"use_dual_simplex: true{limit}")
    solver.solve(helper)
    if solver.status() != mbh.SolveStatus.OPTIMAL:
        size = f"{matrix.shape[0]} rows and {matrix.shape[1]} columns"
        if limit and solver.status() in (mbh.SolveStatus.NOT_SOLVED, mbh.SolveStatus.ABNORMAL):
            raise OutOfTime(f"a linear program of {size} did not end in {limit_seconds:g} s of deterministic time")
        raise ArithmeticError(f"GLOP ended {solver.status()} on {size}")
    return np.array(solver.variable_values()), np.array(solver.dual_values()), float(solver.objective_value())
