"""The fewest batches in which brokers may restart together, so that every partition keeps enough in-sync replicas.

References
----------
D. Brelaz, New methods to color the vertices of a graph, Communications of the ACM 22, 1979.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from ortools.sat.python import cp_model

from optimizer.domain import Bools, Ints
from optimizer.solve.ortools.cp_sat import careful_solver

_DETERMINISTIC_TIME = 30.0  # of OR-Tools: limit for each number of batches
_MOST_IN_CLIQUE_MODEL = 150  # brokers: above, the greedy clique is the bound that the search starts from

Row = tuple[frozenset[int], int]  # brokers, and how many of them may be in one batch


@dataclass(frozen=True)
class Batches:
    """Brokers that restart together.

    Parameters
    ----------
    batches : tuple of tuple of int
        Indices of brokers, the largest batch first, then by the lowest broker.
    bound : int
        No order has fewer batches.
    clique : tuple of int
        Brokers that are pairwise in different batches; the largest such set that was found.
    """

    batches: tuple[tuple[int, ...], ...]
    bound: int
    clique: tuple[int, ...]

    @property
    def is_proven(self) -> bool:
        """Whether no order has fewer batches."""
        return len(self.batches) == self.bound


def fewest_batches(
    in_sync: Ints, slack: Ints, may_restart: Bools, *, most: int = 0, first: Ints | None = None
) -> Batches:
    """Find the fewest batches, and a lower bound of their number.

    Parameters
    ----------
    in_sync : (P, W) int64
        Brokers (indices) of the in-sync replicas of each partition; -1 pads.
    slack : (P,) int64
        How many of them may be down together. Partitions without slack do not count.
    may_restart : (B,) bool
        Brokers to put into batches.
    most : int
        The most brokers in a batch; 0: any number.
    first : (B,) int64, optional
        A batch for each broker, such as its rack: used if it is allowed and no order is found with fewer batches.
    """
    problem = _Problem.of(restart_rows(in_sync, slack, may_restart), may_restart, most)
    best = problem.greedy()
    given = [] if first is None else _grouped((b, int(first[b])) for b in problem.brokers)
    best = given if given and len(given) <= len(best) and problem.allows(given) else best
    clique = problem.greedy_clique()
    if max(problem.counts(), len(clique)) < len(best) and len(problem.brokers) <= _MOST_IN_CLIQUE_MODEL:
        clique = problem.exact_clique(clique)
    bound = max(problem.counts(), len(clique))
    for count in range(bound, len(best)):
        status, found = problem.search(count, clique)
        if found:
            best = found
            break
        bound = count + 1 if status == cp_model.INFEASIBLE and bound == count else bound
    ordered = sorted((tuple(sorted(batch)) for batch in best), key=lambda batch: (-len(batch), batch))
    return Batches(tuple(ordered), bound, tuple(sorted(clique)))


def restart_rows(in_sync: Ints, slack: Ints, may_restart: Bools) -> list[Row]:
    """The distinct sets of brokers of which only some may be in one batch; none follows from another one.

    Parameters
    ----------
    in_sync, slack, may_restart :
        As for ``fewest_batches``.
    """
    counts = (in_sync >= 0) & may_restart[in_sync]
    binds = (slack > 0) & (counts.sum(axis=1) > slack)
    members = np.sort(np.where(counts, in_sync, -1)[binds], axis=1)
    least: dict[frozenset[int], int] = {}
    for limit, *ids in np.unique(np.column_stack([slack[binds], members]), axis=0).tolist():
        least.setdefault(frozenset(b for b in ids if b >= 0), limit)  # ascending: the lowest limit of a set is first
    pairs = {frozenset(pair) for ids, limit in least.items() if limit == 1 for pair in combinations(sorted(ids), 2)}
    rows = [(ids, limit) for ids, limit in least.items() if limit > 1 and _independent(ids, pairs) > limit]
    return [*((pair, 1) for pair in sorted(pairs, key=sorted)), *_undominated(rows)]


def _independent(ids: Iterable[int], pairs: set[frozenset[int]]) -> int:
    """At most so many of these brokers can be in one batch: into so many cliques they are split."""
    cliques: list[list[int]] = []
    for broker in sorted(ids):
        for clique in cliques:
            if all(frozenset((broker, other)) in pairs for other in clique):
                clique.append(broker)
                break
        else:
            cliques.append([broker])
    return len(cliques)


def _undominated(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows that no row of more brokers with the same or a lower limit implies."""
    holding: dict[int, list[Row]] = {}
    for row in rows:
        for broker in row[0]:
            holding.setdefault(broker, []).append(row)
    has_sizes = len({len(ids) for ids, _ in rows}) > 1
    for ids, limit in rows:
        rarest = min(ids, key=lambda broker: (len(holding[broker]), broker))
        if not (has_sizes and any(ids < other and least <= limit for other, least in holding[rarest])):
            yield ids, limit


