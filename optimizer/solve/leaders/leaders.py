"""Choose preferred leaders for chosen replica sets: min-cost flow on counts, priced for bytes out, then steps.

Each partition sends one unit through one of its replicas' brokers to the sink::

    minimise    sum_pb (change_pb + price_b out_p) f_pb
                - CHAIN sum_b (units up to lower_b) + CHAIN sum_b (units over upper_b)
    subject to  one unit leaves every partition; f over the partition's replicas that may lead

CHAIN is more than any chain of hand-overs can cost (``LeaderChoices.chain``), so the band comes before changes and
prices. If a topic has a leader limit (``policy.topic_leader_spread``), its units pass a node for each topic and broker.
A leader above the limit costs more than any gain in the bands, so there are as few of these as possible, and no later
step adds one.

change_pb is 0 if b is the preferred leader now, else 1. Without prices the flow has, provably, the least violation of
the count's band and, with that, the fewest changes. If a few steps bring all loads into their bands at no further
change, nothing else is tried. Else prices make the flow keep bytes out near their band, and the better of the two
results counts. Every partition has an arc and the sink takes any number, so the flow is always feasible.

The prices come from a smoothed dual. With prices theta >= 0 on the four sides of a broker's bands (leaders and bytes
out, over and under) the dual is::

    maximise sum_p min_b (change_pb + sum_d (over_bd - under_bd) w_pd) - sum_bd (over_bd upper_bd - under_bd lower_bd)

It is concave and any prices bound the changes from below, but it has an edge wherever two brokers are equally good.
The minimum is therefore softened at a falling temperature, and each soft dual is maximised from where the last one
ended.

References
----------
Nesterov, Smooth minimization of non-smooth functions, Mathematical Programming 103 (2005).
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from optimizer.cluster_policy import NO_LIMIT
from optimizer.domain import Bools, Brokers, Floats, Ints, Partitions
from optimizer.solve.leaders.leader_flow import LeaderBands, LeaderChoices, flow, host_loads
from optimizer.solve.leaders.leader_steps import descend, leader_violations
from optimizer.solve.rules.bands import leader_loads, leader_weights, led_bytes_per_s, pour, whole_band
from optimizer.solve.rules.mobility import may_reorder, moves_only_if_forced

LEVEL = 1e-9  # mean loads: violations that differ by less are equal
NO_STRENGTH = 1e-9  # divides in place of 0 if no broker may lead; else the weights add up to 1 or more
# In changes: choices with costs this near to the best share a partition. Below 1, so that a change still counts. Each
# temperature starts from the result of the last.
TEMPERATURES = (0.2, 0.05, 0.02)
ITERATIONS = 30  # of the descent at each temperature; the next temperature continues, and any prices are valid
MEMORY = 20  # scipy's maxcor: steps that the descent remembers
HIGHEST = 2000.0  # changes per mean broker load: a band that can't be met would drive prices to infinity


@dataclass(frozen=True)
class ChosenLeaders:
    """Preferred leaders, and the data for their proof.

    Parameters
    ----------
    choices : LeaderChoices
    chosen : (P,) int64
        Slot of the preferred leader of each partition.
    fewest : (P,) int64
        The arc of each partition with the least violation of the count's band, and with that the fewest changes.
    prices : (B,) float64
        Prices of bytes out, in changes per mean broker load; 0 if none were needed.
    """

    choices: LeaderChoices
    chosen: Ints
    fewest: Ints
    prices: Floats

    @property
    def arc(self) -> Ints:
        """The arc of each partition, (P,)."""
        return np.flatnonzero(self.choices.slot == self.chosen[self.choices.row])


def leader_bands(
    brokers: Brokers, replicas: Ints, partitions: Partitions, *, leaders_band: float, out_band: float
) -> LeaderBands:
    """Bands around the share of each broker that may lead, by its capacity (formula 27 of docs/solver.md).

    Bands of the leader count are whole numbers.
    """
    may = brokers.accepts_leadership & np.isin(np.arange(len(brokers)), replicas)
    total = leader_loads(len(brokers), replicas, partitions).sum(axis=0)
    weight = leader_weights(brokers, may)
    most = np.bincount(replicas[replicas >= 0], minlength=len(brokers)).astype(np.float64)
    count = pour(total[0], weight, np.zeros(len(brokers)), most)
    out = weight * total[1] / max(weight.sum(), NO_STRENGTH)
    mean = np.stack([count, out], axis=1)
    width = np.array([leaders_band, out_band])
    lower, upper = mean * (1 - np.minimum(width, 1)), mean * (1 + width)
    lower[:, 0], upper[:, 0] = whole_band(lower[:, 0], upper[:, 0], count)
    scale = np.maximum(total / max(int(may.sum()), 1), 1.0)
    return LeaderBands(lower, upper, mean, scale)


def may_lead(brokers: Brokers, replicas: Ints, partitions: Partitions) -> Bools:
    """Which slots may lead, (P, W).

    These are slots on brokers that accept leadership; a new preferred leader has all committed records (formula 34 of
    docs/solver.md). Only the first slot may lead if there is no such slot, if the partition may not be reordered, or if
    its list names a broker that is not live (Kafka's tool would refuse the list).
    """
    held = replicas >= 0
    host = np.maximum(replicas, 0)
    leads_now = replicas == partitions.replicas[:, :1]
    may = held & brokers.accepts_leadership[host] & (leads_now | ~partitions.may_lose_records(replicas))
    same = (replicas == partitions.replicas).all(axis=1)
    first_stays = (replicas[:, 0] == partitions.replicas[:, 0]) & may[:, 0]
    # A list without the requested length stays as it is: the audit would refuse it in a plan.
    frozen = (~may_reorder(partitions.mobility) | (held.sum(axis=1) != partitions.replication_factor)) & same
    frozen |= moves_only_if_forced(partitions.mobility) & first_stays
    stuck = ~may.any(axis=1) | frozen | (held & ~brokers.is_live[host]).any(axis=1)
    may[stuck] = False
    may[stuck, 0] = True
    return may


def leader_choices(
    brokers: Brokers, partitions: Partitions, replicas: Ints, *, leaders_band: float, out_band: float
) -> LeaderChoices:
    """Which brokers may lead which partitions, which of these are changes, and the bands.

    Parameters
    ----------
    partitions : Partitions
        ``replicas`` as before the plan: its first column is the preferred leader now.
    replicas : (P, W) int64
        Chosen replicas, broker indices padded with -1.
    """
    row, slot = np.nonzero(may_lead(brokers, replicas, partitions))
    host = replicas[row, slot]
    crowd, most = _crowds(partitions, row, host)
    return LeaderChoices(
        row=row,
        slot=slot,
        host=host,
        change=(host != partitions.replicas[row, 0]).astype(np.int64),
        out=led_bytes_per_s(replicas, partitions),
        bands=leader_bands(brokers, replicas, partitions, leaders_band=leaders_band, out_band=out_band),
        crowd=crowd,
        most=most,
    )


def _crowds(partitions: Partitions, row: Ints, host: Ints) -> tuple[Ints, Ints]:
    """The (topic, broker) pair of each arc, -1 if the topic has no leader limit, (A,); the limit of each pair, (C,)
    (formula 22 of docs/solver.md)."""
    crowd = np.full(len(row), -1, dtype=np.int64)
    limited = np.flatnonzero(partitions.topic_most_leaders[row] < NO_LIMIT)
    topic = np.unique(partitions.topic[row[limited]], return_inverse=True)[1]
    pair = topic * (1 + host.max(initial=0)) + host[limited]
    _, first, crowd[limited] = np.unique(pair, return_index=True, return_inverse=True)
    return crowd, partitions.topic_most_leaders[row[limited][first]]


def _merit(choices: LeaderChoices, arc: Ints) -> tuple[float, int]:
    """Load outside the bands in mean broker loads, and changes."""
    violation = float(leader_violations(host_loads(choices, arc), choices.bands, slice(None)).sum())
    return round(violation / LEVEL) * LEVEL, int(choices.change[arc].sum())


def assign_leaders(
    brokers: Brokers, partitions: Partitions, replicas: Ints, *, leaders_band: float, out_band: float
) -> ChosenLeaders:
    """The preferred leader of each partition in ``replicas``; parameters as in ``leader_choices``."""
    choices = leader_choices(brokers, partitions, replicas, leaders_band=leaders_band, out_band=out_band)
    none = np.zeros(len(brokers))
    if not len(partitions):
        return ChosenLeaders(choices, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), none)
    fewest = flow(choices, choices.change, choices.bands)
    arc = descend(choices, fewest)
    violation, changes = _merit(choices, arc)
    if violation <= LEVEL and changes <= choices.change[fewest].sum():
        return ChosenLeaders(choices, choices.slot[arc], fewest, none)
    prices = out_prices(choices)
    priced = descend(choices, flow(choices, choices.priced(prices)[0], choices.bands))
    best = min((arc, priced), key=lambda tried: _merit(choices, tried))
    return ChosenLeaders(choices, choices.slot[best], fewest, prices)


def lead_with(replicas: Ints, slot: Ints) -> Ints:
    """Replica lists with the chosen slot first and the other replicas in their order, (P, W)."""
    order = np.argsort(np.where(np.arange(replicas.shape[1])[None, :] == slot[:, None], -1, 0), axis=1, kind="stable")
    return np.take_along_axis(replicas, order, axis=1)


class SoftDual:
    """The softened dual of some choices; it is maximised over prices theta >= 0."""

    def __init__(self, choices: LeaderChoices) -> None:
        bands = choices.bands
        self.row, self.host, self.change, self.first = choices.row, choices.host, choices.change, choices.first
        self.weights = (choices.weight / bands.scale).T.copy()
        self.lower, self.upper = (bands.lower / bands.scale).T, (bands.upper / bands.scale).T

    def at(self, theta: Floats, temperature: float) -> tuple[float, Floats]:
        """Value and gradient.

        Parameters
        ----------
        theta : (2 * 2 * B,) float64
            Price of each side (over, under), resource and broker, in changes per mean broker load.
        """
        over, under = theta.reshape(2, *self.upper.shape)
        cost = self.change.astype(np.float64)
        for price, weight in zip(over - under, self.weights, strict=True):
            cost += price[self.host] * weight
        least = np.minimum.reduceat(cost, self.first)
        share = np.exp((least[self.row] - cost) / temperature)
        total = np.add.reduceat(share, self.first)
        value = (least - temperature * np.log(total)).sum() - (over * self.upper - under * self.lower).sum()
        share /= total[self.row]
        loads = np.stack([np.bincount(self.host, share * weight, self.upper.shape[1]) for weight in self.weights])
        return float(value), np.stack([loads - self.upper, self.lower - loads]).ravel()


def out_prices(choices: LeaderChoices) -> Floats:
    """Price of bytes out on each broker, in changes per mean broker load, (B,) (formula 25 of docs/solver.md)."""
    brokers, dual = len(choices.bands.lower), SoftDual(choices)
    theta = np.zeros(4 * brokers)
    for temperature in TEMPERATURES:

        def descent(at: Floats, temperature: float = temperature) -> tuple[float, Floats]:
            value, gradient = dual.at(at, temperature)
            return -value, -gradient

        options = {"maxiter": ITERATIONS, "maxcor": MEMORY}
        box = [(0.0, HIGHEST)] * len(theta)
        theta = minimize(descent, theta, jac=True, method="L-BFGS-B", bounds=box, options=options).x
    over, under = theta.reshape(2, 2, brokers)
    return np.asarray((over - under)[1])
