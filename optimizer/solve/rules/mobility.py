"""The changes that a partition's mobility allows."""

import numpy as np

from optimizer.domain import FORCED_ONLY, FREE, ORDER_ONLY, RACKS_ONLY, STAYING, Bools, Ints


def stays(mobility: Ints) -> Bools:
    """Whether every replica stays on its broker, (P,) (formula 7 of docs/solver.md)."""
    return np.isin(mobility, STAYING)


def may_repair_racks(mobility: Ints) -> Bools:
    """Whether replicas may move to repair racks, (P,)."""
    return np.isin(mobility, (FREE, RACKS_ONLY))


def may_reorder(mobility: Ints) -> Bools:
    """Whether another replica may lead if no replica moves, (P,)."""
    return np.isin(mobility, (FREE, ORDER_ONLY))


def moves_only_if_forced(mobility: Ints) -> Bools:
    """Whether replicas move only off brokers to empty, or to repair racks, (P,); a leader that stays keeps leading."""
    return np.isin(mobility, (FORCED_ONLY, RACKS_ONLY))


def may_move(mobility: Ints, forced: Bools, repairs: Bools) -> Bools:
    """Options that mobility allows, (K, n): every option of free partitions, rack repairs of others, and forced moves.

    Parameters
    ----------
    mobility : (K,) int64
    forced : (K,) bool
    repairs : (K, n) bool
    """
    return np.asarray((forced | (mobility == FREE))[:, None] | (repairs & (mobility == RACKS_ONLY)[:, None]))
