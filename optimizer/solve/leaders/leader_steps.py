"""Hand-overs of leadership while the bands come closer or a change is saved.

There are two passes. In the first a changed leader costs as much as one mean leader of violation, so only cheap repairs
are made. In the second violation alone counts. If no hand-over helps any more, two in a chain may: the broker in the
middle gives up one leader for the one that it gets, or the first gets one back.
"""

from collections.abc import Callable

import numpy as np

from optimizer.domain import Bools, Floats, Ints
from optimizer.solve.leaders.leader_flow import LeaderBands, LeaderChoices, crowd_counts, host_loads
from optimizer.solve.rules.bands import SETTLED, load_outside

VIOLATION_CHANGES = 1e4  # changes that a mean load outside a band is worth: bands come first
STEPS = 2000  # steps of a pass at most: an end for what might go on; instances S and M take up to 6
BATCH = 1000  # best steps that are looked at before all are weighed anew: more touch brokers that have had one
MOST_CHAINS = 1_000_000  # pairs of changes that are weighed at once: some 200 bytes of arrays for each
WORST = 5  # brokers whose chains are looked at, those that are most outside: each costs all pairs of changes through it
EPSILON = 1e-6  # changes: a gain that is no rounding


def leader_violations(loads: Floats, bands: LeaderBands, at: Ints | slice) -> Floats:
    """Load outside the bands of some brokers in mean broker loads, (N,) (formula 13 of docs/solver.md); loads (N, 2) of
    theirs."""
    return load_outside(loads, bands.lower[at], bands.upper[at], bands.scale)


class _Steps:
    """The arcs in use and the loads that follow."""

    def __init__(self, choices: LeaderChoices, arc: Ints) -> None:
        self.choices, self.arc, self.weight = choices, arc.copy(), choices.weight
        self.loads, self.crowds = host_loads(choices, arc), crowd_counts(choices, arc)

    def _has_room(self, arcs: Ints) -> Bools:
        """Arcs whose broker may lead one more of the topic."""
        of = self.choices.crowd[arcs]
        free = of < 0
        free[~free] = (self.crowds < self.choices.most)[of[~free]]
        return free

    def hand_over(self, penalty: float) -> bool:
        """Hand partitions over, the best first, each broker once; whether there was one."""
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
        """Take the best two hand-overs in a row from or to one of the worst brokers; whether there were any."""
        used = self.arc[self.choices.row]
        at, idle = self.choices.host[used], np.flatnonzero(used != np.arange(len(used)))
        idle = idle[self._has_room(idle)]
        leaving, entering = _Index(at, idle, len(self.loads)), _Index(self.choices.host, idle, len(self.loads))
        off = leader_violations(self.loads, self.choices.bands, slice(None))
        worst = np.argsort(-off, kind="stable")[:WORST]
        for broker in worst[off[worst] > SETTLED].tolist():
            out, into = leaving.of(broker), entering.of(broker)
            first, then = leaving.joined(self.choices.host[out])
            last, before = entering.joined(at[into])
            one, two = np.concatenate([out[first], before]), np.concatenate([then, into[last]])
            keep = self.choices.row[one] != self.choices.row[two]
            one, two = one[keep], two[keep]
            gain = self._chain_gains(one, two, at, off, penalty)
            if len(gain) and gain.min() < -EPSILON:
                best = int(gain.argmin())
                self._use(int(one[best]))
                self._use(int(two[best]))
                return True
        return False

    def _chain_gains(self, one: Ints, two: Ints, at: Ints, off: Floats, penalty: float) -> Floats:
        """Change of merit by arcs a -> b and b -> c, where c may be a, (N,)."""
        bands, change = self.choices.bands, self.choices.change - self.choices.change[self.arc[self.choices.row]]
        a, b, c = at[one], at[two], self.choices.host[two]
        first, second, back = self.weight[one], self.weight[two], (a == c)
        left = self.loads[a] - first + np.where(back[:, None], second, 0.0)
        then = leader_violations(left, bands, a) + leader_violations(self.loads[b] + first - second, bands, b)
        last = np.where(back, 0.0, leader_violations(self.loads[c] + second, bands, c) - off[c])
        return np.asarray(penalty * (then + last - off[a] - off[b]) + change[one] + change[two])

    def _use(self, arc: int) -> None:
        row = self.choices.row[arc]
        for one, sign in ((self.arc[row], -1), (arc, 1)):
            self.loads[self.choices.host[one]] += sign * self.weight[arc]
            if self.choices.crowd[one] >= 0:
                self.crowds[self.choices.crowd[one]] += sign
        self.arc[row] = arc


class _Index:
    """Arcs by a broker of theirs."""

    def __init__(self, broker: Ints, arcs: Ints, brokers: int) -> None:
        self.order = arcs[np.argsort(broker[arcs], kind="stable")]
        self.edge = np.searchsorted(broker[self.order], np.arange(brokers + 1))

    def of(self, broker: int) -> Ints:
        return self.order[self.edge[broker] : self.edge[broker + 1]]

    def joined(self, brokers: Ints) -> tuple[Ints, Ints]:
        """For each of some brokers all its arcs: position among the brokers and arc; MOST_CHAINS pairs at most."""
        count = self.edge[brokers + 1] - self.edge[brokers]
        count = np.where(np.cumsum(count) > MOST_CHAINS, 0, count)
        position = np.repeat(np.arange(len(brokers)), count)
        within = np.arange(len(position)) - np.repeat(np.cumsum(count) - count, count)
        return position, self.order[self.edge[brokers][position] + within]


def descend(choices: LeaderChoices, arc: Ints) -> Ints:
    """The arcs in use, (P,), after hand-overs."""
    steps = _Steps(choices, arc)
    _until_none_helps(lambda: steps.hand_over(float(choices.bands.scale[0])))
    _until_none_helps(lambda: steps.hand_over(VIOLATION_CHANGES) or steps.chain(VIOLATION_CHANGES))
    return steps.arc


def _until_none_helps(step: Callable[[], bool]) -> None:
    for _ in range(STEPS):
        if not step():
            return
