"""Linear programs through OR-Tools' GLOP, from sparse arrays."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from ortools.linear_solver.python import model_builder_helper as mbh

from optimizer.domain import Floats

# Deterministic time. The dual simplex, which is the faster, can go round and round in a degenerate program that the
# primal simplex solves at once: the dual gets a small part of what there is, the primal the rest. All programs of the
# benchmark end within a tenth of the default limit.
FIRST_SHARE = 0.05
MOST_FIRST = 100.0  # deterministic time of the dual simplex where there is no limit: ten times what any program took
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
    """Minimise cost x, 0 <= x <= upper, row_low <= matrix x <= row_high: values, duals, objective.

    By the dual simplex, and where that stalls by the primal.

    Parameters
    ----------
    time_limit : float
        For both, in OR-Tools' deterministic time, which counts operations: the same on every machine.

    Raises
    ------
    OutOfTime
        When there is a limit and GLOP ends NOT_SOLVED, ABNORMAL or FEASIBLE: it does any of these there.
    ArithmeticError
        When GLOP does not end OPTIMAL.
    """
    helper = mbh.ModelBuilderHelper()
    model: tuple[Any, ...] = (np.zeros(len(cost)), upper, cost, row_low, row_high, matrix)
    helper.fill_model_from_sparse_data(*model)
    first = min(FIRST_SHARE * time_limit, MOST_FIRST)
    solver = _solved(helper, is_dual=True, time_limit=first)
    if solver.status() in UNFINISHED:
        solver = _solved(helper, is_dual=False, time_limit=time_limit - first)
    if solver.status() != mbh.SolveStatus.OPTIMAL:
        size = f"{matrix.shape[0]} rows and {matrix.shape[1]} columns"
        if time_limit < math.inf and solver.status() in UNFINISHED:
            raise OutOfTime(f"a linear program of {size} did not end in {time_limit:g} of deterministic time")
        raise ArithmeticError(f"GLOP ended {solver.status()} on {size}")
    return np.array(solver.variable_values()), np.array(solver.dual_values()), float(solver.objective_value())


def _solved(model: mbh.ModelBuilderHelper, *, is_dual: bool, time_limit: float) -> mbh.ModelSolverHelper:
    """GLOP after it has tried a model by one kind of simplex."""
    solver = mbh.ModelSolverHelper("GLOP")
    limit = "" if math.isinf(time_limit) else f" max_deterministic_time: {time_limit}"
    solver.set_solver_specific_parameters(f"use_dual_simplex: {str(is_dual).lower()}{limit}")
    solver.solve(model)
    return solver
