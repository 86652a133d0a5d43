"""OR-Tools' CP-SAT as this project runs it.

References
----------
L. Perron, F. Didier, S. Gay, The CP-SAT-LP solver, CP 2023.
"""

from ortools.sat.python import cp_model


def careful_solver(deterministic_time: float) -> cp_model.CpSolver:
    """A solver that gives the same answer on every machine: one worker, a fixed seed, a limit in deterministic time.

    Presolve is off: that of OR-Tools 9.15 reports some feasible models as infeasible, so its proofs could be wrong
    too. The linear relaxation of all rows helps more.
    """
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.cp_model_presolve = False
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = deterministic_time
    return solver
