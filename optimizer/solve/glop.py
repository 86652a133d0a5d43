"""Linear programs through OR-Tools' GLOP, from sparse arrays."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from ortools.linear_solver.python import model_builder_helper as mbh

from optimizer.domain import Floats


def minimise(
    cost: Floats, upper: Floats, row_low: Floats, row_high: Floats, matrix: sp.csr_matrix
) -> tuple[Floats, Floats, float]:
    """Minimise cost x, 0 <= x <= upper, row_low <= matrix x <= row_high: values, duals, objective.

    Raises
    ------
    ArithmeticError
        When GLOP does not end OPTIMAL.
    """
    helper = mbh.ModelBuilderHelper()
    model: tuple[Any, ...] = (np.zeros(len(cost)), upper, cost, row_low, row_high, matrix)
    helper.fill_model_from_sparse_data(*model)
    solver = mbh.ModelSolverHelper("GLOP")
    solver.set_solver_specific_parameters("use_dual_simplex: true")
    solver.solve(helper)
    if solver.status() != mbh.SolveStatus.OPTIMAL:
        raise ArithmeticError(f"GLOP ended {solver.status()} on {matrix.shape[0]} rows and {matrix.shape[1]} columns")
    return np.array(solver.variable_values()), np.array(solver.dual_values()), float(solver.objective_value())