@dataclass(frozen=True)
class _Problem:
    """Brokers, the pairs that are never together (B, B), and larger sets with their limits."""

    brokers: list[int]
    apart: Bools
    rows: list[Row]
    most: int

    @classmethod
    def of(cls, rows: Sequence[Row], may_restart: Bools, most: int) -> "_Problem":
        apart = np.zeros((len(may_restart), len(may_restart)), dtype=bool)
        for ids, limit in rows:
            if limit == 1:
                low, high = sorted(ids)
                apart[low, high] = apart[high, low] = True
        brokers = np.flatnonzero(may_restart).tolist()
        return cls(brokers, apart, [row for row in rows if row[1] > 1], most or max(len(brokers), 1))

    def counts(self) -> int:
        """A lower bound from sizes alone."""
        return max([-(-len(self.brokers) // self.most), *(-(-len(ids) // limit) for ids, limit in self.rows)])

    def allows(self, batches: Iterable[Sequence[int]]) -> bool:
        """Whether these batches meet all rows."""
        return all(
            len(batch) <= self.most
            and not self.apart[np.ix_(batch, batch)].any()
            and all(len(ids.intersection(batch)) <= limit for ids, limit in self.rows)
            for batch in batches
        )

    def greedy(self) -> list[list[int]]:
        """Batches of DSATUR: the broker that the fewest batches can take is next, into the first that can."""
        size = len(self.apart)
        blocked, batches = np.zeros((size, size), dtype=bool), list[list[int]]()
        degree, left = self.apart.sum(axis=1), set(self.brokers)
        while left:
            broker = max(left, key=lambda b: (blocked[b].sum(), degree[b], -b))
            at = int(np.argmin(blocked[broker]))
            if at == len(batches):
                batches.append([])
            batches[at].append(broker)
            left.remove(broker)
            blocked[self.apart[broker], at] = True
            blocked[:, at] |= len(batches[at]) >= self.most
            for ids, limit in self.rows:
                if broker in ids and len(ids.intersection(batches[at])) >= limit:
                    blocked[sorted(ids), at] = True
        return batches

    def greedy_clique(self) -> list[int]:
        """Pairwise apart; the best of one greedy start at each broker."""
        best: list[int] = []
        for start in self.brokers:
            clique, common = [start], self.apart[start].copy()
            while common.any():
                ids = np.flatnonzero(common)
                clique.append(int(ids[self.apart[np.ix_(ids, ids)].sum(axis=1).argmax()]))
                common &= self.apart[clique[-1]]
            best = max(best, clique, key=len)
        return best

    def exact_clique(self, known: list[int]) -> list[int]:
        """The largest clique, or the known one if there is none larger or the search ends first."""
        model = cp_model.CpModel()
        x = {b: model.new_bool_var("") for b in self.brokers}
        for one, other in combinations(self.brokers, 2):
            if not self.apart[one, other]:
                model.add_at_most_one(x[one], x[other])
        model.add(sum(x.values()) > len(known))
        model.maximize(sum(x.values()))
        solver = careful_solver(_DETERMINISTIC_TIME)
        found = solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        return [b for b in self.brokers if solver.boolean_value(x[b])] if found else known

    def search(self, count: int, clique: Sequence[int]) -> tuple[int, list[list[int]]]:
        """So many batches, or none; and the status of CP-SAT. The members of a clique have a batch each."""
        model = cp_model.CpModel()
        x = {(b, c): model.new_bool_var("") for b in self.brokers for c in range(count)}
        for b in self.brokers:
            model.add_exactly_one(x[b, c] for c in range(count))
        for c, b in enumerate(clique):
            model.add(x[b, c] == 1)
        cliques = self._covering_cliques()
        for c in range(count):
            for each in cliques:
                model.add_at_most_one(x[b, c] for b in each)
            for ids, limit in self.rows:
                model.add(sum(x[b, c] for b in sorted(ids)) <= limit)
            if self.most < len(self.brokers):
                model.add(sum(x[b, c] for b in self.brokers) <= self.most)
        solver = careful_solver(_DETERMINISTIC_TIME)
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return int(status), []
        return int(status), _grouped(key for key, variable in x.items() if solver.boolean_value(variable))

    def _covering_cliques(self) -> list[list[int]]:
        """Cliques that have every pair of brokers that is never together."""
        missing, cliques = self.apart.copy(), list[list[int]]()
        for one, other in np.argwhere(np.triu(self.apart)).tolist():
            if missing[one, other]:
                clique, common = [one, other], self.apart[one] & self.apart[other]
                while common.any():
                    clique.append(int(np.where(common, missing[clique].sum(axis=0), -1).argmax()))
                    common = common & self.apart[clique[-1]]
                missing[np.ix_(clique, clique)] = False
                cliques.append(clique)
        return cliques


def _grouped(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The brokers of each batch, from pairs of a broker and its batch."""
    batches: dict[int, list[int]] = {}
    for broker, batch in pairs:
        batches.setdefault(batch, []).append(broker)
    return list(batches.values())
