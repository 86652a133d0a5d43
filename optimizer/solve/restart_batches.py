"""The fewest batches in which brokers may restart together, so that every partition keeps enough in-sync replicas.

References
----------
J. C. Culberson, Iterated greedy graph coloring and the difficulty landscape, University of Alberta TR 92-07, 1992.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from ortools.sat.python import cp_model

from optimizer.domain import Bools, Ints
from optimizer.solve.ortools.cp_sat import careful_solver

_MOST_LITERALS = 2_000_000  # of a model: with 1,000 brokers the greedy batches and the bound from sizes must do
_ROUNDS = 100  # of the iterated greedy method

Row = tuple[frozenset[int], int]  # brokers, and how many of them may be in one batch
Cap = tuple[Ints, int]  # weights of all brokers, and the most that a batch weighs


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
        Brokers that are pairwise in different batches; the proof if there are as many as batches.
    """

    batches: tuple[tuple[int, ...], ...]
    bound: int
    clique: tuple[int, ...]

    @property
    def is_proven(self) -> bool:
        """Whether no order has fewer batches."""
        return len(self.batches) == self.bound


def fewest_batches(
    in_sync: Ints,
    slack: Ints,
    may_restart: Bools,
    *,
    apart: Ints | None = None,
    caps: Sequence[Cap] = (),
    groups: Ints | None = None,
    deterministic_time: float = 20.0,
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
    apart : (N,) int64, optional
        Brokers that are never together, whatever their partitions.
    caps : sequence of (weights, cap)
        The brokers of a batch together weigh no more, (B,) int64. A broker that is too heavy is as heavy as the cap.
    groups : (B,) int64, optional
        Brokers that a person would restart together, such as racks: the batches, if they are allowed and as few as the
        best of the greedy method.
    deterministic_time : float
        Limit of OR-Tools for all searches together; with 0 nothing is searched.
    """
    brokers = np.flatnonzero(may_restart)
    ordered = brokers if groups is None else brokers[np.argsort(groups[brokers], kind="stable")]
    pairs, rows = restart_rows(in_sync, slack, may_restart)
    alone = np.intersect1d([] if apart is None else apart, brokers).astype(np.int64)
    pairs[np.ix_(alone, alone)] = ~np.eye(len(alone), dtype=bool)
    capped = [(np.minimum(weights, cap), cap) for weights, cap in caps]
    problem = _Problem(ordered.tolist(), pairs, rows, capped)
    given = [] if groups is None else [brokers[groups[brokers] == each].tolist() for each in np.unique(groups[brokers])]
    clique = problem.clique()
    bound = max(len(clique), problem.least())
    best, left = problem.greedy(bound), deterministic_time
    if given and len(given) <= len(best) and problem.allows(given):
        best = given
    while len(best) > bound and left > 0 and problem.literals(len(best)) < _MOST_LITERALS:
        solver = careful_solver(left)
        solver.parameters.linearization_level = 0  # colours are proven by cliques; the relaxation takes 20 times longer
        status, found = problem.search(solver, len(best) - 1, clique)
        left -= solver.response_proto.deterministic_time
        if status == cp_model.INFEASIBLE:
            bound = len(best)
        elif not found:
            break
        best = found or best
    batches = sorted((tuple(sorted(batch)) for batch in best), key=lambda batch: (-len(batch), batch))
    return Batches(tuple(batches), bound, tuple(sorted(clique)))


def restart_rows(in_sync: Ints, slack: Ints, may_restart: Bools) -> tuple[Bools, list[Row]]:
    """The pairs of brokers that are never in one batch, (B, B), from slack 1; distinct larger sets and their limits.

    Parameters
    ----------
    in_sync, slack, may_restart :
        As for ``fewest_batches``.
    """
    members = np.where((in_sync >= 0) & may_restart[in_sync], in_sync, -1)
    apart = np.zeros((len(may_restart), len(may_restart)), dtype=bool)
    for one, other in permutations(members[slack == 1].T, 2):
        both = (one >= 0) & (other >= 0)
        apart[one[both], other[both]] = True
    binds = (slack > 1) & ((members >= 0).sum(axis=1) > slack)
    least: dict[frozenset[int], int] = {}
    for limit, *ids in np.unique(np.column_stack([slack, np.sort(members, axis=1)])[binds], axis=0).tolist():
        least.setdefault(frozenset(b for b in ids if b >= 0), limit)  # ascending: the lowest limit of a set is first
    return apart, [*least.items()]


@dataclass(frozen=True)
class _Problem:
    """Brokers, the pairs that are never together (B, B), larger sets with their limits, and caps of a batch."""

    brokers: list[int]
    apart: Bools
    rows: list[Row]
    caps: list[Cap]

    def least(self) -> int:
        """A lower bound from sizes alone."""
        by_weight = (-(-int(weights[self.brokers].sum()) // cap) for weights, cap in self.caps)
        return max([min(len(self.brokers), 1), *by_weight, *(-(-len(ids) // limit) for ids, limit in self.rows)])

    def allows(self, batches: Iterable[Sequence[int]]) -> bool:
        """Whether these batches meet all rows."""
        return all(
            all(weights[batch].sum() <= cap for weights, cap in self.caps)
            and not self.apart[np.ix_(batch, batch)].any()
            and all(len(ids.intersection(batch)) <= limit for ids, limit in self.rows)
            for batch in batches
        )

    def greedy(self, bound: int) -> list[list[int]]:
        """Batches of the iterated greedy method: the batches of a round, in another order, are those of the next one.

        The members of a batch follow each other, and fit together, so no round needs more batches.
        """
        random, batches = np.random.default_rng(1), self._first_fit(self.brokers)
        best = batches
        for round_number in range(min(_ROUNDS, _MOST_LITERALS // (1 + sum(len(ids) for ids, _ in self.rows)))):
            if len(best) == bound:
                break
            if round_number % 2:
                batches = sorted(batches, key=len, reverse=True)
            else:
                batches = [batches[at] for at in random.permutation(len(batches))]
            batches = self._first_fit(broker for batch in batches for broker in batch)
            best = min(best, batches, key=len)
        return best

    def _first_fit(self, order: Iterable[int]) -> list[list[int]]:
        """Each broker in the first batch that can take it."""
        batches, blocked = list[list[int]](), list[Bools]()
        taken = list[Ints]()  # members of each row in a batch
        for broker in order:
            at = next((at for at, full in enumerate(blocked) if not full[broker]), len(batches))
            if at == len(batches):
                batches.append([])
                blocked.append(np.zeros(len(self.apart), dtype=bool))
                taken.append(np.zeros(len(self.rows), dtype=np.int64))
            batches[at].append(broker)
            blocked[at] |= self.apart[broker]
            for weights, cap in self.caps:
                blocked[at] |= weights[batches[at]].sum() + weights > cap
            rows = self._rows_of[broker]
            taken[at][rows] += 1
            blocked[at] |= self._holds[rows[taken[at][rows] >= self._limits[rows]]].any(axis=0)
        return batches

    @cached_property
    def _holds(self) -> Bools:
        """Which brokers a row has, (R, B)."""
        holds = np.zeros((len(self.rows), len(self.apart)), dtype=bool)
        for row, (ids, _) in enumerate(self.rows):
            holds[row, list(ids)] = True
        return holds

    @cached_property
    def _rows_of(self) -> list[Ints]:
        """The rows that have a broker."""
        return [np.flatnonzero(column) for column in self._holds.T]

    @cached_property
    def _limits(self) -> Ints:
        return np.array([limit for _, limit in self.rows], dtype=np.int64)

    def clique(self) -> list[int]:
        """Pairwise apart; the best of one greedy start at each broker."""
        apart, starts = self.apart.astype(np.float32), np.array(self.brokers, dtype=np.int64)
        common, found = apart[starts], starts[:, None]
        while common.any():
            grows = common.any(axis=1)
            common, found = common[grows], found[grows]
            best = np.where(common > 0, common @ apart, -1).argmax(axis=1)
            common, found = common * apart[best], np.column_stack([found, best])
        return found[0].tolist() if len(found) else []

    def search(self, solver: cp_model.CpSolver, count: int, clique: Sequence[int]) -> tuple[int, list[list[int]]]:
        """So many batches, or none, and the status. The members of a clique have a batch each."""
        model = cp_model.CpModel()
        x = {b: [model.new_bool_var("") for _ in range(count)] for b in self.brokers}
        for variables in x.values():
            model.add_exactly_one(variables)
        for batch, b in enumerate(clique):
            model.add(x[b][batch] == 1)
        for batch in range(count):
            for each in self._covering_cliques:
                model.add_at_most_one(x[b][batch] for b in each)
            for ids, limit in self.rows:
                model.add(sum(x[b][batch] for b in sorted(ids)) <= limit)
            for weights, cap in self.caps:
                model.add(sum(int(weights[b]) * variables[batch] for b, variables in x.items()) <= cap)
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return int(status), []
        chosen = [[b for b in self.brokers if solver.boolean_value(x[b][batch])] for batch in range(count)]
        return int(status), [batch for batch in chosen if batch]

    def literals(self, count: int) -> int:
        """The most literals of the model for so many batches."""
        return count * (int(self.apart.sum()) // 2 + sum(len(ids) for ids, _ in self.rows))

    @cached_property
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
