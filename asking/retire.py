"""Which brokers are cheapest to empty: subsets are solved in the order of a bound, until none can be cheaper."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from asking.answer import Answer, answer
from asking.first_sentence import left_by
from asking.progress import Search, say_estimate
from asking.question import Question, instance_for, settings_for
from asking.run_facts import RunFacts
from asking.sections import Grid
from optimizer.cluster_policy import DRAIN
from optimizer.domain import MOBILITY, Brokers, Floats
from optimizer.errors import ConfigError
from optimizer.planning.arrays import to_brokers, to_partitions
from optimizer.settings import Policy, Settings
from optimizer.solve.bounds.bound import flow_bytes
from optimizer.solve.rules.bands import Demand, bands_for, broker_loads, demand_of, replica_weights
from optimizer.solve.rules.resources import DISK, REPLICAS
from optimizer.units import clause, human_bytes, human_count, plural

MOST_SUBSETS = 50_000  # a bound takes some 0.3 ms: more would take longer than the plans themselves
MOST_SOLVED = 60  # plans; after so many the best one is reported without proof
TOLERANCE = 0.001  # of the bytes: subsets that are this close to the best one count as equal
SHOWN = 3  # columns of the table; JSON has all
_PREFIX = "retire "  # of the name of a column
RANKED = 12  # rows of the ranking


@dataclass(frozen=True)
class Choice:
    """The brokers that are cheapest to empty.

    Parameters
    ----------
    answers : sequence of Answer
        All that were solved, the best first.
    subsets : int
        How many subsets have a bound.
    unsolved : sequence of (bytes, brokers)
        The other subsets in the order of their bounds.
    next_bound_bytes : int or None
        Bound of the first subset that was not solved; None if all were.
    is_proven : bool
        No other subset can be cheaper; else the search stopped after ``MOST_SOLVED`` plans.
    is_greedy : bool
        Brokers were chosen one after the other, because there are too many subsets.
    """

    answers: Sequence[Answer]
    subsets: int
    unsolved: Sequence[tuple[int, tuple[int, ...]]]
    next_bound_bytes: int | None
    is_proven: bool
    is_greedy: bool

    def words(self) -> str:
        """One sentence."""
        best = self.answers[0]
        ids = _chosen(best)
        if not best.plan:
            return f"Nothing can be emptied: the bytes of the best choice, {ids}, do not fit on the other brokers."
        if staying := best.figures["replicas_on_leaving_brokers"][1]:
            left = clause(round(staying), "replica", "stays", "stay")
            return f"Nothing can be emptied as asked: with the best choice, {ids}, {left} on brokers to empty."
        return f"Cheapest to empty: {ids}, {human_bytes(_bytes(best))} copied."

    def proof(self) -> str:
        """How far it is proven."""
        bounded, solved = f"{human_count(self.subsets)} subsets bounded", plural(len(self.answers), "plan")
        if self.is_greedy:
            return (
                f"Greedy: one broker after the other, because there are too many subsets ({bounded}, {solved} solved)."
            )
        least = f"Any choice copies at least {human_bytes(self.least_bytes)}"
        if not self.is_proven:
            return f"The search stopped after {solved}, not proven. {least} ({bounded})."
        return f"{least} (proven; {bounded}, {solved} solved)."

    def ranking(self) -> list[str | Grid]:
        """The choices, the best first: those that were solved, then the others by their bounds."""
        solved = [
            (_chosen(item), human_bytes(_bytes(item)), left_by(item.figures))
            if item.plan
            else (_chosen(item), "does not fit", "")
            for item in self.answers
        ]
        bounded = [(", ".join(map(str, ids)), f"at least {human_bytes(size)}", "") for size, ids in self.unsolved]
        rows = [*solved, *bounded]
        more = [f"And {len(rows) - RANKED:,} more."] if len(rows) > RANKED else []
        return [Grid(("brokers", "bytes copied", "but"), rows[:RANKED], texts=(0, 2)), *more]

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
        Brokers to choose from; by default all that accept replicas and have some.

    Raises
    ------
    ConfigError
        When there are not more candidates than brokers to choose, or one is unknown.
    """
    if "drain_brokers" in base.knobs.get("policy", {}):
        remedy = "add brokers with --drain, remove those of the run with --keep"
        raise ConfigError(f"--retire chooses the brokers to empty, --set policy.drain_brokers replaces them: {remedy}")
    [requests] = settings_for(facts, base).cluster_policies().values()
    if requests.only not in ("", DRAIN):
        raise ConfigError(f"--retire: with only {requests.only} no broker is emptied; use --only none or --only drain")
    bound = _Bound.of(facts, base)
    usable = [broker for broker in bound.accepting if broker not in base.keep]
    chosen_from = [*dict.fromkeys(candidates)] or [broker for broker in usable if broker in bound.holding]
    unknown = sorted(set(chosen_from) - set(usable))
    if unknown:
        kept = " and are not kept" if base.keep else ""
        raise ConfigError(f"--of {', '.join(map(str, unknown))}: brokers that accept replicas{kept} are {usable}")
    if not 0 < count < len(bound.accepting) or count > len(chosen_from):
        number = plural(len(chosen_from), "broker")
        raise ConfigError(f"--retire {count}: {number} can be chosen, and one broker must remain")
    if comb(len(chosen_from), count) > MOST_SUBSETS:
        return _greedy(facts, base, bound, count, chosen_from)
    subsets = [*combinations(sorted(chosen_from), count)]
    most = min(len(subsets), MOST_SOLVED)
    say_estimate(facts, most, f"up to {plural(most, 'plan')}")
    return _solved(facts, base, bound, subsets, Search())


