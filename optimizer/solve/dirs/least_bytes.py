"""Choose the replicas that move inside one broker at the least bytes, by CP-SAT, if the broker has few replicas.

    minimise   the bytes outside the bands; then sum_id size_i x_id      x_id in {0, 1}: replica i moves to directory d
    subject to each replica moves once at most
               the load of a directory is in its band, less the bytes outside
               a directory has space for all that arrives, in addition to what it holds

Bytes are rounded to whole units so that every choice that remains is inside.
"""

import numpy as np
from ortools.sat.python import cp_model

from optimizer.domain import Ints
from optimizer.solve.dirs.dir_bands import NO_MOVE, DirBands
from optimizer.solve.ortools.cp_sat import careful_solver

MOST_CHOICES = 400  # pairs of a replica and a directory: a model this small takes some hundredths of a CPU second
_MOST_UNITS = 2**40  # of all replicas together: sums of products stay far below 2^63
_DETERMINISTIC_TIME = 0.2  # of OR-Tools: limit of each of the two steps for one broker


def least_bytes(bands: DirBands, load_bytes: Ints, *, size_bytes: Ints, directory: Ints) -> Ints | None:
    """The new directory of each replica, as from ``few_bytes``; None if there are too many, or nothing was found."""
    n_dirs, n = len(load_bytes), len(size_bytes)
    if not n or n * (n_dirs - 1) > MOST_CHOICES:
        return None
    unit = -(-int(load_bytes.sum()) // _MOST_UNITS) or 1
    model = cp_model.CpModel()
    x = {
        (i, d): model.new_bool_var("")
        for i in range(n)
        for d in range(n_dirs)
        if d != directory[i] and load_bytes[d] + size_bytes[i] <= bands.limit_bytes[d]
    }
    for i in range(n):
        model.add_at_most_one(x[i, d] for d in range(n_dirs) if (i, d) in x)
    least, most = size_bytes // unit, -(-size_bytes // unit)
    outside = []
    for d in range(n_dirs):
        arrives, leaves = [i for i in range(n) if (i, d) in x], [key for key in x if directory[key[0]] == d]
        up, down = (
            sum(there[i] * x[i, d] for i in arrives) - sum(here[i] * x[i, e] for i, e in leaves)
            for there, here in ((most.tolist(), least.tolist()), (least.tolist(), most.tolist()))
        )
        over, under = (model.new_int_var(0, 2 * _MOST_UNITS, "") for _ in range(2))
        outside += [over, under]
        load = int(load_bytes[d])
        model.add(up <= (int(bands.upper_bytes[d]) - load) // unit + over)
        model.add(down >= -((load - int(bands.lower_bytes[d])) // unit) - under)
        if arrives:
            space = (int(bands.limit_bytes[d]) - load) // unit
            model.add(sum(int(most[i]) * x[i, d] for i in arrives) <= space)
    model.minimize(sum(outside))
    solver = careful_solver(_DETERMINISTIC_TIME)
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    model.add(sum(outside) <= round(solver.objective_value))
    for variable in (*x.values(), *outside):
        model.add_hint(variable, solver.value(variable))
    model.minimize(sum(int(most[i]) * variable for (i, _), variable in x.items()))
    solver = careful_solver(_DETERMINISTIC_TIME)
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    target = np.full(n, NO_MOVE, dtype=np.int64)
    for (i, d), variable in x.items():
        if solver.boolean_value(variable):
            target[i] = d
    return target
