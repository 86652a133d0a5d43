"""A second look at a relaxation: what its largest replicas do is decided first, and the rest is solved again.

Rounding the largest replicas shifts loads by more than the improvement can mend with what is left. Once they are
decided, the relaxation of the others is solved to the bands that remain, and rounds nearly exactly.

References
----------
T. Berthold, Primal heuristics for mixed integer programs, diploma thesis, TU Berlin 2006: diving.
"""

import numpy as np

from optimizer.domain import Ints
from optimizer.solve.shard.legal_options import Options
from optimizer.solve.shard.relaxation import HALF, Relaxation

SHARE = 0.15  # of the partitions that the relaxation moves: the largest
MOVED = 0.01  # part of a replica that counts as moved


def largest_decided(relaxation: Relaxation, options: Options) -> tuple[Options, Ints]:
    """The options, and which rows they are, without those of the largest partitions that the relaxation moves, in part
    or whole: each of these has to take its largest value where that is a half, and else stays if it may."""
    master = relaxation.master
    moves = master.moves
    value, partition = relaxation.value[: len(moves)], options.partition[moves // options.allowed.shape[1]]
    size = master.problem.rows.size
    moved = np.flatnonzero(np.bincount(partition, value, len(size)) > MOVED)
    largest = np.zeros(len(size), dtype=bool)
    largest[moved[np.argsort(-size[moved], kind="stable")][: round(SHARE * len(moved))]] = True
    order = np.lexsort((np.arange(len(moves)), -value, partition))
    first = order[np.r_[True, np.diff(partition[order]) > 0]] if len(order) else order
    taken = first[(value[first] >= HALF) & largest[partition[first]]]
    open_ = np.zeros(options.allowed.shape, dtype=bool)
    open_.flat[moves[taken]] = True
    goes = np.zeros(len(size), dtype=bool)
    goes[partition[taken]] = True
    based = master.base.replica >= 0  # what is not in the columns of these stays with their base
    undecided = ~largest | ((options.needed | based) & ~goes)
    return options.only(open_ | undecided[options.partition][:, None], goes)