def _solved(
    facts: RunFacts, base: Question, bound: "_Bound", subsets: Sequence[tuple[int, ...]], search: Search
) -> Choice:
    """Solve subsets in the order of their bounds, until the best plan is proven."""
    answers: list[Answer] = []
    target, is_proven = _Target(facts, base), False
    remaining = sorted((bound.of_subset(subset), subset) for subset in subsets)
    while remaining and len(answers) < MOST_SOLVED and not is_proven:
        question = _draining(base, remaining.pop(0)[1])
        search.say(question.name)
        answers.append(answer(facts, question))
        answers.sort(key=_rank)
        is_proven = not remaining or target.is_proven(answers[0], _next_bound(bound, remaining, answers))
    next_bound_bytes = _next_bound(bound, remaining, answers) if remaining else None
    return Choice(answers, len(subsets), remaining, next_bound_bytes, is_proven, is_greedy=False)


def _next_bound(bound: "_Bound", remaining: Sequence[tuple[int, tuple[int, ...]]], answers: Sequence[Answer]) -> int:
    """What every other subset copies at least.

    If not even the best plan reaches everything, others may leave as much, and copy less than the bands require.
    """
    if not answers or _rank(answers[0])[:2] == (0, 0):
        return remaining[0][0]
    return min(bound.leaving(subset) for _, subset in remaining)


def _greedy(facts: RunFacts, base: Question, bound: "_Bound", count: int, candidates: Sequence[int]) -> Choice:
    chosen: tuple[int, ...] = ()
    bounded, search = 0, Search()
    most = count * min(len(candidates), MOST_SOLVED)
    say_estimate(facts, most, f"up to {plural(most, 'plan')}")
    for _ in range(count):
        remaining = [broker for broker in sorted(candidates) if broker not in chosen]
        bounded += len(remaining)
        choice = _solved(facts, base, bound, [(*chosen, broker) for broker in remaining], search)
        chosen = choice.answers[0].question.added_to["drain_brokers"][-len(chosen) - 1 :]
    return replace(choice, subsets=bounded, is_greedy=True)


def _draining(base: Question, subset: Sequence[int]) -> Question:
    drained = (*base.added_to.get("drain_brokers", ()), *subset)
    name = f"{_PREFIX}{', '.join(map(str, subset))}"
    return replace(base, name=name, added_to={**base.added_to, "drain_brokers": drained})


def _chosen(item: Answer) -> str:
    return item.question.name.removeprefix(_PREFIX)


def _bytes(item: Answer) -> float:
    return item.figures["moved_bytes"][1] or 0.0 if item.plan else float("inf")


