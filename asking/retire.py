"""Which brokers are cheapest to empty: subsets are solved in the order of a bound, until none can be cheaper."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from asking.answer import Answer, answer
from asking.progress import say_estimate
from asking.question import Question, instance_for, settings_for
from asking.run_facts import RunFacts
from optimizer.cluster_policy import DRAIN
from optimizer.domain import MOBILITY, Brokers, Floats
from optimizer.errors import ConfigError
from optimizer.planning.arrays import to_brokers, to_partitions
from optimizer.settings import Policy
from optimizer.solve.bounds.bound import flow_bytes
from optimizer.solve.rules.bands import Demand, bands_for, broker_loads, demand_of, replica_weights
from optimizer.solve.rules.resources import DISK
from optimizer.units import clause, human_bytes, human_count, plural

MOST_SUBSETS = 50_000  # a bound takes some 0.3 ms: more would take longer than the plans themselves
MOST_SOLVED = 60  # plans; after so many the best one is reported without proof
TOLERANCE = 0.001  # of the bytes: subsets that are this close to the best one count as equal
SHOWN = 3  # columns of the table; JSON has all


@dataclass(frozen=True)
class Choice:
    """The brokers that are cheapest to empty.

    Parameters
    ----------
    answers : sequence of Answer
        All that were solved, the best first.
    subsets : int
        How many subsets have a bound.
    next_bound_bytes : int or None
        Bound of the first subset that was not solved; None if all were.
    is_greedy : bool
        Brokers were chosen one after the other, because there are too many subsets.
    """

    answers: Sequence[Answer]
    subsets: int
    next_bound_bytes: int | None
    is_greedy: bool

    def words(self) -> str:
        """One sentence."""
        best = self.answers[0]
        ids = ", ".join(map(str, best.question.added_to["drain_brokers"]))
        if not best.plan:
            return f"Nothing can be emptied: the bytes of the best choice, {ids}, do not fit on the other brokers."
        if staying := best.figures["replicas_on_leaving_brokers"][1]:
            left = clause(round(staying), "replica", "stays", "stay")
            return f"Nothing can be emptied as asked: with the best choice, {ids}, {left} on brokers to empty."
        text = f"Cheapest to empty: {ids}, {human_bytes(_bytes(best))} copied"
        counted = f"{human_count(self.subsets)} subsets bounded, {plural(len(self.answers), 'plan')} solved"
        if self.is_greedy:
            return f"{text}. Greedy: one broker after the other, because there are too many subsets ({counted})."
        return f"{text}. Any choice copies at least {human_bytes(self.least_bytes)} (proven; {counted})."

    @property
    def least_bytes(self) -> float:
        """What any subset copies at least: the proven minimum of each solved plan, and the bounds of the others."""
        solved = (item.figures["bound_bytes"][1] or 0.0 for item in self.answers if item.plan)
        return min([*solved, *([] if self.next_bound_bytes is None else [self.next_bound_bytes])])


def retire(facts: RunFacts, base: Question, count: int, candidates: Sequence[int] = ()) -> Choice:
    """Choose brokers to empty.

    Parameters
    ----------
    base : Question
        Other requests and another cluster.
    candidates : sequence of int
        Brokers to choose from; by default all that accept replicas.

    Raises
    ------
    ConfigError
        When there are not more candidates than brokers to choose, or one is unknown.
    """
    [requests] = settings_for(facts, base).cluster_policies().values()
    if requests.only not in ("", DRAIN):
        raise ConfigError(f"--retire: with only {requests.only} no broker is emptied; use --only none or --only drain")
    bound = _Bound.of(facts, base)
    chosen_from = [*dict.fromkeys(candidates)] or bound.accepting
    unknown = sorted(set(chosen_from) - set(bound.accepting))
    if unknown:
        raise ConfigError(f"--of {', '.join(map(str, unknown))}: brokers that accept replicas are {bound.accepting}")
    if not 0 < count < len(bound.accepting) or count > len(chosen_from):
        number = plural(len(chosen_from), "broker")
        raise ConfigError(f"--retire {count}: {number} can be chosen, and one broker must remain")
    if comb(len(chosen_from), count) > MOST_SUBSETS:
        return _greedy(facts, base, bound, count, chosen_from)
    subsets = sorted((bound.of_subset(subset), subset) for subset in combinations(sorted(chosen_from), count))
    return _solved(facts, base, subsets)


def _solved(facts: RunFacts, base: Question, subsets: Sequence[tuple[int, tuple[int, ...]]]) -> Choice:
    """Solve subsets in the order of their bounds, until the best plan is proven."""
    answers: list[Answer] = []
    for bound_bytes, subset in subsets:
        if answers and (_is_proven(answers[0], bound_bytes) or len(answers) == MOST_SOLVED):
            break
        question = _draining(base, subset)
        say_estimate(facts, 1, question.name)
        answers.append(answer(facts, question))
        answers.sort(key=_rank)
    remaining = subsets[len(answers)][0] if len(answers) < len(subsets) else None
    return Choice(answers, len(subsets), remaining, is_greedy=False)


def _greedy(facts: RunFacts, base: Question, bound: "_Bound", count: int, candidates: Sequence[int]) -> Choice:
    chosen: tuple[int, ...] = ()
    bounded = 0
    for _ in range(count):
        remaining = [broker for broker in sorted(candidates) if broker not in chosen]
        subsets = sorted((bound.of_subset((*chosen, broker)), (*chosen, broker)) for broker in remaining)
        bounded += len(subsets)
        choice = _solved(facts, base, subsets)
        chosen = choice.answers[0].question.added_to["drain_brokers"][-len(chosen) - 1 :]
    return Choice(choice.answers, bounded, choice.next_bound_bytes, is_greedy=True)


def _draining(base: Question, subset: Sequence[int]) -> Question:
    drained = (*base.added_to.get("drain_brokers", ()), *subset)
    name = f"retire {', '.join(map(str, subset))}"
    return replace(base, name=name, added_to={**base.added_to, "drain_brokers": drained})


def _bytes(item: Answer) -> float:
    return item.figures["moved_bytes"][1] or 0.0 if item.plan else float("inf")


def _unmet(item: Answer) -> float:
    """Replicas that stay on brokers to empty, and partitions that break racks; infinite if the bytes do not fit."""
    if not item.plan:
        return float("inf")
    return sum(item.figures[name][1] or 0 for name in ("replicas_on_leaving_brokers", "rack_violations"))


def _outside(item: Answer) -> float:
    """Brokers outside bands, which a subset with more bytes may avoid."""
    return item.figures["brokers_outside_bands"][1] or 0.0 if item.plan else float("inf")


def _rank(item: Answer) -> tuple[float, float, float]:
    return _unmet(item), _outside(item), _bytes(item)


def _is_proven(best: Answer, next_bound_bytes: int) -> bool:
    """Whether no subset from this bound on can be better: the best plan reaches all, and is cheaper than the bound."""
    return _rank(best)[:2] == (0, 0) and next_bound_bytes >= (1 - TOLERANCE) * _bytes(best)


@dataclass(frozen=True)
class _Bound:
    """Bytes that any plan must copy if a subset of brokers is emptied: the larger of the flow out of bands and into
    them (formula 17 of docs/solver.md), and what free partitions hold there."""

    brokers: Brokers
    demand: Demand
    loads: Floats
    leaving_bytes: Floats
    policy: Policy

    @classmethod
    def of(cls, facts: RunFacts, base: Question) -> "_Bound":
        """The bound for the cluster of a question."""
        settings, instance, hosts = instance_for(facts, base)
        brokers = to_brokers(hosts)
        partitions = to_partitions(instance, brokers.ids)
        weights = replica_weights(partitions)
        may_leave = np.isin(partitions.mobility, [MOBILITY.index(name) for name in ("free", "forced_only")])
        free = np.where(may_leave[:, None], partitions.replicas, -1)
        return cls(
            brokers=brokers,
            demand=demand_of(partitions),
            loads=broker_loads(len(brokers), partitions.replicas, weights),
            leaving_bytes=broker_loads(len(brokers), free, weights)[:, DISK],
            policy=settings.policy,
        )

    @property
    def accepting(self) -> list[int]:
        """Ids of the brokers that accept replicas, ascending."""
        return [int(b) for b in self.brokers.ids[self.brokers.accepts_replicas]]

    def of_subset(self, subset: Sequence[int]) -> int:
        """The bound if these brokers are emptied."""
        leaves = np.isin(self.brokers.ids, subset)
        brokers = replace(
            self.brokers,
            accepts_replicas=self.brokers.accepts_replicas & ~leaves,
            must_empty=self.brokers.must_empty | leaves,
        )
        bands = bands_for(brokers, self.demand, self.loads, self.policy)
        flow = flow_bytes(self.loads, bands, self.loads)
        return max(flow, int(self.leaving_bytes[brokers.must_empty].sum()))
