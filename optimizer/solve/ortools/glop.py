"""Linear programs through OR-Tools' GLOP, from sparse arrays."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from ortools.linear_solver.python import model_builder_helper as mbh

from optimizer.domain import Floats

# Share of deterministic time for the dual simplex. It is the faster one, but it can cycle in a degenerate program that
# the primal simplex solves at once; so the primal simplex gets the rest. All programs of the benchmark end within a
# tenth of the default limit.
FIRST_SHARE = 0.05
MOST_FIRST = 100.0  # deterministic time of the dual simplex without a limit: ten times the longest program
UNFINISHED = (mbh.SolveStatus.NOT_SOLVED, mbh.SolveStatus.ABNORMAL, mbh.SolveStatus.FEASIBLE)


class OutOfTime(ArithmeticError):
    """A linear program did not end within its limit."""


def minimise(
    cost: Floats,
    upper: Floats,
    row_low: Floats,
    row_high: Floats,
    matrix: sp.csr_matrix,
    *,
    time_limit: float = math.inf,
) -> tuple[Floats, Floats, float]:
    """Minimise cost x subject to 0 <= x <= upper, row_low <= matrix x <= row_high; returns values, duals, objective.

    Uses the dual simplex, and the primal simplex if the dual does not finish.

    Parameters
    ----------
    time_limit : float
        Limit for both together, in OR-Tools' deterministic time. It counts operations, so it is the same everywhere.

    Raises
    ------
    OutOfTime
        If there is a limit and GLOP ends with NOT_SOLVED, ABNORMAL or FEASIBLE, as it does at a limit.
    ArithmeticError
        If GLOP does not end with OPTIMAL.
    """
    helper = mbh.ModelBuilderHelper()
    model: tuple[Any, ...] = (np.zeros(len(cost)), upper, cost, row_low, row_high, matrix)
    helper.fill_model_from_sparse_data(*model)
    first = min(FIRST_SHARE * time_limit, MOST_FIRST)
    solver = _solve(helper, is_dual=True, time_limit=first)
    if solver.status() in UNFINISHED:
        solver = _solve(helper, is_dual=False, time_limit=time_limit - first)
    if solver.status() != mbh.SolveStatus.OPTIMAL:
        size = f"{matrix.shape[0]} rows and {matrix.shape[1]} columns"
        if time_limit < math.inf and solver.status() in UNFINISHED:
            raise OutOfTime(f"a linear program of {size} did not end in {time_limit:g} of deterministic time")
        raise ArithmeticError(f"GLOP ended {solver.status()} on {size}")
    return np.array(solver.variable_values()), np.array(solver.dual_values()), float(solver.objective_value())


def _solve(model: mbh.ModelBuilderHelper, *, is_dual: bool, time_limit: float) -> mbh.ModelSolverHelper:
    """Run GLOP with one kind of simplex; returns the solver after it ended."""
    solver = mbh.ModelSolverHelper("GLOP")
    limit = "" if math.isinf(time_limit) else f" max_deterministic_time: {time_limit}"
    solver.set_solver_specific_parameters(f"use_dual_simplex: {str(is_dual).lower()}{limit}")
    solver.solve(model)
    return solver