def _unmet(item: Answer) -> float:
    """Replicas that stay on brokers to empty, and partitions that break racks; infinite if the bytes do not fit."""
    if not item.plan:
        return float("inf")
    names = ("replicas_on_leaving_brokers", *(() if _only_drains(item.settings) else ("rack_violations",)))
    return sum(item.figures[name][1] or 0 for name in names)


def _outside(item: Answer) -> float:
    """Brokers outside bands, which a subset with more bytes may avoid."""
    if not item.plan:
        return float("inf")
    return 0.0 if _only_drains(item.settings) else item.figures["brokers_outside_bands"][1] or 0.0


def _only_drains(settings: Settings) -> bool:
    """Whether the plan is not requested to repair racks and to balance."""
    [requests] = settings.cluster_policies().values()
    return requests.only == DRAIN


def _rank(item: Answer) -> tuple[float, float, float]:
    return _unmet(item), _outside(item), _bytes(item)


@dataclass(frozen=True)
class _Target:
    """What the best subset reaches: all, or as much as the plan without retired brokers."""

    facts: RunFacts
    base: Question

    def is_proven(self, best: Answer, next_bound_bytes: int) -> bool:
        """Whether the best plan is cheaper than all subsets from this bound on, and reaches enough."""
        if next_bound_bytes < (1 - TOLERANCE) * _bytes(best):
            return False
        return _rank(best)[:2] == (0, 0) or _rank(best)[:2] <= self._reached

    @cached_property
    def _reached(self) -> tuple[float, float]:
        """Solved only if the best subset does not reach all: bands and fixed partitions may be out of reach."""
        _, _, hosts = instance_for(self.facts, _with_any_change(self.base))
        if _only_drains(settings_for(self.facts, self.base)) and not hosts["must_empty"].any():
            return 0.0, 0.0
        unmet, outside, _ = _rank(answer(self.facts, self.base))
        return unmet, outside


def _with_any_change(base: Question) -> Question:
    """The question without ``only``, which is refused as long as no broker is to be emptied."""
    return replace(base, knobs={**base.knobs, "policy": {**base.knobs.get("policy", {}), "only": ""}})


@dataclass(frozen=True)
class _Bound:
    """Bytes that any plan must copy if a subset of brokers is emptied: what free partitions hold there, or the flow
    out of bands and into them (formula 17 of docs/solver.md), if that is larger and bands are requested."""

    brokers: Brokers
    demand: Demand
    loads: Floats
    leaving_bytes: Floats
    policy: Policy
    balances: bool

    @classmethod
    def of(cls, facts: RunFacts, base: Question) -> "_Bound":
        """The bound for the cluster of a question."""
        settings, instance, hosts = instance_for(facts, _with_any_change(base))
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
            balances=not _only_drains(settings_for(facts, base)),
        )

    @property
    def accepting(self) -> list[int]:
        """Ids of the brokers that accept replicas, ascending."""
        return [int(b) for b in self.brokers.ids[self.brokers.accepts_replicas]]

    @property
    def holding(self) -> set[int]:
        """Ids of the brokers that have replicas: the others are new, and nothing is gained by emptying them."""
        return {int(b) for b in self.brokers.ids[self.loads[:, REPLICAS] > 0]}

    def leaving(self, subset: Sequence[int]) -> int:
        """Bytes of free partitions on these brokers and on those that are emptied already."""
        return int(self.leaving_bytes[self.brokers.must_empty | np.isin(self.brokers.ids, subset)].sum())

    def of_subset(self, subset: Sequence[int]) -> int:
        """The bound if these brokers are emptied."""
        leaving, leaves = self.leaving(subset), np.isin(self.brokers.ids, subset)
        if not self.balances:
            return leaving
        brokers = replace(
            self.brokers,
            accepts_replicas=self.brokers.accepts_replicas & ~leaves,
            must_empty=self.brokers.must_empty | leaves,
        )
        bands = bands_for(brokers, self.demand, self.loads, self.policy)
        return max(leaving, flow_bytes(self.loads, bands, self.loads))
