"""Hand leadership over as long as that reduces the violation of bands or saves a change.

There are two passes. In the first, a changed leader costs as much as one leader outside the bands, so only cheap
repairs are made. In the second, the bands come first. If no single hand-over helps, a chain of two may: the broker in
the middle gives up one leader for the one that it gets, or the first broker gets one back.
"""

from collections.abc import Callable

import numpy as np

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.leaders.leader_flow import LeaderBands, LeaderChoices, crowd_counts, host_loads
from optimizer.solve.rules.bands import SETTLED, load_outside

VIOLATION_CHANGES = 1e4  # changes per mean load outside a band: bands come first
STEPS = 2000  # most steps of a pass, so that it ends; instances S and M take up to 6
BATCH = 1000  # best hand-overs tried before all gains are computed again: further ones mostly touch changed brokers
MOST_CHAINS = 1_000_000  # pairs of changes compared at once: about 200 bytes of arrays for each
WORST = 5  # brokers with chains to try, those most outside: each costs all pairs of changes through it
EPSILON = 1e-6  # changes: a smaller gain may be rounding


def leader_violations(loads: Floats, bands: LeaderBands, at: Ints | slice) -> Floats:
    """Load of some brokers outside their bands, in mean broker loads, (N,) (formula 13 of docs/solver.md).

    Parameters
    ----------
    loads : (N, 2) float64
    at : (N,) int64 or slice
        The brokers.
    """
    return load_outside(loads, bands.lower[at], bands.upper[at], bands.scale)


class _Steps:
    """The arcs in use and the loads that follow."""

    def __init__(self, choices: LeaderChoices, arc: Ints) -> None:
        self.choices, self.arc, self.weight = choices, arc.copy(), choices.weight
        self.loads, self.crowds = host_loads(choices, arc), crowd_counts(choices, arc)

    def _has_room(self, arcs: Ints) -> Bools:
        """Arcs to a broker that may lead one more partition of the topic."""
        of = self.choices.crowd[arcs]
        free = of < 0
        free[~free] = (self.crowds < self.choices.most)[of[~free]]
        return free

    def hand_over(self, penalty: float) -> bool:
        """Hand partitions over, the best first, at most once for each broker; returns whether there was one."""
        choices, bands = self.choices, self.choices.bands
        used = self.arc[choices.row]
        now = leader_violations(self.loads, bands, slice(None))
        at, bad, change = choices.host[used], now > SETTLED, choices.change - choices.change[used]
        new = np.flatnonzero((used != np.arange(len(used))) & (bad[at] | bad[choices.host] | (change < 0)))
        new = new[self._has_room(new)]
        a, b, load = at[new], choices.host[new], self.weight[new]
        then = leader_violations(self.loads[a] - load, bands, a) + leader_violations(self.loads[b] + load, bands, b)
        gain = penalty * (then - now[a] - now[b]) + change[new]
        better = np.flatnonzero(gain < -EPSILON)
        touched = np.zeros(len(self.loads), dtype=bool)
        for i in better[np.lexsort((better, gain[better]))][:BATCH].tolist():
            if not (touched[a[i]] or touched[b[i]]):
                touched[a[i]] = touched[b[i]] = True
                self._use(int(new[i]))
        return bool(len(better))

    def chain(self, penalty: float) -> bool:
        """Make the best chain of two hand-overs from or to one of the worst brokers; returns whether there was one."""
        used = self.arc[self.choices.row]
        at, idle = self.choices.host[used], np.flatnonzero(used != np.arange(len(used)))
        idle = idle[self._has_room(idle)]
        leaving, entering = _Index(at, idle, len(self.loads)), _Index(self.choices.host, idle, len(self.loads))
        violations = leader_violations(self.loads, self.choices.bands, slice(None))
        worst = np.argsort(-violations, kind="stable")[:WORST]
        for broker in worst[violations[worst] > SETTLED].tolist():
            out, into = leaving.of(broker), entering.of(broker)
            first, after_first = leaving.joined(self.choices.host[out])
            last, before_last = entering.joined(at[into])
            arc_1, arc_2 = np.concatenate([out[first], before_last]), np.concatenate([after_first, into[last]])
            keep = self.choices.row[arc_1] != self.choices.row[arc_2]
            arc_1, arc_2 = arc_1[keep], arc_2[keep]
            gain = self._chain_gains(arc_1, arc_2, at, violations, penalty)
            if len(gain) and gain.min() < -EPSILON:
                best = int(gain.argmin())
                self._use(int(arc_1[best]))
                self._use(int(arc_2[best]))
                return True
        return False

    def _chain_gains(self, arc_1: Ints, arc_2: Ints, at: Ints, now: Floats, penalty: float) -> Floats:
        """Change of merit by arcs a -> b and b -> c, (N,); c may be a."""
        bands, change = self.choices.bands, self.choices.change - self.choices.change[self.arc[self.choices.row]]
        a, b, c = at[arc_1], at[arc_2], self.choices.host[arc_2]
        first, second, back = self.weight[arc_1], self.weight[arc_2], (a == c)
        loads_a = self.loads[a] - first + np.where(back[:, None], second, 0.0)
        then = leader_violations(loads_a, bands, a) + leader_violations(self.loads[b] + first - second, bands, b)
        last = np.where(back, 0.0, leader_violations(self.loads[c] + second, bands, c) - now[c])
        return np.asarray(penalty * (then + last - now[a] - now[b]) + change[arc_1] + change[arc_2])

    def _use(self, arc: int) -> None:
        row = self.choices.row[arc]
        for changed, sign in ((self.arc[row], -1), (arc, 1)):
            self.loads[self.choices.host[changed]] += sign * self.weight[arc]
            if self.choices.crowd[changed] >= 0:
                self.crowds[self.choices.crowd[changed]] += sign
        self.arc[row] = arc


class _Index:
    """Arcs, indexed by one of their brokers."""

    def __init__(self, broker: Ints, arcs: Ints, brokers: int) -> None:
        self.order = arcs[np.argsort(broker[arcs], kind="stable")]
        self.edge = np.searchsorted(broker[self.order], np.arange(brokers + 1))

    def of(self, broker: int) -> Ints:
        return self.order[self.edge[broker] : self.edge[broker + 1]]

    def joined(self, brokers: Ints) -> tuple[Ints, Ints]:
        """All arcs of each broker, as pairs (position of the broker, arc); at most MOST_CHAINS pairs."""
        count = self.edge[brokers + 1] - self.edge[brokers]
        count = np.where(np.cumsum(count) > MOST_CHAINS, 0, count)
        position = np.repeat(np.arange(len(brokers)), count)
        within = np.arange(len(position)) - np.repeat(np.cumsum(count) - count, count)
        return position, self.order[self.edge[brokers][position] + within]


def descend(choices: LeaderChoices, arc: Ints) -> Ints:
    """Improve the arcs in use, (P,), by hand-overs."""
    steps = _Steps(choices, arc)
    _until_none_helps(lambda: steps.hand_over(float(choices.bands.scale[0])))
    _until_none_helps(lambda: steps.hand_over(VIOLATION_CHANGES) or steps.chain(VIOLATION_CHANGES))
    return steps.arc


def _until_none_helps(step: Callable[[], bool]) -> None:
    for _ in range(STEPS):
        if not step():
            return
