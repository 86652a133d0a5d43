"""The order of followers: who leads if a broker fails.

If a broker fails, each partition that it leads is led by the first follower of its list. The order of followers costs
no copies and changes no preferred leader. It decides how busy the busiest leader is after a failure
(formula 29 of docs/solver.md). Each broker that may fail is a problem of its own: its leaders, and the loads of the
others.

1. Lists that the plan changes anyway: the largest partition first, each to the follower with the least load. Followers
   that are out of sync, and brokers that may not lead, come last.
2. As long as that helps: the busiest leader after the worst failure gives a partition to another follower, which may
   have to give some of its own to others.
3. If ``failover_spread`` is "few": the same steps with lists that the plan does not change, at most ``MOST_LISTS``. Of
   these steps as many are kept as come near the best, and none if they gain little.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from optimizer.cluster_policy import FEW, OFF
from optimizer.domain import FREE, Bools, Brokers, Ints, Partitions
from optimizer.solve.rules.bands import led_bytes_per_s
from optimizer.solve.rules.mobility import may_reorder

LEAST_REPLICAS = 3  # a single follower has no other order
MOST_LISTS = 50  # unchanged lists: up to 33 of them did nearly what all lists (up to 9,700) can do
MOST_STEPS = 2000  # steps of a plan, so that it ends; S and M take up to 60
MOST_CHAINS = 50  # chains of gifts to try at each step, those of the largest partitions
# In mean loads: for less, no unchanged list is named. Without it, every night would name some.
LEAST_GAIN = 0.03
NEAR = 0.02  # mean loads: of the steps, the last ones for less than this are not worth their lists
_Gift = tuple[int, int]  # row of a partition, slot of its new heir


@dataclass(frozen=True)
class _Step:
    """One gift, or several that belong together; ``worst`` is the ratio after them."""

    gifts: tuple[_Gift, ...]
    worst: float


class _Failover:
    """Loads of the leaders after the failure of each broker, for the present order of followers."""

    def __init__(self, brokers: Brokers, partitions: Partitions, lists: Ints) -> None:
        is_live = (lists >= 0) & brokers.is_live[lists]
        follows, in_sync = is_live & ~_at(_first(is_live), lists.shape[1]), ~partitions.stuck(lists)
        self.lists, self.options = lists, _may_inherit(is_live, in_sync, brokers.accepts_leadership[lists])
        self.load = led_bytes_per_s(lists, partitions)
        # A list that stays counts as in sync: it is not named only because a replica is out of sync for now.
        may_follow = follows & (in_sync | (lists == partitions.replicas).all(axis=1, keepdims=True))
        self.heir = _first(np.where(may_follow.any(axis=1, keepdims=True), may_follow, follows))
        self.leader = np.where(is_live.any(axis=1), np.take_along_axis(lists, _first(is_live)[:, None], 1)[:, 0], -1)
        self._by_leader = np.argsort(self.leader, kind="stable")
        n = len(brokers)
        self.after = np.tile(np.bincount(self.leader[self.leader >= 0], self.load[self.leader >= 0], n), (n, 1))
        np.fill_diagonal(self.after, 0)
        rows = np.flatnonzero(self.heir >= 0)
        np.add.at(self.after, (self.leader[rows], self.heirs(rows)), self.load[rows])
        left = np.maximum(len(np.unique(lists[is_live])) - 1, 1)
        self._mean = np.maximum(self.after.sum(axis=1) / left, 1)
        self._peaks = self.after.max(axis=1) / self._mean

    @property
    def worst(self) -> float:
        """The busiest leader over the mean of the brokers that are left, after the worst failure."""
        return float(self._peaks.max())

    def heirs(self, rows: Ints) -> Ints:
        """Brokers that lead these partitions if their leaders fail."""
        return self.lists[rows, self.heir[rows]]

    def led_by(self, broker: int) -> Ints:
        """Partitions that a broker leads."""
        first, last = np.searchsorted(self.leader, [broker, broker + 1], sorter=self._by_leader)
        return self._by_leader[first:last]

    def give(self, row: int, slot: int) -> None:
        """Let another follower lead if the leader fails."""
        failed = self.leader[row]
        self.after[failed, self.lists[row, self.heir[row]]] -= self.load[row]
        self.after[failed, self.lists[row, slot]] += self.load[row]
        self._peaks[failed] = self.after[failed].max() / self._mean[failed]
        self.heir[row] = slot

    def deal(self, rows: Ints) -> None:
        """Deal these partitions out anew: the largest first, each to the follower with the least load."""
        np.subtract.at(self.after, (self.leader[rows], self.heirs(rows)), self.load[rows])
        for row in rows[np.argsort(-self.load[rows], kind="stable")].tolist():
            failed, slots = self.leader[row], np.flatnonzero(self.options[row])
            self.heir[row] = slots[self.after[failed, self.lists[row, slots]].argmin()]
            self.after[failed, self.lists[row, self.heir[row]]] += self.load[row]
        self._peaks = self.after.max(axis=1) / self._mean

    def steps(self, is_open: Bools, is_unchanged: Bools, *, most_lists: int) -> Iterator[_Step]:
        """Make steps that lower the busiest leader after the worst failure, with few unchanged lists."""
        left, is_unchanged = most_lists, is_unchanged.copy()
        for _ in range(MOST_STEPS):
            failed = int(self._peaks.argmax())
            led = self.led_by(failed)
            gifts = self._gifts(led[is_open[led] & ((left > 0) | ~is_unchanged[led])])
            step = self._best_gift(gifts, failed) or self._best_chain(gifts, failed, is_unchanged, left)
            if not step:
                return
            for row, slot in step:
                self.give(row, slot)
                left -= int(is_unchanged[row])
                is_unchanged[row] = False
            yield _Step(step, self.worst)

    def _gifts(self, rows: Ints) -> "_Gifts":
        """All ways in which these partitions may get another heir."""
        at, slot = np.nonzero(self.options[rows])
        row = rows[at]
        is_other = self.heir[row] != slot
        row, slot = row[is_other], slot[is_other]
        return _Gifts(row, slot, self.heirs(row), self.lists[row, slot], self.load[row])

    def _best_gift(self, gifts: "_Gifts", failed: int) -> tuple[_Gift, ...]:
        """The gift of the busiest that leaves both with least load."""
        now = self.after[failed]
        higher = np.maximum(now[gifts.giver] - gifts.load, now[gifts.taker] + gifts.load)
        better = np.flatnonzero((gifts.giver == now.argmax()) & (higher < now.max()))
        if not len(better):
            return ()
        return (gifts.at(int(better[higher[better].argmin()])),)

    def _best_chain(self, gifts: "_Gifts", failed: int, is_unchanged: Bools, left: int) -> tuple[_Gift, ...]:
        """The busiest gives a partition to a broker that must give some of its own to others to have room for it."""
        now = self.after[failed]
        given = np.flatnonzero(gifts.giver == now.argmax())
        largest = given[np.lexsort((given, -gifts.load[given]))][:MOST_CHAINS].tolist()
        tried = (chain for first in largest if (chain := _chain(gifts, first, now)))
        chains = [(int(is_unchanged[gifts.row[chain]].sum()), chain) for chain in tried]
        lists, best = min(chains, default=(left + 1, []), key=lambda chain: chain[0])
        return tuple(gifts.at(number) for number in best) if lists <= left else ()


@dataclass(frozen=True)
class _Gifts:
    """Partitions that ``giver`` would give to ``taker``, in ``slot``, if their leader fails, (G,) each."""

    row: Ints
    slot: Ints
    giver: Ints
    taker: Ints
    load: Ints

    def at(self, number: int) -> _Gift:
        """The row and slot of a gift."""
        return int(self.row[number]), int(self.slot[number])


def _chain(gifts: _Gifts, first: int, now: Ints) -> list[int]:
    """Gifts after which all brokers that take part have less than the busiest has now; empty if there are none."""
    after, most, broker = now.copy(), now.max(), gifts.taker[first]
    chain = [first]
    after[[gifts.giver[first], broker]] += gifts.load[first] * np.array([-1, 1])
    while after[broker] >= most and len(chain) <= MOST_LISTS:
        fits = (
            (gifts.giver == broker) & (after[gifts.taker] + gifts.load < most) & ~np.isin(gifts.row, gifts.row[chain])
        )
        if not fits.any():
            return []
        following = int(np.where(fits, gifts.load, -1).argmax())
        after[[broker, gifts.taker[following]]] += gifts.load[following] * np.array([-1, 1])
        chain.append(following)
    return chain


def _first(slots: Bools) -> Ints:
    """The first marked slot of each list, (P,); -1 without one."""
    return np.where(slots.any(axis=1), slots.argmax(axis=1), -1)


def _at(slot: Ints, width: int) -> Bools:
    """Marks of one slot of each list, (P, W)."""
    return np.asarray(np.arange(width) == slot[:, None])


def _may_inherit(is_live: Bools, in_sync: Bools, may_lead: Bools) -> Bools:
    """Followers that should lead if the leader fails, (P, W) (formula 34 of docs/solver.md): those in sync, of these
    the ones that may lead; where there are none, all."""
    chosen = is_live & (np.arange(is_live.shape[1]) > 0)
    for wanted in (in_sync, may_lead):
        better = chosen & wanted
        chosen = np.where(better.any(axis=1, keepdims=True), better, chosen)
    return chosen


def order_followers(
    brokers: Brokers, partitions: Partitions, lists: Ints, *, spread: str, most_lists: int = MOST_LISTS
) -> Ints:
    """The lists of a plan with their followers in the order in which they should lead, (P, W).

    Parameters
    ----------
    partitions : Partitions
        ``replicas`` as before the plan.
    lists : (P, W) int64
        Broker indices padded with -1, the preferred leader first.
    spread : str
        "off"; "changed": only lists that the plan changes; "few": also others.
    most_lists : int
        Most lists that are named although the plan does not change them.
    """
    if spread == OFF or lists.shape[1] < LEAST_REPLICAS:
        return lists
    is_unchanged = (lists == partitions.replicas).all(axis=1)
    is_open = _may_be_ordered(brokers, partitions, lists, is_unchanged)
    dealt = np.flatnonzero(is_open & ~is_unchanged)
    failover = _Failover(brokers, partitions, lists)
    original = failover.heir.copy()
    failover.deal(dealt)
    for _ in failover.steps(is_open, is_unchanged, most_lists=0):
        pass
    heir, worst = failover.heir.copy(), failover.worst
    few = [*failover.steps(is_open, is_unchanged, most_lists=most_lists)] if spread == FEW else []
    for step in _worth_it(few, worst):
        for row, slot in step.gifts:
            heir[row] = slot
    ordered = lists.copy()
    new = np.union1d(dealt, np.flatnonzero(heir != original))
    ordered[new] = _with_heirs(lists[new], failover.options[new], heir[new])
    return ordered


def _may_be_ordered(brokers: Brokers, partitions: Partitions, lists: Ints, is_unchanged: Bools) -> Bools:
    """Lists of three or more that may get another order, (P,).

    Kafka's tool refuses lists with brokers that are not live, and the audit lists of another length than requested.
    """
    held = lists >= 0
    length = held.sum(axis=1)
    is_whole = (length == partitions.replication_factor) & (brokers.is_live[lists] | ~held).all(axis=1)
    may = np.where(is_unchanged, partitions.mobility == FREE, may_reorder(partitions.mobility))
    return np.asarray(is_whole & may & (length >= LEAST_REPLICAS))


def _worth_it(steps: list[_Step], worst: float) -> list[_Step]:
    """The first steps, as many as come near the best; none if even the best gains little."""
    least = min((step.worst for step in steps), default=worst)
    if worst - least < LEAST_GAIN:
        return []
    return steps[: 1 + next(number for number, step in enumerate(steps) if step.worst <= least + NEAR)]


def _with_heirs(lists: Ints, options: Bools, heir: Ints) -> Ints:
    """Lists with the leader, the heir, and the other followers in their order, those that should not lead last."""
    width = lists.shape[1]
    rank = np.arange(width) + width * (~options + (lists < 0))
    rank = np.where(_at(heir, width), -1, rank)
    rank[:, 0] = -2
    return np.take_along_axis(lists, np.argsort(rank, axis=1, kind="stable"), axis=1)
