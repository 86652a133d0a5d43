"""What a partition's mobility leaves open to it."""

import numpy as np

from optimizer.domain import FORCED_ONLY, FREE, ORDER_ONLY, RACKS_ONLY, STAYING, Bools, Ints


def stays(mobility: Ints) -> Bools:
    """Whether every replica stays on its broker, (P,) (formula 7 of docs/solver.md)."""
    return np.isin(mobility, STAYING)


def may_repair_racks(mobility: Ints) -> Bools:
    """Whether replicas may move to mend racks, (P,)."""
    return np.isin(mobility, (FREE, RACKS_ONLY))


def may_reorder(mobility: Ints) -> Bools:
    """Whether another replica may lead though none moves, (P,)."""
    return np.isin(mobility, (FREE, ORDER_ONLY))


def moves_only_if_forced(mobility: Ints) -> Bools:
    """Whether replicas move only off brokers to empty, or to mend racks; a leader that stays goes on leading, (P,)."""
    return np.isin(mobility, (FORCED_ONLY, RACKS_ONLY))


def may_move(mobility: Ints, forced: Bools, mends: Bools) -> Bools:
    """Options that are open, (K, n): all of free partitions, those that mend racks of others, and what is forced.

    Parameters
    ----------
    mobility : (K,) int64
    forced : (K,) bool
    mends : (K, n) bool
    """
    return np.asarray((forced | (mobility == FREE))[:, None] | (mends & (mobility == RACKS_ONLY)[:, None]))
