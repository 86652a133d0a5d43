"""Prices of load for the whole cluster, from a linear program over classes of partitions.

Shards know the prices of their own brokers only. For a bound over all brokers the prices must agree, and a model of
the whole cluster is small if similar partitions (by size, and by bytes in over size) form a class. Variables out_bk and
in_bk count the replicas of class k that leave and enter broker b, export_rk the net export of rack r::

    minimise   sum_bk size_bk out_bk + PENALTY (sum_bd u_bd + v_bd)
    subject to lower_bd <= load_bd - sum_k mean_bkd out_bk + sum_k mean_kd in_bk + u_bd - v_bd <= upper_bd
               sum_{b of r} (size_bk / size_k) out_bk - in_bk = export_rk        for each rack and class
               sum_r export_rk = - growth_k                                      for each class

growth_k are the replicas that changed replication factors add to class k, minus those that they remove. The model's
objective is no bound, because a replica that leaves a broker need not have the mean size. But its band duals are
prices, and any prices prove a bound (``terms.partition_terms``).
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from optimizer.domain import Bands, Brokers, Floats, Ints
from optimizer.solve.ortools.glop import minimise
from optimizer.solve.rules.resources import DISK, REPLICAS

SIZE_CLASSES = 8  # quantiles of size; 8 by 4 classes give about a hundred columns for each broker
RATE_CLASSES = 4  # quantiles of bytes in over size, in each size class
NO_SIZE = 1e-18  # mean broker loads: divides in place of 0 for classes of empty partitions; far less than a byte
# Penalty in bytes for a unit of load outside its band, both in mean broker loads: the largest possible price.
# Any value gives a valid bound. A band that can't be met has this price, and a high price would outweigh the others.
PENALTY = 20.0


@dataclass(frozen=True)
class Classes:
    """Replicas of each broker by class, in mean broker loads.

    Parameters
    ----------
    load : (B, K, D) float64
        Sum of the loads of the broker's replicas of the class.
    mean : (K, D) float64
        Load of one replica of the class.
    growth : (K,) float64
        Bytes that changed replication factors add to the class, minus those that they remove.
    """

    load: Floats
    mean: Floats
    growth: Floats


def quantile_classes(count: Ints, classes: int) -> Ints:
    """Class of each bin, (N,), so that classes have about equally many members; bins are in order."""
    middle = np.cumsum(count) - count / 2
    return np.minimum((middle * classes / max(int(count.sum()), 1)).astype(np.int64), classes - 1)


def class_of_bins(size_bin: Ints, rate_bin: Ints, count: Ints) -> Ints:
    """Class of each (size, rate) bin, (N,): quantiles of size, divided into quantiles of the rate."""
    classes = np.zeros(len(count), dtype=np.int64)
    sizes, inverse = np.unique(size_bin, return_inverse=True)
    of_size = quantile_classes(np.bincount(inverse, count, len(sizes)).astype(np.int64), SIZE_CLASSES)[inverse]
    for size_class in np.unique(of_size):
        rows = np.flatnonzero(of_size == size_class)
        rates, at = np.unique(rate_bin[rows], return_inverse=True)
        of_rate = quantile_classes(np.bincount(at, count[rows], len(rates)).astype(np.int64), RATE_CLASSES)[at]
        classes[rows] = size_class * RATE_CLASSES + of_rate
    return classes


def class_prices(brokers: Brokers, classes: Classes, bands: Bands, scale: Floats, *, leave_racks: bool) -> Floats:
    """Price of one mean broker load on each broker, in bytes per mean broker loads, (B, D)
    (formula 23 of docs/solver.md).

    Parameters
    ----------
    scale : (D,) float64
        Mean broker load, absolute.
    leave_racks : bool
        Replicas may change racks.
    """
    n, k, d = classes.load.shape
    held = classes.load[:, :, REPLICAS] * scale[REPLICAS]
    mean_here = classes.load / np.maximum(held, 1.0)[:, :, None]
    band_rows = _band_rows(mean_here, classes.mean)
    balance = _balance_rows(brokers, mean_here, classes.mean, leave_racks)
    slack = sp.eye_array(n * d, format="csr")
    exports = balance.shape[1] - 2 * n * k
    blank = sp.csr_array((n * d, exports))
    tail = sp.csr_array((balance.shape[0], 2 * n * d))
    matrix = sp.vstack([sp.hstack([band_rows, blank, slack, -slack]), sp.hstack([balance, tail])]).tocsr()
    empties = np.repeat(brokers.must_empty, k)
    low = np.concatenate([np.where(empties, held.ravel(), 0.0), np.zeros(n * k + exports + 2 * n * d)])
    open_ = np.where(np.repeat(brokers.accepts_replicas, k), np.inf, 0.0)
    high = np.concatenate([held.ravel(), open_, np.full(exports + 2 * n * d, np.inf)])
    cost = np.concatenate([mean_here[:, :, DISK].ravel(), np.zeros(n * k + exports), np.full(2 * n * d, PENALTY)])
    now = classes.load.sum(axis=1)
    growing = -_growth(brokers, classes, leave_racks, balance.shape[0])
    row_low = np.concatenate([(bands.lower / scale - now).ravel(), growing])
    row_high = np.concatenate([(bands.upper / scale - now).ravel(), growing])
    shift = matrix @ low
    _, duals, _ = minimise(cost, high - low, row_low - shift, row_high - shift, matrix)
    return np.where(brokers.must_empty[:, None], 0.0, -duals[: n * d].reshape(n, d))


def _band_rows(mean_here: Floats, mean: Floats) -> sp.csr_array:
    """Loads that leave and enter each broker, (B * D, 2 * B * K)."""
    n, k, d = mean_here.shape
    row = np.broadcast_to(np.arange(n)[:, None, None] * d + np.arange(d), (n, k, d)).ravel()
    column = np.broadcast_to((np.arange(n * k).reshape(n, k))[:, :, None], (n, k, d)).ravel()
    entering = np.broadcast_to(mean, (n, k, d)).ravel()
    data = np.concatenate([-mean_here.ravel(), entering])
    return sp.csr_array((data, (np.tile(row, 2), np.concatenate([column, column + n * k]))), shape=(n * d, 2 * n * k))


def _balance_rows(brokers: Brokers, mean_here: Floats, mean: Floats, leave_racks: bool) -> sp.csr_array:
    """Replicas that leave a rack and class enter it again, or are exported: (R * K [+ K], 2 * B * K [+ 2 * R * K])."""
    n, k, _ = mean_here.shape
    rack, racks = _racks(brokers)
    row = (rack[:, None] * k + np.arange(k)).ravel()
    leaving = (mean_here[:, :, DISK] / np.maximum(mean[:, DISK], NO_SIZE)).ravel()
    columns = np.arange(n * k)
    body = sp.csr_array(
        (np.concatenate([leaving, -np.ones(n * k)]), (np.tile(row, 2), np.r_[columns, columns + n * k])),
        shape=(racks * k, 2 * n * k),
    )
    if not leave_racks or racks == 1:
        return body
    export = sp.eye_array(racks * k, format="csr")
    total = sp.hstack([sp.eye_array(k, format="csr")] * racks)
    return sp.vstack(
        [sp.hstack([body, -export, export]), sp.hstack([sp.csr_array((k, 2 * n * k)), total, -total])]
    ).tocsr()


def _racks(brokers: Brokers) -> tuple[Ints, int]:
    """Rack of each broker, (B,), and how many there are; one where racks do not matter."""
    rack = brokers.rack if brokers.racks_matter else np.zeros(len(brokers), dtype=np.int64)
    return rack, int(rack.max(initial=0)) + 1


def _growth(brokers: Brokers, classes: Classes, leave_racks: bool, rows: int) -> Floats:
    """Mean replicas that arrive in addition to those that leave, in the order of ``_balance_rows``.

    If replicas can't leave their racks, a class that grows or shrinks, or that must leave a rack without accepting
    brokers, is shared evenly among the racks.
    """
    rack, racks = _racks(brokers)
    unit = np.maximum(classes.mean[:, DISK], NO_SIZE)
    growth = classes.growth / unit
    if leave_racks and racks > 1:
        return np.concatenate([np.zeros(rows - len(growth)), growth])
    held, stays = np.zeros((2, racks, len(growth)))
    replicas = classes.load[:, :, DISK] / unit
    np.add.at(held, rack, replicas)
    np.add.at(stays, rack, np.where(brokers.must_empty[:, None], 0.0, replicas))
    open_ = (np.bincount(rack, brokers.accepts_replicas, racks) > 0)[:, None]
    shared = held.sum(axis=0) + growth - np.where(open_, 0.0, stays).sum(axis=0)
    target = np.where(open_, shared / max(int(open_.sum()), 1), stays)
    leaving = (held - stays)[~open_[:, 0]].any(axis=0)
    return np.where((growth != 0) | leaving, target - held, 0.0).ravel()
