"""How each partition of a cluster may change under the policy."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from optimizer.cluster_policy import DIRS, DRAIN, LEADERS, RACKS, ClusterPolicy
from optimizer.domain import NOT_LIVE, PLACEMENT_RULE, Cause, only_in
from optimizer.kafka.partition_state import CompletionRule
from optimizer.planning.arrays import replica_matrix, to_brokers
from optimizer.planning.policy.topics import by_topic, pinned_brokers, requested_factor
from optimizer.settings import Policy
from optimizer.solve.rules.pins import disorder_by_group, group_by_pins, rack_rule
from optimizer.solve.rules.racks import rack_histogram
from optimizer.topic_policy import is_excluded
from optimizer.units import agree, plural

# Columns that ``decide_partitions`` reads: of ``instance``, and ``configs`` of the topic.
FACTS = (
    *("topic", "replicas", "leader", "isr", "observers", "controller_replicas", "adding_replicas"),
    *("min_insync_replicas", "configs"),
)
# Columns that it sets.
DECIDED = (
    *("replication_factor", "mobility", "fixed_reason", "fixed_cause", "factor_refused", "factor_cause"),
    "pinned_brokers",
)
# Whether a cause is true, its code, and its words for a row.
_Causes = Sequence[tuple[pd.Series, Cause, Callable[[int], str]]]


@dataclass(frozen=True)
class _Roles:
    """Ids of brokers with a role; ``patterns`` has each broker's id and the patterns of the pins that name it, and
    ``failed`` the words for failed directories."""

    accepting: frozenset[int]
    leaving: frozenset[int]
    down: dict[int, str]
    fenced: frozenset[int]
    failed: dict[int, str]
    patterns: tuple[tuple[int, Sequence[str]], ...]


def decide_partitions(
    facts: pd.DataFrame, hosts: pd.DataFrame, requests: ClusterPolicy, policy: Policy, completion: CompletionRule
) -> pd.DataFrame:
    """Partitions of one cluster, and whether they may move; each row is decided alone.

    A partition in flight is fixed: the plan uses the replicas that its reassignment ends with. ``_fixed`` lists the
    other reasons. Without a leader or an in-sync replica Kafka can copy nothing, and its tool refuses a list that names
    a fenced broker. Where Kafka would not end a reassignment, because a replica that stays is out of sync, only the
    order of the list may change.

    Fixed and excluded partitions keep their replication factor. A partition also keeps it if too few brokers can hold
    the requested replicas, or if the requested factor is below min.insync.replicas.

    Parameters
    ----------
    facts : DataFrame
        With ``FACTS``; arrays and lists, null where a value is missing. Other columns stay.
    hosts : DataFrame
        Rows of ``instance_brokers`` of the cluster.
    requests : ClusterPolicy
        What the policy requests for the cluster.
    policy : Policy
        Its topics and excluded topics.
    completion : CompletionRule
        When Kafka ends a reassignment in this cluster.

    Returns
    -------
    DataFrame
        With ``DECIDED``.
    """
    roles, topic = _roles(hosts), facts["topic"]
    current = facts["replicas"].map(len).astype(np.int64)
    excluded_topic = partial(is_excluded, topics=policy.topics, exclude_topics=policy.exclude_topics)
    excluded = by_topic(topic, excluded_topic).astype(bool)
    factors = by_topic(topic, partial(requested_factor, policy=requests))
    requested = factors.where(factors.notna() & ~excluded, current).astype(np.int64)
    pins = by_topic(topic, partial(pinned_brokers, patterns=roles.patterns))
    usable = _usable(facts["replicas"], requested, pins, roles)
    stuck = _stuck(facts, hosts, roles, pins)
    kept_stuck = (stuck.staying > (current - requested).clip(lower=0)) & ~stuck.is_repaired
    never_shorter = kept_stuck & (completion is CompletionRule.TARGET_IF_FEWER)
    refused = _refused_factor(facts, current, requested, usable, never_shorter)
    factor_cause, factor_refused = _first(refused, facts.index)
    factor = requested.where(factor_cause.isna(), current)
    waits = kept_stuck & (completion is CompletionRule.TARGET) & (~excluded | stuck.some_leave)
    fixed_cause, fixed_reason = _first(_fixed(facts, roles, excluded, factor, pins, usable, waits), facts.index)
    mobility = pd.Series("fixed", facts.index, dtype=object).mask(fixed_cause.isna(), "free")
    mobility = mobility.mask((fixed_cause == Cause.OUT_OF_SYNC) & ~excluded, "order_only")
    decided = facts.assign(
        mobility=mobility.mask(fixed_cause == Cause.TOPIC_EXCLUDED, "forced_only"),
        fixed_cause=fixed_cause,
        fixed_reason=fixed_reason,
        factor_cause=factor_cause,
        factor_refused=factor_refused,
        pinned_brokers=pins,
    )
    decided = _with_only(decided, hosts, requests, stuck.some_leave) if requests.only else decided
    return decided.assign(replication_factor=factor.where(decided["mobility"] == "free", current))


def _roles(hosts: pd.DataFrame) -> _Roles:
    ordered = hosts.sort_values("broker_id")
    ids, states = [int(b) for b in ordered["broker_id"]], ordered["state"].tolist()
    must_empty = ordered["must_empty"].to_numpy(dtype=bool)
    down = {b: state for b, state in zip(ids, states, strict=True) if state in NOT_LIVE}
    leaving = frozenset(b for b, leaves in zip(ids, must_empty, strict=True) if leaves)
    has_failed = ordered["closed_cause"] == Cause.FAILED_DIRECTORY
    return _Roles(
        accepting=frozenset(b for b, accepts in zip(ids, ordered["accepts_replicas"], strict=True) if accepts),
        leaving=leaving,
        down=down,
        fenced=frozenset(b for b, state in down.items() if state == "fenced") - leaving,
        failed={
            b: str(text) for b, text, is_so in zip(ids, ordered["closed_reason"], has_failed, strict=True) if is_so
        },
        patterns=tuple(zip(ids, ordered["pinned_topics"], strict=True)),
    )


def _usable(replicas: pd.Series, requested: pd.Series, pins: pd.Series, roles: _Roles) -> pd.Series:
    """How many brokers may hold a replica after the plan; null if there is no pin and the replication factor stays.

    A list that gets shorter may keep live brokers that are to be emptied, unless it is pinned.
    """

    def count(placed: Iterable[int], factor: int, pin: list[int] | None) -> int | None:
        listed = [int(b) for b in placed]
        if pin is None and factor == len(listed):
            return None
        gone = roles.down if pin is None and factor < len(listed) else roles.leaving
        brokers = roles.accepting.union(b for b in listed if b not in gone)
        return len(brokers if pin is None else brokers.intersection(pin))

    return pd.Series([*map(count, replicas, requested, pins)], replicas.index, dtype="Int64")


@dataclass(frozen=True)
class _Stuck:
    """Of each partition: replicas out of sync that need not leave their broker; whether a rack repair would move the
    only one of them; whether any replica must leave its broker."""

    staying: pd.Series
    is_repaired: pd.Series
    some_leave: pd.Series


def _stuck(facts: pd.DataFrame, hosts: pd.DataFrame, roles: _Roles, pins: pd.Series) -> _Stuck:
    """Only partitions with fewer replicas in sync than in their list take time, and those that must leave a broker."""
    brokers, index = to_brokers(hosts), facts.index
    staying, is_repaired = np.zeros(len(facts), dtype=np.int64), np.zeros(len(facts), dtype=bool)
    at = np.flatnonzero(facts["isr"].map(len).to_numpy() < facts["replicas"].map(len).to_numpy())
    placed, isr = (replica_matrix(facts[name].iloc[at], brokers.ids) for name in ("replicas", "isr"))
    allowed = [np.isin(brokers.ids, brokers.ids if pin is None else pin) for pin in pins.iloc[at]]
    may_stay = np.stack([~brokers.must_empty & pin for pin in allowed]) if allowed else np.ones((0, len(brokers)), bool)
    stuck = only_in(placed, isr) & np.take_along_axis(may_stay, np.maximum(placed, 0), axis=1)
    groups = group_by_pins(brokers, facts["topic"].iloc[at].to_numpy(dtype=object))
    rule, racks = rack_rule(brokers, groups, (placed >= 0).sum(axis=1)), brokers.rack[np.maximum(placed, 0)]
    counts = rack_histogram(placed, brokers.rack, len(brokers.rack_names))
    floor = np.minimum(rule.floor[:, None], rule.sizes[groups.of])
    is_spare = (counts > rule.cap[:, None]) | ((counts < floor).any(axis=1, keepdims=True) & (counts > floor))
    repairs = (stuck & np.take_along_axis(is_spare, racks, axis=1)).any(axis=1)
    staying[at] = stuck.sum(axis=1)
    some_leave = _smallest(facts["replicas"], roles.leaving).notna()
    is_repaired[at] = repairs & (staying[at] == 1) & ~some_leave.to_numpy()[at]
    return _Stuck(pd.Series(staying, index), pd.Series(is_repaired, index), some_leave)


def _refused_factor(
    facts: pd.DataFrame, current: pd.Series, requested: pd.Series, usable: pd.Series, never_shorter: pd.Series
) -> _Causes:
    """Why a partition keeps its replication factor."""
    min_isr = facts["min_insync_replicas"].astype("Int64")

    def too_few(row: int) -> str:
        return f"{_count(requested, row, 'replica')} requested, but only {_count(usable, row, 'broker')} can hold them"

    def under_min_isr(row: int) -> str:
        return f"{_count(requested, row, 'replica')} requested, but min.insync.replicas is {min_isr.iloc[row]}"

    return (
        ((requested != current) & (usable < requested), Cause.TOO_FEW_BROKERS, too_few),
        ((requested < current) & (requested < min_isr), Cause.UNDER_MIN_IN_SYNC, under_min_isr),
        (
            (requested < current) & never_shorter,
            Cause.OUT_OF_SYNC,
            lambda row: f"{_count(requested, row, 'replica')} requested, but {_out_of_sync(facts, row)}",
        ),
    )


def _fixed(
    facts: pd.DataFrame,
    roles: _Roles,
    excluded: pd.Series,
    factor: pd.Series,
    pins: pd.Series,
    usable: pd.Series,
    waits: pd.Series,
) -> _Causes:
    """Why a partition is not free."""
    in_flight = facts["controller_replicas"].notna()
    moving_to = _smallest(facts["adding_replicas"].where(in_flight), roles.down)
    fenced_on = _smallest(facts["replicas"], roles.fenced)
    failed_on = _smallest(facts["replicas"], roles.failed)
    is_failed = facts["leader"].isna() & facts["replicas"].map(frozenset(roles.failed).issuperset)
    has_observers = facts["observers"].map(lambda brokers: bool(np.size(brokers)) and np.ndim(brokers) > 0)
    own_rule = facts["configs"].map(lambda configs: isinstance(configs, str) and PLACEMENT_RULE in configs)

    def cannot_end(row: int) -> str:
        broker = int(moving_to.iloc[row])
        return f"its reassignment cannot end: broker {broker} is {roles.down[broker]}"

    def on_failed(row: int) -> str:
        broker = int(failed_on.iloc[row])
        return f"leaderless: {roles.failed[broker]} of broker {broker}"

    def pin_allows(row: int) -> str:
        return f"its pin allows only {_count(usable, row, 'broker')} for {_count(factor, row, 'replica')}"

    return (
        (moving_to.notna(), Cause.MOVE_CANNOT_END, cannot_end),
        (in_flight, Cause.IN_FLIGHT, lambda _: "its reassignment is still running"),
        (is_failed, Cause.FAILED_DIRECTORY, on_failed),
        (facts["leader"].isna(), Cause.LEADERLESS, lambda _: "leaderless"),
        (facts["isr"].map(len) == 0, Cause.NO_IN_SYNC_REPLICA, lambda _: "no in-sync replica"),
        (fenced_on.notna(), Cause.ON_FENCED_BROKER, lambda row: f"a replica on fenced broker {fenced_on.iloc[row]}"),
        (pins.notna() & (usable < factor), Cause.PIN_TOO_SMALL, pin_allows),
        (
            has_observers,
            Cause.OWN_PLACEMENT_RULE,
            lambda _: "it has observers, which Kafka's tools cannot name",
        ),
        (own_rule, Cause.OWN_PLACEMENT_RULE, lambda _: f"placed by its own rule {PLACEMENT_RULE}"),
        (waits, Cause.OUT_OF_SYNC, lambda row: _out_of_sync(facts, row)),
        (excluded, Cause.TOPIC_EXCLUDED, lambda _: "topic excluded"),
    )


def _out_of_sync(facts: pd.DataFrame, row: int) -> str:
    isr = {int(b) for b in facts["isr"].iloc[row]}
    stuck = [str(b) for b in facts["replicas"].iloc[row] if b not in isr]
    brokers = f"{agree(len(stuck), 'broker', 'brokers')} {', '.join(stuck)} {agree(len(stuck), 'is', 'are')}"
    return f"{brokers} out of sync: Kafka would not end a reassignment that keeps {agree(len(stuck), 'it', 'them')}"


def _count(counts: pd.Series, row: int, noun: str) -> str:
    return plural(int(counts.iloc[row]), noun)


def _smallest(lists: pd.Series, brokers: Collection[int]) -> pd.Series:
    """The smallest of these brokers in each list; null without one, and for a missing list."""
    named = [[int(b) for b in listed if b in brokers] if brokers and np.ndim(listed) else [] for listed in lists]
    return pd.Series([min(ids, default=None) for ids in named], lists.index, dtype="Int64")


def _first(causes: _Causes, index: pd.Index) -> tuple[pd.Series, pd.Series]:
    """Code and words of the first cause that is true; null if none is true."""
    is_true = np.stack([np.asarray(mask.fillna(False), dtype=bool) for mask, _, _ in causes])
    code, words = np.full((2, len(index)), None, dtype=object)
    for row in np.flatnonzero(is_true.any(axis=0)).tolist():
        _, cause, words_of = causes[int(is_true[:, row].argmax())]
        code[row], words[row] = cause.value, words_of(row)
    return pd.Series(code, index, dtype=object), pd.Series(words, index, dtype=object)


def _with_only(
    partitions: pd.DataFrame, hosts: pd.DataFrame, requests: ClusterPolicy, some_leave: pd.Series
) -> pd.DataFrame:
    """The ``mobility`` that ``only`` allows; partitions that were free get its ``fixed_cause``.

    Under ``only`` no replication factor changes, so none is refused. A partition with a replica out of sync waits only
    if its brokers would change.
    """
    waits = partitions["mobility"] == "order_only"
    was_free = waits | (partitions["mobility"] == "free")
    mobility = _mobility(partitions, was_free, hosts, requests)
    waits &= (mobility == "racks_only") | ((mobility == "forced_only") & some_leave)
    excluded = was_free & ~waits
    return partitions.assign(
        mobility=mobility.mask(waits, "fixed"),
        fixed_cause=partitions["fixed_cause"].mask(excluded, Cause.ONLY.value),
        fixed_reason=partitions["fixed_reason"].mask(excluded, "excluded by only"),
        factor_cause=None,
        factor_refused=None,
    )


def _mobility(partitions: pd.DataFrame, was_free: pd.Series, hosts: pd.DataFrame, requests: ClusterPolicy) -> pd.Series:
    """How a partition may change. Excluded topics leave drained brokers and are not changed otherwise."""
    if requests.only == DRAIN:
        return partitions["mobility"].mask(was_free, "forced_only")
    fixed = pd.Series("fixed", partitions.index, dtype=object)
    if requests.only == RACKS:
        return fixed.mask(was_free & _breaks_racks(partitions, hosts), "racks_only")
    if requests.only == LEADERS:
        return fixed.mask(was_free, "order_only")
    if requests.only == DIRS:
        return fixed
    first = partitions["replicas"].map(lambda listed: int(listed[0]))
    return fixed.mask(was_free & first.isin(requests.demote_brokers), "order_only")


def _breaks_racks(partitions: pd.DataFrame, hosts: pd.DataFrame) -> pd.Series:
    """Whether partitions break the rack rule, within their pins."""
    brokers = to_brokers(hosts)
    placed = replica_matrix(partitions["replicas"], brokers.ids)
    groups = group_by_pins(brokers, partitions["topic"].to_numpy(dtype=object))
    rule = rack_rule(brokers, groups, (placed >= 0).sum(axis=1))
    histogram = rack_histogram(placed, brokers.rack, len(brokers.rack_names))
    return pd.Series(disorder_by_group(histogram, rule, groups.of) > 0, partitions.index)
