"""The ends of copies, and a lower bound on the total time of a plan's waves.

A copy has two ends: the broker that receives it, and the *leader* that sends it. A wave lasts as long as its busiest
end needs. At equal rates its length is the bytes of that end.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optimizer.domain import Bools, Ints
from optimizer.schedule.wave_changes import WaveChanges


@dataclass(frozen=True)
class Ends:
    """The ends of each change, as columns: broker b receives in column b and sends in column B + b.

    Parameters
    ----------
    column : (N, W + 1) int64
        Columns of a change; 2B where it has no further end.
    size_bytes : (N, W + 1) int64
        Bytes of the change at each of its ends; 0 in column 2B.
    n_columns : int
        2B + 1.
    """

    column: Ints
    size_bytes: Ints
    n_columns: int

    @property
    def length_bytes(self) -> Ints:
        """Length of a wave that has only this change, (N,)."""
        return self.size_bytes.max(axis=1, initial=0)

    @property
    def busiest_bytes(self) -> int:
        """Bytes of all changes at the busiest end."""
        return int(self.loads(np.ones(len(self.column), dtype=bool)).max())

    def loads(self, rows: Bools) -> Ints:
        """Bytes of some changes, (N,) bool, in each column, (2B + 1,)."""
        total = np.zeros(self.n_columns, dtype=np.int64)
        np.add.at(total, self.column[rows], self.size_bytes[rows])
        return total

    @cached_property
    def _rows_by_column(self) -> tuple[Ints, Ints]:
        """Rows by column, the smallest changes first; where the rows of each column begin."""
        row, column = np.arange(self.column.size) // self.column.shape[1], self.column.ravel()
        order = np.lexsort((row, self.length_bytes[row], column))
        return row[order], np.searchsorted(column[order], np.arange(self.n_columns + 1))

    def rows_at(self, column: int) -> Ints:
        """Changes with a part in a column, the smallest first."""
        rows, begin = self._rows_by_column
        return rows[begin[column] : begin[column + 1]]


def ends_of(changes: WaveChanges, n_brokers: int) -> Ends:
    """The ends of every change; a change without copies or without a leader has fewer."""
    receives, sends = changes.added >= 0, (changes.source >= 0) & (changes.copies > 0)
    column = np.column_stack(
        (np.where(receives, changes.added, 2 * n_brokers), np.where(sends, n_brokers + changes.source, 2 * n_brokers))
    )
    size_bytes = np.column_stack(
        (changes.copy_bytes, np.where(sends, changes.endpoint_bytes, 0)),
    )
    return Ends(column, size_bytes, 2 * n_brokers + 1)


def least_total_bytes(changes: WaveChanges, n_brokers: int, n_waves: int) -> int:
    """Lower bound on the sum of the waves' lengths, if ``n_waves`` waves have a change each
    (formula 28 of docs/solver.md).

    Take any end e. The changes with a part in e sum to B(e) bytes there, and there are k(e) of them. Waves in which e
    has a part are at least as long as its bytes in them, together B(e). They are at most k(e). So at least n - k(e)
    waves have only changes without a part in e, each at least one, and no change twice. Such a wave is at least as long
    as its change alone. Together they are at least as long as the n - k(e) smallest changes without a part in e. Both
    groups of waves are disjoint, so the two sums add up. The largest such sum over all ends is the bound. Limits of
    disks, requests and urgency only remove waves, so it stays valid.

    Parameters
    ----------
    changes : WaveChanges
        Without reorders: they may share any wave and take no time.
    n_waves : int
        Waves that have a change; at most as many as there are changes.
    """
    ends = ends_of(changes, n_brokers)
    lengths, loads = ends.length_bytes, ends.loads(np.ones(len(changes), dtype=bool))
    smallest = np.argsort(lengths, kind="stable")[:n_waves]  # enough: at most k(e) of them have a part in e
    parts = np.bincount(ends.column.ravel(), minlength=ends.n_columns)
    best = int(lengths[smallest].sum())  # of an end without any change
    for end in range(ends.n_columns - 1):
        others = smallest[(ends.column[smallest] != end).all(axis=1)]
        best = max(best, int(loads[end]) + int(lengths[others[: max(n_waves - int(parts[end]), 0)]].sum()))
    return best
